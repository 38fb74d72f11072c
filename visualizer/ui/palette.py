"""The command palette: one line to type into, and what it leads to."""

from __future__ import annotations

from imgui_bundle import imgui

from visualizer import actions as act
from visualizer.palette import Entry
from visualizer.state import Palette
from visualizer.ui import widgets
from visualizer.ui.layout import Layout, Rect
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE, mixed

WIDTH, ROWS = 620.0, 11
_ASKS = {
    "commands": "What do you want to do?",
    "open": "A recorded run, or a path",
    "save": "Where to save a copy of this run",
}
_EMPTY = {
    "commands": "Nothing does that.",
    "open": "No run file of that name.",
    "save": "Type a file name.",
}


def draw(ui: Ui, layout: Layout, palette: Palette, offers: tuple[Entry, ...]) -> None:
    unit = ui.style.unit
    width = min(WIDTH * unit, layout.width * 0.94)
    with widgets.font(ui.style, 16):
        row = imgui.get_frame_height()
    room = int((layout.height * 0.8 - 60 * unit) / row)
    rows = max(min(len(offers), ROWS, room), 1)
    rect = Rect((layout.width - width) / 2, layout.height * 0.12, width, rows * row + 64 * unit)
    ui.marks["palette"] = rect
    imgui.set_next_window_focus()
    imgui.push_style_color(imgui.Col_.window_bg, imgui.ImVec4(*ui.style.palette.panel))
    imgui.push_style_var(imgui.StyleVar_.window_rounding, 10 * unit)
    imgui.push_style_var(imgui.StyleVar_.window_border_size, max(unit, 1.0))
    with widgets.panel("palette", rect, front=True):
        entered = _field(ui, palette)
        chosen = min(palette.chosen, max(len(offers) - 1, 0))
        picked = _list(ui, offers, chosen, row, palette.sheet)
        if picked is None and entered and offers:
            picked = offers[chosen]
        if picked is not None:
            if not isinstance(picked.action, act.Query):
                ui.emit(act.ClosePalette())
            ui.emit(picked.action)
        _keys(ui, chosen, len(offers))
        outside = imgui.is_mouse_clicked(imgui.MouseButton_.left) and not imgui.is_window_hovered(
            imgui.HoveredFlags_.child_windows
        )
        if outside:
            ui.emit(act.ClosePalette())
    imgui.pop_style_var(2)
    imgui.pop_style_color()


def _field(ui: Ui, palette: Palette) -> bool:
    """The line to type into, which always has the keyboard; whether Enter was pressed."""
    imgui.set_next_item_width(-1)
    if not imgui.is_any_item_active():
        imgui.set_keyboard_focus_here()
    # Another name for another sheet: an edited field keeps what was typed, not what it is told.
    entered, text = imgui.input_text_with_hint(
        f"##query-{palette.sheet}",
        _ASKS[palette.sheet],
        palette.query,
        imgui.InputTextFlags_.enter_returns_true,
    )
    if imgui.is_item_activated() and palette.query:
        _to_its_end()
    if text != palette.query:
        ui.emit(act.Query(text))
    ui.mark("query")
    return bool(entered)


def _to_its_end() -> None:
    """The caret behind the text of the field just drawn: what is there is to be gone on with."""
    inside = imgui.internal.get_input_text_state(imgui.get_item_id())
    if inside is not None:
        inside.reload_user_buf_and_move_to_end()


def _keys(ui: Ui, chosen: int, count: int) -> None:
    if imgui.is_key_pressed(imgui.Key.escape):
        ui.emit(act.ClosePalette())
    if imgui.is_key_pressed(imgui.Key.down_arrow) and chosen < count - 1:
        ui.emit(act.Choose(1))
    if imgui.is_key_pressed(imgui.Key.up_arrow):
        ui.emit(act.Choose(-1))


def _list(
    ui: Ui, offers: tuple[Entry, ...], chosen: int, row: float, sheet: act.Sheet
) -> Entry | None:
    """The lines; returns the one clicked."""
    palette, unit = ui.style.palette, ui.style.unit
    picked = None
    imgui.begin_child("lines", imgui.ImVec2(0, 0))
    if not offers:
        widgets.text(_EMPTY[sheet], palette.dim)
    for index, entry in enumerate(offers):
        corner = imgui.get_cursor_screen_pos()
        width = imgui.get_content_region_avail().x
        imgui.push_id(index)
        if imgui.invisible_button("line", imgui.ImVec2(width, row)):
            picked = entry
        imgui.pop_id()
        if index == chosen:
            ui.mark("chosen")
            _follow(chosen)
        if not imgui.is_item_visible():
            imgui.set_cursor_screen_pos(imgui.ImVec2(corner.x, corner.y + row))
            continue
        lit = index == chosen or imgui.is_item_hovered()
        if lit:
            fill = mixed(
                palette.raised, ui.style.role("committed"), 0.5 if index == chosen else 0.2
            )
            far = imgui.ImVec2(corner.x + width, corner.y + row)
            imgui.get_window_draw_list().add_rect_filled(corner, far, widgets.u32(fill), 4 * unit)
        _line(ui, entry, corner, width, row)
        imgui.set_cursor_screen_pos(imgui.ImVec2(corner.x, corner.y + row))
    imgui.dummy(imgui.ImVec2(0, 0))
    imgui.end_child()
    return picked


def _follow(chosen: int) -> None:
    """Bring the chosen line into view when another one is chosen; the wheel may leave it."""
    storage, key = imgui.get_state_storage(), imgui.get_id("chosen")
    if storage.get_int(key, -1) != chosen:
        storage.set_int(key, chosen)
        imgui.set_scroll_here_y(0.5)


def _line(ui: Ui, entry: Entry, corner: imgui.ImVec2, width: float, row: float) -> None:
    palette, unit = ui.style.palette, ui.style.unit
    canvas = imgui.get_window_draw_list()
    y = corner.y + (row - imgui.get_text_line_height()) / 2
    title = widgets.elided(widgets.legible(entry.title), width * 0.7)
    canvas.add_text(imgui.ImVec2(corner.x + 8 * unit, y), widgets.u32(palette.text), title)
    left = width - imgui.calc_text_size(title).x - 28 * unit
    with widgets.font(ui.style, SMALL_SIZE):
        hint = widgets.elided(widgets.legible(entry.hint), left)
        x = corner.x + width - imgui.calc_text_size(hint).x - 8 * unit
        canvas.add_text(imgui.ImVec2(x, y), widgets.u32(palette.dim), hint)
