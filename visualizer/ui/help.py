"""The key map, over everything, until F1 or Esc."""

from __future__ import annotations

from imgui_bundle import imgui

from visualizer import actions as act
from visualizer.ui import widgets
from visualizer.ui.layout import Layout, Rect
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE

KEYS: tuple[tuple[str, str], ...] = (
    ("Space", "play, pause"),
    ("Right, PgDn", "next beat"),
    ("Left, PgUp", "beat before"),
    ("Shift+Right / Left", "next round / round before"),
    ("[  ]", "slower, faster"),
    ("1  2  3", "camera: default, side, top"),
    ("R", "reset the camera"),
    ("Left drag", "orbit"),
    ("Right, middle or Shift drag", "pan"),
    ("Wheel, double click", "zoom to the cursor, recentre"),
    ("Ctrl+Enter", "start the prompt"),
    ("Ctrl+=  Ctrl+-", "larger, smaller panels"),
    ("Tab", "hide or show the panels"),
    ("B", "black screen"),
    ("M", "reduce motion"),
    ("T", "next theme: dark, light, classic"),
    ("P", "screenshot"),
    ("Ctrl+R", "record a video, stop recording"),
    ("F11, Esc", "full screen, leave it"),
    ("F1, H", "this help"),
)


def draw(ui: Ui, layout: Layout, renderer: str) -> None:
    unit, palette = ui.style.unit, ui.style.palette
    with widgets.font(ui.style, 16):
        row = imgui.get_text_line_height() * 1.45
    height = min(row * len(KEYS) + 110 * unit, layout.height * 0.94)
    width = min(600 * unit, layout.width * 0.9)
    rect = Rect((layout.width - width) / 2, (layout.height - height) / 2, width, height)
    imgui.set_next_window_focus()
    imgui.push_style_color(imgui.Col_.window_bg, imgui.ImVec4(*palette.panel))
    imgui.push_style_var(imgui.StyleVar_.window_rounding, 10 * unit)
    imgui.push_style_var(imgui.StyleVar_.window_padding, imgui.ImVec2(28 * unit, 22 * unit))
    imgui.push_style_var(imgui.StyleVar_.window_border_size, max(unit, 1.0))
    with widgets.panel("help", rect, scrolls=True, front=True):
        with widgets.font(ui.style, 20, bold=True):
            widgets.text("Keys and mouse", palette.text)
        imgui.dummy(imgui.ImVec2(0, 4 * unit))
        for keys, meaning in KEYS:
            at = imgui.get_cursor_pos_y()
            widgets.text(keys, ui.style.ink("guess"))
            imgui.same_line(width * 0.46)
            widgets.text(meaning, palette.text)
            imgui.set_cursor_pos_y(at + row)
        with widgets.font(ui.style, SMALL_SIZE):
            widgets.wrapped(f"Drawn by {renderer}" if renderer else "", palette.dim)
        if imgui.is_window_hovered() and imgui.is_mouse_clicked(imgui.MouseButton_.left):
            ui.emit(act.ToggleHelp())
    imgui.pop_style_var(3)
    imgui.pop_style_color()
    ui.marks["help"] = rect
