"""The models on stage: the target, who guesses for it, and what goes from one to the other.

Each kind of drafter has its own picture of guessing, told by what the run measured: the steps,
where guesses were copied from, which part of a drafter spoke. Everything that leads to guesses
is seen from the approach until the box has closed around them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.families import About
from visualizer.stage import (
    arcs,
    drafters,
    flows,
    models,
    names,
    origins,
    pick,
    quotes,
    shelf,
    tree,
    walk,
    ways,
)
from visualizer.stage.drafters import family
from visualizer.stage.easing import ease_out, swell
from visualizer.stage.frame import joined
from visualizer.stage.layout import HEIGHT, Slot
from visualizer.stage.moment import Moment
from visualizer.stage.parts import Parts
from visualizer.stage.timeline import Timeline

Rows = NDArray[np.void]
Floats = NDArray[np.float64]

GROWS = 0.25  # seconds a ribbon takes at least
WIDE, THIN = 0.065, 0.035
COPYING = 0.30
SKIPPING = 0.55  # of the target's light while its lower layers draft
TURNS = 0.25  # seconds over which a light comes and goes
FLASH = 0.30
MASKED = 0.16  # over its slot, where a masked place is
LETS_GO = 4.0  # times as fast as others goes what led to one that walks away
NOWHERE = (0.0, 0.0, 0.0)
HOP = (0.0, 0.42, 0.0)  # from a guess to the next: below the words of the line behind


def add(parts: Parts, m: Moment, level: float) -> None:
    """Add the models and what flows between them; `level` is that of the target's pulse."""
    kind, seen = _who(m)
    parts.add("spheres", _target(m, kind, level))
    named = names.seen(m)
    if named > 0.0:
        parts.add("glyphs", names.of_target(m, kind, named))
        if kind is not None and seen > 0.0:
            parts.add("glyphs", names.of_drafter(m, kind, named * seen))
    if level > 0.0:
        parts.add("beams", models.beam(m.stand.target, m.place, level, m.colors))
    if m.now < 0 or seen <= 0.0:
        return
    work = _work(m, kind)
    light = drafters.RESTING + (drafters.WORKING - drafters.RESTING) * work
    if family(kind) == "medusa":
        parts.add("spheres", drafters.heads(m.stand.target, _heads(m), seen, light, m.colors))
    else:
        foot = walk.foot_at(kind, m)
        parts.add("spheres", drafters.body(kind, foot, seen, light, m.colors))
    if family(kind) == "copy":
        light = COPYING * work
        parts.add("spheres", drafters.twin(kind, m.stand.target, seen, light, m.colors))
    if shelf.seen(kind):
        books, name = shelf.shown(
            m.stand.target, seen, pick.encode(m.now, pick.DRAFT), m.view.theme, m.faces
        )
        parts.add("solids", books)
        parts.add("glyphs", name)
    _flows(parts, m, kind)


def _target(m: Moment, kind: About | None, level: float) -> Rows:
    """The target in its pass; where its lower layers draft, they shine until it goes through."""
    if m.now < 0:
        return models.target(m.stand.target, 0.0, 1.0, m.layers, m.colors)
    reached, glow = m.spans.pulse.progress(m.t), level
    if family(kind) == "layer-skip" and not _rests(m):
        start, end = m.spans.approach.end, m.spans.pulse.start + models.RISE
        skipping = SKIPPING * swell(m.t - start, end - m.t, TURNS, TURNS)
        if skipping > 0.0:
            glow = max(level, skipping)
            reached = max(reached, drafters.share(kind, m.layers))
    return models.target(m.stand.target, glow, reached, m.layers, m.colors)


def _rests(m: Moment) -> bool:
    """Whether time runs so fast that in this round nothing may flash."""
    return m.view.fast and not m.spans.bright


def _who(m: Moment) -> tuple[About | None, float]:
    """The drafter on stage, and its size: it grows as it comes, and shrinks as it goes."""
    if m.now < 0:
        return None, 0.0
    kinds, there = _casts(m.timeline, m.now)
    way = m.spans.approach.progress(m.t)
    if kinds[0] == kinds[1] or not all(there):
        return kinds[there[1]], there[0] + (there[1] - there[0]) * way
    return (kinds[0], 1.0 - 2.0 * way) if way < 0.5 else (kinds[1], 2.0 * way - 1.0)


@lru_cache(maxsize=8)
def _casts(timeline: Timeline, index: int) -> tuple[list[About | None], list[bool]]:
    """Of the round before and of this one: the drafter, and whether it is asked to guess."""
    both = timeline.rounds[max(index - 1, 0)], timeline.rounds[index]
    kinds = [drafters.kind_of(each, timeline.page.header) for each in both]
    return kinds, [each.settings.effective_k > 0 for each in both]


def _work(m: Moment, kind: About | None) -> float:
    """How far (0..1) the drafter is lit by its work: a memory's finds light up no model."""
    steps, guesses = m.spans.steps, m.round.guesses
    if not steps or _rests(m):
        return 0.0
    if family(kind) == "hybrid" and len(steps) == len(guesses):
        steps = tuple(s for s, g in zip(steps, guesses, strict=True) if not g.copied)
        return float(any(step.holds(m.t) for step in steps))
    start, end = steps[0].start, max(steps[-1].end, steps[0].start + TURNS)
    return swell(m.t - start, end - m.t, TURNS / 2, TURNS)


def _heads(m: Moment) -> int:
    deep = tree.depths(m.round.parents)
    return max(drafters.HEADS, max(deep, default=0) + 1)


# --- what leads to the guesses ----------------------------------------------------------------


def _flows(parts: Parts, m: Moment, kind: About | None) -> None:
    """What the guesses come from, for as long as they are being made."""
    spans = m.spans
    strong = 1.0 - spans.close.progress(m.t)
    if not m.round.guesses or strong <= 0.0:
        return
    grown = _grown(m)
    if not m.moving:  # ribbons come up where they lie
        grown, strong = np.ceil(grown), strong * float(grown.max(initial=0.0))
    which = family(kind)
    rows: list[Rows] = []
    copied = [guess.copied for guess in m.round.guesses]
    said = copied.index(True) if any(copied) else len(copied)
    if which in ("eagle", "mtp", "hybrid") and said:
        rows = _features(m, kind, grown[:said], strong)
    elif which == "medusa":
        rows = _from_heads(m, grown, strong)
    elif which in drafters.INSIDE:
        rows = _out_of_a_body(m, kind, float(grown.max()), strong)
    elif which == "pard":
        rows = _masked(parts, m, kind, strong)
    if origins.runs(m.timeline, m.now):
        own = np.array([grown[run.first] for run in origins.runs(m.timeline, m.now)])
        rows.append(arcs.ribbons(m, own, strong))
        shown = strong * np.minimum(2.0 * own, 1.0)
        parts.add("tiles", arcs.marks(m, shown))
        parts.add("glyphs", quotes.rows(m, shown))
    rows = [row for row in rows if len(row) and row["span"][0, 1] > 0.0]
    if rows:
        parts.add("ribbons", joined(rows))


def _grown(m: Moment) -> Floats:
    """How much (0..1) of what leads to each guess (n,) is drawn: whole as the guess falls.

    What is there before the first step, a feature or a phrase, comes up in the approach.
    """
    starts, lasts = _growing(m.timeline, m.now)
    return np.asarray(ease_out(np.clip((m.t - starts) / lasts, 0.0, 1.0)))


@lru_cache(maxsize=8)
def _growing(timeline: Timeline, index: int) -> tuple[Floats, Floats]:
    """When what leads to each guess (n,) begins to grow, and how long it grows."""
    spans = timeline.spans[index]
    ends = np.array([drop.start for drop in spans.drops])
    first = spans.approach.start + 0.35 * spans.approach.duration
    before = np.sort(ends)
    starts = np.array([before[before < end].max(initial=first) for end in ends])
    starts = np.minimum(starts, ends - GROWS)
    starts[ends == before[0]] = first
    return starts, np.maximum(ends - starts, 1e-6)


def _features(m: Moment, kind: About | None, grown: Floats, strong: float) -> list[Rows]:
    """The target's feature leads to the first guess, each guess's own output to the next one."""
    x, y, z = m.stand.target
    crown, tone = (x, y + models.TARGET_RADIUS, z), m.colors.linear("target")
    if m.place.lanes > 1:  # branches tell what follows what, and no line stands behind them
        x, y, z = walk.foot_at(kind, m)
        end = x, y + drafters.tall(kind), z
        curve = flows.bent(crown, end, (0.0, 0.45, 0.9), (0.0, 1.2, 0.0))
        strong *= max(1.0 - LETS_GO * m.spans.close.progress(m.t), 0.0)
        return [flows.ribbon(curve, WIDE, tone, strong, float(grown[0]))]
    slots, own = m.place.guesses, m.colors.linear("drafter")
    shares = grown.tolist()
    goal, down = ways.top_of(slots[0]), ways.foot(m.stand.target)
    rows = [ways.ribbon(crown, down, goal, WIDE, tone, strong, shares[0])]
    for last, here, share in zip(slots, slots[1:], shares[1:], strict=False):
        if last.line == here.line:
            curve = flows.bent(ways.top_of(last), ways.top_of(here), HOP, HOP)
            rows.append(flows.ribbon(curve, THIN, own, strong, share))
        else:
            start = (last.center, ways.FLOOR, last.z)
            rows.append(ways.ribbon(start, start, ways.top_of(here), THIN, own, strong, share))
    return rows


def _from_heads(m: Moment, grown: Floats, strong: float) -> list[Rows]:
    """Each head gives its own guesses, all at once: none knows what the others guess."""
    places = drafters.head_places(m.stand.target, _heads(m))
    highest: dict[int, Slot] = {}
    for slot, depth in zip(m.place.guesses, tree.depths(m.round.parents), strict=True):
        if depth not in highest or slot.lane > highest[depth].lane:
            highest[depth] = slot
    rows: list[Rows] = []
    share, tone = float(grown.max()), m.colors.linear("drafter")
    for depth, slot in highest.items():
        x, y, z = places[depth].tolist()
        if m.place.lanes == 1:
            down = (x, *ways.foot(m.stand.target)[1:])
            rows.append(ways.ribbon((x, y, z), down, ways.top_of(slot), THIN, tone, strong, share))
            continue
        end = (slot.center, slot.y + HEIGHT + 0.12, slot.z)
        curve = flows.bent((x, y, z), end, (0.0, 0.6, 1.2), (0.0, 1.6, 0.0))
        rows.append(flows.ribbon(curve, THIN, tone, strong, share))
    return rows


def _out_of_a_body(m: Moment, kind: About | None, grown: float, strong: float) -> list[Rows]:
    """The way from the layer where the target is left, or from its copy, to the guess."""
    start = drafters.leaving(kind, m.stand.target, m.layers)
    down = ways.foot((start[0], *m.stand.target[1:]))
    t = min(max(m.t, m.spans.drops[0].start), m.spans.close.start)  # between the slots only
    x, y, z = walk.foot_at(kind, replace(m, t=t))
    end = x, y + drafters.BEAD, z
    return [ways.ribbon(start, down, end, WIDE, m.colors.linear("drafter"), strong, grown)]


def _masked(parts: Parts, m: Moment, kind: About | None, strong: float) -> list[Rows]:
    """One pass over masked places: one flash, and every guess at once."""
    found = m.spans.steps[-1].end if m.spans.steps else m.spans.approach.end
    flash = swell(m.t - found + FLASH / 2, found + FLASH / 2 - m.t, FLASH / 3, FLASH)
    over = [(x, y + MASKED, z) for x, y, z in map(ways.top_of, m.place.guesses)]
    size = min(m.spans.approach.progress(m.t), strong)
    parts.add("spheres", drafters.masks(np.array(over), size, 0.2 + flash, m.colors))
    rows: list[Rows] = []
    for line in sorted({slot.z for slot in m.place.guesses}):  # one band through all of a line
        ends = [end for slot, end in zip(m.place.guesses, over, strict=True) if slot.z == line]
        curve = flows.bent(ends[0], ends[-1], NOWHERE, NOWHERE)
        rows.append(flows.ribbon(curve, THIN, m.colors.linear("drafter"), strong * flash))
    return rows
