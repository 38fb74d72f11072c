"""Which thing lies under the pointer: ids for tokens and models, rays, and outlines.

An id names a round and a slot in it. Guesses are slots 0, 1, …; the token that ends a round,
the check around its guesses, the target's pass and the drafter's steps have slots of their own.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from visualizer.stage.camera import project, ray
from visualizer.stage.frame import Frame

_SLOTS = 32
EMITTED = _SLOTS - 1
"""The slot number of the token that ends a round; guesses count from 0."""
PASS = _SLOTS - 2
"""The target's pass: the large sphere."""
CHECK = _SLOTS - 3
"""The check of all guesses at once: the box."""
DRAFT = _SLOTS - 4
"""The drafter's steps: the small sphere."""

_SPHERES = (PASS, DRAFT)  # a frame's spheres are the target and then the drafter's, if any
_TOGETHER = 1.5  # world units: bodies of the drafter that are so near to the first are one

Floats = NDArray[np.float64]


def encode(round_index: int, slot: int) -> int:
    """Return the pick id of a slot of a round; 0 is kept for nothing."""
    return 1 + round_index * _SLOTS + slot


def decode(pick: int) -> tuple[int, int] | None:
    """Return (round, slot) of a pick id, or None for nothing."""
    return divmod(pick - 1, _SLOTS) if pick > 0 else None


def hit(frame: Frame, x: float, y: float, width: int, height: int, now: int = -1) -> int:
    """Return the pick id of what lies under pixel (x, y) from the upper left, or 0.

    Of blocks and spheres the nearest counts; the box around guesses only where it holds none of
    them under the pointer, and the tiles of old text only where nothing is before them. `now` is
    the round that box and spheres belong to; with -1 they are left out. Blocks are the upright
    boxes they are drawn from, turned by their yaw.
    """
    origin, towards = ray(frame.camera, x, y, width, height)
    blocks = np.concatenate([frame.solids, frame.glass])
    blocks = blocks[blocks["pick"] > 0]
    found: list[tuple[float, int]] = []
    if len(blocks):
        enters = _enters(origin, towards, blocks)
        nearest = int(np.argmin(enters))
        found.append((float(enters[nearest]), int(blocks["pick"][nearest])))
    if now >= 0:
        for index, sphere in enumerate(frame.spheres):
            found.append((_meets(origin, towards, sphere), encode(now, _SPHERES[index > 0])))
    distance, picked = min(found, default=(np.inf, 0))
    if np.isfinite(distance):
        return picked
    if now >= 0 and len(frame.boxes) and np.isfinite(_enters(origin, towards, frame.boxes)).any():
        return encode(now, CHECK)
    tiles = frame.tiles[frame.tiles["pick"] > 0]
    lies = _lies(origin, towards, tiles)
    return int(tiles["pick"][np.argmin(lies)]) if np.isfinite(lies).any() else 0


def outline(
    frame: Frame, picked: int, width: int, height: int
) -> tuple[float, float, float, float] | None:
    """Return the pixels (left, top, right, bottom) around what has this id, or None.

    None also where the frame holds no such thing now, or only behind the eye.
    """
    named = decode(picked)
    if named is None:
        return None
    if named[1] in _SPHERES:
        rows = frame.spheres[1:] if named[1] == DRAFT else frame.spheres[:1]
        if not len(rows):
            return None
        apart = np.linalg.norm(rows["center"] - rows["center"][0], axis=1)
        rows = rows[apart < _TOGETHER]
        up = np.array(frame.camera.up)
        back = np.array(frame.camera.eye) - np.array(frame.camera.look_at)
        right = np.cross(up, back / np.linalg.norm(back))
        reach = rows["radius"][:, None, None] * np.array([right, -right, up, -up])
        corners = (rows["center"][:, None] + reach).reshape(-1, 3)
    else:
        rows = frame.boxes if named[1] == CHECK else np.concatenate([frame.solids, frame.glass])
        rows = rows if named[1] == CHECK else rows[rows["pick"] == picked]
        if not len(rows):
            return _flat_outline(frame, picked, width, height)
        center, half = rows["center"][0], rows["half"][0]
        corners = center + half * np.array(list(product((-1, 1), repeat=3)))
    return _around(frame, np.asarray(corners, float), width, height)


def _flat_outline(
    frame: Frame, picked: int, width: int, height: int
) -> tuple[float, float, float, float] | None:
    """The same of a token that is a tile by now."""
    rows = frame.tiles[frame.tiles["pick"] == picked]
    if not len(rows):
        return None
    across, along = rows["half"][0].tolist()
    corners = rows["center"][0] + np.array(
        [(x, 0.0, z) for x in (-across, across) for z in (-along, along)]
    )
    return _around(frame, corners, width, height)


def _around(
    frame: Frame, corners: Floats, width: int, height: int
) -> tuple[float, float, float, float] | None:
    """Pixels around points (n, 3); None when one of them is behind the eye."""
    pixels = project(frame.camera, corners, width, height)
    if not np.isfinite(pixels).all():
        return None
    (left, top), (right_, bottom) = pixels.min(axis=0), pixels.max(axis=0)
    return float(left), float(top), float(right_), float(bottom)


def _enters(origin: Floats, towards: Floats, blocks: NDArray[np.void]) -> Floats:
    """Distances (n,) at which a ray enters blocks; infinite for those it misses."""
    start = _turned(origin - blocks["center"].astype(float), blocks["yaw"])
    step = _turned(np.broadcast_to(towards, start.shape), blocks["yaw"])
    step = np.where(np.abs(step) < 1e-9, 1e-9, step)
    near_side = (-np.sign(step) * blocks["half"] - start) / step
    far_side = (np.sign(step) * blocks["half"] - start) / step
    enters, leaves = near_side.max(axis=1), far_side.min(axis=1)
    return np.where((enters <= leaves) & (leaves > 0), enters, np.inf)


def _lies(origin: Floats, towards: Floats, tiles: NDArray[np.void]) -> Floats:
    """Distances (n,) at which a ray meets tiles on the ground; infinite for those it misses."""
    if abs(towards[1]) < 1e-9:
        return np.full(len(tiles), np.inf)
    away = (tiles["center"][:, 1] - origin[1]) / towards[1]
    across = origin[0] + away * towards[0] - tiles["center"][:, 0]
    along = origin[2] + away * towards[2] - tiles["center"][:, 2]
    inside = (np.abs(across) <= tiles["half"][:, 0]) & (np.abs(along) <= tiles["half"][:, 1])
    return np.where(inside & (away > 0), away, np.inf)


def _meets(origin: Floats, towards: Floats, sphere: NDArray[np.void]) -> float:
    """Distance at which a ray meets a sphere (a SPHERE row); infinite when it does not."""
    away = sphere["center"].astype(float) - origin
    along = float(away @ towards)
    room = float(sphere["radius"]) ** 2 - float(away @ away) + along * along
    return along - room**0.5 if along > 0 and room >= 0 else float("inf")


def _turned(vectors: Floats, yaw: NDArray[np.float32]) -> Floats:
    """Vectors (n, 3) in the frame of boxes turned by `yaw` (n,) about Y."""
    cos, sin = np.cos(yaw), np.sin(yaw)
    x, y, z = vectors.T
    return np.stack([cos * x - sin * z, y, sin * x + cos * z], axis=1)
