"""Words as glyph quads: what a token's text looks like, how wide it is, where its glyphs go.

Lengths are in em until a caller scales them. The distance-field atlas and its metrics are
baked by `assets/fonts/bake.py`; nothing here knows what a font file is. Characters it lacks may
be borrowed from whoever knows the system's fonts (`borrow`): what can be had is a fact of the
machine, so that the same text looks the same whenever it is asked for.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visualizer.stage.frame import GLYPH

ATLAS = Path(__file__).parents[2] / "assets" / "fonts" / "atlas.json"
SPREAD = 8  # texels from the outline to either end of the scale
BORROWED_ROWS = 1344  # texels under the baked ones, for borrowed glyphs

Floats = NDArray[np.float64]

_SHOWN = {" ": "␣", "\n": "↵", "\t": "⇥"}
_ELLIPSIS = "…"
_VARIANTS = ("\ufe0e", "\ufe0f")
_SMALLEST = 0.62  # of the wanted size: below this a text is elided rather than shrunk

# Letters of these join, stack or change with their neighbours (Devanagari … Myanmar, Ethiopic
# aside; Khmer, Mongolian; further Indic scripts), or mean something only in pairs (flags).
_SHAPED = ((0x0900, 0x109F), (0x1780, 0x18AF), (0x1A00, 0x1CFF), (0xA800, 0xA95F), (0xA980, 0xABFF),
           (0x11000, 0x11FFF), (0x1F1E6, 0x1F1FF), (0x1F3FB, 0x1F3FF))  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Borrowed:
    """A glyph from elsewhere: its distance field (h, w), as `bake.py` makes them, in texels of
    the atlas; where its quad's lower left corner lies and how far the pen moves, in em."""

    field: NDArray[np.uint8]
    left: float
    bottom: float
    advance: float


Source = Callable[[str], Borrowed | None]


class Metrics:
    """The atlas as tables. Row i of `quads` is left, bottom, width, height in em, then
    u0, v0, u1, v1; `advances[i]` is how far the pen moves. `borrowed` are the fields to be
    copied into the atlas, with their x and y; it only grows."""

    def __init__(self, source: Source | None = None) -> None:
        baked = json.loads(ATLAS.read_text(encoding="utf-8"))
        self.em: int = baked["em"]
        self.size: tuple[int, int] = (baked["width"], baked["height"] + BORROWED_ROWS)
        self.cap_height: float = baked["cap_height"]
        table = np.array(list(baked["glyphs"].values()), float)
        self.rows = {chr(int(code)): row for row, code in enumerate(baked["glyphs"])}
        self.quads = self._quads(table)
        self.advances: Floats = table[:, 6]
        self.borrowed: list[tuple[int, int, NDArray[np.uint8]]] = []
        self._source = source
        self._refused: set[str] = set()
        self._pen, self._shelf = (0, baked["height"]), 0

    def knows(self, char: str) -> bool:
        """Whether `char` has a glyph, here or by way of whoever lends them."""
        if char in self.rows:
            return True
        if self._source is None or char in self._refused or not _stands_alone(char):
            return False
        glyph = self._source(char)
        if glyph is None or not self._take(char, glyph):
            self._refused.add(char)
            return False
        return True

    def _take(self, char: str, glyph: Borrowed) -> bool:
        """Give a borrowed glyph room, if there is any left."""
        height, width = glyph.field.shape
        (x, y), shelf = self._pen, self._shelf
        if x + width > self.size[0]:
            x, y, shelf = 0, y + shelf, 0
        if y + height > self.size[1]:
            return False
        self._pen, self._shelf = (x + width, y), max(shelf, height)
        row = np.array([[x, y, width, height, glyph.left, glyph.bottom, glyph.advance]])
        self.rows[char] = len(self.advances)
        self.quads = np.concatenate([self.quads, self._quads(row)])
        self.advances = np.append(self.advances, glyph.advance)
        self.borrowed.append((x, y, glyph.field))
        return True

    def _quads(self, table: Floats) -> Floats:
        """`quads` of glyphs given as texel x, y, width, height; em left, bottom; advance."""
        x, y, w, h, left, bottom, _ = table.T
        width, height = self.size
        corners = (x / width, y / height, (x + w) / width, (y + h) / height)
        return np.stack([left, bottom, w / self.em, h / self.em, *corners], axis=1)


_lender: list[Source | None] = [None]


@cache
def metrics() -> Metrics:
    """Read the baked metrics, once."""
    return Metrics(_lender[0])


def borrow(source: Source | None) -> None:
    """From now on ask `source` for the glyphs that the atlas lacks; None: do without."""
    _lender[0] = source
    for each in (metrics, visible, quads, measure, fit):
        each.cache_clear()


def _stands_alone(char: str) -> bool:
    """Whether a character can be drawn by itself, from left to right, in any company."""
    code = ord(char)
    plain = unicodedata.category(char)[0] in "LNPS"
    upright = unicodedata.bidirectional(char) not in ("R", "AL")
    return plain and upright and not any(first <= code <= last for first, last in _SHAPED)


@lru_cache(maxsize=8192)
def visible(text: str) -> str:
    """Return what is drawn for a token's text: every token shows something, and all it is.

    One leading space is the gap before a word and draws nothing; other spaces at the ends,
    line ends and tabs get their signs. Bytes that are no whole character show as ⟨E2 96⟩,
    characters that have no glyph as ⟨U+4E2D⟩. Accents join the letters they stand on; what asks for
    a sign as a picture or as writing goes with the sign: here all of them are writing.
    """
    body = text[1:] if text.startswith(" ") and text[1:2].strip() else text
    body = unicodedata.normalize("NFC", body)
    start = len(body) - len(body.lstrip())
    end = len(body.rstrip())
    table = metrics()
    parts: list[str] = []
    code = ""  # of an open ⟨ ⟩
    for index, char in enumerate(body):
        inner = start <= index < end
        if char in _VARIANTS and not code and parts:
            continue
        if char in _SHOWN and not (char == " " and inner):
            char = _SHOWN[char]
        known = table.knows(char)
        if known:
            parts.append(f"⟨{code}⟩" * bool(code) + char)
            code = ""
        else:
            code = f"{code} {_code(char)}".strip()
    parts.append(f"⟨{code}⟩" * bool(code))
    return "".join(parts) or "∅"


def _code(char: str) -> str:
    number = ord(char)
    if 0xDC80 <= number <= 0xDCFF:  # a surrogate that stands for one byte
        return f"{number - 0xDC00:02X}"
    return f"{number:02X}" if number < 0x20 else f"U+{number:04X}"


@lru_cache(maxsize=8192)
def quads(text: str) -> Floats:
    """Lay `text` out from x = 0 on y = 0: rows as in `Metrics.quads`, (n, 8), blanks left out.

    Characters without a glyph are skipped; pass texts through `visible` first.
    """
    table = metrics()
    rows = np.array([table.rows[char] for char in text if char in table.rows], int)
    laid: Floats = table.quads[rows]
    advances = table.advances[rows]
    laid[:, 0] += np.cumsum(advances) - advances
    laid = laid[laid[:, 2] > 0]
    laid.setflags(write=False)
    return laid


@lru_cache(maxsize=8192)
def measure(text: str) -> float:
    """Width of `text` in em."""
    table = metrics()
    return float(sum(table.advances[table.rows[char]] for char in text if char in table.rows))


@dataclass(frozen=True, slots=True)
class Label:
    """A text made to fit: what is left of it, its size and its width in the caller's units."""

    text: str
    em: float
    width: float


@lru_cache(maxsize=8192)
def fit(text: str, em: float, room: float) -> Label:
    """Make `text` fit into `room`: at size `em` if it can, then smaller, then elided."""
    width = measure(text) * em
    if width <= room:
        return Label(text, em, width)
    size = max(em * room / width, em * _SMALLEST)
    while measure(text) * size > room * 1.0001 and len(text) > 1:
        text = text.rstrip(_ELLIPSIS)[:-1] + _ELLIPSIS
    return Label(text, size, measure(text) * size)


def rows(
    laid: Floats, origins: Floats, right: Floats, up: Floats, colors: Floats
) -> NDArray[np.void]:
    """Turn laid-out quads (n, 8) into GLYPH rows.

    `origins` (n, 3) or (3,) is where each text starts on its base line; `right` and `up`
    ((n, 3) or (3,)) are one em along and across; `colors` (n, 4) or (4,) are linear RGBA.
    """
    out = np.empty(len(laid), GLYPH)
    out["origin"] = origins + laid[:, 0:1] * right + laid[:, 1:2] * up
    out["right"] = laid[:, 2:3] * right
    out["up"] = laid[:, 3:4] * up
    out["uv"] = laid[:, 4:8]
    out["color"] = colors
    return out
