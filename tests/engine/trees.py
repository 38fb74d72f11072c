"""Random trees of tokens, and what a runner must make of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.llama import Runner
from engine.verification import ROOT


def random_shape(chance: random.Random, nodes: int) -> tuple[int, ...]:
    """Parents of a random tree, from bushes to chains."""
    bushy = chance.random()
    return tuple(
        chance.randrange(ROOT, node) if chance.random() < bushy else node - 1
        for node in range(nodes)
    )


def paths(shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Of each node, the nodes from the root down to it."""
    found: list[tuple[int, ...]] = []
    for node, parent in enumerate(shape):
        found.append((*(found[parent] if parent != ROOT else ()), node))
    return found


def rows_of(shape: Sequence[int], start: int) -> list[int]:
    """The parents' cache rows, for a pass over the text's last token and then the tree."""
    return [start - 1, *(start + 1 + parent for parent in shape)]


def by_paths(
    runner: Runner, last: int, tokens: Sequence[int], shape: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Logits (n + 1, V) and hidden states after the text and each node, path by path in chains."""
    start = runner.length
    logits, hidden = [runner.forward([last])[-1]], [runner.hidden[start].clone()]
    for path in paths(shape):
        runner.rollback(start)
        logits.append(runner.forward([last, *(tokens[node] for node in path)])[-1])
        hidden.append(runner.hidden[start + len(path)].clone())
    runner.rollback(start)
    return torch.stack(logits), torch.stack(hidden)


def grow(
    runner: Runner,
    straight: Runner,
    rounds: int,
    seed: int,
    same: Callable[[Tensor, Tensor], bool],
    vocab: int = 64,
) -> list[int]:
    """Check random trees pass by pass against chains; keep a random path of each.

    The whole tree is fed at once, or in parts. Returns the text that is held in the end, less
    its last token.
    """
    chance = random.Random(seed)
    text = [chance.randrange(vocab) for _ in range(5)]
    for each in (runner, straight):
        each.forward(text[:-1])
    for _ in range(rounds):
        start = runner.length
        shape = random_shape(chance, chance.randrange(1, 9))
        tokens = [chance.randrange(vocab) for _ in shape]
        fed, parents = [text[-1], *tokens], rows_of(shape, start)
        parts, at = [], 0
        while at < len(fed):
            end = at + chance.randrange(1, len(fed) - at + 1)
            parts.append(runner.forward(fed[at:end], parents=parents[at:end]))
            at = end
        logits, hidden = by_paths(straight, text[-1], tokens, shape)
        assert same(torch.cat(parts), logits)
        assert same(runner.hidden[start : runner.length], hidden)
        path = chance.choice([(), *paths(shape)])
        kept = [text[-1], *(tokens[node] for node in path)]
        runner.keep([start, *(start + 1 + node for node in path)])
        straight.forward(kept)
        text += [*kept[1:], chance.randrange(vocab)]
        assert runner.length == straight.length == len(text) - 1
    held = slice(0, runner.length)
    assert same(runner.hidden[held], straight.hidden[held])
    for mine, theirs in (
        (runner.cache.keys, straight.cache.keys),
        (runner.cache.values, straight.cache.values),
    ):
        assert same(mine[:, :, held], theirs[:, :, held])
    return text[:-1]
