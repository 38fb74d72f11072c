"""The branches of a tree of guesses: from each to the ones that follow it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visualizer.stage.camera import Point
from visualizer.stage.frame import RIBBON
from visualizer.stage.judged import Judged
from visualizer.stage.layout import HEIGHT, PITCH, Place
from visualizer.stage.theme import Theme
from visualizer.stage.tree import ROOT

Floats = NDArray[np.float64]
Rows = NDArray[np.void]

WIDTH = 0.040  # half of it, world units
LIT = 1.7  # times that wide, once its guess has passed
PENDING, HOLLOW = 0.75, 0.30  # opacity of what is not judged yet, and of what never will be


def root_of(place: Place) -> Point:
    """Where the branches start: at the end of the text, half a block above the ground."""
    return place.root, HEIGHT / 2, place.line * PITCH


def rows(
    place: Place,
    parents: tuple[int, ...],
    centers: Floats,
    halves: Floats,
    j: Judged,
    gathered: float,
    colors: Theme,
) -> Rows:
    """RIBBON rows, one for each guess that is in the picture and has a branch to be seen.

    A branch grows as its guess falls, lights up as it passes, and is gone with it; what
    survives draws its branches in while it has `gathered` (0..1) on the line.
    """
    ends = centers - halves * (1.0, 0.0, 0.0)
    leaves = centers + halves * (1.0, 0.0, 0.0)
    starts = np.array([root_of(place) if its == ROOT else leaves[its] for its in parents])
    out = np.zeros(len(parents), RIBBON)
    out["start"], out["end"] = starts, ends
    bend = (ends - starts) * (0.55, 0.0, 0.0)
    out["rise"], out["fall"] = starts + bend, ends - bend
    lit = np.where(j.kept, 1.0, np.sin(np.pi * np.clip(j.read, 0.0, 1.0)) * ~j.rejected)
    out["width"] = WIDTH * (1.0 + (LIT - 1.0) * lit)
    out["span"][:, 1] = j.fallen
    tone = np.tile(colors.linear("guess"), (len(parents), 1))
    for role, weights in (("rejected", j.refused), ("discarded", j.let_go)):
        tone = tone + (np.array(colors.linear(role)) - tone) * weights[:, None]
    out["color"][:, :3] = tone * (1.0 + (colors.gleam - 1.0) * lit)[:, None]
    seen = PENDING + (1.0 - PENDING) * lit + (HOLLOW - PENDING) * j.let_go
    away = np.where(j.rejected, j.gone > 0.0, j.gone)
    out["color"][:, 3] = seen * (1.0 - away) * (1.0 - gathered)
    return out[j.dropped & (out["color"][:, 3] > 0.0)]
