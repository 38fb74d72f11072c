"""Medusa: every guess of a round from one feature of the target, at one go, as chain or tree.

Head n guesses the token n + 1 places after the last one the target has read; the one in between
is the last committed token, which no head is told of (Cai et al. 2024, Medusa, section 3.1). Nor
does a head know what the others guess: the law of a round's guesses is the product of the heads'
laws, and each guess is drawn from its own. That is exact, if at times incoherent, and costs one
small product whatever the number of guesses.

The tree has one shape for every round, found on training text (Cai et al. 2024, section 2.3.3;
`engine.training.medusa`): since heads are nearly free, so is trying their second thoughts.

Holds nothing between rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from engine import device_round
from engine.drafters.proposal import DraftRequest, Proposal, chain
from engine.drafters.tree import Tree
from engine.verification import ROOT


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads' maps and residual blocks, each (heads, hidden, hidden).

    `score` gives the logits (heads, V) of what the heads make of a feature (heads, hidden).
    """

    maps: Tensor
    blocks: Tensor
    score: Callable[[Tensor], Tensor]

    @classmethod
    def from_tensors(
        cls, tensors: dict[str, Tensor], like: Tensor, score: Callable[[Tensor], Tensor]
    ) -> Heads:
        """Take ``heads.{n}.map.weight`` and ``heads.{n}.block.weight``, as training names them."""
        count = sum(name.endswith(".map.weight") for name in tensors)

        def stacked(part: str) -> Tensor:
            return torch.stack([tensors[f"heads.{n}.{part}.weight"] for n in range(count)]).to(like)

        return cls(stacked("map"), stacked("block"), score)

    @torch.inference_mode()
    def logits(self, feature: Tensor) -> Tensor:
        """What each head says after the target's feature (hidden,): (heads, V)."""
        mapped = self.maps @ feature.to(self.maps)  # (heads, hidden)
        # One by one: a batched product of so narrow operands takes ten times as long.
        block = torch.stack([each @ row for each, row in zip(self.blocks, mapped, strict=True)])
        return self.score(mapped + F.silu(block))


class MedusaDrafter:
    """Drafts with heads on the target's last feature, at most one guess a head."""

    name = "medusa"
    context: int | None = None

    def __init__(self, heads: Heads) -> None:
        self._heads = heads

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        """Guess; `request.features` must cover `ids` but its last. Raises ValueError else."""
        features = request.features
        if features is None or len(features) < len(ids) - 1:
            raise ValueError("it drafts from the target's features, and this target shows none")
        if len(ids) < 2:
            return Proposal()  # the target has read nothing yet
        return self._guess(ids, features[len(ids) - 2], request)

    def observe(self, ids: Sequence[int]) -> None:
        """Nothing to learn: all it reads comes with the request."""

    def _guess(self, ids: Sequence[int], feature: Tensor, request: DraftRequest) -> Proposal:
        request = replace(request, k=min(request.k, len(self._heads.maps)))
        logits = self._logits(feature)
        if request.desk is not None:
            return device_round.chain(lambda _: next(logits), (), request, "head")
        return chain(lambda text, _: request.said(next(logits), text, "head"), ids, request)

    def _logits(self, feature: Tensor) -> Iterator[Tensor]:
        """What one head after the other says (V,); all are asked when the first is wanted."""
        yield from self._heads.logits(feature)


Shape = Sequence[Sequence[int]]
"""A tree as the paths to its nodes, best first: a path is, head by head, which of the head's
guesses it takes, 0 for the likeliest. Each follows its own parent and its elder siblings."""


class MedusaTreeDrafter(MedusaDrafter):
    """Drafts the first k nodes of a tree of that shape with the same heads, in one step."""

    name = "medusa-tree"

    def __init__(self, heads: Heads, shape: Shape) -> None:
        super().__init__(heads)
        self._shape = [tuple(path) for path in shape]

    def _guess(self, ids: Sequence[int], feature: Tensor, request: DraftRequest) -> Proposal:
        started = time.perf_counter()
        logits = self._heads.logits(feature)
        tree = Tree(ids, request)
        nodes: dict[tuple[int, ...], int] = {(): ROOT}
        for path in self._shape[: request.k]:
            parent = nodes.get(path[:-1])
            if parent is None:
                continue
            scores = tree.scores(parent, logits[len(path) - 1])
            law = tree.law(parent, scores)
            if law is not None:
                nodes[path] = tree.add(parent, law, scores)
        return tree.proposal("head", [time.perf_counter() - started])
