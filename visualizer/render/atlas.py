"""The distance field of every glyph, as a texture."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import moderngl
from PIL import Image

FONTS = Path(__file__).parent.parent.parent / "assets" / "fonts"


@functools.cache
def metrics() -> dict[str, float]:
    """The distance field's scale, from the font atlas' description."""
    loaded: dict[str, float] = json.loads((FONTS / "atlas.json").read_text(encoding="utf-8"))
    return loaded


def load(context: moderngl.Context, anisotropic: bool) -> moderngl.Texture:
    """The distance field of every glyph, one byte a texel, row 0 on top."""
    with Image.open(FONTS / "atlas.png") as image:
        field = image.convert("L")
        texture = context.texture(field.size, 1, field.tobytes(), alignment=1)
    texture.build_mipmaps(0, 3)
    texture.filter = (moderngl.LINEAR_MIPMAP_LINEAR, moderngl.LINEAR)
    texture.repeat_x = texture.repeat_y = False
    if anisotropic:
        texture.anisotropy = min(8.0, context.max_anisotropy)
    return texture
