"""The folder that trained drafters are taken from: whether they were made for this target.

Each lies in a folder of its own name, as `engine.training` writes it; some may be missing. Knows
shapes and names; reads no weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from engine.weights import LlamaConfig, ModelError


def check(folder: Path, target: LlamaConfig) -> Path:
    """Return `folder`. Raises ModelError, one clear sentence, where its drafters do not fit.

    A file that cannot be read is left to whoever wants that drafter.
    """
    if not folder.is_dir():
        raise ModelError(f"{folder} is no folder of drafters")
    if (folder / "config.json").is_file():
        raise ModelError(f"{folder} is a drafter itself: name the folder it lies in")
    shapes, stores = sorted(folder.glob("*/config.json")), sorted(folder.glob("*/store.npz"))
    if not shapes and not stores:
        raise ModelError(f"{folder} holds no drafter: each lies there in a folder of its name")
    for path in shapes:
        body = _read(path)
        sizes = {"hidden_size": target.hidden_size, "vocab_size": target.vocab_size}
        for name, size in sizes.items():
            if body.get(name, size) != size:
                raise ModelError(
                    f"{path.parent} was made for another target: its {name} is {body[name]}, and "
                    f"this target's is {size}"
                )
    for path in stores:
        if (largest := _largest(path)) >= target.vocab_size:
            raise ModelError(
                f"{path.parent} was made for another target: it holds the id {largest}, and this "
                f"target's vocab_size is {target.vocab_size}"
            )
    return folder


def _read(path: Path) -> dict[str, object]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}


def _largest(path: Path) -> int:
    """The largest id of a store."""
    try:
        with np.load(path) as arrays:
            return int(arrays["ids"].max())
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return -1
