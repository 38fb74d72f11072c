"""What a drafter is: something that proposes a chain or tree and learns what became of it.

A drafter has two verbs. `propose` gets the committed ids and returns at most k guesses, each
with the very law it was drawn from. `observe` gets the committed ids at the start of a run,
after each round, and whenever a drafter comes into use. Neither carries a rollback: a drafter
that caches anything compares what it holds with the ids it is given, so every pattern of
acceptance, rewind and change of drafter is the same case.

Knows nothing of targets, verification or text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from engine.drafters.suffix_index import Store
from engine.sampling import Draws, mix, one_hot, penalise, process
from engine.trace import Settings
from engine.verification import pick

if TYPE_CHECKING:
    from engine.desk import Desk


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """How many guesses are wanted, and how laws are shaped and drawn from in this round.

    `features` (n - 1, hidden) are the target's final hidden states of the committed text but its
    last token; only some drafters read them.
    `unigram` (V,) is the law mixed in below quality 100. Where there is a `desk`, guesses may be
    left on it, unread (see `device_round`). `memory` is what this run may look up of earlier
    replies.
    """

    k: int
    settings: Settings
    unigram: Tensor
    draws: Draws
    round_index: int
    desk: Desk | None = None
    features: Tensor | None = None
    memory: Store | None = None

    def scores(self, logits: Tensor, text: Sequence[int]) -> Tensor:
        """A model's logits (V,) after `text`, with the penalty applied."""
        return penalise(logits[None], text, self.settings.repetition_penalty)[0]

    def sibling_law(self, scores: Tensor, elders: Sequence[int]) -> Tensor | None:
        """The law (V,) to draw another guess from where `elders` were guessed, without these.

        `scores` (V,) are those after the text that they all follow. None when no token is left.
        """
        if not elders:
            return self.law_of(scores)
        taken = torch.tensor(elders, device=scores.device)
        left = scores.index_fill(0, taken, -torch.inf)
        if left.max() == -torch.inf:
            return None
        law = self.law_of(left).index_fill(0, taken, 0.0)
        return law / law.sum()

    def certain(self, token: int) -> Tensor:
        """The law (V,) of a drafter that would say `token` and nothing else."""
        return self._dial(one_hot(token, self.unigram))

    def said(self, logits: Tensor, text: Sequence[int], source: str) -> Step:
        """The guess of a model that gives `logits` (V,) after `text`, guesses included."""
        scores = self.scores(logits, text)
        return Step(self.law_of(scores), source, scores=scores)

    def copied(self, token: int, source: str, origin: int | None = None) -> Step:
        """The guess of a drafter that would say `token` and nothing else."""
        known = token if self.settings.quality >= 100 else None
        return Step(self.certain(token), source, origin, known)

    def draw(self, slot: int, law: Tensor) -> int:
        """Draw the guess of this slot from its law."""
        return pick(law, self.uniform(slot))

    def uniform(self, slot: int) -> float:
        """The uniform this slot's guess is drawn with."""
        return self.draws.uniform("draft", self.round_index, slot)

    def law_of(self, scores: Tensor) -> Tensor:
        """The law (V,) to draw from, given logits (V,) with the penalty applied."""
        s = self.settings
        return self._dial(process(scores, s.temperature, s.top_k, s.top_p, s.min_p))

    def _dial(self, law: Tensor) -> Tensor:
        return mix(law, self.unigram, self.settings.quality / 100)


@dataclass(frozen=True, slots=True)
class Step:
    """One guess about to be drawn: its law (V,), and where it comes from (see `trace.Guess`).

    `token` is the guess where its law knows no other: then nothing need be drawn. `scores` (V,) are
    the model's that the law was made of, where a model spoke.
    """

    law: Tensor
    source: str
    origin: int | None = None
    token: int | None = None
    scores: Tensor | None = None

    @property
    def sureness(self) -> float:
        """The chance the model gave its likeliest token, at temperature 1; 0 where none spoke."""
        return 0.0 if self.scores is None else float(self.scores.softmax(-1).max())


@dataclass(frozen=True, slots=True)
class Proposal:
    """The n <= k guesses of a round. `laws` holds the law (V,) each token was drawn from.

    In a tree `parents` has the slot of the guess that each follows, -1 for the text, and comes
    before it; siblings are in the order they are judged, each with its law given the elder ones
    (see `verification.verify_tree`). None: a chain.
    `tokens` and `step_seconds` may be known to a device only, until somebody looks at them.
    `scores` (V,) are what a model said before each guess, for the picture alone; none where nobody
    kept them.
    """

    tokens: Sequence[int] = ()
    laws: tuple[Tensor, ...] = ()
    sources: tuple[str, ...] = ()
    origins: tuple[int | None, ...] = ()
    step_seconds: Sequence[float] = ()
    parents: tuple[int, ...] | None = None
    scores: tuple[Tensor | None, ...] = ()

    def draft_probs(self, like: Tensor) -> Tensor:
        """The laws as one tensor (n, V), on the device and in the width of `like` (…, V)."""
        if not self.laws:
            return like.new_zeros(0, like.shape[-1])
        return torch.stack(self.laws).to(like.device)

    def as_one_step(self) -> Proposal:
        """The same guesses, timed as one lookup rather than guess by guess."""
        return replace(self, step_seconds=(sum(self.step_seconds),))


class Drafter(Protocol):
    """Proposes tokens. `context` is the longest sequence it can stand in, None for any."""

    @property
    def name(self) -> str: ...
    @property
    def context(self) -> int | None: ...
    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        """Guess what follows the committed `ids` (at least one). May return fewer than k."""

    def observe(self, ids: Sequence[int]) -> None:
        """Learn that the committed text now reads `ids`; called outside the drafting clock."""


def chain(
    next_step: Callable[[list[int], int], Step | None], ids: Sequence[int], request: DraftRequest
) -> Proposal:
    """Draw guesses one after another, timing each, until k are made or `next_step` is silent.

    What it took to be silent counts to the guess before. `next_step` gets the text so far, guesses
    included, and the slot. Reading a drawn token on the host waits for the device, so the measured
    seconds are those of the work.
    """
    text = list(ids)
    steps: list[Step] = []
    seconds: list[float] = []
    for slot in range(request.k):
        started = time.perf_counter()
        step = next_step(text, slot)
        if step is not None:
            drawn = request.draw(slot, step.law) if step.token is None else step.token
            text.append(drawn)
            steps.append(step)
        seconds.append(time.perf_counter() - started)
        if step is None:
            seconds[-2:] = [sum(seconds[-2:])]
            break
    return Proposal(
        tokens=tuple(text[len(ids) :]),
        laws=tuple(step.law for step in steps),
        sources=tuple(step.source for step in steps),
        origins=tuple(step.origin for step in steps),
        step_seconds=tuple(seconds),
        scores=tuple(step.scores for step in steps),
    )


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading entries two sequences share."""
    shorter = min(len(first), len(second))
    if first[:shorter] == second[:shorter]:  # nearly always, and much faster than looking at each
        return shorter
    pairs: Iterator[tuple[int, int]] = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), shorter)
