"""How often a student guesses right on prompts it never saw.

Two kinds of figure, both measured, none of them timed:

- `Watch`: the greedy match on a few held-out rows, cheap enough to take during training;
- `measure`: everything the card says, on all held-out rows.

Rows written at temperature 0 *are* the target's greedy choices, and a drafter with its own
cache sees the same ids whether they were guessed or given; so its rounds on those rows are
known exactly from one pass over the text, without decoding (`rounds`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from torch import Tensor

from engine.training import corpus as text
from engine.training.student import Student, packed
from engine.training.teacher import Target, predicting, working_dtype

WATCH_ROWS = 40  # of each of the three held-out groups
ROWS_PER_PASS = 8

Flags = npt.NDArray[np.bool_]


@torch.no_grad()
def guesses(student: Student, corpus: text.Corpus, rows: Sequence[int]) -> Tensor:
    """The student's likeliest id at every reply position of the rows, packed."""
    best = []
    for start in range(0, len(rows), ROWS_PER_PASS):
        batch = list(rows[start : start + ROWS_PER_PASS])
        hidden = student.hidden(*packed([corpus.row(row) for row in batch]))
        logits = student.logits(hidden[predicting(corpus, batch)])
        best.append(student.vocab_ids[logits.argmax(-1)])
    return torch.cat(best)


@dataclass(frozen=True)
class Watch:
    """A few held-out rows with the target's own best next token at every reply position."""

    groups: dict[str, tuple[int, ...]]  # reason withheld -> rows
    best: Tensor  # (reply positions of all groups in order,) int64

    @classmethod
    def load(cls, folder: Path, corpus: text.Corpus, work: Path, seed: int) -> Watch:
        """Choose the rows by seed; the target's choices are kept in the work folder."""
        split = text.split(corpus, Tokenizer.from_file(str(folder / "tokenizer.json")))
        source = np.random.default_rng(seed)
        groups = {
            name: tuple(int(row) for row in source.permutation(rows)[:WATCH_ROWS])
            for name, rows in (
                ("family", split.unseen_family),
                ("template", split.unseen_template),
                ("topic", split.unseen_topic),
            )
        }
        path = work / "watch.npz"
        rows = [row for group in groups.values() for row in group]
        if path.exists():
            with np.load(path) as arrays:
                if arrays["rows"].tolist() == rows:
                    return cls(groups, torch.from_numpy(arrays["best"]))
        best = target_best(Target.load(folder, working_dtype()), corpus, rows)
        with (work / "watch.tmp").open("wb") as file:
            np.savez(file, rows=np.asarray(rows), best=best.numpy())
        os.replace(work / "watch.tmp", path)
        return cls(groups, best)

    def match(self, student: Student, corpus: text.Corpus) -> dict[str, float]:
        """Share of positions where the student's best token is the target's, by group."""
        rows = [row for group in self.groups.values() for row in group]
        hits = guesses(student, corpus, rows) == self.best
        sizes = [corpus.reply_tokens(group) for group in self.groups.values()]
        parts = zip(self.groups, hits.split(sizes), strict=True)
        return {"all": _mean(hits), **{name: _mean(part) for name, part in parts}}


def _mean(flags: Tensor) -> float:
    return float(flags.float().mean())


def target_best(target: Target, corpus: text.Corpus, rows: Sequence[int]) -> Tensor:
    """The target's likeliest id of the whole vocabulary at every reply position, packed."""
    dtype = next(target.decoder.layers.parameters()).dtype
    head = target.embedding.to(dtype)
    best = []
    for start in range(0, len(rows), ROWS_PER_PASS):
        batch = list(rows[start : start + ROWS_PER_PASS])
        hidden = target.hidden([corpus.row(row) for row in batch])
        best.append((hidden[predicting(corpus, batch)].to(dtype) @ head.T).argmax(-1))
    return torch.cat(best)
