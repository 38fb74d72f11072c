"""Rates of change: functions from 0..1 to 0..1, on numbers and arrays alike."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Progress = TypeVar("Progress", float, NDArray[np.float64])


def ease_out(x: Progress) -> Progress:
    """Fast, then slow: arrivals."""
    return 1.0 - (1.0 - x) ** 3


def ease_in(x: Progress) -> Progress:
    """Slow, then fast: departures."""
    return x**3


def ease(x: Progress) -> Progress:
    """Slow at both ends: moves of the camera."""
    return x * x * x * (x * (6.0 * x - 15.0) + 10.0)


def settle(x: float) -> float:
    """An arrival that goes 4 % too far and comes back: landings.

    A cubic back-ease; its peak is 1 + 4 s³ / 27 (s + 1)² for strength s.
    """
    strength, rest = 1.04, x - 1.0
    return 1.0 + (strength + 1.0) * rest**3 + strength * rest**2


def swell(since: float, until: float, rise: float, fall: float) -> float:
    """A level that rises over `rise` seconds, holds, and falls over `fall` after the end.

    `since` is seconds since the start (negative before it), `until` seconds to the end
    (negative after it). Never above 1.
    """
    if since <= 0.0:
        return 0.0
    up = min(since / rise, 1.0)
    down = 1.0 if until >= 0.0 else max(0.0, 1.0 + until / fall)
    return ease(up) * ease(down)
