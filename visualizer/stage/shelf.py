"""The shelf of earlier replies beside the target: where a memory's guesses come from."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.families import About
from visualizer.stage import blocks
from visualizer.stage.camera import Point
from visualizer.stage.layout import Slot
from visualizer.stage.text import Label, measure
from visualizer.stage.theme import theme

Rows = NDArray[np.void]
Floats = NDArray[np.float64]

NAME = "earlier replies"
EM = 0.46
BOARD = 0.52  # height of the board that bears the name
DEEP = 0.42  # half
APART = 3.35  # right of the target's middle
DROP = -0.95  # of the board's middle against the target's
WIDTHS = (0.24, 0.34, 0.20, 0.30, 0.26, 0.38, 0.22, 0.30, 0.24, 0.34)  # of the books
HEIGHTS = (0.62, 0.78, 0.70, 0.58, 0.74, 0.66, 0.80, 0.60, 0.72, 0.64)
GAP = 0.05
HALF = (sum(WIDTHS) + GAP * (len(WIDTHS) - 1)) / 2 + 0.14  # of the board's width


def seen(kind: About | None) -> bool:
    """Whether a drafter looks things up there."""
    return kind is not None and kind.family in ("retrieval", "hybrid")


def middle(target: Point) -> Point:
    """The middle of the board."""
    return target[0] + APART, target[1] + DROP, target[2]


def front(target: Point) -> Point:
    """Where what is taken off the shelf begins its way."""
    x, y, z = middle(target)
    return x - 0.4, y + BOARD / 2 + 0.45, z + DEEP


def under(target: Point) -> Point:
    """Where what is taken off the shelf is seen to come from: the board's lower side."""
    x, y, z = middle(target)
    return x - 0.4, y - BOARD / 2, z


@lru_cache(maxsize=16)
def _made(theme_name: str) -> tuple[Rows, blocks.Engraving]:
    """Board and books around the middle of the board, and the writing on it."""
    colors = theme(theme_name)
    lefts = np.cumsum((0.14, *(wide + GAP for wide in WIDTHS[:-1]))) - HALF
    tall = np.array(HEIGHTS)
    count = len(WIDTHS)
    centers = np.zeros((count + 1, 3))
    centers[1:, 0] = lefts + np.array(WIDTHS) / 2
    centers[1:, 1] = BOARD / 2 + tall / 2 + 0.01
    halves = np.full((count + 1, 3), DEEP)
    halves[0] = (HALF, BOARD / 2, DEEP)
    halves[1:, 0], halves[1:, 1], halves[1:, 2] = np.array(WIDTHS) / 2, tall / 2, 0.8 * DEEP
    shades = np.ones((count + 1, 4))
    shades[:, :3] = np.array(colors.linear("prompt")) * 0.75
    written = np.array(colors.linear("committed"))
    shades[1:, :3] = written * np.linspace(0.55, 0.95, count)[[0, 5, 2, 8, 4, 1, 7, 3, 9, 6], None]
    edge = np.array((*colors.linear("prompt"), 0.35))
    rows = blocks.bodies(centers, halves, shades, edge, [0] * (count + 1))
    label = Label(NAME, EM, measure(NAME) * EM)
    engraving = blocks.engrave([Slot(label, -label.width / 2, label.width)], BOARD)
    return rows, engraving


@lru_cache(maxsize=8)
def shown(
    target: Point, size: float, picked: int, theme_name: str, faces: tuple[float, float]
) -> tuple[Rows, Rows]:
    """The shelf as blocks and glyphs; `size` is 1, or less where it comes or goes.

    Not to be written to: from its arrival on it stays as it is.
    """
    made, engraving = _made(theme_name)
    rows = made.copy()
    at = np.array(middle(target))
    rows["center"] = at + made["center"] * size
    rows["half"] *= size
    rows["pick"] = picked
    ink = np.array([(*theme(theme_name).linear("engraved"), size >= 1.0)])
    return rows, engraving.at(at[None], ink, faces)
