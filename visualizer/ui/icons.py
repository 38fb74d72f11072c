"""The icons of the buttons, drawn from lines and triangles around a middle."""

from __future__ import annotations

from typing import Literal

from imgui_bundle import imgui

Icon = Literal[
    "play",
    "pause",
    "next",
    "previous",
    "round",
    "loop",
    "reset",
    "help",
    "up",
    "down",
    "close",
    "paint",
    "gallery",
]


def _triangle(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    """Points right when r > 0, left when r < 0; tip at x + r."""
    canvas.add_triangle_filled(
        imgui.ImVec2(x - r * 0.8, y - abs(r)),
        imgui.ImVec2(x - r * 0.8, y + abs(r)),
        imgui.ImVec2(x + r, y),
        color,
    )


def _bar(canvas: imgui.ImDrawList, x: float, y: float, r: float, width: float, color: int) -> None:
    canvas.add_rect_filled(
        imgui.ImVec2(x - width / 2, y - r), imgui.ImVec2(x + width / 2, y + r), color
    )


def _play(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    _triangle(canvas, x, y, r * 1.1, color)


def _pause(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    _bar(canvas, x - r * 0.5, y, r, r * 0.6, color)
    _bar(canvas, x + r * 0.5, y, r, r * 0.6, color)


def _next(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    _triangle(canvas, x - r * 0.25, y, r * 0.9, color)
    _bar(canvas, x + r * 0.85, y, r * 0.9, r * 0.4, color)


def _previous(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    _triangle(canvas, x + r * 0.25, y, -r * 0.9, color)
    _bar(canvas, x - r * 0.85, y, r * 0.9, r * 0.4, color)


def _round(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    _triangle(canvas, x - r * 0.7, y, r * 0.75, color)
    _triangle(canvas, x + r * 0.45, y, r * 0.75, color)
    _bar(canvas, x + r * 1.3, y, r * 0.8, r * 0.35, color)


def _reset(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    center = imgui.ImVec2(x, y)
    canvas.path_arc_to(center, r, -0.4, 4.6)
    canvas.path_stroke(color, r * 0.32)
    canvas.add_triangle_filled(
        imgui.ImVec2(x + r * 1.45, y - r * 0.5),
        imgui.ImVec2(x + r * 0.45, y - r * 0.5),
        imgui.ImVec2(x + r * 0.95, y + r * 0.25),
        color,
    )


def _help(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    canvas.add_circle(imgui.ImVec2(x, y), r * 1.25, color, 0, r * 0.25)
    mark = imgui.calc_text_size("?")
    canvas.add_text(imgui.ImVec2(x - mark.x / 2, y - mark.y / 2), color, "?")


def _up(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    _chevron(canvas, x, y, r, -1.0, color)


def _down(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    _chevron(canvas, x, y, r, 1.0, color)


def _chevron(
    canvas: imgui.ImDrawList, x: float, y: float, r: float, down: float, color: int
) -> None:
    tip = imgui.ImVec2(x, y + 0.5 * r * down)
    for side in (-r, r):
        canvas.add_line(imgui.ImVec2(x + side, y - 0.5 * r * down), tip, color, r * 0.35)


def _close(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    for side in (-r, r):
        start, end = (
            imgui.ImVec2(x - side * 0.8, y - r * 0.8),
            imgui.ImVec2(x + side * 0.8, y + r * 0.8),
        )
        canvas.add_line(start, end, color, r * 0.35)


def _loop(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    """Two arrows that chase each other around a flat ring."""
    for side in (-1.0, 1.0):
        top = y + side * 0.7 * r
        start, end = imgui.ImVec2(x - side * 1.1 * r, top), imgui.ImVec2(x + side * 0.5 * r, top)
        canvas.add_line(start, end, color, r * 0.3)
        canvas.add_line(start, imgui.ImVec2(start.x, y - side * 0.1 * r), color, r * 0.3)
        _triangle(canvas, end.x + side * 0.2 * r, top, side * 0.5 * r, color)


def _paint(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    """Three lines of words, each underlined in its own way."""
    for row in (-0.8, 0.8):
        low = y + row * r
        for left, right in ((-1.1, -0.2), (0.15, 1.1)):
            start, end = imgui.ImVec2(x + left * r, low), imgui.ImVec2(x + right * r, low)
            canvas.add_line(start, end, color, r * (0.55 if left * row > 0 else 0.22))


def _gallery(canvas: imgui.ImDrawList, x: float, y: float, r: float, color: int) -> None:
    """Four cards on a wall."""
    for across in (-0.62, 0.62):
        for down in (-0.62, 0.62):
            _bar(canvas, x + across * r, y + down * r, r * 0.45, r * 0.9, color)


DRAWN = {
    "play": _play,
    "pause": _pause,
    "next": _next,
    "previous": _previous,
    "round": _round,
    "reset": _reset,
    "help": _help,
    "up": _up,
    "down": _down,
    "close": _close,
    "loop": _loop,
    "paint": _paint,
    "gallery": _gallery,
}
