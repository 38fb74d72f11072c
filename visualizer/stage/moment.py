"""Everything the parts of one picture share."""

from __future__ import annotations

from dataclasses import dataclass

from engine.trace import Round
from visualizer.stage.layout import Place
from visualizer.stage.stand import Stand, lettering
from visualizer.stage.theme import Theme
from visualizer.stage.timeline import RoundSpans, Timeline
from visualizer.stage.view import View


@dataclass(frozen=True, slots=True)
class Moment:
    """Time `t` of a run under a view. `now` is the round going on, -1 before the first.

    `faces` are the opacities of writing on the fronts and on the tops of blocks.
    """

    timeline: Timeline
    now: int
    t: float
    view: View
    colors: Theme
    stand: Stand
    faces: tuple[float, float] = (1.0, 0.0)

    @property
    def place(self) -> Place:
        return self.timeline.page.places[self.now]

    @property
    def before(self) -> Place | None:
        """Where the round before lies, if there is one."""
        return self.timeline.page.places[self.now - 1] if self.now > 0 else None

    @property
    def spans(self) -> RoundSpans:
        return self.timeline.spans[self.now]

    @property
    def round(self) -> Round:
        return self.timeline.rounds[self.now]

    @property
    def layers(self) -> int:
        """How many layers the target has; 0 where the run does not say."""
        header = self.timeline.page.header
        return header.target_layers if header is not None else 0

    @property
    def lettering(self) -> float:
        """How many times its usual size a name on the stage is written."""
        return lettering(self.view.scale)

    @property
    def moving(self) -> bool:
        return not self.view.reduce_motion
