"""Panels that stand as they were drawn, for as long as they tell the same and nobody touches them.

From picture to picture the stage moves; what a large panel says stays for seconds, and laying it
out is most of what panels cost. imgui keeps a window's triangles and shows them again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from imgui_bundle import imgui

from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui

SETTLING = 1
"""Frames that a panel is drawn once more after a change: imgui measures in one what it uses in the
next (whether there is a scroll bar), and what is no longer pointed at must lose its light."""

_KEEP = imgui.internal.WindowRefreshFlags_.try_to_avoid_refresh.value
_BY_KEYS = imgui.ConfigFlags_.nav_enable_keyboard.value
_ANY_LIST = imgui.PopupFlags_.any_popup_id.value | imgui.PopupFlags_.any_popup_level.value


@dataclass(slots=True)
class _Drawn:
    """A panel as it was drawn last: from what, with which marks, and in which frame it stood."""

    told: Hashable
    marks: dict[str, Rect]
    frame: int
    settling: int = SETTLING


class Stills:
    """What the panels of one imgui context have drawn."""

    def __init__(self) -> None:
        self._drawn: dict[str, _Drawn] = {}
        self._touched = True

    def begin(self) -> None:
        """A frame begins: see whether a hand is on any control.

        A chord with Ctrl and the like counts as well: some controls know it as theirs.
        """
        io = imgui.get_io()
        self._touched = (
            imgui.is_any_item_active()
            or io.key_ctrl or io.key_shift or io.key_alt or io.key_super
            or bool(io.config_flags & _BY_KEYS)
            or imgui.is_popup_open("", _ANY_LIST)
        )  # fmt: skip

    def show(
        self,
        ui: Ui,
        name: str,
        rect: Rect,
        told: Hashable,
        draw: Callable[[Ui, Rect, UiModel], None],
        model: UiModel,
    ) -> None:
        """Show the panel that `draw` makes in window `name`: all in it follows from `told`."""
        told = (told, rect, ui.style.size, ui.style.theme, _atlas())
        frame, last = imgui.get_frame_count(), self._drawn.get(name)
        if last is not None and (last.told != told or last.frame != frame - 1):
            last = None
        if self._touched or _pointed(rect):
            last = None
        if last is not None and last.settling == 0 and _stands(name):
            last.frame = frame
            ui.marks.update(last.marks)
            return
        settling = SETTLING if last is None else max(last.settling - 1, 0)
        others, ui.marks = ui.marks, {}
        draw(ui, rect, model)
        self._drawn[name] = _Drawn(told, ui.marks, frame, settling)
        ui.marks = others | ui.marks


def _atlas() -> int:
    """Which texture letters are in: one that runs full is given up for a larger one."""
    texture = imgui.get_io().fonts.tex_data
    return texture.unique_id if texture is not None else 0


def _pointed(rect: Rect) -> bool:
    at = imgui.get_mouse_pos()
    return bool(rect.x <= at.x < rect.right and rect.y <= at.y < rect.bottom)


def _stands(name: str) -> bool:
    """Show a window of the frame before as it is; False where imgui has it drawn anew."""
    window = imgui.internal.find_window_by_name(name)
    imgui.internal.set_next_window_refresh_policy(_KEEP)
    imgui.begin(name, None, window.flags)
    kept = bool(window.skip_refresh)
    imgui.end()
    return kept
