"""The picture as the pointer meets it: what lies under it, where things are, how far a pixel goes.

Positions are window units from the top left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import tan

from visualizer.stage import pick
from visualizer.stage.frame import Frame
from visualizer.ui.model import Outline


@dataclass(frozen=True, slots=True)
class Sight:
    """The last picture (None before the first), its size in pixels, `ratio` of them to a unit.

    `now` is the round whose check and passes are on stage, -1 for none.
    """

    picture: Frame | None
    size: tuple[int, int]
    ratio: float
    now: int

    def under(self, at: tuple[float, float] | None) -> int:
        """The pick id of what lies there, or 0."""
        if self.picture is None or at is None:
            return 0
        return pick.hit(self.picture, at[0] * self.ratio, at[1] * self.ratio, *self.size, self.now)

    def outlines(self, *picked: int) -> tuple[Outline, ...]:
        """Around what has these pick ids and is in the picture."""
        if self.picture is None:
            return ()
        found = (pick.outline(self.picture, each, *self.size) for each in picked)
        return tuple(
            (x0 / self.ratio, y0 / self.ratio, x1 / self.ratio, y1 / self.ratio)
            for x0, y0, x1, y1 in (each for each in found if each is not None)
        )

    def world_per_pixel(self) -> float:
        """World units at the subject per window unit."""
        if self.picture is None:
            return 0.0
        camera = self.picture.camera
        height = self.size[1] / self.ratio
        return 2 * math.dist(camera.eye, camera.look_at) * tan(camera.fov / 2) / height

    def offset_at(
        self, x: float, y: float, free: tuple[float, float, float, float]
    ) -> tuple[float, float]:
        """From the centre of the free rectangle to a position, world units."""
        width, height = (side / self.ratio for side in self.size)
        x0, y0, x1, y1 = free
        scale = self.world_per_pixel()
        return ((x - width * (x0 + x1) / 2) * scale, (height * (1 - (y0 + y1) / 2) - y) * scale)
