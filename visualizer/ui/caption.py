"""The sentence over the stage that says what is happening, key word in its role's colour."""

from __future__ import annotations

from imgui_bundle import imgui

from visualizer import actions as act
from visualizer.keymap import keys_of
from visualizer.stage.hud import Piece
from visualizer.stage.theme import EMBLEMS
from visualizer.ui import widgets
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import faded

CAPTION_SIZE = 30.0  # a thirtieth of the picture's height: read from the last row
MESSAGE_SIZE = 19.0
_PLAIN = {"text", "label", ""}


def told(model: UiModel) -> tuple[object, ...]:
    """All that the panel tells (see `stills`)."""
    return model.hud.caption or idle(model), model.message


def draw(ui: Ui, band: Rect, model: UiModel) -> None:
    """Centred in its band over the stage; a passing message of the program comes below it."""
    caption, message = model.hud.caption or idle(model), model.message
    unit = ui.style.unit
    with widgets.panel("caption", Rect(band.x, band.y, band.width, 80 * unit), clear=True):
        with widgets.font(ui.style, _fitting(ui, band, caption)):
            y = band.y + (band.height - imgui.get_text_line_height()) / 2 + 2 * unit
            if caption:
                _line(ui, band, y, caption)
        if message:
            with widgets.font(ui.style, MESSAGE_SIZE):
                _line(ui, band, band.bottom, (Piece(message, "text"),))


def idle(model: UiModel) -> tuple[Piece, ...]:
    """What an empty stage says: what it waits for, or what to do about it."""
    engine = model.engine
    if model.timeline is not None and model.timeline.rounds:
        return ()
    if model.header is not None and not engine.expected:
        words = "This run holds no rounds."
    elif not engine.expected:
        words = f"No run here. Drop a run file, or press {keys_of(act.OpenPalette('open'))}."
    elif engine.fault is not None or (engine.state and engine.state.phase == "failed"):
        words = "There is no engine to decode with; the panel says why."
    elif engine.problem is not None:
        words = "The run did not come; the panel says why."
    else:
        words = "The first round comes as soon as the engine is ready."
    return (Piece(words, "text"),)


def _fitting(ui: Ui, band: Rect, caption: tuple[Piece, ...]) -> float:
    """The size at which the caption lies within its band."""
    with widgets.font(ui.style, CAPTION_SIZE):
        wide = sum(float(imgui.calc_text_size(_shaped(piece)).x) for piece in caption)
    room = band.width - 44 * ui.style.unit
    return CAPTION_SIZE * min(max(room / wide, 0.5), 1.0) if wide > 0 else CAPTION_SIZE


def _line(ui: Ui, band: Rect, y: float, pieces: tuple[Piece, ...]) -> None:
    draw_list = imgui.get_window_draw_list()
    words = [(_shaped(piece), piece.role) for piece in pieces]
    widths = [float(imgui.calc_text_size(text).x) for text, _ in words]
    x = band.x + max((band.width - sum(widths)) / 2, 8 * ui.style.unit)
    _backing(ui, x, y, sum(widths))
    for (text, role), width in zip(words, widths, strict=True):
        color = ui.style.palette.text if role in _PLAIN else ui.style.ink(role)
        draw_list.add_text(imgui.ImVec2(x, y), widgets.u32(color), text)
        x += width


def _backing(ui: Ui, x: float, y: float, width: float) -> None:
    """A veil behind the words: seen from above or from close by, older lines pass below them."""
    pad_x, pad_y = 14 * ui.style.unit, 3 * ui.style.unit
    height = float(imgui.get_text_line_height())
    imgui.get_window_draw_list().add_rect_filled(
        imgui.ImVec2(x - pad_x, y - pad_y),
        imgui.ImVec2(x + width + pad_x, y + height + pad_y),
        widgets.u32(faded(ui.style.palette.panel, 0.85)),
        height / 2,
    )


def _shaped(piece: Piece) -> str:
    """The words with their emblem, unless the scene has already put it there."""
    emblem = EMBLEMS.get(piece.role)
    return (
        piece.text if emblem is None or emblem in piece.text else f"{piece.text.rstrip()} {emblem}"
    )
