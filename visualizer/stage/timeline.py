"""When everything happens: spans of the scene clock, and the beats where stepping stops.

A timeline only grows: the spans of a round depend on that round and on those before it, so
``timeline(trace[:n])`` is a prefix of ``timeline(trace)`` and a live run looks like its replay.
Seconds here are seconds of the scene clock unless a name says `measured`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.trace import Round
from visualizer.stage.layout import Page
from visualizer.stage.tally import Tally

Phase = Literal[
    "approach", "draft", "close", "pass", "verdicts", "shatter", "slide", "land", "settle"
]

_SAME = 1e-6  # seconds: two beats closer than this are one


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the scene clock."""

    start: float
    duration: float

    @property
    def end(self) -> float:
        return self.start + self.duration

    def progress(self, t: float) -> float:
        """How much of the span has passed at `t`, 0..1. An empty span jumps at its start."""
        if t >= self.end:
            return 1.0
        return max(0.0, (t - self.start) / self.duration) if self.duration > 0 else 0.0

    def holds(self, t: float) -> bool:
        return self.start <= t < self.end


@dataclass(frozen=True, slots=True)
class Beat:
    """A moment at which one step of the story is complete and the picture rests."""

    time: float
    round: int
    phase: Phase


@dataclass(frozen=True, slots=True)
class RoundSpans:
    """When one round happens. Spans follow each other in the order of the fields.

    `factor` is scene seconds per measured second: the steps of the drafter and the pass are
    their measured length times it, so their ratio on screen is the measured one.
    `steps` has one span per measured draft step, `drops` one per guess, `verdicts` one per guess
    that was judged, whose slots are `order`, and `cracks` one at whose end each bursts that was
    refused, together with its refused siblings. `fates` has one span per guess, at whose end the
    show has told what becomes of it. Spans of what did not happen are empty.
    `bright` passes pulse at any playback speed; they are so far apart that pulses of a fast
    playback never come more than three a second.
    """

    index: int
    bright: bool
    factor: float
    approach: Span  # the camera and the drafter come to this round's first slot
    steps: tuple[Span, ...]
    drops: tuple[Span, ...]
    close: Span
    pulse: Span  # the target pass
    order: tuple[int, ...]
    verdicts: tuple[Span, ...]
    cracks: tuple[Span, ...]
    fates: tuple[Span, ...]
    crack: Span  # after the last verdict
    shatter: Span  # pieces fly and discarded guesses fade, until the slot is free
    slide: Span  # what survives of a tree comes down onto the line
    land: Span
    settle: Span
    beats: tuple[Beat, ...]

    @property
    def start(self) -> float:
        return self.approach.start

    @property
    def end(self) -> float:
        return self.settle.end

    @property
    def draft(self) -> Span:
        """From the first draft step until the last guess lies in its slot."""
        start = self.approach.end
        return Span(start, self.close.start - start)

    @property
    def judged(self) -> Span:
        """The verdicts, all of them."""
        return Span(self.pulse.end, self.crack.start - self.pulse.end)

    def phase(self, t: float) -> Phase:
        """What is going on at `t`."""
        ends: tuple[tuple[float, Phase], ...] = (
            (self.approach.end, "approach"),
            (self.close.start, "draft"),
            (self.pulse.start, "close"),
            (self.pulse.end, "pass"),
            (self.crack.start, "verdicts"),
            (self.slide.start, "shatter"),
            (self.land.start, "slide"),
            (self.land.end, "land"),
        )
        return next((phase for end, phase in ends if t < end), "settle")

    def measured(self, t: float) -> float:
        """Measured seconds of this round's work done at `t`: drafting and the pass alone."""
        work = (*self.steps, self.pulse)
        return sum(span.duration * span.progress(t) for span in work) / self.factor


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """A compiled run: its rounds, where they lie and when they happen. Compared by identity.

    `tallies` are the sums up to each round; `factor` is scene seconds per measured second.
    """

    rounds: tuple[Round, ...]
    spans: tuple[RoundSpans, ...]
    page: Page
    tallies: tuple[Tally, ...]
    factor: float

    @property
    def duration(self) -> float:
        return self.spans[-1].end if self.spans else 0.0

    def round_at(self, t: float) -> int:
        """Index of the round going on at `t`; the last one when all are over, -1 with none."""
        found = bisect_right(self.spans, t, key=lambda spans: spans.start) - 1
        return max(found, 0) if self.spans else -1

    def beats(self, first: int = 0, last: int | None = None) -> tuple[Beat, ...]:
        """The beats of rounds ``first:last``, in order."""
        return tuple(beat for spans in self.spans[first:last] for beat in spans.beats)

    def next_beat(self, t: float) -> float:
        """Time of the first beat after `t`; the end of the timeline when there is none."""
        here = max(self.round_at(t), 0)
        times = (beat.time for beat in self.beats(here, here + 2))
        return next((time for time in times if time > t + _SAME), self.duration)

    def prev_beat(self, t: float) -> float:
        """Time of the last beat before `t`; 0 when there is none."""
        here = max(self.round_at(t), 0)
        times: Sequence[Beat] = self.beats(max(here - 1, 0), here + 1)
        return max((beat.time for beat in times if beat.time < t - _SAME), default=0.0)

    def next_round(self, t: float) -> float:
        """Time at which the round after the one at `t` starts; the end when it is the last."""
        here = self.round_at(t) + 1
        return self.spans[here].start if 0 < here < len(self.spans) else self.duration

    def prev_round(self, t: float) -> float:
        """Start of the round at `t`, or of the one before when `t` is at its very start."""
        here = self.round_at(t)
        if here < 0:
            return 0.0
        if t <= self.spans[here].start + _SAME:
            here = max(here - 1, 0)
        return self.spans[here].start
