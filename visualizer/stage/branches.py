"""The branches of a tree of guesses: from each to the ones that follow it.

A branch is as thick and as bright as the drafter thought the text down to its guess likely: it
thins out like a real tree's, and the thick ones show where the tree wanted to grow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from visualizer.stage.camera import Point
from visualizer.stage.frame import RIBBON, joined
from visualizer.stage.judged import Judged
from visualizer.stage.layout import BRANCH, HEIGHT, PITCH, Place
from visualizer.stage.theme import Theme
from visualizer.stage.tree import ROOT

Floats = NDArray[np.float64]
Rows = NDArray[np.void]

WIDTH = 0.040  # half of it, world units
LIT = 1.7  # times that wide, once its guess has passed
AROUND = (-0.6, 0.9)  # down and out: round the elder branches, before them on the ground
PENDING, HOLLOW = 0.75, 0.30  # opacity of what is not judged yet, and of what never will be
THINNEST, THICKEST = 0.45, 2.20  # times its width, of what has no chance and of what is certain
FAINTEST = 0.50  # times its opacity, of what has no chance


def trunk_of(place: Place, slot: int) -> Point:
    """Where the branch to a guess after the text starts: at its part's trunk, half a block up."""
    return place.guesses[slot].left - BRANCH, HEIGHT / 2, place.line * PITCH


def rows(
    place: Place,
    parents: tuple[int, ...],
    hopes: Sequence[float | None],
    centers: Floats,
    halves: Floats,
    j: Judged,
    gathered: float,
    colors: Theme,
) -> Rows:
    """RIBBON rows, one for each guess that is in the picture and has a branch to be seen.

    A branch grows as its guess falls, lights up as it passes, and is gone with it; what
    survives draws its branches in while it has `gathered` (0..1) on the line. `hopes` are the
    drafter's own (see `tree.hopes`); without one a branch is of middling width.
    """
    ends = centers - halves * (1.0, 0.0, 0.0)
    leaves = centers + halves * (1.0, 0.0, 0.0)
    starts = np.array(
        [trunk_of(place, slot) if its == ROOT else leaves[its] for slot, its in enumerate(parents)]
    )
    out = np.zeros(len(parents), RIBBON)
    out["start"], out["end"] = starts, ends
    bend = (ends - starts) * (0.55, 0.0, 0.0)
    out["rise"], out["fall"] = starts + bend, ends - bend
    lit = np.where(j.kept, 1.0, np.sin(np.pi * np.clip(j.read, 0.0, 1.0)) * ~j.rejected)
    # By the root, as eyes compare: a twentieth can still be seen, and told from a half.
    likely = np.sqrt([np.nan if hope is None else hope for hope in hopes])
    thick = np.nan_to_num(THINNEST + (THICKEST - THINNEST) * likely, nan=1.0)
    bright = np.nan_to_num(FAINTEST + (1.0 - FAINTEST) * likely, nan=1.0)
    out["width"] = WIDTH * (thick + (np.maximum(thick, LIT) - thick) * lit)
    out["span"][:, 1], out["share"][:, 1] = j.fallen, 1.0
    tone = np.tile(colors.linear("guess"), (len(parents), 1))
    for role, weights in (("rejected", j.refused), ("discarded", j.let_go)):
        tone = tone + (np.array(colors.linear(role)) - tone) * weights[:, None]
    out["color"][:, :3] = tone * (1.0 + (colors.gleam - 1.0) * lit)[:, None]
    seen = PENDING * bright + (1.0 - PENDING * bright) * lit
    seen += (HOLLOW - seen) * j.let_go
    away = np.where(j.rejected, j.gone > 0.0, j.gone)
    out["color"][:, 3] = seen * (1.0 - away) * (1.0 - gathered)
    out["color"][:, 3] *= j.dropped
    runners = _runners(place, parents, out)
    return joined([out[out["color"][:, 3] > 0.0], runners])


def _runners(place: Place, parents: tuple[int, ...], branches: Rows) -> Rows:
    """From the text along the ground to the trunk of each further part of a tree.

    Each is as bright as the brightest of the branches that start at its trunk.
    """
    first = [slot for slot, parent in enumerate(parents) if parent == ROOT]
    trunks = sorted({trunk_of(place, slot)[0] for slot in first})[1:]
    out = np.zeros(len(trunks), RIBBON)
    for row, x in zip(out, trunks, strict=True):
        here = [slot for slot in first if abs(trunk_of(place, slot)[0] - x) < 1e-6]
        brightest = branches[max(here, key=lambda slot: float(branches["color"][slot, 3]))]
        for name in ("width", "color", "span", "share"):
            row[name] = brightest[name]
        y, z = HEIGHT / 2, place.line * PITCH
        row["start"], row["end"] = (place.root, y, z), (x, y, z)
        row["rise"] = (place.root + 0.3, y + AROUND[0], z + AROUND[1])
        row["fall"] = (x - 0.3, y + AROUND[0], z + AROUND[1])
    return out[out["color"][:, 3] > 0.0]
