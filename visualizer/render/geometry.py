"""The few meshes that instances are made of. Pure numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from visualizer.render import voronoi

BOX_VERTEX = np.dtype([("corner", "f4", 3), ("normal", "f4", 3), ("inner", "f4")])
SPHERE_VERTEX = np.dtype([("direction", "f4", 3)])
PLACE2 = np.dtype([("place", "f4", 2)])
PLACE3 = np.dtype([("place", "f4", 3)])

Indices = NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """Vertices of one of the dtypes here and, for lists, three indices a triangle."""

    vertices: NDArray[np.void]
    indices: Indices


def rounded_box(steps: int) -> Mesh:
    """A unit box whose edges are rounded by `steps` divisions from each face.

    Position is ``corner * (half - bevel) + normal * bevel``, so the bevel keeps its width
    whatever the extents. Faces wind counter-clockwise from outside.
    """
    ramp = np.linspace(-1, 0, steps)
    slope = np.tan(np.concatenate([ramp, -ramp[::-1]]) * math.pi / 4)
    sign = np.repeat([-1.0, 1.0], steps)
    count = 2 * steps
    vertices = np.zeros((6, count, count), BOX_VERTEX)
    indices: list[Indices] = []
    first = np.arange(count * count).reshape(count, count)
    low, right, both, up = first[:-1, :-1], first[1:, :-1], first[1:, 1:], first[:-1, 1:]
    for side in range(6):
        axis, outward = side % 3, 1.0 if side < 3 else -1.0
        one, two = (axis + 1) % 3, (axis + 2) % 3
        face = vertices[side]
        face["corner"][..., axis] = face["normal"][..., axis] = outward
        face["corner"][..., one], face["normal"][..., one] = sign[:, None], slope[:, None]
        face["corner"][..., two], face["normal"][..., two] = sign, slope
        face["normal"] /= np.linalg.norm(face["normal"], axis=-1, keepdims=True)
        order = (
            (low, right, both, low, both, up) if outward > 0 else (low, both, right, low, up, both)
        )
        quads = np.stack([corner.ravel() for corner in order], axis=1)
        indices.append(quads.ravel().astype(np.uint32) + np.uint32(side * count * count))
    return Mesh(vertices.ravel(), np.concatenate(indices))


def two_sided_box(steps: int) -> Mesh:
    """`rounded_box` twice: the inside (``inner`` 1) in the first half, then the outside."""
    box = rounded_box(steps)
    inside = box.vertices.copy()
    inside["inner"] = 1
    return Mesh(
        np.concatenate([inside, box.vertices]),
        np.concatenate([box.indices, box.indices + np.uint32(len(box.vertices))]),
    )


def sphere(rings: int) -> Mesh:
    """A unit sphere of `rings` bands and twice as many sectors."""
    polar = np.linspace(0, math.pi, rings + 1)[:, None]
    around = np.linspace(0, 2 * math.pi, 2 * rings + 1)[None, :]
    vertices = np.zeros((rings + 1, 2 * rings + 1), SPHERE_VERTEX)
    vertices["direction"][..., 0] = np.sin(polar) * np.cos(around)
    vertices["direction"][..., 1] = np.cos(polar)
    vertices["direction"][..., 2] = np.sin(polar) * np.sin(around)
    first = np.arange(vertices.size).reshape(vertices.shape)
    here, right, below, both = first[:-1, :-1], first[:-1, 1:], first[1:, :-1], first[1:, 1:]
    order = (here, right, below, below, right, both)
    return Mesh(
        vertices.ravel(),
        np.stack([corner.ravel() for corner in order], axis=1).ravel().astype(np.uint32),
    )


def pyramid() -> Mesh:
    """The beam's walls: `place.y` 0 at the apex, 1 on the far rectangle below it."""
    places = [(0, 0, 0), (-1, 1, -1), (1, 1, -1), (1, 1, 1), (-1, 1, 1)]
    vertices = np.zeros(5, PLACE3)
    vertices["place"] = places
    walls = [(0, 2, 1), (0, 3, 2), (0, 4, 3), (0, 1, 4), (1, 3, 4), (1, 2, 3)]
    return Mesh(vertices, np.array(walls, np.uint32).ravel())


def strip(steps: int) -> Mesh:
    """A band of `steps` quads: `place` is 0..1 along it and -1..1 across."""
    vertices = np.zeros((steps + 1, 2), PLACE2)
    vertices["place"][..., 0] = np.linspace(0.0, 1.0, steps + 1)[:, None]
    vertices["place"][..., 1] = (-1.0, 1.0)
    first = 2 * np.arange(steps)[:, None]
    quads = first + np.array([0, 2, 3, 0, 3, 1])
    return Mesh(vertices.ravel(), quads.ravel().astype(np.uint32))


def cube() -> Mesh:
    """A plain box, -1..1 on each axis. Faces wind counter-clockwise from outside."""
    vertices = np.zeros(8, PLACE3)
    vertices["place"] = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    faces = [(1, 5, 7, 3), (4, 0, 2, 6), (5, 4, 6, 7), (0, 1, 3, 2), (3, 7, 6, 2), (0, 4, 5, 1)]
    triangles = [(a, b, c, a, c, d) for a, b, c, d in faces]
    return Mesh(vertices, np.array(triangles, np.uint32).ravel())


def square(low: float, high: float) -> Mesh:
    """Two triangles over ``low..high`` on both axes."""
    vertices = np.zeros(4, PLACE2)
    vertices["place"] = [(low, low), (high, low), (high, high), (low, high)]
    return Mesh(vertices, np.array([0, 1, 2, 0, 2, 3], np.uint32))


def screen() -> Mesh:
    """One triangle that covers the picture."""
    vertices = np.zeros(3, PLACE2)
    vertices["place"] = [(-1, -1), (3, -1), (-1, 3)]
    return Mesh(vertices, np.array([0, 1, 2], np.uint32))


@cache
def pieces(pattern: int, wide: float) -> Mesh:
    """The shards of a block `wide` times as wide as high, broken by a `pattern` of its own."""
    vertices = voronoi.shards(seed=pattern, wide=wide)
    return Mesh(vertices, np.arange(len(vertices), dtype=np.uint32))
