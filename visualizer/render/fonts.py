"""Glyphs of the system's own fonts, made into distance fields when a run needs them.

Each platform finds fonts its own way: fontconfig for a character where there is one, else the
folders in which Windows and macOS keep theirs. Fonts of pictures (emoji in colour) have no outlines
and are passed over; emoji come from fonts that draw them in one colour, where a machine has any:
Segoe UI Symbol and Segoe UI Emoji on Windows, Apple Symbols (some of them) on macOS, Noto Emoji or
Symbola under fontconfig.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from visualizer.render import atlas
from visualizer.stage import text
from visualizer.stage.text import Borrowed

Font = ImageFont.FreeTypeFont

SCALE = 3  # pixels of the drawn glyph per texel of its field; odd, so that texels have a middle
MISSING = "\U0010fffe"  # no font has it: drawn, it is the sign for what a font lacks
SECONDS = 5.0  # for fontconfig to answer

BUNDLED = (atlas.FONTS / "DejaVuSans-Bold.ttf",)
WINDOWS = ("msyhbd.ttc", "YuGothB.ttc", "malgunbd.ttf", "msjhbd.ttc", "msgothic.ttc", "simsun.ttc",
           "seguisb.ttf", "seguisym.ttf", "seguiemj.ttf")  # fmt: skip
MACOS = ("PingFang.ttc", "Hiragino Sans GB.ttc", "AppleSDGothicNeo.ttc", "Apple Symbols.ttf",
         "STHeiti Medium.ttc", "Supplemental/Arial Unicode.ttf", "Arial Unicode.ttf")  # fmt: skip


def lend() -> None:
    """Let the letters of the stage come from the system's fonts where the atlas lacks them."""
    text.borrow(SystemFonts().glyph)


class SystemFonts:
    """Fonts opened so far; a character is first looked for in them."""

    def __init__(self) -> None:
        self._fonts: dict[tuple[str, int], Font | None] = {}
        self._em = text.metrics().em
        for path in (*BUNDLED, *_folder_fonts()):
            self._open(str(path), 0)

    def glyph(self, char: str) -> Borrowed | None:
        """The distance field of `char`; None where no font has it."""
        opened = (font for font in self._fonts.values() if font and _has(font, char))
        font = next(opened, None)
        if font is None:
            font = self._matched(char)
        return _borrowed(font, char, self._em) if font else None

    def _matched(self, char: str) -> Font | None:
        for found in fontconfig(char):
            font = self._open(*found)
            if font and _has(font, char):
                return font
        return None

    def _open(self, path: str, index: int) -> Font | None:
        key = (path, index)
        if key not in self._fonts:
            try:
                self._fonts[key] = ImageFont.truetype(
                    path, self._em * SCALE, index, layout_engine=ImageFont.Layout.BASIC
                )
            except OSError:  # not there, not a font, or one of pictures
                self._fonts[key] = None
        return self._fonts[key]


def fontconfig(char: str) -> Iterator[tuple[str, int]]:
    """Files and faces of fonts that may have `char`, the best first; none without fontconfig.

    First the one fontconfig would use. For emoji that is often one of pictures: then every font
    whose outlines hold the character.
    """
    drawn = f"outline=true:color=false:charset={ord(char):x}"
    for words in (("fc-match", f"sans-serif:bold:{drawn}"), ("fc-list", f":{drawn}")):
        yield from _answered(*words)


def _answered(name: str, pattern: str) -> Iterator[tuple[str, int]]:
    """What one of fontconfig's programs answers, line by line."""
    program = shutil.which(name)
    if program is None:
        return
    try:
        answer = subprocess.run(
            [program, "-f", "%{index}\t%{file}\n", pattern],
            capture_output=True, text=True, timeout=SECONDS, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return
    for line in answer.splitlines():
        index, _, path = line.partition("\t")
        if path and index.isdigit():
            yield path, int(index) & 0xFFFF


def _folder_fonts() -> Iterator[Path]:
    """Fonts that Windows and macOS come with, by name."""
    windows = Path(os.environ.get("WINDIR", "C:/Windows")) / "Fonts"
    macos = Path("/System/Library/Fonts")
    known = {
        "win32": [windows / name for name in WINDOWS],
        "darwin": [folder / name for name in MACOS for folder in (macos, Path("/Library/Fonts"))],
    }
    yield from (path for path in known.get(sys.platform, []) if path.exists())


def _has(font: Font, char: str) -> bool:
    """Whether the font draws something for `char` that is not its sign for what it lacks."""
    drawn = font.getmask(char)
    return bool(drawn.size[0]) and _bytes(drawn) != _lack(font)


@cache
def _lack(font: Font) -> bytes:
    return _bytes(font.getmask(MISSING))


def _bytes(mask: Any) -> bytes:
    return bytes(mask) + repr(mask.size).encode()


def _borrowed(font: Font, char: str, em: int) -> Borrowed:
    """Draw `char` large and turn the picture into a distance field."""
    reach = text.SPREAD * SCALE
    left, top, right, bottom = (round(side) for side in font.getbbox(char, anchor="ls"))
    left, bottom = left - reach, bottom + reach
    width = -(-(right + reach - left) // SCALE)
    height = -(-(bottom - (top - reach)) // SCALE)
    picture = Image.new("L", (width * SCALE, height * SCALE))
    origin = (-left, height * SCALE - bottom)
    ImageDraw.Draw(picture).text(origin, char, fill=255, font=font, anchor="ls")
    field = signed_distance(np.asarray(picture) > 127)
    levels = np.clip(128.0 + 127.0 * field / text.SPREAD, 0, 255).astype(np.uint8)
    unit = em * SCALE
    return Borrowed(levels, left / unit, -bottom / unit, font.getlength(char) / unit)


def signed_distance(inside: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Distance to the outline in texels, positive inside, at the middle of every texel.

    `inside` (h * SCALE, w * SCALE). Exact within the field's spread: along columns first, then
    the best of all columns near enough (Felzenszwalb and Huttenlocher's separation).
    """
    away = _distance(~inside) - _distance(inside)
    return np.asarray((away - np.sign(away) * 0.5) / SCALE)


def _distance(goal: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Pixels from the middle of every texel to the nearest pixel of `goal`."""
    reach = (text.SPREAD + 1) * SCALE
    far = 4 * reach + max(goal.shape)
    here = np.arange(len(goal))[:, None]
    above = here - np.maximum.accumulate(np.where(goal, here, -far), axis=0)
    below = np.minimum.accumulate(np.where(goal, here, far)[::-1], axis=0)[::-1] - here
    column = np.minimum(above, below)[SCALE // 2 :: SCALE].astype(float) ** 2
    padded = np.pad(column, ((0, 0), (reach, reach)), constant_values=float(far) ** 2)
    middles = np.arange(SCALE // 2, goal.shape[1], SCALE) + reach
    steps = range(-reach, reach + 1)
    nearest = np.min([padded[:, middles + step] + step * step for step in steps], axis=0)
    return np.asarray(np.sqrt(nearest))
