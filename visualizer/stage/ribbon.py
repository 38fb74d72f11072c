"""The text that has been written: words in front, and behind them a ribbon of their colours.

The newest lines stand as blocks. An older line sinks into the ground and leaves a tile of
colour for each of its tokens; tiles gather up into a ribbon that goes back to the horizon.
What lies further back than the haze reaches is left out, so that a picture of a long run costs
no more than one of a short run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from visualizer.stage import blocks
from visualizer.stage.easing import ease
from visualizer.stage.frame import TILE
from visualizer.stage.layout import DEPTH, PITCH, Page, Place, Slot
from visualizer.stage.stand import LINES_BACK
from visualizer.stage.theme import RGB, Theme, theme

Floats = NDArray[np.float64]
Rows = NDArray[np.void]

DIMMED = 0.27  # of the way into the background, for each line of age
START = 7.0  # the ribbon's newest line lies so far behind the line in front,
STEP = 0.50  # and each older one this much further
TILE_DEPTH = 0.36
TILE_INK = 0.36  # opacity
LONGEST = 56  # lines of the ribbon; those further back are lost in the haze
FLOOR = 0.008  # height of a tile


@dataclass(frozen=True, slots=True, eq=False)
class _Past:
    """Blocks and tiles of finished rounds, each with the number of its line."""

    matter: blocks.Matter
    lines: Floats
    tiles: Rows
    tile_lines: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """The rows of a frame that show the text so far. Not to be written to."""

    solids: Rows
    glyphs: Rows
    tiles: Rows


@lru_cache(maxsize=8)
def written(
    page: Page, count: int, line: float, theme_name: str, faces: tuple[float, float]
) -> Written:
    """Show the prompt and the first `count` rounds, `line` in front.

    Nothing of it changes while a round goes on; only between rounds is it made anew.
    """
    colors = theme(theme_name)
    past = _past(page, count, int(line), theme_name)
    ages = line - past.lines
    dim = 1.0 - DIMMED * np.clip(ages, 0.0, LINES_BACK - 1)
    sunk = np.clip(ages - (LINES_BACK - 1), 0.0, 1.0)
    rows = blocks.receded(past.matter.blocks, dim, sunk, colors)
    ink = past.matter.ink.copy()
    ink[:, 3] *= (1.0 - colors.haze * (1.0 - dim)) * (sunk < 1.0)
    centers = rows["center"].astype(float)
    glyphs = past.matter.engraving.at(centers, ink, faces, past.matter.emblems)
    shown = Written(rows[sunk < 1.0], glyphs, _tiles(past, line))
    for each in (shown.solids, shown.glyphs, shown.tiles):
        each.setflags(write=False)
    return shown


def _tiles(past: _Past, line: float) -> Rows:
    """The ribbon: tiles whose blocks have begun to sink, gathered up with age."""
    ages = line - past.tile_lines
    seen = ages > LINES_BACK - 1
    rows: Rows = past.tiles[seen]
    gathered = ease(np.clip(ages[seen] - (LINES_BACK - 1), 0.0, 1.0))
    there = line * PITCH - START - STEP * np.maximum(ages[seen] - LINES_BACK, 0.0)
    rows["center"][:, 2] += (there - rows["center"][:, 2]) * gathered
    rows["half"][:, 1] += (TILE_DEPTH / 2 - rows["half"][:, 1]) * gathered
    return rows


@lru_cache(maxsize=8)
def _past(page: Page, count: int, line: int, theme_name: str) -> _Past:
    """What is left of the prompt and of `count` rounds when `line` is in front."""
    colors = theme(theme_name)
    recent: list[Place] = []
    for place in reversed(page.places[:count]):
        if place.cursor_line < line - LINES_BACK - LONGEST:
            break
        recent.append(place)
    recent.reverse()
    standing = [place for place in recent if place.cursor_line > line - LINES_BACK]
    matters = [blocks.committed(place, theme_name) for place in standing]
    slots = [slot for place in standing for slot in place.kept]
    if page.prompt.slots and page.prompt.line > line - LINES_BACK:
        matters.insert(0, blocks.prompt(page.prompt, theme_name))
        slots[:0] = page.prompt.slots
    flat = [each for place in recent for each in _flat(place, colors)]
    if page.prompt.line >= line - LINES_BACK - LONGEST:
        grey = colors.linear("prompt")
        flat[:0] = [(slot, grey) for slot in page.prompt.slots]
    tiles = np.zeros(len(flat), TILE)
    if flat:
        tiles["center"] = [(slot.center, FLOOR, slot.z) for slot, _ in flat]
        tiles["half"] = [(slot.width / 2, DEPTH / 2) for slot, _ in flat]
        tiles["color"] = [(*color, TILE_INK) for _, color in flat]
    return _Past(
        matter=blocks.merged(matters),
        lines=np.array([slot.line for slot in slots], float),
        tiles=tiles,
        tile_lines=np.array([slot.line for slot, _ in flat], float),
    )


def _flat(place: Place, colors: Theme) -> list[tuple[Slot, RGB]]:
    """Slots that a round has filled, in the colour that tells where each token came from."""
    committed = colors.linear("committed")
    tokens: list[tuple[Slot, RGB]] = [(slot, committed) for slot in place.guesses[: place.accepted]]
    if place.emitted:
        own = committed if place.role == "target" else colors.linear(place.role)
        tokens.append((place.emitted, own))
    return tokens
