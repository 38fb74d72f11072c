"""The left dock: what is decoded and how. Settings, prompt, and the acceptance histogram."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import imgui

from engine.trace import RunHeader, Settings
from visualizer import actions as act
from visualizer.keymap import keys_of
from visualizer.ui import (
    engine_card,
    explain,
    histogram,
    own_dials,
    quality,
    rows,
    sampling,
    widgets,
)
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE

SLIDER_K = (1.0, 8.0)
SLIDER_TEMPERATURE = 1.5
HISTOGRAM_HEIGHT = (138.0, 270.0)  # least and most, design pixels
COMPACT = 760.0  # design pixels: a dock less high leaves remarks to tooltips


def told(model: UiModel) -> tuple[object, ...]:
    """All that the panel tells (see `stills`)."""
    state, hud = model.state, model.hud
    what = (model.engine, model.header, model.prompts, state.settings, state.prompt, state.dial)
    return (*what, hud.settings, hud.k_reason, hud.stats, hud.histogram, hud.ghost)


def draw(ui: Ui, rect: Rect, model: UiModel) -> None:
    compact = rect.height < COMPACT * ui.style.unit
    with widgets.panel("dock", rect, scrolls=True):
        _title(ui, model)
        engine_card.draw(ui, model.engine)
        # A recording only shows its settings.
        imgui.begin_disabled(not model.engine.expected or model.engine.opened)
        _mode(ui, model.state.settings)
        _drafter(ui, model, compact)
        _k(ui, model, compact)
        quality.draw(ui, model, compact)
        _temperature(ui, model.state.settings)
        sampling.draw(ui, model.state.settings)
        _prompt(ui, model, lines=2 if compact else 3)
        imgui.end_disabled()
        rows.space(ui, 2)
        room = imgui.get_content_region_avail().y - 4 * ui.style.unit
        least, most = (height * ui.style.unit for height in HISTOGRAM_HEIGHT)
        if room > most:
            imgui.dummy(imgui.ImVec2(0, room - most - imgui.get_style().item_spacing.y))
        histogram.draw(ui, model.hud, min(max(room, least), most))


def _title(ui: Ui, model: UiModel) -> None:
    palette = ui.style.palette
    with widgets.font(ui.style, 19, bold=True):
        widgets.text("VerifyBox", palette.text)
    header = model.header
    if header is not None:
        line = f"{header.target} · {header.device} · {header.dtype}"
        with widgets.font(ui.style, SMALL_SIZE):
            widgets.text(widgets.elided(line, imgui.get_content_region_avail().x), palette.dim)
            lines = [line, f"kernel: {header.kernel}"]
            if header.remembered:
                lines.append(f"remembered: {header.remembered:,} tokens of earlier replies to you")
            imgui.set_item_tooltip("\n".join(lines))
    rows.space(ui, 2)


def _mode(ui: Ui, settings: Settings) -> None:
    chosen = widgets.segmented(
        ui.style, "mode", ("Speculative", "Target only"), 0 if settings.speculative else 1
    )
    ui.mark("mode")
    if chosen is not None and (chosen == 0) != settings.speculative:
        ui.emit(act.ChangeSettings(replace(settings, speculative=chosen == 0)))


def _drafter(ui: Ui, model: UiModel, compact: bool) -> None:
    settings = model.state.settings
    engine = model.engine.state
    choices = ("auto", *(name for name in (engine.drafters if engine else ()) if name != "auto"))
    if settings.drafter not in choices:
        choices = (*choices, settings.drafter)
    rows.space(ui, 1)
    side = imgui.get_frame_height()
    imgui.set_next_item_width(imgui.get_content_region_avail().x - side - 4 * ui.style.unit)
    imgui.begin_disabled(not settings.speculative)
    if imgui.begin_combo("##drafter", _drafter_name(settings.drafter, model)):
        for name in choices:
            if imgui.selectable(name, name == settings.drafter)[0]:
                ui.emit(act.ChangeSettings(replace(settings, drafter=name)))
        widgets.esc_closes()
        imgui.end_combo()
    imgui.end_disabled()
    ui.mark("drafter")
    header = _auto_header(model) if settings.drafter == "auto" else None
    reason = header.drafter_reason if header is not None else ""
    if reason and compact:
        imgui.set_item_tooltip(reason)
    imgui.same_line(0.0, 4 * ui.style.unit)
    tip = f"Drafter gallery, and how they compare ({keys_of(act.ToggleGallery())})"
    if widgets.icon_button(ui.style, "gallery", side, tip):
        ui.emit(act.ToggleGallery())
    ui.mark("open-gallery")
    own_dials.draw(ui, model)
    if reason and not compact:
        rows.note(ui, reason, lines=2)


def _drafter_name(name: str, model: UiModel) -> str:
    header = _auto_header(model) if name == "auto" else None
    return f"Drafter auto: {header.drafter}" if header is not None else f"Drafter: {name}"


def _auto_header(model: UiModel) -> RunHeader | None:
    """The run's header if it tells what "auto" means here; a recorded one need not."""
    header = model.header
    return header if header is not None and header.settings.drafter == "auto" else None


def _k(ui: Ui, model: UiModel, compact: bool) -> None:
    """K, by hand or left to the engine: then the dial shows the K of the present round, and why."""
    settings, hud = model.state.settings, model.hud
    now = hud.settings.k if settings.auto_k and hud.settings is not None else settings.k
    value = rows.dial(
        ui, "k", "Guesses, K", f"{now}", now, SLIDER_K, 1.0, enabled=settings.speculative,
        aside=lambda: _auto_k(ui, settings, now, hud.k_reason),
        why=explain.guesses(hud.stats, now),
    )  # fmt: skip
    if value is not None:
        ui.emit(act.ChangeSettings(replace(settings, k=round(value), auto_k=False)))
    if settings.chooses_k and hud.k_reason and not compact:
        rows.note(ui, hud.k_reason, lines=2)


def _auto_k(ui: Ui, settings: Settings, now: int, reason: str) -> None:
    """The switch beside the field: on, the engine chooses; off, the K it had last stays."""
    chosen = 0 if settings.auto_k else -1
    pressed = widgets.segmented(ui.style, "auto-k", ("auto",), chosen, rows.ASIDE * ui.style.unit)
    ui.mark("auto-k")
    does = "As many guesses as pay, by what the rounds so far have measured"
    imgui.set_item_tooltip(f"{reason}\n{does}" if settings.auto_k and reason else does)
    if pressed is not None:
        ui.emit(act.ChangeSettings(replace(settings, k=now, auto_k=not settings.auto_k)))


def _temperature(ui: Ui, settings: Settings) -> None:
    value = rows.dial(
        ui, "temperature", "Temperature", f"{settings.temperature:.2f}", settings.temperature,
        (0.0, SLIDER_TEMPERATURE), 0.05, why=explain.temperature(settings.temperature),
    )  # fmt: skip
    if value is not None:
        ui.emit(act.ChangeSettings(replace(settings, temperature=round(value, 2))))


def _prompt(ui: Ui, model: UiModel, lines: int) -> None:
    draft, unit = model.state.prompt, ui.style.unit
    rows.space(ui, 3)
    if model.prompts:
        _curated(ui, model)
    width = imgui.get_content_region_avail().x
    height = (lines * 16 * 1.25 + 12) * unit
    changed, text = imgui.input_text_multiline(
        "##prompt", draft.text, imgui.ImVec2(width, height), imgui.InputTextFlags_.word_wrap
    )
    ui.mark("prompt")
    if changed:
        ui.emit(act.EditPrompt(text, draft.chat))
    form = widgets.segmented(
        ui.style, "form", ("Chat", "Raw"), 0 if draft.chat else 1, width=width * 0.5
    )
    ui.mark("form")
    if form is not None and (form == 0) != draft.chat:
        ui.emit(act.EditPrompt(draft.text, form == 0))
    imgui.same_line()
    _start(ui, model)


def _curated(ui: Ui, model: UiModel) -> None:
    draft = model.state.prompt
    own = draft.curated is None or draft.curated >= len(model.prompts)
    shown = "Prompt: your own" if own else f"Prompt: {model.prompts[draft.curated or 0].title}"
    imgui.set_next_item_width(-1)
    if imgui.begin_combo("##curated", shown):
        for index, prompt in enumerate(model.prompts):
            if imgui.selectable(f"{prompt.title}##{index}", index == draft.curated)[0]:
                ui.emit(act.ChoosePrompt(index, prompt.text, prompt.chat))
            imgui.set_item_tooltip(prompt.shows)
        widgets.esc_closes()
        imgui.end_combo()
    ui.mark("curated")


def _start(ui: Ui, model: UiModel) -> None:
    engine = model.engine
    blank = not model.state.prompt.text.strip()
    recorded = engine.opened or not engine.expected
    blocked = blank or recorded or engine.fault is not None
    imgui.begin_disabled(blocked or engine.starting)
    imgui.push_style_color(imgui.Col_.button, imgui.ImVec4(*ui.style.role("committed")))
    imgui.push_style_color(imgui.Col_.text, imgui.ImVec4(1.0, 1.0, 1.0, 1.0))
    with widgets.font(ui.style, 16, bold=True):
        label = "Starting…" if engine.starting and not blocked else "Start"
        pressed = imgui.button(f"{label}##start", imgui.ImVec2(-1, 0))
        # Asked of imgui, which keeps the order of what was typed and this key.
        chord = imgui.is_key_chord_pressed(imgui.Key.mod_ctrl | imgui.Key.enter)
        if pressed or (chord and not blocked):
            ui.emit(act.StartRun())
    imgui.pop_style_color(2)
    imgui.end_disabled()
    ui.mark("start")
    if imgui.is_item_hovered(imgui.HoveredFlags_.allow_when_disabled):
        imgui.set_tooltip(
            "A recorded run is on stage"
            if recorded
            else "Type a prompt first"
            if blank
            else "Ctrl+Enter"
        )
