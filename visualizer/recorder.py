"""Pictures into files: the offline recording, a capture of the window, a screenshot.

The offline recording steps the very `App` the window drives by exactly one frame at a time
and reads every picture back: no display, no wall clock, the same bytes each time.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from engine.codec import Message
from engine.requests import Request
from engine.trace import Trace
from visualizer.app import App
from visualizer.config import RecordOptions, ShowOptions
from visualizer.errors import NeverDone, VisualizerError
from visualizer.feed import Feed
from visualizer.opening import scene_named
from visualizer.render import fonts
from visualizer.render.context import (
    GraphicsError,
    create_context,
    is_software,
    recording_quality,
)
from visualizer.render.readback import Readback
from visualizer.render.renderer import Renderer
from visualizer.render.stills import NoRoom, still
from visualizer.stage.scene import Scene
from visualizer.ui.overlay import Overlay
from visualizer.video import VideoError, VideoWriter, encoding

if TYPE_CHECKING:
    import moderngl

WARM_UP = 2
"""Pictures drawn before the first one kept: imgui's first frame is blank."""

LAST_PICTURE_SECONDS = 2.0
PICTURE = ".png"
CAPTURE_RATE = 30
PNG_EFFORT = 3  # of 9: twice as quick as the usual 6, a tenth larger

__all__ = ["RecordError", "RecordOptions", "Recorded", "record"]

Progress = Callable[[int, int], None]


class RecordError(VisualizerError):
    """A recording that cannot be made; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A finished recording: where it is and what it holds. `notices` are for people."""

    path: Path
    frames: int
    seconds: float
    width: int
    height: int
    renderer: str
    notices: tuple[str, ...]


class _Silence:
    """The source of a run that is already whole: nothing more will come."""

    live = False
    fault: str | None = None
    notice: str | None = None
    changing = False

    def poll(self) -> list[Message]:
        return []

    def send(self, request: Request) -> None:
        pass

    def restart(self) -> None:
        pass

    def close(self) -> None:
        pass


def check(catalog: Iterable[Scene], options: RecordOptions) -> bool:
    """Whether the processor will draw the pictures. Call before decoding a run for `record`.

    Raises what can be known now to stand in its way: NeverDone for a scene or a kind of file
    that does not exist, RecordError for a folder or graphics that are not there.
    """
    scene_named(catalog, options.scene)
    try:
        if options.out.suffix.lower() != PICTURE:
            encoding(options.out, options.alpha)
    except VideoError as error:
        raise NeverDone(str(error)) from error
    folder = options.out.parent
    if not folder.is_dir():
        raise RecordError(f"There is no folder {folder} to write {options.out.name} into.")
    if not os.access(folder, os.W_OK):
        raise RecordError(f"The folder {folder} cannot be written to.")
    context = headless(options.gpu)
    try:
        return is_software(context)
    finally:
        context.release()


def headless(gpu: int | None = None) -> moderngl.Context:
    try:
        return create_context(device=gpu)
    except GraphicsError as error:
        raise RecordError(str(error)) from error


def record(
    trace: Trace,
    catalog: Iterable[Scene],
    options: RecordOptions,
    progress: Progress | None = None,
) -> Recorded:
    """Draw `trace` from its start into a video file, frame by frame.

    A .png gets the last of these pictures alone. `progress` is told (frames done, frames in all).
    Odd sizes of videos are rounded up to even ones. Raises VisualizerError for everything that can
    be expected to go wrong; no half file stays.
    """
    scene = scene_named(catalog, options.scene)
    context = headless(options.gpu)
    fonts.lend()
    quality = options.quality or recording_quality(context)
    single = options.out.suffix.lower() == PICTURE
    size = (options.width, options.height)
    if not single:
        size = (size[0] + size[0] % 2, size[1] + size[1] % 2)
    renderer = Renderer(context, size, quality, transparent=options.alpha)
    overlay = Overlay()
    app = still_app(renderer, overlay, scene, trace, options)
    try:
        frames, flashes = (
            (_write_still(app, options), "") if single else _write(app, options, size, progress)
        )
        return Recorded(
            path=options.out,
            frames=frames,
            seconds=frames / options.fps,
            width=size[0],
            height=size[1],
            renderer=str(context.info["GL_RENDERER"]),
            notices=_notices(options, size, is_software(context), flashes),
        )
    finally:
        app.close()
        overlay.close()
        renderer.release()
        context.release()


def _notices(
    options: RecordOptions, size: tuple[int, int], software: bool, flashes: str
) -> tuple[str, ...]:
    """What people should know about a recording that is otherwise fine."""
    given = (options.width, options.height)
    rounded = "The size {}x{} was rounded up to {}x{}: videos need even sides."
    drawn = "No GPU was found: the pictures were drawn by the processor, which is slow."
    told = (rounded.format(*given, *size) * (size != given), drawn * software, flashes)
    return tuple(notice for notice in told if notice)


def still_app(
    renderer: Renderer, overlay: Overlay, scene: Scene, trace: Trace, options: RecordOptions
) -> App:
    """An app on a whole run, warmed up and standing at its first picture."""
    show = ShowOptions(
        theme=options.theme,
        preset=options.preset,
        ui_visible=options.ui_visible,
        reduce_motion=options.reduce_motion,
        advances=False,
    )
    app = App(renderer, overlay, scene, Feed(_Silence(), trace), show, badge=options.badge)
    for _ in range(WARM_UP + 1):
        app.step(0.0)
    return app


def _write(
    app: App, options: RecordOptions, size: tuple[int, int], progress: Progress | None
) -> tuple[int, str]:
    """How many pictures were written, and what is to be said of their flashes."""
    seconds = options.seconds
    if seconds is None:
        seconds = app.end + LAST_PICTURE_SECONDS
    count = max(round(seconds * options.fps), 1)
    renderer = app.renderer
    ring = Readback(renderer.context, size, renderer.channels)
    try:
        with VideoWriter(options.out, size, options.fps, alpha=options.alpha) as video:
            for index in range(count):
                if index:
                    app.step(1.0 / options.fps)
                earlier = ring.take(renderer.picture)
                if earlier is not None:
                    video.write(earlier)
                if progress is not None:
                    progress(index + 1, count)
            for last in ring.rest():
                video.write(last)
    except (VideoError, OSError) as error:
        raise RecordError(str(error)) from error
    finally:
        ring.release()
    return count, video.flashes


def _write_still(app: App, options: RecordOptions) -> int:
    """The picture that a video of these options would end with. An older file stays if it fails."""
    app.step(app.end + LAST_PICTURE_SECONDS if options.seconds is None else options.seconds)
    app.step(0.0)  # panels of a size they have not had before need one picture more
    part = options.out.with_name(f"{options.out.name}.part")
    try:
        Image.fromarray(app.renderer.pixels()).save(part, "png", compress_level=PNG_EFFORT)
        part.replace(options.out)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RecordError(f"{options.out.name} was not saved: {error}.") from error
    return 1


class Capture:
    """What the window shows, at a constant rate: late pictures are repeated, extra ones left out.

    The size is the window's at the start; a resized window ends the capture with RecordError.
    """

    def __init__(self, path: Path, size: tuple[int, int], now: float) -> None:
        self._size = size
        self._start = now
        self._asked = 0  # pictures of the video up to now,
        self._waiting: deque[int] = deque()  # and how many each one in the ring stands for
        self._ring: Readback | None = None
        self._path = path
        try:
            self._video = VideoWriter(path, _even(size), CAPTURE_RATE)
        except (VideoError, OSError) as error:
            raise RecordError(str(error)) from error

    def take(self, renderer: Renderer, now: float) -> None:
        """Bring the video up to `now` with the renderer's picture."""
        if renderer.size != self._size:
            saved = self.close()
            raise RecordError(f"The window changed its size: recording ended, saved {saved}.")
        due = int((now - self._start) * CAPTURE_RATE) + 1
        if due <= self._asked:
            return
        self._ring = self._ring or Readback(renderer.context, self._size, renderer.channels)
        earlier = self._ring.take(renderer.picture)
        self._waiting.append(due - self._asked)
        self._asked = due
        try:
            if earlier is not None:
                self._write(earlier)
        except (VideoError, OSError) as error:
            self._ring.release()
            self._ring = None
            raise RecordError(f"Recording ended: {error}") from error

    def _write(self, picture: bytes) -> None:
        """Write the oldest picture on its way, as often as it stands for."""
        width, height = _even(self._size)
        rows = np.frombuffer(picture, np.uint8).reshape(self._size[1], self._size[0], -1)
        even = rows[:height, :width].tobytes() if (width, height) != self._size else picture
        for _ in range(self._waiting.popleft()):
            self._video.write(even)

    @property
    def flashes(self) -> str:
        """Where the capture flashes more than is safe, in a sentence; "" for nowhere."""
        return self._video.flashes

    def close(self) -> Path:
        """Finish the file, with the pictures still on their way, and return its path."""
        ring, self._ring = self._ring, None
        try:
            for last in ring.rest() if ring else ():
                self._write(last)
            self._video.close()
        except (VideoError, OSError) as error:
            raise RecordError(f"The recording was not saved: {error}") from error
        finally:
            if ring:
                ring.release()
        return self._path


def _even(size: tuple[int, int]) -> tuple[int, int]:
    """The largest even size within `size`."""
    return size[0] - size[0] % 2, size[1] - size[1] % 2


def save_png(renderer: Renderer, path: Path) -> None:
    """Write the renderer's picture. Raises OSError."""
    Image.fromarray(renderer.pixels()).save(path, compress_level=PNG_EFFORT)


def shoot(app: App, path: Path, size: tuple[int, int], alpha: bool, panels: bool) -> None:
    """Write this moment as a picture of `size` pixels, drawn for it, not enlarged.

    With `alpha` the stage is left out and the coverage kept, straight. Raises OSError, and
    RecordError where the graphics processor has no memory for it.
    """
    try:
        pixels = still(app.renderer, size, alpha, lambda made: app.draw_with(made, panels))
    except NoRoom as error:
        raise RecordError(str(error)) from error
    Image.fromarray(pixels).save(path, compress_level=PNG_EFFORT)


def new_path(folder: Path, suffix: str) -> Path:
    """A file name in `folder` that nothing has yet. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    names = (f"{stamp}{tail}.{suffix}" for tail in ("", *(f"-{n}" for n in range(1, 1000))))
    return next(path for path in map(folder.joinpath, names) if not path.exists())
