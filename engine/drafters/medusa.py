"""Medusa: every guess of a round from one feature of the target, at one go.

Head n guesses the token n + 1 places after the last one the target has read; the one in between
is the last committed token, which no head is told of (Cai et al. 2024, Medusa, section 3.1). Nor
does a head know what the others guess: the law of a round's guesses is the product of the heads'
laws, and each guess is drawn from its own. That is exact, if at times incoherent, and costs one
small product whatever the number of guesses.

Holds nothing between rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.drafters.proposal import DraftRequest, Proposal, Step, chain


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
        logits = features.new_empty(0)

        def step(text: list[int], slot: int) -> Step | None:
            nonlocal logits
            if slot == 0:
                logits = self._heads.logits(features[len(ids) - 2])
            return Step(request.law(logits[slot], text), "head") if slot < len(logits) else None

        return chain(step, ids, request)

    def observe(self, ids: Sequence[int]) -> None:
        """Nothing to learn: all it reads comes with the request."""
