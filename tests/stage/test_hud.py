"""What the panels say: only what has been shown, in words that fit."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from engine import codec
from engine.stats import Stats
from engine.trace import RunProof, Trace
from scenes import full_loop
from visualizer.stage.hud import tell
from visualizer.stage.theme import ROLES

ROOT = Path(__file__).parents[2]
HAND = codec.read_run(ROOT / "tests/data/hand.jsonl")
FILES = [*sorted((ROOT / "assets" / "runs").glob("*.jsonl")), ROOT / "tests/data/hand.jsonl"]


@pytest.fixture(params=FILES, ids=lambda path: path.stem, name="run")
def _run(request: pytest.FixtureRequest) -> Trace:
    return codec.read_run(request.param)


def test_a_round_counts_once_its_last_token_has_landed(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for spans in timeline.spans:
        landing = tell(run, timeline, spans.land.end - 1e-6)
        landed = tell(run, timeline, spans.land.end)
        if spans.land.duration:
            assert landing.shown == spans.index
        assert landed.shown == spans.index + 1
        assert landed.pending == ()
        assert "".join(piece.text for piece in landed.committed) == run[: landed.shown].text


def test_numbers_are_those_of_the_shown_rounds_since_a_setting_changed() -> None:
    timeline = full_loop.timeline(HAND)
    assert HAND.header is not None
    for spans in timeline.spans:
        hud = tell(HAND, timeline, spans.end - 1e-6)
        shown = HAND.rounds[: spans.index + 1]
        since = [r for r in shown if r.settings == shown[-1].settings]
        assert hud.rounds[-1] == shown[-1]
        assert hud.stats == Stats.of(hud.rounds, HAND.header.baseline)
        assert len(hud.rounds) <= len(since)
        assert all(each.settings == shown[-1].settings for each in hud.rounds)
        assert hud.histogram == hud.stats.histogram
    first_dialled = tell(HAND, timeline, timeline.spans[4].end - 1e-6)
    assert first_dialled.stats.rounds == 1
    assert first_dialled.ghost == Stats.of(HAND.rounds[:4]).histogram


def test_the_compute_clock_only_goes_forward_and_ends_at_the_measured_time(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    steps = 400
    clock = [
        tell(run, timeline, timeline.duration * step / steps).compute_seconds
        for step in range(steps + 1)
    ]
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(clock))
    assert clock[-1] == pytest.approx(sum(each.seconds for each in run.rounds))


def test_captions_are_short_and_coloured_by_role(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for spans in timeline.spans:
        for step in range(40):
            t = spans.start + (spans.end - spans.start) * step / 40
            pieces = tell(run, timeline, t).caption
            words = "".join(piece.text for piece in pieces).split()
            assert len(words) <= 14
            assert "*" not in "".join(p.text for p in pieces).replace("“*”", "")
            assert all(piece.role in ROLES for piece in pieces)


def test_pending_words_take_the_colour_of_their_verdict() -> None:
    timeline = full_loop.timeline(HAND)
    spans = timeline.spans[2]  # accepts the first, rejects the second, discards the third

    def roles(t: float) -> list[str]:
        return [piece.role for piece in tell(HAND, timeline, t).pending]

    assert roles(spans.approach.end - 1e-6) == []
    assert roles(spans.pulse.end) == ["guess"] * 3
    assert roles(spans.verdicts[0].end) == ["committed", "guess", "guess"]
    assert roles(spans.shatter.start) == ["committed", "rejected", "discarded"]
    assert roles(spans.land.start) == ["committed", "correction"]


def test_half_a_character_shows_its_bytes_while_it_is_pending() -> None:
    timeline = full_loop.timeline(HAND)
    hud = tell(HAND, timeline, timeline.spans[6].pulse.end)
    assert hud.pending[0].text == "⟨F0 9F⟩"


def test_the_end_is_told_when_everything_has_been_shown() -> None:
    timeline = full_loop.timeline(HAND)
    assert tell(HAND, timeline, timeline.duration - 0.01).end is None
    assert tell(HAND, timeline, timeline.duration).end == HAND.end
    proven = HAND.extend(RunProof(17))
    assert tell(proven, timeline, timeline.duration - 0.01).proof is None
    assert tell(proven, timeline, timeline.duration).proof == RunProof(17)
    empty = Trace()
    hud = tell(empty, full_loop.timeline(empty), 3.0)
    assert (hud.shown, hud.round_index, hud.caption, hud.committed) == (0, -1, (), ())
    assert hud.stats.speedup is None


def test_an_automatic_k_keeps_the_numbers_together_and_says_why() -> None:
    """Rounds with a K of the engine's own choice are one stretch: no ghost, no new histogram."""
    auto = replace(HAND.rounds[0].settings, auto_k=True)
    rounds = tuple(
        replace(each, settings=replace(auto, k=3 + each.index % 2), k_reason=f"K for {each.index}")
        for each in HAND.rounds[:4]
    )
    run = Trace(HAND.header, rounds)
    timeline = full_loop.timeline(run)
    last = tell(run, timeline, timeline.spans[3].end - 1e-6)
    assert last.stats.rounds == 4
    assert last.ghost == ()
    assert last.k_reason == "K for 3"
    by_hand = replace(rounds[3], settings=HAND.rounds[3].settings, k_reason="")
    changed = Trace(HAND.header, (*rounds[:3], by_hand))
    line = full_loop.timeline(changed)
    hud = tell(changed, line, line.spans[3].end - 1e-6)
    assert (hud.stats.rounds, sum(hud.ghost), hud.k_reason) == (1, 3, "")
