"""Each kind of drafter has a body that tells what it is, and a picture of guessing of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from engine.families import About, about
from scenes import full_loop
from tests.stage.drafted import DRAFTERS, LAYERS, run_of
from visualizer.stage import drafters, flows, walk
from visualizer.stage.camera import project
from visualizer.stage.frame import Frame
from visualizer.stage.layout import PITCH
from visualizer.stage.models import TARGET_RADIUS
from visualizer.stage.theme import theme
from visualizer.stage.view import View

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
    ("name", "count"), [("small-1", 1), ("small", 2), ("small-4", 4), ("eagle", 1), ("mtp", 1)]
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


def test_a_feature_leaves_the_target_and_the_layers_own_output_comes_back_to_it() -> None:
    frame = drafted("eagle")
    target, ribbons = frame.spheres[0], frame.ribbons
    assert len(ribbons) == 4
    top = target["center"] + (0.0, target["radius"], 0.0)
    assert ribbons["start"][0] == pytest.approx(top)
    assert ribbons["color"][0, :3] == pytest.approx(DARK.linear("target"))
    assert ribbons["start"][1:] == pytest.approx(ribbons["end"][:-1])  # hop by hop
    assert ribbons["color"][1:, :3] == pytest.approx(np.tile(DARK.linear("drafter"), (3, 1)))
    disc = frame.spheres[1]
    assert ribbons["end"][-1] == pytest.approx(
        disc["center"] + (0, drafters.LAYER / 2, 0), abs=0.02
    )


def test_the_guess_of_layer_skip_leaves_where_the_light_ends() -> None:
    frame = drafted("layer-skip-20")
    target = frame.spheres[0]
    assert 1.0 - target["unlit"] == pytest.approx(20 / LAYERS)
    assert target["glow"] > 0.1
    (ribbon,) = frame.ribbons
    height = 0.5 + 0.5 * (ribbon["start"][1] - target["center"][1]) / target["radius"]
    assert height == pytest.approx(20 / LAYERS, abs=1e-4)
    assert ribbon["end"] == pytest.approx(frame.spheres[1]["center"])


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
    heads = frame.spheres[1:]
    assert len(heads) == len(frame.ribbons) == 4
    assert frame.ribbons["start"] == pytest.approx(heads["center"], abs=1e-5)
    guesses = np.sort(frame.glass["center"][:, 0])
    assert np.sort(frame.ribbons["end"][:, 0]) == pytest.approx(guesses)


def test_a_hybrid_shines_only_where_its_model_speaks() -> None:
    run = run_of("hybrid")
    timeline = full_loop.timeline(run)
    for index in range(3, 9):
        for step, guess in zip(timeline.spans[index].steps, run.rounds[index].guesses, strict=True):
            t = step.start + step.duration / 2
            glow = full_loop.compose(run, timeline, t, View()).spheres["glow"][1]
            shines = glow > drafters.RESTING + 0.1
            assert shines == (guess.source == "model"), (index, guess.source)


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
