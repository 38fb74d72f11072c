"""Every surface a frame passes through, from scene light to finished bytes."""

from __future__ import annotations

from math import ceil, floor
from typing import Any, TypeVar

import moderngl
import numpy as np
from numpy.typing import NDArray

from visualizer.render.quality import Effort

Kept = TypeVar("Kept")
Area = tuple[float, float, float, float]
WHOLE: Area = (0.0, 0.0, 1.0, 1.0)
RIM = 5  # pixels


class Targets:
    """Framebuffers for pictures of `size` pixels.

    scene: multisampled light, RGBA half floats; light: the same resolved; mirror: the stage
    seen from below, half size; spills: a chain of ever smaller pictures for bloom; picture:
    the result, 8-bit sRGB, which is what windows and recorders get.
    """

    def __init__(self, context: moderngl.Context, size: tuple[int, int], effort: Effort) -> None:
        self.size = size
        self._owned: list[Any] = []
        self.light_texture = self._texture(context, size, "f2")
        self.light = self._keep(
            context.framebuffer([self.light_texture], self._depth(context, size))
        )
        samples = min(effort.samples, context.max_samples)
        self.scene = self.light if samples < 2 else self._multisampled(context, size, samples)
        self.mirror_texture: moderngl.Texture | None = None
        self.mirror: moderngl.Framebuffer | None = None
        if effort.mirror:
            half = _halved(size)
            self.mirror_texture = self._texture(context, half, "f2")
            self.mirror_texture.build_mipmaps()
            self.mirror_texture.filter = (moderngl.LINEAR_MIPMAP_LINEAR, moderngl.LINEAR)
            depth = self._depth(context, half)
            self.mirror = self._keep(context.framebuffer([self.mirror_texture], depth))
        self.spills: list[tuple[moderngl.Texture, moderngl.Framebuffer]] = []
        smaller = size if effort.bloom_start == 2 else _halved(size)
        for _ in range(effort.bloom_levels):
            smaller = _halved(smaller)
            texture = self._texture(context, smaller, "f2")
            self.spills.append((texture, self._keep(context.framebuffer([texture]))))
        self.picture_texture = self._texture(context, size, "f1")
        once = self._depth(context, size) if samples < 2 else None  # see finish.glsl, SMOOTH
        self.picture = self._keep(context.framebuffer([self.picture_texture], once))
        self.within: Area = WHOLE

    def limit(self, within: Area) -> None:
        """Draw only `within` from now on (x0, y0, x1, y1, fractions from the lower left)."""
        if within == self.within:
            return
        self.within = within
        surfaces = [self.light, self.scene, *(target for _, target in self.spills)]
        for each in surfaces + ([self.mirror] if self.mirror else []):
            each.scissor = (0, 0, *each.size)
            each.clear()  # what is not drawn any more must not spill into the rest
            each.scissor = pixels(within, each.size)

    def resolve(self, context: moderngl.Context) -> None:
        """Average the samples of `scene` into `light`."""
        if self.scene is not self.light:
            same_shape(self.scene, self.light)
            context.copy_framebuffer(self.light, self.scene)

    def release(self) -> None:
        for each in reversed(self._owned):
            each.release()
        self._owned.clear()

    def _multisampled(
        self, context: moderngl.Context, size: tuple[int, int], samples: int
    ) -> moderngl.Framebuffer:
        color = self._keep(context.renderbuffer(size, 4, samples=samples, dtype="f2"))
        return self._keep(context.framebuffer([color], self._depth(context, size, samples)))

    def _depth(
        self, context: moderngl.Context, size: tuple[int, int], samples: int = 0
    ) -> moderngl.Renderbuffer:
        return self._keep(context.depth_renderbuffer(size, samples=samples))

    def _texture(
        self, context: moderngl.Context, size: tuple[int, int], dtype: str
    ) -> moderngl.Texture:
        texture = self._keep(context.texture(size, 4, dtype=dtype))
        texture.repeat_x = texture.repeat_y = False
        texture.filter = (moderngl.LINEAR, moderngl.LINEAR)
        return texture

    def _keep(self, each: Kept) -> Kept:
        self._owned.append(each)
        return each


def pixels(within: Area, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Left, bottom, width, height of the pixels that `within` touches, and a rim around them.

    What evens out edges looks that far past a pixel.
    """
    low = [max(floor(side * share) - RIM, 0) for side, share in zip(size, within[:2], strict=True)]
    high = [
        min(ceil(side * share) + RIM, side) for side, share in zip(size, within[2:], strict=True)
    ]
    return low[0], low[1], max(high[0] - low[0], 1), max(high[1] - low[1], 1)


def same_shape(source: moderngl.Framebuffer, into: moderngl.Framebuffer) -> None:
    """Resolving needs equal size and format; drivers differ in what they do without.

    Raises ValueError.
    """
    if source.size != into.size:
        raise ValueError(f"cannot resolve {source.size} into {into.size}")
    formats = [(each.color_attachments[0].components, each.color_attachments[0].dtype)
               for each in (source, into)]  # fmt: skip
    if formats[0] != formats[1]:
        raise ValueError(f"cannot resolve {formats[0]} into {formats[1]}")


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    return max(size[0] // 2, 1), max(size[1] // 2, 1)


def straight(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Divide colours by their coverage, in place, (h, w, 4); what nothing covers is 0."""
    coverage = picture[..., 3]
    partly = (coverage > 0) & (coverage < 255)
    some = picture[partly].astype(np.uint16)
    share = some[:, 3:]
    picture[partly, :3] = np.minimum((some[:, :3] * 255 + share // 2) // share, 255)
    picture[coverage == 0, :3] = 0
    return picture
