"""What a row of hits and misses says about rounds of speculative decoding.

A hit is a position where the drafter's guess is the token the text really goes on with.
Where the text is the target's greedy choice, or the guess is certain (a copied token, drawn
with probability one), accepting a guess and hitting the text are the same event in law; so
rounds can be counted from one pass over the text. Pure: knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Hits = npt.NDArray[np.bool_]  # (positions of one reply,)


def histogram(replies: Sequence[Hits], k: int) -> list[int]:
    """How many rounds of k guesses accept exactly 0 … k, decoding each reply from its start."""
    counts = [0] * (k + 1)
    for hits in replies:
        at = 0
        while at < len(hits):
            run = hits[at : at + k]
            accepted = int(run.argmin()) if not run.all() else len(run)
            counts[accepted] += 1
            at += accepted + 1
    return counts


def mean_acceptance_length(counts: Sequence[int]) -> float:
    """Tokens a round: 1 + accepted guesses ÷ rounds, of a histogram."""
    return 1 + sum(accepted * n for accepted, n in enumerate(counts)) / max(1, sum(counts))


def match_by_position(replies: Sequence[Hits], positions: int) -> list[float]:
    """Share of hits at guess 1, 2 … of a chain, given that all guesses before it hit.

    Every position of every reply begins one chain.
    """
    reached = [0] * positions
    hit = [0] * positions
    for hits in replies:
        alive = np.ones(len(hits), dtype=np.bool_)
        for place in range(min(positions, len(hits))):
            alive = alive[: len(hits) - place]
            reached[place] += int(alive.sum())
            alive = alive & hits[place:]
            hit[place] += int(alive.sum())
    return [n / max(1, total) for n, total in zip(hit, reached, strict=True)]
