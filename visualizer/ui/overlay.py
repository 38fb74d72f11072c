"""All panels of a frame: imgui's context, its input port, and the order of drawing.

`frame` turns a `UiModel` into draw data and a list of actions. It touches no GL: the draw
data go to the render pass, which may be that of a window or of a recording alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from imgui_bundle import imgui

from visualizer.actions import Action
from visualizer.ui import (
    caption,
    dock,
    gallery,
    help,
    microscope,
    palette,
    profile,
    readouts,
    textbar,
    timeline,
    transport,
    widgets,
)
from visualizer.ui.layout import Layout, Rect, arrange
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.port import ImguiPort
from visualizer.ui.stills import Stills
from visualizer.ui.style import Style

FONTS = Path(__file__).resolve().parents[2] / "assets" / "fonts"
Cursor = Literal["arrow", "hand", "text"]
NARROWEST = 40.0  # design pixels: nothing can be read in a panel less wide
SHORTEST, LONGEST = 1e-4, 0.25  # seconds imgui is told a frame lasted


class Overlay:
    """The panels. One per process; `close` it before another is made."""

    def __init__(self, fonts: Path = FONTS) -> None:
        self._context = imgui.create_context()
        io = imgui.get_io()
        io.set_ini_filename("")
        io.set_log_filename("")
        io.config_input_trickle_event_queue = True
        io.config_mac_osx_behaviors = False  # the window has turned Command into Ctrl already
        io.backend_flags |= imgui.BackendFlags_.renderer_has_textures
        self._style = Style(fonts)
        self._stills = Stills()
        self.port = ImguiPort()
        self.marks: dict[str, Rect] = {}

    @property
    def draw_data(self) -> imgui.ImDrawData:
        return imgui.get_draw_data()

    @property
    def holding(self) -> bool:
        """A slider, field or button is being held: its value is still on the move."""
        return bool(imgui.is_any_item_active())

    @property
    def cursor(self) -> Cursor:
        """What the mouse pointer should look like over the panels."""
        kinds: dict[int, Cursor] = {
            imgui.MouseCursor_.text_input: "text", imgui.MouseCursor_.hand: "hand",
        }  # fmt: skip
        return kinds.get(imgui.get_mouse_cursor(), "arrow")

    def frame(
        self, model: UiModel, size: tuple[float, float], ratio: float, elapsed: float
    ) -> list[Action]:
        """Lay out one frame for a window of `size` units, `ratio` pixels to the unit."""
        io = imgui.get_io()
        io.display_size = imgui.ImVec2(*size)
        io.display_framebuffer_scale = imgui.ImVec2(ratio, ratio)
        io.delta_time = min(max(elapsed, SHORTEST), LONGEST)
        state = model.state
        layout = arrange(*size, state.ui_scale, state.ui_visible, model.drawn)
        self._style.apply(layout.unit, state.theme, ratio)
        ui = Ui(self._style)
        self.port.move_by_keys("gallery" if model.gallery is not None else state.panel)
        imgui.new_frame()
        try:
            imgui.push_font(self._style.regular, 16.0 * layout.unit)
            self._panels(ui, layout, model)
            imgui.pop_font()
        finally:
            imgui.render()
        self.marks = ui.marks
        return ui.actions

    def _panels(self, ui: Ui, layout: Layout, model: UiModel) -> None:
        state, show = model.state, self._stills.show
        panels: list[Rect] = []
        if state.blackout:
            _blackout(layout)
            self.port.set_panels(panels)
            return
        self._stills.begin()
        for index, around in enumerate(model.outlines):
            microscope.outline(ui, around, strong=index == 0 and model.specimen is not None)
        if model.profile:
            profile.draw(ui, layout.canvas, model.profile)
        show(ui, "caption", layout.caption, caption.told(model), caption.draw, model)
        if state.ui_visible:
            if layout.dock.width > NARROWEST * layout.unit:  # else it makes room for the drawer
                show(ui, "dock", layout.dock, dock.told(model), dock.draw, model)
            show(ui, "readouts", layout.readouts, readouts.told(model), readouts.draw, model)
            show(ui, "text", layout.text, textbar.told(model), textbar.draw, model)
            timeline.draw(ui, layout.timeline, model)
            show(ui, "transport", layout.transport, transport.told(model), transport.draw, model)
            place = ui.marks["place"]
            show(ui, "place", place, transport.place(model), transport.draw_place, model)
            if layout.drawer.width > NARROWEST * layout.unit:
                microscope.draw(ui, layout.drawer, model)
            panels += [layout.dock, layout.readouts, layout.text, layout.transport]
            panels += [layout.timeline, layout.drawer]
        else:
            readouts.draw_badge_alone(ui, layout.width, model)
        if model.pointed is not None and state.panel is None and model.gallery is None:
            microscope.tip(ui, model.pointed)
        if state.help_visible:
            help.draw(ui, layout, model.renderer)
            panels.append(ui.marks["help"])
        if model.gallery is not None:
            gallery.draw(ui, layout, model, model.gallery)
            panels = [Rect(0, 0, layout.width, layout.height)]  # a click beside it closes it
        if state.palette is not None:
            palette.draw(ui, layout, state.palette, model.offers)
            panels = [Rect(0, 0, layout.width, layout.height)]  # a click beside it closes it
        anything = imgui.PopupFlags_.any_popup_id | imgui.PopupFlags_.any_popup_level
        listing = bool(imgui.is_popup_open("", anything))
        self.port.set_panels(panels, bool(imgui.is_any_item_active()), listing)

    def close(self) -> None:
        imgui.destroy_context(self._context)


def _blackout(layout: Layout) -> None:
    imgui.get_foreground_draw_list().add_rect_filled(
        imgui.ImVec2(0, 0),
        imgui.ImVec2(layout.width, layout.height),
        widgets.u32((0.0, 0.0, 0.0, 1.0)),
    )
