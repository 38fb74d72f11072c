"""The row at the very bottom: play, steps, where it stands, speed, cameras, reset, help."""

from __future__ import annotations

from imgui_bundle import imgui

from visualizer import actions as act
from visualizer.clock import SPEEDS
from visualizer.keymap import keys_of
from visualizer.stage.view import PRESETS, Preset
from visualizer.ui import widgets
from visualizer.ui.icons import Icon
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE

CAMERAS: tuple[tuple[Preset, str], ...] = tuple((name, name.capitalize()) for name in PRESETS)
PAD = 8.0  # around words in a window of their own, which cuts off what touches its sides


def told(model: UiModel) -> tuple[object, ...]:
    """All that the panel tells (see `stills`)."""
    state, clock = model.state, model.clock
    switches = (clock.playing, clock.loop is None, state.painted, state.help_visible)
    return (*switches, clock.speed, state.preset)


def draw(ui: Ui, rect: Rect, model: UiModel) -> None:
    unit = ui.style.unit
    size = 34 * unit
    middle = rect.y + (rect.height - size) / 2
    with widgets.panel("transport", rect):
        right = _settings(ui, rect, model, size)
        imgui.set_cursor_screen_pos(imgui.ImVec2(rect.x + 12 * unit, middle))
        _buttons(ui, model, size, int((right - rect.x - 12 * unit) / (size + 2)))
        left = imgui.get_cursor_screen_pos().x + 10 * unit
        ui.marks["place"] = Rect(left, rect.y, right - left, rect.height)


def _buttons(ui: Ui, model: UiModel, size: float, room: int) -> None:
    """As many of the buttons as there is `room` for; all of them have keys."""
    playing, looping = model.clock.playing, model.clock.loop is not None
    buttons: tuple[tuple[Icon, str, act.Action, bool], ...] = (
        ("pause" if playing else "play", "Pause" if playing else "Play", act.TogglePlay(), False),
        ("previous", "Beat before", act.PreviousBeat(), False),
        ("next", "Next beat", act.NextBeat(), False),
        ("round", "Next round", act.NextRound(), False),
        ("loop", "Loop this round", act.ToggleLoop(), looping),
        ("paint", "Paint the text by acceptance", act.TogglePaint(), model.state.painted),
    )
    for icon, words, action, active in buttons[:room]:
        if widgets.icon_button(ui.style, icon, size, f"{words} ({keys_of(action)})", active):
            ui.emit(action)
        ui.mark("play" if icon == "pause" else icon)
        imgui.same_line(0, 2)
    imgui.same_line(0, 0)


def _settings(ui: Ui, rect: Rect, model: UiModel, size: float) -> float:
    """Speed, cameras, reset and help from the right edge; returns where they begin."""
    unit = ui.style.unit
    middle = rect.y + (rect.height - size) / 2
    frame = rect.y + (rect.height - imgui.get_frame_height()) / 2
    cameras, speed = 62 * len(CAMERAS) * unit, 66 * unit
    narrow = cameras > 0.48 * rect.width
    cameras = 110 * unit if narrow else cameras
    x = rect.right - 10 * unit - 2 * size
    imgui.set_cursor_screen_pos(imgui.ImVec2(x, middle))
    if widgets.icon_button(ui.style, "reset", size, "Reset the camera (R)"):
        ui.emit(act.ResetView())
    ui.mark("reset")
    imgui.same_line(0, 0)
    help_shown = model.state.help_visible
    if widgets.icon_button(ui.style, "help", size, "Keys (F1)", active=help_shown):
        ui.emit(act.ToggleHelp())
    ui.mark("help-button")
    x -= cameras + 6 * unit
    imgui.set_cursor_screen_pos(imgui.ImVec2(x, frame))
    _cameras(ui, model.state.preset, cameras, narrow)
    x -= speed + 8 * unit
    imgui.set_cursor_screen_pos(imgui.ImVec2(x, frame))
    imgui.set_next_item_width(speed)
    flags = imgui.ComboFlags_.no_arrow_button
    if imgui.begin_combo("##speed", f"{model.clock.speed:g}x", flags):
        for value in SPEEDS:
            if imgui.selectable(f"{value:g}x", value == model.clock.speed)[0]:
                ui.emit(act.SetSpeed(value))
        widgets.esc_closes()
        imgui.end_combo()
    ui.mark("speed")
    imgui.set_item_tooltip("Speed ([ and ])")
    return x - 8 * unit


def _cameras(ui: Ui, preset: Preset, width: float, narrow: bool) -> None:
    """The presets beside each other, or in a list where there is no room."""
    labels = tuple(label for _, label in CAMERAS)
    current = next(i for i, (name, _) in enumerate(CAMERAS) if name == preset)
    chosen = None
    if not narrow:
        chosen = widgets.segmented(ui.style, "camera", labels, current, width=width)
    else:
        imgui.set_next_item_width(width)
        if imgui.begin_combo("##camera", labels[current]):
            for index, label in enumerate(labels):
                if imgui.selectable(label, index == current)[0]:
                    chosen = index
            widgets.esc_closes()
            imgui.end_combo()
    ui.mark("camera")
    if chosen is not None:
        ui.emit(act.ChoosePreset(CAMERAS[chosen][0]))


def place(model: UiModel) -> tuple[str, ...]:
    """Where the show stands: the round and the seconds, or, shorter, the round alone."""
    rounds = len(model.timeline.rounds) if model.timeline is not None else 0
    if not rounds:
        return ()
    now = f"round {max(model.hud.round_index, 0) + 1} of {rounds}"
    return f"{now}  ·  {model.clock.t:.1f} / {model.end:.1f} s", now


def draw_place(ui: Ui, rect: Rect, model: UiModel) -> None:
    """Write it where the row has room for it: by itself, since it changes ten times a second."""
    pad = PAD * ui.style.unit
    room = Rect(rect.x - pad, rect.y, rect.width + 2 * pad, rect.height)
    with widgets.panel("place", room, clear=True), widgets.font(ui.style, SMALL_SIZE):
        y = rect.y + (rect.height - imgui.get_text_line_height()) / 2
        for words in place(model):
            if imgui.calc_text_size(words).x <= rect.width:
                color = widgets.u32(ui.style.palette.dim)
                imgui.get_window_draw_list().add_text(imgui.ImVec2(rect.x, y), color, words)
                break
