"""No more than three flashes in any second, in the pictures themselves, at any speed."""

from dataclasses import replace
from pathlib import Path

import moderngl
import numpy as np
import pytest
import runs
from flashes import luminance, most_flashes

from engine import codec
from engine.trace import Trace
from scenes import full_loop
from tests.stage.drafted import run_of
from visualizer.render.renderer import Renderer
from visualizer.stage.schedule import BRISKEST, FASTEST
from visualizer.stage.view import Orbit, View

ROOT = Path(__file__).parents[2]
FPS = 30.0
CELLS = (27, 48)
SIZE = (192, 108)


def strobe(hertz: float, seconds: float = 2.0, share: float = 1.0, dark: float = 0.0) -> np.ndarray:
    """A part of the picture that goes from dark to bright and back."""
    times = np.arange(0.0, seconds, 1 / FPS)
    level = np.where(np.sin(2 * np.pi * hertz * times + 0.1) > 0, 1.0, dark)
    strip = np.zeros((len(times), *CELLS))
    strip[:, :, : round(CELLS[1] * share)] = level[:, None, None]
    return strip


def test_the_analyser_counts() -> None:
    assert most_flashes(strobe(10.0), FPS) == pytest.approx(10.0, abs=0.5)
    assert most_flashes(strobe(2.0), FPS) <= 2.5
    assert most_flashes(strobe(10.0, dark=0.95), FPS) == 0.0  # too faint
    assert most_flashes(strobe(10.0, share=0.05), FPS) == 0.0  # too small
    fade = 0.5 + 0.5 * np.cos(np.linspace(0.0, 2.0 * np.pi, 60))[:, None, None] * np.ones(CELLS)
    assert most_flashes(fade, FPS) <= 1.0


def rendered(
    gl: moderngl.Context, k: int, view: View, speed: float = FASTEST, seconds: float = 1.6
) -> np.ndarray:
    """A strip of a run of short rounds, played at the fastest speed."""
    return strip_of(gl, runs.made_up(k, 30, accepts=(k,)), view, speed, seconds)


def strip_of(
    gl: moderngl.Context,
    run: Trace,
    view: View,
    speed: float,
    seconds: float = 1.6,
    start: float | None = None,
) -> np.ndarray:
    """A strip of a run from `start` (else its seventh round) on."""
    timeline = full_loop.timeline(run)
    made = Renderer(gl, SIZE, "software")
    start = timeline.spans[6].start if start is None else start
    strip = []
    for index in range(round(seconds * FPS)):
        t = start + index * speed / FPS
        made.draw(full_loop.compose(run, timeline, t, view))
        strip.append(luminance(made.pixels(), CELLS))
    made.release()
    return np.array(strip)


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
        assert most_flashes(rendered(gl, k, view), FPS) <= 3.0


@pytest.mark.parametrize("name", ["copy-3g32", "layer-skip-20", "pard", "medusa"])
def test_drafters_that_shine_flash_at_most_three_times_a_second(
    gl: moderngl.Context, name: str
) -> None:
    """Those that light up a large part of the stage, at the speeds at which every pass pulses
    and at the fastest."""
    run = run_of(name, 30, k=1)
    for speed, fast in ((BRISKEST, False), (FASTEST, True)):
        view = replace(VIEWS[0], fast=fast)
        assert most_flashes(strip_of(gl, run, view, speed), FPS) <= 3.0


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
        assert most_flashes(strip_of(gl, refused, watched, speed, seconds, start), FPS) <= 3.0


def test_pulses_that_come_too_fast_are_found(gl: moderngl.Context) -> None:
    """The twin: every pass pulses, at three times the fastest speed."""
    view = replace(VIEWS[0], fast=False)
    assert most_flashes(rendered(gl, 4, view, 3 * FASTEST), FPS) > 3.0
