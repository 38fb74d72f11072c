"""The offline recording: the same bytes each time, the panels in the picture, honest failure."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import av
import moderngl
import numpy as np
import pytest
from desktop import ROOT
from PIL import Image
from show import HAND, hand_run

import scenes
from visualizer.config import RecordOptions
from visualizer.recorder import (
    CAPTURE_RATE,
    Capture,
    RecordError,
    new_path,
    record,
    save_png,
    shoot,
    still_app,
)
from visualizer.render.renderer import Renderer
from visualizer.ui.layout import arrange
from visualizer.ui.overlay import Overlay
from visualizer.video import VideoWriter

SIZE = (480, 270)


@pytest.fixture
def renderer(gl: moderngl.Context) -> Iterator[Renderer]:
    made = Renderer(gl, SIZE, "software")
    yield made
    made.release()


def pictures(renderer: Renderer, options: RecordOptions, count: int, fps: int) -> list[str]:
    """Digests of the first frames of a recording of the hand-made run."""
    overlay = Overlay()
    app = still_app(renderer, overlay, scenes.CATALOG[0], hand_run(), options)
    digests = []
    try:
        for index in range(count):
            if index:
                app.step(1.0 / fps)
            digests.append(hashlib.sha256(renderer.read()).hexdigest())
    finally:
        app.close()
        overlay.close()
    return digests


def test_two_recordings_are_equal_byte_for_byte(renderer: Renderer) -> None:
    options = RecordOptions(Path("unused.mp4"))
    first = pictures(renderer, options, 12, fps=3)
    assert first == pictures(renderer, options, 12, fps=3)
    assert len(set(first)) == 12, "and every frame shows something new"


def test_a_run_that_is_recorded_keeps_under_the_limit_and_says_nothing(tmp_path: Path) -> None:
    """G89: there is nothing to turn off, and what is exported is looked at all the same."""
    options = RecordOptions(tmp_path / "x.mp4", width=192, height=108, fps=10, seconds=6.0)
    made = record(hand_run(), scenes.CATALOG, options)
    assert not any("flashes" in notice for notice in made.notices)


def test_the_first_picture_has_its_panels(renderer: Renderer) -> None:
    """imgui's own first frame is blank: two are let go by."""
    pictures(renderer, RecordOptions(Path("unused.mp4")), 1, fps=3)
    layout = arrange(*SIZE)
    dock = renderer.pixels()[:, : int(layout.dock.width)]
    background = tuple(int(value) for value in np.median(dock.reshape(-1, 3), axis=0))
    lettered = (np.abs(dock.astype(int) - background) > 60).any(axis=2).mean()
    assert 0.01 < lettered < 0.5


def test_without_panels_the_badge_is_still_in_the_picture(renderer: Renderer) -> None:
    bare = replace(RecordOptions(Path("unused.mp4")), ui_visible=False)
    pictures(renderer, bare, 1, fps=3)
    corner = renderer.pixels()[:40, -120:].astype(int)
    amber = (corner[..., 0] > 150) & (corner[..., 2] < 0.6 * corner[..., 0])
    assert amber.sum() > 40


def test_the_command_writes_what_it_says(tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    words = ["record", "--run", str(HAND), "--out", str(out), "--size", "321x241"]
    done = subprocess.run(
        [sys.executable, "main.py", *words, "--fps", "10", "--seconds", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    with av.open(str(out)) as video:
        stream = video.streams.video[0]
        assert (stream.width, stream.height) == (322, 242)
        assert sum(1 for _ in video.decode(stream)) == 10
        assert float(stream.average_rate or 0) == 10
    assert "322x242" in done.stdout + done.stderr, "a changed size is said"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--out", "nowhere/x.mp4"], 1, "nowhere"),
        (["--out", "x.xyz"], 2, "suffix"),
        (["--out", "x.mp4", "--scene", "none-such"], 2, "none-such"),
        (["--out", "x.mp4", "--alpha"], 2, "transparency"),
    ],
)
@pytest.mark.parametrize("source", [["--run", str(HAND)], ["--prompt", "Hello"]])
def test_what_cannot_be_recorded_is_one_sentence_before_anything_is_decoded(
    tmp_path: Path, source: list[str], words: list[str], code: int, sentence: str
) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "main.py"), "record", *source, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_capture_of_the_window_keeps_a_constant_rate(renderer: Renderer, tmp_path: Path) -> None:
    """Late pictures are repeated, early ones left out: the video is as long as the clock says."""
    pictures(renderer, RecordOptions(Path("unused.mp4")), 1, fps=3)
    capture = Capture(tmp_path / "capture.mp4", SIZE, now=100.0)
    for now in (100.0, 100.004, 100.01, 100.3, 100.31, 101.0):
        capture.take(renderer, now)
    saved = capture.close()
    with av.open(str(saved)) as video:
        assert sum(1 for _ in video.decode(video.streams.video[0])) == 31


@pytest.mark.parametrize("size", [SIZE, (321, 181)])
def test_a_capture_loses_no_picture_and_mixes_none_up(
    renderer: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    """Pictures come back later than they are shown: the last ones with the end of the file."""
    renderer.resize(size)
    overlay, options = Overlay(), RecordOptions(Path("unused.mp4"))
    app = still_app(renderer, overlay, scenes.CATALOG[0], hand_run(), options)
    app.clock = replace(app.clock, playing=True)
    written: list[bytes] = []
    monkeypatch.setattr(VideoWriter, "write", lambda _, picture: written.append(bytes(picture)))

    def shown() -> bytes:
        width, height = size[0] // 2 * 2, size[1] // 2 * 2
        return renderer.pixels()[:height, :width].tobytes()

    capture = Capture(tmp_path / "capture.mp4", size, now=0.0)
    wanted: list[bytes] = []
    for index, times in enumerate((1, 1, 4, 1, 2, 1)):
        app.step(0.4)
        wanted += [shown()] * times
        capture.take(renderer, (sum((1, 1, 4, 1, 2, 1)[: index + 1]) - 0.5) / CAPTURE_RATE)
    assert len(set(wanted)) == 6
    assert len(written) < len(wanted)  # some are on their way: nobody waits for them
    with suppress(RecordError):  # such a file holds nothing
        capture.close()
    app.close()
    overlay.close()
    assert written == wanted


def test_a_resized_window_ends_its_capture_and_keeps_it(renderer: Renderer, tmp_path: Path) -> None:
    pictures(renderer, RecordOptions(Path("unused.mp4")), 1, fps=3)
    capture = Capture(tmp_path / "capture.mp4", SIZE, now=0.0)
    capture.take(renderer, 0.0)
    renderer.resize((500, 300))
    with pytest.raises(RecordError, match="changed its size"):
        capture.take(renderer, 0.1)
    assert (tmp_path / "capture.mp4").exists()


def test_a_screenshot_never_replaces_another(renderer: Renderer, tmp_path: Path) -> None:
    pictures(renderer, RecordOptions(Path("unused.mp4")), 1, fps=3)
    paths = []
    for _ in range(3):
        paths.append(new_path(tmp_path / "shots", "png"))
        save_png(renderer, paths[-1])
    assert len(set(paths)) == 3


# --- one picture ---------------------------------------------------------------------------


def test_a_picture_of_any_size_is_drawn_for_it(renderer: Renderer, tmp_path: Path) -> None:
    """Larger than the window, its words are finer, and the window goes on as it was."""
    overlay = Overlay()
    app = still_app(
        renderer, overlay, scenes.CATALOG[0], hand_run(), RecordOptions(Path("unused.mp4"))
    )
    try:
        app.step(2.0)
        before = renderer.pixels()
        shot = tmp_path / "large.png"
        shoot(app, shot, (1920, 1080), alpha=False, panels=True)
        large = np.asarray(Image.open(shot).convert("RGB")).astype(int)
        app.draw()
        assert np.array_equal(renderer.pixels(), before)
        assert large.shape == (1080, 1920, 3)
        shrunk = large.reshape(270, 4, 480, 4, 3).mean(axis=(1, 3))
        assert np.abs(shrunk - before).mean() < 8, "the same picture"
        assert np.abs(np.diff(large, axis=1)).max() > 100
        repeated = before.repeat(4, axis=0).repeat(4, axis=1)
        assert np.abs(large - repeated).mean() > 3, "and not the window's enlarged"
    finally:
        app.close()
        overlay.close()


def test_a_transparent_picture_lies_over_anything(renderer: Renderer, tmp_path: Path) -> None:
    """Over the very colour of the stage it is what was drawn; the panels have no dark fringes."""
    overlay = Overlay()
    app = still_app(
        renderer, overlay, scenes.CATALOG[0], hand_run(), RecordOptions(Path("unused.mp4"))
    )
    try:
        app.step(2.0)
        shot = tmp_path / "clear.png"
        shoot(app, shot, SIZE, alpha=True, panels=False)
        picture = Image.open(shot)
        assert picture.mode == "RGBA"
        coverage = np.asarray(picture)[..., 3]
        assert 0.3 < (coverage == 0).mean() < 0.98
        assert (coverage == 255).mean() > 0.02
        badge = np.asarray(picture)[:40, -100:].astype(int)
        rim = (badge[..., 3] > 20) & (badge[..., 3] < 235)
        assert rim.any()
        assert badge[rim][:, :3].max(axis=1).min() > 10, "a rim is as bright as what it belongs to"
    finally:
        app.close()
        overlay.close()


def test_a_png_is_the_last_picture_of_its_video(tmp_path: Path) -> None:
    out = tmp_path / "still.png"
    out.write_bytes(b"older")
    words = ["record", "--run", str(HAND), "--out", str(out), "--size", "321x241", "--alpha"]
    done = subprocess.run(
        [sys.executable, "main.py", *words, "--seconds", "3"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    picture = Image.open(out)
    assert (picture.size, picture.mode) == ((321, 241), "RGBA")
    assert [each.name for each in tmp_path.iterdir()] == ["still.png"]
