"""Where the camera and the target stand for a round. Both move only between rounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from visualizer.stage.camera import DIRECTIONS, Free, Point, Pose, between, frame_points
from visualizer.stage.drafters import ASIDE, BEHIND, BESIDE, HOVER, TALLEST, WIDEST
from visualizer.stage.layout import (
    BACK,
    DEPTH,
    HEIGHT,
    LINE,
    MARGIN,
    PITCH,
    PROMPT_BACK,
    RISE,
    Page,
    Place,
)
from visualizer.stage.models import TARGET_BACK, TARGET_RADIUS, TARGET_RIGHT
from visualizer.stage.view import Preset, View

LEAD = 0.6  # free ground before a line's start
TAIL = ASIDE + WIDEST + 0.05  # and after its end, where the drafter waits
COMPANY = BESIDE + 1.85  # right of the target's middle: the drafter's shelf, or a copy
FRONT = 1.2  # before the middle of its last line: room for names on the ground
NARROWEST = {"follow": 8.8, "close": 5.4}  # these cameras frame at least so much of a line
NAMED_ROUNDS = 2  # rounds in which the zones' names are written beside the lines
NAMES = 2.6  # room for them before a line's start
LARGEST = 1.75  # times their usual size that names are written; larger, they would fill the stage
LONG = 3  # lines of a round behind which no line stands any more:
CLOSE_BY = (1.9, -2.2)  # the target comes up to it, so that its words are seen from nearer by
TALL = 3  # lanes of a tree from which on the target comes into the picture from close by, too
LANES_UNDER = 3.4  # so many lanes of a tree stand under the target; for more it makes room
LINES_BACK = 3  # so many lines in all stand; the last of them sinks as the next one comes


class Lens(NamedTuple):
    """The part of a view that framing depends on.

    Where time runs fast, cameras that go along with every round would make it flicker: they
    then frame whole lines as the others do (`calm`), and the target stays where it is.
    """

    preset: Preset
    aspect: float
    free: Free
    calm: bool
    scale: float = 1.0


class Stretch(NamedTuple):
    """What is framed: from `left` to `right`, from line `first` to `last`.

    The `named` lines before them have names at their start that must be seen, too; `middle` is
    that of the round, and `lanes` rise from its first line.
    """

    first: int
    last: int
    left: float
    right: float
    middle: float
    named: int
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Stand:
    """`line` is the line in front, a fraction while the camera goes on to the next one.

    `cleared` (0..1) is how far the lines behind it have made room: all of them for a tree, all but
    one (0.5) from close by. `focus` is the centre of what shadows are fitted to, `reach` its
    radius.
    """

    pose: Pose
    line: float
    target: Point
    focus: Point
    reach: float
    cleared: float = 0.0

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
            cleared=self.cleared + (other.cleared - self.cleared) * progress,
        )


def stand_for(page: Page, index: int, preset: Preset, view: View) -> Stand:
    """Return the stand of camera `preset` for round `index`; -1 is before the first round."""
    lens = Lens(preset, _aspect(view), view.free, view.calm or view.fast, view.scale)
    return _stand_for(page, index, lens)


def lettering(scale: float) -> float:
    """Names on the stage follow the scale of words as far as there is room for them."""
    return min(scale, LARGEST)


def _aspect(view: View) -> float:
    return max(view.width, 1) / max(view.height, 1)


@lru_cache(maxsize=64)
def _stand_for(page: Page, index: int, lens: Lens) -> Stand:
    written = _written(page, index)
    if index < 0:
        line = page.prompt.line
        left = -NAMES * lettering(lens.scale)
        spare = max(LINE + TAIL - written, 0.0) / 2
        return _stand(Stretch(line, line, left - spare, LINE + TAIL - spare, LINE / 2, line), lens)
    return _stand(_stretch(page.places[index], written, lens), lens)


def _written(page: Page, index: int) -> float:
    """How far right anything reaches on the lines that stand in round `index`."""
    line = page.places[index].line if index >= 0 else page.prompt.line
    right = page.places[index].reach if index >= 0 else 0.0
    for before in range(index - 1, -1, -1):
        place = page.places[before]
        if place.cursor_line <= line - LINES_BACK:
            break
        right = max(right, *(slot.right for slot in place.kept), 0.0)
    if page.prompt.line > line - LINES_BACK:
        right = max(right, *(slot.right for slot in page.prompt.slots), 0.0)
    return right


def named(place: Place) -> bool:
    """Whether the zones' names are written beside this round: a long one needs the room."""
    return place.index < NAMED_ROUNDS and place.line == place.last_line


def _stretch(place: Place, written: float, lens: Lens) -> Stretch:
    """What a camera frames of a round, with lines `written` so far: always as wide as a whole line.

    What a line has yet to fill is left free on both sides, not on the right alone.
    """
    first, last = place.line, place.last_line
    left, names = (-NAMES * lettering(lens.scale), first) if named(place) else (-LEAD, 0)
    right = max(LINE, place.right) + TAIL
    nearer = max(lens.scale, 1.0)  # for larger words less of the line
    middle = LINE / 2 if lens.calm else (place.left + place.right) / 2
    if lens.preset in NARROWEST and not lens.calm:
        if lens.preset == "follow":
            left, right = place.before - MARGIN, place.reach
        else:
            left, right = place.left - MARGIN, place.right + TAIL
        spare = max(NARROWEST[lens.preset] / nearer - (right - left), 0.0) / 2
        left, right, names = left - spare, right + spare, 0
    elif nearer > 1.0 and not lens.calm:
        width = (right - left) / nearer
        if names or named(place):
            right = max(place.reach, left + width)
        else:
            left, right = place.before - MARGIN, place.reach
            spare = max(width - (right - left), 0.0) / 2
            left, right = left - spare, right + spare
    else:
        spare = max(right - max(written, middle + TARGET_RIGHT + TARGET_RADIUS), 0.0) / 2
        left, right = left - spare, right - spare
    return Stretch(first, last, left, right, middle, names, place.lanes)


@lru_cache(maxsize=256)
def _stand(seen: Stretch, lens: Lens) -> Stand:
    """Frame a stretch, with both models in the picture.

    From close by without the target, but where it would stand half behind the caption.
    """
    near, far = seen.last * PITCH, seen.first * PITCH
    left, right = seen.left, seen.right
    aside = min(max(seen.middle + TARGET_RIGHT, 3.0), min(right, LINE) - COMPANY - 0.6)
    up, behind = (
        TARGET_BACK[0],
        min(near + TARGET_BACK[1], far - PITCH),
    )  # what stands, and this round
    if seen.last - seen.first >= LONG - 1:
        up, behind = CLOSE_BY[0], far + CLOSE_BY[1]
    steps = max(seen.lanes - LANES_UNDER, 0.0)  # of a tree too tall to stand before the target
    target = (aside, up + steps * RISE, behind - steps * BACK)
    back, high = (seen.lanes - 1) * BACK, (seen.lanes - 1) * RISE
    middle = (left + right) / 2
    # For larger words the models may rise out of the picture; at twice the size, altogether.
    low = min(max(lens.scale - 1.0, 0.0), 1.0)
    names = min(seen.named, LINES_BACK - 1) * PITCH + PROMPT_BACK
    points: list[Point] = [
        (x, y, z) for x in (left, right) for y in (0.0, 1.4) for z in (far - 0.8, near + FRONT)
    ]
    over = high + HOVER + TALLEST
    over += (HEIGHT - over) * low
    points += [(x, over, far - back - BEHIND) for x in (left, right)]
    if high:  # the box around a tree is as high in front as behind
        points += [(x, high + 1.4, near + DEPTH / 2 + MARGIN) for x in (left, right)]
    if seen.named:
        points.append((left, 0.0, far - names))
    close = lens.preset == "close"
    if not close or seen.lanes >= TALL or seen.last - seen.first >= LONG - 1:
        sphere = np.vstack([np.eye(3), -np.eye(3)]) * ((1.0 if close else 1.2) * TARGET_RADIUS)
        beside = [] if close else [(target[0] + COMPANY, *target[1:])]
        models = [*np.add(target, sphere).tolist(), *beside]
        points += [
            (x + (middle - x) * low, y + (HEIGHT - y) * low, z + (far - z) * low)
            for x, y, z in models
        ]
    subject = np.array((middle, (high + HEIGHT) / 2, near - back / 2))
    pose = frame_points(np.array(points), subject, DIRECTIONS[lens.preset], lens.aspect, lens.free)
    focus = (LINE / 2, HEIGHT / 2, near - 1.5 * PITCH)
    reach = LINE / 2 + LEAD + 1.5 + (near - far) / 2
    # From close by the second line behind would stand under the caption.
    cleared = 1.0 if seen.lanes > 1 else 0.5 * (lens.preset == "close")
    return Stand(pose, float(seen.last), target, focus, reach, cleared)
