"""Trees of guesses: several after one text, so that a wrong first one need not end the round.

A sibling's law is the drafter's own without the tokens its elder siblings guessed. At temperature
0 it is the next likeliest token for certain, the usual way (Cai et al. 2024, Medusa; Li et al.
2024, EAGLE-2); above, a draw without replacement (Jeon et al. 2024, RSD). The likeliest few for
certain would serve there too: after one text a draw is accepted more often (EAGLE's first guess
.32 against .30, one of four .57 against .54, temperature 0.7, held-out text), in whole trees of 8
the two accept alike (1.78 and 1.79 tokens a round); and the draw is what a chain does.

Which node comes next is decided by what the drafter knows before the node's token is drawn.
That token then has the law it is said to come from, whatever the shape of the tree became.

Knows nothing of models and caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import NamedTuple

from torch import Tensor

from engine.drafters.proposal import DraftRequest, Proposal
from engine.verification import ROOT


class Tree:
    """A tree of guesses after the committed `ids`, drawn node by node.

    Nodes are numbered in the order they are drawn, which is the order of their slots; `tokens` and
    `parents` say what each guesses and after which node, `ROOT` for the text.
    """

    def __init__(self, ids: Sequence[int], request: DraftRequest) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self._laws: list[Tensor] = []
        self._scores: list[Tensor] = []
        self._ids = list(ids)
        self._request = request

    def __len__(self) -> int:
        return len(self.tokens)

    def scores(self, node: int, logits: Tensor) -> Tensor:
        """The logits (V,) a model said after this node, as laws are made of them."""
        return self._request.scores(logits, self._text(node))

    def law(self, parent: int, scores: Tensor) -> Tensor | None:
        """The law (V,) of the next child of `parent`, given the scores (V,) after it.

        None when nothing that could be guessed is left.
        """
        siblings = zip(self.tokens, self.parents, strict=True)
        elders = [token for token, other in siblings if other == parent]
        return self._request.sibling_law(scores, elders)

    def add(self, parent: int, law: Tensor, scores: Tensor) -> int:
        """Draw the next child of `parent` from its law, made of these scores; the new node."""
        node = len(self)
        self.tokens.append(self._request.draw(node, law))
        self.parents.append(parent)
        self._laws.append(law)
        self._scores.append(scores)
        return node

    def proposal(self, source: str, step_seconds: Sequence[float]) -> Proposal:
        """The tree as a round's guesses, all from one `source`."""
        return Proposal(
            tokens=tuple(self.tokens),
            laws=tuple(self._laws),
            sources=(source,) * len(self),
            origins=(None,) * len(self),
            step_seconds=tuple(step_seconds),
            parents=tuple(self.parents),
            scores=tuple(self._scores),
        )

    def _text(self, node: int) -> list[int]:
        """The text with the guesses down to this node."""
        path = []
        while node != ROOT:
            path.append(self.tokens[node])
            node = self.parents[node]
        return self._ids + path[::-1]


HOPE = 0.4
"""What a node's best child is expected to have of the node's own chance, before the node is read.

Less than can be (1) saves steps: on 82 held-out positions at temperature 0, trees of 8 nodes took
3.5 of them instead of 8, and accepted no less (1.66 tokens a round against 1.62).
"""


def grow(tree: Tree, k: int, read: Callable[[int], Tensor], hope: float = HOPE) -> list[float]:
    """Let a tree grow to `k` nodes, the likeliest to be accepted first; seconds of each step.

    `read(node)` is a draft step: a model's logits (V,) after a node. A node's chance to be kept
    is taken to be the product, from the root down, of the chances the drafter itself gives its
    tokens (Li et al. 2024, EAGLE-2, section 4.1). A node is read once `hope` of its chance is more
    than that of anything known already. With a `hope` of 1, more than which no child can have, the
    tree is the best there is by these chances; with any it takes no more steps than a chain of `k`
    guesses does.
    """
    started: list[float] = []
    worth = {ROOT: 1.0}
    said: dict[int, Said] = {}
    ties = count()
    # A node's next child with its law; or, with none, a node still to be read.
    queue: list[tuple[float, int, int, Tensor | None]] = [(-1.0, next(ties), ROOT, None)]
    while queue:
        _, _, node, law = heappop(queue)
        if law is None:
            started.append(time.perf_counter())
            scores = tree.scores(node, read(node))
            said[node] = Said(scores, scores.softmax(-1))
        else:
            child = tree.add(node, law, said[node].scores)
            if len(tree) == k:
                break
            worth[child] = worth[node] * float(said[node].chances[tree.tokens[child]])
            heappush(queue, (-hope * worth[child], next(ties), child, None))
        law = tree.law(node, said[node].scores)
        if law is not None:
            expected = worth[node] * float(law.to(said[node].chances) @ said[node].chances)
            heappush(queue, (-expected, next(ties), node, law))
    marks = [*started, time.perf_counter()]
    return [after - before for before, after in pairwise(marks)]


class Said(NamedTuple):
    """What a model said after a node: scores (V,) and the chances they give each token (V,)."""

    scores: Tensor
    chances: Tensor
