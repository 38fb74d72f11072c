"""Where the panels lie: pure arithmetic from the window's size. Nothing is drawn here.

All lengths are window units (points). `unit` is the length of one line of the 900-line
design: text of 16 units reads alike on a projector, a laptop and in a 4K export.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

DESIGN_HEIGHT = 900.0
SMALLEST_UNIT = 0.9
"""Below this the text would be illegible; small windows get relatively larger panels."""

SMALLEST_HEIGHT = 600.0
DOCK_SHARE = 0.22
DOCK_LEAST = 195.0  # design pixels: narrower, its labels are cut
DOCK_MOST = 0.42
DRAWER_SHARE = 0.28
WIDEST = 1.5  # times its share that a side panel takes with larger text
NARROWEST_STAGE = 560.0  # design pixels: the dock makes room for the drawer in a narrower window


class Rect(NamedTuple):
    """A rectangle from its top left corner, y downwards."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def overlaps(self, other: Rect) -> bool:
        return (
            self.x < other.right
            and other.x < self.right
            and self.y < other.bottom
            and other.y < self.bottom
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """The panels of one frame. With the UI hidden, all but `canvas` and `caption` are empty.

    `drawer` is where the microscope lies: no stage is under it.
    """

    unit: float
    width: float
    height: float
    dock: Rect
    readouts: Rect
    text: Rect
    timeline: Rect
    transport: Rect
    drawer: Rect
    caption: Rect  # the band of the canvas that words lie over
    canvas: Rect  # what is left for the stage

    @property
    def free(self) -> tuple[float, float, float, float]:
        """`View.free`: what the panels leave, as fractions from the lower left."""
        return (
            self.canvas.x / self.width,
            1.0 - self.canvas.bottom / self.height,
            self.canvas.right / self.width,
            1.0 - self.canvas.y / self.height,
        )

    @property
    def stage(self) -> tuple[float, float, float, float]:
        """The part of the picture that no panel hides: `free` and the caption's band."""
        x0, y0, x1, _ = self.free
        return x0, y0, x1, 1.0 - self.caption.y / self.height


def unit_for(height: float, ui_scale: float) -> float:
    """Window units per design pixel. Small videos keep the proportions of the smallest window."""
    legible = SMALLEST_UNIT * min(height / SMALLEST_HEIGHT, 1.0)
    return max(height / DESIGN_HEIGHT, legible) * ui_scale


def arrange(
    width: float, height: float, ui_scale: float = 1.0, visible: bool = True, drawn: float = 0.0
) -> Layout:
    """Lay the panels out in a window of `width` x `height` units.

    `drawn` is how far the drawer is out, 0..1.
    """
    unit = unit_for(height, ui_scale)
    grown = min(max(ui_scale, 1.0), WIDEST)
    dock = 0
    if visible:
        needed = min(DOCK_LEAST * unit, DOCK_MOST * width)  # in an upright window
        dock = round(max(width * DOCK_SHARE * grown, needed))
    drawer = round(width * DRAWER_SHARE * grown) if visible else 0
    if width - dock - drawer < NARROWEST_STAGE * unit:
        dock = round(dock * (1.0 - drawn))
    drawer = round(drawer * drawn)
    top = round(min(80 * unit, height * 0.2)) if visible else 0
    transport = round(min(50 * unit, height * 0.1)) if visible else 0
    timeline = round(min(34 * unit, height * 0.06)) if visible else 0
    text = round(min(72 * unit, height * 0.16)) if visible else 0
    caption = round(min(44 * unit, height * 0.09))
    rest = width - dock
    stage = rest - drawer
    below = height - transport - timeline
    return Layout(
        unit=unit,
        width=width,
        height=height,
        dock=Rect(0, 0, dock, height if visible else 0),
        readouts=Rect(dock, 0, rest, top),
        text=Rect(dock, below - text, stage, text),
        timeline=Rect(dock, below, rest, timeline),
        transport=Rect(dock, height - transport, rest, transport),
        drawer=Rect(width - drawer, top, drawer, below - top if drawer else 0),
        caption=Rect(dock, top, stage, caption),
        canvas=Rect(dock, top + caption, stage, below - text - top - caption),
    )
