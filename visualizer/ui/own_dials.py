"""What some drafters can be told beside K: n-gram its lengths of match, layer skip its layers."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import imgui

from engine.families import about
from engine.trace import Settings
from visualizer import actions as act
from visualizer.ui import explain, rows, widgets
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui

MATCHES = (1, 8)  # tokens of a match; more can be asked for on the command line


def draw(ui: Ui, model: UiModel) -> None:
    """The dial of the drafter chosen by name, if it has one."""
    settings = model.state.settings
    kind = about(settings.drafter)
    if kind is None:
        return
    if kind.family == "ngram":
        _match(ui, settings)
    elif kind.family == "layer-skip":
        _layers(ui, settings, kind.layers or 1, _depth(model))


def _match(ui: Ui, settings: Settings) -> None:
    """The lengths of match n-gram looks up."""
    lengths = (settings.shortest_match, settings.longest_match)
    rows.space(ui, 1)
    widgets.text("Match, tokens", ui.style.palette.text)
    ui.mark("match-label")
    if imgui.is_item_hovered(imgui.HoveredFlags_.allow_when_disabled):
        widgets.explanation(ui.style, explain.match(*lengths))
    rows.at_right(
        ui, f"{lengths[0]} to {lengths[1]}" if lengths[0] < lengths[1] else f"{lengths[0]}"
    )
    chosen = widgets.range_slider(ui.style, "match", lengths, *MATCHES)
    ui.mark("match")
    if chosen is not None:
        changed = replace(settings, shortest_match=chosen[0], longest_match=chosen[1])
        ui.emit(act.ChangeSettings(changed))


def _layers(ui: Ui, settings: Settings, here: int, depth: int) -> None:
    """After how many of the target's layers it is left; all but the last one can be chosen."""
    if depth < 3:  # nothing to choose from
        return
    value = rows.dial(
        ui, "layers", f"Layers, of {depth}", f"{here}", here, (1.0, depth - 1.0), 1.0,
        enabled=settings.speculative, why=explain.layers(here, depth),
    )  # fmt: skip
    if value is not None:
        count = min(max(round(value), 1), depth - 1)
        ui.emit(act.ChangeSettings(replace(settings, drafter=f"layer-skip-{count}")))


def _depth(model: UiModel) -> int:
    """Layers of the target that guesses are made for; 0 until a run of its own tells."""
    recorded = model.engine.opened or not model.engine.expected
    own = model.header if recorded or model.badge == "LIVE" else None
    return own.target_layers if own is not None else 0
