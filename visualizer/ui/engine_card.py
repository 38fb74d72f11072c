"""What the engine is doing, or why it is gone: a card at the top of the dock."""

from __future__ import annotations

from imgui_bundle import imgui

from engine.terminal import duration
from engine.trace import EngineState
from visualizer import actions as act
from visualizer.keymap import keys_of
from visualizer.ui import widgets
from visualizer.ui.model import EngineView
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE

_PHASES = {
    "fetching": "Fetching the model",
    "loading": "Loading the model",
    "measuring": "Preparing the drafter",
    "reading": "Reading the prompt",
}


def draw(ui: Ui, engine: EngineView) -> None:
    """Nothing while all is well and ready."""
    if engine.opened:
        _opened(ui, engine)
    if engine.fault is not None:
        _failure(ui, "The engine stopped", engine.fault, restart=True)
    elif engine.state is not None and engine.state.phase == "failed":
        _failure(ui, "No live engine", engine.state.detail, restart=True)
    elif engine.problem is not None:
        _failure(ui, "This run did not come", engine.problem, restart=False)
    elif engine.expected and (engine.state is None or engine.state.phase in _PHASES):
        _progress(ui, engine.state)
    elif engine.busy is not None:
        _progress(ui, engine.busy)
    for words in (engine.refusal, engine.notice):
        if words is not None:
            with widgets.font(ui.style, SMALL_SIZE):
                widgets.wrapped(words, ui.style.ink("warning"))
                ui.mark("refusal" if words == engine.refusal else "notice")


def _opened(ui: Ui, engine: EngineView) -> None:
    """A run file is on stage: whose settings are shown, and the way back."""
    palette = ui.style.palette
    imgui.begin_child(
        "opened-card",
        imgui.ImVec2(0, 0),
        imgui.ChildFlags_.auto_resize_y | imgui.ChildFlags_.borders,
    )
    widgets.text("A run file is on stage", palette.text)
    with widgets.font(ui.style, SMALL_SIZE):
        waits = "the live run waits." if engine.resumable else "no live run waits yet."
        widgets.wrapped(f"The settings below are its own; {waits}", palette.dim)
    if engine.resumable:
        if imgui.button("Back to the live run##opened", imgui.ImVec2(-1, 0)):
            ui.emit(act.ShowLive())
        imgui.set_item_tooltip(keys_of(act.ShowLive()))
        ui.mark("resume")
    imgui.end_child()


def _failure(ui: Ui, title: str, reason: str, restart: bool) -> None:
    palette = ui.style.palette
    imgui.push_style_color(imgui.Col_.border, imgui.ImVec4(*palette.warning))
    imgui.begin_child(
        "engine-card",
        imgui.ImVec2(0, 0),
        imgui.ChildFlags_.auto_resize_y | imgui.ChildFlags_.borders,
    )
    with widgets.font(ui.style, 16, bold=True):
        widgets.text(title, palette.warning)
    with widgets.font(ui.style, SMALL_SIZE):
        widgets.wrapped(reason or "No reason was given.", palette.text)
    if restart:
        if imgui.button("Restart##engine", imgui.ImVec2(-1, 0)):
            ui.emit(act.RestartEngine())
        ui.mark("restart")
    imgui.end_child()
    imgui.pop_style_color()


def _progress(ui: Ui, state: EngineState | None) -> None:
    palette = ui.style.palette
    phase = "Starting the engine" if state is None else _PHASES[state.phase]
    imgui.begin_child(
        "engine-card",
        imgui.ImVec2(0, 0),
        imgui.ChildFlags_.auto_resize_y | imgui.ChildFlags_.borders,
    )
    widgets.text(phase, palette.text)
    with widgets.font(ui.style, SMALL_SIZE):
        if state is not None and state.total:
            imgui.progress_bar(state.done / state.total, imgui.ImVec2(-1, 6 * ui.style.unit), "")
            widgets.wrapped(progress_line(state), palette.dim)
        if state is not None and state.detail not in ("", phase):
            widgets.wrapped(state.detail, palette.dim)
    imgui.end_child()
    ui.mark("engine-card")


def progress_line(state: EngineState) -> str:
    """How much of what, and the time left: "45.2 of 92.9 MB · 3.1 MB/s · 15 s left"."""
    if state.phase == "reading":
        return f"{state.done} of {state.total} tokens"
    parts = [f"{state.done / 1e6:.1f} of {state.total / 1e6:.1f} MB"]
    if state.rate > 0:
        parts.append(f"{state.rate / 1e6:.1f} MB/s")
        parts.append(f"{duration((state.total - state.done) / state.rate)} left")
    return " · ".join(parts)
