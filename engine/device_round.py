"""A round that stays on its device until it is decided: the host reads once.

Every time the host reads a drawn token the device stands idle until the next work arrives, and a
round of k guesses has k + 1 such reads. Here guesses are drawn on the device and fed to the next
step unread, the verdict is found there too, and one read brings all of it.

`judge` is `verification.verify` once more, for chains in operations nobody has to wait for: same
arguments, same verdict. That page is the rule; the tests hold this one to it. The judging of a
tree is the rule's own, and waits.

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
from engine.sampling import penalised, seen_in
from engine.sending import sent
from engine.trace import EmitKind
from engine.verification import Verdict, verify_tree

NOT_FINITE = "The model's numbers are not finite: nothing can be drawn from them."


class Laps(Sequence[float]):
    """Seconds between marks set in the course of a device's work.

    On CUDA they are events in its stream, to be read once that work is done; elsewhere work is
    done when a call returns, and the clock is read. Laps `before` these were measured otherwise,
    and so were `ahead` seconds of the first lap.
    """

    def __init__(
        self, device: torch.device, before: Sequence[float] = (), ahead: float = 0.0
    ) -> None:
        self._on_cuda = device.type == "cuda"
        self._events: list[torch.cuda.Event] = []
        self._times: list[float] = []
        self._before, self._ahead = tuple(before), ahead
        self.began = time.perf_counter() - sum(before) - ahead
        self.mark()

    def mark(self) -> None:
        if self._on_cuda:
            self._events.append(torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
            self._events[-1].record()
        else:
            self._times.append(time.perf_counter())

    def __len__(self) -> int:
        return len(self._before) + len(self._events or self._times) - 1

    def __iter__(self) -> Iterator[float]:
        if self._on_cuda:
            events = pairwise(self._events)
            mine = [before.elapsed_time(after) / 1e3 for before, after in events]
        else:
            mine = [after - before for before, after in pairwise(self._times)]
        mine[:1] = [first + self._ahead for first in mine[:1]]
        return iter([*self._before, *mine])

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
    text: Sequence[int],
    request: DraftRequest,
    source: str = "model",
    known: Proposal | None = None,
    one_step: bool = False,
) -> Proposal:
    """Draw k guesses after `text` without reading them (as `proposal.chain` does reading).

    `feed` takes ids after those the model holds, `ids` first and then one guess at a time, and
    returns the logits (V,) of what follows. The first guesses may be `known`: fewer than k.
    All are timed as `one_step` where the first brings what the others need.
    """
    device, penalty = request.unigram.device, request.settings.repetition_penalty
    known = known or Proposal()
    told = len(known.tokens)
    laps = Laps(device, known.step_seconds[:told], sum(known.step_seconds[told:]))
    slots = range(told, request.k)
    uniforms = _sent([request.uniform(slot) for slot in slots], device)
    seen = None if penalty == 1.0 else seen_in([*text, *known.tokens], request.unigram)
    fed: Sequence[int] | Tensor = ids
    tokens = [sent(known.tokens, device)]
    laws = [*known.laws]
    for number in range(len(slots)):
        logits = feed(fed)
        laws.append(request.law_of(logits if seen is None else penalised(logits, seen, penalty)))
        tokens.append(pick(laws[-1], uniforms[number : number + 1]))
        fed = tokens[-1].clamp(min=0)
        if seen is not None:
            seen = seen.index_fill(0, fed, True)
        if not one_step or number == len(slots) - 1:
            laps.mark()
    return Proposal(
        tokens=Drawn(torch.cat(tokens), laps),
        laws=tuple(laws),
        sources=(*known.sources, *(source,) * len(slots)),
        origins=(*known.origins, *(None,) * len(slots)),
        step_seconds=laps,
    )


def to_feed(last: int, guesses: Sequence[int]) -> Sequence[int] | Tensor:
    """The text's last token and the guesses after it (n + 1), read by nobody if they are drawn."""
    if not isinstance(guesses, Drawn):
        return [last, *guesses]
    tokens = guesses.tensor
    return torch.cat((torch.full_like(tokens[:1], last), tokens.clamp(min=0)))


@torch.inference_mode()
def judge(
    target_probs: Tensor,
    draft_probs: Tensor,
    draft_tokens: Sequence[int],
    parents: Sequence[int] | None,
    accept_draws: Sequence[float],
    emit_draw: float,
) -> Verdict:
    """`verification.verify` with one read for a chain: see there for arguments, result and errors.

    `draft_tokens` may be `Drawn`, and are read along. ``emit_probs`` is in double precision.
    """
    if parents is not None:
        return verify_tree(
            target_probs, draft_probs, draft_tokens, parents, accept_draws, emit_draw
        )
    device, k = target_probs.device, len(draft_tokens)
    draws = _sent([*accept_draws, emit_draw], device)
    tokens = draft_tokens.tensor if isinstance(draft_tokens, Drawn) else _sent(draft_tokens, device)
    at = tokens.long().clamp(min=0)[:, None]
    target = target_probs[:k].gather(1, at)[:, 0].double()
    draft = draft_probs.gather(1, at)[:, 0].double()

    passed = draws[:k] * draft < target
    accepted = passed.long().cumprod(0).sum(0, keepdim=True)  # (1,)

    emit_probs = target_probs.index_select(0, accepted)[0].double()
    if k > 0:
        refused = draft_probs.index_select(0, accepted.clamp(max=k - 1))[0].double()
        excess = (emit_probs - refused).clamp(min=0)
        total = excess.sum()
        owed = torch.where(total > 1e-12, excess / total, emit_probs)
        emit_probs = torch.where(accepted == k, emit_probs, owed)
    token = pick(emit_probs, draws[k:])

    found = read(torch.cat((target, draft, tokens.double(), accepted.double(), token.double())))
    target_chances, draft_chances, guesses = found[:k], found[k : 2 * k], found[2 * k : 3 * k]
    kept, emitted = int(found[-2]), int(found[-1])
    if isinstance(draft_tokens, Drawn):
        draft_tokens.known([int(guess) for guess in guesses])
    if emitted < 0 or any(guess < 0 for guess in guesses):
        raise ValueError(NOT_FINITE)
    if not all(chance > 0 for chance in draft_chances):
        raise ValueError("a guess has no probability under the law it is said to come from")
    chances = zip(target_chances, draft_chances, strict=True)
    accept_probs = tuple(min(1.0, theirs / ours) for theirs, ours in chances)
    kind: EmitKind = "bonus" if kept == k else "recovered"
    path = tuple(range(kept))
    return Verdict(path, emitted, kind, emit_probs, target_probs[:k], accept_probs)


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


def _sent(values: Sequence[float], device: torch.device) -> Tensor:
    """Numbers (n,) in double precision on their way to the device."""
    return sent(values, device, torch.float64)
