"""What a lesson is: four names and three pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.trace import Trace
from visualizer.stage.frame import Frame
from visualizer.stage.hud import Hud
from visualizer.stage.timeline import Timeline
from visualizer.stage.view import View


class Compile(Protocol):
    def __call__(self, trace: Trace, previous: Timeline | None = None) -> Timeline:
        """Return the timeline of `trace`; what it shares with `previous` is taken over."""


class Compose(Protocol):
    def __call__(self, trace: Trace, timeline: Timeline, t: float, view: View) -> Frame:
        """Return the picture of time `t`. The timeline must be of this trace."""


class Tell(Protocol):
    def __call__(self, trace: Trace, timeline: Timeline, t: float) -> Hud:
        """Return what the panels say at time `t`."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One lesson. `slug` names it on the command line, `title` on screen."""

    slug: str
    title: str
    timeline: Compile
    compose: Compose
    hud: Tell
