"""Ways along the floor to guesses: under the lines that stand, so that they cross no word.

What hangs in the air before a line hides its words from one camera or another. A way goes down
to the floor where it starts, runs under the blocks, comes up behind the line of its guess, and
ends on the far edge of the guess's top.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from visualizer.stage import flows
from visualizer.stage.camera import Point
from visualizer.stage.frame import RIBBON
from visualizer.stage.layout import HEIGHT, Slot
from visualizer.stage.theme import RGB

Rows = NDArray[np.void]

FLOOR = 0.09  # of a way's middle: more than half its width
BEHIND = 2.0  # a line, where a way comes up: nearer than the line behind
EDGE = 0.30  # behind a block's middle, where a way ends: from above its word stays free
TURN = 0.5  # a way comes up at most so far beside its end,
STRAIGHT = 2.0  # having run so far along the line
FALL = 0.45  # comes down on its end from so high
FOOT = 0.9  # before a body's middle, where what it sends reaches the floor,
SWING = 0.35  # and so much further it swings out on its way down, round the body
SHORTEST = 1e-3  # a part shorter than that is none


def top(x: float, y: float, z: float) -> Point:
    """The end of a way to what stands at `x` on line `z` and reaches up to `y`."""
    return x, y, z - EDGE


def top_of(slot: Slot) -> Point:
    return top(slot.center, slot.y + HEIGHT, slot.z)


def foot(body: Point) -> Point:
    """Where what a body at `body` sends reaches the floor: behind every line that stands."""
    return body[0], FLOOR, body[2] + FOOT


def ribbon(
    start: Point, down: Point, end: Point, width: float, color: RGB, alpha: float, grown: float
) -> Rows:
    """The first `grown` (0..1) of the way from `start`, on the floor from `down` on, to `end`."""
    rows = _laid(start, down, end).copy()
    rows["width"], rows["color"] = width, (*color, alpha)
    before, until = rows["share"].T
    rows["span"][:, 1] = np.clip((grown - before) / (until - before), 0.0, 1.0)
    return rows[rows["span"][:, 1] > 0.0]


@lru_cache(maxsize=128)
def _laid(start: Point, down: Point, end: Point) -> Rows:
    """RIBBON rows for the parts of a way: down to the floor, along it, and up to the end."""
    x, _, z = end
    aside = min(TURN, abs(x - down[0]) / 2) * (1.0 if x > down[0] else -1.0)
    rises = (x - aside, FLOOR, z + EDGE - BEHIND)
    along = min(STRAIGHT, abs(rises[0] - down[0]) / 2) * (1.0 if x > down[0] else -1.0)
    forward = (rises[2] - down[2]) / 2
    drop = start[1] - down[1]
    hangs = (0.0, 0.15 * drop, 1.3 * (down[2] - start[2]) + SWING)
    curves = np.array(
        [
            flows.bent(start, down, hangs, (0.0, 0.6 * drop, 0.7 * SWING)),
            flows.bent(down, rises, (0.0, 0.0, forward), (-along, 0.0, 0.0)),
            flows.bent(rises, end, (0.7 * aside, 0.0, 0.2), (0.0, FALL, -0.1)),
        ]
    )
    lengths = np.linalg.norm(np.diff(curves, axis=1), axis=2).sum(axis=1)
    lengths[0] *= np.linalg.norm(np.subtract(start, down)) > SHORTEST
    until = np.cumsum(lengths) / lengths.sum()
    rows = np.zeros(3, RIBBON)
    for part, name in enumerate(("start", "rise", "fall", "end")):
        rows[name] = curves[:, part]
    rows["share"][1:, 0], rows["share"][:, 1] = until[:-1], until
    rows["head"][2] = min(flows.HEAD / lengths[2], 0.5)
    laid: Rows = rows[lengths > SHORTEST]
    laid.setflags(write=False)
    return laid
