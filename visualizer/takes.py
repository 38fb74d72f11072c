"""What a viewer takes along from a show: screenshots, and a capture of what the window shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from visualizer.app import App
from visualizer.recorder import Capture, RecordError, new_path, shoot


class Takes:
    """Files in `folder`, never overwritten; `tell` is called with the name of one being written,
    and with "" when it is done. What became of them the app says."""

    def __init__(self, app: App, folder: Path, tell: Callable[[str], None]) -> None:
        self._app = app
        self._folder = folder
        self._tell = tell
        self.capture: Capture | None = None

    def screenshot(self, panels: bool) -> None:
        """Save what is on screen or the stage with its badge alone, as large as it is wanted."""
        state = self._app.state
        size = state.shot_size or self._app.renderer.size
        try:
            path = new_path(self._folder, "png")
            shoot(self._app, path, size, state.shot_alpha, panels)
        except (OSError, RecordError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            self._app.say(f"The screenshot was not saved: {reason or error}")
        else:
            kind = ", transparent" if state.shot_alpha else ""
            self._app.say("Saved {} ({}x{}{})".format(path, *size, kind))

    def toggle(self, now: float) -> None:
        """Begin a capture, or end the one under way."""
        if self.capture is not None:
            self.end()
            return
        try:
            path = new_path(self._folder, "mp4")
            self.capture = Capture(path, self._app.renderer.size, now)
        except (OSError, RecordError) as error:
            self._app.say(f"Recording did not start: {error}")
        else:
            self._tell(path.name)

    def feed(self, now: float) -> None:
        """Bring a capture under way up to `now`."""
        if self.capture is None:
            return
        try:
            self.capture.take(self._app.renderer, now)
        except RecordError as error:
            self.capture = None
            self._tell("")
            self._app.say(str(error))

    def end(self) -> None:
        """Finish the capture under way, if there is one."""
        capture, self.capture = self.capture, None
        if capture is None:
            return
        self._tell("")
        try:
            self._app.say(f"Saved {capture.close()}. {capture.flashes}".rstrip(". "))
        except RecordError as error:
            self._app.say(str(error))
