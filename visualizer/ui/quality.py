"""The draft-quality dial in the dock, and the switch for what it acts through."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import imgui

from engine.trace import Settings
from visualizer import actions as act
from visualizer import dial
from visualizer.ui import explain, rows, widgets
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui


def draw(ui: Ui, model: UiModel, compact: bool) -> None:
    """The dial, and what it acts through: noise, or one of the ladders of drafters."""
    settings, engine = model.state.settings, model.engine.state
    drafters = engine.drafters if engine is not None else ()
    dials = dial.offered(drafters)
    now = model.state.dial if model.state.dial in dials else "noise"
    if now == "noise":
        _noise(ui, settings, dials)
    else:
        _ladder(ui, settings, dial.stops(now, drafters), now, dials)
    imgui.begin_disabled(not settings.speculative)
    if len(dials) > 1:
        pressed = widgets.segmented(ui.style, "dial", dials, dials.index(now), small=True)
        ui.mark("dial")
        if pressed is not None and dials[pressed] != now:
            moved = dial.entered(dials[pressed], settings, drafters)
            ui.emit(act.ChooseDial(dials[pressed], moved))
    imgui.end_disabled()
    if not compact:
        rows.note(ui, _acts_through(settings, now, drafters))


def _acts_through(settings: Settings, now: dial.Dial, drafters: tuple[str, ...]) -> str:
    """What the dial does where it stands."""
    if now == "noise":
        weight = settings.quality / 100
        return f"noise: guesses drawn from w·draft + (1_−_w)·unigram, w_=_{weight:.2f}"
    if dial.place(settings, dial.stops(now, drafters)) is None:
        return f"{now}: {settings.drafter} is not on this ladder; drag to step onto it"
    return f"{now}: {dial.MEANS[now]}; here {settings.drafter}"


def _noise(ui: Ui, settings: Settings, dials: tuple[dial.Dial, ...]) -> None:
    value = rows.dial(
        ui, "quality", "Draft quality", f"{settings.quality:.0f} %", settings.quality,
        (0.0, 100.0), 1.0, enabled=settings.speculative,
        why=(*explain.quality(settings.quality), *explain.dials(dials)),
    )  # fmt: skip
    if value is not None:
        ui.emit(act.ChangeSettings(replace(settings, quality=value)))


def _ladder(
    ui: Ui,
    settings: Settings,
    ladder: tuple[dial.Stop, ...],
    now: dial.Dial,
    dials: tuple[dial.Dial, ...],
) -> None:
    """The slider with a stop for each drafter of a ladder."""
    here = dial.place(settings, ladder)
    rows.space(ui, 1)
    imgui.begin_disabled(not settings.speculative)
    imgui.align_text_to_frame_padding()
    widgets.text("Draft quality", ui.style.palette.text)
    ui.mark("quality-label")
    if imgui.is_item_hovered(imgui.HoveredFlags_.allow_when_disabled):
        widgets.explanation(ui.style, (*explain.ladder(now, ladder), *explain.dials(dials)))
    rows.at_right(ui, ladder[here].name if here is not None else "–")
    chosen = widgets.slider(ui.style, "quality", here, 0, len(ladder) - 1, 1)
    ui.mark("quality")
    imgui.end_disabled()
    if chosen is not None:
        ui.emit(act.ChangeSettings(dial.at(settings, ladder[round(chosen)])))
