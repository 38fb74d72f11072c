"""Which drafter is fastest here, and with how many guesses: measured on this machine once.

Each candidate writes two short texts at temperature 0, asking for eight guesses in one round and
for four in the next. From these the tokens a second at one to eight are worked out: a chain's
round with fewer guesses is the same round cut off, and its cost the sum of what its parts were
measured to cost. What a tree does with another number of nodes is not known, so it counts only
at those it was measured with. Whoever sets more than eight guesses has everybody measured with
sixteen and twelve as well, the first time.

What was measured lies in the user's cache, under the machine, target, kernel and program it was
measured with. It is measured anew when the target alone proves much faster than it was then: the
machine had something else to do that day.
"""

from __future__ import annotations

import json
import os
import statistics
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import TypeVar

import numpy as np

from engine.adapt import START
from engine.arguments import MAX_K
from engine.decode import Session
from engine.trace import Round, Settings

CANDIDATES = (
    "copy-8", "small-1", "small", "pard", "eagle", "eagle-tree", "hybrid", "retrieval", "n-gram"
)  # fmt: skip
"""What may be the fastest somewhere. A copy of fewer bits costs as much as `copy-8` and is right
less often; the other drafters cost more than one of these, and guess no better."""

ALONE = "none"
ASKED, ASKED_MORE = (8, 4), (MAX_K, 12)
"""Guesses asked for in turn: the same texts have to tell of many and of few. The others, where
more are set than the first tell of."""

MOST = max(ASKED)
PROMPTS = (
    "Explain how a bicycle stays upright when it moves.",
    "Write a polite note asking a neighbour to water the plants.",
)
NEW_TOKENS = 24
PACE_TOKENS = 8  # tell how fast the machine is now
MUCH_FASTER = 1.5

Key = TypeVar("Key")

Begin = Callable[[str, Settings, int], Session]
"""Starts a run of a prompt with settings and at most so many new tokens."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The drafter "auto" means here, the K it is best with, and why, in one sentence."""

    drafter: str
    k: int
    reason: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Tokens a second at 1, 2, … guesses by drafter, and the day they were measured.

    `ALONE` is among them, and all go as far. 0 where nothing is known: a drafter that failed, a
    tree's other widths.
    """

    rates: dict[str, tuple[float, ...]]
    day: str

    def choice(self, settings: Settings) -> Choice:
        """The fastest drafter with the K of `settings`, or with its own best where K is free."""
        most = len(self.rates[ALONE])
        if settings.auto_k:
            asked = range(1, most + 1)
        else:
            k = min(settings.k or START, most)
            asked = range(k, k + 1)
        rate, best, k = max(
            ((rates[k - 1], name, k) for name, rates in self.rates.items() if name != ALONE
             for k in asked), key=lambda each: each[0],
        )  # fmt: skip
        alone = self.rates[ALONE][0]
        why = f"{best}, K {k}: {rate:.0f} tok/s here against {alone:.0f} alone, measured {self.day}"
        if rate < alone:
            why += "; no drafter here is faster than the target alone"
        if settings.k > most and not settings.auto_k:
            why += f"; more than {most} guesses were not measured"
        if not settings.auto_k:
            why += "".join(map(self._left_out(k), self.rates))
        return Choice(best, k, why)

    def _left_out(self, k: int) -> Callable[[str], str]:
        """Says of a drafter that it was measured with other numbers of guesses, if it was."""

        def said(name: str) -> str:
            known = [str(at) for at, rate in enumerate(self.rates[name], 1) if rate > 0]
            if not known or str(k) in known:
                return ""
            return f"; {name} was measured with {' and '.join(known)} guesses only"

        return said


def asked_for(settings: Settings) -> tuple[int, int]:
    """With which numbers of guesses everybody is measured, to choose for these settings."""
    return ASKED_MORE if settings.k > MOST and not settings.auto_k else ASKED


def choose(
    begin: Begin,
    names: Sequence[str],
    key: str,
    memory: Path,
    progress: Callable[[str], None] = lambda step: None,
    asked: tuple[int, int] = ASKED,
) -> Measured:
    """How fast each of `names` is, measured unless `memory` knows it under `key`.

    Rates go up to the most guesses `asked` for. `progress` hears of each step before it is
    measured.
    """
    candidates = [ALONE, *(name for name in CANDIDATES if name in names)]
    if asked != ASKED:
        key += f" at {asked[0]} and {asked[1]}"
    known = _recall(memory, max(asked)).get(key)
    if known is None or not set(candidates) <= set(known.rates) or _was_busy(known, begin):
        known = Measured(measure(begin, candidates, progress, asked), date.today().isoformat())
        _remember(memory, key, known)
    return Measured({name: known.rates[name] for name in candidates}, known.day)


def measure(
    begin: Begin,
    names: Sequence[str],
    progress: Callable[[str], None],
    asked: tuple[int, int] = ASKED,
) -> dict[str, tuple[float, ...]]:
    """Tokens a second of each drafter at 1, 2, … guesses; `ALONE` is the target alone.

    All write one text before any writes the next: a moment in which the machine was busy
    elsewhere should not decide. A drafter that cannot be had here, or fails, has 0; so the
    target alone has to work.
    """
    rounds: dict[str, list[Round]] = {name: [] for name in names}
    failed: set[str] = set()
    steps = [(prompt, name) for prompt in PROMPTS for name in names]
    for number, (prompt, name) in enumerate(steps, 1):
        progress(f"{name}, {number} of {len(steps)}")
        if name in failed:
            continue
        try:
            made = _written(begin(prompt, Settings(drafter=name), NEW_TOKENS), name, asked)
        except Exception:
            if name == ALONE:
                raise
            traceback.print_exc()
            failed.add(name)
        else:
            rounds[name] += made
    return rates_of(rounds, max(asked)) | dict.fromkeys(failed, (0.0,) * max(asked))


def _written(session: Session, drafter: str, asked: tuple[int, int]) -> list[Round]:
    """The rounds of a run that asks for each of these numbers of guesses in turn."""
    rounds = []
    while session.finished is None:
        k = asked[session.made % len(asked)]
        session.rewind(session.made, Settings(drafter=drafter, k=k))
        rounds.append(session.advance())
    return rounds


def _was_busy(known: Measured, begin: Begin) -> bool:
    """Whether the target alone is much faster now than when `known` was measured."""
    made = list(begin(PROMPTS[0], Settings(drafter=ALONE), PACE_TOKENS).rounds())
    return rates_of({ALONE: made})[ALONE][0] > MUCH_FASTER * known.rates[ALONE][0]


def rates_of(
    rounds: Mapping[str, Sequence[Round]], most: int = MOST
) -> dict[str, tuple[float, ...]]:
    """Tokens a second at 1 to `most` guesses by drafter, from rounds that asked for more or less.

    Each part of a round is counted with its median time. A pass over so many guesses costs the
    same whoever made them, so its time is the median over everybody's rounds: what the machine
    did meanwhile cannot favour one drafter. Drafting is each drafter's own, step by step, what it
    copied apart from what a model was asked. One median for all widths would flatter lookups,
    whose rounds are mostly silent, and cheap.
    """
    every = [each for made in rounds.values() for each in _warm(made)]
    passes = _medians((len(each.guesses), each.verify_seconds) for each in every)
    widths, costs = zip(*sorted(passes.items()), strict=True) if passes else ((0,), (0.0,))

    def rate(made: Sequence[Round], k: int) -> float:
        cut = [each for each in made if _tells(each, k, made)]
        steps = _medians(step for each in _warm(made) for step in _steps(each, most))
        total = 0.0
        for each in cut:
            total += float(np.interp(min(len(each.guesses), k), widths, costs))
            total += sum(steps.get(place, 0.0) for place, _ in _steps(each, k))
        tokens = sum(len(each.committed) - max(each.accepted - k, 0) for each in cut)
        return tokens / total if total else 0.0

    return {name: tuple(rate(made, k) for k in range(1, most + 1)) for name, made in rounds.items()}


def _tells(made: Round, k: int, others: Sequence[Round]) -> bool:
    """Whether a round tells what asking for `k` guesses brings, among those of its drafter.

    A chain does that was asked for as many or more, a tree that was asked for just as many.
    """
    asked = made.settings.effective_k
    if any(each.is_tree for each in others):
        return asked == k
    return asked >= k or asked == 0


def _steps(made: Round, k: int) -> Iterable[tuple[tuple[int, str], float]]:
    """Steps of drafting with `k` guesses asked for, by slot and source, and their seconds.

    There is one for each guess or one for all of them; a silent drafter has no source.
    """
    sources = [guess.source for guess in made.guesses]
    for slot, seconds in enumerate(made.draft_step_seconds[:k]):
        yield (slot, sources[slot] if slot < len(sources) else ""), seconds


def _warm(made: Sequence[Round]) -> Sequence[Round]:
    """Rounds that tell how long things take: not a drafter's first, if there are others."""
    return [each for each in made if not each.cold] or made


def _medians(samples: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    """The median of the values under each key."""
    grouped: dict[Key, list[float]] = {}
    for key, value in samples:
        grouped.setdefault(key, []).append(value)
    return {key: statistics.median(values) for key, values in grouped.items()}


def _recall(memory: Path, most: int | None = None) -> dict[str, Measured]:
    """What was measured before, at up to `most` guesses; nothing when the file is not ours."""
    try:
        known = {
            str(key): Measured(
                {str(name): tuple(map(float, rates)) for name, rates in each["rates"].items()},
                str(each["day"]),
            )
            for key, each in json.loads(memory.read_text(encoding="utf-8")).items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    if most is None:
        return known
    return {
        key: each
        for key, each in known.items()
        if all(len(rates) == most for rates in each.rates.values())
    }


def _remember(memory: Path, key: str, measured: Measured) -> None:
    """Write it down for next time; a cache that cannot be written costs only time."""
    known = _recall(memory) | {key: measured}
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        fresh = memory.with_suffix(f".{os.getpid()}")
        body = {key: asdict(each) for key, each in known.items()}
        fresh.write_text(json.dumps(body, indent=1), encoding="utf-8")
        fresh.replace(memory)
    except OSError:
        return
