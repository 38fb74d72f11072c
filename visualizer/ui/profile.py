"""What pictures take, in a few small lines over the stage: for whoever started with --profile."""

from __future__ import annotations

from imgui_bundle import imgui

from visualizer.ui import widgets
from visualizer.ui.layout import Rect
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE, faded


def draw(ui: Ui, canvas: Rect, lines: tuple[str, ...]) -> None:
    """The lines, in the lower left corner of the stage."""
    unit, palette = ui.style.unit, ui.style.palette
    with widgets.font(ui.style, SMALL_SIZE):
        step = float(imgui.get_text_line_height())
        wide = max(float(imgui.calc_text_size(line).x) for line in lines)
        corner = canvas.x + 10 * unit, canvas.bottom - 10 * unit - step * len(lines)
        over = imgui.get_foreground_draw_list()
        over.add_rect_filled(
            imgui.ImVec2(corner[0] - 6 * unit, corner[1] - 4 * unit),
            imgui.ImVec2(corner[0] + wide + 6 * unit, canvas.bottom - 6 * unit),
            widgets.u32(faded(palette.panel, 0.8)),
            4 * unit,
        )
        for index, line in enumerate(lines):
            place = imgui.ImVec2(corner[0], corner[1] + index * step)
            over.add_text(place, widgets.u32(palette.text), line)
