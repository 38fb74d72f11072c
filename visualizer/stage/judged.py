"""How far each of a round's guesses is at a moment: fallen, weighed, told, broken, kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.trace import Round
from visualizer.stage import blocks
from visualizer.stage.easing import ease, ease_out
from visualizer.stage.layout import Place
from visualizer.stage.moment import Moment
from visualizer.stage.schedule import CRACK, SHATTER
from visualizer.stage.timeline import RoundSpans, Span, Timeline

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LETTING_GO = 0.2  # seconds
_NEVER = Span(np.inf, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """How far each of a round's guesses is, as arrays (n,) of 0..1.

    `fallen` into its slot; `fill`ed, first to its accept probability and, where accepted,
    then to the brim; told to be `refused` and `cracked`; `let_go` as discarded; `gone`, rejected
    and discarded ones alike. `dropped` and `kept` are masks: in the picture, and solid for good.
    """

    dropped: Flags
    kept: Flags
    rejected: Flags
    fallen: Floats
    read: Floats
    fill: Floats
    refused: Floats
    cracked: Floats
    let_go: Floats
    gone: Floats

    @classmethod
    def at(cls, m: Moment) -> Judged:
        """Of the guesses of a moment's round."""
        course = _course(m.timeline, m.now)
        fallen, read, cracked, let_go, gone = course.progress(m.t)
        weighed, told = np.clip((read / 0.6, read / 0.4 - 1.5), 0.0, 1.0)
        fill = course.accept_probs * ease_out(weighed)
        return cls(
            dropped=m.t >= course.starts[0],
            kept=course.accepted & (read >= 1.0),
            rejected=course.rejected,
            fallen=fallen,
            read=read,
            fill=fill + course.accepted * (1.0 - fill) * ease_out(told),
            refused=told * course.rejected,
            cracked=cracked,
            let_go=let_go,
            gone=gone,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Course:
    """What is known of a round's guesses (n,) before it is shown, and when it happens to them.

    Rows of `starts`, `ends` and `lasts` (5, n): falling, being read, cracking, being let go, going.
    """

    accepted: Flags
    rejected: Flags
    accept_probs: Floats
    starts: Floats
    ends: Floats
    lasts: Floats

    def progress(self, t: float) -> Floats:
        """How much of each has passed, (5, n) of 0..1, as `Span.progress` has it."""
        gone = np.maximum((t - self.starts) / self.lasts, 0.0)
        gone[t >= self.ends] = 1.0
        return np.asarray(gone)


@lru_cache(maxsize=8)
def _course(timeline: Timeline, index: int) -> _Course:
    each, spans = timeline.rounds[index], timeline.spans[index]
    rows = list(zip(*(_fate(each, spans, slot) for slot in range(len(each.guesses))), strict=True))
    starts = np.array([[span.start for span in row] for row in rows])
    lasts = np.array([[span.duration for span in row] for row in rows])
    verdicts = np.array([guess.verdict for guess in each.guesses])
    return _Course(
        accepted=verdicts == "accepted",
        rejected=verdicts == "rejected",
        accept_probs=np.array([guess.accept_prob for guess in each.guesses]),
        starts=starts,
        ends=starts + lasts,
        lasts=lasts,
    )


def _fate(each: Round, spans: RoundSpans, slot: int) -> tuple[Span, Span, Span, Span, Span]:
    """When a guess falls, is read, cracks, is let go and goes; never, what does not happen."""
    read = crack = let_go = _NEVER
    verdict = each.guesses[slot].verdict
    if slot in spans.order:
        read = spans.verdicts[spans.order.index(slot)]
    if verdict == "rejected":
        crack = Span(read.end, CRACK)
        gone = Span(spans.cracks[spans.order.index(slot)].end, SHATTER)
    else:
        ends = verdict != "accepted" and spans.shatter.duration > 0.0
        gone = spans.shatter if ends else _NEVER
    if verdict == "discarded":
        let_go = Span(spans.fates[slot].start, LETTING_GO)
    return spans.drops[slot], read, crack, let_go, gone


def slid(place: Place, centers: Floats, progress: float) -> Floats:
    """Centres (n, 3) of guesses once what survives of a tree has gone `progress` to the line."""
    if place.lanes == 1 or not place.path:
        return centers
    out, path = centers.copy(), list(place.path)
    out[path] += (blocks.centers_of(place.settled) - centers[path]) * ease(progress)
    return out
