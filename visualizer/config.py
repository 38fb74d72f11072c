"""What a show is started with: options of the window and of a recording. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.prompts import Prompt
from engine.trace import Settings, Trace
from visualizer.stage.view import Preset, Quality

Badge = Literal["LIVE", "RECORDED", "SIMULATED"]

FRAME_RATE = 60
HOLD_SECONDS = 4.0
"""How long the last picture of a run stays before the next prompt starts."""


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """What `app` needs to know, in a window or in a recording.

    `advances` says whether the next curated prompt follows when a run has ended.
    """

    prompts: tuple[Prompt, ...] = ()
    settings: Settings = field(default_factory=Settings)
    seed: int = 0
    max_new_tokens: int = 200
    theme: str = "dark"
    preset: Preset = "default"
    ui_scale: float = 1.0
    ui_visible: bool = True
    reduce_motion: bool = False
    advances: bool = True
    run_folders: tuple[Path, ...] = ()  # where the palette looks for run files
    remember: bool = False  # whether replies may be remembered at all
    replies: Path | None = None  # the folder they lie in
    drafters: Path | None = None  # whose cards are shown; None: those that ship


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """Options of the window. `opening` plays until the live source has its first round."""

    scene: str = "full-loop"
    opening: Trace | None = None
    prompts: tuple[Prompt, ...] = ()
    settings: Settings = field(default_factory=Settings)
    seed: int = 0
    max_new_tokens: int = 200
    recordings: Path = Path("recordings")  # screenshots and captured videos
    size: tuple[int, int] = (1280, 720)
    quality: Quality | None = None  # None: by the renderer found
    verbose: bool = False
    run_folders: tuple[Path, ...] = ()
    profile: bool = False  # show what pictures take,
    profile_file: Path | None = None  # and write it down, a line a minute
    preferences: Path | None = None  # the file they are kept in; None: nothing is kept
    remember: bool = False
    replies: Path | None = None
    drafters: Path | None = None


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Options of an offline recording. `seconds` None records the whole run; `gpu` is the number of
    the graphics device that draws, None the first that works."""

    out: Path
    scene: str = "full-loop"
    width: int = 1280
    height: int = 720
    fps: int = 30
    seconds: float | None = None
    alpha: bool = False
    badge: Badge = "RECORDED"
    gpu: int | None = None
    quality: Quality | None = None  # None: by the renderer found
    preset: Preset = "default"
    theme: str = "dark"
    ui_visible: bool = True
    reduce_motion: bool = False
