"""Decodes every prompt under every setting, in turns.

Contenders are combinations of drafter, k, quality and temperature, the target alone at each
temperature, and other people's engines. They take turns, prompt by prompt and in a rotating
order, so that a machine that warms up or is disturbed treats them alike; each is warmed up
first. Whoever wants to keep what was measured is told after every prompt.

Knows how to decode and to wait its turn; what it amounts to is `figures`' business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from engine.bench.rivals import Rival, Written
from engine.bench.texts import Text
from engine.requests import Start
from engine.trace import Baseline, Law, Round, Settings

if TYPE_CHECKING:
    from engine.decode import Session
    from engine.footprint import Footprint

WARM_UP_TOKENS = 12
_NO_LAW = Law((), 0.0)
_T = TypeVar("_T")
_ALONE: dict[str, Any] = {
    "drafter": "none", "k": 0, "auto_k": False, "quality": 100.0, "speculative": False
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reply:
    """What a combination wrote to one prompt; `seconds` on the clock on the wall, prompt apart."""

    rounds: tuple[Round, ...]
    seconds: float

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(token.id for each in self.rounds for token in each.committed)


class Begins(Protocol):
    """What a combination needs of an engine."""

    def begin(self, start: Start, baseline: Baseline | None = None) -> Session:
        """Start a run; `baseline` is one that was measured before."""

    def footprint(self, name: str) -> Footprint:
        """What the drafter of this name holds beside the target."""


class Contender(Protocol):
    """Somebody who takes turns."""

    @property
    def name(self) -> str: ...
    def take(self, number: int, text: Text, tokens: int) -> None:
        """Decode prompt `number` and keep what came of it."""

    def warm_up(self, text: Text) -> None:
        """Do the like once, unmeasured."""


@dataclass(slots=True)
class Tally:
    """A combination, and its replies by the number of the prompt."""

    settings: Settings
    engine: Begins | None = None
    replies: dict[int, Reply] = field(default_factory=dict)
    baseline: Baseline | None = None
    weighed: Footprint | None = None

    @property
    def name(self) -> str:
        drafter = self.settings.drafter
        return "alone" if drafter == "none" else f"{drafter}, K {self.settings.k_as_set}"

    def take(self, number: int, text: Text, tokens: int) -> None:
        for _ in self.taking(number, text, tokens):
            pass

    def warm_up(self, text: Text) -> None:
        for _ in self.warming_up(text):
            pass

    def taking(self, number: int, text: Text, tokens: int) -> Iterator[None]:
        """Take the turn a round at a time, for somebody who has other things to do between."""
        rounds: list[Round] = []
        seconds = 0.0
        session = self._begin(text, tokens)
        while session.finished is None:
            began = time.perf_counter()
            made = session.advance()
            seconds += time.perf_counter() - began
            rounds.append(_slim(made))
            yield
        self.replies[number] = Reply(tuple(rounds), seconds)

    def warming_up(self, text: Text) -> Iterator[None]:
        """Do the like once, unmeasured, a round at a time; then weigh the drafter."""
        session = self._begin(text, WARM_UP_TOKENS)
        while session.finished is None:
            session.advance()
            yield
        if self.engine is not None and self.settings.drafts and self.settings.drafter != "auto":
            self.weighed = self.engine.footprint(self.settings.drafter)

    def _begin(self, text: Text, tokens: int) -> Session:
        assert self.engine is not None
        start = Start(text.prompt, text.chat, self.settings, max_new_tokens=tokens)
        session = self.engine.begin(start, self.baseline)
        if not self.settings.auto_k:  # which begins from it; others need none, and it takes time
            self.baseline = session.header.baseline
        return session


@dataclass(slots=True)
class RivalTally:
    """Somebody else's engine, and what it wrote by the number of the prompt."""

    rival: Rival
    engine: Begins
    replies: dict[int, Written] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.rival.name

    def take(self, number: int, text: Text, tokens: int) -> None:
        self.replies[number] = self.rival.write(self._prompt(text), tokens)

    def warm_up(self, text: Text) -> None:
        self.rival.write(self._prompt(text), WARM_UP_TOKENS)

    def _prompt(self, text: Text) -> list[int]:
        """The very ids our own engine reads."""
        start = Start(text.prompt, text.chat, Settings(drafter="none"), max_new_tokens=0)
        run = self.engine.begin(start)
        return [token.id for token in run.header.prompt_tokens]


@dataclass(slots=True)
class Sweep:
    """All that was asked for, and how far it has come."""

    texts: Sequence[Text]
    alone: list[Tally]
    tallies: list[Tally]
    rivals: list[RivalTally]
    interrupted: bool = False

    @property
    def contenders(self) -> list[Contender]:
        return [*self.alone, *self.tallies, *self.rivals]

    @property
    def turns(self) -> int:
        """Replies to be written in all."""
        return len(self.texts) * len(self.contenders)


def plan(
    engine: Begins, texts: Sequence[Text], sweep: Iterable[Settings], rivals: Iterable[Rival] = ()
) -> Sweep:
    """A sweep of these settings, and of the target alone at each of their temperatures.

    Apart from the temperature all draw from laws of one shape, the target alone too.
    """
    tallies = [Tally(settings, engine) for settings in sweep]
    by_heat = {tally.settings.temperature: tally.settings for tally in tallies}
    alone = [Tally(replace(by_heat[heat], **_ALONE), engine) for heat in sorted(by_heat)]
    return Sweep(texts, alone, tallies, [RivalTally(each, engine) for each in rivals])


def measure(
    sweep: Sweep,
    tokens: int,
    step: Callable[[str], None] = lambda words: None,
    keep: Callable[[Sweep], None] = lambda sweep: None,
) -> Sweep:
    """Run the sweep: up to `tokens` tokens a reply. Ctrl-C ends it early, with what there is.

    `step` hears of every turn before it is taken, and `keep` gets the sweep after each prompt.
    """
    contenders = sweep.contenders
    try:
        for each in contenders:
            step(f"warming up {each.name}")
            each.warm_up(sweep.texts[0])
        for number, text in enumerate(sweep.texts):
            for each in in_turn(contenders, number):
                step(f"prompt {number + 1} of {len(sweep.texts)}: {each.name}")
                each.take(number, text, tokens)
            keep(sweep)
    except KeyboardInterrupt:
        sweep.interrupted = True
    return sweep


def in_turn(contenders: Sequence[_T], number: int) -> list[_T]:
    """The order in which all of them decode prompt `number`: another one first each time."""
    turn = number % len(contenders)
    return [*contenders[turn:], *contenders[:turn]]


def _slim(made: Round) -> Round:
    """The round without its laws: a sweep keeps thousands of rounds."""
    guesses = tuple(replace(guess, draft_law=_NO_LAW, target_law=_NO_LAW) for guess in made.guesses)
    emitted = made.emitted and replace(made.emitted, law=_NO_LAW, target_law=_NO_LAW)
    return replace(made, guesses=guesses, emitted=emitted)
