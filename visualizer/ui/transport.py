"""The row at the very bottom: play, steps, the scrub line, speed, cameras, reset, help."""

from __future__ import annotations

from imgui_bundle import imgui

from visualizer import state as act
from visualizer.clock import SPEEDS
from visualizer.stage.view import PRESETS, Preset
from visualizer.ui import widgets
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE

CAMERAS: tuple[tuple[Preset, str], ...] = tuple((name, name.capitalize()) for name in PRESETS)


def draw(ui: Ui, rect: Rect, model: UiModel) -> None:
    unit = ui.style.unit
    size = 34 * unit
    middle = rect.y + (rect.height - size) / 2
    with widgets.panel("transport", rect):
        imgui.set_cursor_screen_pos(imgui.ImVec2(rect.x + 12 * unit, middle))
        _buttons(ui, model, size)
        left = imgui.get_cursor_screen_pos().x + 6 * unit
        right = _settings(ui, rect, model, size)
        _scrub(ui, Rect(left, rect.y, right - left, rect.height), model)


def _buttons(ui: Ui, model: UiModel, size: float) -> None:
    playing = model.clock.playing
    if widgets.icon_button(
        ui.style,
        "pause" if playing else "play",
        size,
        "Pause (Space)" if playing else "Play (Space)",
    ):
        ui.emit(act.TogglePlay())
    ui.mark("play")
    imgui.same_line(0, 2)
    if widgets.icon_button(ui.style, "previous", size, "Previous beat (Left)"):
        ui.emit(act.PreviousBeat())
    imgui.same_line(0, 2)
    if widgets.icon_button(ui.style, "next", size, "Next beat (Right)"):
        ui.emit(act.NextBeat())
    imgui.same_line(0, 2)
    if widgets.icon_button(ui.style, "round", size, "Next round (Shift+Right)"):
        ui.emit(act.NextRound())
    imgui.same_line(0, 0)


def _settings(ui: Ui, rect: Rect, model: UiModel, size: float) -> float:
    """Speed, cameras, reset and help from the right edge; returns where they begin."""
    unit = ui.style.unit
    middle = rect.y + (rect.height - size) / 2
    frame = rect.y + (rect.height - imgui.get_frame_height()) / 2
    cameras, speed = 186 * unit, 66 * unit
    x = rect.right - 10 * unit - 2 * size
    imgui.set_cursor_screen_pos(imgui.ImVec2(x, middle))
    if widgets.icon_button(ui.style, "reset", size, "Reset the camera (R)"):
        ui.emit(act.ResetView())
    imgui.same_line(0, 0)
    help_shown = model.state.help_visible
    if widgets.icon_button(ui.style, "help", size, "Keys (F1)", active=help_shown):
        ui.emit(act.ToggleHelp())
    x -= cameras + 6 * unit
    imgui.set_cursor_screen_pos(imgui.ImVec2(x, frame))
    labels = tuple(label for _, label in CAMERAS)
    current = next(i for i, (name, _) in enumerate(CAMERAS) if name == model.state.preset)
    chosen = widgets.segmented(ui.style, "camera", labels, current, width=cameras)
    ui.mark("camera")
    if chosen is not None:
        ui.emit(act.ChoosePreset(CAMERAS[chosen][0]))
    x -= speed + 8 * unit
    imgui.set_cursor_screen_pos(imgui.ImVec2(x, frame))
    imgui.set_next_item_width(speed)
    flags = imgui.ComboFlags_.no_arrow_button
    if imgui.begin_combo("##speed", f"{model.clock.speed:g}x", flags):
        for value in SPEEDS:
            if imgui.selectable(f"{value:g}x", value == model.clock.speed)[0]:
                ui.emit(act.SetSpeed(value))
        imgui.end_combo()
    imgui.set_item_tooltip("Speed ([ and ])")
    return x - 8 * unit


def _scrub(ui: Ui, rect: Rect, model: UiModel) -> None:
    """A line with a tick where each round starts; click or drag to go there."""
    unit, palette = ui.style.unit, ui.style.palette
    with widgets.font(ui.style, SMALL_SIZE):
        words = f"{model.clock.t:.1f} / {model.end:.1f} s"
        room = imgui.calc_text_size(f"{model.end:.1f} / {model.end:.1f} s").x + 10 * unit
        height = imgui.get_text_line_height()
        place = imgui.ImVec2(rect.right - room + 8 * unit, rect.y + (rect.height - height) / 2)
        canvas = imgui.get_window_draw_list()
        if rect.width > room + 60 * unit:
            canvas.add_text(place, widgets.u32(palette.dim), words)
        else:
            room = 0.0
    line = Rect(rect.x, rect.y, rect.width - room, rect.height)
    if line.width < 20 * unit:
        return
    imgui.set_cursor_screen_pos(imgui.ImVec2(line.x, line.y))
    imgui.invisible_button("##scrub", imgui.ImVec2(line.width, line.height))
    ui.mark("scrub")
    end = max(model.end, 1e-6)
    if imgui.is_item_active():
        share = (imgui.get_mouse_pos().x - line.x) / line.width
        ui.emit(act.Seek(min(max(share, 0.0), 1.0) * end))
    y = line.y + line.height / 2
    here = line.x + line.width * min(model.clock.t / end, 1.0)
    thick = 4 * unit
    whole = imgui.ImVec2(line.right, y + thick / 2)
    canvas.add_rect_filled(
        imgui.ImVec2(line.x, y - thick / 2), whole, widgets.u32(palette.line), 2 * unit
    )
    canvas.add_rect_filled(
        imgui.ImVec2(line.x, y - thick / 2),
        imgui.ImVec2(here, y + thick / 2),
        widgets.u32(palette.accent),
        2 * unit,
    )
    if len(model.round_starts) * 4 * unit < line.width:  # else ticks would merge into a band
        for start in model.round_starts:
            x = line.x + line.width * start / end
            canvas.add_line(
                imgui.ImVec2(x, y + 5 * unit),
                imgui.ImVec2(x, y + 9 * unit),
                widgets.u32(palette.dim),
                1.0,
            )
    canvas.add_circle_filled(imgui.ImVec2(here, y), 6.5 * unit, widgets.u32(palette.text))
