"""The key map, over everything, until F1 or Esc."""

from __future__ import annotations

from imgui_bundle import imgui

from visualizer import actions as act
from visualizer.keymap import COMMANDS, GESTURES, keys_of
from visualizer.ui import widgets
from visualizer.ui.layout import Layout, Rect
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE

Part = tuple[str, tuple[tuple[str, str], ...]]
"""A group's name, and its rows of keys and meanings."""


def draw(ui: Ui, layout: Layout, renderer: str) -> None:
    unit, palette = ui.style.unit, ui.style.palette
    with widgets.font(ui.style, SMALL_SIZE):
        row = imgui.get_text_line_height() * 1.28
    width = min(980 * unit, layout.width * 0.94)
    columns = 2 if width >= 700 * unit else 1
    parts = _columns(columns)
    lines = max(sum(len(rows) + 1.5 for _, rows in part) for part in parts)
    height = min(row * lines + 120 * unit, layout.height * 0.95)
    rect = Rect((layout.width - width) / 2, (layout.height - height) / 2, width, height)
    imgui.set_next_window_focus()
    imgui.push_style_color(imgui.Col_.window_bg, imgui.ImVec4(*palette.panel))
    imgui.push_style_var(imgui.StyleVar_.window_rounding, 10 * unit)
    imgui.push_style_var(imgui.StyleVar_.window_padding, imgui.ImVec2(28 * unit, 20 * unit))
    imgui.push_style_var(imgui.StyleVar_.window_border_size, max(unit, 1.0))
    with widgets.panel("help", rect, scrolls=True, front=True):
        with widgets.font(ui.style, 20, bold=True):
            widgets.text("Keys and mouse", palette.text)
        start = imgui.get_cursor_pos()
        each = (imgui.get_content_region_avail().x + 12 * unit) / columns
        deepest = start.y
        for index, part in enumerate(parts):
            left = start.x + index * each
            deepest = max(deepest, _column(ui, part, left, start.y + 6 * unit, each, row))
        imgui.set_cursor_pos(imgui.ImVec2(start.x, deepest + 4 * unit))
        with widgets.font(ui.style, SMALL_SIZE):
            more = f"Everything else: {keys_of(act.OpenPalette())} and a few letters."
            drawn = f" Drawn by {renderer}." if renderer else ""
            widgets.wrapped(more + drawn, palette.dim)
        if imgui.is_window_hovered() and imgui.is_mouse_clicked(imgui.MouseButton_.left):
            ui.emit(act.ToggleHelp())
    imgui.pop_style_var(3)
    imgui.pop_style_color()
    ui.marks["help"] = rect


def _groups() -> list[Part]:
    """The key map by group, the mouse after it. Commands without a key are the palette's."""
    names = dict.fromkeys(each.group for each in COMMANDS)
    keyed = [each for each in COMMANDS if each.keys]
    told = [
        (name, tuple((keys_of(c.action), c.title) for c in keyed if c.group == name))
        for name in names
    ]
    return [*told, ("Mouse", GESTURES)]


def _columns(count: int) -> list[list[Part]]:
    """Groups dealt out to columns of about the same height, in their order."""
    groups = _groups()
    room = sum(len(rows) + 1.5 for _, rows in groups) / count
    columns: list[list[Part]] = [[]]
    used = 0.0
    for part in groups:
        if used >= room * 0.92 and len(columns) < count:
            columns.append([])
            used = 0.0
        columns[-1].append(part)
        used += len(part[1]) + 1.5
    return columns


def _column(ui: Ui, parts: list[Part], x: float, y: float, width: float, row: float) -> float:
    """Draw groups below each other; return the y below them."""
    palette = ui.style.palette
    with widgets.font(ui.style, SMALL_SIZE):
        for name, rows in parts:
            imgui.set_cursor_pos(imgui.ImVec2(x, y))
            widgets.text(name, palette.dim)
            y += row
            for keys, meaning in rows:
                imgui.set_cursor_pos(imgui.ImVec2(x, y))
                widgets.text(widgets.elided(keys, width * 0.38), ui.style.ink("guess"))
                imgui.set_cursor_pos(imgui.ImVec2(x + width * 0.4, y))
                widgets.text(widgets.elided(meaning, width * 0.58), palette.text)
                y += row
            y += row / 2
    return y
