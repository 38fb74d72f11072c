"""How often the target writes each token: the law the quality dial mixes in.

    python -m engine.training.unigram TEXT.npz --target FOLDER --out assets/drafters/unigram.npz

Writes ``probs`` (vocab,) float32, summing to 1. One is added to every count, so that no
token is impossible under the mixed law.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.training import corpus as text
from engine.training import inputs


def law(corpus: text.Corpus, vocab_size: int) -> npt.NDArray[np.float32]:
    """Add-one smoothed share of each id among all replies, (vocab,)."""
    written = np.concatenate([corpus.reply(row) for row in range(len(corpus))])
    counts = np.bincount(written, minlength=vocab_size) + 1
    shares: npt.NDArray[np.float32] = (counts / counts.sum()).astype(np.float32)
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=inputs.text, nargs="+", help="the target's own text, .npz")
    parser.add_argument("--target", type=inputs.target, required=True, help="folder of the target")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    vocab_size = json.loads((options.target / "config.json").read_text())["vocab_size"]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    probs = law(text.load(*options.text), vocab_size)
    np.savez_compressed(options.out, probs=probs)
    print(f"{options.out}: {vocab_size:,} ids, the likeliest written {probs.max():.1%} of the time")


if __name__ == "__main__":
    inputs.told(main)
