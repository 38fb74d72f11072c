"""A unit box cut into Voronoi cells: what a rejected guess breaks into.

Cells are exact convex polyhedra, made by clipping the box by half-spaces. Faces have four or
five corners, so plain tuples are several times faster here than arrays. The same seed gives
the same cut.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Vector = tuple[float, float, float]
Face = tuple[list[Vector], bool]  # corners counter-clockwise from outside; made by a cut?

SHARD = np.dtype(
    [
        ("offset", "f4", 3),  # vertex relative to its cell's centroid
        ("middle", "f4", 3),  # of the cell, in the box -1..1
        ("face", "f4", 3),  # outward normal, flat
        ("kind", "f4", 3),  # cell index; 1 on fracture faces, 0 on the box's own; size 0..1
    ]
)

CELLS = 30  # few enough that each is seen as a piece of the block

BOX: tuple[tuple[Vector, ...], ...] = (
    ((-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1)),
    ((1, -1, -1), (-1, -1, -1), (-1, 1, -1), (1, 1, -1)),
    ((1, -1, 1), (1, -1, -1), (1, 1, -1), (1, 1, 1)),
    ((-1, -1, -1), (-1, -1, 1), (-1, 1, 1), (-1, 1, -1)),
    ((-1, 1, 1), (1, 1, 1), (1, 1, -1), (-1, 1, -1)),
    ((-1, -1, -1), (1, -1, -1), (1, -1, 1), (-1, -1, 1)),
)


def shards(seed: int, cells: int = CELLS, wide: float = 1.0) -> NDArray[np.void]:
    """Triangles of every cell, as `SHARD` vertices.

    Cells are smaller near the middle of the front face, where the blow lands. Distances are
    measured in a box `wide` times as wide as it is high, so that the pieces of a wide block are
    as compact as those of a square one; there are then more of them.
    """
    solids = polyhedra(sites(seed, round(cells * math.sqrt(wide))), wide)
    volumes = [volume(faces) for faces in solids]
    largest = max(volumes)
    return np.concatenate(
        [
            _vertices(faces, index, math.cbrt(size / largest))
            for index, (faces, size) in enumerate(zip(solids, volumes, strict=True))
        ]
    )


def sites(seed: int, cells: int) -> NDArray[np.float64]:
    """Centres of the cells, (cells, 3) in the box -1..1."""
    chance = np.random.default_rng(seed)
    spread = cells * 3 // 5
    near = chance.normal((0.15, 0.1, 0.9), (0.45, 0.45, 0.5), (cells - spread, 3))
    return np.concatenate([chance.uniform(-1, 1, (spread, 3)), np.clip(near, -0.97, 0.97)])


def polyhedra(centres: NDArray[np.float64], wide: float = 1.0) -> list[list[Face]]:
    """The cell of every centre: all that is nearer to it than to any other."""
    return [_cell(centres, index, wide) for index in range(len(centres))]


def volume(faces: list[Face]) -> float:
    """Of a convex polyhedron."""
    return sum(
        _dot(corners[0], _cross(corners[step], corners[step + 1])) / 6
        for corners, _ in faces
        for step in range(1, len(corners) - 1)
    )


def _cell(centres: NDArray[np.float64], index: int, wide: float) -> list[Face]:
    faces: list[Face] = [(list(corners), False) for corners in BOX]
    metric = np.array((wide * wide, 1.0, 1.0))
    apart = (metric * (centres - centres[index]) ** 2).sum(1)
    own = _vector(centres[index])
    reach = math.inf
    for turn, other in enumerate(np.argsort(apart)[1:]):
        if turn % 4 == 0:  # now and then is often enough: it only ever shrinks
            reach = max(_far(own, corner, wide) for corners, _ in faces for corner in corners)
        if apart[other] > 4 * reach * reach:
            break  # this centre and all further ones are too far to touch the cell
        normal = _vector(metric * (centres[other] - centres[index]))
        sizes = (metric * centres[[other, index]] ** 2).sum(1)
        faces = _clip(faces, normal, float(sizes[0] - sizes[1]) / 2)
    return faces


def _clip(faces: list[Face], normal: Vector, level: float) -> list[Face]:
    """The part of a convex polyhedron where ``normal · x <= level``, closed by a new face."""
    kept: list[Face] = []
    rim: list[Vector] = []
    for corners, cut in faces:
        side = [_dot(corner, normal) - level for corner in corners]
        outline: list[Vector] = []
        for here, corner in enumerate(corners):
            there = (here + 1) % len(corners)
            if side[here] <= 0:
                outline.append(corner)
            if side[here] * side[there] < 0:
                share = side[here] / (side[here] - side[there])
                crossing = _between(corner, corners[there], share)
                outline.append(crossing)
                rim.append(crossing)
        if len(outline) > 2:
            kept.append((outline, cut))
    if len(rim) > 2:
        kept.append((_around(rim, normal), True))
    return kept


def _around(points: list[Vector], normal: Vector) -> list[Vector]:
    """Corners of a convex outline, counter-clockwise about `normal`."""
    middle = _mean(points)
    first = _minus(points[0], middle)
    second = _cross(normal, first)
    long = math.sqrt(_dot(normal, normal))

    def angle(point: Vector) -> float:
        away = _minus(point, middle)
        return math.atan2(_dot(away, second) / long, _dot(away, first))

    return sorted(points, key=angle)


def _vertices(faces: list[Face], index: int, size: float) -> NDArray[np.void]:
    middle = _mean([corner for corners, _ in faces for corner in corners])
    rows: list[tuple[Vector, Vector, Vector, Vector]] = []
    for corners, cut in faces:
        normal = _normal(corners)
        kind = (index, float(cut), size)
        for step in range(1, len(corners) - 1):
            triangle = (corners[0], corners[step], corners[step + 1])
            rows.extend((_minus(corner, middle), middle, normal, kind) for corner in triangle)
    return np.array(rows, SHARD)


def _normal(corners: list[Vector]) -> Vector:
    """Of a planar outline, from its vector area (Newell)."""
    x = y = z = 0.0
    for here, there in zip(corners, corners[1:] + corners[:1], strict=True):
        part = _cross(here, there)
        x, y, z = x + part[0], y + part[1], z + part[2]
    long = max(math.sqrt(x * x + y * y + z * z), 1e-12)
    return x / long, y / long, z / long


def _mean(points: list[Vector]) -> Vector:
    count = len(points)
    x, y, z = (sum(values) / count for values in zip(*points, strict=True))
    return x, y, z


def _far(one: Vector, two: Vector, wide: float) -> float:
    return math.hypot(wide * (one[0] - two[0]), one[1] - two[1], one[2] - two[2])


def _vector(values: NDArray[np.float64]) -> Vector:
    return (float(values[0]), float(values[1]), float(values[2]))


def _dot(one: Vector, two: Vector) -> float:
    return one[0] * two[0] + one[1] * two[1] + one[2] * two[2]


def _cross(one: Vector, two: Vector) -> Vector:
    return (
        one[1] * two[2] - one[2] * two[1],
        one[2] * two[0] - one[0] * two[2],
        one[0] * two[1] - one[1] * two[0],
    )


def _minus(one: Vector, two: Vector) -> Vector:
    return (one[0] - two[0], one[1] - two[1], one[2] - two[2])


def _between(one: Vector, two: Vector, share: float) -> Vector:
    return (
        one[0] + share * (two[0] - one[0]),
        one[1] + share * (two[1] - one[1]),
        one[2] + share * (two[2] - one[2]),
    )
