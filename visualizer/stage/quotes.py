"""The words of a phrase that is copied, where its blocks can no longer be read.

A prompt may be folded and old lines are tiles: there the phrase is written over its place, what
was found again first, and then what is copied.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.trace import join_text
from visualizer.stage import drafters, names, shelf, text
from visualizer.stage.camera import Point
from visualizer.stage.frame import GLYPH, joined
from visualizer.stage.layout import HEIGHT, LINE, PITCH
from visualizer.stage.moment import Moment
from visualizer.stage.origins import Run, phrase, runs, slot_at, token_at
from visualizer.stage.ribbon import START
from visualizer.stage.stand import LINES_BACK, Stand
from visualizer.stage.timeline import Timeline

Rows = NDArray[np.void]
Floats = NDArray[np.float64]

FOUND = 3  # tokens, at most, of what was found again
OVER = 0.2  # the blocks
HORIZON = HEIGHT + 0.1  # over tiles: above what stands before them
BEFORE = 0.3  # the newest tiles, and so before the target
APART = 0.2  # from the shelf
GAP = 0.3  # em between the two


def rows(m: Moment, strong: Floats) -> Rows:
    """The quotations of a moment's round; `strong` (runs,) is their opacity."""
    parts = [np.zeros(0, GLYPH)]
    for run, alpha in zip(runs(m.timeline, m.now), strong.tolist(), strict=True):
        end = _end(m.timeline, m.now, run, m.stand, names.em(m))
        if end is not None:
            found, copied = _words(m.timeline, m.now, run)
            x, y, z = end
            before = (x - (text.measure(copied) + GAP) * names.em(m), y, z)
            parts.append(names.upright(m, found, before, 0.0, "label", alpha))
            parts.append(names.upright(m, copied, end, 0.0, "drafter", alpha))
    return joined(parts)


def place(m: Moment, run: Run) -> Point | None:
    """The middle of the copied words' lower edge; None where they need not be written."""
    end = _end(m.timeline, m.now, run, m.stand, names.em(m))
    if end is None:
        return None
    x, y, z = end
    return x - text.measure(_words(m.timeline, m.now, run)[1]) * names.em(m) / 2, y, z


@lru_cache(maxsize=64)
def _end(timeline: Timeline, index: int, run: Run, stand: Stand, em: float) -> Point | None:
    """Where the words of a run end; None where they need not be written."""
    spot = phrase(timeline, index, run, stand)
    if spot is None or _readable(timeline, index, run, stand.line):
        return None
    found, copied = _words(timeline, index, run)
    wide = (text.measure(found) + GAP + text.measure(copied)) * em
    end = min(max(spot.x + wide / 2, wide), LINE)
    if shelf.seen(drafters.kind_of(timeline.rounds[index], timeline.page.header)):
        end = min(end, shelf.middle(stand.target)[0] - shelf.HALF - APART)
    high = spot.height + OVER if spot.height else HORIZON
    return end, high, max(spot.z, stand.line * PITCH - START + BEFORE)


def _readable(timeline: Timeline, index: int, run: Run, line: float) -> bool:
    """Whether every copied word stands there on a block of its own."""
    assert run.origin is not None
    for position in range(run.origin, run.origin + run.last - run.first):
        slot = slot_at(timeline, index, position)
        token = token_at(timeline, index, position)
        if slot is None or token is None or line - slot.line > LINES_BACK - 1:
            return False
        if slot.label.text != text.visible(token.text):
            return False
    return True


@lru_cache(maxsize=64)
def _words(timeline: Timeline, index: int, run: Run) -> tuple[str, str]:
    """What was found again, the last of it, and what is copied."""
    assert run.origin is not None

    def between(start: int, end: int) -> str:
        tokens = [token_at(timeline, index, position) for position in range(start, end)]
        joined_ = join_text(token for token in tokens if token is not None)
        return "".join(text.visible(part) for part in joined_.splitlines(keepends=True)) or " "

    found = between(run.origin - min(run.matched, FOUND), run.origin).strip()
    return found, between(run.origin, run.origin + run.last - run.first).strip()
