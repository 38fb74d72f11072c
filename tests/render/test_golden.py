"""Golden pictures: what the renderer made before, it still makes.

Compared on the software rasteriser only, and away from edges, where drivers of different
versions may differ. ``VERIFYBOX_UPDATE_GOLDEN=1`` writes the pictures anew; look at them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import moderngl
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tests.render import sample
from visualizer.render.context import is_software
from visualizer.render.renderer import Renderer

GOLDEN = Path(__file__).parent.parent / "golden"
SIZE = (480, 270)
CASES: dict[str, tuple[Any, ...]] = {
    "drop": ("drop", "default", sample.DARK),
    "verify": ("verify", "default", sample.DARK),
    "fill": ("fill", "side", sample.DARK),
    "crack": ("crack", "side", sample.DARK),
    "shatter": ("shatter", "default", sample.DARK),
    "land": ("land", "top", sample.DARK),
    "verify-light": ("verify", "default", sample.LIGHT),
    "tree": (),
}
FLAT_TOLERANCE = 4  # of 255, where the picture is smooth
MEAN_TOLERANCE = 1.0  # of 255, over the whole picture


@pytest.mark.parametrize("name", CASES)
def test_picture_equals_its_golden(gl: moderngl.Context, name: str) -> None:
    if not is_software(gl):
        pytest.skip("goldens are made by the software rasteriser")
    frame = sample.tree() if name == "tree" else sample.frame(*CASES[name])
    renderer = Renderer(gl, SIZE, "software")
    renderer.draw(frame)
    first = renderer.pixels()
    renderer.draw(frame)
    assert np.array_equal(renderer.pixels(), first), "not even stable: no golden can hold"
    renderer.release()
    path = GOLDEN / f"{name}.png"
    if os.environ.get("VERIFYBOX_UPDATE_GOLDEN") == "1":
        Image.fromarray(first).save(path, optimize=True)
    with Image.open(path) as stored:
        golden = np.asarray(stored.convert("RGB"))
    apart = np.abs(first.astype(int) - golden).max(axis=2)
    assert apart[~edges(golden)].max() <= FLAT_TOLERANCE
    assert apart.mean() <= MEAN_TOLERANCE


def edges(picture: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Pixels within one of a visible step in brightness."""
    bright = picture.astype(int).max(axis=2)
    step = np.zeros_like(bright)
    for axis in (0, 1):
        for shift in (-1, 1):
            step = np.maximum(step, np.abs(bright - np.roll(bright, shift, axis)))
    marked = step > 10
    for axis in (0, 1):
        marked = marked | np.roll(marked, 1, axis) | np.roll(marked, -1, axis)
    return marked


def test_most_of_a_picture_is_compared_strictly() -> None:
    for name in CASES:
        with Image.open(GOLDEN / f"{name}.png") as stored:
            assert edges(np.asarray(stored.convert("RGB"))).mean() < 0.4
