"""The playback clock: it follows the tail, never passes it, and stops at beats."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from show import hand_run

from scenes import CATALOG
from visualizer import actions as act
from visualizer.clock import SPEEDS, PlaybackClock, carried_out
from visualizer.stage.schedule import FASTEST, FLASHES_PER_SECOND

LINE = CATALOG[0].timeline(hand_run())
SECONDS = st.floats(0, 100, allow_nan=False)


def test_plays_at_its_speed() -> None:
    assert PlaybackClock(t=1.0, speed=2.0).advance(0.5, end=10.0).t == 2.0


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 50)), max_size=30), SECONDS)
def test_never_passes_the_end_of_a_growing_timeline(
    steps: list[tuple[float, float]], start: float
) -> None:
    clock, end = PlaybackClock(speed=8.0), start
    for elapsed, growth in steps:
        end += growth
        before = clock.t
        clock = clock.advance(elapsed, end)
        assert before <= clock.t <= end


def test_waits_at_the_tail_and_goes_on_by_itself() -> None:
    clock = PlaybackClock(t=4.9).advance(1.0, end=5.0)
    assert (clock.t, clock.playing) == (5.0, True)
    assert clock.advance(0.5, end=9.0).t == 5.5


def test_a_timeline_that_shrank_pulls_the_clock_back() -> None:
    assert PlaybackClock(t=8.0, playing=False).advance(0.1, end=6.0).t == 6.0


def test_stepping_plays_to_the_beat_and_pauses_there() -> None:
    clock = PlaybackClock(t=1.0, playing=False).stepped_to(1.5)
    assert clock.playing
    clock = clock.advance(0.3, end=10.0)
    assert clock.playing
    clock = clock.advance(0.3, end=10.0)
    assert (clock.t, clock.playing, clock.stop_at) == (1.5, False, None)


def test_a_second_step_on_the_way_goes_there_at_once() -> None:
    clock = PlaybackClock(t=1.0, playing=False).stepped_to(1.5).stepped_to(2.0)
    assert (clock.t, clock.stop_at, clock.playing) == (1.5, 2.0, True)


def test_a_second_step_at_the_last_beat_stops_there() -> None:
    clock = PlaybackClock(t=1.0, playing=False).stepped_to(1.5).stepped_to(1.5)
    assert (clock.t, clock.playing, clock.stop_at) == (1.5, False, None)


def test_pausing_ends_a_step() -> None:
    clock = PlaybackClock(playing=False).stepped_to(3.0).toggled()
    assert (clock.playing, clock.stop_at) == (False, None)


@given(st.floats(allow_nan=False), SECONDS)
def test_seeking_stays_on_the_timeline(t: float, end: float) -> None:
    assert 0.0 <= PlaybackClock().moved_to(t, end).t <= end


def test_the_speed_ladder_ends_at_its_ends() -> None:
    clock = PlaybackClock()
    for _ in range(30):
        clock = clock.shifted_speed(1)
    assert clock.speed == SPEEDS[-1] == FASTEST  # beyond it pulses would come too often
    assert clock.at_speed(8.0).speed == FASTEST
    for _ in range(30):
        clock = clock.shifted_speed(-1)
    assert clock.speed == SPEEDS[0] == 0.1


def test_animation_time_equals_wall_time_under_jitter() -> None:
    """Cases G19: uneven frames change nothing about where the picture stands."""
    clock, wall = PlaybackClock(), 0.0
    for frame in range(600):
        elapsed = 0.015 + 0.015 * math.sin(frame * 1.7)
        wall += elapsed
        clock = clock.advance(elapsed, end=1e9)
    assert abs(clock.t - wall) < 1e-6


def test_a_loop_plays_its_stretch_over_and_over() -> None:
    clock, seen = PlaybackClock(t=3.0).looping(2.0, 4.0), []
    for _ in range(50):
        clock = clock.advance(0.3, end=100.0)
        seen.append(clock.t)
    assert all(2.0 <= t < 4.0 for t in seen)
    assert sum(after < before for before, after in pairwise(seen)) >= 6
    assert clock.unlooped().advance(3.0, end=100.0).t > 4.0


def test_a_short_loop_turns_at_most_three_times_a_second() -> None:
    """Each turn may flash once: at 8x a round of a second would flash too often."""
    clock = PlaybackClock(t=2.0, speed=8.0).looping(2.0, 2.5)
    turns, before = 0, clock.t
    for _ in range(600):
        clock = clock.advance(0.01, end=100.0)
        turns += clock.t < before
        before = clock.t
    assert 0 < turns <= 6 * FLASHES_PER_SECOND


def test_a_loop_comes_along_to_another_round_and_a_step_leaves_it() -> None:
    clock = carried_out(PlaybackClock(), act.ToggleLoop(), LINE, LINE.duration)
    assert clock.loop == (LINE.spans[0].start, LINE.spans[0].end)
    moved = carried_out(clock, act.NextRound(), LINE, LINE.duration)
    assert moved.loop == (LINE.spans[1].start, LINE.spans[1].end)
    dragged = carried_out(clock, act.Seek(LINE.spans[2].start + 0.1), LINE, LINE.duration)
    assert dragged.loop == (LINE.spans[2].start, LINE.spans[2].end)
    assert carried_out(clock, act.NextBeat(), LINE, LINE.duration).loop is None
    assert carried_out(clock, act.ToggleLoop(), LINE, LINE.duration).loop is None


def test_with_nothing_on_stage_no_action_moves_the_clock() -> None:
    for action in (act.NextBeat(), act.NextRound(), act.ToggleLoop(), act.Seek(5.0)):
        assert carried_out(PlaybackClock(), action, None, 0.0) == PlaybackClock()
