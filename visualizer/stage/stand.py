"""Where the camera and the target stand for a round. Both move only between rounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from visualizer.stage.camera import DIRECTIONS, Free, Point, Pose, between, frame_points
from visualizer.stage.layout import HEIGHT, MARGIN, PITCH, PROMPT_BACK, Page
from visualizer.stage.models import (
    DRAFTER_HEIGHT,
    DRAFTER_RADIUS,
    PARKED,
    TARGET_BACK,
    TARGET_RADIUS,
)
from visualizer.stage.view import Preset, View

SHORTEST = 13.6  # the camera frames at least this much of a line
LEAD = 0.6  # free ground before a line's start
NAMED_ROUNDS = 2  # rounds in which the zones' names are written beside the lines
NAMES = 2.6  # room for them before a line's start
LINES_BACK = 3  # so many lines in all stand; the last of them sinks as the next one comes


class Lens(NamedTuple):
    """The part of a view that framing depends on."""

    preset: Preset
    aspect: float
    free: Free


@dataclass(frozen=True, slots=True)
class Stand:
    """`line` is the line in front, a fraction while the camera goes on to the next one.

    `focus` is the centre of what shadows are fitted to, `reach` its radius.
    """

    pose: Pose
    line: float
    target: Point
    focus: Point
    reach: float

    def towards(self, other: Stand, progress: float) -> Stand:
        """The stand `progress` (0..1) of the way to `other`."""
        if progress >= 1.0 or self == other:
            return other
        return Stand(
            pose=self.pose.towards(other.pose, progress),
            line=self.line + (other.line - self.line) * progress,
            target=between(self.target, other.target, progress),
            focus=between(self.focus, other.focus, progress),
            reach=self.reach + (other.reach - self.reach) * progress,
        )


def stand_for(page: Page, index: int, view: View) -> Stand:
    """Return the stand for round `index`; -1 is the prompt, before the first round."""
    lens = Lens(view.preset, max(view.width, 1) / max(view.height, 1), view.free)
    named = index < NAMED_ROUNDS
    prompt = max((row[-1].right for row in page.prompt.lines if row), default=0.0)
    if index < 0:
        return _stand(page.prompt.line, -NAMES, prompt, lens, page.prompt.line)
    place = page.places[index]
    if named:
        return _stand(place.line, -NAMES, max(place.reach, prompt), lens, place.line)
    return _stand(place.line, place.before - MARGIN, place.reach, lens)


@lru_cache(maxsize=256)
def _stand(line: int, left: float, right: float, lens: Lens, named: int = 0) -> Stand:
    """Frame what lies from `left` to `right` on a line, with both models in the picture.

    The `named` lines before it have names at their start that must be seen, too. Short
    stretches get the same frame as long ones, so that the camera seldom has to move.
    """
    z = line * PITCH
    middle = max((left + right) / 2, SHORTEST / 2 + min(left, -LEAD))
    left, right = min(left, middle - SHORTEST / 2), max(right, middle + SHORTEST / 2)
    target = (middle + 0.16 * (right - left), TARGET_BACK[0], z + TARGET_BACK[1])
    reach = 1.2 * TARGET_RADIUS
    names = min(named, LINES_BACK - 1) * PITCH + PROMPT_BACK
    front = PARKED[1] + 1.5 * DRAFTER_RADIUS
    points = [
        *((x, y, z + dz) for x in (left, right) for y in (0.0, 1.4) for dz in (-0.8, front)),
        *([(left, 0.0, z - names)] if named else []),
        *((x, DRAFTER_HEIGHT + DRAFTER_RADIUS, z) for x in (left, right)),
        *(tuple(np.add(target, axis)) for axis in np.vstack([np.eye(3), -np.eye(3)]) * reach),
    ]
    subject = np.array((middle, HEIGHT / 2, z))
    pose = frame_points(np.array(points), subject, DIRECTIONS[lens.preset], lens.aspect, lens.free)
    focus = (middle, HEIGHT / 2, z - 1.5 * PITCH)
    return Stand(pose, float(line), target, focus, (right - left) / 2 + 1.5)
