"""Acceptance in bars: how many rounds accepted exactly j guesses, and how often each position."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil

from imgui_bundle import imgui

from visualizer.stage.hud import Hud
from visualizer.ui import explain, widgets
from visualizer.ui.layout import Rect
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE, Rgba, mixed

LEFT = 0.6  # of the width, for the histogram; the rest is for the positions
GAP = 14.0
APART = 1.2  # times their width, numbers under the bars


def draw(ui: Ui, hud: Hud, height: float) -> None:
    """Shares of the rounds since a setting last changed; the setting before as a ghost."""
    unit = ui.style.unit
    corner = imgui.get_cursor_screen_pos()
    width = imgui.get_content_region_avail().x
    left = Rect(corner.x, corner.y, width * LEFT - GAP * unit / 2, height)
    right = Rect(left.right + GAP * unit, corner.y, width - left.width - GAP * unit, height)
    _accepted(ui, hud, left)
    _positions(ui, hud, right)
    imgui.set_cursor_screen_pos(corner)
    imgui.dummy(imgui.ImVec2(width, height))


def _accepted(ui: Ui, hud: Hud, rect: Rect) -> None:
    rounds = sum(hud.histogram)
    ghost = ", grey: before" if sum(hud.ghost) else ""
    area = _titled(ui, rect, "Accepted per round", f"{rounds} round{'s' * (rounds != 1)}{ghost}")
    now, before = shares(hud.histogram), shares(hud.ghost)
    count = max(len(now), len(before), 2)
    top = max([0.25, *now, *before])
    grey = mixed(ui.style.palette.panel, ui.style.palette.dim, 0.35)
    _bars(ui, area, before, count, top, 0.92, grey)
    _bars(ui, area, now, count, top, 0.6, ui.style.role("committed"))
    _numbers(ui, area, [str(n) if n else "" for n in hud.histogram], now, count, top)
    _axis(ui, area, range(count), count)
    for accepted in range(count):
        place = _place(area, accepted, count)
        why = partial(explain.histogram_bar, hud, accepted)
        widgets.explained(ui.style, f"bar{accepted}", place, why)
    ui.marks["histogram"] = area


def _positions(ui: Ui, hud: Hud, rect: Rect) -> None:
    rates = hud.stats.per_position
    area = _titled(ui, rect, "By position", "accepted, %")
    count = max(len(rates), 2)
    _bars(ui, area, rates, count, 1.0, 0.6, ui.style.role("guess"))
    _numbers(ui, area, [f"{100 * rate:.0f}" for rate in rates], rates, count, 1.0)
    _axis(ui, area, range(1, count + 1), count)
    for index in range(1, count + 1):
        place = _place(area, index - 1, count)
        why = partial(explain.position, hud.stats, index)
        widgets.explained(ui.style, f"position{index}", place, why)
    ui.marks["positions"] = area


def _titled(ui: Ui, rect: Rect, title: str, remark: str) -> Rect:
    """Write two lines at the top; return what is left for bars and the numbers below them."""
    palette, canvas = ui.style.palette, imgui.get_window_draw_list()
    y = rect.y
    words = widgets.elided(title, rect.width)
    canvas.add_text(imgui.ImVec2(rect.x, y), widgets.u32(palette.text), words)
    y += imgui.get_text_line_height_with_spacing()
    with widgets.font(ui.style, SMALL_SIZE):
        words = widgets.elided(remark, rect.width)
        canvas.add_text(imgui.ImVec2(rect.x, y), widgets.u32(palette.dim), words)
        y += imgui.get_text_line_height_with_spacing()
    return Rect(rect.x, y, rect.width, rect.bottom - y)


def _place(area: Rect, index: int, count: int) -> Rect:
    """The column of one bar, from top to bottom."""
    each = area.width / count
    return Rect(area.x + index * each, area.y, each, area.height)


def _room(ui: Ui, area: Rect) -> tuple[float, float]:
    """The top of the tallest bar and the foot of all: numbers lie above and below."""
    with widgets.font(ui.style, SMALL_SIZE):
        line = imgui.get_text_line_height() + 3 * ui.style.unit
    return area.y + line, area.bottom - line


def _bars(
    ui: Ui, area: Rect, heights: Sequence[float], count: int, top: float, width: float, color: Rgba
) -> None:
    high, foot = _room(ui, area)
    canvas = imgui.get_window_draw_list()
    for index, height in enumerate(heights):
        column = _place(area, index, count)
        inset = column.width * (1 - width) / 2
        tall = max((foot - high) * height / top, ui.style.unit if height else 0.0)
        canvas.add_rect_filled(
            imgui.ImVec2(column.x + inset, foot - tall),
            imgui.ImVec2(column.right - inset, foot),
            widgets.u32(color),
        )


def _numbers(
    ui: Ui, area: Rect, words: Sequence[str], heights: Sequence[float], count: int, top: float
) -> None:
    """A number over each bar, where there is room for all of them."""
    high, foot = _room(ui, area)
    with widgets.font(ui.style, SMALL_SIZE):
        if max((imgui.calc_text_size(each).x for each in words), default=0) > area.width / count:
            return
        line = imgui.get_text_line_height()
        for index, (each, height) in enumerate(zip(words, heights, strict=True)):
            y = foot - (foot - high) * height / top - line - 1
            _centred(ui, each, _place(area, index, count), y, ui.style.palette.text)


def _axis(ui: Ui, area: Rect, labels: Sequence[int], count: int) -> None:
    _, foot = _room(ui, area)
    canvas = imgui.get_window_draw_list()
    ends = imgui.ImVec2(area.x, foot), imgui.ImVec2(area.right, foot)
    canvas.add_line(*ends, widgets.u32(ui.style.palette.line), 1.0)
    with widgets.font(ui.style, SMALL_SIZE):
        wide = imgui.calc_text_size(str(labels[-1])).x if labels else 0.0
        every = max(ceil(APART * wide * count / area.width), 1)
        for index, label in enumerate(labels):
            if index % every == 0:
                y = foot + 2 * ui.style.unit
                _centred(ui, str(label), _place(area, index, count), y, ui.style.palette.dim)


def _centred(ui: Ui, words: str, column: Rect, y: float, color: Rgba) -> None:
    x = column.x + (column.width - imgui.calc_text_size(words).x) / 2
    imgui.get_window_draw_list().add_text(imgui.ImVec2(x, y), widgets.u32(color), words)


def shares(counts: tuple[int, ...]) -> tuple[float, ...]:
    """Counts as shares of their sum, so that two settings compare whatever their lengths."""
    total = sum(counts)
    return tuple(count / total for count in counts) if total else ()
