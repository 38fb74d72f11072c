"""The text that has been written: words in front, and behind them a ribbon of their colours.

The newest lines stand as blocks. An older line sinks into the ground and leaves a tile of
colour for each of its tokens; tiles gather up into a ribbon that goes back to the horizon.
What lies further back than the haze reaches is left out, so that a picture of a long run costs
no more than one of a short run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from visualizer.stage import blocks
from visualizer.stage.easing import ease
from visualizer.stage.frame import TILE, joined
from visualizer.stage.layout import DEPTH, PITCH, Page, Place, PromptPlace, Slot
from visualizer.stage.stand import LINES_BACK
from visualizer.stage.theme import RGB, theme

Floats = NDArray[np.float64]
Rows = NDArray[np.void]

DIMMED = 0.27  # of the way into the background, for each line of age
START = 7.0  # the ribbon's newest line lies so far behind the line in front,
CLEAR = 4.6  # or so much further, behind a tree,
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
    page: Page,
    count: int,
    line: float,
    theme_name: str,
    faces: tuple[float, float],
    cleared: float = 0.0,
) -> Written:
    """Show the prompt and the first `count` rounds, `line` in front.

    As far as the ground behind it is `cleared` (0..1), older lines sink as if they were older
    still: a tree needs the room. Nothing of it changes while a round goes on; only between rounds
    is it made anew.
    """
    colors = theme(theme_name)
    past = _past(page, count, int(line), theme_name)
    ages = aged(line - past.lines, cleared)
    dim = 1.0 - DIMMED * np.clip(ages, 0.0, LINES_BACK - 1)
    sunk = np.clip(ages - (LINES_BACK - 1), 0.0, 1.0)
    rows = blocks.receded(past.matter.blocks, dim, sunk, colors)
    ink = past.matter.ink.copy()
    ink[:, 3] *= (1.0 - colors.haze * (1.0 - dim)) * (sunk < 1.0)
    centers = rows["center"].astype(float)
    glyphs = past.matter.engraving.at(centers, ink, faces, past.matter.emblems)
    shown = Written(rows[sunk < 1.0], glyphs, _tiles(past, line, cleared))
    for each in (shown.solids, shown.glyphs, shown.tiles):
        each.setflags(write=False)
    return shown


def aged(ages: Floats, cleared: float) -> Floats:
    """Ages of lines, in lines, once the ground behind the one in front is cleared."""
    return ages + cleared * (LINES_BACK - 1) * np.clip(ages, 0.0, 1.0)


def _tiles(past: _Past, line: float, cleared: float) -> Rows:
    """The ribbon: tiles whose blocks have begun to sink, gathered up with age."""
    ages = aged(line - past.tile_lines, cleared)
    seen = ages > LINES_BACK - 1
    rows: Rows = past.tiles[seen]
    gathered = ease(np.clip(ages[seen] - (LINES_BACK - 1), 0.0, 1.0))
    start = line * PITCH - START - CLEAR * cleared
    there = start - STEP * np.maximum(ages[seen] - LINES_BACK, 0.0)
    rows["center"][:, 2] += (there - rows["center"][:, 2]) * gathered
    rows["half"][:, 1] += (TILE_DEPTH / 2 - rows["half"][:, 1]) * gathered
    return rows


@lru_cache(maxsize=8)
def _past(page: Page, count: int, line: int, theme_name: str) -> _Past:
    """What is left of the prompt and of `count` rounds when `line` is in front."""
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
    flats = [_flat(place, theme_name) for place in recent]
    if page.prompt.line >= line - LINES_BACK - LONGEST:
        flats.insert(0, _flat_prompt(page.prompt, theme_name))
    return _Past(
        matter=blocks.merged(matters),
        lines=np.array([slot.line for slot in slots], float),
        tiles=joined([rows for rows, _ in flats]) if flats else np.zeros(0, TILE),
        tile_lines=np.concatenate([lines for _, lines in flats]) if flats else np.zeros(0),
    )


@lru_cache(maxsize=1024)
def _flat(place: Place, theme_name: str) -> tuple[Rows, Floats]:
    """Tiles of what a round has written, and their lines: the colours tell where from."""
    colors = theme(theme_name)
    committed = colors.linear("committed")
    own = committed if place.role == "target" else colors.linear(place.role)
    slots = place.kept
    passed = len(place.path)
    tones = [committed] * passed + [own] * (len(slots) - passed)
    return _laid(slots, tones, blocks.picks_of(place))


@lru_cache(maxsize=16)
def _flat_prompt(prompt: PromptPlace, theme_name: str) -> tuple[Rows, Floats]:
    """Tiles of the prompt, and their lines."""
    count = len(prompt.slots)
    return _laid(prompt.slots, [theme(theme_name).linear("prompt")] * count, [0] * count)


def _laid(
    slots: Sequence[Slot], colors: Sequence[RGB], picks: Sequence[int]
) -> tuple[Rows, Floats]:
    tiles = np.zeros(len(slots), TILE)
    if slots:
        tiles["center"] = [(slot.center, FLOOR, slot.z) for slot in slots]
        tiles["half"] = [(slot.width / 2, DEPTH / 2) for slot in slots]
        tiles["color"] = [(*color, TILE_INK) for color in colors]
        tiles["pick"] = picks
    return tiles, np.array([slot.line for slot in slots], float)
