"""From neutral input events to actions: shortcuts, scene mouse, and who owns a press.

Knows no window library and no UI library. The window translates its events into the verbs
of `Input`; the UI is reached through the small `UiPort` protocol. Whoever a button or key
was *pressed* on keeps it until release: a drag that starts on a panel never orbits the
scene, and typing in a text box never triggers a shortcut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from visualizer import actions as act
from visualizer import keymap
from visualizer.actions import Action

LEFT, RIGHT, MIDDLE = 0, 1, 2
BUTTONS = (LEFT, RIGHT, MIDDLE)

ORBIT_PER_PIXEL = math.radians(0.3)
ZOOM_PER_NOTCH = 0.9
DOUBLE_CLICK_SECONDS = 0.35
DOUBLE_CLICK_PIXELS = 6.0
CLICK_PIXELS = 4.0  # a press that moved no further was a click
FRAMES_TO_OPEN = 8  # at most, until the palette has the keyboard
FRAMES_TO_SETTLE = 4  # pointer, press, the box's focus, and its report each take a UI frame


@dataclass(frozen=True, slots=True)
class Modifiers:
    shift: bool = False
    ctrl: bool = False
    alt: bool = False
    super: bool = False


class UiPort(Protocol):
    """What the input needs of the UI (implemented over imgui in `ui.port`)."""

    def wants_mouse(self, x: float, y: float) -> bool: ...
    @property
    def wants_text(self) -> bool: ...
    @property
    def wants_keys(self) -> bool: ...
    @property
    def wants_escape(self) -> bool: ...
    def mouse_at(self, position: tuple[float, float] | None) -> None: ...
    def mouse_button(self, button: int, down: bool) -> None: ...
    def wheel(self, x: float, y: float) -> None: ...
    def key(self, name: str, down: bool) -> None: ...
    def modifiers(self, held: Modifiers) -> None: ...
    def text(self, characters: str) -> None: ...
    def focus(self, focused: bool) -> None: ...


class Projection(Protocol):
    """Window pixels to world units at the subject (implemented by `app`)."""

    def world_per_pixel(self) -> float: ...
    def offset_at(self, x: float, y: float) -> tuple[float, float]: ...


def shortcut(name: str, held: Modifiers) -> Action | None:
    """The action of a key, or None."""
    if held.alt or held.super:
        return None
    return keymap.action_of(name, held.ctrl, held.shift)


class Input:
    """Routes each event to the UI or to the scene and emits actions.

    Positions are window units from the top left. `now` gives seconds that only grow.
    """

    def __init__(
        self,
        ui: UiPort,
        projection: Projection,
        emit: Callable[[Action], None],
        now: Callable[[], float],
    ) -> None:
        self._ui = ui
        self._projection = projection
        self._emit = emit
        self._now = now
        self._held: dict[int, bool] = {}  # pressed buttons -> True if the scene owns it
        self._keys: set[str] = set()
        self._modifiers = Modifiers()
        self._last_click = (-math.inf, 0.0, 0.0)
        self._pressed_at: tuple[float, float] | None = None  # on the stage, and not moved since
        self._unsettled = 0  # UI frames until it is known whether a press went into a text box
        self._waiting: list[tuple[str, Modifiers]] = []
        self._opening = 0  # UI frames until the palette must have the keyboard
        self._opener = ""  # the character of the key that opens it, which is not for its line
        self._early: list[Callable[[], None]] = []  # what was typed at it in the meantime

    # --- mouse -----------------------------------------------------------------------------

    def mouse_moved(self, x: float, y: float) -> None:
        self._ui.mouse_at((x, y))
        self._emit(act.PointAt(None if self._ui.wants_mouse(x, y) else (x, y)))

    def mouse_dragged(self, x: float, y: float, dx: float, dy: float) -> None:
        """`dx`, `dy` in window units, y downwards. The buttons are those we saw pressed."""
        self._ui.mouse_at((x, y))
        scene = [button for button, owned in self._held.items() if owned]
        if not scene:
            return
        if self._pressed_at is not None:
            if math.dist(self._pressed_at, (x, y)) <= CLICK_PIXELS:
                return
            self._pressed_at = None
        if scene[0] == LEFT and not self._modifiers.shift:
            self._emit(act.OrbitBy(-dx * ORBIT_PER_PIXEL, dy * ORBIT_PER_PIXEL))
        else:
            scale = self._projection.world_per_pixel()
            self._emit(act.PanBy(-dx * scale, dy * scale))

    def mouse_pressed(self, x: float, y: float, button: int, held: Modifiers) -> None:
        if button not in BUTTONS:
            return
        self._hold(held)
        self._ui.mouse_at((x, y))
        owned = not self._ui.wants_mouse(x, y)
        self._held[button] = owned
        self._ui.mouse_button(button, True)
        if not owned:
            self._unsettled = FRAMES_TO_SETTLE
        elif button == LEFT:
            self._pressed_at = (x, y)
            self._click(x, y)

    def _click(self, x: float, y: float) -> None:
        when, last_x, last_y = self._last_click
        now = self._now()
        near = math.hypot(x - last_x, y - last_y) <= DOUBLE_CLICK_PIXELS
        if near and now - when <= DOUBLE_CLICK_SECONDS:
            self._last_click = (-math.inf, 0.0, 0.0)
            right, up = self._projection.offset_at(x, y)
            self._emit(act.PanBy(right, up))
        else:
            self._last_click = (now, x, y)

    def mouse_released(self, x: float, y: float, button: int, held: Modifiers) -> None:
        if button not in BUTTONS:
            return
        self._hold(held)
        self._ui.mouse_at((x, y))
        owned = self._held.pop(button, False)
        self._ui.mouse_button(button, False)
        if button == LEFT and owned and self._pressed_at is not None:
            self._emit(act.ClickAt(self._pressed_at))
            self._pressed_at = None

    def mouse_scrolled(self, x: float, y: float, across: float, up: float) -> None:
        self._ui.mouse_at((x, y))
        if self._ui.wants_mouse(x, y):
            self._ui.wheel(across, up)
        elif up:
            at = self._projection.offset_at(x, y)
            self._emit(act.ZoomBy(ZOOM_PER_NOTCH**up, at))

    def mouse_left(self) -> None:
        """The pointer left the window; a drag under way keeps its owner."""
        if not self._held:
            self._ui.mouse_at(None)
            self._emit(act.PointAt(None))

    # --- keys ------------------------------------------------------------------------------

    def key_pressed(self, name: str, held: Modifiers) -> None:
        if self._opening:
            self._early.append(lambda: self.key_pressed(name, held))
            return
        self._hold(held)
        self._keys.add(name)
        self._ui.key(name, True)
        self._waiting.append((name, held))
        if self._unsettled == 0:
            self._act()

    def frame_done(self) -> None:
        """The UI has laid out a frame with everything sent so far.

        After a press on a panel it takes some frames until a text box says that it has the
        focus; keys that came in the meantime wait, so that what is typed right after a
        click never acts as a shortcut, however slow the frames are.
        """
        self._opening = 0 if self._ui.wants_text else max(self._opening - 1, 0)
        while self._early and not self._opening:
            self._early.pop(0)()
        self._unsettled = max(self._unsettled - 1, 0)
        if self._unsettled == 0:
            self._act()

    def _act(self) -> None:
        waiting, self._waiting = self._waiting, []
        for name, held in waiting:
            action = shortcut(name, held)
            if action is not None and not self._taken(name, held):
                self._emit(action)
                if isinstance(action, act.OpenPalette):
                    self._opening, self._opener = FRAMES_TO_OPEN, name

    def _taken(self, name: str, held: Modifiers) -> bool:
        """Whether the panels want this key for themselves."""
        chord = f"ctrl+{name}" if held.ctrl else name
        if chord in keymap.ALWAYS:
            return False
        if chord == "escape":
            return self._ui.wants_text or self._ui.wants_escape
        return self._ui.wants_text or self._ui.wants_keys

    def key_released(self, name: str, held: Modifiers) -> None:
        if self._opening:
            self._early.append(lambda: self.key_released(name, held))
            return
        self._hold(held)
        self._keys.discard(name)
        self._ui.key(name, False)

    def text(self, characters: str) -> None:
        """Characters typed or composed; the only way text reaches the UI."""
        if self._opening:
            if characters != self._opener:
                self._early.append(lambda: self.text(characters))
            self._opener = ""
            return
        kept = "".join(c for c in characters if c.isprintable() or c == "\n")
        if kept:
            self._ui.text(kept)

    # --- files -----------------------------------------------------------------------------

    def dropped(self, paths: Sequence[Path]) -> None:
        """Files were dropped on the window: the first one that may be a run is opened."""
        runs = [path for path in paths if path.suffix == ".jsonl"] or list(paths)
        if runs:
            self._emit(act.OpenRun(runs[0]))

    # --- focus -----------------------------------------------------------------------------

    def focus_gained(self) -> None:
        self._ui.focus(True)

    def focus_lost(self) -> None:
        """Release everything held, here and in the UI: the releases will never come."""
        for button in tuple(self._held):
            self._ui.mouse_button(button, False)
        for name in tuple(self._keys):
            self._ui.key(name, False)
        self._held.clear()
        self._keys.clear()
        self._waiting.clear()
        self._early.clear()
        self._opening = 0
        self._pressed_at = None
        self._hold(Modifiers())
        self._ui.focus(False)

    def _hold(self, held: Modifiers) -> None:
        self._modifiers = held
        self._ui.modifiers(held)
