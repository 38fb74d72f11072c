"""Words as glyph quads: what a token's text looks like, how wide it is, where its glyphs go.

Lengths are in em until a caller scales them. The distance-field atlas and its metrics are
baked by `assets/fonts/bake.py`; nothing here knows what a font file is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visualizer.stage.frame import GLYPH

ATLAS = Path(__file__).parents[2] / "assets" / "fonts" / "atlas.json"

Floats = NDArray[np.float64]

_SHOWN = {" ": "␣", "\n": "↵", "\t": "⇥"}
_ELLIPSIS = "…"
_SMALLEST = 0.62  # of the wanted size: below this a text is elided rather than shrunk


@dataclass(frozen=True, slots=True, eq=False)
class Metrics:
    """The atlas as tables. Row i of `quads` is left, bottom, width, height in em, then
    u0, v0, u1, v1; `advances[i]` is how far the pen moves."""

    rows: dict[str, int]
    quads: Floats  # (n, 8)
    advances: Floats  # (n,)
    cap_height: float


@cache
def metrics() -> Metrics:
    """Read the baked metrics, once."""
    baked = json.loads(ATLAS.read_text(encoding="utf-8"))
    em, width, height = baked["em"], baked["width"], baked["height"]
    table = np.array(list(baked["glyphs"].values()), float)  # x, y, w, h, left, bottom, advance
    x, y, w, h, left, bottom, advance = table.T
    quads = np.stack(
        [left, bottom, w / em, h / em, x / width, y / height, (x + w) / width, (y + h) / height],
        axis=1,
    )
    rows = {chr(int(code)): row for row, code in enumerate(baked["glyphs"])}
    return Metrics(rows, quads, advance, baked["cap_height"])


@lru_cache(maxsize=8192)
def visible(text: str) -> str:
    """Return what is drawn for a token's text: every token shows something, and all it is.

    One leading space is the gap before a word and draws nothing; other spaces at the ends,
    line ends and tabs get their signs. Bytes that are no whole character show as ⟨E2 96⟩,
    characters the atlas lacks as ⟨U+4E2D⟩.
    """
    body = text[1:] if text.startswith(" ") and text[1:2].strip() else text
    start = len(body) - len(body.lstrip())
    end = len(body.rstrip())
    glyphs = metrics().rows
    parts: list[str] = []
    code = ""  # of an open ⟨ ⟩
    for index, char in enumerate(body):
        inner = start <= index < end
        known = char in glyphs and not (char == " " and not inner)
        if char in _SHOWN and not (char == " " and inner):
            known, char = True, _SHOWN[char]
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
