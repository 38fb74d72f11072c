"""How far each of a round's guesses is at a moment: fallen, weighed, told, broken, kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.trace import Round
from visualizer.stage import blocks
from visualizer.stage.easing import ease, ease_out
from visualizer.stage.layout import Place
from visualizer.stage.schedule import CRACK, SHATTER
from visualizer.stage.timeline import RoundSpans, Span

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


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
    def at(cls, t: float, each: Round, spans: RoundSpans) -> Judged:
        verdicts = np.array([guess.verdict for guess in each.guesses])
        accepted, rejected = verdicts == "accepted", verdicts == "rejected"
        starts = np.array([drop.start for drop in spans.drops])
        lasts = np.array([drop.duration for drop in spans.drops])
        read, cracked, gone = np.zeros((3, len(verdicts)))
        order = list(spans.order)
        read[order] = [span.progress(t) for span in spans.verdicts]
        cracked[order] = [Span(span.end, CRACK).progress(t) for span in spans.verdicts]
        gone[order] = [Span(span.end, SHATTER).progress(t) for span in spans.cracks]
        weighed, told = np.clip(read / 0.6, 0.0, 1.0), np.clip(read / 0.4 - 1.5, 0.0, 1.0)
        fill = np.array([guess.accept_prob for guess in each.guesses]) * ease_out(weighed)
        sealed = np.array([span.start for span in spans.fates])
        return cls(
            dropped=t >= starts,
            kept=accepted & (read >= 1.0),
            rejected=rejected,
            fallen=np.clip((t - starts) / lasts, 0.0, 1.0),
            read=read,
            fill=fill + accepted * (1.0 - fill) * ease_out(told),
            refused=told * rejected,
            cracked=cracked * rejected,
            let_go=np.clip((t - sealed) / 0.2, 0.0, 1.0) * (verdicts == "discarded"),
            gone=np.where(rejected, gone, since(t, spans.shatter) * ~accepted),
        )


def since(t: float, span: Span) -> float:
    """Progress of a span that may be empty: an empty one never happens."""
    return span.progress(t) if span.duration > 0.0 else 0.0


def slid(place: Place, centers: Floats, progress: float) -> Floats:
    """Centres (n, 3) of guesses once what survives of a tree has gone `progress` to the line."""
    if place.lanes == 1 or not place.path:
        return centers
    out, path = centers.copy(), list(place.path)
    out[path] += (blocks.centers_of(place.settled) - centers[path]) * ease(progress)
    return out
