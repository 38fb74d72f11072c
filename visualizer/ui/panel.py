"""What every panel gets: the style, a place to put actions, and marks for tests and hints."""

from __future__ import annotations

from dataclasses import dataclass, field

from imgui_bundle import imgui

from visualizer.actions import Action
from visualizer.ui.layout import Rect
from visualizer.ui.style import Style


@dataclass(slots=True)
class Ui:
    """One frame's workspace of the panels.

    `marks` holds where each named control was drawn, in window units: tests click there.
    """

    style: Style
    actions: list[Action] = field(default_factory=list)
    marks: dict[str, Rect] = field(default_factory=dict)

    def emit(self, action: Action) -> None:
        self.actions.append(action)

    def mark(self, name: str) -> None:
        """Remember where the last control lies."""
        low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
        self.marks[name] = Rect(low.x, low.y, high.x - low.x, high.y - low.y)
