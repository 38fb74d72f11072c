"""The drafters' bodies: what stands on stage for each kind of drafter.

Models are round, text is made of boxes. A layer is a disc, so a model of its own is as high as
it has layers. A low-bit copy is the target again, beside it, with as many steps from pole to
pole as its weights have levels. Heads sit on the target's crown. Whoever only looks things up
is a ball.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.families import About, about
from engine.trace import Round, RunHeader
from visualizer.stage.camera import Point
from visualizer.stage.frame import SPHERE
from visualizer.stage.models import TARGET_RADIUS
from visualizer.stage.theme import Theme

Rows = NDArray[np.void]
Floats = NDArray[np.float64]

BALL = 0.25  # radius of whoever only reads
BEAD = 0.19  # of what carries guesses out of a large body
DISC = 0.43  # radius of a layer,
LAYER = 0.21  # and how much higher it makes a model
FLAT = 1.0 - 0.44 * LAYER / DISC  # its squash: a narrow gap stays between two
TWIN = 0.90  # radius of a low-bit copy
BESIDE, LOWER = 3.3, 0.45  # right of the target's middle and below it, where such a copy floats
CLEAR = 0.72  # opacity of what is but a likeness: a rounded copy, a masked place
HEADS = 4
HEAD = 0.24
APART = 0.55  # radians between two heads,
CROWN = 0.62  # and of all above the equator
HOVER = 2.65  # of a foot over the slot that is filled next, clear of the words of the line behind
BEHIND = 0.75  # and so much further back, so that from above it hides no word either
ASIDE = 0.8  # right of everything a round may bring: out of the target's way
WIDEST = DISC
TALLEST = 4 * LAYER
RESTING, WORKING = 0.3, 0.9  # how much of its own light it gives

STACKS = ("model", "hybrid", "pard", "eagle", "mtp")
"""Families whose own layers guess."""
INSIDE = ("copy", "layer-skip")
"""Families whose guesses come out of a body that stays where it is."""


def kind_of(each: Round, header: RunHeader | None) -> About | None:
    """Who guessed in this round; None for a drafter that nobody here knows."""
    name = each.settings.drafter
    if name == "auto":
        name = header.drafter if header is not None else ""
    return about(name)


def family(kind: About | None) -> str:
    return kind.family if kind is not None else ""


def layers(kind: About | None) -> int:
    """How many discs its body is made of; 0 where it is no stack of layers."""
    if kind is None or kind.family not in STACKS:
        return 0
    return kind.layers or 1


def levels(kind: About | None) -> int:
    """Steps from pole to pole of a low-bit copy: one for each value a weight can have."""
    return 2 ** min(kind.bits, 8) if kind is not None and kind.bits else 0


def tall(kind: About | None) -> float:
    """Height of what moves, world units."""
    if layers(kind):
        return layers(kind) * LAYER
    return 2 * (BEAD if family(kind) in INSIDE else BALL)


def body(kind: About | None, foot: Point, size: float, glow: float, colors: Theme) -> Rows:
    """What moves; its lowest point is `foot`, its `size` 1 or less where it comes or goes."""
    rows = _body(layers(kind), tall(kind)).copy()
    rows["center"] = np.array(foot) + rows["center"] * size
    rows["radius"] *= size
    rows["color"], rows["glow"] = (*colors.linear("drafter"), 1.0), glow
    return rows


@lru_cache(maxsize=32)
def _body(count: int, height: float) -> Rows:
    """A stack of so many discs, or with none a ball, on the ground in the middle of the stage."""
    rows = np.zeros(max(count, 1), SPHERE)
    rows["center"][:, 1] = (np.arange(len(rows)) + 0.5) * height / len(rows)
    rows["radius"], rows["squash"] = (DISC, FLAT) if count else (height / 2, 0.0)
    return rows


def twin(kind: About | None, target: Point, size: float, glow: float, colors: Theme) -> Rows:
    """A low-bit copy of the target, beside it."""
    rows = np.zeros(1, SPHERE)
    rows["center"], rows["radius"] = beside(target), TWIN * size
    rows["color"], rows["glow"] = (*colors.linear("target"), CLEAR), glow
    rows["levels"] = levels(kind)
    return rows


def beside(target: Point) -> Point:
    """The middle of what floats beside the target."""
    return target[0] + BESIDE, target[1] - LOWER, target[2]


def masks(places: Floats, size: float, glow: float, colors: Theme) -> Rows:
    """The masked places (n, 3) that a parallel drafter fills all at once."""
    rows = np.zeros(len(places), SPHERE)
    rows["center"], rows["radius"], rows["squash"] = places, 0.8 * DISC * size, FLAT
    rows["color"], rows["glow"] = (*colors.linear("drafter"), CLEAR * size), glow
    return rows


def heads(target: Point, count: int, size: float, glow: float, colors: Theme) -> Rows:
    """Heads on the target's crown, side by side, the first on the left."""
    rows = np.zeros(count, SPHERE)
    rows["center"] = head_places(target, count)
    rows["radius"], rows["glow"] = HEAD * size, glow
    rows["color"] = (*colors.linear("drafter"), 1.0)
    return rows


def head_places(target: Point, count: int) -> Floats:
    """Where heads sit (n, 3)."""
    apart = min(APART, 2.2 / max(count - 1, 1))
    turned = (np.arange(count) - (count - 1) / 2) * apart
    flat = np.cos(CROWN)
    ways = [np.sin(turned) * flat, np.full(count, np.sin(CROWN)), np.cos(turned) * flat]
    return np.array(target) + TARGET_RADIUS * np.stack(ways, axis=1)


def share(kind: About | None, of: int) -> float:
    """The share of the target's layers that layer skip uses.

    Half where nobody knows `of` how many there are.
    """
    count = kind.layers if kind is not None and kind.layers else 0
    return min(count / of, 1.0) if of and count else 0.5


def leaving(kind: About | None, target: Point, of: int) -> Point:
    """Where guesses come out of a body that stays: a target of so many layers, or its copy."""
    if levels(kind):
        return beside(target)
    up = (2.0 * share(kind, of) - 1.0) * TARGET_RADIUS
    out = max(TARGET_RADIUS**2 - up * up, 0.0) ** 0.5
    return target[0], target[1] + up, target[2] + out
