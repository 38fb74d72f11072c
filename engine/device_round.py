"""A round that stays on its device until it is decided: the host reads once.

Every time the host reads a drawn token the device stands idle until the next work arrives, and a
round of k guesses has k + 1 such reads. Here guesses are drawn on the device and fed to the next
step unread, the verdict is found there too, and one read brings all of it. All of that lies on a
`desk`, whose `judge` is `verification.verify` once more, for chains in operations nobody has to
wait for: same arguments, same verdict. That page is the rule; the tests hold the other to it. The
judging of a tree is the rule's own, and waits.

Knows laws, tokens and uniforms; nothing of models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import overload

import torch
from torch import Tensor

from engine.drafters.proposal import DraftRequest, Proposal

NOT_FINITE = "The model's numbers are not finite: nothing can be drawn from them."


class Laps(Sequence[float]):
    """Seconds between marks set in the course of a device's work.

    On CUDA they are events in its stream, to be read once that work is done; elsewhere work is
    done when a call returns, and the clock is read. `ahead` seconds of the first lap were measured
    otherwise.
    """

    def __init__(self, device: torch.device, ahead: float = 0.0) -> None:
        self._on_cuda = device.type == "cuda"
        self._events: list[torch.cuda.Event] = []
        self._times: list[float] = []
        self._ahead = ahead
        self.began = time.perf_counter() - ahead
        self.mark()

    def mark(self) -> None:
        if self._on_cuda:
            self._events.append(torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
            self._events[-1].record()
        else:
            self._times.append(time.perf_counter())

    def __len__(self) -> int:
        return len(self._events or self._times) - 1

    def __iter__(self) -> Iterator[float]:
        if self._on_cuda:
            events = pairwise(self._events)
            mine = [before.elapsed_time(after) / 1e3 for before, after in events]
        else:
            mine = [after - before for before, after in pairwise(self._times)]
        mine[:1] = [first + self._ahead for first in mine[:1]]
        return iter(mine)

    @overload
    def __getitem__(self, at: int) -> float: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[float, ...]: ...
    def __getitem__(self, at: int | slice) -> float | tuple[float, ...]:
        return tuple(self)[at]


class Drawn(Sequence[int]):
    """Guesses (n,) on the device that drew them; a guess its law could not give is -1.

    To look at them as numbers is to wait for the device, unless `judge` has read them.
    """

    def __init__(self, tensor: Tensor, laps: Laps) -> None:
        self.tensor = tensor
        self.laps = laps
        self._ids: list[int] | None = None

    def known(self, ids: list[int]) -> None:
        """The guesses have been read."""
        self._ids = ids

    @property
    def drawn_at(self) -> float:
        """When the last guess was drawn, on the clock of `time.perf_counter`."""
        return self.laps.began + sum(self.laps)

    def __len__(self) -> int:
        return len(self.tensor)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        return self._numbers[at]

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    @property
    def _numbers(self) -> list[int]:
        if self._ids is None:
            self._ids = [int(value) for value in read(self.tensor)]
        return self._ids


@torch.inference_mode()
def chain(
    feed: Callable[[Sequence[int] | Tensor], Tensor],
    ids: Sequence[int],
    request: DraftRequest,
    source: str = "model",
    ahead: float = 0.0,
    one_step: bool = False,
) -> Proposal:
    """Draw k guesses without reading them (as `proposal.chain` does reading), on the desk.

    `feed` takes ids after those the model holds, `ids` first and then one guess at a time, and
    returns the logits (V,) of what follows. `ahead` seconds were spent on the round before. All
    guesses are timed as `one_step` where the first brings what the others need. Raises ValueError
    where the request has no desk.
    """
    desk = request.desk
    if desk is None:
        raise ValueError("there is no desk to leave guesses on")
    slots = range(request.k)
    laps = Laps(request.unigram.device, ahead)
    desk.draft([request.uniform(slot) for slot in slots])
    fed: Sequence[int] | Tensor = ids
    for slot in slots:
        fed = desk.draw(slot, feed(fed))
        if not one_step or slot == slots[-1]:
            laps.mark()
    drawn = [desk.drawn_from(slot) for slot in slots]
    return Proposal(
        tokens=desk.lend(request.k, laps),
        laws=tuple(law for _, law in drawn),
        sources=(source,) * request.k,
        origins=(None,) * request.k,
        step_seconds=laps,
        scores=tuple(scores for scores, _ in drawn),
    )


def pick(probs: Tensor, draw: Tensor) -> Tensor:
    """As `verification.pick`, on the device: token (1,) of a law (V,) and a uniform (1,) below 1.

    A law without mass gives -1. A double below 1 times a total rounds to less than that total, so
    every draw finds a token.
    """
    cumulative = probs.double().cumsum(0)
    total = cumulative[-1:]
    index = torch.searchsorted(cumulative, draw * total, right=True)
    return torch.where(total > 0, index, -1)


def read(values: Tensor) -> list[float]:
    """Wait for the device and bring `values` (n,) to the host: the one place that does."""
    found: list[float] = values.tolist()
    return found
