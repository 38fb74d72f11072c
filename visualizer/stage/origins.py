"""Where copied guesses come from: phrases of the text, and where they are on stage.

A lookup finds the last few tokens again further back in the text and copies what followed.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.trace import Round, Token
from visualizer.stage.camera import Point
from visualizer.stage.layout import HEIGHT, PITCH, PROMPT_HEIGHT, Slot
from visualizer.stage.moment import Moment
from visualizer.stage.ribbon import START, STEP, aged
from visualizer.stage.stand import LINES_BACK, Stand
from visualizer.stage.timeline import Timeline

LONGEST_MATCH = 6  # tokens: what the memory looks up at most


@dataclass(frozen=True, slots=True)
class Spot:
    """A stretch of the text on stage: blocks of some height, or tiles, which have none."""

    x: float
    z: float
    half: float
    height: float

    @property
    def top(self) -> Point:
        return self.x, self.height, self.z


@dataclass(frozen=True, slots=True)
class Run:
    """Guesses ``first:last`` of a round, copied together.

    They continue `matched` tokens that also end the text; `origin` is the position of the first
    one copied, None for what comes from the store.
    """

    first: int
    last: int
    origin: int | None
    matched: int = 0


@lru_cache(maxsize=16)
def runs(timeline: Timeline, index: int) -> tuple[Run, ...]:
    """The phrases that guesses of round `index` were copied from, in the order of the guesses."""
    found: list[Run] = []
    for slot, guess in enumerate(timeline.rounds[index].guesses):
        if not guess.copied:
            continue
        last = found[-1] if found and found[-1].last == slot else None
        if last is not None and _goes_on(timeline, index, last, guess.origin):
            found[-1] = Run(last.first, slot + 1, last.origin, last.matched)
        else:
            found.append(Run(slot, slot + 1, guess.origin, _matched(timeline, index, slot)))
    return tuple(found)


def _goes_on(timeline: Timeline, index: int, run: Run, origin: int | None) -> bool:
    """Whether a guess from `origin` continues a run, side by side at both ends."""
    slots = timeline.page.places[index].guesses
    if slots[run.last].line != slots[run.first].line:
        return False
    if origin is None or run.origin is None:
        return origin is run.origin
    if origin != run.origin + run.last - run.first:
        return False
    here, there = slot_at(timeline, index, run.origin), slot_at(timeline, index, origin)
    return here is not None and there is not None and here.line == there.line


def _matched(timeline: Timeline, index: int, slot: int) -> int:
    """How many tokens before guess `slot` are also those before the place it was copied from."""
    each = timeline.rounds[index]
    origin, end = each.guesses[slot].origin, each.position + slot
    count = 0
    while origin is not None and count < LONGEST_MATCH:
        token = token_at(timeline, index, origin - count - 1)
        if token is None or token != token_at(timeline, index, end - count - 1):
            break
        count += 1
    return count


def token_at(timeline: Timeline, index: int, position: int) -> Token | None:
    """The token at `position` of the text as the drafter of round `index` sees it."""
    header = timeline.page.header
    prompt = header.prompt_tokens if header is not None else ()
    if position < len(prompt):
        return prompt[position] if position >= 0 else None
    each, step = _written(timeline, index, position)
    tokens = tuple(g.token for g in each.guesses) if each.index == index else each.committed
    return tokens[step] if 0 <= step < len(tokens) else None


def slot_at(timeline: Timeline, index: int, position: int) -> Slot | None:
    """The slot of the token at `position`, which may be a guess of round `index`."""
    header = timeline.page.header
    if header is not None and position < len(header.prompt_tokens):
        return timeline.page.prompt.slot_of(position)
    each, step = _written(timeline, index, position)
    place = timeline.page.places[each.index]
    slots = place.guesses if each.index == index else place.kept
    return slots[step] if 0 <= step < len(slots) else None


def _written(timeline: Timeline, index: int, position: int) -> tuple[Round, int]:
    """The round that wrote `position`, none after `index`, and which of its tokens it is."""
    after = bisect_right(timeline.rounds, position, hi=index + 1, key=lambda each: each.position)
    each = timeline.rounds[max(after - 1, 0)]
    return each, position - each.position


@lru_cache(maxsize=512)
def spot(timeline: Timeline, index: int, position: int, stand: Stand) -> Spot | None:
    """Where the token at `position` is seen while round `index` goes on."""
    slot = slot_at(timeline, index, position)
    if slot is None:
        return None
    header, prompt = timeline.page.header, timeline.page.prompt
    of_prompt = header is not None and position < len(header.prompt_tokens)
    age = stand.line - slot.line
    if stand.cleared:
        age = float(aged(np.array(age), stand.cleared))
    if age > LINES_BACK - 1:
        z = stand.line * PITCH - START - STEP * max(age - LINES_BACK, 0.0)
        return Spot(slot.center, z, slot.width / 2, 0.0)
    if of_prompt:
        return Spot(slot.center, slot.z - prompt.back, slot.width / 2, PROMPT_HEIGHT)
    return Spot(slot.center, slot.z, slot.width / 2, slot.y + HEIGHT)


def stretch(spots: list[Spot]) -> Spot:
    """Spots that lie side by side, as one."""
    left = min(each.x - each.half for each in spots)
    right = max(each.x + each.half for each in spots)
    return Spot((left + right) / 2, spots[0].z, (right - left) / 2, spots[0].height)


@lru_cache(maxsize=64)
def phrase(timeline: Timeline, index: int, run: Run, stand: Stand) -> Spot | None:
    """Where a copied phrase is; None for one from the store."""
    if run.origin is None:
        return None
    positions = range(run.origin, run.origin + run.last - run.first)
    found = [spot(timeline, index, position, stand) for position in positions]
    spots = [each for each in found if each is not None]
    return stretch(spots) if spots else None


def claimed(m: Moment, run: Run) -> Spot:
    """The slots that a run fills."""
    slots = m.place.guesses[run.first : run.last]
    return stretch([Spot(s.center, s.z, s.width / 2, s.y + HEIGHT) for s in slots])
