"""The one table of what can be done and by which keys: shortcuts, help and palette read it.

Keys are named as the window names them ("page_down", "["), with "ctrl+" and "shift+" before
them. Titles are what people read and search for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from visualizer import actions as act
from visualizer.actions import Action
from visualizer.stage.view import PRESETS

Group = Literal["Time", "Look closer", "Camera", "Picture", "Panels", "Files", "Program"]


@dataclass(frozen=True, slots=True)
class Command:
    """Something a viewer can do. `keys` are alternatives, the first one told first."""

    group: Group
    title: str
    action: Action
    keys: tuple[str, ...] = ()


COMMANDS: tuple[Command, ...] = (
    Command("Time", "Play or pause", act.TogglePlay(), ("space",)),
    Command("Time", "Next beat", act.NextBeat(), ("right", "page_down")),
    Command("Time", "Beat before", act.PreviousBeat(), ("left", "page_up")),
    Command("Time", "Next round", act.NextRound(), ("shift+right",)),
    Command("Time", "Round before", act.PreviousRound(), ("shift+left",)),
    Command("Time", "Loop this round", act.ToggleLoop(), ("l",)),
    Command("Time", "Slower", act.ShiftSpeed(-1), ("[",)),
    Command("Time", "Faster", act.ShiftSpeed(1), ("]",)),
    Command("Time", "To the start", act.Seek(0.0), ("home",)),
    Command("Time", "To the end", act.Seek(math.inf), ("end",)),
    Command("Look closer", "Microscope on this round", act.Inspect(), ("i",)),
    Command("Look closer", "Microscope: next", act.InspectNext(1), ("down",)),
    Command("Look closer", "Microscope: one before", act.InspectNext(-1), ("up",)),
    Command("Look closer", "Drafter gallery", act.ToggleGallery(), ("g",)),
    Command("Look closer", "Compare the drafters", act.OpenGallery("compare")),
    Command("Look closer", "Paint the text by acceptance", act.TogglePaint(), ("a",)),
    *(
        Command("Camera", f"{name.capitalize()} camera", act.ChoosePreset(name), (str(number),))
        for number, name in enumerate(PRESETS, 1)
    ),
    Command("Camera", "Reset the camera", act.ResetView(), ("r",)),
    Command("Camera", "Copy the camera as text", act.CopyCamera(), ("ctrl+c",)),
    Command("Camera", "Paste a camera", act.PasteCamera(), ("ctrl+v",)),
    Command("Picture", "Next theme", act.NextTheme(), ("t",)),
    Command("Picture", "Reduce motion", act.ToggleReduceMotion(), ("m",)),
    Command("Picture", "Black screen", act.ToggleBlackout(), ("b", ".")),
    Command("Picture", "Full screen", act.ToggleFullScreen(), ("f11",)),
    Command("Panels", "Hide or show the panels", act.ToggleUi(), ("tab",)),
    Command("Panels", "Larger panels", act.ScaleUi(1.1), ("ctrl+=",)),
    Command("Panels", "Smaller panels", act.ScaleUi(1 / 1.1), ("ctrl+-",)),
    Command("Panels", "Keyboard to the next panel", act.NextPanel(), ("f6",)),
    Command("Files", "Screenshot of the stage", act.Screenshot(), ("p",)),
    Command("Files", "Screenshot with panels", act.Screenshot(panels=True), ("shift+p",)),
    Command("Files", "Screenshots: transparent or with the stage", act.ToggleShotAlpha()),
    Command("Files", "Record a video, stop recording", act.ToggleCapture(), ("ctrl+r",)),
    Command("Files", "Open a run…", act.OpenPalette("open"), ("ctrl+o",)),
    Command("Files", "Save a copy of this run…", act.OpenPalette("save"), ("ctrl+s",)),
    Command("Files", "Back to the live run", act.ShowLive(), ("ctrl+l",)),
    Command("Program", "Command palette", act.OpenPalette(), ("ctrl+k", "/")),
    Command("Program", "Start the prompt", act.StartRun()),
    Command("Program", "Restart the engine", act.RestartEngine()),
    Command("Program", "Help: keys and mouse", act.ToggleHelp(), ("f1", "h")),
    Command("Program", "Leave a mode", act.Leave(), ("escape",)),
    Command("Program", "Remember replies to my prompts, or not", act.ToggleRemember()),
    Command("Program", "Forget the replies remembered", act.ForgetReplies()),
    Command("Program", "Reset what is remembered", act.ResetPreferences()),
    Command("Program", "Quit", act.Quit(), ("ctrl+q",)),
)

GESTURES: tuple[tuple[str, str], ...] = (
    ("Click", "put it under the microscope"),
    ("Left drag", "orbit"),
    ("Right, middle or Shift drag", "pan"),
    ("Wheel", "zoom to the cursor"),
    ("Double click", "recentre"),
    ("Drop a file", "open a run"),
    ("Ctrl+Enter", "start the prompt"),
)
"""What the mouse does, and the one key that belongs to a text box."""

ALWAYS = frozenset({"f1", "f6", "f11", "ctrl+k", "ctrl+o"})
"""Keys that no text box types: they work while one has the focus."""

_ACTIONS: dict[str, Action] = {key: each.action for each in COMMANDS for key in each.keys}
_SPOKEN = {
    "page_down": "PgDn", "page_up": "PgUp", "escape": "Esc", "left": "←", "right": "→",
    "up": "↑", "down": "↓", "ctrl": "Ctrl", "shift": "Shift",
}  # fmt: skip


def action_of(name: str, ctrl: bool = False, shift: bool = False) -> Action | None:
    """The action of a key held with these modifiers, or None.

    Shift only matters where the table says so: some keyboards need it to write a "/" at all.
    """
    plain = f"ctrl+{name}" if ctrl else name
    if shift and f"shift+{plain}" in _ACTIONS:
        return _ACTIONS[f"shift+{plain}"]
    return _ACTIONS.get(plain)


def spoken(key: str) -> str:
    """A key as people know it: "Ctrl+K", "PgDn", "→"."""
    *held, name = key.split("+") if key != "+" else [key]
    return "+".join(_SPOKEN.get(part, part.capitalize()) for part in (*held, name))


@lru_cache(maxsize=256)
def keys_of(action: Action) -> str:
    """The keys of an action, as people know them; "" when it has none."""
    found = next((each.keys for each in COMMANDS if each.action == action), ())
    return ", ".join(map(spoken, found))
