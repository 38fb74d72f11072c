"""Writes a tiny random model that never ends its text: ``python endless_model.py FOLDER``.

A program of its own, so that the tests of the window need no torch in their process.
"""

from __future__ import annotations

import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

ENGINE_TESTS = Path(__file__).parents[1] / "engine"


def write(folder: Path) -> None:
    """A two-layer model over bytes, its rows wide enough for every low-bit group."""
    sys.path.insert(0, str(ENGINE_TESTS))
    import saved_model

    saved_model.HIDDEN = saved_model.MLP = 64
    saved_model.save(folder)
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    tensors["lm_head.weight"][-2:] = 0.0  # the special tokens: never the likeliest
    save_file(tensors, weights)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
