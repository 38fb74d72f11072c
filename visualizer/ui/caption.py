"""The sentence over the stage that says what is happening, key word in its role's colour."""

from __future__ import annotations

from imgui_bundle import imgui

from visualizer.stage.hud import Piece
from visualizer.stage.theme import EMBLEMS
from visualizer.ui import widgets
from visualizer.ui.layout import Rect
from visualizer.ui.panel import Ui

CAPTION_SIZE = 23.0
_PLAIN = {"text", "label", ""}


def draw(ui: Ui, canvas: Rect, caption: tuple[Piece, ...], message: str) -> None:
    """Centred along the top of the canvas; a passing message of the program comes below it."""
    unit = ui.style.unit
    band = Rect(canvas.x, canvas.y, canvas.width, 76 * unit)
    with widgets.panel("caption", band, clear=True):
        y = canvas.y + 12 * unit
        if caption:
            with widgets.font(ui.style, CAPTION_SIZE):
                _line(ui, canvas, y, caption)
                y += imgui.get_text_line_height() + 4 * unit
        if message:
            with widgets.font(ui.style, 15):
                _line(ui, canvas, y, (Piece(message, "label"),))


def _line(ui: Ui, canvas: Rect, y: float, pieces: tuple[Piece, ...]) -> None:
    draw_list = imgui.get_window_draw_list()
    words = [(_shaped(piece), piece.role) for piece in pieces]
    widths = [float(imgui.calc_text_size(text).x) for text, _ in words]
    x = canvas.x + max((canvas.width - sum(widths)) / 2, 8 * ui.style.unit)
    shade = widgets.u32((0.0, 0.0, 0.0, 0.55))
    for (text, role), width in zip(words, widths, strict=True):
        color = ui.style.palette.text if role in _PLAIN else ui.style.role(role)
        lift = 1.5 * ui.style.unit
        draw_list.add_text(imgui.ImVec2(x + lift, y + lift), shade, text)
        draw_list.add_text(imgui.ImVec2(x, y), widgets.u32(color), text)
        x += width


def _shaped(piece: Piece) -> str:
    """The words with their emblem, unless the scene has already put it there."""
    emblem = EMBLEMS.get(piece.role)
    return piece.text if emblem is None or emblem in piece.text else f"{piece.text.rstrip()} {emblem} "
