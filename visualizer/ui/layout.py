"""Where the panels lie: pure arithmetic from the window's size. Nothing is drawn here.

All lengths are window units (points). `unit` is the length of one line of the 900-line
design: text of 16 units reads alike on a projector, a laptop and in a 4K export.
"""

from __future__ import annotations

from dataclasses import dataclass

DESIGN_HEIGHT = 900.0
SMALLEST_UNIT = 0.9
"""Below this the text would be illegible; small windows get relatively larger panels."""

SMALLEST_HEIGHT = 600.0
DOCK_SHARE = 0.22


@dataclass(frozen=True, slots=True)
class Rect:
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
    """The panels of one frame. With the UI hidden, all but `canvas` and `caption` are empty."""

    unit: float
    width: float
    height: float
    dock: Rect
    readouts: Rect
    text: Rect
    transport: Rect
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


def unit_for(height: float, ui_scale: float) -> float:
    """Window units per design pixel. Small videos keep the proportions of the smallest window."""
    legible = SMALLEST_UNIT * min(height / SMALLEST_HEIGHT, 1.0)
    return max(height / DESIGN_HEIGHT, legible) * ui_scale


def arrange(width: float, height: float, ui_scale: float = 1.0, visible: bool = True) -> Layout:
    """Lay the panels out in a window of `width` x `height` units."""
    unit = unit_for(height, ui_scale)
    dock = round(width * DOCK_SHARE) if visible else 0
    top = round(min(80 * unit, height * 0.2)) if visible else 0
    transport = round(min(50 * unit, height * 0.1)) if visible else 0
    text = round(min(82 * unit, height * 0.18)) if visible else 0
    caption = round(min(46 * unit, height * 0.09))
    rest = width - dock
    below = height - transport
    return Layout(
        unit=unit,
        width=width,
        height=height,
        dock=Rect(0, 0, dock, height if visible else 0),
        readouts=Rect(dock, 0, rest, top),
        text=Rect(dock, below - text, rest, text),
        transport=Rect(dock, below, rest, transport),
        caption=Rect(dock, top, rest, caption),
        canvas=Rect(dock, top + caption, rest, below - text - top - caption),
    )
