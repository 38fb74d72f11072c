"""A frame's arrays as they are drawn: sorted, split by mesh, and boxed where they have edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visualizer.stage import frame as contract
from visualizer.stage.frame import Frame

EDGED = np.dtype([("center", "f4", 3), ("half", "f4", 3)])
FLIGHT = 2.6  # how far the pieces of a block fly, world units


def back_to_front(blocks: NDArray[np.void], eye: NDArray[np.float32]) -> NDArray[np.void]:
    """Blocks in the order in which they may cover one another."""
    if len(blocks) < 2:
        return blocks
    away = ((blocks["center"] - eye) ** 2).sum(axis=1)
    return blocks[np.argsort(-away, kind="stable")]


def cut(shatters: NDArray[np.void]) -> list[NDArray[np.void]]:
    """What bursts into each mesh of pieces: a pattern, cut for about the width of the block."""
    found = [shatters[:0]] * (len(contract.WIDTHS) * contract.PATTERNS)
    if not len(shatters):
        return found
    half = shatters["half"]
    wide = half[:, 0] / np.maximum(half[:, 1], 1e-6)
    nearest = np.abs(wide[:, None] - contract.WIDTHS).argmin(axis=1)
    mesh = nearest * contract.PATTERNS + shatters["pattern"].astype(int) % contract.PATTERNS
    for index in set(mesh.tolist()):
        found[index] = shatters[mesh == index]
    return found


def edged(frame: Frame) -> NDArray[np.void]:
    """Boxes around everything that has edges."""
    groups = (frame.solids, frame.glass, frame.boxes, frame.spheres, frame.shatters)
    out = np.empty(sum(map(len, groups)), EDGED)
    center, half = out["center"], out["half"]
    end = 0
    for rows in groups:
        start, end = end, end + len(rows)
        center[start:end] = rows["center"]
        round_ = rows.dtype == contract.SPHERE
        half[start:end] = rows["radius"][:, None] if round_ else rows["half"]
    half[start:] += np.minimum(6.0 * frame.shatters["age"], FLIGHT)[:, None]
    return out
