"""What is worked out beforehand and remembered makes no picture another one."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import runs

from engine import codec
from engine.trace import Trace
from scenes.full_loop import compose, timeline
from visualizer.stage import company, judged, stand, text
from visualizer.stage.frame import Frame
from visualizer.stage.moment import Moment
from visualizer.stage.stand import stand_for
from visualizer.stage.theme import theme
from visualizer.stage.timeline import Timeline
from visualizer.stage.view import View

HYBRID = Path(__file__).parents[2] / "assets" / "runs" / "1-photosynthesis-hybrid.jsonl"
RECORDED = codec.read_run(HYBRID)
VIEWS = (
    View(),
    View(theme="light", preset="top", scale=1.5),
    View(preset="follow", reduce_motion=True),
    View(preset="close", fast=True),
)
Scene = tuple[Trace, Timeline, float, View]


def remembering() -> list[Any]:
    """Every function of the stage and of the lessons that remembers what it made of a run.

    What letters look like is no run's.
    """
    found = [each for each in gc.get_objects() if type(each).__name__ == "_lru_cache_wrapper"]
    stage = [each for each in found if each.__module__.startswith(("visualizer.stage", "scenes"))]
    return [each for each in stage if each.__module__ != text.__name__]


def forget() -> None:
    for each in remembering():
        each.cache_clear()


def some_run(rng: random.Random) -> Trace:
    k, rounds = rng.choice((1, 3, 4, 8)), rng.randint(2, 9)
    match rng.randrange(4):
        case 0:
            return replace(RECORDED, rounds=RECORDED.rounds[: 3 * rounds])
        case 1:
            return runs.grown(k, rounds, rng.randrange(99))
        case _:
            accepts = tuple(rng.randint(0, k) for _ in range(rounds))
            return runs.made_up(k, rounds, rng.random() < 0.5, accepts)


def moments(seed: int, count: int = 12) -> Iterator[Scene]:
    """Moments of several runs in no order: what is remembered of one must not do for another."""
    rng = random.Random(seed)
    traces = [some_run(rng) for _ in range(3)]
    lines = [timeline(trace) for trace in traces]
    for _ in range(count):
        which = rng.randrange(len(traces))
        line, trace = lines[which], traces[which]
        beats = [beat.time for beat in line.beats()] or [0.0]
        t = rng.choice((rng.uniform(0.0, line.duration), rng.choice(beats)))
        yield trace, line, t, rng.choice(VIEWS)


def pictures(seed: int, anew: bool) -> list[Frame]:
    found = []
    for trace, line, t, view in moments(seed):
        if anew:
            forget()
        found.append(compose(trace, line, t, view))
    return found


def alike(some: list[Frame], others: list[Frame]) -> bool:
    return all(one.equals(other) for one, other in zip(some, others, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_a_picture_made_from_memory_is_the_picture_made_anew(seed: int) -> None:
    fresh = pictures(seed, anew=True)
    assert alike(fresh, pictures(seed, anew=False))
    assert alike(fresh, pictures(seed, anew=False)), "with everything remembered"
    assert remembering()


@pytest.mark.parametrize(
    ("module", "name"),
    [(judged, "_course"), (company, "_casts"), (stand, "_stand_for")],
)
def test_a_memory_that_takes_one_run_for_another_is_found_out(
    module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, kept = getattr(module, name).__wrapped__, {}

    def muddled(run: object, index: int, *rest: object) -> object:
        return kept.setdefault((index, *rest), work(run, index, *rest))

    fresh = [pictures(seed, anew=True) for seed in range(3)]
    monkeypatch.setattr(module, name, muddled)
    try:
        muddle = [pictures(seed, anew=False) for seed in range(3)]
    except (IndexError, ValueError):
        return  # rounds of different lengths
    assert not all(map(alike, fresh, muddle))


@pytest.mark.parametrize("seed", range(8))
def test_guesses_judged_as_arrays_are_judged_one_by_one(seed: int) -> None:
    """Against the spans themselves, at any time and exactly at the beats."""
    for trace, line, t, view in moments(seed, 40):
        now = line.round_at(t)
        if now < 0 or not trace.rounds[now].guesses:
            continue
        where = stand_for(line.page, now, view.preset, view)
        j = judged.Judged.at(Moment(line, now, t, view, theme(view.theme), where))
        for slot, guess in enumerate(trace.rounds[now].guesses):
            spans = line.spans[now]
            assert j.dropped[slot] == (t >= spans.drops[slot].start)
            assert j.fallen[slot] == pytest.approx(spans.drops[slot].progress(t))
            read = 0.0
            if slot in spans.order:
                read = spans.verdicts[spans.order.index(slot)].progress(t)
            assert j.read[slot] == read
            assert j.kept[slot] == (guess.verdict == "accepted" and read >= 1.0)
            if guess.verdict == "rejected":
                assert (j.gone[slot] > 0) == (t > spans.cracks[spans.order.index(slot)].end)
            if guess.verdict == "accepted":
                assert j.gone[slot] == j.let_go[slot] == j.refused[slot] == j.cracked[slot] == 0.0
                assert j.fill[slot] == pytest.approx(1.0) or read < 1.0
