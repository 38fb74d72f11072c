"""Time only grows: what is added later never moves what came before."""

import itertools
from pathlib import Path

import pytest
import runs

from engine import codec
from engine.trace import Rewind, Settings, Trace
from scenes import full_loop
from visualizer.stage.schedule import BRISKEST, FASTEST, FLASHES_PER_SECOND, LONGEST, PASS
from visualizer.stage.timeline import Span

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "assets" / "runs").glob("*.jsonl")), ROOT / "tests/data/hand.jsonl"]
RUNS = {path.name: codec.read_run(path) for path in FILES}
RUNS |= {f"k={k}": runs.made_up(k) for k in (0, 1, 4, 16)}
RUNS |= {"tree": codec.read_run(ROOT / "tests/data/tree.jsonl")}
RUNS |= {f"tree of {k}": runs.grown(k, 8, k) for k in (2, 4, 8, 16)}
RUNS |= {"raw": runs.made_up(4, chat=False), "empty": Trace(), "prompt": runs.made_up(4, 0)}


@pytest.fixture(params=RUNS, name="run")
def _run(request: pytest.FixtureRequest) -> Trace:
    return RUNS[request.param]


def spread(count: int, most: int = 12) -> list[int]:
    return sorted({*range(0, count, max(count // most, 1)), count})


def test_a_prefix_of_the_run_has_a_prefix_of_the_timeline(run: Trace) -> None:
    whole = full_loop.timeline(run)
    for count in spread(len(run.rounds)):
        part = full_loop.timeline(run[:count])
        assert part.spans == whole.spans[:count]
        for mine, its in zip(part.page.places, whole.page.places, strict=False):
            assert (mine.line, mine.guesses, mine.emitted, mine.cursor) == (
                its.line,
                its.guesses,
                its.emitted,
                its.cursor,
            )


def test_growing_a_timeline_equals_compiling_it(run: Trace) -> None:
    grown = None
    for count in spread(len(run.rounds)):
        grown = full_loop.timeline(run[:count], grown)
    whole = full_loop.timeline(run)
    assert grown is not None
    assert grown.spans == whole.spans
    assert grown.factor == whole.factor


def test_growing_takes_over_what_was_there() -> None:
    run = runs.made_up(4, 6)
    before = full_loop.timeline(run[:5])
    after = full_loop.timeline(run, before)
    assert all(a is b for a, b in zip(before.spans, after.spans, strict=False))
    assert all(a is b for a, b in zip(before.page.places, after.page.places, strict=False))
    assert full_loop.timeline(run, after) is after


def test_a_rewind_keeps_the_spans_of_kept_rounds() -> None:
    run = runs.made_up(4, 6)
    before = full_loop.timeline(run)
    other = run.extend(Rewind(3, Settings(k=2)))
    other = other.extend(runs.make_round(3, ["x"], ["y"], " z", Settings(k=2)))
    after = full_loop.timeline(other, before)
    assert after.spans[:3] == before.spans[:3]
    assert len(after.spans) == 4
    assert after.spans == full_loop.timeline(other).spans


def test_another_run_takes_nothing_over() -> None:
    before = full_loop.timeline(runs.made_up(4))
    other = runs.made_up(2, chat=False)
    assert full_loop.timeline(other, before).spans == full_loop.timeline(other).spans
    only_prompt = runs.made_up(4, 0, chat=False)
    for earlier in (before, full_loop.timeline(Trace()), full_loop.timeline(runs.made_up(4, 0))):
        grown = full_loop.timeline(only_prompt, earlier)
        assert grown.page.prompt.lines == full_loop.timeline(only_prompt).page.prompt.lines


def test_spans_follow_each_other(run: Trace) -> None:
    end = 0.0
    for spans in full_loop.timeline(run).spans:
        assert spans.start == end
        order: list[Span] = [
            spans.approach,
            *spans.steps,
            spans.close,
            spans.pulse,
            *spans.verdicts,
            spans.crack,
            spans.shatter,
            spans.land,
            spans.settle,
        ]
        for earlier, later in itertools.pairwise(order):
            assert later.start >= earlier.end - 1e-9
            assert later.duration >= 0.0
        assert all(drop.end <= spans.close.start + 1e-9 for drop in spans.drops)
        end = spans.end


def test_beats_are_sorted_and_stepping_visits_each(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    times = [beat.time for beat in timeline.beats()]
    assert times == sorted(times)
    visited, t = [], 0.0
    while timeline.next_beat(t) > t + 1e-6:
        t = timeline.next_beat(t)
        visited.append(t)
    distinct = [b for a, b in zip([-1.0, *times], times, strict=False) if b > a + 1e-6]
    assert visited == pytest.approx(distinct)
    back = [t]
    while (t := timeline.prev_beat(t)) > 0.0:
        back.append(t)
    assert back[::-1] == pytest.approx(distinct or [0.0])


def test_drafting_and_the_pass_keep_their_measured_ratio(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for each, spans in zip(timeline.rounds, timeline.spans, strict=True):
        for seconds, span in zip(each.draft_step_seconds, spans.steps, strict=True):
            assert span.duration == pytest.approx(seconds * spans.factor)
        assert spans.pulse.duration == pytest.approx(each.verify_seconds * spans.factor)
        assert spans.measured(spans.end) == pytest.approx(each.seconds)
        assert each.seconds * spans.factor <= LONGEST + 1e-9
        assert spans.factor <= timeline.factor


def test_the_baseline_pass_lasts_as_designed() -> None:
    run = runs.made_up(4)
    assert run.header is not None
    assert run.header.baseline is not None
    factor = full_loop.timeline(run).factor
    assert run.header.baseline.pass_seconds * factor == pytest.approx(PASS)


def test_the_compute_clock_stands_still_while_verdicts_are_explained() -> None:
    spans = full_loop.timeline(runs.made_up(4)).spans[2]
    after_pass = spans.measured(spans.pulse.end)
    assert spans.measured(spans.close.start) == spans.measured(spans.pulse.start)
    for t in (spans.crack.start, spans.shatter.end, spans.land.end, spans.end):
        assert spans.measured(t) == after_pass
    assert 0.0 < spans.measured(spans.pulse.start) < after_pass


@pytest.mark.parametrize("verify", [0.0, 1e-5, 0.02, 10.0])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_pulses_keep_under_the_flash_limit(k: int, verify: float) -> None:
    """Even at the fastest playback, with passes of any length."""
    run = runs.made_up(k, 0)
    for index in range(8):
        made = runs.make_round(index, ["a"] * k, [], " b", Settings(k=k), 0.0, verify)
        run = run.extend(made)
    spans = full_loop.timeline(run).spans
    for speed, pulses in ((BRISKEST, spans), (FASTEST, [each for each in spans if each.bright])):
        gaps = [b.pulse.start - a.pulse.start for a, b in itertools.pairwise(pulses)]
        assert min(gaps) / speed >= 1.0 / FLASHES_PER_SECOND - 1e-9
