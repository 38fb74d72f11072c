"""Curves on which something goes somewhere, and the ribbons that show them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visualizer.stage.camera import Point
from visualizer.stage.frame import RIBBON
from visualizer.stage.theme import RGB

Floats = NDArray[np.float64]
Rows = NDArray[np.void]

HEAD = 0.34  # length of an arrow's head, world units


def bent(start: Point, end: Point, out: Point, into: Point) -> Floats:
    """The four points (4, 3) of a curve that leaves along `out` and comes in from `into`."""
    first, last = np.array(start), np.array(end)
    return np.array([first, first + out, last + into, last])


def at(curve: Floats, share: float) -> Floats:
    """The point (3,) of a curve, `share` (0..1) of its parameter from its start."""
    rest = 1.0 - share
    weights = (rest**3, 3 * rest * rest * share, 3 * rest * share * share, share**3)
    return np.asarray(np.array(weights) @ curve)


def ribbon(curve: Floats, width: float, color: RGB, alpha: float, grown: float = 1.0) -> Rows:
    """A ribbon along the first `grown` (0..1) of a curve, with an arrow's head at its end."""
    row = np.zeros(1, RIBBON)
    for name, point in zip(("start", "rise", "fall", "end"), curve, strict=True):
        row[name] = point
    length = float(np.linalg.norm(np.diff(curve, axis=0), axis=1).sum())
    row["width"], row["head"] = width, min(HEAD / max(length, 1e-6), 0.5)
    row["span"], row["share"], row["color"] = (0.0, grown), (0.0, 1.0), (*color, alpha)
    return row
