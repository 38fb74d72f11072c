"""A model as drafter: any runner that feeds tokens and rolls back, distilled or low-bit copy.

Its cache is kept right by one rule: roll back to the longest common prefix of what it holds
and what it is given, never past the last committed token, then feed the rest. Full acceptance
(two tokens to feed), rejection anywhere, rewinds and changes of drafter need nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from engine import device_round
from engine.drafters.proposal import DraftRequest, Proposal, Step, chain, common_prefix

CATCH_UP = 32
"""Tokens behind from which catching up is preparation, as reading the prompt is, not drafting."""


class DraftRunner(Protocol):
    """A model holding one sequence (see `engine.llama.Runner`)."""

    @property
    def context(self) -> int: ...
    @property
    def length(self) -> int: ...
    def forward(self, ids: Sequence[int] | Tensor, last_only: bool = False) -> Tensor: ...
    def rollback(self, length: int) -> None: ...


class ModelDrafter:
    """Drafts with a model of its own."""

    def __init__(self, name: str, runner: DraftRunner) -> None:
        self.name = name
        self._runner = runner
        self._held: list[int] = []
        self._unread: Sequence[int] = ()  # held too, but nobody knew them when they were fed

    @property
    def context(self) -> int:
        return self._runner.context

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        if request.desk is None:
            return chain(lambda text, slot: self._step(text, request), ids, request)
        self._keep(common_prefix(self._known, ids[:-1]))
        missing = ids[len(self._held) :]
        proposal = device_round.chain(self._logits, missing, request)
        self._held.extend(missing)
        self._unread = proposal.tokens
        return proposal

    def _step(self, text: Sequence[int], request: DraftRequest) -> Step:
        self._keep(common_prefix(self._known, text[:-1]))
        logits = self._feed(text[len(self._held) :])
        return request.said(logits, text, "model")

    def observe(self, ids: Sequence[int]) -> None:
        self._keep(common_prefix(self._known, ids[:-1]))
        missing = ids[len(self._held) : min(len(ids) - 1, self.context)]
        if len(missing) > CATCH_UP:
            self._feed(missing)[0].item()  # waits for the device: no step is charged for it

    @property
    def _known(self) -> list[int]:
        """All ids held. The last guess of a round was drawn but never fed."""
        self._held.extend(self._unread[:-1])
        self._unread = ()
        return self._held

    def _keep(self, length: int) -> None:
        self._runner.rollback(length)
        del self._held[length:]

    def _feed(self, ids: Sequence[int]) -> Tensor:
        logits = self._logits(ids)
        self._held.extend(ids)
        return logits

    def _logits(self, ids: Sequence[int] | Tensor) -> Tensor:
        return self._runner.forward(ids, last_only=True)[-1]


class SharedRows(DraftRunner, Protocol):
    """A runner on another's cache rows: `adopt` counts rows the owner has filled as held."""

    def adopt(self, length: int) -> None: ...


class LayerSkipDrafter:
    """The target's own first layers, on the target's own cache rows: nothing to catch up on.

    The rows it writes for its guesses are those the target's first layers would write, and
    verification writes them again, all layers, before anyone reads them.
    """

    def __init__(self, layers: int, runner: SharedRows) -> None:
        self.name = f"layer-skip-{layers}"
        self._runner = runner

    @property
    def context(self) -> int:
        return self._runner.context

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        self._runner.adopt(len(ids) - 1)
        if request.desk is not None:
            return device_round.chain(self._logits, ids[-1:], request)

        def step(text: list[int], slot: int) -> Step:
            logits = self._logits(text[self._runner.length :])
            return request.said(logits, text, "model")

        return chain(step, ids, request)

    def observe(self, ids: Sequence[int]) -> None:
        """Nothing to learn: the rows are the target's."""

    def _logits(self, ids: Sequence[int] | Tensor) -> Tensor:
        return self._runner.forward(ids, last_only=True)[-1]
