"""Flashes in finished pictures, counted as WCAG 2.3.1 counts them: for tests and for every export.

A flash is a pair of opposing changes of relative luminance of a tenth of the brightest or more,
where the darker picture is below 0.8. A red flash is a pair of opposing changes that involve a
saturated red: a pixel R / (R + G + B) of 0.8 or more, and 320 · (R - G - B) changing by more than
20. Cells that flash together count when they cover a quarter of any field of view of ten degrees
(341 by 256 of 1024 by 768 pixels); together means within the same second, which is stricter.

The program keeps under the limit when a timeline is compiled (`visualizer.stage.schedule`); here
it is seen to. Knows numbers of pixels and nothing of how they were made.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

LIMIT = 3.0
"""Flashes in any second, of either kind, that are safe."""

STEP, DARKER = 0.1, 0.8
RED_STEP, SATURATED = 20 / 320, 0.8
FIELD = (256 / 768, 341 / 1024)  # of the height and the width
SHARE = 0.25
CELLS = (27, 48)
FINE = 4  # pixels looked at in a cell, along and across

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

_ENCODED = np.arange(256) / 255.0
_LINEAR = np.where(_ENCODED <= 0.04045, _ENCODED / 12.92, ((_ENCODED + 0.055) / 1.055) ** 2.4)
_LINEAR = _LINEAR.astype(np.float32)
LUMINANCE = np.array((0.2126, 0.7152, 0.0722), np.float32)


def cells_of(pixels: NDArray[np.uint8]) -> tuple[Floats, Floats]:
    """Relative luminance and saturated red (0..1) of sRGB `pixels` (h, w, 3 or 4), per cell.

    Transparent pixels are seen on black. Of a large picture every so many pixels are looked at.
    """
    height, width = pixels.shape[:2]
    rows = (np.arange(CELLS[0] * FINE) + 0.5) * height / (CELLS[0] * FINE)
    columns = (np.arange(CELLS[1] * FINE) + 0.5) * width / (CELLS[1] * FINE)
    seen = pixels[rows.astype(int)][:, columns.astype(int)]
    light = _LINEAR[seen[..., :3]]
    if pixels.shape[2] == 4:
        light = light * (seen[..., 3:] / np.float32(255.0))
    red, green, blue = light[..., 0], light[..., 1], light[..., 2]
    saturated = red >= SATURATED * (red + green + blue)
    reds = np.maximum(red - green - blue, 0.0) * saturated
    return _averaged(light @ LUMINANCE), _averaged(reds)


def _averaged(fine: Floats) -> Floats:
    shape = (CELLS[0], FINE, CELLS[1], FINE)
    return np.asarray(fine.reshape(shape).mean(axis=(1, 3)), np.float32)


class Changes:
    """When each cell of a strip of pictures completes a change that counts.

    A change runs from one extreme to the next; noise in between is no change of direction.
    """

    def __init__(self, step: float, darker: float = np.inf) -> None:
        self._step, self._darker = step, darker
        self._low: Floats | None = None

    def see(self, now: Floats) -> Flags:
        """The cells that complete one with the picture `now`."""
        if self._low is None:
            self._low = self._high = now
            self._heading = np.zeros(now.shape, int)
        low, high = np.minimum(self._low, now), np.maximum(self._high, now)
        up = (now - low >= self._step) & (low < self._darker) & (self._heading <= 0)
        down = (high - now >= self._step) & (now < self._darker) & (self._heading >= 0)
        self._heading = np.where(up, 1, np.where(down, -1, self._heading))
        # The extreme after a turn is what the next change is measured from, however slow it is.
        self._low, self._high = np.where(down, now, low), np.where(up, now, high)
        return np.asarray(up | down)


class Counter:
    """Flashes of one kind in any second of a strip, at `fps` pictures a second.

    `now` is the most that there were, in the second that ends with the last picture, over too
    much of any field of view; `worst` the most of any second.
    """

    def __init__(self, changes: Changes, fps: float) -> None:
        self._changes = changes
        self._window = max(round(fps), 1)
        self._marked: deque[Flags] = deque()
        self._count = np.zeros(CELLS, int)
        self.worst = self.now = 0

    def see(self, cells: Floats) -> None:
        self._marked.append(self._changes.see(cells))
        self._count += self._marked[-1]
        if len(self._marked) > self._window:
            self._count -= self._marked.popleft()
        pairs = self._count // 2
        most = int(pairs.max())
        self.now = next((n for n in range(most, 0, -1) if _covers(pairs >= n)), 0)
        self.worst = max(self.worst, self.now)


@dataclass(slots=True)
class Watch:
    """Watches pictures go by, `fps` of them a second: `see` each, then ask."""

    fps: float
    light: Counter = field(init=False)
    red: Counter = field(init=False)
    above: list[float] = field(default_factory=list)  # seconds at which there were too many
    _seen: int = 0

    def __post_init__(self) -> None:
        self.light = Counter(Changes(STEP, DARKER), self.fps)
        self.red = Counter(Changes(RED_STEP), self.fps)

    def see(self, pixels: NDArray[np.uint8]) -> None:
        """The next picture: sRGB, (h, w, 3), or straight with alpha (h, w, 4)."""
        for counter, cells in zip((self.light, self.red), cells_of(pixels), strict=True):
            counter.see(cells)
        if max(self.light.now, self.red.now) > LIMIT:
            self.above.append(self._seen / self.fps)
        self._seen += 1

    @property
    def worst(self) -> int:
        """The most flashes of either kind in any second."""
        return max(self.light.worst, self.red.worst)

    @property
    def stretches(self) -> list[tuple[float, float]]:
        """From when to when there were too many, seconds: what a cut has to mend."""
        found: list[tuple[float, float]] = []
        for time in self.above:
            if found and time - found[-1][1] <= 1.0:
                found[-1] = found[-1][0], time
            else:
                found.append((time, time))
        return found


def _covers(cells: Flags) -> bool:
    """Whether so many `cells` are part of some field of view that they count."""
    rows, columns = (round(part * many) for part, many in zip(FIELD, CELLS, strict=True))
    sums = np.zeros((CELLS[0] + 1, CELLS[1] + 1), int)
    sums[1:, 1:] = cells.cumsum(axis=0).cumsum(axis=1)
    fields = (
        sums[rows:, columns:] - sums[:-rows, columns:] - sums[rows:, :-columns]
        + sums[:-rows, :-columns]
    )  # fmt: skip
    return bool(fields.max() >= SHARE * rows * columns)


def stripes(pixels: NDArray[np.uint8]) -> int:
    """Pairs of light and dark stripes that lie across the picture, along or up and down.

    Patterns of more than five such pairs that move, or eight that stand still, provoke as flashes
    do (figures of the Epilepsy Foundation). Each line is as light as most of it is over half of the
    picture, in which stripes remain and words do not; pairs are counted as flashes are: changes of
    luminance of a tenth that come and go.
    """
    light = _LINEAR[pixels[..., :3]] @ LUMINANCE
    # Lines thinner than these cells are no stripes: edges of blocks, strokes of letters.
    rows, columns = (
        np.arange(2 * many) * size // (2 * many)
        for many, size in zip(CELLS, light.shape, strict=True)
    )
    sizes = np.outer(np.diff([*rows, light.shape[0]]), np.diff([*columns, light.shape[1]]))
    light = np.add.reduceat(np.add.reduceat(light, rows, axis=0), columns, axis=1) / sizes
    return max(_pairs(light), _pairs(light.T))


def _pairs(light: Floats) -> int:
    """Pairs along the first axis, in the half of the second (left, middle, right) with most."""
    half = light.shape[1] // 2
    changes = Changes(STEP, DARKER)
    count = np.zeros(3, int)
    for line in light:
        halves = [np.median(line[start : start + half]) for start in (0, half // 2, half)]
        count += changes.see(np.array(halves, np.float32))
    return int(count.max()) // 2
