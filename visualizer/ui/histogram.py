"""The acceptance histogram: how many rounds accepted exactly j of their k guesses."""

from __future__ import annotations

import numpy as np
from imgui_bundle import imgui, implot
from numpy.typing import NDArray

from visualizer.stage.hud import Hud
from visualizer.ui import widgets
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE, Rgba

_BARE = (
    implot.Flags_.no_inputs
    | implot.Flags_.no_legend
    | implot.Flags_.no_title
    | implot.Flags_.no_mouse_text
    | implot.Flags_.no_menus
    | implot.Flags_.no_box_select
)


def draw(ui: Ui, hud: Hud, height: float) -> None:
    """Shares of the rounds since a setting last changed; the setting before as a ghost."""
    palette, style = ui.style.palette, ui.style
    rounds = sum(hud.histogram)
    widgets.text("Accepted per round", palette.text)
    used = imgui.get_text_line_height_with_spacing()
    with widgets.font(style, SMALL_SIZE):
        count = f"{rounds} round{'' if rounds == 1 else 's'}"
        ghost = ", grey: the setting before" if sum(hud.ghost) else ""
        widgets.text(widgets.elided(count + ghost, imgui.get_content_region_avail().x), palette.dim)
        used += imgui.get_text_line_height_with_spacing()
        _plot(ui, hud, max(height - used, 60 * style.unit))


def _plot(ui: Ui, hud: Hud, height: float) -> None:
    now, before = shares(hud.histogram), shares(hud.ghost)
    bars = max(len(now), len(before), 2)
    implot.push_style_var(implot.StyleVar_.plot_padding, imgui.ImVec2(0, 2 * ui.style.unit))
    implot.push_style_var(implot.StyleVar_.label_padding, imgui.ImVec2(2, 2 * ui.style.unit))
    if implot.begin_plot("##accepted", imgui.ImVec2(-1, height), _BARE):
        axis = implot.AxisFlags_
        bare_x = axis.no_grid_lines | axis.no_tick_marks | axis.no_highlight | axis.lock
        bare_y = axis.no_decorations | axis.lock
        implot.setup_axes("", "", int(bare_x), int(bare_y))
        top = max(float(now.max(initial=0)), float(before.max(initial=0)), 0.25) * 1.25
        always = implot.Cond_.always
        implot.setup_axes_limits(-0.6, bars - 0.4, 0.0, top, always)
        implot.setup_axis_ticks(
            implot.ImAxis_.x1, [float(i) for i in range(bars)], [str(i) for i in range(bars)], False
        )
        if before.size:
            _bars("before", before, 0.92, (*ui.style.palette.dim[:3], 0.35))
        if now.size:
            _bars("now", now, 0.6, ui.style.role("committed"))
            _counts(ui, hud.histogram, now)
        implot.end_plot()
    ui.mark("histogram")
    implot.pop_style_var(2)


def _bars(name: str, heights: NDArray[np.float64], width: float, color: Rgba) -> None:
    spec = implot.Spec()
    spec.fill_color = imgui.ImVec4(*color)
    spec.line_color = imgui.ImVec4(*color)
    implot.plot_bars(name, heights, width, 0.0, spec)


def _counts(ui: Ui, counts: tuple[int, ...], heights: NDArray[np.float64]) -> None:
    """The number of rounds above each bar."""
    for accepted, (count, height) in enumerate(zip(counts, heights, strict=True)):
        if count:
            offset = imgui.ImVec2(0, -8 * ui.style.unit)
            implot.plot_text(str(count), float(accepted), float(height), offset)


def shares(counts: tuple[int, ...]) -> NDArray[np.float64]:
    """Counts as shares of their sum, so that two settings compare whatever their lengths."""
    values = np.asarray(counts, dtype=np.float64)
    total = values.sum()
    return values / total if total else values
