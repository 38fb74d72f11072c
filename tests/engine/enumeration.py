"""Exact laws of what comes out of a verification: every draft, every verdict, nothing sampled.

Two ways, neither trusting the other. `grid_law` runs a chain over every accept draw of a discrete
uniform, in exact binary fractions. `stated_law` takes the chances a verdict states, and forces
each branch with draws that lie a hair below or above its stated chance.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from engine.verification import ROOT, Verdict

Text = tuple[int, ...]
Law = Callable[[Text], Tensor]
Chances = dict[Text, float]
VerifyChain = Callable[[Tensor, Tensor, Sequence[int], Sequence[float], float], Verdict]
VerifyTree = Callable[
    [Tensor, Tensor, Sequence[int], Sequence[int], Sequence[float], float], Verdict
]

QUARTERS = 4
"""A uniform of four values is exact while every target / draft ratio is a multiple of 1/4."""

HAIR = 1e-12
ALMOST_ONE = 1 - 2**-53


def eighths(*numerators: int) -> Tensor:
    assert sum(numerators) == 8
    return torch.tensor(numerators, dtype=torch.float64) / 8


TARGETS = [eighths(1, 5, 2), eighths(3, 0, 5), eighths(2, 2, 4), eighths(6, 1, 1), eighths(0, 8, 0)]
DRAFTS = [eighths(2, 2, 4), eighths(4, 2, 2), eighths(2, 4, 2), eighths(4, 4, 0)]


def target_law(prefix: Text) -> Tensor:
    """A law that differs with the whole prefix, in eighths."""
    return TARGETS[sum((i + 2) * (token + 1) for i, token in enumerate(prefix)) % len(TARGETS)]


def draft_law(prefix: Text) -> Tensor:
    """Another, whose entries are 0, 1/4 or 1/2."""
    return DRAFTS[sum((i + 1) * (token + 2) for i, token in enumerate(prefix)) % len(DRAFTS)]


def one_hot_law(law: Law) -> Law:
    """The drafter that says the likeliest token of `law` and nothing else."""
    return lambda prefix: torch.eye(3, dtype=torch.float64)[law(prefix).argmax()]


def rows(law: Law, tokens: Sequence[int], count: int) -> Tensor:
    return torch.stack([law(tuple(tokens[:i])) for i in range(count)])


def chain_law(law: Law, length: int) -> Chances:
    """The law of `length` tokens the target writes alone."""
    out = {}
    for text in itertools.product(range(len(law(()))), repeat=length):
        chance = 1.0
        for i, token in enumerate(text):
            chance *= float(law(text[:i])[token])
        out[text] = chance
    return out


def extend(out: Chances, law: Law, length: int) -> Chances:
    """Let the target write on alone until every text has `length` tokens."""
    done: Chances = defaultdict(float)
    for text, chance in out.items():
        for more, tail in chain_law(lambda p, t=text: law(t + p), length - len(text)).items():
            done[text + more] += chance * tail
    return done


def difference(law: Law, length: int, found: Chances) -> float:
    """Largest difference between `found` and the law of the target alone."""
    return max(
        abs(chance - found.get(text, 0.0)) for text, chance in chain_law(law, length).items()
    )


# --- chains, over a grid of draws -------------------------------------------------------------


def grid_law(verify: VerifyChain, target: Law, draft: Law, k: int, grain: int) -> Chances:
    """The law of k + 1 tokens, of which the first come out of one round of `verify`.

    Each accept draw takes `grain` equally likely values: 0, 1/grain, …
    """
    grid = [i / grain for i in range(grain)]
    out: Chances = defaultdict(float)
    for guesses in itertools.product(range(len(draft(()))), repeat=k):
        draft_rows = rows(draft, guesses, k) if k else torch.zeros(0, 3, dtype=torch.float64)
        chance = 1.0
        for i, token in enumerate(guesses):
            chance *= float(draft_rows[i, token])
        if chance == 0:
            continue
        target_rows = rows(target, guesses, k + 1)
        for draws in itertools.product(grid, repeat=k):
            verdict = verify(target_rows, draft_rows, guesses, draws, 0.5)
            for token, emit in enumerate(verdict.emit_probs.tolist()):
                out[(*guesses[: len(verdict.path)], token)] += chance * emit / grain**k
    return extend(out, target, k + 1)


def distance(
    verify: VerifyChain,
    k: int,
    target: Law = target_law,
    draft: Law = draft_law,
    grain: int = QUARTERS,
) -> float:
    """Largest difference between the law of a round and that of the target alone."""
    return difference(target, k + 1, grid_law(verify, target, draft, k, grain))


# --- trees, by the stated chances -------------------------------------------------------------

Siblings = Callable[[Tensor, Text], Tensor]
"""The law of the next sibling, from the drafter's own (V,) and the elder siblings' tokens."""


def without_replacement(law: Tensor, elder: Text) -> Tensor:
    """Siblings drawn one after another, none twice."""
    left = law.clone()
    left[list(elder)] = 0.0
    return left / left.sum()


def likeliest(law: Tensor, elder: Text) -> Tensor:
    """Siblings not drawn at all: the drafter's likeliest tokens, in order."""
    order = law.argsort(descending=True, stable=True)
    return torch.eye(len(law), dtype=law.dtype)[order[len(elder)]]


def depth(shape: Sequence[int]) -> int:
    """Guesses on the longest path of a tree, given each node's parent."""
    depths = [0]
    for parent in shape:
        depths.append(depths[parent + 1] + 1)
    return max(depths)


def drafts(
    shape: Sequence[int], draft: Law, siblings: Siblings
) -> Iterator[tuple[list[Text], list[Tensor], float]]:
    """Every tree of this shape that can be drafted: texts of its nodes, laws, and its chance."""
    pending: list[tuple[list[Text], list[Tensor], float]] = [([], [], 1.0)]
    while pending:
        texts, laws, chance = pending.pop()
        node = len(texts)
        if node == len(shape):
            yield texts, laws, chance
            continue
        prefix = () if shape[node] == ROOT else texts[shape[node]]
        elder = tuple(texts[i][-1] for i in range(node) if shape[i] == shape[node])
        law = siblings(draft(prefix), elder)
        pending += [
            ([*texts, (*prefix, token)], [*laws, law], chance * float(law[token]))
            for token in law.nonzero().squeeze(-1).tolist()
        ]


def stated_law(
    verify: VerifyTree,
    shape: Sequence[int],
    target: Law = target_law,
    draft: Law = draft_law,
    siblings: Siblings = without_replacement,
) -> Chances:
    """The law of the first tokens, of which some come out of one round of `verify`."""
    out: Chances = defaultdict(float)
    for texts, laws, chance in drafts(shape, draft, siblings):
        target_rows = torch.stack([target(()), *map(target, texts)])
        draft_rows = torch.stack(laws)
        tokens = [text[-1] for text in texts]
        stated = verify(target_rows, draft_rows, tokens, shape, [0.0] * len(shape), 0.5)
        for passing in itertools.product((True, False), repeat=len(shape)):
            weight, draws = chance, []
            for passes, accept in zip(passing, stated.accept_probs, strict=True):
                weight *= accept if passes else 1 - accept
                draws.append(near(accept, passes))
            if weight > 0:
                verdict = verify(target_rows, draft_rows, tokens, shape, draws, 0.5)
                kept = texts[verdict.path[-1]] if verdict.path else ()
                for token, emit in enumerate(verdict.emit_probs.tolist()):
                    out[(*kept, token)] += weight * emit
    return extend(out, target, depth(shape) + 1)


def near(chance: float, passes: bool) -> float:
    """A draw a hair to the side of `chance` on which a guess passes, or does not."""
    if passes:
        return chance * (1 - HAIR) if chance < 1 else ALMOST_ONE
    return min(chance * (1 + HAIR), ALMOST_ONE)


def tree_distance(
    verify: VerifyTree,
    shape: Sequence[int],
    target: Law = target_law,
    draft: Law = draft_law,
    siblings: Siblings = without_replacement,
) -> float:
    """Largest difference between the law of a round and that of the target alone."""
    found = stated_law(verify, shape, target, draft, siblings)
    return difference(target, depth(shape) + 1, found)


def line(k: int) -> tuple[int, ...]:
    """The shape of a chain of k guesses."""
    return tuple(range(ROOT, k - 1))


def as_tree(verify: VerifyChain) -> VerifyTree:
    """A chain's verification, as that of the tree it is."""

    def verify_line(
        target_probs: Tensor,
        draft_probs: Tensor,
        tokens: Sequence[int],
        parents: Sequence[int],
        draws: Sequence[float],
        emit_draw: float,
    ) -> Verdict:
        assert tuple(parents) == line(len(tokens))
        return verify(target_probs, draft_probs, tokens, draws, emit_draw)

    return verify_line
