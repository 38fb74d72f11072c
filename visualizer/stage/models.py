"""The target: one large calm ball, and its light while a pass runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visualizer.stage.camera import Point
from visualizer.stage.easing import swell
from visualizer.stage.frame import BEAM, SPHERE
from visualizer.stage.layout import DEPTH, MARGIN, Place
from visualizer.stage.theme import Theme
from visualizer.stage.timeline import RoundSpans

Rows = NDArray[np.void]

TARGET_RADIUS = 1.15
TARGET_BACK = (2.3, -7.9)  # up and back from the present line: behind every line that stands
TARGET_RIGHT = 1.8  # of the round's middle
RISE, FALL = 0.25, 0.30  # of the target's swell
BEAM_LIGHT = 0.30


def pulse(spans: RoundSpans, t: float) -> float:
    """Level of the target's one swell per pass, 0..1."""
    return swell(t - spans.pulse.start, spans.pulse.end - t, RISE, FALL)


def target(center: Point, level: float, reached: float, layers: int, colors: Theme) -> Rows:
    """The target at rest (level 0) or in a pass (level 1), which has `reached` (0..1) so far.

    With its number of `layers` known it shows them, and its light climbs from one to the next.
    """
    rows = np.zeros(1, SPHERE)
    rows["center"], rows["radius"] = center, TARGET_RADIUS
    rows["color"], rows["glow"] = (*colors.linear("target"), 1.0), level
    rows["layers"], rows["unlit"] = layers, (1.0 - reached) if layers else 0.0
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
