"""How often a student guesses right on prompts it never saw.

    python -m engine.training.evaluate assets/drafters/small --target FOLDER --text TEXT.npz

takes the name of a low-bit copy (``copy-4g64``) in the place of a folder, too.

Two kinds of figure, both measured, none of them timed: `Watch` is the greedy match on a few
held-out rows, cheap enough to take during training; `measure` is everything the card says.

Rows written at temperature 0 *are* the target's greedy choices, and a drafter with its own
cache sees the same ids whether they were guessed or given; so its rounds on those rows are
known exactly from one pass over the text, without decoding (`rounds`).
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.arguments import number
from engine.lowbit import HEAD_WIDTH, LADDER, Width, encode
from engine.tokenizer import Tokenizer
from engine.training import corpus as text
from engine.training import inputs, machine, rounds
from engine.training.kinds import load
from engine.training.student import Student
from engine.training.teacher import Plan, Target, predicting

WATCH_ROWS = 40  # of each of the three held-out groups
ALPHA_ROWS = 80  # held-out rows at temperature 0.7 for which the target is run again
ALPHA_TEMPERATURE = 0.7
FAMILY_ROWS = 4  # of a family that is not among them
ROWS_PER_PASS = 8
K = (1, 2, 3, 4)

# Why a row was withheld: the names of its groups in figures taken during training.
REASONS = ("family", "template", "topic")

Figures = dict[str, Any]


@torch.no_grad()
def guesses(student: Student, corpus: text.Corpus, rows: Sequence[int]) -> Tensor:
    """The student's likeliest ids at every reply position of the rows, packed.

    (guesses ahead, positions): the n-th line is what the n-th guess of a round would be.
    """
    best = []
    for start in range(0, len(rows), ROWS_PER_PASS):
        batch = list(rows[start : start + ROWS_PER_PASS])
        positions = predicting(corpus, batch)
        ahead = student.ahead([corpus.row(row) for row in batch], student.depth)
        logits = (student.logits(hidden[positions]) for hidden in ahead)
        best.append(torch.stack([student.vocab_ids[each.argmax(-1)] for each in logits]))
    return torch.cat(best, dim=1)


@dataclass(frozen=True)
class Watch:
    """A few held-out rows with the target's own best next token at every reply position."""

    groups: dict[str, tuple[int, ...]]  # reason withheld -> rows
    best: Tensor  # (reply positions of all groups in order,) int64

    @classmethod
    def load(cls, plan: Plan, seed: int) -> Watch:
        """Choose the rows by seed; the target's choices are kept in the work folder."""
        source = np.random.default_rng(seed)
        groups = {
            name: tuple(int(row) for row in source.permutation(rows)[:WATCH_ROWS])
            for name, rows in zip(REASONS, plan.split.by_reason, strict=True)
            if rows
        }
        path = plan.work / "watch.npz"
        rows = [row for group in groups.values() for row in group]
        mark = plan.mark(rows)
        if path.exists():
            with np.load(path) as arrays:
                if arrays.get("of", 0) == mark:
                    return cls(groups, torch.tensor(arrays["best"]))
        best = target_best(plan.target, plan.corpus, rows)
        partial = plan.work / "watch.partial"
        with partial.open("wb") as file:
            np.savez(file, of=mark, best=best.cpu().numpy())
        os.replace(partial, path)
        return cls(groups, best)

    def match(self, student: Student, corpus: text.Corpus) -> dict[str, float]:
        """Share of positions where the student's best token is the target's, by group.

        Of the first guess; of those further ahead, where they differ, over all groups.
        """
        rows = [row for group in self.groups.values() for row in group]
        hits = guesses(student, corpus, rows) == self.best
        sizes = [corpus.reply_tokens(group) for group in self.groups.values()]
        parts = zip(self.groups, torch.split(hits[0], sizes), strict=True)
        further = {f"guess {n}": _mean(line) for n, line in enumerate(hits[1:], 2)}
        return {"all": _mean(hits[0]), **{name: _mean(part) for name, part in parts}, **further}


def _mean(values: Tensor) -> float:
    return float(values.float().mean())


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


def measure(
    student: Student,
    target: Target,
    corpus: text.Corpus,
    split: text.Split,
    replies: int | None = None,
) -> Figures:
    """All held-out figures of a card: greedy by reason withheld and by family, and alpha.

    `replies` limits both the greedy replies and the sampled ones, drawn by seed 0.
    """
    greedy = greedy_rows(corpus, split, replies)
    found = dict(zip(greedy, hits(student, corpus, greedy), strict=True))
    families = sorted({split.families[row] for row in greedy})
    written = np.concatenate([corpus.reply(row) for row in split.held_out])
    return {
        "vocabulary_coverage": float(np.isin(written, student.vocab_ids.cpu().numpy()).mean()),
        "temperature_0": summary(list(found.values())),
        "by_reason": {
            f"unseen {name}": summary([found[row] for row in rows if row in found])
            for name, rows in zip(REASONS, split.by_reason, strict=True)
        },
        "by_family": {
            family: summary([found[row] for row in greedy if split.families[row] == family])
            for family in families
        },
        "temperature_0.7": alphas(student, target, corpus, split, replies),
    }


def greedy_rows(corpus: text.Corpus, split: text.Split, replies: int | None = None) -> list[int]:
    """The held-out rows written at temperature 0; so many of them, drawn by seed 0."""
    rows = [row for row in split.held_out if corpus.temperature[row] == 0]
    return sorted(np.random.default_rng(0).permutation(rows)[:replies].tolist())


def hits(student: Student, corpus: text.Corpus, rows: Sequence[int]) -> list[rounds.Hits]:
    """Per row: where the student's likeliest tokens are the one the text goes on with."""
    best = guesses(student, corpus, rows).cpu().numpy()
    ends = np.cumsum([len(corpus.reply(row)) for row in rows])[:-1]
    return [
        guessed == corpus.reply(row)
        for guessed, row in zip(np.split(best, ends, axis=1), rows, strict=True)
    ]


def summary(replies: Sequence[rounds.Hits]) -> Figures:
    counts = {k: rounds.histogram(replies, k) for k in K}
    return {
        "replies": len(replies),
        "positions": sum(reply.shape[-1] for reply in replies),
        "match_by_position": [round(share, 4) for share in rounds.match_by_position(replies, 4)],
        "tokens_per_round": {str(k): round(rounds.mean_acceptance_length(counts[k]), 4) for k in K},
        "histogram_k4": counts[4],
    }


def alphas(
    student: Student,
    target: Target,
    corpus: text.Corpus,
    split: text.Split,
    replies: int | None = None,
) -> Figures:
    """Chance that one sampled guess is accepted, at `ALPHA_TEMPERATURE`, overall and by family.

    On text the target sampled at that temperature: the mean over positions of the sum over
    tokens of min(target law, draft law), which is that chance exactly. `alpha_by_guess` has that
    of each guess further ahead too, those before it being right. Of a family that the draw left out
    some replies are measured for its own figure alone.
    """
    rows = [row for row in split.held_out if np.isclose(corpus.temperature[row], ALPHA_TEMPERATURE)]
    drawn = np.random.default_rng(0).permutation(rows).tolist()
    rows = sorted(drawn[: min(ALPHA_ROWS, replies or ALPHA_ROWS)])
    groups: dict[str, list[int]] = {}
    for row in drawn:
        groups.setdefault(split.families[row], []).append(row)
    groups = {
        family: [row for row in group if row in rows] or group[:FAMILY_ROWS]
        for family, group in sorted(groups.items())
    }
    measured = sorted({*rows, *(row for group in groups.values() for row in group)})
    found = {row: accept_chances(student, target, corpus, row) for row in measured}
    chances = [found[row] for row in rows]
    return {
        "replies": len(rows),
        "positions": sum(chance.shape[1] for chance in chances),
        "alpha": round(_mean(torch.cat([chance[0] for chance in chances])), 4),
        "alpha_by_guess": [
            round(_mean(torch.cat(guess)), 4) for guess in zip(*chances, strict=True)
        ],
        "by_family": {
            family: round(_mean(torch.cat([found[row][0] for row in group])), 4)
            for family, group in groups.items()
        },
    }


@torch.no_grad()
def accept_chances(student: Student, target: Target, corpus: text.Corpus, row: int) -> Tensor:
    """The overlap of target law and draft law in one row: (guesses ahead, reply positions)."""
    positions = predicting(corpus, [row])
    ids = corpus.row(row)
    target_logits = target.hidden([ids])[positions] @ target.embedding.T
    target_probs = (target_logits / ALPHA_TEMPERATURE).softmax(-1)
    known = target_probs[:, student.vocab_ids]
    overlaps = []
    for hidden in student.ahead([ids], student.depth):
        draft_probs = (student.logits(hidden[positions]) / ALPHA_TEMPERATURE).softmax(-1)
        overlaps.append(torch.minimum(known, draft_probs).sum(-1))
    return torch.stack(overlaps)


def rounded(target: Target, width: Width) -> Student:
    """The target at fewer bits, as `lowbit.copy_of` makes the drafters ``copy-…``."""
    copy = Student(target, target.shape.layers, torch.arange(target.shape.vocab_size))
    matrices = {
        name: encode(tensor.float(), width).dense() if tensor.dim() == 2 else tensor
        for name, tensor in target.decoder.state_dict().items()
    }
    copy.decoder.load_state_dict(matrices)
    copy.head = encode(copy.head, HEAD_WIDTH).dense()
    return copy


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("drafter", help="folder of an exported drafter, or a low-bit copy's name")
    parser.add_argument("--target", type=inputs.target, required=True, help="folder of the target")
    parser.add_argument(
        "--text", type=inputs.text, nargs="+", required=True, help="the target's own text, .npz"
    )
    parser.add_argument("--replies", type=number(int, 1), help="as for `ship`")
    machine.add_options(parser)
    options = parser.parse_args()
    machine.use(options)
    target = Target.load(options.target)
    corpus = text.load(*options.text)
    split = text.split(corpus, Tokenizer.from_folder(options.target))
    split.check(corpus)
    name = options.drafter
    student = rounded(target, LADDER[name]) if name in LADDER else load(Path(name), target)
    print(json.dumps(measure(student, target, corpus, split, options.replies), indent=2))


if __name__ == "__main__":
    inputs.told(main)
