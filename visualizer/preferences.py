"""What is remembered of a viewer from one show to the next: one small JSON file per user.

A missing file means the defaults. One that is damaged, newer than this program or full of
nonsense means the defaults too, and one sentence: it never stands in the way of a show.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import platformdirs

from visualizer.clock import SPEEDS, PlaybackClock
from visualizer.dial import DIALS, Dial
from visualizer.stage.theme import THEMES
from visualizer.stage.view import PRESETS, QUALITIES, Preset, Quality
from visualizer.state import SHOT_SIDES, UI_SCALES, ViewState
from visualizer.system import wants_less_motion

FORMAT = "verifybox-preferences"
VERSION = 1
VARIABLE = "VERIFYBOX_CONFIG"
"""The environment variable that names the folder the file lies in."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """Everything that is remembered. `folder` is where a run file was last opened or saved."""

    theme: str = "dark"
    ui_scale: float = 1.0
    quality: Quality | None = None  # None: by the renderer found
    reduce_motion: bool = False
    speed: float = 1.0
    preset: Preset = "default"
    painted: bool = False
    shot_size: tuple[int, int] | None = None  # of screenshots; None: the window's
    shot_alpha: bool = False
    folder: str = ""
    dial: Dial = "noise"
    remember: bool = True


def of(state: ViewState, clock: PlaybackClock) -> Preferences:
    """What to remember of a show."""
    return Preferences(
        theme=state.theme,
        ui_scale=round(state.ui_scale, 3),
        quality=state.quality,
        reduce_motion=state.reduce_motion,
        speed=clock.speed,
        preset=state.preset,
        painted=state.painted,
        shot_size=state.shot_size,
        shot_alpha=state.shot_alpha,
        folder=state.folder,
        dial=state.dial,
        remember=state.remember,
    )


def applied(state: ViewState, preferences: Preferences) -> ViewState:
    """The state with what is remembered; the speed is the clock's."""
    return replace(
        state,
        theme=preferences.theme,
        ui_scale=preferences.ui_scale,
        quality=preferences.quality,
        reduce_motion=preferences.reduce_motion,
        preset=preferences.preset,
        painted=preferences.painted,
        shot_size=preferences.shot_size,
        shot_alpha=preferences.shot_alpha,
        folder=preferences.folder,
        dial=preferences.dial,
        remember=preferences.remember,
    )


class Store:
    """The file. Reading and writing never raise; `notice` holds the one sentence people get."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice = ""

    def read(self) -> Preferences:
        """Return what is remembered, or the defaults."""
        self.notice = ""
        try:
            return parse(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:  # nobody has chosen yet: as it is in other programs
            return Preferences(reduce_motion=wants_less_motion())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.notice = f"Your preferences could not be read ({reason}): the defaults are used."
            return Preferences()

    def write(self, preferences: Preferences) -> None:
        """Replace the file at once or not at all."""
        self.notice = ""
        aside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            aside.write_text(text_of(preferences), encoding="utf-8")
            aside.replace(self.path)
        except OSError as error:
            with suppress(OSError):
                aside.unlink()
            self.notice = f"Your preferences were not saved: {error.strerror or error}."


def default_path() -> Path:
    """Where the file of this user lies."""
    chosen = os.environ.get(VARIABLE)
    folder = Path(chosen) if chosen else platformdirs.user_config_path("verifybox")
    return folder / "preferences.json"


def text_of(preferences: Preferences) -> str:
    body = {"format": FORMAT, "version": VERSION, **asdict(preferences)}
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def parse(text: str) -> Preferences:
    """Read a file's text. A single value that makes no sense falls back to its default.

    Raises ValueError, in a few words, on what is no file of preferences of this version.
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not JSON") from error
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise ValueError("it is something else")
    if body.get("version") != VERSION:
        raise ValueError(f"it is of version {body.get('version')!r}, not {VERSION}")
    plain = Preferences()
    kept = {
        each.name: body[each.name]
        for each in fields(Preferences)
        if each.name in body and _makes_sense(each.name, body[each.name])
    }
    if isinstance(size := kept.get("shot_size"), list):
        kept["shot_size"] = tuple(size)
    return Preferences(**{**asdict(plain), **kept})


def _makes_sense(name: str, value: Any) -> bool:
    match name:
        case "theme":
            return value in THEMES if isinstance(value, str) else False
        case "ui_scale":
            return _number(value) and UI_SCALES[0] <= value <= UI_SCALES[1]
        case "speed":
            return _number(value) and SPEEDS[0] <= value <= SPEEDS[-1]
        case "shot_size":
            return value is None or _size(value)
        case "quality":
            return value is None or value in QUALITIES
        case "preset":
            return value in PRESETS
        case "dial":
            return value in DIALS
        case "folder":
            return isinstance(value, str)
    return isinstance(value, bool)


def _size(value: Any) -> bool:
    low, high = SHOT_SIDES
    sides = value if isinstance(value, list) and len(value) == 2 else ()
    return len(sides) == 2 and all(type(side) is int and low <= side <= high for side in sides)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
