"""What a row of hits and misses says about rounds of speculative decoding.

A hit is a position where the drafter's guess is the token the text really goes on with.
Where the text is the target's greedy choice, or the guess is certain (a copied token, drawn
with probability one), accepting a guess and hitting the text are the same event in law; so
rounds can be counted from one pass over the text. Pure: knows nothing of models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Hits = npt.NDArray[np.bool_]
"""Of one reply: (positions,), or (guesses ahead, positions) where the n-th guess of a round,
the guesses before it being right, is not the first guess made there. Guesses further ahead
than there are lines are like the last."""


def histogram(replies: Sequence[Hits], k: int) -> list[int]:
    """How many rounds of k guesses accept exactly 0 … k, decoding each reply from its start."""
    counts = [0] * (k + 1)
    for hits in replies:
        at = 0
        while at < hits.shape[-1]:
            run = _round(hits, at, k)
            accepted = int(run.argmin()) if not run.all() else len(run)
            counts[accepted] += 1
            at += accepted + 1
    return counts


def _round(hits: Hits, at: int, k: int) -> Hits:
    """Hits of the k guesses of a round that begins at position `at`; fewer at the end."""
    lines = np.atleast_2d(hits)
    places = np.arange(min(k, lines.shape[1] - at))
    run: Hits = lines[np.minimum(places, len(lines) - 1), at + places]
    return run


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
        lines = np.atleast_2d(hits)
        length = lines.shape[1]
        alive = np.ones(length, dtype=np.bool_)
        for place in range(min(positions, length)):
            alive = alive[: length - place]
            reached[place] += int(alive.sum())
            alive = alive & lines[min(place, len(lines) - 1), place:]
            hit[place] += int(alive.sum())
    return [n / max(1, total) for n, total in zip(hit, reached, strict=True)]


Ranks = npt.NDArray[np.int64]
"""Of one reply, (guesses ahead, positions): where in the n-th guess's order, 0 for its likeliest,
stands the token the text really goes on with; -1 where it is not in it."""

Path = tuple[int, ...]
"""A node of a tree: at each place from the root down, which of the guesses there it takes."""


def best_tree(replies: Sequence[Ranks], nodes: int) -> list[Path]:
    """The nodes of the tree that accepts most, best first: any first few are the best so few.

    A node is worth the share of rounds in which the text goes down to it; every position of every
    reply begins one. Of what could come next, the first child of a node or its next sibling, the
    worthiest does (Cai et al. 2024, Medusa, section 2.3.3, where a path's worth is the product of
    the heads' own rates; here the paths themselves are counted).
    """
    worth: Counter[Path] = Counter()
    for ranks in replies:
        for at in range(ranks.shape[1]):
            worth.update(_way(ranks, at))
    tree: list[Path] = []
    following: list[Path] = [(0,)]
    while len(tree) < nodes:
        best = max(following, key=lambda path: (worth[path], -len(path)))
        tree.append(best)
        following.remove(best)
        following.append((*best[:-1], best[-1] + 1))
        if len(best) < len(replies[0]):
            following.append((*best, 0))
    return tree


def tree_histogram(replies: Sequence[Ranks], tree: Sequence[Path]) -> list[int]:
    """How many rounds with this tree accept 0, 1 … guesses, decoding each reply from its start."""
    counts = [0] * (1 + max(map(len, tree), default=0))
    nodes = set(tree)
    for ranks in replies:
        at = 0
        while at < ranks.shape[1]:
            accepted = sum(path in nodes for path in _way(ranks, at))
            counts[accepted] += 1
            at += accepted + 1
    return counts


def _way(ranks: Ranks, at: int) -> Iterator[Path]:
    """The paths, longer and longer, that the text takes in a round beginning at position `at`."""
    path: Path = ()
    for place in range(min(len(ranks), ranks.shape[1] - at)):
        rank = int(ranks[place, at + place])
        if rank < 0:
            return
        path = (*path, rank)
        yield path
