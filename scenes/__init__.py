"""Lessons. A scene turns a run into a timeline, and a moment of it into a picture.

Scenes are pure: the same trace, time and view give the same frame, in any order, with no
memory of an earlier one. They know the trace and the stage, never GL, a clock or a model.
"""

from __future__ import annotations

from scenes import full_loop
from visualizer.stage.hud import tell
from visualizer.stage.scene import Scene

CATALOG: tuple[Scene, ...] = (
    Scene(
        slug="full-loop",
        title="The full loop",
        timeline=full_loop.timeline,
        compose=full_loop.compose,
        hud=tell,
    ),
)
