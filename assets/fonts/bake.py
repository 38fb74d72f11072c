"""Bake the distance-field atlas that block text is drawn from.

    python assets/fonts/bake.py

Writes `atlas.png` (8-bit grey: 128 is the outline, higher is inside, `SPREAD` texels reach
either end of the scale) and `atlas.json` (metrics in em). Needs freetype-py, which nothing
else in the program does.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path

import freetype
import numpy as np
from numpy.typing import NDArray
from PIL import Image

HERE = Path(__file__).parent
FACES = ("Roboto-Bold.ttf", "DejaVuSans-Bold.ttf")  # the first that has a glyph draws it
EM = 48  # texels
SPREAD = 8  # texels; FreeType's own default
WIDTH = 2048

# First code point, last one. Scripts that need shaping (Arabic, Devanagari, …) are left out:
# `text.visible` shows their code points instead of a wrong picture of them.
CHARSET = (
    (0x0020, 0x007E),  # Basic Latin
    (0x00A1, 0x017F),  # Latin-1, Latin Extended-A
    (0x0370, 0x045F),  # Greek, Cyrillic
    (0x0490, 0x0491),  # Ukrainian
    (0x1EA0, 0x1EF9),  # Vietnamese
    (0x2010, 0x2027),  # punctuation
    (0x2030, 0x205E),
    (0x2070, 0x209C),  # superscripts and subscripts
    (0x20A0, 0x20BF),  # currency
    (0x2100, 0x2126),  # letterlike: ℃ ℝ ™
    (0x2150, 0x215F),  # fractions
    (0x2190, 0x22FF),  # arrows, mathematics
    (0x2318, 0x2318),  # ⌘
    (0x23CE, 0x23CE),  # ⏎
    (0x2420, 0x2424),  # control pictures
    (0x2500, 0x25FF),  # box drawing, blocks, geometric shapes
    (0x2605, 0x2606),  # stars
    (0x2660, 0x266F),  # suits, notes
    (0x2713, 0x2718),  # check marks
    (0x27E6, 0x27EB),  # mathematical brackets
    (0xFFFD, 0xFFFD),  # what bytes that are no text read as
)
Glyph = tuple[int, "NDArray[np.uint8]", tuple[float, float, float]]


def main() -> None:
    faces = [freetype.Face(str(HERE / name)) for name in FACES]
    untangle_overlaps()
    glyphs = list(render(faces))
    pixels, places = pack([bitmap for _, bitmap, _ in glyphs])
    metrics = {
        "em": EM,
        "spread": SPREAD,
        "width": pixels.shape[1],
        "height": pixels.shape[0],
        "ascender": faces[0].size.ascender / 64 / EM,
        "descender": faces[0].size.descender / 64 / EM,
        "cap_height": cap_height(faces[0]),
        # code point: texel x, y, w, h; em left, bottom, advance of the quad's corner
        "glyphs": {
            str(code): [*place, bitmap.shape[1], bitmap.shape[0], *map(rounded, where)]
            for (code, bitmap, where), place in zip(glyphs, places, strict=True)
        },
    }
    Image.fromarray(pixels).save(HERE / "atlas.png", optimize=True)
    (HERE / "atlas.json").write_text(json.dumps(metrics, separators=(",", ":")) + "\n")
    print(f"{len(glyphs)} glyphs, {pixels.shape[1]} x {pixels.shape[0]}")


def untangle_overlaps() -> None:
    """Tell the distance renderer that contours may cross, as in Ç or ‡: no seams inside."""
    on = ctypes.c_int(1)
    library = freetype.get_handle()
    if freetype.FT_Property_Set(library, b"sdf", b"overlaps", ctypes.byref(on)):
        raise RuntimeError("this FreeType cannot render overlapping contours")


def render(faces: list[freetype.Face]) -> Iterator[Glyph]:
    """Yield code point, distance field (h, w), and (left, bottom, advance) in em."""
    for face in faces:
        face.set_pixel_sizes(0, EM)
    for first, last in CHARSET:
        for code in range(first, last + 1):
            face = next((face for face in faces if face.get_char_index(code)), None)
            if face is None:
                continue
            face.load_char(chr(code), freetype.FT_LOAD_NO_HINTING | freetype.FT_LOAD_NO_BITMAP)
            slot = face.glyph
            advance = slot.linearHoriAdvance / 65536 / EM
            if not slot.outline.n_points:
                yield code, np.zeros((0, 0), np.uint8), (0.0, 0.0, advance)
                continue
            slot.render(freetype.FT_RENDER_MODE_SDF)
            field = slot.bitmap
            rows = np.array(field.buffer, np.uint8).reshape(field.rows, field.pitch)
            bottom = (slot.bitmap_top - field.rows) / EM
            yield code, rows[:, : field.width], (slot.bitmap_left / EM, bottom, advance)


def cap_height(face: freetype.Face) -> float:
    face.load_char("H", freetype.FT_LOAD_NO_HINTING)
    return rounded(face.glyph.metrics.height / 64 / EM)


def rounded(value: float) -> float:
    return round(value, 5)


def pack(bitmaps: list[NDArray[np.uint8]]) -> tuple[NDArray[np.uint8], list[tuple[int, int]]]:
    """Place bitmaps on shelves, tallest first. Returns the atlas and each one's x, y."""
    places = [(0, 0)] * len(bitmaps)
    x = y = shelf = 0
    for index in sorted(range(len(bitmaps)), key=lambda i: -bitmaps[i].shape[0]):
        height, width = bitmaps[index].shape
        if x + width > WIDTH:
            x, y, shelf = 0, y + shelf, 0
        places[index] = (x, y)
        x, shelf = x + width, max(shelf, height)
    pixels = np.zeros((-(-(y + shelf) // 64) * 64, WIDTH), np.uint8)
    for bitmap, (left, top) in zip(bitmaps, places, strict=True):
        pixels[top : top + bitmap.shape[0], left : left + bitmap.shape[1]] = bitmap
    return pixels, places


if __name__ == "__main__":
    main()
