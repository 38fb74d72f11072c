"""The two models on stage: the large calm target and the small quick drafter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visualizer.stage.camera import Point, between
from visualizer.stage.easing import ease, swell
from visualizer.stage.frame import BEAM, SPHERE
from visualizer.stage.layout import DEPTH, MARGIN, PITCH, Place
from visualizer.stage.theme import Theme
from visualizer.stage.timeline import RoundSpans

Rows = NDArray[np.void]

TARGET_RADIUS = 1.15
TARGET_BACK = (2.3, -7.9)  # up and back from the present line: behind every line that stands
TARGET_RIGHT = 1.8  # of the round's middle
DRAFTER_RADIUS = 0.25
DRAFTER_HEIGHT = 2.55  # over the slot it fills next, and clear of the words of the line behind
PARKED = (0.55, 1.15)  # right of the last guess and before the line: out of the target's way
HOP = 0.24  # seconds from slot to slot
RISE, FALL = 0.25, 0.30  # of the target's swell
BEAM_LIGHT = 0.30


def pulse(spans: RoundSpans, t: float) -> float:
    """Level of the target's one swell per pass, 0..1."""
    return swell(t - spans.pulse.start, spans.pulse.end - t, RISE, FALL)


def target(center: Point, level: float, colors: Theme) -> Rows:
    """The target at rest (level 0) or in a pass (level 1)."""
    rows = np.zeros(1, SPHERE)
    rows["center"], rows["radius"] = center, TARGET_RADIUS
    rows["color"], rows["glow"] = (*colors.linear("target"), 1.0), level
    return rows


def beam(start: Point, place: Place, level: float, colors: Theme) -> Rows:
    """The cone of light from the target to the box, or to the slot it fills alone."""
    rows = np.zeros(1, BEAM)
    slots = place.guesses
    left = min((slot.left for slot in slots), default=place.left)
    right = max((slot.right for slot in slots), default=place.right)
    grown = MARGIN if slots else 0.0
    rows["start"] = start
    far, near = place.far, place.near
    top = place.top + MARGIN if slots else 0.0
    rows["end"] = ((left + right) / 2, top, (far + near) / 2)
    rows["half"] = ((right - left) / 2 + grown, (near - far + DEPTH) / 2 + grown)
    rows["color"] = (*colors.linear("target"), BEAM_LIGHT * level)
    return rows


def drafter(center: Point, size: float, working: bool, colors: Theme) -> Rows:
    """The drafter; `size` is 1, or less where it comes or goes."""
    rows = np.zeros(1, SPHERE)
    rows["center"], rows["radius"] = center, DRAFTER_RADIUS * size
    rows["color"] = (*colors.linear("drafter"), 1.0)
    rows["glow"] = 0.9 if working else 0.3
    return rows


def parked(place: Place) -> Point:
    """Where the drafter waits while the target works."""
    if place.lanes > 1:
        end, line = max(slot.right for slot in place.guesses), place.line
    elif place.guesses:
        end, line = place.guesses[-1].right, place.guesses[-1].line
    else:
        end, line = place.left, place.line
    return end + PARKED[0], DRAFTER_RADIUS, line * PITCH + PARKED[1]


def drafter_at(
    place: Place, before: Place | None, spans: RoundSpans, t: float, moving: bool
) -> Point:
    """Where the drafter is: coming from the round before, over the slots, or aside again.

    With `moving` false it is only ever at the ends of its ways.
    """
    falls = sorted(range(len(place.guesses)), key=lambda slot: spans.drops[slot].start)
    slots = [place.guesses[slot] for slot in falls]
    stops: list[Point] = [(slot.center, slot.y + DRAFTER_HEIGHT, slot.z) for slot in slots]
    if not stops:  # it looked and found nothing, or does not take part
        stops = [(place.left + PARKED[0], DRAFTER_HEIGHT, place.line * PITCH)]
    leaves = sorted(drop.start for drop in spans.drops) or [spans.close.start]
    if t < spans.approach.end:
        aside = (place.left, DRAFTER_RADIUS, place.line * PITCH + PARKED[1])
        start = parked(before) if before else aside
        return _along(start, stops[0], spans.approach.progress(t), moving)
    done = sum(t >= leave for leave in leaves)
    if done == 0:
        return stops[0]
    following = [*stops[1:], parked(place)]
    until = leaves[done] if done < len(leaves) else leaves[-1] + 2 * HOP
    room = min(until - leaves[done - 1], 2 * HOP if done == len(leaves) else HOP)
    way = min((t - leaves[done - 1]) / max(room, 1e-6), 1.0)
    return _along(stops[done - 1], following[done - 1], way, moving)


def _along(start: Point, end: Point, progress: float, moving: bool) -> Point:
    return between(start, end, ease(progress)) if moving else end
