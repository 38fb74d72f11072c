"""Copied guesses: the picture shows where they were really copied from."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from engine.trace import Trace
from scenes import full_loop
from tests.stage.drafted import run_of
from visualizer.stage import arcs, origins, pick, quotes
from visualizer.stage.layout import HEIGHT
from visualizer.stage.moment import Moment
from visualizer.stage.origins import Run, Spot
from visualizer.stage.stand import stand_for
from visualizer.stage.theme import theme
from visualizer.stage.timeline import Timeline
from visualizer.stage.view import View

RUNS = {name: run_of(name, 30) for name in ("n-gram", "retrieval", "hybrid")}
RUNS["raw"] = run_of("n-gram", 30, chat=False)
RUNS["wide"] = run_of("retrieval", 30, k=8)


@pytest.fixture(params=RUNS, name="run")
def _run(request: pytest.FixtureRequest) -> Trace:
    return RUNS[request.param]


def moment(timeline: Timeline, index: int, share: float = 1.0) -> Moment:
    """A moment while guesses of a round are made."""
    spans, view = timeline.spans[index], View()
    stand = stand_for(timeline.page, index, view.preset, view)
    start = spans.approach.end
    t = start + share * (spans.close.start - start)
    return Moment(timeline, index, t, view, theme("dark"), stand)


def test_each_copied_guess_is_in_one_phrase_and_phrases_go_on_unbroken(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for each in run.rounds:
        found = origins.runs(timeline, each.index)
        slots = [slot for phrase in found for slot in range(phrase.first, phrase.last)]
        assert slots == [slot for slot, guess in enumerate(each.guesses) if guess.copied]
        for phrase in found:
            for slot in range(phrase.first, phrase.last):
                origin = each.guesses[slot].origin
                assert (origin is None) == (phrase.origin is None)
                if phrase.origin is not None:
                    assert origin == phrase.origin + slot - phrase.first


def test_the_copied_words_are_the_words_at_their_origin(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for each in run.rounds:
        for guess in each.guesses:
            if guess.origin is not None:
                assert origins.token_at(timeline, each.index, guess.origin) == guess.token


def test_what_is_marked_as_found_again_is_the_same_at_both_places(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for each in run.rounds:
        for phrase in origins.runs(timeline, each.index):
            end = each.position + phrase.first
            for back in range(1, phrase.matched + 1):
                assert phrase.origin is not None
                one = origins.token_at(timeline, each.index, phrase.origin - back)
                assert one == origins.token_at(timeline, each.index, end - back)


# --- where they are seen ----------------------------------------------------------------------

Where = Callable[[Timeline, int, int], Spot | None]


def seen_there(run: Trace, where: Where) -> bool:
    """Whether every committed token's spot is a block or a tile of the picture."""
    timeline = full_loop.timeline(run)
    header = run.header
    assert header is not None
    for index in (3, 11, 29):
        m = moment(timeline, index)
        frame = full_loop.compose(run, timeline, m.t, m.view)
        drawn = np.concatenate(
            [frame.solids["center"][:, [0, 2]], frame.tiles["center"][:, [0, 2]]]
        )
        for position in range(len(header.prompt_tokens), run.rounds[index].position):
            spot = where(timeline, index, position)
            if spot is None or np.abs(drawn - (spot.x, spot.z)).sum(axis=1).min() > 1e-3:
                return False
    return True


def test_a_spot_is_where_its_token_is_drawn(run: Trace) -> None:
    def right(timeline: Timeline, index: int, position: int) -> Spot | None:
        return origins.spot(timeline, index, position, moment(timeline, index).stand)

    def standing(timeline: Timeline, index: int, position: int) -> Spot | None:
        """The twin: forgets that old lines have become tiles that are gathered up."""
        slot = origins.slot_at(timeline, index, position)
        return None if slot is None else Spot(slot.center, slot.z, slot.width / 2, HEIGHT)

    assert seen_there(run, right)
    assert not seen_there(run, standing)


def arcs_are_right(run: Trace, shift: int = 0) -> bool:
    """Whether each arc begins over its own words (the twin is off by `shift`) and ends on the
    slots that they fill."""
    timeline = full_loop.timeline(run)
    for each in run.rounds:
        m = moment(timeline, each.index)
        for phrase in origins.runs(timeline, each.index):
            path = arcs.path(m, phrase)
            left = m.place.guesses[phrase.first].left
            right = m.place.guesses[phrase.last - 1].right
            assert left <= path[3][0] <= right
            assert path[3][1] == pytest.approx(HEIGHT)
            if phrase.origin is None or quotes.place(m, phrase) is not None:
                continue
            moved = Run(phrase.first, phrase.last, phrase.origin + shift, phrase.matched)
            spots = [
                origins.spot(timeline, each.index, position, m.stand)
                for position in range(phrase.origin, phrase.origin + phrase.last - phrase.first)
            ]
            low = min(spot.x - spot.half for spot in spots if spot)
            high = max(spot.x + spot.half for spot in spots if spot)
            start = arcs.path(m, moved)[0]
            middle = (low + high) / 2
            if abs(start[0] - middle) > 1e-6:
                return False
    return True


def test_an_arc_begins_over_its_phrase_and_ends_on_its_guesses(run: Trace) -> None:
    assert arcs_are_right(run)


def test_an_arc_from_the_word_beside_is_found() -> None:
    assert not arcs_are_right(RUNS["n-gram"], shift=1)


def test_a_phrase_that_cannot_be_read_is_written_out() -> None:
    """And only such a one: words that stand there need no second telling."""
    run = RUNS["n-gram"]
    timeline = full_loop.timeline(run)
    told = set()
    for each in run.rounds:
        m = moment(timeline, each.index)
        phrases = origins.runs(timeline, each.index)
        for number, phrase in enumerate(phrases):
            spot = origins.phrase(timeline, each.index, phrase, m.stand)
            assert spot is not None
            strong = (np.arange(len(phrases)) == number).astype(float)
            written = bool((quotes.rows(m, strong)["color"][:, 3] > 0.0).any())
            told.add((spot.height > 0.0, written))
            if spot.height == 0.0:
                assert written
    assert (True, False) in told  # blocks that stand, and nothing is written over them
    assert (False, True) in told


def test_carried_guesses_leave_their_words_and_arrive_in_their_slots(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for each in run.rounds[:12]:
        m = moment(timeline, each.index)
        count = len(each.guesses)
        assert arcs.falling(m, np.ones(count)) == pytest.approx(np.zeros((count, 3)), abs=1e-9)
        ways = np.array([arcs.falling(m, np.full(count, share)) for share in (0.0, 0.5, 0.9, 1.0)])
        far = np.linalg.norm(ways, axis=2)
        assert all((after < before).all() for before, after in pairwise(far))
        for slot, guess in enumerate(each.guesses):
            straight = np.abs(ways[0, slot, [0, 2]]).max() < 1e-9
            assert straight == (not guess.copied)


def test_clicking_the_shelf_is_clicking_the_drafter() -> None:
    run = RUNS["retrieval"]
    timeline = full_loop.timeline(run)
    m = moment(timeline, 4)
    frame = full_loop.compose(run, timeline, m.t, m.view)
    books = frame.solids[frame.solids["pick"] == pick.encode(4, pick.DRAFT)]
    assert len(books) > 5
    assert (books["center"][:, 0] > m.stand.target[0]).all()
