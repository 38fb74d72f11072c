"""What the panels show this frame, as one frozen value. Panels read it and return actions."""

from __future__ import annotations

from dataclasses import dataclass

from engine.prompts import Prompt
from engine.trace import EngineState, RunHeader
from visualizer.clock import PlaybackClock
from visualizer.config import Badge
from visualizer.gallery import GalleryView
from visualizer.microscope import Specimen
from visualizer.palette import Entry
from visualizer.stage.hud import Hud
from visualizer.stage.timeline import Timeline
from visualizer.state import ViewState


@dataclass(frozen=True, slots=True)
class EngineView:
    """What is known of the engine: its phase, and what went wrong, in sentences."""

    expected: bool = False  # this show has an engine; a replay has none
    state: EngineState | None = None
    busy: EngineState | None = None  # what it prepares of the run to come
    starting: bool = False  # a run was asked for and is not on stage yet
    fault: str | None = None  # the process is gone
    problem: str | None = None  # the run asked for did not come
    notice: str | None = None  # the run goes on, but people should know
    refusal: str | None = None  # why a change of settings did not come
    opened: bool = False  # a run file holds the stage
    resumable: bool = False  # with a live run behind it


Outline = tuple[float, float, float, float]
"""Left, top, right, bottom of something on the stage, window units."""


@dataclass(frozen=True, slots=True)
class UiModel:
    """Everything the panels read."""

    state: ViewState
    clock: PlaybackClock
    hud: Hud
    timeline: Timeline | None
    badge: Badge
    header: RunHeader | None
    engine: EngineView = EngineView()
    prompts: tuple[Prompt, ...] = ()
    message: str = ""  # passing word of the program: "Saved …"
    profile: tuple[str, ...] = ()  # what pictures take, over the stage
    renderer: str = ""
    specimen: Specimen | None = None  # what is under the microscope
    pointed: Specimen | None = None  # what the pointer rests on
    outlines: tuple[Outline, ...] = ()
    offers: tuple[Entry, ...] = ()  # of the open palette
    gallery: GalleryView | None = None  # while it is open
    drawn: float = 0.0  # how far the microscope's drawer is out, 0..1

    @property
    def end(self) -> float:
        """Seconds of the timeline."""
        return self.timeline.duration if self.timeline is not None else 0.0
