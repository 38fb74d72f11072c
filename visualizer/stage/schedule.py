"""How long each step of a round is shown.

The drafter's steps and the target's pass keep their measured ratio: one factor stretches
both. Everything else (the box, verdicts, shatter, landing) is explanation and takes the same
time in every round, while the drawn compute clock stands still.

Siblings are read in the order of verification; once it is decided which of them passes, if any,
the refused ones burst together, and only then are that one's children read. So bursts are never
more than three a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from engine.trace import Guess, Round, Trace
from visualizer.stage import tree
from visualizer.stage.timeline import Beat, Phase, RoundSpans, Span

PASS = 0.75  # what the baseline pass lasts on screen
LONGEST = 12.0  # measured work of one round, on screen; a stall in the engine is cut to this

INTRO = 0.9
APPROACH = 0.55
DROP = 0.26
CARRY = 0.70
DROP_CADENCE = 0.09  # between guesses that were all found in one lookup
REST = 0.08
CLOSE = 0.38
VERDICT = 0.22
VERDICT_LONG = 0.17  # with more than 8 guesses
VERDICT_TREE = 0.34  # where a guess may have siblings
CRACK = 0.12
SHATTER = 0.60
FADE = 0.35  # discarded guesses with nothing rejected before them (the run ended inside)
SLIDE = 0.55
LAND = 0.42
SETTLE = 0.32
BRISK = 0.6  # of the above where the target runs alone: there is nothing to explain

FLASHES_PER_SECOND = 3.0
BRISKEST = 4.0  # playback speed up to which every pass pulses; beyond it only some do
FASTEST = 8.0  # of playback
PULSE_GAP = BRISKEST / FLASHES_PER_SECOND
FOLDED_GAP = FASTEST / FLASHES_PER_SECOND  # between those that pulse at any speed


def factor_of(trace: Trace) -> float:
    """Scene seconds per measured second, fixed at a run's start.

    From the measured baseline; without one, from the first pass of the run.
    """
    if trace.header is not None and trace.header.baseline is not None:
        return PASS / max(trace.header.baseline.pass_seconds, 1e-6)
    if trace.rounds:
        return PASS / max(trace.rounds[0].verify_seconds, 1e-6)
    return 1.0


def schedule(each: Round, before: Sequence[RoundSpans], factor: float) -> RoundSpans:
    """Lay out one round after those `before` it."""
    start = before[-1].end if before else 0.0
    factor = min(factor, LONGEST / max(each.seconds, 1e-9))
    pace = 1.0 if each.guesses else BRISK
    approach = Span(start, INTRO if each.index == 0 else APPROACH * pace)
    steps = _chain(approach.end, [seconds * factor for seconds in each.draft_step_seconds])
    drops = _drops(steps, each, approach.end)
    drafted = max([approach.end, *(span.end for span in (*steps, *drops))])
    close = Span(drafted + REST * bool(drops), CLOSE * bool(drops))
    pulse = Span(close.end, each.verify_seconds * factor)

    order = tree.judged(each)
    verdicts, cracks = _judging(each, order, pulse.end + REST)
    read = max([pulse.end, *(span.end for span in verdicts)])
    refused = any(span.start >= read for span in cracks if span.duration)
    crack = Span(read, CRACK * refused)
    gone = SHATTER if refused else FADE * (each.accepted < len(each.guesses))
    shatter = Span(crack.end, gone)
    slide = Span(shatter.end, SLIDE * (tree.branched(each) and each.accepted > 0))
    land = Span(slide.end, LAND * pace if each.emitted else 0.0)
    quiet = pulse.start + PULSE_GAP - land.end  # keeps pulses apart
    settle = Span(land.end, max(SETTLE * pace, quiet))
    bright = next((spans for spans in reversed(before) if spans.bright), None)
    apart = pulse.start - bright.pulse.start if bright else FOLDED_GAP
    return RoundSpans(
        index=each.index,
        bright=apart >= FOLDED_GAP - 1e-9,
        factor=factor,
        approach=approach,
        steps=steps,
        drops=drops,
        close=close,
        pulse=pulse,
        order=order,
        verdicts=verdicts,
        cracks=cracks,
        fates=_fates(each, order, verdicts, crack),
        crack=crack,
        shatter=shatter,
        slide=slide,
        land=land,
        settle=settle,
        beats=_beats(each, close, pulse, verdicts, crack, shatter, slide, land, settle),
    )


def _judging(
    each: Round, order: tuple[int, ...], start: float
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """When each judged guess is read, and when those that are refused then burst together."""
    cadence = VERDICT if len(each.guesses) <= 8 else VERDICT_LONG
    if tree.branched(each):
        cadence = VERDICT_TREE
    verdicts: list[Span] = []
    cracks: list[Span] = []
    for _, siblings in groupby(order, key=lambda slot: each.parents[slot]):
        refused = [each.guesses[slot].verdict == "rejected" for slot in siblings]
        verdicts += _chain(start, [cadence] * len(refused))
        end = verdicts[-1].end
        cracks += [Span(end, CRACK * one) for one in refused]
        start = end + CRACK * any(refused)
    return tuple(verdicts), tuple(cracks)


def _fates(
    each: Round,
    order: tuple[int, ...],
    verdicts: tuple[Span, ...],
    end: Span,
) -> tuple[Span, ...]:
    """When each guess's fate is told: a judged one's verdict, or what discarded it."""
    found: list[Span] = []
    for slot in range(len(each.guesses)):
        if slot in order:
            found.append(verdicts[order.index(slot)])
            continue
        by = tree.sealed_by(each, slot)
        told = Span(verdicts[order.index(by)].end, CRACK) if by is not None else end
        found.append(told)
    return tuple(found)


def _chain(start: float, durations: Sequence[float]) -> tuple[Span, ...]:
    spans = []
    for duration in durations:
        spans.append(Span(start, duration))
        start += duration
    return tuple(spans)


def _drops(steps: tuple[Span, ...], each: Round, start: float) -> tuple[Span, ...]:
    """A guess falls when the step that found it is done: one step each, or for some, or for all."""
    many = len(each.guesses)
    if len(steps) == many:
        pairs = zip(steps, each.guesses, strict=True)
        return tuple(Span(step.end, _fall(guess)) for step, guess in pairs)
    found = steps[-1].end if steps else start
    if tree.branched(each) and len(steps) > 1:
        return _grown(steps, each.parents)
    if not any(guess.copied for guess in each.guesses):  # one pass gave them all at once
        return (Span(found, DROP),) * many
    return tuple(
        Span(found + DROP_CADENCE * index, _fall(guess)) for index, guess in enumerate(each.guesses)
    )


def _fall(guess: Guess) -> float:
    """How long a guess is on its way: a copied one is carried from where its words stand."""
    return CARRY if guess.copied else DROP


def _grown(steps: tuple[Span, ...], parents: Sequence[int]) -> tuple[Span, ...]:
    """Guesses of a tree fall in order, none before the step that read what it follows.

    Which step read which is not recorded: new parents have a step each, and the others are
    spread over the guesses evenly.
    """
    drops: list[Span] = []
    seen: list[int] = []
    free = 0.0
    for slot, parent in enumerate(parents):
        seen += [parent] if parent not in seen else []
        step = max(seen.index(parent), slot * len(steps) // len(parents))
        free = max(free, steps[min(step, len(steps) - 1)].end)
        drops.append(Span(free, DROP))
        free += DROP_CADENCE
    return tuple(drops)


def _beats(
    each: Round,
    close: Span,
    pulse: Span,
    verdicts: Sequence[Span],
    crack: Span,
    shatter: Span,
    slide: Span,
    land: Span,
    settle: Span,
) -> tuple[Beat, ...]:
    drafted = bool(each.guesses)
    moments: list[tuple[Phase, float, bool]] = [
        ("draft", close.start, drafted),
        ("close", pulse.start, drafted),
        ("pass", pulse.end, True),
        *(("verdicts", time, True) for time in _decided(each, verdicts)),
        ("verdicts", crack.start, drafted),
        ("shatter", shatter.start + shatter.duration / 2, shatter.duration > 0),
        ("slide", slide.end, slide.duration > 0),
        ("land", land.end, land.duration > 0),
        ("settle", settle.end, True),
    ]
    return tuple(Beat(time, each.index, phase) for phase, time, real in moments if real)


def _decided(each: Round, verdicts: Sequence[Span]) -> list[float]:
    """When it is decided which of some siblings passes, where others are judged after them."""
    if not tree.branched(each):
        return []
    deep = tree.depths(each.parents)
    order = tree.judged(each)
    return [
        span.end
        for span, slot, after in zip(verdicts, order, order[1:], strict=False)
        if deep[after] > deep[slot]
    ]
