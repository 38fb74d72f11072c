"""What the picture promises where guesses branch."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import runs

from engine import codec
from engine.trace import Round, Settings, Trace
from scenes import full_loop
from visualizer.stage import camera, layout, pick, schedule, stand, tree
from visualizer.stage.frame import Frame
from visualizer.stage.hud import tell
from visualizer.stage.layout import DEPTH, EM, HEIGHT, Page, Place, Slot
from visualizer.stage.theme import theme
from visualizer.stage.timeline import RoundSpans, Timeline
from visualizer.stage.view import Preset, View

ROOT = Path(__file__).parents[2]
HAND = codec.read_run(ROOT / "tests/data/tree.jsonl")
RUNS = {"by hand": HAND}
RUNS |= {f"of {k}, {seed}": runs.grown(k, 8, seed) for k in (3, 8, 16) for seed in (1, 2)}
EIGHT, SIXTEEN = 3, 4  # rounds of the hand-worked run


@pytest.fixture(params=RUNS, name="run")
def _run(request: pytest.FixtureRequest) -> Trace:
    return RUNS[request.param]


def branched(timeline: Timeline) -> list[tuple[Round, Place, RoundSpans]]:
    found = zip(timeline.rounds, timeline.page.places, timeline.spans, strict=True)
    return [each for each in found if tree.branched(each[0])]


def blocks(frame: Frame) -> np.ndarray:
    return np.concatenate([frame.solids, frame.glass])


def mine(frame: Frame, index: int) -> dict[int, np.void]:
    """Blocks of a round, by slot."""
    named = [(pick.decode(int(row["pick"])), row) for row in blocks(frame)]
    return {found[1]: row for found, row in named if found and found[0] == index}


def overlap(frame: Frame) -> bool:
    rows = blocks(frame)
    apart = np.abs(rows["center"][:, None] - rows["center"]) - (
        rows["half"][:, None] + rows["half"]
    )
    touching = (apart < -1e-5).all(axis=2)
    np.fill_diagonal(touching, False)
    return bool(touching.any())


# --- where they stand ----------------------------------------------------------------------


def test_no_two_blocks_overlap_but_while_the_path_slides(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for _, _, spans in branched(timeline):
        times = np.linspace(spans.approach.end, spans.end - 1e-6, 40)
        for t in times[(times < spans.slide.start) | (times >= spans.slide.end)]:
            assert not overlap(full_loop.compose(run, timeline, float(t), View())), (spans.index, t)


def test_a_flat_tree_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: lanes that do not rise."""
    monkeypatch.setattr(layout, "RISE", 0.0)
    monkeypatch.setattr(layout, "BACK", 0.3)
    timeline = full_loop.timeline(HAND)
    spans = timeline.spans[EIGHT]
    assert overlap(full_loop.compose(HAND, timeline, spans.pulse.start, View()))


def test_parents_stand_left_of_their_children_with_room_for_branches(run: Trace) -> None:
    for each, place, _ in branched(full_loop.timeline(run)):
        for slot, parent in enumerate(each.parents):
            end = place.root if parent == tree.ROOT else place.guesses[parent].right
            assert place.guesses[slot].left - end >= layout.BRANCH - 1e-9


def chain_of(page: Page, index: int, each: Round) -> Place:
    """Where a chain of what survives of `each` would lie, begun where the tree was begun."""
    place = page.places[index]
    kept = tuple(replace(each.guesses[slot], parent=None) for slot in each.path)
    alone = replace(each, guesses=kept) if kept else replace(each, guesses=each.guesses[:1])
    return layout._place(alone, place.line, place.root, ())


def test_the_path_ends_where_a_chain_of_these_tokens_would_lie(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for each, place, spans in branched(timeline):
        chain = chain_of(timeline.page, each.index, each)
        assert place.kept == chain.kept
        assert (place.cursor, place.cursor_line) == (chain.cursor, chain.cursor_line)
        frame = full_loop.compose(run, timeline, spans.end - 1e-6, View())
        found = mine(frame, each.index)
        for slot, its in zip(each.path, place.settled, strict=True):
            assert found[slot]["center"] == pytest.approx((its.center, HEIGHT / 2, its.z), abs=1e-5)
        assert set(found) == {*each.path, *([pick.EMITTED] if each.emitted else [])}


def test_what_slides_nowhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: survivors that stay where they were judged."""
    monkeypatch.setattr(full_loop, "slid", lambda place, centers, progress: centers)
    timeline = full_loop.timeline(HAND)
    frame = full_loop.compose(HAND, timeline, timeline.spans[EIGHT].end - 1e-6, View())
    settled = timeline.page.places[EIGHT].settled
    found = mine(frame, EIGHT)
    ends = zip(HAND.rounds[EIGHT].path, settled, strict=True)
    assert any(abs(found[slot]["center"][0] - its.center) > 0.1 for slot, its in ends)


def test_the_slide_begins_and_ends_at_rest(run: Trace) -> None:
    """Survivors leave their lanes only while they slide, and never jump."""
    timeline = full_loop.timeline(run)
    for each, place, spans in branched(timeline):
        if not each.path:
            assert spans.slide.duration == 0.0
            continue
        before = mine(full_loop.compose(run, timeline, spans.slide.start, View()), each.index)
        for slot in each.path:
            its = place.guesses[slot]
            there = (its.center, its.y + HEIGHT / 2, its.z)
            assert before[slot]["center"] == pytest.approx(there, abs=1e-4)
        last = before
        ends = dict(zip(each.path, place.settled, strict=True))
        for t in np.linspace(spans.slide.start, spans.slide.end, 30):
            now = mine(full_loop.compose(run, timeline, float(t), View()), each.index)
            for slot, its in ends.items():
                way = before[slot]["center"] - (its.center, HEIGHT / 2, its.z)
                step = now[slot]["center"] - last[slot]["center"]
                assert np.linalg.norm(step) <= 0.08 * np.linalg.norm(way) + 1e-5
            last = now


def test_the_box_encloses_every_guess(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for each, place, spans in branched(timeline):
        frame = full_loop.compose(run, timeline, spans.pulse.start + 1e-6, View())
        (box,) = frame.boxes
        found = mine(frame, each.index)
        assert set(found) == set(range(len(each.guesses)))
        for row in found.values():
            room = box["half"] - row["half"] - np.abs(row["center"] - box["center"])
            assert (room >= -0.02).all()  # its foot is a hair above the ground
        assert box["fill"] == 1.0, "open: no edge crosses the words in it"
        assert (place.lanes - 1) * layout.RISE + HEIGHT < 2 * box["half"][1]


def test_the_lines_behind_make_room(run: Trace) -> None:
    """Nothing stands behind a tree; what was written lies in the ribbon, in order."""
    timeline = full_loop.timeline(run)
    for _, place, spans in branched(timeline):
        frame = full_loop.compose(run, timeline, spans.pulse.end, View())
        behind = frame.solids["center"][:, 2] < place.line * layout.PITCH - 1e-3
        assert not behind.any()


def test_the_prompt_is_not_named_where_it_has_sunk() -> None:
    run = runs.grown(8, 2, 1)
    timeline = full_loop.timeline(run)
    start = timeline.page.prompt.lines[-1][0].z - timeline.page.prompt.back
    for t, named in ((0.0, True), (timeline.spans[0].pulse.end, False)):
        frame = full_loop.compose(run, timeline, t, View())
        aside = frame.glyphs[frame.glyphs["origin"][:, 0] < -0.3]
        here = np.abs(aside["origin"][:, 2] - start) < 0.5
        assert (aside["color"][here, 3] > 0.01).any() == named


# --- reading it ----------------------------------------------------------------------------


def covered(frame: Frame, place: Place, index: int, preset: Preset) -> set[int]:
    """Slots of whose words some part is hidden behind another block."""
    hidden = set()
    steep = preset == "top"
    for number, slot in enumerate(place.guesses):
        wide = slot.label.width / 2
        for dx, dy in itertools.product((-wide, 0.0, wide), (-0.25 * EM, 0.25 * EM)):
            point = (
                (slot.center + dx, slot.y + HEIGHT, slot.z - dy)
                if steep
                else (slot.center + dx, slot.y + HEIGHT / 2 + dy, slot.z + DEPTH / 2)
            )
            x, y = camera.project(frame.camera, np.array([point]), 1280, 720)[0]
            if pick.hit(frame, float(x), float(y), 1280, 720) != pick.encode(index, number):
                hidden.add(number)
    return hidden


@pytest.mark.parametrize("preset", ["default", "side", "top", "follow", "close"])
def test_every_word_is_seen_whole(run: Trace, preset: Preset) -> None:
    timeline = full_loop.timeline(run)
    for each, place, spans in branched(timeline):
        view = View(preset=preset, free=(0.22, 0.17, 1.0, 0.92))
        frame = full_loop.compose(run, timeline, spans.pulse.end, view)
        assert not covered(frame, place, each.index, preset), (each.index, preset)


def test_words_that_hide_each_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: lanes behind each other on the ground."""
    monkeypatch.setattr(layout, "RISE", 0.0)
    timeline = full_loop.timeline(HAND)
    frame = full_loop.compose(HAND, timeline, timeline.spans[EIGHT].pulse.end, View())
    assert covered(frame, timeline.page.places[EIGHT], EIGHT, "default")


def test_a_tall_tree_is_parted() -> None:
    """Many siblings after the text stand side by side in parts, as many of them as it takes."""
    for many, parts, lanes in ((5, 1, 5), (6, 2, 3), (8, 2, 4), (16, 4, 4)):
        each = runs.make_tree(0, (-1,) * many, [" word"] * many, (), " so", Settings(k=many))
        (place,) = full_loop.timeline(Trace(runs.header(), (each,))).page.places
        assert len({slot.left for slot in place.guesses}) == parts
        assert place.lanes == lanes
        seen = [(slot.left, slot.lane) for slot in place.guesses]
        assert seen == sorted(seen), "elder ones left, and lower"


def test_branches_join_each_guess_to_the_one_it_follows(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for each, place, spans in branched(timeline):
        frame = full_loop.compose(run, timeline, spans.pulse.start, View())
        wanted, trunks = set(), set()
        foot = (HEIGHT / 2, place.line * layout.PITCH)
        for slot, parent in enumerate(each.parents):
            its = place.guesses[slot]
            end = (its.left, its.y + HEIGHT / 2, its.z)
            if parent == tree.ROOT:
                start = (its.left - layout.BRANCH, *foot)
                trunks.add(start[0])
            else:
                above = place.guesses[parent]
                start = (above.right, above.y + HEIGHT / 2, above.z)
            wanted.add(tuple(round(x, 3) for x in (*start, *end)))
        for x in trunks:  # of parts that stand further right
            if x > place.root + 1e-6:
                wanted.add(tuple(round(y, 3) for y in (place.root, *foot, x, *foot)))
        drawn = {
            tuple(round(float(x), 3) for x in (*row["start"], *row["end"])) for row in frame.ribbons
        }
        assert wanted <= drawn


def thickness(run: Trace, index: int) -> dict[int, float]:
    """How thick the branch to each guess of a round is drawn while the target reads them."""
    timeline = full_loop.timeline(run)
    place, spans = timeline.page.places[index], timeline.spans[index]
    rows = full_loop.compose(run, timeline, spans.pulse.start, View()).ribbons
    found = {}
    for slot, its in enumerate(place.guesses):
        end = np.array((its.left, its.y + HEIGHT / 2, its.z))
        (row,) = rows[np.abs(rows["end"] - end).max(axis=1) < 1e-3]
        found[slot] = float(row["width"])
    return found


@pytest.mark.parametrize("index", [EIGHT, SIXTEEN])
def test_a_branch_is_as_thick_as_its_drafter_thought_it_likely(index: int) -> None:
    """From the text on, so that it thins out; where no drafter says so, all are alike."""
    each, thick = HAND.rounds[index], thickness(HAND, index)
    hopes = tree.hopes(each)
    for slot, parent in enumerate(each.parents):
        own = each.guesses[slot].confidence
        assert own is not None
        assert hopes[slot] == pytest.approx(own * (1.0 if parent == tree.ROOT else hopes[parent]))
    order = sorted(thick, key=lambda slot: hopes[slot])
    assert all(thick[a] <= thick[b] + 1e-6 for a, b in itertools.pairwise(order))
    assert thick[order[-1]] > 1.5 * thick[order[0]]
    untold = tuple(replace(guess, confidence=None) for guess in each.guesses)
    rounds = tuple(replace(r, guesses=untold) if r is each else r for r in HAND.rounds)
    assert len(set(thickness(replace(HAND, rounds=rounds), index).values())) == 1


# --- judging it ----------------------------------------------------------------------------


def bursts(each: Round, spans: RoundSpans) -> list[float]:
    """When refused guesses burst, in order; those that do so together count once."""
    judged = zip(spans.order, spans.cracks, strict=True)
    return sorted({c.end for slot, c in judged if each.guesses[slot].verdict == "rejected"})


def test_siblings_are_tried_in_order_and_refused_ones_burst_together(run: Trace) -> None:
    for each, _, spans in branched(full_loop.timeline(run)):
        assert spans.order == tree.judged(each)
        for sooner, later in itertools.pairwise(spans.verdicts):
            assert later.start >= sooner.end - 1e-9
        for slot, crack in zip(spans.order, spans.cracks, strict=True):
            same = [s for s in tree.siblings(each, slot) if s in spans.order]
            told = {spans.verdicts[spans.order.index(s)].end for s in same}
            assert crack.start == max(told), "once it is decided which of them passes"
            after = [v.start for v in spans.verdicts if v.start >= max(told)]
            assert all(start >= crack.end - 1e-9 for start in after)
        gaps = [later - sooner for sooner, later in itertools.pairwise(bursts(each, spans))]
        assert all(gap >= 1.0 / schedule.FLASHES_PER_SECOND for gap in gaps)


def test_bursts_that_come_too_fast_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: verdicts of a tree much quicker than a chain's."""
    monkeypatch.setattr(schedule, "VERDICT_TREE", 0.1)
    each, spans = HAND.rounds[EIGHT], full_loop.timeline(HAND).spans[EIGHT]
    gaps = [later - sooner for sooner, later in itertools.pairwise(bursts(each, spans))]
    assert min(gaps) < 1.0 / schedule.FLASHES_PER_SECOND


def test_each_refused_guess_bursts_once_where_it_stood(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    for each, place, spans in branched(timeline):
        for slot, crack in zip(spans.order, spans.cracks, strict=True):
            frame = full_loop.compose(run, timeline, crack.end + 0.02, View())
            its = place.guesses[slot]
            at = (its.center, its.y + HEIGHT / 2, its.z)
            here = [row for row in frame.shatters if row["center"] == pytest.approx(at, abs=1e-4)]
            refused = each.guesses[slot].verdict == "rejected"
            assert len(here) == refused
            assert (slot in mine(frame, each.index)) != refused


def test_what_is_never_judged_goes_hollow_and_fades_without_moving(run: Trace) -> None:
    timeline = full_loop.timeline(run)
    grey = np.array(theme("dark").linear("discarded"))
    for each, place, spans in branched(timeline):
        for slot, guess in enumerate(each.guesses):
            if guess.verdict != "discarded":
                continue
            told = spans.fates[slot].start
            asked = full_loop.compose(run, timeline, told, View())
            hollow = full_loop.compose(run, timeline, told + 0.21, View())
            before, after = (mine(frame, each.index).get(slot) for frame in (asked, hollow))
            assert before is not None
            if after is not None:
                assert after["color"][3] < before["color"][3]
                assert after["color"][:3] == pytest.approx(grey, abs=1e-5)
                assert after["center"] == pytest.approx(before["center"])
            gone = full_loop.compose(run, timeline, spans.slide.start, View())
            assert slot not in mine(gone, each.index)
            assert place.guesses[slot] not in place.kept


def test_nothing_moves_where_motion_is_reduced(run: Trace) -> None:
    """Survivors fade out above and in on the line; everything else stays where it stands."""
    timeline, view = full_loop.timeline(run), View(reduce_motion=True)
    for each, place, spans in branched(timeline)[:5]:
        seen: dict[int, set[tuple[float, ...]]] = {}
        for t in np.linspace(spans.start, spans.end - 1e-6, 80):
            frame = full_loop.compose(run, timeline, float(t), view)
            assert not len(frame.shatters)
            for slot, row in mine(frame, each.index).items():
                seen.setdefault(slot, set()).add(tuple(round(float(x), 4) for x in row["center"]))
        for slot, places in seen.items():
            assert len(places) <= 1 + (slot in place.path)


def test_stepping_stops_where_siblings_are_decided() -> None:
    timeline = full_loop.timeline(HAND)
    for each, _, spans in branched(timeline):
        stops = [beat for beat in spans.beats if beat.phase == "verdicts"]
        levels = {tree.depths(each.parents)[slot] for slot in tree.judged(each)}
        assert len(stops) == len(levels)
        slides = [beat for beat in spans.beats if beat.phase == "slide"]
        assert len(slides) == (each.accepted > 0)


def test_the_picture_tells_of_the_tree_in_words() -> None:
    timeline = full_loop.timeline(HAND)
    spans = timeline.spans[EIGHT]

    def said(t: float) -> str:
        return "".join(piece.text for piece in tell(HAND, timeline, t).caption)

    assert said(spans.approach.end) == "The drafter grows a tree of 8 guesses, 3 deep."
    assert "every branch" in said(spans.close.start)
    first, second = spans.verdicts[:2]
    assert said(first.start) == "“↵” is rejected, sibling 1 of 2: draw 0.50 is not under 0.25."
    assert said(spans.cracks[0].start) == said(second.start), "until the refused one has burst"
    assert said(second.start).startswith("“Everyone” is accepted, sibling 2 of 2")
    assert said(spans.shatter.start) == "The path of 2 survives; 2 were never judged."
    assert said(spans.slide.start) == "The path of 2 comes down onto the line."
    assert "correction takes their place" in said(spans.land.start)
    leaf = timeline.spans[SIXTEEN]
    assert "ends at a leaf: a bonus" in said(leaf.land.start)
    none = timeline.spans[1]
    assert said(none.shatter.start).startswith("All siblings are rejected")


def test_the_text_bar_shows_the_branch_on_trial() -> None:
    timeline = full_loop.timeline(HAND)
    spans = timeline.spans[EIGHT]

    def pending(t: float) -> list[tuple[str, str]]:
        return [(piece.text, piece.role) for piece in tell(HAND, timeline, t).pending]

    assert pending(spans.pulse.end) == [("\n", "guess"), ("\n", "guess")]
    assert pending(spans.verdicts[1].end) == [
        (" Everyone", "committed"),
        (" had", "guess"),
        (" to", "guess"),
    ]
    assert pending(spans.shatter.end) == [
        (" Everyone", "committed"),
        (" waited", "committed"),
        (" for", "rejected"),
    ]
    assert pending(spans.land.start) == [
        (" Everyone", "committed"),
        (" waited", "committed"),
        (" in", "correction"),
    ]


def test_a_tree_like_a_chain_is_drawn_as_one() -> None:
    """Nobody has a sibling: nothing of the picture differs from a chain's."""
    settings = Settings(k=3)
    parents = (-1, 0, 1)
    made = runs.make_tree(0, parents, [" a", " b", " c"], (0,), " d", settings)
    plain = replace(made, guesses=tuple(replace(guess, parent=None) for guess in made.guesses))
    header = runs.header()
    frames = []
    for each in (made, plain):
        run = Trace(header, (each,))
        timeline = full_loop.timeline(run)
        times = np.linspace(0.0, timeline.duration, 40)
        frames.append([full_loop.compose(run, timeline, float(t), View()) for t in times])
    assert all(one.equals(other) for one, other in zip(*frames, strict=True))


def test_slots_of_a_tree_start_on_its_line() -> None:
    for _, place, _ in branched(full_loop.timeline(HAND)):
        eldest: Slot = place.guesses[0]
        assert (eldest.lane, eldest.y, eldest.line) == (0, 0.0, place.line)


@pytest.mark.parametrize(("tall", "whole"), [(stand.TALL, True), (99, False)], ids=["", "twin"])
def test_from_close_by_no_caption_halves_the_target(
    monkeypatch: pytest.MonkeyPatch, tall: int, whole: bool
) -> None:
    monkeypatch.setattr(stand, "TALL", tall)
    for remembered in ("_stand", "_stand_for"):
        monkeypatch.setattr(stand, remembered, getattr(stand, remembered).__wrapped__)
    timeline = full_loop.timeline(HAND)
    view = View(preset="close", free=(0.22, 0.195, 1.0, 0.85))
    tops = []
    for _, place, spans in branched(timeline):
        if place.lanes >= stand.LANES_UNDER:
            frame = full_loop.compose(HAND, timeline, spans.pulse.end, view)
            x, y, z = frame.spheres["center"][0].tolist()
            top = np.array([(x, y + frame.spheres["radius"][0], z)])
            tops.append(camera.project(frame.camera, top, 1280, 720)[0, 1] / 720)
    assert tops
    assert (min(tops) > 0.14) == whole
