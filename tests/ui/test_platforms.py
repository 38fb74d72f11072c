"""What other people's desktops taught: pixel ratios, small screens, old drivers, two cards."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import moderngl
import numpy as np
import pytest
from desktop import ROOT
from show import HAND, ScriptedSource, Stage, hand_run

from visualizer import actions as act
from visualizer import doctor, system, window
from visualizer.clock import PlaybackClock
from visualizer.recorder import shoot
from visualizer.render import context
from visualizer.render.context import collect
from visualizer.render.renderer import Renderer
from visualizer.stage.camera import project
from visualizer.stage.view import PRESETS
from visualizer.window import NoDisplay, _open

Make = Callable[..., Stage]


# --- sizes and pixels ----------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1.0, 2.0, 1.25])
def test_a_click_hits_the_same_block_whatever_the_pixels_of_the_display(
    stage_of: Make, ratio: float
) -> None:
    """G10, G12: positions are window units, and the ratio is read anew for every frame."""
    stage = stage_of(ScriptedSource(live=False), opening=hand_run(), size=(800, 600))
    stage.app.resize(round(800 * ratio), round(600 * ratio), ratio)
    stage.step(1.0)
    stage.app.handle(act.TogglePlay())
    stage.step(0.0)
    frame = stage.app._picture
    assert frame is not None
    block = next(row for row in frame.solids if row["pick"] > 0)
    x, y = project(frame.camera, block["center"][None].astype(float), *stage.renderer.size)[0]
    stage.app.handle(act.ClickAt((x / ratio, y / ratio)))
    assert stage.app.state.selected == block["pick"]
    assert stage.overlay.marks["mode"].right < 0.22 * 800, "panels are laid out in units as well"


def test_the_way_pixels_are_scaled_is_set_before_there_is_any_window() -> None:
    """G11, G22: and nothing of pyglet that needs a display is imported by that."""
    code = (
        "import sys; from visualizer.window import _load_pyglet; made = _load_pyglet()\n"
        "print(made.options['dpi_scaling'], 'pyglet.window' in sys.modules)"
    )
    env = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["platform", "False"], done.stderr


@pytest.mark.parametrize(
    ("pixels", "units", "ratio"),
    [
        ((800, 600), (800, 600), 1.0),
        ((1600, 1200), (800, 600), 2.0),
        ((1000, 750), (800, 600), 1.25),
    ],
)
def test_sizes_are_asked_for_with_every_picture_and_not_waited_for(
    pixels: tuple[int, int], units: tuple[int, int], ratio: float
) -> None:
    """G12, G14, G15: another monitor or size, of which no event ever told."""

    class Seen(Exception):
        pass

    told: list[tuple[int, int, float]] = []

    def resize(*size: Any) -> None:
        told.append(size)
        raise Seen

    made = window.Window.__new__(window.Window)
    made._app = SimpleNamespace(resize=resize)  # type: ignore[assignment]
    made._window = SimpleNamespace(get_framebuffer_size=lambda: pixels, get_size=lambda: units)
    with pytest.raises(Seen):
        made._frame(0.0)
    assert told == [(*pixels, ratio)]


class FakePyglet:
    """Enough of pyglet to open a window: the first `refused` configurations are refused."""

    def __init__(self, screen: tuple[int, int], refused: int = 0) -> None:
        self.opened: list[tuple[int, int]] = []
        self.asked = 0

        def make(width: int, height: int, *_: Any, **__: Any) -> Any:
            self.asked += 1
            if self.asked <= refused:
                raise RuntimeError("No standard config is available.")
            self.opened.append((width, height))
            return SimpleNamespace(set_minimum_size=lambda *_: None, set_visible=lambda *_: None)

        size = SimpleNamespace(width=screen[0], height=screen[1])
        display = SimpleNamespace(get_default_screen=lambda: size)
        self.display = SimpleNamespace(get_display=lambda: display)
        self.window = SimpleNamespace(Window=make)
        self.gl = SimpleNamespace(Config=lambda **asked: asked)


@pytest.mark.parametrize("screen", [(1366, 768), (1024, 600), (3840, 2160), (640, 480)])
def test_the_first_window_lies_within_the_screen(screen: tuple[int, int]) -> None:
    """G13: its title bar can be reached."""
    pyglet = FakePyglet(screen)
    _open(pyglet, (1280, 720))
    (width, height) = pyglet.opened[0]
    assert width <= screen[0]
    assert height <= max(screen[1] - 80, 480)
    assert (width, height) == (1280, 720) or screen[0] < 1400


@pytest.mark.parametrize("refused", [0, 1, 2, 3])
def test_every_rung_of_the_ladder_ends_in_a_window(refused: int) -> None:
    """G21: what a driver lacks is no longer asked for."""
    pyglet = FakePyglet((1920, 1080), refused)
    _open(pyglet, (1280, 720))
    assert len(pyglet.opened) == 1


def test_a_driver_that_refuses_all_is_one_sentence_with_its_own_words() -> None:
    with pytest.raises(NoDisplay, match="No standard config"):
        _open(FakePyglet((1920, 1080), 4), (1280, 720))


def test_nothing_is_asked_of_the_window_that_is_the_renderers() -> None:
    wanted = [dict(config) for config in window._configs(FakePyglet((100, 100)))]
    assert all("samples" not in each and "sample_buffers" not in each for each in wanted)
    assert all(each["major_version"] == 3 for each in wanted)


# --- time ----------------------------------------------------------------------------------


def test_the_show_keeps_time_however_late_its_pictures_come() -> None:
    """G19: ten seconds with pictures up to 30 ms late; counting pictures would be far off."""
    chance = random.Random(1)
    clock, wall, pictures = PlaybackClock(), 0.0, 0
    while wall < 10.0:
        elapsed = 1 / 60 + chance.uniform(0.0, 0.03)
        wall += elapsed
        pictures += 1
        clock = clock.advance(elapsed, end=60.0)
    assert clock.t == pytest.approx(wall, abs=1e-6)
    assert abs(pictures / 60 - wall) > 1.0


# --- GL ------------------------------------------------------------------------------------


def test_dropped_buffers_are_freed_on_this_thread_only(gl: moderngl.Context) -> None:
    """G25: a busy second thread makes garbage; no GL call ever comes from it."""
    collect(gl)  # what earlier tests have dropped
    busy = threading.Event()

    def churn() -> None:
        while not busy.is_set():
            ring: list[Any] = []
            ring.append(ring)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        most = 0
        for index in range(10_000):
            gl.buffer(reserve=64)
            if index % 100 == 99:
                most = max(most, len(gl.objects))
                collect(gl)
    finally:
        busy.set()
        thread.join()
    assert most <= 200
    assert len(gl.objects) == 0
    assert gl.error == "GL_NO_ERROR"


def test_frames_after_a_screenshot_are_clean(stage_of: Make, tmp_path: Path) -> None:
    """G08"""
    stage = stage_of(ScriptedSource(live=False), opening=hand_run())
    stage.step(1.0)
    shoot(stage.app, tmp_path / "shot.png", (300, 200), alpha=True, panels=True)
    for _ in range(10):
        stage.step(1 / 60)
        assert stage.renderer.context.error == "GL_NO_ERROR"


@pytest.mark.parametrize("preset", PRESETS)
def test_near_and_far_lie_close_enough_for_any_depth_buffer(stage_of: Make, preset: str) -> None:
    """G39: a ratio under two thousand, at the farthest the wheel goes as well."""
    stage = stage_of(ScriptedSource(live=False), opening=hand_run())
    for zoom in (0.0, 30.0, -30.0):
        stage.app.handle(act.ChoosePreset(preset))  # type: ignore[arg-type]
        stage.app.handle(act.ZoomBy(1.1**zoom))
        stage.step(0.3)
        frame = stage.app._picture
        assert frame is not None
        assert frame.camera.far / frame.camera.near < 2000


def test_the_panels_need_no_other_gl_library(stage_of: Make) -> None:
    """G05: PyOpenGL would choose a platform of its own, and die under Wayland."""
    stage_of(ScriptedSource(live=False), opening=hand_run()).step(0.1)
    assert "OpenGL" not in sys.modules


def test_renderers_of_all_sizes_leave_nothing_bound(gl: moderngl.Context) -> None:
    for size in ((1, 1), (16, 9), (641, 481)):
        made = Renderer(gl, size, "low")
        made.release()
    assert gl.error == "GL_NO_ERROR"


# --- machines ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("renderer", "nvidia", "state"),
    [
        ("Mesa Intel(R) UHD Graphics 620", True, "note"),
        ("Mesa Intel(R) UHD Graphics 620", False, "works"),
        ("NVIDIA GeForce RTX 4060", True, "works"),
    ],
)
def test_a_laptop_that_draws_with_the_smaller_card_is_told_how_to_use_the_other(
    monkeypatch: pytest.MonkeyPatch, renderer: str, nvidia: bool, state: str
) -> None:
    """G24"""
    found = {"renderer": renderer, "version": "4.6"}
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(doctor, "probe", lambda *_: SimpleNamespace(found=found, problem=""))
    monkeypatch.setattr(doctor, "_nvidia", lambda: nvidia)
    check = doctor._window()
    assert check.state == state
    assert (doctor.OTHER_CARD in (check.fix or "")) == (state == "note")
    assert renderer in check.detail


def test_a_graphics_device_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    """G33: by number and name; nothing is written, and no newer OpenGL is asked for than needed."""
    words = ["record", "--run", str(HAND), "--out", str(tmp_path / "x.mp4"), "--gpu", "7"]
    done = subprocess.run(
        [sys.executable, "main.py", *words, "--seconds", "0.1", "--size", "128x72"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, "LIBGL_ALWAYS_SOFTWARE": "1"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "no graphics device 7" in done.stderr
    assert "0 (llvmpipe" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


class FakeGl:
    """Machines as EGL shows them: what each graphics device says, None for one that is deaf."""

    def __init__(self, *renderers: str | None) -> None:
        self.renderers = renderers
        self.required: list[int] = []

    def create_context(self, device_index: int = 0, require: int = 0, **_: object) -> Any:
        self.required.append(require)
        count = len(self.renderers)
        if device_index >= count:
            raise Exception(f"requested device index {device_index}, but found {count} devices")
        name = self.renderers[device_index]
        if name is None:
            raise Exception("eglInitialize failed (0x3001)")
        return SimpleNamespace(info={"GL_RENDERER": name}, release=lambda: None)


@pytest.mark.skipif(not context.CHOOSABLE, reason="only EGL lets one choose")
@pytest.mark.parametrize(
    ("machine", "asked", "drawn"),
    [
        (("NVIDIA H200", "llvmpipe"), None, "NVIDIA H200"),
        (("NVIDIA H200", "llvmpipe"), 1, "llvmpipe"),
        ((None, "llvmpipe"), None, "llvmpipe"),
        ((None, "llvmpipe"), 0, "choose among 0 (does not open"),
        ((), None, "EGL found no usable driver"),
    ],
)
def test_a_graphics_device_is_the_one_asked_for_or_the_first_that_works(
    monkeypatch: pytest.MonkeyPatch,
    machine: tuple[str | None, ...],
    asked: int | None,
    drawn: str,
) -> None:
    """G30, G33: GPU, then software, then one sentence; and never more than OpenGL 3.3."""
    fake = FakeGl(*machine)
    monkeypatch.setattr(context, "moderngl", fake)
    monkeypatch.setattr(context.ctypes.util, "find_library", lambda name: name)
    try:
        made = context.create_context(device=asked).info["GL_RENDERER"]
    except context.GraphicsError as error:
        made = str(error)
    assert drawn in made
    assert set(fake.required) == {330}


def test_a_recording_may_refuse_the_processor(tmp_path: Path) -> None:
    """G32"""
    words = ["record", "--run", str(HAND), "--out", str(tmp_path / "x.mp4"), "--require-gpu"]
    done = subprocess.run(
        [sys.executable, "main.py", *words, "--seconds", "0.1", "--size", "128x72"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
        env={**os.environ, "LIBGL_ALWAYS_SOFTWARE": "1"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "graphics processor" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("platform", "says", "less"),
    [
        ("linux", "false", True),
        ("linux", "true", False),
        ("darwin", "1", True),
        ("plan9", "1", False),
    ],
)
def test_less_motion_is_taken_over_from_the_system(
    monkeypatch: pytest.MonkeyPatch, platform: str, says: str, less: bool
) -> None:
    """G91"""
    answer = SimpleNamespace(stdout=f"{says}\n")
    monkeypatch.setattr(system.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(system.subprocess, "run", lambda *_, **__: answer)
    assert system.wants_less_motion(platform) is less


def test_a_system_that_does_not_answer_has_nothing_against_motion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("gsettings", 1.0)

    monkeypatch.setattr(system.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(system.subprocess, "run", never)
    assert system.wants_less_motion("linux") is False
    assert system.wants_less_motion("win32") is False


def test_words_over_the_stage_are_a_thirtieth_of_its_height() -> None:
    """G94"""
    from visualizer.ui.caption import CAPTION_SIZE
    from visualizer.ui.layout import unit_for

    for height in (480, 720, 1080, 2160):
        assert CAPTION_SIZE * unit_for(height, 1.0) >= height / 30 - 1e-6
    assert np.isclose(CAPTION_SIZE * unit_for(900, 1.0), 30.0)
