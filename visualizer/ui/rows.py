"""Rows the dock is made of: a dial with its field, a value at the right, remarks and spaces."""

from __future__ import annotations

import math
from collections.abc import Callable

from imgui_bundle import imgui

from visualizer.ui import explain, widgets
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE

ASIDE = 46.0  # width of a small switch beside a field, design pixels
FIELD = 58.0  # width of a field


def dial(
    ui: Ui,
    name: str,
    label: str,
    shown: str,
    value: float,
    span: tuple[float, float],
    step: float,
    enabled: bool = True,
    aside: Callable[[], None] | None = None,
    why: explain.Lines = (),
) -> float | None:
    """A label, a field to type the value into, and a slider; returns a newly chosen value.

    `aside` draws a control of width `ASIDE` before the field; `why` is told at the label.
    """
    space(ui, 1)
    imgui.begin_disabled(not enabled)
    unit = ui.style.unit
    width = FIELD * unit
    room = imgui.get_content_region_avail().x - width
    imgui.align_text_to_frame_padding()
    left = imgui.get_cursor_pos_x()
    taken = (ASIDE + 6) * unit if aside is not None else 0.0
    widgets.text(widgets.elided(label, room - taken - 4 * unit), ui.style.palette.text)
    ui.mark(f"{name}-label")
    if why and imgui.is_item_hovered(imgui.HoveredFlags_.allow_when_disabled):
        widgets.explanation(ui.style, why)
    if aside is not None:
        imgui.same_line(left + room - taken)
        aside()
    imgui.same_line(left + room)
    imgui.set_next_item_width(width)
    _, typed = imgui.input_text(f"##{name}-field", shown, imgui.InputTextFlags_.auto_select_all)
    entered = number(typed) if imgui.is_item_deactivated_after_edit() else None
    ui.mark(f"{name}-field")
    dragged = widgets.slider(ui.style, name, value, *span, step)
    ui.mark(name)
    imgui.end_disabled()
    return dragged if dragged is not None else entered


def number(typed: str) -> float | None:
    """What a person typed as a number ("40 %", "0,7"), or None if it is none."""
    try:
        value = float(typed.strip().rstrip("%").strip().replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def note(ui: Ui, words: str, lines: int = 3) -> None:
    """A small dim remark under a control, cut after some lines; the rest is in its tooltip.

    An underscore stands for a space that no line may break at.
    """
    words = words.replace("_", "\u00a0")
    with widgets.font(ui.style, SMALL_SIZE):
        fitting = widgets.fitted(words, imgui.get_content_region_avail().x, lines)
        widgets.text(fitting, ui.style.palette.dim)
        if fitting.endswith("…"):
            imgui.set_item_tooltip(words)


def space(ui: Ui, height: float) -> None:
    imgui.dummy(imgui.ImVec2(0, height * ui.style.unit))


def at_right(ui: Ui, words: str) -> None:
    """A value at the right end of the line, where a field would be."""
    imgui.same_line()
    left = imgui.get_cursor_pos_x()
    room = imgui.get_content_region_avail().x
    shown = widgets.elided(words, room)
    imgui.set_cursor_pos_x(left + room - imgui.calc_text_size(shown).x)
    widgets.text(shown, ui.style.palette.text)
