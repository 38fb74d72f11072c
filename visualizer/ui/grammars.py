"""How a drafter's guesses hang together, as a small picture: a chain, a copy's arc, a tree.

Over a chain is what tells it from the others: the tower of a small model or of the target, left
half-way; a twin of the target; the feature that is read; the one pass that guesses everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from imgui_bundle import imgui

from engine.families import About
from visualizer.ui import widgets
from visualizer.ui.style import Style, faded, mixed

_TREE = ((0, 1), (0, 2), (1, 3), (1, 4))
_PLACES = ((-0.82, 0.0), (0.0, -0.45), (0.0, 0.62), (0.82, -0.78), (0.82, -0.02))
_ACROSS = (-0.76, 0.0, 0.76)
_STROKE = 0.13
_WHOLE = 5  # layers of a tower that stand for all of the target's


@dataclass(frozen=True, slots=True)
class _Pen:
    """Where to draw, around which middle, half the size, and colours as draw lists take them."""

    canvas: imgui.ImDrawList
    x: float
    y: float
    r: float
    line: int
    text: int
    guess: int
    ghost: int

    def at(self, across: float, down: float) -> imgui.ImVec2:
        return imgui.ImVec2(self.x + across * self.r, self.y + down * self.r)

    def stroke(self, *way: tuple[float, float]) -> None:
        for start, end in pairwise(way):
            self.canvas.add_line(self.at(*start), self.at(*end), self.line, self.r * _STROKE)

    def block(self, across: float, down: float, color: int, side: float = 0.44) -> None:
        low, high = (self.at(across + half, down + half) for half in (-side / 2, side / 2))
        self.canvas.add_rect_filled(low, high, color, side * 0.22 * self.r)


def draw(style: Style, about: About, x: float, y: float, size: float) -> None:
    """Draw the grammar of a drafter around a middle; `size` from edge to edge, window units."""
    pen = _Pen(
        imgui.get_window_draw_list(), x, y, size / 2,
        line=widgets.u32(mixed(style.palette.panel, style.palette.dim, 0.8)),
        text=widgets.u32(style.role("committed")),
        guess=widgets.u32(style.palette.accent),
        ghost=widgets.u32(faded(style.role("committed"), 0.45)),
    )  # fmt: skip
    if about.family == "none":
        pen.block(0.0, 0.0, pen.text)
    elif about.grammar == "tree":
        _tree(pen)
    elif about.grammar == "arc":
        _arc(pen)
    else:
        _chain(pen, about)


def _tree(pen: _Pen) -> None:
    for start, end in _TREE:
        pen.stroke(_PLACES[start], _PLACES[end])
    for number, place in enumerate(_PLACES):
        pen.block(*place, pen.guess if number else pen.text, 0.4)


def _arc(pen: _Pen) -> None:
    """From what is copied over to the guess, with a head on it."""
    low, high = 0.42, -0.92
    pen.canvas.add_bezier_cubic(
        pen.at(-0.76, low - 0.28), pen.at(-0.76, high), pen.at(0.76, high), pen.at(0.76, low - 0.4),
        pen.line, pen.r * _STROKE,
    )  # fmt: skip
    pen.canvas.add_triangle_filled(
        pen.at(0.54, low - 0.52), pen.at(0.98, low - 0.52), pen.at(0.76, low - 0.24), pen.line
    )
    for across, color in zip(_ACROSS, (pen.text, pen.guess, pen.guess), strict=True):
        pen.block(across, low, color)


def _chain(pen: _Pen, about: About) -> None:
    low = 0.5
    if about.family in ("pard", "medusa"):
        _at_once(pen, low, about.family == "medusa")
    else:
        pen.stroke((_ACROSS[0], low), (_ACROSS[-1], low))
    if about.family == "copy":
        pen.block(-0.98, low - 0.24, pen.ghost)
        _tower(pen, _WHOLE, _WHOLE, pen.ghost)
    elif about.family == "layer-skip":
        _tower(pen, _WHOLE, 3, pen.text)
    elif about.family == "model":
        _tower(pen, about.layers or 1, about.layers or 1, pen.guess)
    elif about.family in ("eagle", "mtp"):
        pen.stroke((_ACROSS[0], low), (_ACROSS[0], -0.5), (0.0, -0.5), (0.0, low))
        pen.canvas.add_circle_filled(pen.at(_ACROSS[0], -0.5), pen.r * 0.2, pen.text)
    for across, color in zip(_ACROSS, (pen.text, pen.guess, pen.guess), strict=True):
        pen.block(across, low, color)


def _tower(pen: _Pen, layers: int, used: int, color: int) -> None:
    """Layers from the lowest up, over the guesses; those not used are outlined."""
    for layer in range(layers):
        y = 0.04 - layer * 0.25
        low, high = pen.at(-0.02, y - 0.08), pen.at(0.78, y + 0.08)
        if layer < used:
            pen.canvas.add_rect_filled(low, high, color, pen.r * 0.05)
        else:
            pen.canvas.add_rect(low, high, pen.line, pen.r * 0.05, max(pen.r * 0.06, 1.0))


def _at_once(pen: _Pen, low: float, from_feature: bool) -> None:
    """All guesses hang from one thing: a pass over masks, or the target's feature."""
    top = -0.35
    if from_feature:
        for across in _ACROSS[1:]:
            pen.stroke((_ACROSS[0], top), (across, low))
        pen.stroke((_ACROSS[0], top), (_ACROSS[0], low))
        pen.canvas.add_circle_filled(pen.at(_ACROSS[0], top), pen.r * 0.2, pen.text)
        return
    for across in _ACROSS[1:]:
        pen.stroke((across, top), (across, low))
    pen.canvas.add_rect_filled(
        pen.at(-0.24, top - 0.14), pen.at(1.0, top + 0.1), pen.guess, pen.r * 0.06
    )
