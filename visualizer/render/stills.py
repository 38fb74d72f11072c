"""One picture of a size of its own, drawn beside those of the window."""

from __future__ import annotations

from collections.abc import Callable

import moderngl
import numpy as np
from numpy.typing import NDArray

from visualizer.render.context import is_software, recording_quality
from visualizer.render.renderer import Renderer
from visualizer.stage.view import Quality

SIMPLEST: Quality = "software"
"""One sample a pixel: a quarter of the memory."""


class NoRoom(RuntimeError):
    """The graphics processor has no memory for a picture."""


def still(
    window: Renderer, size: tuple[int, int], transparent: bool, draw: Callable[[Renderer], None]
) -> NDArray[np.uint8]:
    """What `draw` draws with the renderer it is given: pixels as of `Renderer.pixels`.

    That one has the quality of the `window`'s, or a smoother one where the CPU draws; what there
    is no memory for is tried once more with fewer samples. Raises NoRoom.
    """
    context = window.context
    wanted = recording_quality(context) if is_software(context) else window.quality
    for quality in dict.fromkeys((wanted, SIMPLEST)):
        try:
            made = Renderer(context, size, quality, transparent)
        except moderngl.Error:
            continue
        try:
            draw(made)
            pixels = made.pixels()
            if context.error != "GL_OUT_OF_MEMORY":
                return pixels
        finally:
            window.picture.use()  # a framebuffer must not be released while bound
            made.release()
    raise NoRoom("The graphics processor has no memory for a picture of {}x{}.".format(*size))
