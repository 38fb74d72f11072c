"""What shapes the laws beside the temperature, folded away in the dock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from imgui_bundle import imgui

from engine.trace import Settings
from visualizer import actions as act
from visualizer.ui import explain, rows, widgets
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE


@dataclass(frozen=True, slots=True)
class _Field:
    """A setting one types: its label, its value in words, and the settings with another one."""

    name: str
    label: str
    shown: Callable[[Settings], str]
    changed: Callable[[Settings, float], Settings]
    plain: Callable[[Settings], bool]


_FIELDS = (
    _Field(
        "top-k", "Top-k", lambda s: str(s.top_k) if s.top_k else "off",
        lambda s, value: replace(s, top_k=max(round(value), 0)), lambda s: s.top_k == 0,
    ),
    _Field(
        "top-p", "Top-p", lambda s: f"{s.top_p:g}" if s.top_p < 1 else "off",
        lambda s, value: replace(s, top_p=value if value > 0 else 1.0), lambda s: s.top_p == 1,
    ),
    _Field(
        "min-p", "Min-p", lambda s: f"{s.min_p:g}" if s.min_p > 0 else "off",
        lambda s, value: replace(s, min_p=value), lambda s: s.min_p == 0,
    ),
    _Field(
        "penalty", "Penalty",
        lambda s: f"{s.repetition_penalty:g}" if s.repetition_penalty != 1 else "off",
        lambda s, value: replace(s, repetition_penalty=value if value > 0 else 1.0),
        lambda s: s.repetition_penalty == 1,
    ),
)  # fmt: skip


def draw(ui: Ui, settings: Settings) -> None:
    """One line that says what is on, and unfolds to the four fields."""
    on = [
        f"{each.label.lower()} {each.shown(settings)}"
        for each in _FIELDS
        if not each.plain(settings)
    ]
    title = f"Sampling: {', '.join(on)}" if on else "Sampling: top-k, top-p, min-p, penalty"
    unit = ui.style.unit
    with widgets.font(ui.style, SMALL_SIZE):
        shown = widgets.elided(title, imgui.get_content_region_avail().x - 24 * unit)
        imgui.push_style_color(imgui.Col_.text, imgui.ImVec4(*ui.style.palette.dim))
        imgui.push_style_color(imgui.Col_.header, imgui.ImVec4(0, 0, 0, 0))
        unfolded = imgui.tree_node_ex(
            "##sampling",
            imgui.TreeNodeFlags_.no_tree_push_on_open | imgui.TreeNodeFlags_.span_avail_width,
            shown,
        )
        imgui.pop_style_color(2)
    ui.mark("sampling")
    if unfolded:
        _fields(ui, settings)


def _fields(ui: Ui, settings: Settings) -> None:
    """Two columns of two: a label and a field."""
    unit = ui.style.unit
    half = (imgui.get_content_region_avail().x - 10 * unit) / 2
    left = imgui.get_cursor_pos_x()
    for number, each in enumerate(_FIELDS):
        column = left + (number % 2) * (half + 10 * unit)
        if number % 2:
            imgui.same_line(column)
        imgui.align_text_to_frame_padding()
        widgets.text(widgets.elided(each.label, half - rows.FIELD * unit), ui.style.palette.text)
        ui.mark(f"{each.name}-label")
        if imgui.is_item_hovered(imgui.HoveredFlags_.allow_when_disabled):
            widgets.explanation(ui.style, explain.SAMPLING[each.name])
        imgui.same_line(column + half - rows.FIELD * unit)
        imgui.set_next_item_width(rows.FIELD * unit)
        flags = imgui.InputTextFlags_.auto_select_all
        _, typed = imgui.input_text(f"##{each.name}", each.shown(settings), flags)
        ui.mark(each.name)
        if imgui.is_item_deactivated_after_edit():
            value = 0.0 if typed.strip() in ("off", "") else rows.number(typed)
            if value is not None:
                ui.emit(act.ChangeSettings(each.changed(settings, value)))
