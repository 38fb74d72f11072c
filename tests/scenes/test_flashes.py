"""No more than three flashes in any second, in the pictures themselves, at any speed."""

from dataclasses import replace
from pathlib import Path

import moderngl
import numpy as np
import pytest
import runs

from engine import codec
from engine.trace import Trace
from scenes import full_loop
from tests.stage.drafted import run_of
from visualizer.flashes import LIMIT, Watch, stripes
from visualizer.render.renderer import Renderer
from visualizer.stage.schedule import BRISKEST, FASTEST
from visualizer.stage.theme import THEMES
from visualizer.stage.view import CALM, NEAREST, Orbit, Preset, View, unflickering

ROOT = Path(__file__).parents[2]
FPS = 30.0
SIZE = (192, 108)


# --- the analyser ----------------------------------------------------------------------------

WHITE, BLACK, RED, GREY = (255, 255, 255), (0, 0, 0), (255, 0, 0), (120, 120, 120)


def strobe(
    hertz: float,
    bright: tuple[int, int, int] = WHITE,
    dark: tuple[int, int, int] = BLACK,
    share: float = 1.0,
    fps: float = FPS,
    smooth: bool = False,
) -> Watch:
    """Two seconds of a part of the picture that goes from dark to bright and back."""
    watch = Watch(fps)
    for time in np.arange(0.0, 2.0, 1 / fps):
        level = np.sin(2 * np.pi * hertz * time + 0.1)
        level = 0.5 + 0.5 * level if smooth else float(level > 0)
        picture = np.zeros((*SIZE[::-1], 3), np.uint8)
        tone = np.array(dark) + (np.array(bright) - dark) * level
        picture[:, : round(SIZE[0] * share)] = tone.round()
        watch.see(picture)
    return watch


@pytest.mark.parametrize("smooth", [False, True], ids=["at once", "gradually"])
@pytest.mark.parametrize("fps", [24.0, 30.0, 60.0])
def test_the_analyser_counts(fps: float, smooth: bool) -> None:
    for hertz in (1.0, 2.0, 3.0, 5.0, 8.0):
        assert strobe(hertz, fps=fps, smooth=smooth).light.worst == hertz
    assert strobe(0.5, fps=fps, smooth=smooth).light.worst <= 1


def test_what_is_too_faint_or_too_small_is_no_flash() -> None:
    assert strobe(10.0, dark=(250, 250, 250)).light.worst == 0
    assert strobe(10.0, share=0.05).light.worst == 0
    assert strobe(10.0, share=0.25).light.worst == 10


def test_a_saturated_red_is_counted_by_itself() -> None:
    """G87: at any brightness."""
    watch = strobe(5.0, RED, (68, 68, 68))  # as light as the red
    assert watch.red.worst == 5
    assert watch.light.worst <= 5
    assert watch.worst > LIMIT
    assert strobe(5.0, (170, 0, 0), (36, 36, 36)).red.worst == 5
    assert strobe(5.0, (194, 82, 78), GREY).red.worst == 0, "no saturated one"


def test_it_says_when_there_were_too_many() -> None:
    """G89: seconds that can be looked up in the file."""
    watch = strobe(5.0)
    ((start, end),) = watch.stretches
    assert 0.5 < start < 1.0
    assert 1.8 < end < 2.0
    assert strobe(3.0).stretches == []


def test_stripes_across_a_quarter_of_the_picture_are_counted() -> None:
    """G88"""
    picture = np.zeros((720, 1280, 3), np.uint8)
    picture[(np.arange(720) // 30) % 2 == 0] = 255  # twelve pairs
    assert stripes(picture) == 11, "one of them ends with the picture"
    assert stripes(np.ascontiguousarray(picture.transpose(1, 0, 2))) == 11
    picture[:, 300:] = 0
    assert stripes(picture) == 0, "too small a part"
    assert stripes(np.full((720, 1280, 3), 200, np.uint8)) == 0


# --- the pictures ----------------------------------------------------------------------------


def rendered(
    gl: moderngl.Context, k: int, view: View, speed: float = FASTEST, seconds: float = 1.6
) -> Watch:
    """A strip of a run of short rounds, played at the fastest speed."""
    return strip_of(gl, runs.made_up(k, 30, accepts=(k,)), view, speed, seconds)


def strip_of(
    gl: moderngl.Context,
    run: Trace,
    view: View,
    speed: float,
    seconds: float = 1.6,
    start: float | None = None,
) -> Watch:
    """A strip of a run from `start` (else its seventh round) on."""
    timeline = full_loop.timeline(run)
    made = Renderer(gl, SIZE, "software")
    start = timeline.spans[6].start if start is None else start
    watch = Watch(FPS)
    for index in range(round(seconds * FPS)):
        made.draw(full_loop.compose(run, timeline, start + index * speed / FPS, view))
        watch.see(made.pixels())
    made.release()
    return watch


FACING = Orbit(zoom=0.35, pan=(0.3, 4.2))  # close to the target: its pulse fills the picture
VIEWS = [
    View(*SIZE, fast=True, orbit=FACING),
    View(*SIZE, fast=True, orbit=FACING, theme="light"),
    View(*SIZE, fast=True, preset="follow", theme="light"),
]


@pytest.mark.parametrize("view", VIEWS, ids=["facing", "light", "follow"])
def test_fast_playback_flashes_at_most_three_times_a_second(
    gl: moderngl.Context, view: View
) -> None:
    for k in (0, 4):
        assert rendered(gl, k, view).worst <= LIMIT


@pytest.mark.parametrize("name", ["copy-3g32", "layer-skip-20", "pard", "medusa"])
def test_drafters_that_shine_flash_at_most_three_times_a_second(
    gl: moderngl.Context, name: str
) -> None:
    """Those that light up a large part of the stage, at the speeds at which every pass pulses
    and at the fastest."""
    run = run_of(name, 30, k=1)
    for speed, fast in ((BRISKEST, False), (FASTEST, True)):
        view = replace(VIEWS[0], fast=fast)
        assert strip_of(gl, run, view, speed).worst <= LIMIT


BEFORE_IT = Orbit(zoom=0.45)  # so close to a tree that a guess fills a fifth of the picture
TREES = [
    View(*SIZE, preset="close", orbit=BEFORE_IT),
    View(*SIZE, preset="close", orbit=BEFORE_IT, theme="light"),
]


@pytest.mark.parametrize("view", TREES, ids=["dark", "light"])
@pytest.mark.parametrize("speed", [1.0, BRISKEST, FASTEST])
def test_refused_siblings_flash_at_most_three_times_a_second(
    gl: moderngl.Context, view: View, speed: float
) -> None:
    """Rounds in which many siblings burst, together and depth after depth, from close by."""
    run = codec.read_run(ROOT / "tests/data/tree.jsonl")
    wide = replace(run.rounds[5], index=0)
    pairs = (-1, -1, 1, 1, 3, 3, 5, 5, 7, 7)  # the younger of two passes, five times over
    deep = runs.make_tree(0, pairs, [" so"] * 10, (1, 3, 5, 7, 9), " on", wide.settings)
    for each in (wide, deep):
        refused = replace(run, rounds=(each,))
        spans = full_loop.timeline(refused).spans[0]
        watched = replace(view, fast=speed > BRISKEST)
        start, seconds = spans.close.start, (spans.end - spans.close.start) / speed
        watch = strip_of(gl, refused, watched, speed, seconds, start)
        assert watch.worst <= LIMIT


def test_pulses_that_come_too_fast_are_found(gl: moderngl.Context) -> None:
    """The twin: every pass pulses, at three times the fastest speed."""
    view = replace(VIEWS[0], fast=False)
    assert rendered(gl, 4, view, 3 * FASTEST).light.worst > LIMIT


def nearest(theme: str, speed: float, preset: Preset = "close") -> View:
    """As near as the wheel goes at that speed."""
    orbit = unflickering(Orbit(zoom=0.0), speed)
    return View(
        *SIZE, theme=theme, preset=preset, orbit=orbit, calm=speed > CALM, fast=speed > BRISKEST
    )


@pytest.mark.parametrize("speed", [1.0, CALM, BRISKEST, FASTEST])
@pytest.mark.parametrize("theme", THEMES)
def test_nothing_flashes_as_near_as_one_may_go(
    gl: moderngl.Context, theme: str, speed: float
) -> None:
    """The worst there is: the only guess of every round is refused, so that a place turns glass,
    red, pieces, amber and blue, and the next comes; and sixteen guesses, half of them kept."""
    for run in (runs.made_up(1, 40, accepts=(0,)), runs.made_up(16, 12, accepts=(0, 8))):
        watch = strip_of(gl, run, nearest(theme, speed), speed, seconds=2.5)
        assert watch.worst <= LIMIT, (watch.light.worst, watch.red.worst)


def test_nearer_by_it_would_flash(gl: moderngl.Context) -> None:
    """The twin: a camera that may go anywhere, and along with every round at any speed."""
    run = runs.made_up(1, 40, accepts=(0,))
    view = View(*SIZE, preset="follow", orbit=Orbit(zoom=0.25, pan=(0.0, -0.5)))
    assert view.orbit.zoom < NEAREST[0]
    start = full_loop.timeline(run).spans[2].start
    assert strip_of(gl, run, view, FASTEST, 2.0, start).worst > LIMIT


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("preset", ["default", "top"])
def test_no_preset_shows_many_stripes(gl: moderngl.Context, theme: str, preset: Preset) -> None:
    """G88: lines of blocks and the ribbon they leave, however long the text, while it moves on."""
    run = runs.made_up(8, 120, accepts=(8, 5))
    timeline = full_loop.timeline(run)
    made = Renderer(gl, (640, 360), "software")
    for zoom in (1.0, 4.0):
        view = View(*made.size, theme=theme, preset=preset, orbit=Orbit(zoom=zoom))
        for spans in timeline.spans[60::30]:
            made.draw(full_loop.compose(run, timeline, spans.pulse.end, view))
            assert stripes(made.pixels()) <= 5
    made.release()
