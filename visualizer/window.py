"""The window: the one file that knows pyglet. Events in, pictures out, paced by the clock.

Nothing that matters is kept from event handlers: size, pixel ratio and focus are asked of
the window every frame. The picture is drawn by the renderer into its own framebuffer and
only copied here.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from engine.source import EventSource
from visualizer import actions as act
from visualizer import cameras, preferences
from visualizer.actions import Action
from visualizer.app import App
from visualizer.config import FRAME_RATE, ShowOptions, WindowOptions
from visualizer.errors import VisualizerError
from visualizer.feed import Feed
from visualizer.garbage import Garbage
from visualizer.input import LEFT, MIDDLE, RIGHT, Input, Modifiers
from visualizer.meter import Meter
from visualizer.opening import opening_request, scene_named
from visualizer.render import fonts
from visualizer.render.context import GraphicsError, create_context, default_quality
from visualizer.render.quality import Governor
from visualizer.render.renderer import Renderer
from visualizer.stage.scene import Scene
from visualizer.stage.view import Quality
from visualizer.takes import Takes
from visualizer.ui.overlay import Cursor, Overlay
from visualizer.ui.port import set_clipboard

TITLE = "VerifyBox"
SMALLEST = (640, 480)
SETTLED_SECONDS = 1.0
LONGEST_FRAME = 1.0  # seconds; a laptop that slept goes on where it was
__all__ = ["NoDisplay", "WindowOptions", "run"]


class NoDisplay(VisualizerError):
    """There is no display, or none that can show OpenGL 3.3."""


def run(source: EventSource, catalog: Iterable[Scene], options: WindowOptions) -> int:
    """Show `source` in a window until it is closed; returns the exit code.

    Raises NoDisplay when no window can be had, VisualizerError on an unknown scene.
    """
    return Window(source, scene_named(catalog, options.scene), options).loop()


class Window:
    """A pyglet window around an `App`."""

    def __init__(self, source: EventSource, scene: Scene, options: WindowOptions) -> None:
        self._options = options
        self._pyglet = _load_pyglet()
        self._window = _open(self._pyglet, options.size)
        try:
            context = create_context(self._window)
        except GraphicsError as error:
            self._window.close()
            raise NoDisplay(str(error)) from error
        fonts.lend()
        self._screen = context.detect_framebuffer()
        self._overlay = Overlay()
        show = ShowOptions(
            prompts=options.prompts,
            settings=options.settings,
            seed=options.seed,
            max_new_tokens=options.max_new_tokens,
            run_folders=options.run_folders,
            remember=options.remember,
            replies=options.replies,
            drafters=options.drafters,
        )
        first = options.quality or default_quality(context)
        self._governor = None if options.quality else Governor(first)
        self._quality = first  # where nobody chose one in the settings
        renderer = Renderer(context, self._pixels(), first)
        feed = Feed(source, options.opening, opening_request(show) if source.live else None)
        self._asked: list[Action] = []  # of the window by panels, for when a picture is done
        self._app = App(renderer, self._overlay, scene, feed, show, program=self._asked.append)
        self._store = preferences.Store(options.preferences) if options.preferences else None
        self._kept = preferences.Preferences()
        self._unsaved = 0.0  # seconds that the preferences have been others than those kept
        if self._store is not None:
            self._recall(self._store)
        self._input = Input(self._overlay.port, self._app, self._handle, time.monotonic)
        self._meter: Meter | None = None
        if options.profile or options.profile_file is not None:
            self._meter = Meter(options.profile_file)
        self._takes = Takes(self._app, options.recordings, self._caption)
        self._cursor: Cursor = "arrow"
        self._windowed: tuple[int, int, int, int] | None = None
        self._full_screen_wanted = False
        self._handlers = _handlers(self._pyglet, self._window, self._input)
        self._window.push_handlers(**self._handlers)
        set_clipboard(self._window.get_clipboard_text, self._window.set_clipboard_text)

    # --- the loop --------------------------------------------------------------------------

    def loop(self) -> int:
        """Draw until the window is closed. Time is absolute: a late frame is not made up for."""
        garbage = Garbage()
        last = deadline = time.monotonic()
        try:
            while not self._window.has_exit:
                now = time.monotonic()
                elapsed, last = min(now - last, LONGEST_FRAME), now
                self.turn(elapsed)
                garbage.picture(self._app.finished)
                deadline = max(deadline + 1 / FRAME_RATE, time.monotonic() - 1 / FRAME_RATE)
                time.sleep(max(deadline - time.monotonic(), 0.0))
        finally:
            garbage.close()
            self.close()
        return 0

    def turn(self, elapsed: float) -> None:
        """Take in what people did, and draw the picture `elapsed` seconds after the last one."""
        window = self._window
        window.switch_to()
        window.dispatch_events()
        asked, self._asked[:] = tuple(self._asked), ()
        for action in asked:
            self._handle(action)
        if self._full_screen_wanted != window.fullscreen:
            self._full_screen(self._full_screen_wanted)
        self._frame(elapsed)

    def _frame(self, elapsed: float) -> None:
        width, height = self._pixels()
        if width <= 0 or height <= 0:  # minimised
            return
        ratio = width / max(self._window.get_size()[0], 1)
        self._app.resize(width, height, ratio)
        gpu = self._app.renderer.measured()
        if self._governor is not None and self._app.state.quality is None:
            self._quality = self._governor.after(gpu)
        self._draw_as(self._app.state.quality or self._quality)
        self._app.step(elapsed)
        self._point_with(self._app.cursor)
        self._remember(elapsed)
        self._input.frame_done()
        self._takes.feed(time.monotonic())
        self._app.renderer.present(self._screen, (width, height))
        self._window.flip()
        if self._meter is not None:
            self._measure(self._meter, gpu)

    def _pixels(self) -> tuple[int, int]:
        width, height = self._window.get_framebuffer_size()
        return int(width), int(height)

    def _measure(self, meter: Meter, gpu: float | None) -> None:
        try:
            meter.picture(time.monotonic(), self._app.spent, gpu)
        except OSError as error:
            meter.file = None
            self._app.say(f"The profile is not written: {error.strerror or error}")
        self._app.profile = meter.lines if self._options.profile else ()

    def close(self) -> None:
        """Keep what is to be remembered, and give everything back."""
        self._takes.end()
        if self._meter is not None:
            with suppress(OSError):
                self._meter.write(time.monotonic())
        if self._store is not None:
            self._store.write(preferences.of(self._app.state, self._app.clock))
        self._window.remove_handlers(**self._handlers)
        self._app.close()
        self._app.renderer.release()
        self._overlay.close()
        self._window.close()

    # --- what is remembered -----------------------------------------------------------------

    def _recall(self, store: preferences.Store) -> None:
        self._kept = store.read()
        self._app.prefer(self._kept)
        if store.notice:
            self._app.say(store.notice)

    def _remember(self, elapsed: float) -> None:
        """Write preferences a while after they changed: a slider on the move is no news yet."""
        now = preferences.of(self._app.state, self._app.clock)
        if self._store is None or now == self._kept:
            return
        self._unsaved += elapsed
        if self._unsaved >= SETTLED_SECONDS:
            self._unsaved, self._kept = 0.0, now
            self._store.write(now)
            if self._store.notice:
                self._app.say(self._store.notice)

    def _draw_as(self, quality: Quality) -> None:
        """Go on with a renderer of this quality."""
        old = self._app.renderer
        if old.quality == quality:
            return
        self._app.renderer = Renderer(old.context, old.size, quality)
        old.release()

    # --- actions of the program ------------------------------------------------------------

    def _handle(self, action: Action) -> None:
        match action:
            case act.Screenshot(panels):
                self._takes.screenshot(panels)
            case act.CopyCamera():
                state = self._app.state
                self._window.set_clipboard_text(cameras.text_of(state.preset, state.orbit))
                self._app.say("The camera is in the clipboard, as text")
            case act.CopyText(text, says):
                self._window.set_clipboard_text(text)
                self._app.say(says)
            case act.PasteCamera():
                self._paste_camera()
            case act.ResetPreferences():
                self._app.prefer(preferences.Preferences())
                self._app.say("Theme, sizes, quality, motion and speed are as they came")
            case act.Quit():
                self._window.has_exit = True
            case act.ToggleCapture():
                self._takes.toggle(time.monotonic())
            case act.ToggleFullScreen():
                self._full_screen_wanted = not self._window.fullscreen
            case act.Leave():
                if not self._app.leave() and self._window.fullscreen:
                    self._full_screen_wanted = False
            case _:
                self._app.handle(action)

    def _point_with(self, cursor: Cursor) -> None:
        if cursor != self._cursor:
            self._cursor = cursor
            kind = {"hand": "CURSOR_HAND", "text": "CURSOR_TEXT"}.get(cursor, "CURSOR_DEFAULT")
            shape = self._window.get_system_mouse_cursor(getattr(self._window, kind))
            self._window.set_mouse_cursor(shape)

    def _caption(self, recording: str) -> None:
        self._window.set_caption(f"{TITLE}: recording {recording}" if recording else TITLE)

    def _full_screen(self, wanted: bool) -> None:
        """Borderless full screen; the place and size before it come back after it.

        On X11 this makes a new window: nobody gives it the keyboard, and the release of the
        key that asked for it goes nowhere, so pyglet would take the next press for a repeat.
        """
        window = self._window
        if wanted:
            self._windowed = (*window.get_location(), *window.get_size())
            window.set_fullscreen(True)
        else:
            window.set_fullscreen(False)
            if self._windowed is not None:
                x, y, width, height = self._windowed
                window.set_size(width, height)
                window.set_location(x, y)
        window.activate()
        self._input.focus_lost()
        self._input.focus_gained()
        getattr(window, "pressed_keys", set()).clear()

    def _paste_camera(self) -> None:
        camera = cameras.parse(self._window.get_clipboard_text())
        if camera is None:
            self._app.say("The clipboard holds no camera")
        else:
            self._app.handle(camera)


# --- pyglet --------------------------------------------------------------------------------


def _load_pyglet() -> Any:
    """Import pyglet so that no window or GL context comes into being by the import alone."""
    import pyglet

    pyglet.options.shadow_window = False
    pyglet.options["dpi_scaling"] = "platform"  # ours is read from the window every frame
    return pyglet


def _open(pyglet: Any, size: tuple[int, int]) -> Any:
    """A window with the best GL configuration this display offers. Raises NoDisplay."""
    with _display_faults():
        display = pyglet.display.get_display()
        screen = display.get_default_screen()
        width = max(min(size[0], screen.width - 40), min(SMALLEST[0], screen.width))
        height = max(min(size[1], screen.height - 80), min(SMALLEST[1], screen.height))
        faults: list[str] = []
        for config in _configs(pyglet):
            try:
                window = pyglet.window.Window(
                    width, height, TITLE, resizable=True, config=config, vsync=True, visible=False,
                    file_drops=True,
                )  # fmt: skip
            except Exception as error:  # every platform's own class; the next rung may do
                faults.append(str(error))
                continue
            window.set_minimum_size(*SMALLEST)
            window.set_visible(True)
            return window
    raise NoDisplay(
        f"This display offers no window with OpenGL 3.3 ({faults[-1]}): install or update the "
        "graphics driver."
    )


def _configs(pyglet: Any) -> Iterator[Any]:
    """From wanted to least. Multisampling is the renderer's own, never asked of the window."""
    version = {"major_version": 3, "minor_version": 3, "forward_compatible": True}
    for depth in (24, 0):
        yield pyglet.gl.Config(double_buffer=True, depth_size=depth, **version)
    yield pyglet.gl.Config(double_buffer=True, major_version=3, minor_version=3)
    yield pyglet.gl.Config(major_version=3, minor_version=3)


@contextmanager
def _display_faults() -> Iterator[None]:
    """Whatever a platform raises when there is no display becomes one sentence."""
    try:
        yield
    except NoDisplay:
        raise
    except Exception as error:
        unset = sys.platform.startswith("linux") and not os.environ.get("DISPLAY")
        detail = "DISPLAY is not set" if unset else str(error)
        raise NoDisplay(f"There is no display to open a window on ({detail}).") from error


def _handlers(pyglet: Any, window: Any, target: Input) -> dict[str, Callable[..., bool]]:
    """pyglet's events as the verbs of `Input`; every one is consumed here."""
    key, mouse = pyglet.window.key, pyglet.window.mouse
    buttons = {mouse.LEFT: LEFT, mouse.RIGHT: RIGHT, mouse.MIDDLE: MIDDLE}

    def held(bits: int) -> Modifiers:
        return Modifiers(
            shift=bool(bits & key.MOD_SHIFT),
            ctrl=bool(bits & (key.MOD_CTRL | key.MOD_COMMAND)),
            alt=bool(bits & key.MOD_ALT),
            super=bool(bits & key.MOD_WINDOWS),
        )

    def top(y: float) -> float:
        return float(window.get_size()[1]) - y

    def on_mouse_motion(x: float, y: float, dx: float, dy: float) -> bool:
        target.mouse_moved(x, top(y))
        return True

    def on_mouse_drag(x: float, y: float, dx: float, dy: float, bits: int, modifiers: int) -> bool:
        target.mouse_dragged(x, top(y), dx, -dy)
        return True

    def on_mouse_press(x: float, y: float, button: int, modifiers: int) -> bool:
        target.mouse_pressed(x, top(y), buttons.get(button, -1), held(modifiers))
        return True

    def on_mouse_release(x: float, y: float, button: int, modifiers: int) -> bool:
        target.mouse_released(x, top(y), buttons.get(button, -1), held(modifiers))
        return True

    def on_mouse_scroll(x: float, y: float, across: float, up: float) -> bool:
        target.mouse_scrolled(x, top(y), across, up)
        return True

    def on_mouse_leave(x: float, y: float) -> bool:
        target.mouse_left()
        return True

    def on_key_press(symbol: int, modifiers: int) -> bool:
        target.key_pressed(_key_name(key, symbol), held(modifiers))
        return True

    def on_key_release(symbol: int, modifiers: int) -> bool:
        target.key_released(_key_name(key, symbol), held(modifiers))
        return True

    def on_text(text: str) -> bool:
        target.text(text)
        return True

    def on_file_drop(x: float, y: float, paths: list[str]) -> bool:
        target.dropped([Path(path) for path in paths])
        return True

    def on_resize(width: int, height: int) -> bool:
        return True  # size is asked for every frame; pyglet's own projection is not used

    def on_activate() -> bool:
        target.focus_gained()
        return True

    def on_deactivate() -> bool:
        target.focus_lost()
        return True

    return {name: each for name, each in locals().items() if name.startswith("on_")}


_NAMES = {
    "ENTER": "return", "NUM_ENTER": "return", "PAGEUP": "page_up", "PAGEDOWN": "page_down",
    "BRACKETLEFT": "[", "BRACKETRIGHT": "]", "PERIOD": ".", "EQUAL": "=", "PLUS": "=",
    "MINUS": "-", "SLASH": "/", "NUM_DIVIDE": "/",
}  # fmt: skip


def _key_name(key: Any, symbol: int) -> str:
    """The neutral name of a key: "a", "1", "left", "page_down", "[" …"""
    name: str = key.symbol_string(symbol)
    if name.startswith("_") and name[1:].isdigit():
        return name[1:]
    if name.startswith("NUM_") and name[4:].isdigit():
        return name[4:]
    return _NAMES.get(name, name.lower())
