"""How copied guesses are carried over, and marks under the words they were found by.

Both places where the same words stand are marked, and a way leads from the phrase to the
guesses. What was copied from earlier replies has no place in this text: it comes off a shelf.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visualizer.stage import flows, quotes, shelf, ways
from visualizer.stage.camera import Point
from visualizer.stage.easing import ease, ease_out
from visualizer.stage.frame import TILE, joined
from visualizer.stage.layout import DEPTH, HEIGHT
from visualizer.stage.moment import Moment
from visualizer.stage.origins import Run, Spot, claimed, phrase, runs, spot, stretch
from visualizer.stage.theme import Role, Theme

Floats = NDArray[np.float64]
Rows = NDArray[np.void]

DROP_HEIGHT = 1.25
LIFT = 0.30  # of an arc's length is its height,
LOWEST, HIGHEST = 1.3, 2.9  # between these
AHEAD = (0.0, 0.3, 1.0)
WIDTH = 0.055
MARK = 0.075  # half the depth of a line under words
MARK_APART = DEPTH / 2 + 0.15
MARK_FLOOR = 0.014


def path(m: Moment, run: Run) -> Floats:
    """The arc on which a run is carried, as the four points (4, 3) of a curve."""
    return _arc(m, run, source(m, run), claimed(m, run).top)


def source(m: Moment, run: Run) -> Point:
    """Where the arc of a run begins: over its words, wherever they can be read."""
    if run.origin is None:
        return shelf.front(m.stand.target)
    words = quotes.place(m, run)
    found = phrase(m.timeline, m.now, run, m.stand)
    return words or (found.top if found else shelf.front(m.stand.target))


def _arc(m: Moment, run: Run, start: Point, end: Point) -> Floats:
    """Up and over; from words that are written out, before the target, only ahead."""
    apart = sum((a - b) ** 2 for a, b in zip(start, end, strict=True)) ** 0.5
    up = (0.0, min(max(LIFT * apart, LOWEST), HIGHEST), 0.0)
    written = run.origin is not None and quotes.place(m, run) is not None
    return flows.bent(start, end, AHEAD if written else up, up)


def falling(m: Moment, fallen: Floats) -> Floats:
    """How far guesses still are from their slots, (n, 3), `fallen` (n,) of the way.

    Those that were copied are carried over from where their words stand.
    """
    slots = m.place.guesses
    shifts = np.zeros((len(slots), 3))
    shifts[:, 1] = DROP_HEIGHT * (1.0 - ease_out(fallen))
    way = ease(fallen)
    if not shifts.any():
        return shifts
    for run in runs(m.timeline, m.now):
        begin = source(m, run)
        one_by_one = run.origin is not None and quotes.place(m, run) is None
        for number in range(run.first, run.last):
            origin, slot = m.round.guesses[number].origin, slots[number]
            start = begin
            if one_by_one and origin is not None:  # each off its own block
                found = spot(m.timeline, m.now, origin, m.stand)
                start = (found.x, max(found.height, HEIGHT), found.z) if found else begin
            end = (slot.center, slot.y + HEIGHT, slot.z)
            shifts[number] = flows.at(_arc(m, run, start, end), float(way[number])) - end
    return shifts


def ribbons(m: Moment, grown: Floats, strong: float) -> Rows:
    """A way for each run, `grown` (runs,) of it drawn; at least one run."""
    rows = []
    for run, share in zip(runs(m.timeline, m.now), grown.tolist(), strict=True):
        end, (start, down) = claimed(m, run), _leaving(m, run)
        color = m.colors.linear("drafter")
        goal = ways.top(end.x, end.height, end.z)
        rows.append(ways.ribbon(start, down, goal, WIDTH, color, 0.9 * strong, share))
    return joined(rows)


def _leaving(m: Moment, run: Run) -> tuple[Point, Point]:
    """Where a run's way starts, and where it reaches the floor: under its words."""
    found = phrase(m.timeline, m.now, run, m.stand)
    if run.origin is None or found is None:
        start = shelf.under(m.stand.target)
        return start, ways.foot((start[0], *m.stand.target[1:]))
    under = found.x, ways.FLOOR, found.z
    words = None if found.height else quotes.place(m, run)
    return (words, (words[0], ways.FLOOR, words[2])) if words else (under, under)


def marks(m: Moment, strong: Floats) -> Rows:
    """Lines under words found again, at both places, and under those that are copied.

    `strong` (runs,) is their opacity.
    """
    rows = [np.zeros(0, TILE)]
    for run, alpha in zip(runs(m.timeline, m.now), strong.tolist(), strict=True):
        if run.origin is None:
            continue
        end, count = m.round.position + run.first, run.last - run.first
        stretches: tuple[tuple[int, int, Role], ...] = (
            (run.origin - run.matched, run.matched, "text"),
            (end - run.matched, run.matched, "text"),
            (run.origin, count, "drafter"),
        )
        for start, length, role in stretches:
            bars = _bars(m, start, length)
            rows += [_bar(bar, m.colors, role, alpha) for bar in bars]
    return joined(rows)


def _bars(m: Moment, start: int, count: int) -> list[Spot]:
    """Stretches under `count` tokens from `start` on: one for each line they are on."""
    by_line: dict[float, list[Spot]] = {}
    for position in range(start, start + count):
        found = spot(m.timeline, m.now, position, m.stand)
        if found is not None:
            by_line.setdefault(found.z, []).append(found)
    return [stretch(spots) for spots in by_line.values()]


def _bar(under: Spot, colors: Theme, role: Role, alpha: float) -> Rows:
    row = np.zeros(1, TILE)
    apart = MARK_APART if under.height else 0.0
    row["center"] = (under.x, MARK_FLOOR, under.z + apart)
    row["half"] = (under.half, MARK if under.height else 2 * MARK)
    row["color"] = (*colors.linear(role), alpha)
    return row
