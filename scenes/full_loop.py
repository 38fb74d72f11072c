"""The full loop: guesses drop, one pass checks them all, the text grows, again and again.

Read `compose` first: a picture is the line as it stands, the present round, the two models,
and words on the ground. Each part is a function of the time alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from engine.trace import Trace
from visualizer.stage import arcs, blocks, branches, company, models, pick, ribbon, text, tree
from visualizer.stage.camera import DIRECTIONS, eased, pitch_of, place
from visualizer.stage.easing import ease, ease_in, ease_out, settle
from visualizer.stage.frame import BLOCK, PATTERNS, SHATTER, Camera, Frame
from visualizer.stage.judged import Judged, slid
from visualizer.stage.layout import DEPTH, HEIGHT, MARGIN, PITCH, page_of
from visualizer.stage.moment import Moment
from visualizer.stage.parts import Parts
from visualizer.stage.schedule import factor_of, schedule
from visualizer.stage.stand import Stand, named, stand_for
from visualizer.stage.tally import Tally
from visualizer.stage.theme import RGB, Role, theme
from visualizer.stage.timeline import Timeline
from visualizer.stage.view import Orbit, Preset, View

Floats = NDArray[np.float64]

LANDING = (2.6, -1.6)  # up and back: the target's own token comes from its side
SHARDS_SEEN = 0.9  # seconds
SHARDS_SHORT = 0.6  # of a tree's: the next guess is judged while they fly
GROUND_EM = 0.42
FLOOR = 0.012  # just above the ground


def timeline(trace: Trace, previous: Timeline | None = None) -> Timeline:
    """Compile `trace`; rounds it shares with `previous` from the start are taken over."""
    if previous and previous.page.header != trace.header:
        previous = None
    kept = _shared(trace, previous) if previous else 0
    if previous and kept == len(trace.rounds) == len(previous.rounds):
        return previous
    if previous and kept:
        spans, page, factor = list(previous.spans[:kept]), previous.page, previous.factor
        tallies = list(previous.tallies[:kept])
    else:
        spans, page, factor, tallies = [], page_of(trace.header), factor_of(trace), []
    fresh = trace.rounds[kept:]
    for each in fresh:
        spans.append(schedule(each, spans, factor))
        tallies.append(Tally.after(tallies[-1] if tallies else None, each))
    page = page.extended(kept, fresh)
    return Timeline(trace.rounds, tuple(spans), page, tuple(tallies), factor)


def _shared(trace: Trace, previous: Timeline) -> int:
    """How many rounds from the start are the very ones `previous` was compiled from."""
    both = min(len(trace.rounds), len(previous.rounds))
    if trace.rounds[:both] == previous.rounds[:both]:
        return both
    pairs = zip(trace.rounds, previous.rounds, strict=False)
    return next(index for index, (new, old) in enumerate(pairs) if new != old)


def compose(trace: Trace, timeline: Timeline, t: float, view: View) -> Frame:
    """Return the picture of time `t`."""
    now = timeline.round_at(t)
    stand = _stand(timeline, now, t, view, view.preset)
    if view.glide is not None and not view.reduce_motion:  # older lines sink or rise on the way
        before = _stand(timeline, now, t, view, view.glide.preset).cleared
        gone = before + (stand.cleared - before) * ease(view.glide.progress)
        stand = replace(stand, cleared=gone)
    camera = _camera(timeline, now, t, view, stand)
    steep = min(max((pitch_of(camera) - 0.75) / 0.3, 0.0), 1.0)
    colors, faces = theme(view.theme), (1.0 - steep, steep)
    moment = Moment(timeline, now, t, view, colors, stand, faces)
    parts = Parts()
    _text_so_far(parts, moment)
    _zones(parts, moment)
    company.add(parts, moment, _level(moment))
    if moment.now >= 0:
        _guesses(parts, moment)
        _draws(parts, moment)
        _box(parts, moment)
        _closing(parts, moment)
        _shards(parts, moment)
    parts.mark(view.selected, moment.colors.linear("text"))
    return Frame(
        camera=camera,
        lighting=moment.colors.lighting,
        focus=stand.focus,
        focus_radius=stand.reach,
        **parts.arrays(),
    )


def _stand(timeline: Timeline, now: int, t: float, view: View, preset: Preset) -> Stand:
    """Where camera `preset` stands at `t`: on its way from the round before to this one."""
    stand = stand_for(timeline.page, now, preset, view)
    if now < 0:
        return stand
    before = stand_for(timeline.page, now - 1, preset, view)
    progress = timeline.spans[now].approach.progress(t)
    return before.towards(stand, 1.0 if view.reduce_motion else ease(progress))


def _camera(timeline: Timeline, now: int, t: float, view: View, stand: Stand) -> Camera:
    """The camera of the view's preset, or on its way there from an earlier one."""

    def at(preset: Preset, where: Stand, orbit: Orbit) -> Camera:
        return place(where.pose, DIRECTIONS[preset], orbit, view.free)

    camera = at(view.preset, stand, view.orbit)
    if view.glide is None or view.reduce_motion:
        return camera
    start = _stand(timeline, now, t, view, view.glide.preset)
    return eased(at(view.glide.preset, start, view.glide.orbit), camera, ease(view.glide.progress))


def _text_so_far(parts: Parts, m: Moment) -> None:
    """The prompt and the committed words, lines sinking back as they age."""
    shown = ribbon.written(
        m.timeline.page, max(m.now, 0), m.stand.line, m.view.theme, m.faces, m.stand.cleared
    )
    parts.add("solids", shown.solids)
    parts.add("glyphs", shown.glyphs)
    seen = _unless(m.view, "close")  # from close by the ribbon would pass behind the caption
    if seen == 1.0:
        parts.add("tiles", shown.tiles)
    elif seen > 0.0:
        tiles = shown.tiles.copy()
        tiles["color"][:, 3] *= seen
        parts.add("tiles", tiles)


def _unless(view: View, *presets: Preset) -> float:
    """How much (0..1) is seen of what these cameras leave out."""
    here = float(view.preset not in presets)
    if view.glide is None or view.reduce_motion:
        return here
    before = float(view.glide.preset not in presets)
    return before + (here - before) * ease(view.glide.progress)


def _guesses(parts: Parts, m: Moment) -> None:
    """The round's guesses: dropped, judged from left to right, kept, broken or let go."""
    if not m.place.guesses:
        return
    j = Judged.at(m)
    if not j.dropped.any():
        return
    slide = m.spans.slide.progress(m.t) if m.spans.slide.duration else 0.0
    guess, committed, rejected = map(m.colors.linear, ("guess", "committed", "rejected"))
    form = blocks.guesses(m.place)
    centers = form.centers
    if m.moving and j.fallen.min() < 1.0:
        centers = centers + arcs.falling(m, j.fallen)
    centers = slid(m.place, centers, round(slide) if m.view.reduce_motion else slide)
    # A discarded guess loses its fill first, then its edges; a rejected one leaves its place
    # to the pieces it bursts into, and only fades where nothing may move.
    fading = np.where(j.rejected, j.gone if m.view.reduce_motion else j.gone > 0.0, 0.0)
    line = np.minimum(3.0 * j.fallen, 1.0) * (1.0 - fading)
    body = line * (blocks.GLASS + 0.45 * j.refused) * (1.0 - 0.6 * j.let_go)
    body *= 1.0 - ~j.rejected * np.minimum(2.0 * j.gone, 1.0)
    line *= (1.0 - 0.35 * j.let_go) * (1.0 - ~j.rejected * np.maximum(2.0 * j.gone - 1.0, 0.0))

    tone = _mix(_mix(guess, rejected, j.refused), m.colors.linear("discarded"), j.let_go)
    gleam = m.colors.gleam * (1.0 + 0.6 * np.sin(np.pi * j.read))  # the one being read shines
    colors, edges = np.empty((2, len(body), 4))
    colors[:, :3], colors[:, 3] = tone, body
    edges[:, :3] = tone * gleam[:, None]
    # Where nothing may move, what survives of a tree fades out above and in on the line.
    there = abs(2.0 * slide - 1.0) if m.view.reduce_motion else 1.0
    line[j.kept] = there
    edges[:, 3] = line
    colors[j.kept] = (*committed, there)
    edges[j.kept] = (*guess, blocks.EDGE * there)
    rows = form.rows.copy()
    rows["center"], rows["color"], rows["edge_color"] = centers, colors, edges
    colors[:, :3] = _mix(committed, rejected, j.refused)
    rows["fill_color"], rows["fill"] = colors, np.where(j.kept, 0.0, j.fill)
    rows["crack"] = j.cracked
    seen = j.dropped & (line > 0.0)
    solid = j.kept & (there >= 1.0)
    parts.add("solids", rows[seen & solid])
    parts.add("glass", rows[seen & ~solid])
    risen = m.faces[0] * np.clip(4.0 * j.fill - 1.5, 0.0, 1.0)  # behind the writing on the front
    covered = np.where(j.kept, 1.0, risen)
    colors[:, :3] = _mix(m.colors.linear("text"), m.colors.linear("engraved"), covered)
    colors[:, 3] = line * j.dropped
    parts.add("glyphs", form.engraving.at(centers, colors, m.faces))
    if m.place.lanes > 1:
        grown = m.round.parents, tree.hopes(m.round)
        halves = form.halves
        parts.add("ribbons", branches.rows(m.place, *grown, centers, halves, j, slide, m.colors))


def _draws(parts: Parts, m: Moment) -> None:
    """While a guess is read: its draw, two pointers at the level that the filling must reach.

    They stand beside the word and never across it. Where the answer is certain (accept
    probability 0 or 1) no draw decides, and none is shown.
    """
    for index, span in zip(m.spans.order, m.spans.verdicts, strict=True):
        slot, guess = m.place.guesses[index], m.round.guesses[index]
        if span.holds(m.t) and guess.draw is not None and 0.0 < guess.accept_prob < 1.0:
            parts.add("glyphs", blocks.pointers(slot, guess.draw, m.colors.linear("text")))


def _closing(parts: Parts, m: Moment) -> None:
    """The target's own token comes down from its side: a correction or a bonus."""
    slot, spans = m.place.emitted, m.spans
    if slot is None or m.t < spans.land.start:
        return
    landed = spans.land.progress(m.t)
    away = 0.0 if m.view.reduce_motion else 1.0 - settle(landed)
    centers = blocks.centers_of([slot])
    centers += np.array((0.0, LANDING[0], LANDING[1])) * away
    centers[:, 1] = np.maximum(centers[:, 1], HEIGHT / 2)
    role, committed = m.colors.linear(m.place.role), m.colors.linear("committed")
    settled = np.array([ease(spans.settle.progress(m.t))])
    body = committed if m.place.role == "target" else role
    alpha = min(2.5 * landed, 1.0)
    rows = blocks.bodies(
        centers,
        blocks.halves_of([slot]),
        np.array((*body, alpha)),
        np.array((*role, alpha * (1.0 - (1.0 - blocks.EDGE) * landed))),
        [pick.encode(m.now, pick.EMITTED)],
    )
    rows["fill"], rows["fill_color"] = settled, (*committed, 1.0)
    parts.add("solids" if alpha >= 1.0 else "glass", rows)
    first = m.colors.ink(m.place.role)
    shape = _mix(first, blocks.emblem_color(m.colors, m.place.role), settled)
    ink = np.column_stack([_mix(first, m.colors.linear("engraved"), settled), (alpha,)])
    engraving = blocks.emitted_engraving(m.place)
    parts.add("glyphs", engraving.at(centers, ink, m.faces, shape))


def _box(parts: Parts, m: Moment) -> None:
    """The check closes around all guesses at once and opens after the verdicts."""
    spans, t, inside = m.spans, m.t, m.place.guesses
    opened = _between(t, spans.crack.start, spans.crack.start + 0.28)
    if not inside or t < spans.close.start or opened >= 1.0:
        return
    closed = ease_out(spans.close.progress(t))
    away = 0.0 if m.view.reduce_motion else 1.0 - closed
    left = min(slot.left for slot in inside) - MARGIN
    right = max(slot.right for slot in inside) + MARGIN
    far, near = m.place.far, m.place.near
    rows = np.zeros(1, BLOCK)
    half = (m.place.top + MARGIN) / 2  # it stands on the ground, as the guesses do
    swollen = 1.0 + 0.12 * away
    rows["center"] = (
        (left + right) / 2,
        half + FLOOR + 1.5 * away + 0.3 * opened,
        (far + near) / 2 - 2.0 * away,
    )
    rows["half"] = (
        (right - left) / 2 * swollen,
        half * swollen,
        ((near - far + DEPTH) / 2 + MARGIN) * swollen,
    )
    rows["fill"] = m.place.lanes > 1  # open
    tone = np.array(m.colors.linear("box"))
    rows["color"] = (*tone, 0.07 * closed * (1.0 - opened))
    gleam = 1.0 + max(m.colors.gleam - 0.75, 0.0) * _level(m)  # only in the dark
    rows["edge_color"] = (*tone * gleam, closed * (1.0 - opened))
    parts.add("boxes", rows)


def _shards(parts: Parts, m: Moment) -> None:
    """Rejected guesses in pieces; the last of them may still lie there in the next round."""
    if m.view.reduce_motion:
        return
    for index in range(max(m.now - 1, 0), m.now + 1):
        each, spans = m.timeline.rounds[index], m.timeline.spans[index]
        place = m.timeline.page.places[index]
        lasts = SHARDS_SHORT if place.lanes > 1 else SHARDS_SEEN
        for number, crack in zip(spans.order, spans.cracks, strict=True):
            refused, age = each.guesses[number], m.t - crack.end
            if refused.verdict != "rejected" or not 0.0 <= age < lasts:
                continue
            mixed = (index * 2654435761 ^ refused.token.id * 2246822519) & 0xFFFFFFFF
            slot = place.guesses[number]
            rows = np.zeros(1, SHATTER)
            rows["center"] = blocks.centers_of([slot])
            rows["half"] = blocks.halves_of([slot])
            rows["color"] = (*m.colors.linear("rejected"), 1.0)
            rows["age"], rows["fade"] = age, 1.0 - ease_in(age / lasts)
            rows["seed"], rows["pattern"] = (mixed >> 8) / 2**24, mixed % PATTERNS
            parts.add("shatters", rows)


def _level(m: Moment) -> float:
    """How bright the target's pulse is; where time runs fast, passes between bright ones rest."""
    if m.now < 0 or (m.view.fast and not m.spans.bright):
        return 0.0
    return models.pulse(m.spans, m.t)


def _zones(parts: Parts, m: Moment) -> None:
    """The zones' names, written on the ground beside and before them, for the first rounds."""
    seen = 1.0
    if m.now >= 0 and not named(m.place):
        left = m.now == 0 or not named(m.timeline.page.places[m.now - 1])
        seen = 0.0 if left else 1.0 - m.spans.approach.progress(m.t)
    if seen <= 0.0:
        return
    prompt, places = m.timeline.page.prompt, m.timeline.page.places
    if prompt.lines and prompt.lines[-1]:
        back = prompt.lines[-1][0].z - prompt.back
        standing = 1.0 - m.stand.cleared * (m.stand.line > prompt.lines[-1][0].line)
        _name(parts, m, "prompt", "prompt", None, back, seen * standing)
    if m.now > 0:
        first, last = places[0], places[m.now - 1]
        shared = first.line == last.cursor_line and first.left > 0.0  # with the prompt
        room = (first.left, last.cursor) if shared else None
        _name(parts, m, "committed", "committed", room, last.cursor_line * PITCH, seen)
    if m.now >= 0 and m.place.guesses and m.spans.drops[0].start <= m.t < m.spans.crack.start:
        slots = m.place.guesses
        room = slots[0].left, max(slot.right for slot in slots)
        _name(parts, m, "guesses", "guess", room, m.place.near, seen)


def _name(
    parts: Parts,
    m: Moment,
    words: str,
    role: Role,
    room: tuple[float, float] | None,
    z: float,
    alpha: float,
) -> None:
    """Write a zone's name before its blocks (if they leave it room), or left of its line.

    There it is left out by the cameras that do not frame what is so far left.
    """
    em = GROUND_EM * m.lettering
    wide = text.measure(words) * em
    if room is None:
        alpha *= _unless(m.view, "follow", "close")
        if alpha <= 0.0:
            return
        where = np.array((-0.4 - wide, FLOOR, z + 0.3 * em))
    elif wide <= room[1] - room[0]:
        where = np.array((room[0], FLOOR, z + DEPTH / 2 + MARGIN + em))
    else:
        return
    right, up = np.array((em, 0.0, 0.0)), np.array((0.0, 0.0, -em))
    tone = np.array((*m.colors.linear(role), alpha))
    parts.add("glyphs", text.rows(text.quads(words), where, right, up, tone))


def _between(t: float, start: float, end: float) -> float:
    return min(max((t - start) / (end - start), 0.0), 1.0)


def _mix(start: Floats | RGB, end: RGB, weights: Floats) -> Floats:
    """Colours (n, 3) on the way from `start` ((3,) or (n, 3)) to `end`, weights (n,) in 0..1."""
    begin = np.asarray(start, float)
    return np.asarray(begin + (np.array(end) - begin) * weights[:, None])
