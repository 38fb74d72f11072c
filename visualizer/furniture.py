"""What moves around the stage by itself: the microscope's drawer and the camera between presets.

Of the window, not of the run: it moves while the show is paused, and a recording has none of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from visualizer.stage.easing import ease
from visualizer.stage.view import Glide
from visualizer.state import ViewState

DRAWER_SECONDS = 0.22
GLIDE_SECONDS = 0.6


@dataclass(frozen=True, slots=True)
class Furniture:
    """`out` is how far the drawer has been pulled, 0..1 of its time; `glide` the camera's way."""

    out: float = 0.0
    glide: Glide | None = None

    @property
    def drawn(self) -> float:
        """How far the drawer is out, 0..1 of its width."""
        return float(ease(self.out))

    def advance(self, elapsed: float, state: ViewState) -> Furniture:
        """`elapsed` seconds later. With reduced motion everything arrives at once."""
        wanted = 1.0 if state.selected else 0.0
        if state.reduce_motion:
            return Furniture(wanted)
        step = elapsed / DRAWER_SECONDS
        out = self.out + min(max(wanted - self.out, -step), step)
        if self.glide is None:
            return Furniture(out)
        gone = self.glide.progress + elapsed / GLIDE_SECONDS
        return Furniture(out, replace(self.glide, progress=gone) if gone < 1.0 else None)

    def after(self, before: ViewState, state: ViewState) -> Furniture:
        """Start the camera on its way when another preset was chosen."""
        if state.preset == before.preset or state.reduce_motion:
            return self
        return replace(self, glide=Glide(before.preset, before.orbit, 0.0))
