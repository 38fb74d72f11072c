"""The full loop: guesses drop, one pass checks them all, the text grows, again and again.

Read `compose` first: a picture is the line as it stands, the present round, the two models,
and words on the ground. Each part is a function of the time alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.trace import Round, Trace
from visualizer.stage import blocks, pick, text
from visualizer.stage.camera import DIRECTIONS, Free, Pose, frame_points, pitch_of, place
from visualizer.stage.easing import ease, ease_in, ease_out, settle, swell
from visualizer.stage.frame import BEAM, BLOCK, PATTERNS, SHATTER, SPHERE, Frame
from visualizer.stage.layout import DEPTH, HEIGHT, LINE, PITCH, Place, page_of
from visualizer.stage.schedule import factor_of, schedule
from visualizer.stage.theme import RGB, Role, Theme, theme
from visualizer.stage.timeline import RoundSpans, Timeline
from visualizer.stage.view import Preset, View

Floats = NDArray[np.float64]
Rows = NDArray[np.void]

LINES_BACK = 6.5  # older lines have sunk into the ground
MARGIN = 0.25  # between the guesses and the box around them
DROP_HEIGHT = 1.25
LANDING = (2.6, -1.6)  # up and back: the target's own token comes from its side
TARGET_RADIUS = 1.15
TARGET_BACK = (3.3, -6.0)  # up and back from the present line
DRAFTER_RADIUS = 0.24
DRAFTER_HEIGHT = 1.9
REST_AFTER = 0.9  # beyond the last guess: over the next free slot
HOP = 0.24  # seconds from slot to slot
SHORTEST = 12.8  # the camera frames at least this much of a line
TWO_WORDS = 4.2  # and what comes before a round for at least this length
SHARDS_SEEN = 0.9  # seconds
PULSE_RISE, PULSE_FALL = 0.25, 0.30
LABELLED_ROUNDS = 2
GROUND_EM = 0.42


def timeline(trace: Trace, previous: Timeline | None = None) -> Timeline:
    """Compile `trace`; rounds it shares with `previous` from the start are taken over."""
    kept = _shared(trace, previous) if previous else 0
    if previous and kept == len(trace.rounds) == len(previous.rounds):
        return previous
    if previous and kept:
        spans, page, factor = list(previous.spans[:kept]), previous.page, previous.factor
    else:
        spans, page, factor = [], page_of(trace.header), factor_of(trace)
    fresh = trace.rounds[kept:]
    for each in fresh:
        spans.append(schedule(each, spans[-1].end if spans else 0.0, factor))
    return Timeline(trace.rounds, tuple(spans), page.extended(kept, fresh), factor)


def _shared(trace: Trace, previous: Timeline) -> int:
    """How many rounds from the start are the very ones `previous` was compiled from."""
    both = min(len(trace.rounds), len(previous.rounds))
    if trace.rounds[:both] == previous.rounds[:both]:
        return both
    pairs = zip(trace.rounds, previous.rounds, strict=False)
    return next(index for index, (new, old) in enumerate(pairs) if new != old)


def compose(trace: Trace, timeline: Timeline, t: float, view: View) -> Frame:
    """Return the picture of time `t`."""
    moment = _Moment.of(timeline, t, view)
    camera = place(moment.stand.pose, DIRECTIONS[view.preset], view.orbit, view.free)
    steep = float(np.clip((pitch_of(camera) - 0.75) / 0.3, 0.0, 1.0))
    moment = replace(moment, faces=(1.0 - steep, steep))
    parts = _Parts()
    _text_so_far(parts, moment)
    _zones(parts, moment)
    if moment.now >= 0:
        _guesses(parts, moment)
        _box(parts, moment)
        _closing(parts, moment)
        _shards(parts, moment)
        _drafter(parts, moment)
    _target(parts, moment)
    parts.mark(view.selected, moment.colors)
    return Frame(
        camera=camera,
        lighting=moment.colors.lighting,
        focus=(LINE / 2, HEIGHT / 2, moment.stand.line * PITCH),
        focus_radius=LINE * 0.62,
        **parts.arrays(),
    )


class _Parts:
    """The arrays of a frame while they are being gathered."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Rows]] = {}

    def add(self, name: str, rows: Rows) -> None:
        if len(rows):
            self._rows.setdefault(name, []).append(rows)

    def mark(self, selected: int, colors: Theme) -> None:
        """Give the selected block a bright edge."""
        for name in ("solids", "glass") if selected else ():
            for rows in self._rows.get(name, ()):
                rows["edge_color"][rows["pick"] == selected] = (*colors.linear("text"), 1.0)

    def arrays(self) -> dict[str, Rows]:
        return {name: np.concatenate(rows) for name, rows in self._rows.items()}


class _Lens(NamedTuple):
    """The part of a view that framing depends on."""

    preset: Preset
    aspect: float
    free: Free


@dataclass(frozen=True, slots=True)
class _Stand:
    """Where the camera and the target are for one round: both move only between rounds."""

    pose: Pose
    line: float
    target: tuple[float, float, float]

    def towards(self, other: _Stand, progress: float) -> _Stand:
        if progress >= 1.0 or self == other:
            return other
        x, y, z = (a + (b - a) * progress for a, b in zip(self.target, other.target, strict=True))
        line = self.line + (other.line - self.line) * progress
        return _Stand(self.pose.towards(other.pose, progress), line, (x, y, z))


@lru_cache(maxsize=256)
def _stand(line: int, left: float, right: float, view: _Lens) -> _Stand:
    """Frame what lies from `left` to `right` on a line, with both models in the picture.

    Short stretches get the same frame as long ones, so that the camera seldom has to move.
    """
    z = line * PITCH
    middle = max((left + right) / 2 - 0.6, SHORTEST / 2 - 0.6)
    left, right = min(left, middle - SHORTEST / 2), max(right, middle + SHORTEST / 2)
    target = (middle + 0.16 * (right - left), TARGET_BACK[0], z + TARGET_BACK[1])
    reach = 1.2 * TARGET_RADIUS
    points = [
        *((x, y, z + dz) for x in (left, right) for y in (0.0, 1.4) for dz in (-0.8, 1.2)),
        *((x, DRAFTER_HEIGHT + 0.5, z) for x in (left, right)),
        *(tuple(np.add(target, axis)) for axis in np.vstack([np.eye(3), -np.eye(3)]) * reach),
    ]
    subject = np.array((middle, HEIGHT / 2, z))
    direction = DIRECTIONS[view.preset]
    pose = frame_points(np.array(points), subject, direction, view.aspect, view.free)
    return _Stand(pose, float(line), target)


@dataclass(frozen=True, slots=True)
class _Moment:
    """Everything the parts of one picture share. `now` is -1 before the first round."""

    timeline: Timeline
    now: int
    t: float
    view: View
    colors: Theme
    stand: _Stand
    faces: tuple[float, float] = (1.0, 0.0)

    @classmethod
    def of(cls, timeline: Timeline, t: float, view: View) -> _Moment:
        now = timeline.round_at(t)
        stand = cls._stand_of(timeline, now, view)
        if now >= 0:
            before = cls._stand_of(timeline, now - 1, view)
            progress = timeline.spans[now].approach.progress(t)
            stand = before.towards(stand, 1.0 if view.reduce_motion else ease(progress))
        return cls(timeline, now, t, view, theme(view.theme), stand)

    @staticmethod
    def _stand_of(timeline: Timeline, index: int, view: View) -> _Stand:
        lens = _Lens(view.preset, view.width / max(view.height, 1), view.free)
        if index < 0:
            return _stand(timeline.page.prompt.line, 0.0, 0.0, lens)
        slots = timeline.page.places[index]
        words_before = max(slots.left - TWO_WORDS, 0.0)
        return _stand(slots.line, words_before, slots.right + REST_AFTER, lens)

    @property
    def place(self) -> Place:
        return self.timeline.page.places[self.now]

    @property
    def spans(self) -> RoundSpans:
        return self.timeline.spans[self.now]

    @property
    def round(self) -> Round:
        return self.timeline.rounds[self.now]


def _text_so_far(parts: _Parts, m: _Moment) -> None:
    """The prompt and the committed words, lines sinking back as they age."""
    oldest = m.stand.line - LINES_BACK
    lines: dict[int, list[Place]] = {}
    for slots in reversed(m.timeline.page.places[: max(m.now, 0)]):
        if slots.line <= oldest:
            break
        lines.setdefault(slots.line, []).append(slots)
    matters = [
        (line, blocks.committed_line(tuple(reversed(places)), m.view.theme))
        for line, places in lines.items()
    ]
    if oldest < m.timeline.page.prompt.line:
        matters += enumerate(blocks.prompt(m.timeline.page.prompt, m.view.theme))
    if not matters:
        return
    whole = blocks.merged([matter for _, matter in matters])
    ages = m.stand.line - np.repeat(
        [line for line, _ in matters], [len(matter.blocks) for _, matter in matters]
    )
    dim = np.clip(1.0 - np.maximum(ages, 0.0) / LINES_BACK, 0.0, 1.0) ** 1.7
    rows = blocks.receded(whole.blocks, dim, m.colors)
    ink = whole.ink.copy()
    ink[:, 3] *= dim
    centers = rows["center"].astype(float)
    parts.add("glyphs", whole.engraving.at(centers, ink, m.faces, whole.emblems))
    parts.add("solids", rows[dim > 0.0])


def _guesses(parts: _Parts, m: _Moment) -> None:
    """The round's guesses: dropped, judged from left to right, kept, broken or let go."""
    slots, spans, t = m.place.guesses, m.spans, m.t
    if not slots:
        return
    verdicts = np.array([guess.verdict for guess in m.round.guesses])
    accepted, rejected, discarded = (
        verdicts == name for name in ("accepted", "rejected", "discarded")
    )
    starts = np.array([drop.start for drop in spans.drops])
    fallen = np.clip((t - starts) / spans.drops[0].duration, 0.0, 1.0)
    read = np.zeros(len(slots))
    read[: len(spans.verdicts)] = [span.progress(t) for span in spans.verdicts]
    weighed, told = np.clip(read / 0.6, 0.0, 1.0), np.clip(read / 0.4 - 1.5, 0.0, 1.0)
    fill = np.array([guess.accept_prob for guess in m.round.guesses]) * ease_out(weighed)
    fill = np.where(accepted, fill + (1.0 - fill) * ease_out(told), fill)
    gone = spans.shatter.progress(t) if t >= spans.shatter.start else 0.0
    let_go = _between(t, spans.crack.start, spans.crack.start + 0.2) * discarded
    burst = rejected & (t >= spans.shatter.start)

    tone = _mix(m.colors.linear("guess"), m.colors.linear("rejected"), told * rejected)
    tone = _mix(tone, m.colors.linear("discarded"), let_go)
    alpha = np.minimum(3.0 * fallen, 1.0)
    body = blocks.GLASS + 0.45 * told * rejected
    body = body * (1.0 - discarded * min(2.0 * gone, 1.0) * 1.0) * (1.0 - 0.6 * let_go)
    line = alpha * (1.0 - discarded * max(2.0 * gone - 1.0, 0.0)) * (1.0 - 0.35 * let_go)
    if m.view.reduce_motion:
        alpha = line = line * (1.0 - gone * rejected)
        body = body * (1.0 - gone * rejected)
        burst = np.zeros_like(burst)

    kept = accepted & (read >= 1.0)
    centers = blocks.centers_of(slots, m.place.z)
    if not m.view.reduce_motion:
        centers[:, 1] += DROP_HEIGHT * (1.0 - ease_out(fallen))
    colors = np.column_stack([tone, body * alpha])
    colors[kept] = (*m.colors.linear("committed"), 1.0)
    gleam = 1.25 + 0.75 * np.sin(np.pi * read)
    edges = np.column_stack([tone * gleam[:, None], line])
    edges[kept] = (*m.colors.linear("guess"), blocks.EDGE)
    picks = [pick.encode(m.now, slot) for slot in range(len(slots))]
    rows = blocks.bodies(centers, blocks.halves_of(slots), colors, edges, picks)
    rows["fill"] = np.where(kept, 0.0, fill * ~discarded)
    rows["fill_color"] = np.column_stack(
        [
            _mix(m.colors.linear("committed"), m.colors.linear("rejected"), told * rejected),
            np.ones(len(slots)),
        ]
    )
    rows["crack"] = rejected * (spans.crack.progress(t) if t >= spans.crack.start else 0.0)
    seen = (t >= starts) & ~burst & (line > 0.0)
    parts.add("solids", rows[seen & kept])
    parts.add("glass", rows[seen & ~kept])
    ink = np.column_stack([np.tile(m.colors.linear("text"), (len(slots), 1)), line * seen])
    ink[kept, :3] = m.colors.linear("engraved")
    parts.add("glyphs", blocks.guess_engraving(m.place).at(centers, ink, m.faces))


def _closing(parts: _Parts, m: _Moment) -> None:
    """The target's own token comes down from its side: a correction or a bonus."""
    slot, spans = m.place.emitted, m.spans
    if slot is None or m.t < spans.land.start:
        return
    landed = spans.land.progress(m.t)
    away = 0.0 if m.view.reduce_motion else 1.0 - settle(landed)
    centers = blocks.centers_of([slot], m.place.z)
    centers += np.array((0.0, LANDING[0], LANDING[1])) * away
    centers[:, 1] = np.maximum(centers[:, 1], HEIGHT / 2)
    role = m.colors.linear(m.place.role)
    settled = np.array([ease(spans.settle.progress(m.t))])
    tone = _mix(role, m.colors.linear("committed"), settled)
    alpha = min(2.5 * landed, 1.0)
    rows = blocks.bodies(
        centers,
        blocks.halves_of([slot]),
        np.column_stack([tone, [alpha]]),
        np.array((*role, blocks.EDGE + (1.0 - blocks.EDGE) * (1.0 - landed))),
        [pick.encode(m.now, pick.EMITTED)],
    )
    parts.add("solids" if alpha >= 1.0 else "glass", rows)
    white = m.colors.linear("engraved")
    shape = _mix(white, blocks.emblem_color(m.colors, m.place.role), settled)
    engraving = blocks.emitted_engraving(m.place)
    parts.add("glyphs", engraving.at(centers, np.array([(*white, alpha)]), m.faces, shape))


def _box(parts: _Parts, m: _Moment) -> None:
    """The check closes around all guesses at once and opens after the verdicts.

    Where nothing was guessed it closes around the one empty slot.
    """
    spans, t = m.spans, m.t
    inside = m.place.guesses or ((m.place.emitted,) if m.place.emitted else ())
    opened = _between(t, spans.crack.start, spans.crack.start + 0.28)
    if not inside or t < spans.close.start or opened >= 1.0:
        return
    closed = ease_out(spans.close.progress(t))
    away = 0.0 if m.view.reduce_motion else 1.0 - closed
    left, right = inside[0].left - MARGIN, inside[-1].right + MARGIN
    rows = np.zeros(1, BLOCK)
    rows["center"] = (
        (left + right) / 2,
        HEIGHT / 2 + 1.5 * away + 0.3 * opened,
        m.place.z - 2.0 * away,
    )
    swollen = 1.0 + 0.12 * away
    rows["half"] = (
        (right - left) / 2 * swollen,
        (HEIGHT / 2 + MARGIN) * swollen,
        (DEPTH / 2 + MARGIN) * swollen,
    )
    tone = np.array(m.colors.linear("box"))
    rows["color"] = (*tone, 0.07 * closed * (1.0 - opened))
    rows["edge_color"] = (*tone * (1.0 + 0.5 * _pulse(spans, t)), closed * (1.0 - opened))
    parts.add("boxes", rows)


def _shards(parts: _Parts, m: _Moment) -> None:
    """The rejected guess in pieces; the last of them may still lie there in the next round."""
    if m.view.reduce_motion:
        return
    for index in range(max(m.now - 1, 0), m.now + 1):
        slots, each = m.timeline.page.places[index], m.timeline.rounds[index]
        age = m.t - m.timeline.spans[index].shatter.start
        if each.accepted == len(slots.guesses) or not 0.0 <= age < SHARDS_SEEN:
            continue
        refused = each.guesses[each.accepted]
        if refused.verdict != "rejected":
            continue
        mixed = (index * 2654435761 ^ refused.token.id * 2246822519) & 0xFFFFFFFF
        slot = slots.guesses[each.accepted]
        rows = np.zeros(1, SHATTER)
        rows["center"] = blocks.centers_of([slot], slots.z)
        rows["half"] = blocks.halves_of([slot])
        rows["color"] = (*m.colors.linear("rejected"), 1.0)
        rows["age"], rows["fade"] = age, 1.0 - ease_in(age / SHARDS_SEEN)
        rows["seed"], rows["pattern"] = (mixed >> 8) / 2**24, mixed % PATTERNS
        parts.add("shatters", rows)


def _target(parts: _Parts, m: _Moment) -> None:
    """The large calm sphere; a cone of light joins it to the box while a pass runs."""
    level = _pulse(m.spans, m.t) if m.now >= 0 else 0.0
    rows = np.zeros(1, SPHERE)
    rows["center"], rows["radius"] = m.stand.target, TARGET_RADIUS
    rows["color"], rows["glow"] = (*m.colors.linear("target"), 1.0), level
    parts.add("spheres", rows)
    inside = (m.place.guesses or (m.place.emitted,)) if m.now >= 0 else ()
    if level <= 0.0 or not inside or inside[0] is None or inside[-1] is None:
        return
    left, right = inside[0].left - MARGIN, inside[-1].right + MARGIN
    beam = np.zeros(1, BEAM)
    beam["start"] = m.stand.target
    beam["end"] = ((left + right) / 2, HEIGHT + MARGIN, m.place.z)
    beam["half"] = ((right - left) / 2, DEPTH / 2 + MARGIN)
    beam["color"] = (*m.colors.linear("target"), 0.30 * level)
    parts.add("beams", beam)


def _drafter(parts: _Parts, m: _Moment) -> None:
    """The small quick sphere above the slot it fills next."""
    came = m.spans.approach.progress(m.t)
    size = float(m.round.settings.effective_k > 0)
    before = m.timeline.rounds[m.now - 1] if m.now else m.round
    size = size * came + float(before.settings.effective_k > 0) * (1.0 - came)
    if size <= 0.0:
        return
    x, z = _drafter_at(m, came)
    working = any(step.holds(m.t) for step in m.spans.steps)
    rows = np.zeros(1, SPHERE)
    rows["center"], rows["radius"] = (x, DRAFTER_HEIGHT, z), DRAFTER_RADIUS * size
    rows["color"] = (*m.colors.linear("drafter"), 1.0)
    rows["glow"] = 0.9 if working else 0.3
    parts.add("spheres", rows)


def _drafter_at(m: _Moment, came: float) -> tuple[float, float]:
    """Where the drafter is, x and z: on its way to the round, or over the slots."""
    slots = m.place.guesses
    stops = [slot.center for slot in slots]
    stops.append(slots[-1].right + REST_AFTER if slots else m.place.left + REST_AFTER)
    if came < 1.0 and m.now > 0 and not m.view.reduce_motion:
        last = m.timeline.page.places[m.now - 1]
        gone = (last.guesses[-1].right if last.guesses else last.left) + REST_AFTER
        way = ease(came)
        return gone + (stops[0] - gone) * way, last.z + (m.place.z - last.z) * way
    drops = [drop.start for drop in m.spans.drops]
    done = sum(m.t >= start for start in drops)
    if done == 0:
        return stops[0], m.place.z
    room = min(drops[done] - drops[done - 1], HOP) if done < len(drops) else HOP
    way = min((m.t - drops[done - 1]) / max(room, 1e-6), 1.0)
    way = 1.0 if m.view.reduce_motion else ease(way)
    return stops[done - 1] + (stops[done] - stops[done - 1]) * way, m.place.z


def _zones(parts: _Parts, m: _Moment) -> None:
    """Names of the zones, written on the ground before them, for the first rounds."""
    fading = 0.0
    if m.now >= LABELLED_ROUNDS:
        fading = m.spans.approach.progress(m.t) if m.now == LABELLED_ROUNDS else 1.0
    if fading >= 1.0:
        return
    prompt = m.timeline.page.prompt
    zones: list[tuple[str, Role, float, float, int]] = []  # words, role, from, to, line
    prompt = m.timeline.page.prompt
    if prompt.lines and prompt.lines[-1]:
        row = prompt.lines[-1]
        zones.append(("prompt", "prompt", row[0].left, row[-1].right, len(prompt.lines) - 1))
    if m.now > 0:
        first, last = m.timeline.page.places[0], m.timeline.page.places[m.now - 1]
        start = first.left if first.line == last.line else 0.0
        zones.append(("committed", "committed", start, last.cursor, last.line))
    if m.now >= 0 and m.place.guesses and m.spans.drops[0].start <= m.t < m.spans.crack.start:
        slots = m.place.guesses
        zones.append(("guesses", "guess", slots[0].left, slots[-1].right, m.place.line))
    present = m.place.line if m.now >= 0 else prompt.line
    right_axis, up_axis = np.array((GROUND_EM, 0.0, 0.0)), np.array((0.0, 0.0, -GROUND_EM))
    for words, role, left, right, line in zones:
        where = np.array((left, 0.012, line * PITCH + DEPTH / 2 + 0.22 + 0.75 * GROUND_EM))
        if line < present:
            where = np.array((right + 0.4, 0.012, line * PITCH + 0.3 * GROUND_EM))
        elif text.measure(words) * GROUND_EM > right - left:
            continue
        tone = np.array((*m.colors.linear(role), 0.95 * (1.0 - fading)))
        parts.add("glyphs", text.rows(text.quads(words), where, right_axis, up_axis, tone))


def _pulse(spans: RoundSpans, t: float) -> float:
    """Level of the target's one swell per pass."""
    return swell(t - spans.pulse.start, spans.pulse.end - t, PULSE_RISE, PULSE_FALL)


def _between(t: float, start: float, end: float) -> float:
    return min(max((t - start) / (end - start), 0.0), 1.0)


def _mix(start: Floats | RGB, end: RGB, weights: Floats) -> Floats:
    """Colours (n, 3) on the way from `start` ((3,) or (n, 3)) to `end`, weights (n,) in 0..1."""
    begin = np.asarray(start, float)
    return np.asarray(begin + (np.array(end) - begin) * weights[:, None])
