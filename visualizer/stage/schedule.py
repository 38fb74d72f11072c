"""How long each step of a round is shown.

The drafter's steps and the target's pass keep their measured ratio: one factor stretches
both. Everything else (the box, verdicts, shatter, landing) is explanation and takes the same
time in every round, while the drawn compute clock stands still.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.trace import Round, Trace
from visualizer.stage.timeline import Beat, Phase, RoundSpans, Span

PASS = 0.75  # what the baseline pass lasts on screen
LONGEST = 12.0  # measured work of one round, on screen; a stall in the engine is cut to this

INTRO = 0.9
APPROACH = 0.55
DROP = 0.26
DROP_CADENCE = 0.09  # between guesses that were all found in one lookup
REST = 0.08
CLOSE = 0.38
VERDICT = 0.22
VERDICT_LONG = 0.17  # with more than 8 guesses
CRACK = 0.12
SHATTER = 0.60
FADE = 0.35  # discarded guesses with nothing rejected before them (the run ended inside)
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
    drops = _drops(steps, len(each.guesses), approach.end)
    drafted = max([approach.end, *(span.end for span in (*steps, *drops))])
    close = Span(drafted + REST * bool(drops), CLOSE * bool(drops))
    pulse = Span(close.end, each.verify_seconds * factor)

    judged = sum(guess.draw is not None for guess in each.guesses)
    cadence = VERDICT if len(each.guesses) <= 8 else VERDICT_LONG
    verdicts = _chain(pulse.end + REST * bool(judged), [cadence] * judged)
    read = verdicts[-1].end if verdicts else pulse.end
    rejected = any(guess.verdict == "rejected" for guess in each.guesses)
    crack = Span(read, CRACK * rejected)
    gone = SHATTER if rejected else FADE * (each.accepted < len(each.guesses))
    shatter = Span(crack.end, gone)
    land = Span(shatter.end, LAND * pace if each.emitted else 0.0)
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
        verdicts=verdicts,
        crack=crack,
        shatter=shatter,
        land=land,
        settle=settle,
        beats=_beats(each.index, close, pulse, crack, shatter, land, settle, bool(drops)),
    )


def _chain(start: float, durations: Sequence[float]) -> tuple[Span, ...]:
    spans = []
    for duration in durations:
        spans.append(Span(start, duration))
        start += duration
    return tuple(spans)


def _drops(steps: tuple[Span, ...], guesses: int, start: float) -> tuple[Span, ...]:
    """A guess falls when the step that found it is done: one step each, or one for all."""
    if len(steps) == guesses:
        return tuple(Span(step.end, DROP) for step in steps)
    found = steps[-1].end if steps else start
    return tuple(Span(found + DROP_CADENCE * index, DROP) for index in range(guesses))


def _beats(
    index: int,
    close: Span,
    pulse: Span,
    crack: Span,
    shatter: Span,
    land: Span,
    settle: Span,
    drafted: bool,
) -> tuple[Beat, ...]:
    moments: list[tuple[Phase, float, bool]] = [
        ("draft", close.start, drafted),
        ("close", pulse.start, drafted),
        ("pass", pulse.end, True),
        ("verdicts", crack.start, drafted),
        ("shatter", shatter.start + shatter.duration / 2, shatter.duration > 0),
        ("land", land.end, land.duration > 0),
        ("settle", settle.end, True),
    ]
    return tuple(Beat(time, index, phase) for phase, time, real in moments if real)
