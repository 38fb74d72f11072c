"""The baked atlas is what its metrics say."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

FONTS = Path(__file__).parents[2] / "assets" / "fonts"
METRICS = json.loads((FONTS / "atlas.json").read_text(encoding="utf-8"))
PIXELS = np.asarray(Image.open(FONTS / "atlas.png"))


def test_the_picture_has_the_size_of_its_metrics() -> None:
    assert PIXELS.shape == (METRICS["height"], METRICS["width"])
    assert PIXELS.dtype == np.uint8
    assert max(PIXELS.shape) <= 2048


def test_glyphs_lie_apart_and_inside() -> None:
    taken = np.zeros(PIXELS.shape, bool)
    for x, y, w, h, *_ in METRICS["glyphs"].values():
        assert not taken[y : y + h, x : x + w].any()
        taken[y : y + h, x : x + w] = True
        assert x + w <= METRICS["width"]
        assert y + h <= METRICS["height"]
    assert not PIXELS[~taken].any()


@pytest.mark.parametrize("char", "Hxg★◆␣↵⟨é")
def test_a_field_has_an_inside_an_outline_and_a_dark_rim(char: str) -> None:
    x, y, w, h, *_ = METRICS["glyphs"][str(ord(char))]
    cell = PIXELS[y : y + h, x : x + w]
    assert cell.max() > 140
    for side in (cell[0], cell[-1], cell[:, 0], cell[:, -1]):
        assert side.max() < 40


def test_every_font_comes_with_its_licence() -> None:
    readme = (FONTS / "README.md").read_text(encoding="utf-8")
    for font in FONTS.glob("*.ttf"):
        row = next(line for line in readme.splitlines() if f"`{font.name}`" in line)
        licence = row.split("`")[-2]
        assert (FONTS / licence).stat().st_size > 500
