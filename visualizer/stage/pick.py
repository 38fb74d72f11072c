"""Which token lies under the pointer: ids for blocks, and a ray against boxes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visualizer.stage.camera import ray
from visualizer.stage.frame import Frame

_SLOTS = 32
EMITTED = _SLOTS - 1
"""The slot number of the token that ends a round; guesses count from 0."""


def encode(round_index: int, slot: int) -> int:
    """Return the pick id of a slot of a round; 0 is kept for nothing."""
    return 1 + round_index * _SLOTS + slot


def decode(pick: int) -> tuple[int, int] | None:
    """Return (round, slot) of a pick id, or None for nothing."""
    return divmod(pick - 1, _SLOTS) if pick > 0 else None


def hit(frame: Frame, x: float, y: float, width: int, height: int) -> int:
    """Return the pick id of the nearest block under pixel (x, y) from the upper left, or 0.

    Blocks are tested as the upright boxes they are drawn from, turned by their yaw.
    """
    blocks = np.concatenate([frame.solids, frame.glass])
    blocks = blocks[blocks["pick"] > 0]
    if not len(blocks):
        return 0
    origin, towards = ray(frame.camera, x, y, width, height)
    start = _turned(origin - blocks["center"].astype(float), blocks["yaw"])
    step = _turned(np.broadcast_to(towards, start.shape), blocks["yaw"])
    step = np.where(np.abs(step) < 1e-9, 1e-9, step)
    near_side = (-np.sign(step) * blocks["half"] - start) / step
    far_side = (np.sign(step) * blocks["half"] - start) / step
    enters, leaves = near_side.max(axis=1), far_side.min(axis=1)
    entered = np.where((enters <= leaves) & (leaves > 0), enters, np.inf)
    nearest = int(np.argmin(entered))
    return int(blocks["pick"][nearest]) if np.isfinite(entered[nearest]) else 0


def _turned(vectors: NDArray[np.float64], yaw: NDArray[np.float32]) -> NDArray[np.float64]:
    """Vectors (n, 3) in the frame of boxes turned by `yaw` (n,) about Y."""
    cos, sin = np.cos(yaw), np.sin(yaw)
    x, y, z = vectors.T
    return np.stack([cos * x - sin * z, y, sin * x + cos * z], axis=1)
