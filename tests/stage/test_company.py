"""Each kind of drafter has a body that tells what it is, and a picture of guessing of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.families import About, about
from engine.trace import Trace
from scenes import full_loop
from tests.scenes import runs
from tests.stage.drafted import DRAFTERS, LAYERS, run_of
from visualizer.stage import arcs, drafters, flows, origins, pick, text, walk
from visualizer.stage.camera import pitch_of, project
from visualizer.stage.frame import Frame
from visualizer.stage.layout import HEIGHT, PITCH
from visualizer.stage.models import TARGET_RADIUS
from visualizer.stage.moment import Moment
from visualizer.stage.stand import stand_for
from visualizer.stage.theme import theme
from visualizer.stage.view import PRESETS, Preset, View

Rows = NDArray[np.void]

DARK = theme("dark")
FOOT = (1.0, 0.5, -2.0)
TARGET = (6.0, 2.3, -7.9)
PANELS = (0.22, 0.17, 1.0, 0.92)


def kind(name: str) -> About:
    found = about(name)
    assert found is not None
    return found


# --- bodies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count"),
    [("small-1", 1), ("small", 2), ("small-4", 4), ("eagle", 1), ("mtp", 1), ("hybrid", 1)],
)
def test_a_model_of_its_own_has_a_disc_for_each_layer(name: str, count: int) -> None:
    rows = drafters.body(kind(name), FOOT, 1.0, 0.0, DARK)
    assert len(rows) == count
    half = rows["radius"] * (1.0 - rows["squash"])
    low, high = rows["center"][:, 1] - half, rows["center"][:, 1] + half
    assert (low[1:] > high[:-1]).all()  # one on another, and they do not touch
    assert low[0] >= FOOT[1]
    assert high[-1] <= FOOT[1] + drafters.tall(kind(name)) + 1e-6


def coarser_with_fewer_bits(steps: Callable[[About], int]) -> bool:
    found = [steps(kind(name)) for name in ("copy-2g16", "copy-3g32", "copy-4g64", "copy-8")]
    return all(few < many for few, many in pairwise(found))


def test_a_copy_is_the_coarser_the_fewer_bits_it_keeps() -> None:
    assert coarser_with_fewer_bits(drafters.levels)
    assert not coarser_with_fewer_bits(lambda _: 8)  # the twin: one shape for all
    assert drafters.levels(kind("copy-4")) == drafters.levels(kind("copy-4g64")) == 16
    row = drafters.twin(kind("copy-3g32"), TARGET, 1.0, 0.0, DARK)[0]
    assert row["color"][3] < 1.0  # a likeness, and smaller than what lights the stage
    assert row["radius"] < TARGET_RADIUS


@pytest.mark.parametrize("count", [1, 5, 10, 20, 29, 30])
def test_layer_skip_leaves_the_target_at_its_layer(count: int) -> None:
    spot = np.array(drafters.leaving(kind(f"layer-skip-{count}"), TARGET, LAYERS)) - TARGET
    assert np.linalg.norm(spot) == pytest.approx(TARGET_RADIUS)
    assert 0.5 + 0.5 * spot[1] / TARGET_RADIUS == pytest.approx(count / LAYERS)
    assert spot[2] >= 0.0  # on the side that is seen


def test_heads_sit_on_the_crown_side_by_side() -> None:
    for count in (4, 5):
        places = drafters.head_places(TARGET, count) - TARGET
        assert np.linalg.norm(places, axis=1) == pytest.approx(np.full(count, TARGET_RADIUS))
        assert (np.diff(places[:, 0]) > drafters.HEAD * 0.8).all()
        assert (places[:, 1] > 0.4 * TARGET_RADIUS).all()


def test_the_header_tells_who_auto_is() -> None:
    run = run_of("small", 2)
    auto = replace(run.rounds[0], settings=replace(run.rounds[0].settings, drafter="auto"))
    assert drafters.kind_of(auto, run.header) == kind("small")
    assert (
        drafters.kind_of(replace(auto, settings=replace(auto.settings, drafter="?")), None) is None
    )


# --- on stage ---------------------------------------------------------------------------------


def pictures(name: str, index: int, view: View, shares: tuple[float, ...]) -> list[Frame]:
    """Frames of a round, at these shares of the time until its box begins to close."""
    run = run_of(name)
    timeline = full_loop.timeline(run)
    spans = timeline.spans[index]
    length = spans.close.start - spans.start
    return [
        full_loop.compose(run, timeline, spans.start + share * length, view) for share in shares
    ]


def drafted(name: str, index: int = 2) -> Frame:
    """The picture once all guesses lie in their slots and the box has not begun to close."""
    return pictures(name, index, View(free=PANELS), (0.9999,))[0]


@pytest.mark.parametrize("name", DRAFTERS)
def test_its_picture_is_a_function_of_the_time(name: str) -> None:
    shares = (0.1, 0.5, 0.8, 0.99)
    forwards = pictures(name, 3, View(), shares)
    backwards = pictures(name, 3, View(), shares[::-1])[::-1]
    assert all(one.equals(other) for one, other in zip(forwards, backwards, strict=True))
    assert not forwards[0].equals(forwards[1])


def test_every_family_looks_different() -> None:
    """By what is there and how it is shaped; colours and names left aside."""

    fields = ("radius", "squash", "levels")

    def looks(name: str) -> tuple[object, ...]:
        frame = drafted(name, 3)
        own = frame.spheres[1:]
        shape = tuple(sorted(zip(*(own[name].tolist() for name in fields), strict=True)))
        target = frame.spheres[0]
        unlit = round(float(target["unlit"]), 3) if target["glow"] > 0 else 0.0
        return len(frame.ribbons), len(frame.solids), shape, unlit

    seen = {name: looks(name) for name in DRAFTERS if name != "mtp"}
    assert len(set(seen.values())) == len(seen)
    assert looks("mtp") == looks("eagle")  # their make is the same, and so is their picture


def ways_of(frame: Frame) -> list[Rows]:
    """The frame's ways, each as its curves, one after the other; they hang together."""
    starts = np.flatnonzero(frame.ribbons["share"][:, 0] == 0.0)
    found = np.split(frame.ribbons, starts[1:])
    for way in found:
        assert way["end"][:-1] == pytest.approx(way["start"][1:])
        assert way["share"][:-1, 1] == pytest.approx(way["share"][1:, 0])
        assert way["share"][-1, 1] == pytest.approx(1.0)
    return found


def test_a_feature_leaves_the_target_and_the_layers_own_output_comes_back_to_it() -> None:
    frame = drafted("eagle")
    target, (way, *hops) = frame.spheres[0], ways_of(frame)
    top = target["center"] + (0.0, target["radius"], 0.0)
    assert way["start"][0] == pytest.approx(top)
    assert way["color"][:, :3] == pytest.approx(np.tile(DARK.linear("target"), (len(way), 1)))
    guesses = frame.glass["center"][:, 0]
    ends = [each["end"][-1] for each in (way, *hops)]
    assert np.array(ends)[:, 0] == pytest.approx(guesses)  # on the guesses, one by one
    assert np.array(ends)[:, 1] == pytest.approx(np.full(4, HEIGHT))
    for hop, before in zip(hops, ends, strict=False):
        assert hop["start"][0, 0] == pytest.approx(before[0])  # from under it to another line
        assert hop["color"][0, :3] == pytest.approx(DARK.linear("drafter"))


def trees() -> Trace:
    """A run of rounds whose guesses branch, EAGLE's."""
    run = runs.grown(8)
    header = replace(run.header, drafter="eagle-tree")  # type: ignore[type-var]
    settings = replace(run.rounds[2].settings, drafter="eagle-tree")
    rounds = tuple(replace(each, settings=settings) for each in run.rounds)
    return replace(run, header=header, rounds=rounds)


def test_from_above_a_tree_the_feature_ends_on_the_layer_wherever_it_is() -> None:
    run = trees()
    timeline = full_loop.timeline(run)
    spans = timeline.spans[2]
    for t in np.linspace(spans.drops[0].start, spans.close.start, 9):
        frame = full_loop.compose(run, timeline, float(t), View())
        disc = frame.spheres[1]
        tones = np.abs(frame.ribbons["color"][:, :3] - np.array(DARK.linear("target"), "f4"))
        (feature,) = frame.ribbons[tones.max(axis=1) < 1e-6]
        top = disc["center"] + (0.0, drafters.LAYER / 2, 0.0)
        assert feature["end"] == pytest.approx(top, abs=0.02)


@pytest.mark.parametrize(("index", "said"), [(2, 4), (3, 0), (4, 1)])
def test_a_feature_leaves_the_target_where_a_hybrid_s_layer_speaks(index: int, said: int) -> None:
    guesses = run_of("hybrid").rounds[index].guesses
    assert [guess.copied for guess in guesses].count(False) == said
    frame = drafted("hybrid", index)
    crown = frame.spheres[0]["center"] + (0.0, frame.spheres[0]["radius"], 0.0)
    leaves = np.linalg.norm(frame.ribbons["start"] - crown, axis=1) < 1e-3
    assert leaves.any() == (said > 0)
    if said == 4:
        assert len(frame.ribbons) == len(drafted("eagle", index).ribbons)


def test_the_guess_of_layer_skip_leaves_where_the_light_ends() -> None:
    frame = drafted("layer-skip-20")
    target = frame.spheres[0]
    assert 1.0 - target["unlit"] == pytest.approx(20 / LAYERS)
    assert target["glow"] > 0.1
    (way,) = ways_of(frame)
    height = 0.5 + 0.5 * (way["start"][0, 1] - target["center"][1]) / target["radius"]
    assert height == pytest.approx(20 / LAYERS, abs=1e-4)
    assert way["end"][-1] == pytest.approx(frame.spheres[1]["center"], abs=1e-5)


@pytest.mark.parametrize("name", DRAFTERS)
def test_only_beside_layer_skip_is_the_target_named_an_ordinary_checkpoint(name: str) -> None:
    run = run_of(name)
    timeline = full_loop.timeline(run)
    frame = full_loop.compose(run, timeline, timeline.spans[0].pulse.end, View())
    of_target = np.abs(frame.glyphs["color"][:, :3] - np.array(DARK.linear("target"), "f4"))
    plain = len(text.quads("target")) + len(text.quads(f"{LAYERS} layers"))
    more = len(text.quads("ordinary checkpoint")) * ("skip" in name)
    assert (of_target.max(axis=1) < 1e-6).sum() == plain + more


@pytest.mark.parametrize("name", ["pard", "medusa"])
def test_who_guesses_all_at_once_drops_all_at_once(name: str) -> None:
    spans = full_loop.timeline(run_of(name)).spans[2]
    starts = [drop.start for drop in spans.drops]
    if name == "pard":
        assert len(set(starts)) == 1
    chain = full_loop.timeline(run_of("small")).spans[2].drops
    assert len({drop.start for drop in chain}) == 4  # the twin: one after another


def test_a_parallel_draft_flashes_once() -> None:
    run = run_of("pard")
    timeline = full_loop.timeline(run)
    spans = timeline.spans[2]
    glows = []
    for t in np.arange(spans.approach.start, spans.pulse.start, 0.01):
        masked = full_loop.compose(run, timeline, float(t), View()).spheres
        masked = masked[masked["color"][:, 3] < 1.0]
        glows.append(float(masked["glow"].max(initial=0.0)))
    bright = np.array(glows) > 0.7
    assert np.count_nonzero(np.diff(bright.astype(int)) == 1) == 1


def test_every_head_has_a_way_to_its_own_guess() -> None:
    frame = drafted("medusa")
    heads, found = frame.spheres[1:], ways_of(frame)
    assert len(heads) == len(found) == 4
    starts = np.array([way["start"][0] for way in found])
    assert starts == pytest.approx(heads["center"], abs=1e-5)
    guesses = frame.glass["center"][:, 0]
    assert np.array([way["end"][-1, 0] for way in found]) == pytest.approx(guesses)


def test_a_hybrid_shines_only_where_its_model_speaks() -> None:
    run = run_of("hybrid")
    timeline = full_loop.timeline(run)
    for index in range(3, 9):
        for step, guess in zip(timeline.spans[index].steps, run.rounds[index].guesses, strict=True):
            t = step.start + step.duration / 2
            glow = full_loop.compose(run, timeline, t, View()).spheres["glow"][1]
            shines = glow > drafters.RESTING + 0.1
            assert shines == (guess.source == "model"), (index, guess.source)


# --- ways cross no word ------------------------------------------------------------------------


def crosses(frame: Frame, ribbons: Rows, guesses: bool = True) -> bool:
    """Whether some point of a ribbon is seen before the side of a block that bears its word.

    Guesses count only where they are at rest.
    """
    eye = np.array(frame.camera.eye)
    steep = pitch_of(frame.camera) > 0.9
    books = (frame.solids["pick"] > 0) & ((frame.solids["pick"] - 1) % 32 == pick.DRAFT)
    blocks = np.concatenate([frame.solids[~books], frame.glass[: guesses * len(frame.glass)]])
    low, high = blocks["center"] - blocks["half"], blocks["center"] + blocks["half"]
    low[:, 1] += 0.12  # nothing is written by its foot
    if steep:  # of its top only what is written on
        low[:, 2], high[:, 2] = blocks["center"][:, 2] - 0.25, blocks["center"][:, 2] + 0.3
    axis = 1 if steep else 2
    across = [0, 2] if steep else [0, 1]
    for row in ribbons:
        curve = np.array([row[name] for name in ("start", "rise", "fall", "end")], float)
        for share in np.linspace(*row["span"].tolist(), 25):
            way = flows.at(curve, share) - eye
            if abs(way[axis]) < 1e-9:
                continue
            reach = (high[:, axis] - eye[axis]) / way[axis]  # of the line of sight, at each side
            at = eye + reach[:, None] * way
            inside = (at[:, across] > low[:, across] + 0.02) & (
                at[:, across] < high[:, across] - 0.02
            )
            if (inside.all(axis=1) & (reach > 1.0 + 1e-3)).any():
                return True
    return False


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_no_way_crosses_a_word(name: str, preset: Preset) -> None:
    run = run_of(name, 24)
    timeline = full_loop.timeline(run)
    view = View(preset=preset, free=PANELS)
    for spans in timeline.spans[1:]:
        half = (spans.approach.end + spans.close.start) / 2
        for t, at_rest in ((half, False), (spans.close.start - 1e-3, True)):
            frame = full_loop.compose(run, timeline, t, view)
            assert not crosses(frame, frame.ribbons, at_rest), (spans.index, t)


@pytest.mark.parametrize("preset", ["default", "side", "follow", "close"])
def test_a_way_through_the_air_would_be_found_to_cross_words(preset: Preset) -> None:
    """The twin: the arc on which a word is carried over."""
    run = run_of("n-gram", 24)
    timeline = full_loop.timeline(run)
    view, found = View(preset=preset, free=PANELS), []
    for spans in timeline.spans[1:]:
        t = spans.close.start - 1e-3
        stand = stand_for(timeline.page, spans.index, preset, view)
        m = Moment(timeline, spans.index, t, view, DARK, stand)
        arcs_ = [arcs.path(m, each) for each in origins.runs(timeline, spans.index)]
        frame = full_loop.compose(run, timeline, t, view)
        found += [crosses(frame, flows.ribbon(arc, 0.05, (1, 1, 1), 1.0)) for arc in arcs_]
    assert sum(found) > len(found) / 2


# --- calm, and in nobody's way ----------------------------------------------------------------


def covered(frame: Frame, z: float, view: View) -> bool:
    """Whether a body of the drafter hides a word of the line at `z`."""
    size = view.width, view.height
    on_line = np.abs(frame.glyphs["origin"][:, 2] - z) < 1.0
    words = frame.glyphs[on_line & (frame.glyphs["color"][:, 3] > 0.3)]
    at = (words["origin"] + (words["right"] + words["up"]) / 2).astype(float)
    pixels = project(frame.camera, at, *size)
    back = np.array(frame.camera.eye) - np.array(frame.camera.look_at)
    side = np.cross(frame.camera.up, back)
    side /= np.linalg.norm(side)
    for body in frame.spheres[1:]:
        rim = np.array([body["center"], body["center"] + side * body["radius"]], float)
        middle, edge = project(frame.camera, rim, *size)
        flat = 1.0 if body["squash"] == 0 else 0.6  # a disc is seen from the side, or from above
        steep = abs(back[1]) / np.linalg.norm(back)
        reach = np.linalg.norm(edge - middle) * np.array((1.0, max(flat * steep, 0.35)))
        if (np.linalg.norm((pixels - middle) / reach, axis=1) < 1.0).any():
            return True
    return False


@pytest.mark.parametrize("preset", ["default", "side", "top"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_no_body_hides_a_word_of_the_present_line(name: str, preset: str) -> None:
    """At rest: where stepping stops, and where the drafter waits while the target works."""
    run = run_of(name)
    timeline = full_loop.timeline(run)
    view = View(preset=preset, free=PANELS)  # type: ignore[arg-type]
    for index in range(1, 9):
        place, spans = timeline.page.places[index], timeline.spans[index]
        for t in (spans.close.start, spans.pulse.start, spans.pulse.end, spans.land.end):
            frame = full_loop.compose(run, timeline, t, view)
            assert not covered(frame, place.line * PITCH, view), (index, t)


def test_a_body_that_hangs_too_low_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(walk, "HOVER", 0.3)
    monkeypatch.setattr(walk, "BEHIND", -0.5)
    run = run_of("small-4")
    timeline = full_loop.timeline(run)
    view = View(free=PANELS)
    found = [
        covered(full_loop.compose(run, timeline, spans.close.start, view), place.line * PITCH, view)
        for spans, place in zip(timeline.spans, timeline.page.places, strict=True)
        if place.line == place.last_line
    ]
    assert any(found)


def crossings() -> list[bool]:
    """Whether a layer that walks away from its tree hides a word of it, moment by moment."""
    run = trees()
    timeline = full_loop.timeline(run)
    view, found = View(free=PANELS), []
    for place, spans in zip(timeline.page.places, timeline.spans, strict=True):
        close = spans.close
        for share in np.linspace(0.0, 1.0, 9):
            frame = full_loop.compose(run, timeline, close.start + share * close.duration, view)
            found.append(covered(frame, place.line * PITCH, view))
    return found


def test_who_leaves_a_tree_walks_around_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(crossings())
    straight = walk.Leg
    monkeypatch.setattr(walk, "Leg", lambda *way: straight(*way[:4]))
    assert any(crossings()), "the twin"


@pytest.mark.parametrize("name", DRAFTERS)
def test_reduced_motion_moves_no_drafter(name: str) -> None:
    """It is only ever at the ends of its ways, and ribbons lie whole where they come up."""
    run = run_of(name)
    timeline = full_loop.timeline(run)
    spans = timeline.spans[2]
    places, halves = set(), set()
    for t in np.linspace(spans.start, spans.end - 1e-6, 90):
        frame = full_loop.compose(run, timeline, float(t), View(reduce_motion=True))
        places.add(tuple(np.round(frame.spheres["center"][1].astype(float), 4)))
        halves |= set(np.round(frame.ribbons["span"][:, 1].astype(float), 4).tolist())
    assert len(places) <= 6  # four slots, and its place aside
    assert halves <= {1.0}


def test_a_ribbon_lies_on_its_curve() -> None:
    curve = flows.bent((0, 0, 0), (4, 0, 0), (0, 2, 0), (0, 2, 0))
    assert flows.at(curve, 0.0) == pytest.approx(curve[0])
    assert flows.at(curve, 1.0) == pytest.approx(curve[3])
    assert flows.at(curve, 0.5) == pytest.approx((2.0, 1.5, 0.0))
    (row,) = flows.ribbon(curve, 0.1, (1, 1, 1), 0.5)
    assert 0.0 < row["head"] <= 0.5


def test_another_drafter_takes_the_stage_between_rounds_and_is_named() -> None:
    run = run_of("small", 12)
    other = [
        replace(each, settings=replace(each.settings, drafter="copy-3g32"))
        if each.index > 5
        else each
        for each in run.rounds
    ]
    run = replace(run, rounds=tuple(other))
    timeline = full_loop.timeline(run)
    spans = timeline.spans[6]
    sizes = []
    for share in np.linspace(0.0, 1.0, 21):
        t = spans.approach.start + float(share) * spans.approach.duration
        frame = full_loop.compose(run, timeline, t, View())
        sizes.append(float(frame.spheres["radius"][1:].max(initial=0.0)))
    assert min(sizes) < 0.1 < sizes[0] < sizes[-1]  # one goes, then the other comes
    assert np.argmin(sizes) == 10

    def named(index: int) -> bool:
        t = timeline.spans[index].pulse.end
        tones = full_loop.compose(run, timeline, t, View()).glyphs["color"][:, :3]
        return bool(
            (np.abs(tones - np.array(DARK.linear("target"), "f4")).max(axis=1) < 1e-6).any()
        )

    assert [named(index) for index in (1, 4, 6, 7, 10)] == [True, False, True, True, False]
