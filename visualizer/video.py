"""Pictures into a video file that plays everywhere, or one clear sentence.

The suffix chooses the format. Pixels are sRGB, converted to BT.709 and tagged as such. Time
stamps are whole frame numbers, so the rate is constant by construction. Everything is
written to ``NAME.part`` in a form that survives a crash, checked after closing, and only
then given its name: a failed recording never replaces a good one. Every picture is watched
for flashes on its way (`visualizer.flashes`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Literal

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace
from numpy.typing import NDArray
from PIL import Image

from visualizer.errors import VisualizerError
from visualizer.flashes import LIMIT, Watch

VideoPreset = Literal["draft", "720p30", "1080p60", "4k60"]
BT709 = 1  # colour primaries and transfer, in the numbers of H.273
GIF_RATE = 50  # a GIF counts hundredths of a second, and viewers slow down below two


class VideoError(VisualizerError):
    """A video that cannot be made; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How one kind of file is made."""

    container: str
    encoder: str
    pixels: str  # as the encoder takes them
    options: dict[str, str] = field(default_factory=dict)
    container_options: dict[str, str] = field(default_factory=dict)
    even: bool = True  # colour at half resolution needs even sizes


_H264 = Encoding(
    "mp4",
    "libx264",
    "yuv420p",
    {"crf": "17", "preset": "fast"},
    # Readable up to the last fragment after a crash, an ordinary file after closing.
    {"movflags": "+hybrid_fragmented+negative_cts_offsets", "flush_packets": "1"},
)
_PLAIN = MappingProxyType(
    {
        ".mp4": _H264,
        ".mkv": Encoding("matroska", "libx264", "yuv420p", _H264.options),
        ".mov": Encoding("mov", "libx264", "yuv420p", _H264.options, _H264.container_options),
        ".webm": Encoding("webm", "libvpx-vp9", "yuv420p", {"crf": "28", "b": "0"}),
        ".webp": Encoding("webp", "libwebp_anim", "bgra", {"quality": "80"}, {"loop": "0"}, False),
        ".gif": Encoding("matroska", "ffv1", "bgr0", {}, {}, False),  # then a palette pass
    }
)
_ALPHA = MappingProxyType(
    {
        ".mov": Encoding("mov", "prores_ks", "yuva444p10le", {"profile": "4444"}),
        ".webm": Encoding("webm", "libvpx-vp9", "yuva420p", {"crf": "24", "b": "0"}),
        ".webp": _PLAIN[".webp"],
    }
)


class VideoWriter:
    """Writes frames of `size` pixels, `fps` of them a second, to `path`.

    `alpha` keeps transparency (.mov, .webm, .webp); frames are then straight RGBA instead of
    RGB. Formats that need even sizes get a repeated last row or column; `notice` says so.

    Raises VideoError, at once if the file cannot be started.
    """

    def __init__(
        self,
        path: Path,
        size: tuple[int, int],
        fps: int | Fraction,
        preset: VideoPreset = "720p30",
        alpha: bool = False,
    ) -> None:
        self.path = path
        self.frames = 0
        self._closed = False
        self.notice = ""
        self._given = size
        self._rate = Fraction(fps)
        self._alpha = alpha
        self._encoding = encoding(path, alpha)
        if path.suffix.lower() == ".gif" and self._rate > GIF_RATE:
            raise VideoError(f"A GIF shows at most {GIF_RATE} pictures a second, not {fps}.")
        self.size = _even(size) if self._encoding.even else size
        if self.size != size:
            self.notice = "Padded {}x{} to the even size {}x{}.".format(*size, *self.size)
        if not path.parent.is_dir():
            raise VideoError(f"There is no folder {path.parent} to write {path.name} into.")
        self._watch = Watch(float(self._rate))
        self._part = path.with_name(path.name + ".part")
        self._open(preset)

    def write(self, frame: bytes | bytearray | memoryview | NDArray[np.uint8]) -> None:
        """Append one picture: RGB (RGBA with alpha) bytes, rows from the top.

        Raises VideoError.
        """
        width, height = self._given
        channels = 4 if self._alpha else 3
        pixels = np.frombuffer(frame, np.uint8)
        if pixels.size != width * height * channels:
            raise VideoError(f"A frame has {pixels.size} bytes, not {width}x{height}x{channels}.")
        pixels = pixels.reshape(height, width, channels)
        self._watch.see(pixels)
        if self.size != self._given:
            missing = (self.size[1] - height, self.size[0] - width)
            pixels = np.pad(pixels, ((0, missing[0]), (0, missing[1]), (0, 0)), mode="edge")
        made = av.VideoFrame.from_ndarray(pixels, format="rgba" if self._alpha else "rgb24")
        converted = _converted(made, self._encoding.pixels)
        converted.pts, converted.time_base = self.frames, 1 / self._rate
        try:
            self._container.mux(self._stream.encode(converted))
        except (av.FFmpegError, OSError) as error:
            raise VideoError(f"{self.path.name} could not be written: {error}.") from error
        self.frames += 1

    @property
    def flashes(self) -> str:
        """Where there are more flashes than are safe, in a sentence; "" for nowhere."""
        spots = ", ".join(f"{_clock(a)} to {_clock(b)}" for a, b in self._watch.stretches)
        if not spots:
            return ""
        return f"More than {LIMIT:g} flashes a second, which some people must not see: {spots}."

    def close(self) -> Path:
        """Finish, check and name the file. Raises VideoError; an older file then stays."""
        if self._closed:
            return self.path
        try:
            self._flush()
            if self.frames == 0:
                raise VideoError(f"{self.path.name} would be empty: no picture was drawn.")
            if self.path.suffix.lower() == ".gif":
                _palette_pass(self._part, self._rate)
            check(self._part, self.path.suffix.lower(), self.size, self.frames)
            os.replace(self._part, self.path)
        except (av.FFmpegError, OSError) as error:
            raise VideoError(f"{self.path.name} was not saved: {error}.") from error
        finally:
            self._part.unlink(missing_ok=True)
        return self.path

    def abort(self) -> None:
        """Give up: nothing stays but what `path` held before."""
        if not self._closed:
            self._closed = True
            self._container.close()
            self._part.unlink(missing_ok=True)

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _open(self, preset: VideoPreset) -> None:
        how = self._encoding
        try:
            self._container: Any = av.open(
                str(self._part), "w", format=how.container, options=how.container_options
            )
        except (av.FFmpegError, OSError) as error:
            raise VideoError(f"{self.path} cannot be written: {error}.") from error
        try:
            self._stream = add_stream(self._container, how, self.size, self._rate, preset)
            self._stream.codec_context.open()
        except (av.FFmpegError, ValueError, OSError) as error:
            self.abort()
            raise VideoError(
                f"This PyAV cannot encode {self.path.suffix} at {self.size[0]}x{self.size[1]} "
                f"({how.encoder}: {error}): choose another size or suffix."
            ) from error

    def _flush(self) -> None:
        self._closed = True
        try:
            if self.frames:
                self._container.mux(self._stream.encode(None))
        finally:
            self._container.close()


def encoding(path: Path, alpha: bool) -> Encoding:
    """How a file of this name is made. Raises VideoError."""
    suffix = path.suffix.lower()
    if suffix not in _PLAIN:
        raise VideoError(f"{path.name}: the suffix must be one of {', '.join(_PLAIN)}.")
    if alpha and suffix not in _ALPHA:
        raise VideoError(
            f"{suffix} cannot hold transparency: use {', '.join(_ALPHA)} for a clear background."
        )
    return _ALPHA[suffix] if alpha else _PLAIN[suffix]


def add_stream(
    container: Any, how: Encoding, size: tuple[int, int], rate: Fraction, preset: VideoPreset
) -> Any:
    """The one video stream of `container`, tagged BT.709 limited range."""
    options = dict(how.options)
    if preset == "draft" and how.encoder == "libx264":
        options |= {"crf": "26", "preset": "veryfast"}
    stream = container.add_stream(how.encoder, rate=rate, options=options)
    stream.width, stream.height = size
    stream.pix_fmt = how.pixels
    stream.time_base = stream.codec_context.time_base = 1 / rate
    if how.pixels.startswith("yuv"):
        codec = stream.codec_context
        codec.colorspace, codec.color_range = Colorspace.ITU709, ColorRange.MPEG
        codec.color_primaries = codec.color_trc = BT709
    if how.encoder == "libvpx-vp9":
        stream.codec_context.options |= {"row-mt": "1", "cpu-used": "4", "deadline": "good"}
        if how.pixels.startswith("yuva"):
            stream.metadata["alpha_mode"] = "1"
    return stream


def check(file: Path, suffix: str, size: tuple[int, int], frames: int) -> None:
    """Reopen what was written and see that it is all there. Raises VideoError."""
    found_size, found = _measure_still(file) if suffix == ".webp" else _measure(file)
    if found_size != size:
        raise VideoError(f"The file came out as {found_size}, not {size}: it was not saved.")
    # An animated WebP holds pictures that do not change only once.
    if found > frames or (found < frames and suffix != ".webp") or found == 0:
        raise VideoError(f"The file holds {found} of {frames} pictures: it was not saved.")


def _measure(file: Path) -> tuple[tuple[int, int], int]:
    """Size and number of pictures; the first and the last one really decode."""
    try:
        with av.open(str(file)) as container:
            stream = container.streams.video[0]
            size = (stream.width, stream.height)
            packets = sum(1 for packet in container.demux(stream) if packet.size)
        for from_end in (False, True):
            with av.open(str(file)) as container:
                stream = container.streams.video[0]
                if from_end and stream.duration:
                    container.seek(stream.duration, stream=stream)
                next(iter(container.decode(stream)))
    except (av.FFmpegError, IndexError, StopIteration) as error:
        raise VideoError(f"The file cannot be read back ({error}): it was not saved.") from error
    return size, packets


def _measure_still(file: Path) -> tuple[tuple[int, int], int]:
    try:
        with Image.open(file) as image:
            image.load()
            return image.size, getattr(image, "n_frames", 1)
    except OSError as error:
        raise VideoError(f"The file cannot be read back ({error}): it was not saved.") from error


def _converted(frame: av.VideoFrame, pixels: str) -> av.VideoFrame:
    if not pixels.startswith("yuv"):
        return frame.reformat(format=pixels)
    return frame.reformat(
        format=pixels,
        src_color_range=ColorRange.JPEG,
        dst_color_range=ColorRange.MPEG,
        dst_colorspace=Colorspace.ITU709,
        dst_color_primaries=BT709,
        dst_color_trc=BT709,
    )


def _clock(seconds: float) -> str:
    """A place in a video: minutes, seconds and a tenth."""
    return f"{int(seconds // 60)}:{seconds % 60:04.1f}"


def _even(size: tuple[int, int]) -> tuple[int, int]:
    return size[0] + size[0] % 2, size[1] + size[1] % 2


def _palette_pass(part: Path, rate: Fraction) -> None:
    """Turn the lossless `part` into a GIF whose 256 colours suit the whole clip."""
    palette = _palette(part)
    out = part.with_name(part.name + "2")
    try:
        with av.open(str(part)) as source, av.open(str(out), "w", format="gif") as target:
            video = source.streams.video[0]
            graph = av.filter.Graph()
            pictures = graph.add_buffer(template=video)
            colors = graph.add_buffer(
                width=palette.width,
                height=palette.height,
                format=palette.format,
                time_base=video.time_base,
            )
            mapper = graph.add("paletteuse", "dither=bayer:bayer_scale=4:diff_mode=rectangle")
            sink = graph.add("buffersink")
            pictures.link_to(mapper, 0, 0)
            colors.link_to(mapper, 0, 1)
            mapper.link_to(sink)
            graph.configure()
            palette.pts = 0
            colors.push(palette)
            colors.push(None)
            stream = target.add_stream("gif", rate=rate)
            stream.width, stream.height, stream.pix_fmt = video.width, video.height, "pal8"
            for frame in chain(source.decode(video), [None]):
                pictures.push(frame)
                for mapped in _ready(sink):
                    mapped.time_base = video.time_base
                    target.mux(stream.encode(mapped))
            target.mux(stream.encode(None))
        os.replace(out, part)
    finally:
        out.unlink(missing_ok=True)


def _palette(part: Path) -> av.VideoFrame:
    """The 256 colours that serve all pictures of `part` best."""
    with av.open(str(part)) as source:
        video = source.streams.video[0]
        graph = av.filter.Graph()
        pictures, maker = graph.add_buffer(template=video), graph.add("palettegen")
        sink = graph.add("buffersink")
        pictures.link_to(maker)
        maker.link_to(sink)
        graph.configure()
        for frame in source.decode(video):
            pictures.push(frame)
        pictures.push(None)
        return sink.pull()


def _ready(sink: Any) -> list[av.VideoFrame]:
    """What the filter has finished."""
    frames = []
    while True:
        try:
            frames.append(sink.pull())
        except (av.BlockingIOError, av.EOFError):
            return frames
