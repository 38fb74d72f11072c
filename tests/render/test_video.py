"""A recording is whole, true to its colours, or refused in one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from visualizer import video
from visualizer.video import VideoError, VideoWriter

SIZE = (64, 48)
ROOT = Path(__file__).parent.parent.parent


def picture(index: int = 0, size: tuple[int, int] = SIZE) -> NDArray[np.uint8]:
    """A gradient that moves, so that no two frames are equal."""
    width, height = size
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0] = np.linspace(0, 255, width)
    pixels[..., 1] = np.linspace(0, 255, height)[:, None]
    pixels[..., 2] = 40 * index % 256
    return pixels


def decoded(path: Path) -> list[NDArray[np.uint8]]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def write(path: Path, frames: int = 3, fps: int = 30, **options: bool) -> VideoWriter:
    with VideoWriter(path, SIZE, fps, **options) as writer:
        for index in range(frames):
            writer.write(picture(index).tobytes())
    return writer


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mov", ".webm", ".gif"])
def test_every_frame_arrives_at_a_constant_rate(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"clip{suffix}"
    write(path, frames=7, fps=20)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        times = [frame.pts * stream.time_base for frame in container.decode(stream)]
        assert stream.average_rate == 20
    assert times == [Fraction(index, 20) for index in range(7)]
    assert list(tmp_path.iterdir()) == [path]


def test_a_webp_moves(tmp_path: Path) -> None:
    path = tmp_path / "clip.webp"
    write(path, frames=5, fps=20)
    with Image.open(path) as image:
        assert (image.n_frames, image.size) == (5, SIZE)
        assert image.info["loop"] == 0


def test_h264_is_tagged_and_converted_as_bt709(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    colors = np.array([[61, 125, 216], [228, 87, 46], [242, 177, 52], [43, 179, 154]], np.uint8)
    bars = np.repeat(np.repeat(colors[None], 48, axis=0), 16, axis=1)
    with VideoWriter(path, SIZE, 30) as writer:
        writer.write(bars)
    with av.open(str(path)) as container:
        codec = container.streams.video[0].codec_context
        assert (codec.colorspace, codec.color_primaries, codec.color_trc) == (1, 1, 1)
        assert (codec.pix_fmt, codec.color_range) == ("yuv420p", 1)
    seen = decoded(path)[0][24, 8::16].astype(int)
    assert np.abs(seen - colors).max() <= 6


def test_an_odd_size_is_padded_and_said(tmp_path: Path) -> None:
    path = tmp_path / "odd.mp4"
    writer = VideoWriter(path, (41, 33), 30)
    assert writer.size == (42, 34)
    assert "41x33" in writer.notice
    assert "42x34" in writer.notice
    writer.write(picture(0, (41, 33)))
    writer.close()
    assert decoded(path)[0].shape == (34, 42, 3)


@pytest.mark.parametrize(("suffix", "pixels"), [(".mov", "yuva444p12le"), (".webm", "yuva420p")])
def test_transparency_survives(tmp_path: Path, suffix: str, pixels: str) -> None:
    path = tmp_path / f"clear{suffix}"
    alpha = np.repeat(np.array([0, 128, 255, 64], np.uint8), 16)
    frame = np.dstack([picture(), np.broadcast_to(alpha, (48, 64))])
    with VideoWriter(path, SIZE, 30, alpha=True) as writer:
        for _ in range(3):
            writer.write(np.ascontiguousarray(frame))
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        if suffix == ".webm":  # FFmpeg's own VP9 decoder leaves the alpha stream aside
            assert stream.metadata["ALPHA_MODE"] == "1"
            decoder = av.CodecContext.create("libvpx-vp9", "r")
            frames = [made for packet in container.demux(stream) for made in decoder.decode(packet)]
        else:
            frames = list(container.decode(stream))
    assert frames[0].format.name == pixels
    seen = frames[0].reformat(format="rgba").to_ndarray()[24, 8::16, 3].astype(int)
    assert np.abs(seen - [0, 128, 255, 64]).max() <= 2


def test_h264_refuses_transparency(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match="cannot hold transparency"):
        VideoWriter(tmp_path / "clear.mp4", SIZE, 30, alpha=True)


def test_a_gif_has_a_palette_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "clip.gif"
    write(path, fps=20)
    with Image.open(path) as image:
        assert image.info["duration"] == 50
        shown = np.asarray(image.convert("RGB")).reshape(-1, 3)
    assert len(np.unique(shown, axis=0)) > 100


@pytest.mark.parametrize(
    ("name", "fps", "reason"),
    [
        ("clip.avi", 30, "suffix"),
        ("clip.gif", 60, "50 pictures a second"),
        ("nowhere/clip.mp4", 30, "no folder"),
    ],
)
def test_what_cannot_be_made_is_refused_at_once(
    tmp_path: Path, name: str, fps: int, reason: str
) -> None:
    with pytest.raises(VideoError, match=reason):
        VideoWriter(tmp_path / name, SIZE, fps)
    assert list(tmp_path.iterdir()) == []


def test_a_frame_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    writer = VideoWriter(tmp_path / "clip.mp4", SIZE, 30)
    with pytest.raises(VideoError, match="bytes"):
        writer.write(picture(0, (32, 48)))
    writer.abort()


def test_nothing_drawn_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match="empty"):
        VideoWriter(tmp_path / "clip.mp4", SIZE, 30).close()
    assert list(tmp_path.iterdir()) == []


def test_an_export_says_where_it_flashes(tmp_path: Path) -> None:
    """G89: five seconds, of which the third strobes; times are those of the file."""
    with VideoWriter(tmp_path / "clip.mp4", SIZE, 20) as writer:
        for index in range(100):
            strobes = 40 <= index < 60 and index % 4 < 2
            writer.write(np.full((*SIZE[::-1], 3), 255 * strobes, np.uint8))
    assert writer.flashes.startswith("More than 3 flashes a second")
    assert "0:02.7 to 0:0" in writer.flashes
    with VideoWriter(tmp_path / "calm.mp4", SIZE, 20) as calm:
        for index in range(60):
            calm.write(np.full((*SIZE[::-1], 3), 255 * (index >= 20), np.uint8))
    assert calm.flashes == ""


def test_an_error_while_drawing_leaves_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"older")
    with pytest.raises(KeyError), VideoWriter(path, SIZE, 30) as writer:  # noqa: PT012
        writer.write(picture())
        raise KeyError
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_file_is_not_called_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"older")
    whole = video.check

    def damage(file: Path, *expected: object) -> None:
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2])
        whole(file, *expected)  # type: ignore[arg-type]

    monkeypatch.setattr(video, "check", damage)
    with pytest.raises(VideoError, match="not saved"):
        write(path, frames=20)
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_recording_can_be_played(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from tests.render.test_video import SIZE, picture
        from visualizer.video import VideoWriter
        writer = VideoWriter(Path(sys.argv[1]), SIZE, 30)
        for index in range(900):
            writer.write(picture(index))
        print("written", flush=True)
        sys.stdin.read()
        """
    )
    path = tmp_path / "clip.mp4"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"written\n"
        child.send_signal(signal.SIGKILL)
    assert not path.exists()
    part = path.with_name("clip.mp4.part")
    assert len(decoded(part)) > 400
