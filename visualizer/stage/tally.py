"""Sums over a run that grow by one round at a time, so that a long run costs no more to tell."""

from __future__ import annotations

from dataclasses import dataclass

from engine.stats import Stats
from engine.trace import Round


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """What a run amounts to once one of its rounds is over.

    `stats` are of the rounds from `first` on: those since a setting last changed. `ghost` is
    the histogram under the setting before. `seconds` are measured ones of the whole run, `text`
    is what the round added to it (bytes that are no whole character are surrogates).
    """

    first: int
    last: Round
    stats: Stats
    ghost: tuple[int, ...]
    seconds: float
    text: str

    @classmethod
    def after(cls, before: Tally | None, each: Round) -> Tally:
        """The tally of `each`, which comes after `before` (None at a run's start)."""
        own = Stats.of((each,))
        text = "".join(token.text for token in each.committed)
        if before is None:
            return cls(each.index, each, own, (), 0.0 + each.seconds, text)
        seconds = before.seconds + each.seconds
        if before.last.settings.as_set != each.settings.as_set:
            return cls(each.index, each, own, before.stats.histogram, seconds, text)
        return cls(before.first, each, before.stats + own, before.ghost, seconds, text)
