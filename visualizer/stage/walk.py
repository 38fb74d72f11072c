"""Where the drafter is: over the slots while it guesses, and aside while the target works.

A model of its own goes from slot to slot. Who copies flies to the phrase and carries the words
over. Who guesses for all slots at once stays over their middle. Layer skip's guesses leave the
target at the layer where it stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.families import About
from visualizer.stage import arcs, drafters, flows, origins, ways
from visualizer.stage.camera import Point, between
from visualizer.stage.drafters import ASIDE, BEHIND, HOVER, family
from visualizer.stage.easing import ease
from visualizer.stage.layout import HEIGHT, PITCH, Place
from visualizer.stage.moment import Moment

Floats = NDArray[np.float64]

LOOKS = 0.55  # right of the text's end, where it looked and found nothing
HOP = 0.24  # seconds from slot to slot
LEAVE = 0.45  # seconds to its place aside
ABOVE = 0.8  # a phrase that it copies


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """One move: from `start` on, for `seconds`, along a straight line or a curve (4, 3)."""

    start: float
    seconds: float
    origin: Point
    goal: Point
    curve: Floats | None = None

    def at(self, t: float, moving: bool) -> Point:
        if not moving:
            return self.goal
        way = ease(min(max((t - self.start) / max(self.seconds, 1e-6), 0.0), 1.0))
        if self.curve is None:
            return between(self.origin, self.goal, way)
        x, y, z = flows.at(self.curve, way).tolist()
        return x, y, z


def foot_at(kind: About | None, m: Moment) -> Point:
    """The lowest point of the drafter's body."""
    legs = _legs(kind, m)
    here = next((leg for leg in reversed(legs) if m.t >= leg.start), legs[0])
    return here.at(m.t, m.moving)


def home(kind: About | None, place: Place, m: Moment) -> Point:
    """Where its foot is while the target works on the round at `place`."""
    if family(kind) in drafters.INSIDE:
        x, y, z = drafters.leaving(kind, m.stand.target, m.layers)
        return x, y - drafters.BEAD, z
    return place.right + ASIDE, 0.0, place.last_line * PITCH


def stops(kind: About | None, place: Place, order: Sequence[int]) -> list[Point]:
    """Where its foot is for each of its guesses, in the order in which they fall."""
    slots = [place.guesses[slot] for slot in order]
    if place.lanes > 1:  # over all of a tree, from column to column
        over, back = place.top - HEIGHT + HOVER, place.far - BEHIND
        return [(slot.center, over, back) for slot in slots]
    if family(kind) == "pard" and slots:
        left, right = min(slot.left for slot in slots), max(slot.right for slot in slots)
        over = max(slot.y for slot in slots) + HOVER
        return [((left + right) / 2, over, slots[0].z - BEHIND)]
    if family(kind) in drafters.INSIDE:  # what comes out of a body ends its way on the guess
        return [ways.top_of(slot) for slot in slots]
    return [(slot.center, slot.y + HOVER, slot.z - BEHIND) for slot in slots]


def _legs(kind: About | None, m: Moment) -> list[Leg]:
    """Its moves in this round."""
    spans, place = m.spans, m.place
    if m.before is not None:
        start = home(kind, m.before, m)
    elif family(kind) in drafters.INSIDE:
        start = home(kind, place, m)
    else:
        start = place.left - LOOKS, 0.0, place.line * PITCH
    copied = origins.runs(m.timeline, m.now) if family(kind) in ("ngram", "retrieval") else ()
    if copied:
        carry = _carrying(m, copied[0])
        legs = [Leg(spans.approach.start, spans.approach.duration, start, carry.origin), carry]
    else:
        order = sorted(range(len(place.guesses)), key=lambda slot: spans.drops[slot].start)
        falls = [spans.drops[slot].start for slot in order]
        at = stops(kind, place, order) or [(place.left + LOOKS, HOVER, place.line * PITCH)]
        legs = [Leg(spans.approach.start, spans.approach.duration, start, at[0])]
        for last, goal, leaves, until in zip(at, at[1:], falls, falls[1:], strict=False):
            legs.append(Leg(leaves, min(HOP, until - leaves), last, goal))
    last, goal = legs[-1].goal, home(kind, place, m)
    around = None
    if place.lanes > 1:  # first along the top and then down beside it, before none of its words
        x, y, z = goal[0] - last[0], last[1] - goal[1], last[2] - goal[2]
        around = flows.bent(last, goal, (x, 0.0, 0.0), (0.0, y, z))
    return [*legs, Leg(spans.close.start, LEAVE, last, goal, around)]


def _carrying(m: Moment, run: origins.Run) -> Leg:
    """From over the phrase it copies to the slots, with the words."""
    there, here = (0.0, ABOVE, 0.0), (0.0, HOVER - HEIGHT, -BEHIND)
    path = arcs.path(m, run) + np.array((there, there, here, here))
    drops = m.spans.drops[run.first : run.last]
    (x, y, z), _, _, (i, j, k) = path.tolist()
    return Leg(drops[0].start, drops[-1].end - drops[0].start, (x, y, z), (i, j, k), path)
