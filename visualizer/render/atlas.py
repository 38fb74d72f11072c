"""The distance field of every glyph, as a texture: the baked ones, and those borrowed since."""

from __future__ import annotations

from pathlib import Path

import moderngl
import numpy as np
from PIL import Image

from visualizer.stage import text

FONTS = Path(__file__).parent.parent.parent / "assets" / "fonts"
MIPMAPS = 3


class Atlas:
    """One byte a texel, row 0 on top."""

    def __init__(self, context: moderngl.Context, anisotropic: bool) -> None:
        with Image.open(FONTS / "atlas.png") as image:
            baked = np.asarray(image.convert("L"))
        width, height = text.metrics().size
        field = np.zeros((height, width), np.uint8)
        field[: len(baked)] = baked
        self.texture = context.texture((width, height), 1, field.tobytes(), alignment=1)
        self.texture.repeat_x = self.texture.repeat_y = False
        if anisotropic:
            self.texture.anisotropy = min(8.0, context.max_anisotropy)
        self._metrics = text.metrics()
        self._copied = 0
        self._shrink()

    def refresh(self) -> None:
        """Copy the glyphs that have been borrowed since."""
        metrics = text.metrics()
        if metrics is not self._metrics:
            self._metrics, self._copied = metrics, 0
        fresh = metrics.borrowed[self._copied :]
        if not fresh:
            return
        for x, y, field in fresh:
            height, width = field.shape
            self.texture.write(field.tobytes(), viewport=(x, y, width, height), alignment=1)
        self._copied += len(fresh)
        self._shrink()

    def release(self) -> None:
        self.texture.release()

    def _shrink(self) -> None:
        self.texture.build_mipmaps(0, MIPMAPS)
        self.texture.filter = (moderngl.LINEAR_MIPMAP_LINEAR, moderngl.LINEAR)
