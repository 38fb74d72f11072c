"""Counts flashes in a strip of pictures, after WCAG 2.3.1.

A flash is a pair of opposing changes of relative luminance of a tenth of the brightest or more,
where the darker picture is below 0.8. Cells that flash together count when they cover a quarter
of any field of view of ten degrees (341 by 256 of 1024 by 768 pixels); they are flashing
together when they do so within the same second, which is stricter.
"""

import numpy as np
from numpy.typing import NDArray

STEP = 0.1
DARKER = 0.8
FIELD = (256 / 768, 341 / 1024)  # of the height and the width
SHARE = 0.25


def luminance(pixels: NDArray[np.uint8], cells: tuple[int, int]) -> NDArray[np.float64]:
    """Relative luminance of sRGB `pixels` (h, w, 3), averaged over a grid of `cells`."""
    encoded = pixels / 255.0
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    light = linear @ (0.2126, 0.7152, 0.0722)
    rows, columns = cells
    height, width = light.shape[0] // rows, light.shape[1] // columns
    trimmed = light[: rows * height, : columns * width]
    return np.asarray(trimmed.reshape(rows, height, columns, width).mean(axis=(1, 3)))


def transitions(strip: NDArray[np.float64]) -> NDArray[np.bool_]:
    """When each cell of `strip` (n, rows, columns) completes a change that counts, (n, …).

    A change runs from one extreme to the next; noise in between is no change of direction.
    """
    marked = np.zeros(strip.shape, bool)
    low, high = strip[0].copy(), strip[0].copy()
    heading = np.zeros(strip[0].shape, int)
    for index, now in enumerate(strip[1:], 1):
        low, high = np.minimum(low, now), np.maximum(high, now)
        up = (now - low >= STEP) & (low < DARKER) & (heading <= 0)
        down = (high - now >= STEP) & (now < DARKER) & (heading >= 0)
        marked[index] = up | down
        heading = np.where(up, 1, np.where(down, -1, heading))
        # The new extreme to measure from; while it goes on the same way, it moves along.
        low = np.where(up | (heading < 0), now, low)
        high = np.where(down | (heading > 0), now, high)
        low = np.where(heading < 0, np.minimum(low, now), low)
        high = np.where(heading > 0, np.maximum(high, now), high)
    return marked


def most_flashes(strip: NDArray[np.float64], fps: float) -> float:
    """The most flashes in any second that cover too much of any field of view."""
    marked = transitions(strip)
    counts = marked.cumsum(axis=0)
    window = max(round(fps), 1)
    worst = 0.0
    for end in range(len(strip)):
        start = counts[end - window] if end >= window else 0
        flashing = (counts[end] - start) / 2
        for level in np.unique(flashing[flashing > worst]):
            if _covers(flashing >= level):
                worst = max(worst, float(level))
    return worst


def _covers(flashing: NDArray[np.bool_]) -> bool:
    """Whether some field of view holds so many flashing cells that they count."""
    rows = max(round(flashing.shape[0] * FIELD[0]), 1)
    columns = max(round(flashing.shape[1] * FIELD[1]), 1)
    fields = np.lib.stride_tricks.sliding_window_view(flashing, (rows, columns))
    return bool(fields.mean(axis=(2, 3)).max() >= SHARE)
