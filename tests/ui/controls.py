"""Presses every control there is in a real window, and prints what did not react.

    python tests/ui/controls.py FOLDER

Started by `test_controls.py` on a virtual display. Keys and clicks come from xdotool, through X
and the window, as a person's do. What is to be driven is asked of the program: every key of the
table, every command of the palette, every control the panels mark. One that is new is driven
without being named here, and found out if it does nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

from imgui_bundle import imgui
from show import PROMPTS, ScriptedSource, hand_run

import scenes
from engine.comparison import Compared, Comparison
from engine.trace import EngineState
from visualizer import actions as act
from visualizer.clock import PlaybackClock
from visualizer.config import WindowOptions
from visualizer.keymap import COMMANDS, Command
from visualizer.opening import nothing_to_tell
from visualizer.stage.camera import project
from visualizer.stage.view import Orbit
from visualizer.state import ViewState
from visualizer.ui.model import UiModel
from visualizer.ui.readouts import readouts_of
from visualizer.window import Window

PATIENCE = 3.0
Attempt = Callable[[], bool]
X_NAMES = {
    "page_down": "Next", "page_up": "Prior", "[": "bracketleft", "]": "bracketright",
    ".": "period", "/": "slash", "=": "equal", "-": "minus", "escape": "Escape",
    "left": "Left", "right": "Right", "up": "Up", "down": "Down", "tab": "Tab",
    "home": "Home", "end": "End", "space": "space",
}  # fmt: skip
FRAMES = frozenset({
    "histogram", "positions", "microscope", "help", "palette", "engine-card", "gallery", "standing",
    "row-none", "card-copy-8", "place",
})  # fmt: skip
"""Marks that are no controls but the place of several, or what would change nothing: a row always
measured, the card that is open."""

EXPLAINED = frozenset({"badge", "notice", "refusal", "check"}) | {
    each.name
    for each in readouts_of(
        UiModel(ViewState(), PlaybackClock(), nothing_to_tell(), None, "LIVE", None)
    )
}
"""Marks of what only tells something to whoever points at it."""

ACTS = slice(0, -1)
"""Of what is seen: all but the number of panels, which grows by a hint."""

LAST = act.Quit()


class Driver:
    """The window, the hand that drives it, and what is seen of its reactions."""

    def __init__(self, folder: Path) -> None:
        self.source = ScriptedSource()
        options = WindowOptions(
            prompts=PROMPTS,
            recordings=folder / "recordings",
            run_folders=(folder,),
            size=(1180, 780),
            preferences=folder / "preferences.json",
        )
        self.window = Window(self.source, scenes.CATALOG[0], options)
        self.shots = folder / "recordings"
        self.app, self.port = self.window._app, self.window._overlay.port
        self.handled: list[Any] = []
        handle = self.window._handle
        self.window._input._emit = lambda action: (self.handled.append(action), handle(action))  # type: ignore[func-returns-value]
        run = hand_run()
        assert run.header is not None
        self.source.say(
            EngineState("ready", drafters=("none", "n-gram", "copy-8")), run.header, *run.rounds
        )
        self.turn(12)
        self.app.handle(act.TogglePlay())
        self.base = replace(self.app.state, settings=run.header.settings)
        self.turn(3)
        self.middle = replace(self.app.clock, t=0.45 * self.app.end, playing=False, stop_at=None)
        self.restore()

    # --- turning ---------------------------------------------------------------------------

    def turn(self, frames: int = 1) -> None:
        for _ in range(frames):
            self.window.turn(1 / 60)

    def restore(self) -> None:
        """The same moment, the same look, nothing pressed and nobody pointing."""
        self.source.changing = False
        self.app.state, self.app.clock = self.base, self.middle
        self.app._message_left = 0.0
        self.window._input.focus_lost()
        self.window._input.focus_gained()
        imgui.set_window_focus(None)
        self.handled.clear()

    def hand(self, *words: str) -> None:
        """xdotool does these words while the window goes on."""
        tool = subprocess.Popen(["xdotool", *words])
        while tool.poll() is None:
            self.turn()
            time.sleep(0.002)
        assert tool.returncode == 0, words

    def until(self, holds: Callable[[], object]) -> bool:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > deadline:
                return False
            self.turn()
            time.sleep(0.002)
        return True

    def seen(self) -> Any:
        """All that a control may change, as a value."""
        window, app = self.window._window, self.app
        data = self.window._overlay.draw_data
        shots = sorted(path.name for path in self.shots.glob("*")) if self.shots.exists() else []
        return (
            app.state, app.clock, app._message if app._message_left > 0 else "",
            window.fullscreen, window.has_exit, self.window._takes.capture is not None, shots,
            len(self.source.requests), self.source.restarts,
            self.port.wants_text, self.port._listing, frozenset(self.window._overlay.marks),
            len(data.cmd_lists),
        )  # fmt: skip

    # --- driving ---------------------------------------------------------------------------

    def reacts(
        self,
        *words: str,
        ready: Callable[[], object] = lambda: None,
        of: slice = slice(None),
    ) -> bool:
        """Whether any `of` what is seen changes when xdotool does these words in the base state."""
        self.restore()
        ready()
        self.turn(3)
        before = self.seen()[of]
        self.hand(*words)
        return self.until(lambda: self.seen()[of] != before)

    def key_works(self, command: Command, key: str) -> bool:
        """The key leads to its action, and the action to a change."""
        *held, name = key.split("+") if len(key) > 1 else [key]
        chord = "+".join((*held, X_NAMES.get(name, name.upper() if name[1:].isdigit() else name)))
        ready = {act.Leave(): act.ToggleBlackout(), act.ShowLive(): act.Inspect()}
        needed = ready.get(command.action)
        if isinstance(command.action, act.InspectNext):
            needed = act.Inspect()
        if isinstance(command.action, act.ResetView | act.PasteCamera):
            needed = act.OrbitBy(0.5, 0.1)
        if isinstance(command.action, act.ChoosePreset):
            needed = act.ChoosePreset("free" if command.action.preset == "default" else "default")
        if isinstance(command.action, act.Seek):
            needed = act.Seek(0.3 * self.app.end)
        changed = self.reacts("key", chord, ready=lambda: needed and self.app.handle(needed))
        return changed and command.action in self.handled

    def palette_works(self, command: Command) -> bool:
        """Its title, typed into the palette, leads to a change beyond the palette's own."""
        self.restore()
        self.turn(3)
        self.hand("key", "ctrl+k")
        self.until(lambda: self.app.state.palette is not None)
        self.hand("type", "--delay", "4", command.title)
        if not self.until(
            lambda: self.app.state.palette and self.app.state.palette.query == command.title
        ):
            return False
        before = replace(self.app.state, palette=None), *self.seen()[1:9]
        self.hand("key", "Return")
        self.until(lambda: self.app.state.palette is None)
        return self.until(lambda: (self.app.state, *self.seen()[1:9]) != before)

    def mark_works(self, name: str) -> bool:
        """Pressed left or right of its middle it acts; a number explains itself when pointed at."""
        for share in (0.25, 0.75):
            self.restore()
            self.turn(3)
            rect = self.window._overlay.marks[name]  # others may have unfolded before it
            y = f"{rect.y + rect.height / 2:.0f}"
            place = ("mousemove", f"{rect.x + share * rect.width:.0f}", y)
            if name.endswith("-label") or name in EXPLAINED:
                works = self.reacts(*place)
            else:
                works = self.reacts(*place, "sleep", "0.03", "click", "1", of=ACTS)
            if works:
                self.hand("key", "Escape", "mousemove", "700", "330")
                self.turn(4)
                return True
        return False

    def gestures(self) -> Iterator[tuple[str, Attempt]]:
        """What the mouse does on the stage."""
        self.restore()
        self.turn(2)
        frame = self.app._picture
        assert frame is not None
        block = frame.solids[frame.solids["pick"] > 0][-1]
        size = self.app.renderer.size
        x, y = project(frame.camera, block["center"][None].astype(float), *size)[0]
        there = ("mousemove", f"{x:.0f}", f"{y:.0f}", "sleep", "0.03")
        free = ("mousemove", "700", "170", "sleep", "0.03")

        def moved(name: str) -> bool:
            return getattr(self.app.state.orbit, name) != getattr(self.base.orbit, name)

        def drag(button: str, *held: str) -> tuple[str, ...]:
            down = [word for key in held for word in ("keydown", key)]
            up = [word for key in held for word in ("keyup", key)]
            moves = ("mousemove", "760", "200", "sleep", "0.03", "mousemove", "800", "220")
            press = ("sleep", "0.03", "mousedown", button, "sleep", "0.03")
            return (*free, *down, *press, *moves, "sleep", "0.03", "mouseup", button, *up)

        def dropped() -> bool:
            """xdotool cannot drop files: the window is told as X would tell it."""
            self.restore()
            before = self.seen()
            self.window._window.dispatch_event("on_file_drop", 700, 300, ["/none/such.jsonl"])
            return self.until(lambda: self.seen() != before)

        def moves(name: str, *words: str) -> Attempt:
            return lambda: self.reacts(*words) and self.until(lambda: moved(name))

        yield "point", lambda: self.reacts(*there)
        yield "click", lambda: self.reacts(*there, "click", "1") and bool(self.app.state.selected)
        yield "left drag", moves("yaw", *drag("1"))
        yield "right drag", moves("pan", *drag("3"))
        yield "middle drag", moves("pan", *drag("2"))
        yield "shift drag", moves("pan", *drag("1", "shift"))
        yield "wheel up", moves("zoom", *free, "click", "4")
        yield "wheel down", moves("zoom", *free, "click", "5")
        twice = ("click", "--repeat", "2", "--delay", "40", "1")
        yield "double click", moves("pan", *free, *twice)
        yield "drop", dropped
        yield "ctrl+Return", self._starts
        yield "a refused change", self.refused

    def _starts(self) -> bool:
        self.restore()
        self.turn(2)
        box = self.window._overlay.marks["prompt"]
        count = len(self.source.starts())
        self.hand(
            "mousemove", f"{box.x + 20:.0f}", f"{box.y + 10:.0f}", "sleep", "0.05", "click", "1"
        )
        self.until(lambda: self.port.wants_text)
        self.hand("type", "--delay", "4", "Sing")
        self.hand("key", "ctrl+Return")
        return self.until(lambda: len(self.source.starts()) > count)

    def refused(self) -> bool:
        """A change that the engine refuses is told over the stage, where the dock is hidden too."""
        self.restore()
        self.app.handle(act.ToggleUi())
        self.turn(2)
        self.hand("key", "ctrl+k")
        self.until(lambda: self.app.state.palette is not None)
        self.hand("type", "--delay", "4", "K: 7")
        self.until(lambda: self.app.state.palette and self.app.state.palette.query == "K: 7")
        self.hand("key", "Return")
        if not self.until(lambda: self.source.changing):
            return False
        self.source.changing = False
        no = f"There is no K of 7 here, said at {len(self.source.requests)}."
        self.source.say(EngineState("ready", no, drafters=("none", "n-gram", "copy-8")))
        return self.until(lambda: self.app.model().message == no)

    def _open(self, tab: act.Tab) -> None:
        """The gallery on a card that is not in use, and with a table to copy."""
        row = Compared("n-gram", prompts=1, tokens=9, tokens_per_second=9.0, speedup=1.1)
        self.source.say(Comparison("done", self.base.settings, 1, 48, (row,)))
        self.app.handle(act.OpenGallery(tab))
        self.app.handle(act.ChooseCard("copy-8"))

    def panels(self) -> Iterator[tuple[str, Attempt]]:
        """Every control that the panels mark, in the states in which there are more of them."""
        looks: Sequence[tuple[str, Any]] = (
            ("plain", lambda: None),
            ("microscope", lambda: self.app.handle(act.Inspect())),
            ("gallery", lambda: self._open("cards")),
            ("comparison", lambda: self._open("compare")),
        )
        known: set[str] = set()
        base = self.base
        for look, prepare in looks:
            self.base = replace(base, orbit=Orbit(yaw=0.2))  # so that there is something to reset
            self.restore()
            prepare()
            self.turn(30)
            self.base = self.app.state
            marks = [name for name in self.window._overlay.marks if name not in known | FRAMES]
            known |= set(marks)
            for name in marks:
                yield f"{look}: {name}", partial(self.mark_works, name)
        self.base = base


def main() -> None:
    driver = Driver(Path(sys.argv[1]))
    broken = "--broken" in sys.argv  # one control does nothing, and little else is driven
    if broken:
        handle = driver.app.handle
        driver.app.handle = lambda each: None if each == act.ToggleLoop() else handle(each)  # type: ignore[method-assign]
    silent: list[str] = []
    driven = 0

    def note(name: str, attempt: Attempt) -> None:
        """On a busy machine clicks of a pair may lie too far apart: everything may try twice."""
        nonlocal driven
        driven += 1
        if not attempt() and not attempt():
            silent.append(name)

    for name, attempt in driver.gestures() if not broken else ():
        note(f"gesture {name}", attempt)
    for name, attempt in driver.panels():
        if not broken or name in ("plain: loop", "plain: play"):
            note(f"panel {name}", attempt)
    for command in COMMANDS:
        if command.action == LAST or (broken and command.group != "Time"):
            continue
        for key in command.keys:
            note(f"key {key}: {command.title}", partial(driver.key_works, command, key))
            if command.action in (act.ToggleFullScreen(), act.ToggleCapture()):  # and back
                driver.hand("key", "F11" if key == "f11" else "ctrl+r")
                driver.until(lambda: not driver.window._window.fullscreen)
                driver.until(lambda: driver.window._takes.capture is None)
        if not command.keys:
            note(f"palette: {command.title}", partial(driver.palette_works, command))
    quits = partial(driver.reacts, "key", "ctrl+q")
    note("key ctrl+q: Quit", lambda: quits() and bool(driver.window._window.has_exit))
    driver.window.close()
    print(json.dumps({"driven": driven, "silent": silent}))


if __name__ == "__main__":
    main()
