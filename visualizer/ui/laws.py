"""Laws as people see them: bars for the likeliest tokens, and a line from 0 to 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from imgui_bundle import imgui

from engine.trace import Candidate, Law
from visualizer.microscope import prob
from visualizer.stage.text import visible
from visualizer.ui import widgets
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE, Rgba, faded, mixed

MOST = 10  # candidates shown of a law
LINE_HEIGHT = 62.0  # of the number line, design pixels

Marks = Mapping[int, str]
"""Token ids and the role in whose colour each is marked."""


@dataclass(frozen=True, slots=True)
class Column:
    """A law to show: its title, the role of its bars, and the token it is looked at for.

    `asked` is shown below the others where it is not among the likeliest.
    """

    title: str
    law: Law
    role: str
    asked: Candidate | None = None

    @property
    def rows(self) -> tuple[Candidate, ...]:
        top = self.law.top[:MOST]
        known = self.asked is None or any(each.token.id == self.asked.token.id for each in top)
        return top if known or self.asked is None else (*top, self.asked)

    @property
    def left_over(self) -> float:
        return max(1.0 - sum(each.prob for each in self.rows), 0.0) if self.law.top else 0.0


def side_by_side(ui: Ui, columns: tuple[Column, ...], marks: Marks) -> None:
    """Laws as columns of bars; tokens in `marks` stand out."""
    unit = ui.style.unit
    corner = imgui.get_cursor_screen_pos()
    whole = imgui.get_content_region_avail().x
    gap = 12 * unit
    width = (whole - gap * (len(columns) - 1)) / len(columns)
    heights = [
        _column(ui, corner.x + index * (width + gap), corner.y, width, column, marks)
        for index, column in enumerate(columns)
    ]
    imgui.dummy(imgui.ImVec2(whole, max(heights)))


def _column(ui: Ui, x: float, y: float, width: float, column: Column, marks: Marks) -> float:
    """Draw one law; return its height."""
    unit, palette = ui.style.unit, ui.style.palette
    canvas = imgui.get_window_draw_list()
    start = y
    with widgets.font(ui.style, SMALL_SIZE, bold=True):
        words = widgets.elided(column.title, width)
        canvas.add_text(imgui.ImVec2(x, y), widgets.u32(ui.style.ink(column.role)), words)
        y += imgui.get_text_line_height() + 3 * unit
    with widgets.font(ui.style, SMALL_SIZE):
        step = imgui.get_text_line_height() + 4 * unit
        for each in column.rows:
            _bar(ui, x, y, width, step, each, column.role, marks.get(each.token.id))
            y += step
        if column.left_over > 5e-4:
            words = widgets.elided(f"all others {prob(column.left_over)}", width)
            canvas.add_text(imgui.ImVec2(x, y + 2 * unit), widgets.u32(palette.dim), words)
            y += step
        elif not column.rows:
            canvas.add_text(imgui.ImVec2(x, y), widgets.u32(palette.dim), "not recorded")
            y += step
    return y - start


def _bar(
    ui: Ui,
    x: float,
    y: float,
    width: float,
    step: float,
    each: Candidate,
    role: str,
    marked: str | None,
) -> None:
    """One candidate: its share as a filled row, its text on it, its number at the right."""
    unit, palette = ui.style.unit, ui.style.palette
    canvas = imgui.get_window_draw_list()
    low, high = y, y + step - 2 * unit
    fill = mixed(palette.panel, ui.style.role(role), 0.5)
    canvas.add_rect_filled(
        imgui.ImVec2(x, low), imgui.ImVec2(x + width, high), widgets.u32(faded(palette.raised, 0.6))
    )
    canvas.add_rect_filled(
        imgui.ImVec2(x, low),
        imgui.ImVec2(x + max(width * each.prob, 1.5 * unit), high),
        widgets.u32(fill),
    )
    ink = palette.text if marked is None else ui.style.ink(marked)
    number = prob(each.prob)
    room = width - imgui.calc_text_size(number).x - 14 * unit
    with widgets.font(ui.style, SMALL_SIZE, bold=marked is not None):
        words = widgets.elided(widgets.legible(visible(each.token.text)), room)
        canvas.add_text(imgui.ImVec2(x + 5 * unit, y + unit), widgets.u32(palette.text), words)
    at = x + width - imgui.calc_text_size(number).x - 4 * unit
    canvas.add_text(imgui.ImVec2(at, y + unit), widgets.u32(palette.text), number)
    if marked is not None:
        canvas.add_rect(
            imgui.ImVec2(x, low), imgui.ImVec2(x + width, high), widgets.u32(ink), 0, 1.6 * unit
        )


def number_line(ui: Ui, accept: float, draw: float | None) -> None:
    """0 to 1: up to `accept` a draw accepts, beyond it (hatched) it rejects; and the draw."""
    unit, palette = ui.style.unit, ui.style.palette
    corner = imgui.get_cursor_screen_pos()
    width = imgui.get_content_region_avail().x
    canvas = imgui.get_window_draw_list()
    pad = 8 * unit
    left, right = corner.x + pad, corner.x + width - pad
    low, high = corner.y + 24 * unit, corner.y + 38 * unit
    border = left + (right - left) * accept
    _filled(left, border, low, high, ui.style.role("committed"))
    _filled(border, right, low, high, mixed(palette.panel, ui.style.role("rejected"), 0.45))
    _hatch(ui, border, right, low, high)
    canvas.add_rect(
        imgui.ImVec2(left, low), imgui.ImVec2(right, high), widgets.u32(palette.line), 0, unit
    )
    with widgets.font(ui.style, SMALL_SIZE):
        below = high + 4 * unit
        told = f"accept {prob(accept)}"
        reach = imgui.calc_text_size(told).x / 2 + 14 * unit
        ends = [("0", left)] * (border - left > reach) + [("1", right)] * (right - border > reach)
        for words, x in (*ends, (told, border)):
            _centred(words, x, below, palette.dim, corner.x, corner.x + width)
        if draw is not None:
            at = left + (right - left) * draw
            _needle(at, low, high, palette.text, unit)
            words, ends_at = f"draw {draw:.3f}", (corner.x, corner.x + width)
            _beside(words, at, corner.y, palette.text, *ends_at, 10 * unit)
    imgui.dummy(imgui.ImVec2(width, LINE_HEIGHT * unit))


def _needle(x: float, low: float, high: float, color: Rgba, unit: float) -> None:
    canvas, tone = imgui.get_window_draw_list(), widgets.u32(color)
    ends = imgui.ImVec2(x, low - 3 * unit), imgui.ImVec2(x, high + 3 * unit)
    canvas.add_line(*ends, tone, 2.5 * unit)
    canvas.add_triangle_filled(
        imgui.ImVec2(x - 5 * unit, low - 10 * unit),
        imgui.ImVec2(x + 5 * unit, low - 10 * unit),
        imgui.ImVec2(x, low - 2 * unit),
        tone,
    )


def _filled(left: float, right: float, low: float, high: float, color: Rgba) -> None:
    if right > left:
        imgui.get_window_draw_list().add_rect_filled(
            imgui.ImVec2(left, low), imgui.ImVec2(right, high), widgets.u32(color)
        )


def _hatch(ui: Ui, left: float, right: float, low: float, high: float) -> None:
    """Slanted lines: colour alone does not tell where a draw rejects."""
    canvas, step = imgui.get_window_draw_list(), 7 * ui.style.unit
    canvas.push_clip_rect(imgui.ImVec2(left, low), imgui.ImVec2(right, high), True)
    color = widgets.u32(ui.style.role("rejected"))
    x = left - (high - low)
    while x < right:
        canvas.add_line(imgui.ImVec2(x, high), imgui.ImVec2(x + high - low, low), color, 1.0)
        x += step
    canvas.pop_clip_rect()


def _centred(words: str, x: float, y: float, color: Rgba, left: float, right: float) -> None:
    wide = imgui.calc_text_size(words).x
    at = min(max(x - wide / 2, left), right - wide)
    imgui.get_window_draw_list().add_text(imgui.ImVec2(at, y), widgets.u32(color), words)


def _beside(
    words: str, x: float, y: float, color: Rgba, left: float, right: float, gap: float
) -> None:
    """Right of `x`, or left of it where there is no room."""
    wide = imgui.calc_text_size(words).x
    at = x + gap if x + gap + wide <= right else max(x - gap - wide, left)
    imgui.get_window_draw_list().add_text(imgui.ImVec2(at, y), widgets.u32(color), words)


def measured_bars(ui: Ui, rows: tuple[tuple[str, float, str], ...]) -> None:
    """Milliseconds as bars on one scale: (name, seconds, role) each."""
    unit, palette = ui.style.unit, ui.style.palette
    longest = max((seconds for _, seconds, _ in rows), default=0.0)
    canvas = imgui.get_window_draw_list()
    with widgets.font(ui.style, SMALL_SIZE):
        for name, seconds, role in rows:
            corner = imgui.get_cursor_screen_pos()
            width = imgui.get_content_region_avail().x
            line = imgui.get_text_line_height()
            number = f"{1e3 * seconds:.2f} ms"
            wide = imgui.calc_text_size(number).x
            words = widgets.elided(widgets.legible(name), width - wide - 8 * unit)
            canvas.add_text(corner, widgets.u32(palette.dim), words)
            place = imgui.ImVec2(corner.x + width - wide, corner.y)
            canvas.add_text(place, widgets.u32(palette.text), number)
            low = corner.y + line + 2 * unit
            share = seconds / longest if longest > 0 else 0.0
            _filled(corner.x, corner.x + width, low, low + 6 * unit, palette.raised)
            _filled(corner.x, corner.x + width * share, low, low + 6 * unit, ui.style.role(role))
            imgui.dummy(imgui.ImVec2(width, line + 12 * unit))
