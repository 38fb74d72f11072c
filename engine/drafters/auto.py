"""Which drafter is fastest here: measured on this machine, then remembered.

Each candidate writes a few short texts at temperature 0 with the default settings; the one
with the most tokens a second is taken. What was measured lies in the user's cache, under the
machine, target, kernel and program it was measured with. It is measured anew when the target
alone proves much faster than it was then: the machine had something else to do that day.
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

from engine.decode import Session
from engine.trace import Round, Settings

CANDIDATES = ("copy-8", "copy-4g64", "small", "eagle", "hybrid", "retrieval", "n-gram")
ALONE = "none"
PROMPTS = (
    "Explain how a bicycle stays upright when it moves.",
    "Write a polite note asking a neighbour to water the plants.",
)
NEW_TOKENS = 28
PACE_TOKENS = 8  # tell how fast the machine is now
MUCH_FASTER = 1.5

Begin = Callable[[str, Settings, int], Session]
"""Starts a run of a prompt with settings and at most so many new tokens."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The drafter "auto" means here, and why, in one sentence."""

    drafter: str
    reason: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Tokens a second by drafter, `ALONE` among them, and the day they were measured.

    A drafter that failed has rate 0.
    """

    rates: dict[str, float]
    day: str


def choose(
    begin: Begin,
    names: Sequence[str],
    key: str,
    memory: Path,
    progress: Callable[[str], None] = lambda step: None,
) -> Choice:
    """Return the fastest of `names`, measuring unless `memory` knows it under `key`.

    `progress` hears of each step before it is measured.
    """
    candidates = [ALONE, *(name for name in CANDIDATES if name in names)]
    known = _recall(memory).get(key)
    if known is None or not set(candidates) <= set(known.rates) or _was_busy(known, begin):
        known = Measured(measure(begin, candidates, progress), date.today().isoformat())
        _remember(memory, key, known)
    return explain({name: known.rates[name] for name in candidates}, known.day)


def measure(
    begin: Begin, names: Sequence[str], progress: Callable[[str], None]
) -> dict[str, float]:
    """Tokens a second of each drafter; `ALONE` is the target alone.

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
            made = list(begin(prompt, Settings(drafter=name), NEW_TOKENS).rounds())
        except Exception:
            if name == ALONE:
                raise
            traceback.print_exc()
            failed.add(name)
        else:
            rounds[name] += made
    return rates_of(rounds) | dict.fromkeys(failed, 0.0)


def _was_busy(known: Measured, begin: Begin) -> bool:
    """Whether the target alone is much faster now than when `known` was measured."""
    made = list(begin(PROMPTS[0], Settings(drafter=ALONE), PACE_TOKENS).rounds())
    return rates_of({ALONE: made})[ALONE] > MUCH_FASTER * known.rates[ALONE]


def rates_of(rounds: Mapping[str, Sequence[Round]]) -> dict[str, float]:
    """Tokens a second by drafter, each part of a round counted with its median time.

    A pass over so many guesses costs the same whoever made them, so its time is the median
    over everybody's rounds: what the machine did meanwhile cannot favour one drafter. Drafting
    is each drafter's own. One median for all widths would flatter lookups, whose rounds are
    mostly silent, and cheap.
    """
    warm = {name: [each for each in made if not each.cold] for name, made in rounds.items()}
    passes = _medians(
        (len(each.guesses), each.verify_seconds) for made in warm.values() for each in made
    )
    found = {}
    for name, made in warm.items():
        drafting = _medians((len(each.guesses), each.draft_seconds) for each in made)
        widths = [len(each.guesses) for each in made]
        seconds = sum(passes[width] + drafting[width] for width in widths)
        found[name] = sum(len(each.committed) for each in made) / seconds if seconds else 0.0
    return found


def _medians(samples: Iterable[tuple[int, float]]) -> dict[int, float]:
    """The median of the values under each key."""
    grouped: dict[int, list[float]] = {}
    for key, value in samples:
        grouped.setdefault(key, []).append(value)
    return {key: statistics.median(values) for key, values in grouped.items()}


def explain(rates: dict[str, float], day: str) -> Choice:
    """The fastest drafter of `rates` (tokens a second by name), and the sentence that says so."""
    alone = rates[ALONE]
    best = max((name for name in rates if name != ALONE), key=lambda name: rates[name])
    figures = f"{best}: {rates[best]:.0f} tok/s here against {alone:.0f} alone, measured {day}"
    if rates[best] >= alone:
        return Choice(best, figures)
    return Choice(best, f"{figures}; no drafter here is faster than the target alone")


def _recall(memory: Path) -> dict[str, Measured]:
    """What was measured before; nothing when the file is missing or not ours."""
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
        return {
            str(key): Measured(
                {str(name): float(rate) for name, rate in each["rates"].items()}, str(each["day"])
            )
            for key, each in known.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


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
