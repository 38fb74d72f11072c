"""The models' names: the target's beside it, the drafter's where it works.

They stand to be read from the front and lie to be read from above. Like the names of zones they
are there at first, and again when another drafter comes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.families import About
from visualizer.stage import drafters, text
from visualizer.stage.camera import Point
from visualizer.stage.drafters import family
from visualizer.stage.frame import GLYPH, joined
from visualizer.stage.layout import DEPTH, LINE, MARGIN, PITCH
from visualizer.stage.models import TARGET_RADIUS
from visualizer.stage.moment import Moment
from visualizer.stage.stand import NAMED_ROUNDS, TAIL
from visualizer.stage.theme import Role
from visualizer.stage.timeline import Timeline

Rows = NDArray[np.void]

EM = 0.46
GROUND_EM = 0.42
AWAY = 0.30  # from the body that is named
LEADING = 1.15  # from line to line, in em
FLOOR = 0.012
GUESSES = 2.1  # room for the name of the zone that begins in the same line of ground


def seen(m: Moment) -> float:
    """How strongly (0..1) the models are named."""
    if m.now < 0:
        return 1.0
    here, before = _named(m.timeline, m.now), _named(m.timeline, m.now - 1)
    way = m.spans.approach.progress(m.t)
    return before + (here - before) * way


@lru_cache(maxsize=16)
def _named(timeline: Timeline, index: int) -> float:
    """Whether a round is one of the first, or of the first two with another drafter."""
    if index < NAMED_ROUNDS:
        return 1.0
    header = timeline.page.header
    last = timeline.rounds[index - NAMED_ROUNDS : index + 1]
    return float(len({drafters.kind_of(each, header) for each in last}) > 1)


def of_target(m: Moment, kind: About | None, alpha: float) -> Rows:
    """The target's name, and how many layers it has, left of it.

    Where its own first layers draft also that they were never trained to. Not where the target
    may rise out of the picture.
    """
    alpha *= min(max(3.0 - 2.0 * m.view.scale, 0.0), 1.0)
    if alpha <= 0.0:
        return np.zeros(0, GLYPH)
    lines = ["target", *([f"{m.layers} layers"] if m.layers else [])]
    if family(kind) == "layer-skip":
        lines.append("ordinary checkpoint")
    x, y, z = m.stand.target
    at = (x - TARGET_RADIUS - AWAY, y, z)
    return joined([upright(m, words, at, row, "target", alpha) for row, words in enumerate(lines)])


def of_drafter(m: Moment, kind: About, alpha: float) -> Rows:
    """The drafter's name: under a body that floats beside the target, else on the ground."""
    if family(kind) == "copy":
        x, y, z = drafters.beside(m.stand.target)
        short = kind.title.split(",")[0]
        half = text.measure(short) * em(m) / 2
        under = (drafters.TWIN + 0.15) / (LEADING * em(m)) + 0.7
        return upright(m, short, (x + half, y, z), under, "drafter", alpha)
    return _on_the_ground(m, kind.title, alpha)


def em(m: Moment) -> float:
    """Size of names that stand, world units."""
    return EM * m.lettering


def upright(m: Moment, words: str, end: Point, row: float, role: Role, alpha: float) -> Rows:
    """Words that end at `end`, so many rows below it.

    From the front they stand there; from above they lie there.
    """
    size = em(m)
    start = np.array(end) - (text.measure(words) * size, 0.0, 0.0)
    right = np.array((size, 0.0, 0.0))
    parts = []
    ups = (np.array((0.0, size, 0.0)), np.array((0.0, 0.0, -size)))
    for up, share in zip(ups, m.faces, strict=True):
        if share > 0.0:
            tone = np.array((*m.colors.linear(role), alpha * share))
            origin = start - row * LEADING * up
            parts.append(text.rows(text.quads(words), origin, right, up, tone))
    return joined(parts)


def _on_the_ground(m: Moment, words: str, alpha: float) -> Rows:
    """Before the line, ending where the drafter waits; not where there is no room for it."""
    place, size = m.place, GROUND_EM * m.lettering
    wide = text.measure(words) * size
    end = place.right + drafters.ASIDE + drafters.DISC
    start = end - wide
    if place.guesses and place.guesses[0].line == place.last_line:
        start = max(start, place.guesses[0].left + GUESSES * m.lettering)
    if start + wide > max(end, LINE + TAIL):
        return np.zeros(0, GLYPH)
    z = place.last_line * PITCH + DEPTH / 2 + MARGIN + size
    right, up = np.array((size, 0.0, 0.0)), np.array((0.0, 0.0, -size))
    tone = np.array((*m.colors.linear("drafter"), alpha))
    return text.rows(text.quads(words), np.array((start, FLOOR, z)), right, up, tone)
