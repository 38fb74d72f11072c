"""Where the picture is taken from: presets, framing, and the matrices they come to.

A preset fixes the direction of view; `frame_points` then finds the nearest place along it
from which everything that must be seen lies inside the free part of the picture. The user's
orbit comes last and is no part of what a scene asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import atan2, cos, hypot, pi, sin, tan

import numpy as np
from numpy.typing import NDArray

from visualizer.stage.frame import Camera
from visualizer.stage.view import Orbit, Preset

Vector = NDArray[np.float64]
Point = tuple[float, float, float]
Free = tuple[float, float, float, float]

PITCH_LIMITS = (0.03, pi / 2 - 0.02)  # never under the ground, never upside down
ZOOM_LIMITS = (0.2, 5.0)
SMALLEST_FREE = 0.05  # panels that leave less than this cover the stage anyway


@dataclass(frozen=True, slots=True)
class Direction:
    """A direction of view: the eye stands `yaw` about Y from +Z and `pitch` above the ground.

    `anchor` is where the subject is wanted in the free rectangle, -1..1 from its centre.
    """

    yaw: float
    pitch: float
    fov: float
    anchor: tuple[float, float]


DIRECTIONS: dict[Preset, Direction] = {
    "default": Direction(yaw=0.0, pitch=0.58, fov=0.36, anchor=(0.0, -0.34)),
    "side": Direction(yaw=-0.46, pitch=0.57, fov=0.36, anchor=(0.2, -0.36)),
    "top": Direction(yaw=0.0, pitch=1.36, fov=0.46, anchor=(0.0, -0.25)),
    "follow": Direction(yaw=-0.20, pitch=0.56, fov=0.80, anchor=(0.0, -0.30)),
    "close": Direction(yaw=0.0, pitch=0.66, fov=0.42, anchor=(0.0, -0.10)),
    "free": Direction(yaw=0.30, pitch=0.72, fov=0.46, anchor=(0.0, -0.20)),
}


@dataclass(frozen=True, slots=True)
class Pose:
    """What a camera looks at, and from how far; the direction comes from the preset."""

    center: Point
    distance: float

    def towards(self, other: Pose, progress: float) -> Pose:
        """The pose `progress` (0..1) of the way to `other`."""
        if progress <= 0.0 or self == other:
            return self
        if progress >= 1.0:
            return other
        distance = self.distance + (other.distance - self.distance) * progress
        return Pose(between(self.center, other.center, progress), distance)


def between(start: Point, end: Point, progress: float) -> Point:
    """The point `progress` (0..1) of the way from `start` to `end`."""
    x, y, z = (a + (b - a) * progress for a, b in zip(start, end, strict=True))
    return x, y, z


def basis(yaw: float, pitch: float) -> tuple[Vector, Vector, Vector]:
    """Camera right, up, and back (from what is looked at to the eye), each of length 1."""
    sine, cosine, rise, flat = sin(yaw), cos(yaw), sin(pitch), cos(pitch)
    right = np.array([cosine, 0.0, -sine])
    up = np.array([-sine * rise, flat, -cosine * rise])
    return right, up, np.array([sine * flat, rise, cosine * flat])


def frame_points(
    points: Vector,
    subject: Vector,
    direction: Direction,
    aspect: float,
    free: Free,
) -> Pose:
    """Return the closest pose that keeps `points` (n, 3) inside `free` (see `Camera.free`).

    `subject` (3,) is brought as near to the direction's anchor as the points allow.

    A point at x across and z towards the eye is inside when ``|x - cx| <= slope (eye - z)``,
    which is linear in the centre cx and in the eye's depth: the tightest pair of points
    gives the smallest depth, and the slack that is left goes to the anchor.
    """
    right, up, back = basis(direction.yaw, direction.pitch)
    half = tan(direction.fov / 2)
    slopes = (
        half * aspect * max(free[2] - free[0], SMALLEST_FREE),
        half * max(free[3] - free[1], SMALLEST_FREE),
    )
    depths = points @ back
    depth = float(subject @ back)
    limits = []
    eye = max(depth, float(depths.max())) + 1.0  # nothing framed is beside or behind the eye
    for axis, slope in zip((right, up), slopes, strict=True):
        across = points @ axis
        low, high = float((across + slope * depths).max()), float((across - slope * depths).min())
        limits.append((low, high))
        eye = max(eye, (low - high) / (2 * slope))
    distance = eye - depth
    center = depth * back
    for axis, slope, (low, high), wanted in zip(
        (right, up), slopes, limits, direction.anchor, strict=True
    ):
        preferred = float(subject @ axis) - wanted * slope * distance
        center = center + axis * min(max(preferred, low - slope * eye), high + slope * eye)
    return Pose((float(center[0]), float(center[1]), float(center[2])), distance)


@lru_cache(maxsize=16)
def place(pose: Pose, direction: Direction, orbit: Orbit, free: Free) -> Camera:
    """Return the camera at `pose`, moved by the user's orbit."""
    yaw = direction.yaw + orbit.yaw
    pitch = min(max(direction.pitch + orbit.pitch, PITCH_LIMITS[0]), PITCH_LIMITS[1])
    right, up, back = basis(yaw, pitch)
    distance = pose.distance * min(max(orbit.zoom, ZOOM_LIMITS[0]), ZOOM_LIMITS[1])
    center = np.array(pose.center) + right * orbit.pan[0] + up * orbit.pan[1]
    eye = center + back * distance
    return Camera(
        eye=(float(eye[0]), float(eye[1]), float(eye[2])),
        look_at=(float(center[0]), float(center[1]), float(center[2])),
        fov=direction.fov,
        near=max(0.1, 0.08 * distance),
        far=4.0 * distance + 60.0,
        free=free,
        up=(float(up[0]), float(up[1]), float(up[2])),
    )


def eased(start: Camera, end: Camera, progress: float) -> Camera:
    """The camera `progress` (0..1) of the way from one look to another.

    It swings about what it looks at, so that the distance never dips on the way.
    """
    center = between(start.look_at, end.look_at, progress)
    (yaw, pitch, far), (other_yaw, other_pitch, other_far) = map(_swing, (start, end))
    turn = (other_yaw - yaw + pi) % (2 * pi) - pi
    _, up, back = basis(yaw + turn * progress, pitch + (other_pitch - pitch) * progress)
    x, y, z = (np.array(center) + back * (far + (other_far - far) * progress)).tolist()
    return Camera(
        eye=(x, y, z),
        look_at=center,
        fov=start.fov + (end.fov - start.fov) * progress,
        near=min(start.near, end.near),
        far=max(start.far, end.far),
        free=end.free,
        up=(float(up[0]), float(up[1]), float(up[2])),
    )


def _swing(camera: Camera) -> tuple[float, float, float]:
    """Yaw, pitch and distance of a camera about what it looks at."""
    x, y, z = (a - b for a, b in zip(camera.eye, camera.look_at, strict=True))
    flat = hypot(x, z)
    return atan2(x, z), atan2(y, flat), hypot(flat, y)


@lru_cache(maxsize=16)
def pitch_of(camera: Camera) -> float:
    """Angle of the camera above the ground, radians."""
    return _swing(camera)[1]


def view_matrix(camera: Camera) -> Vector:
    """World to camera space, (4, 4), column vectors: the camera looks along -Z."""
    eye = np.array(camera.eye)
    back = eye - np.array(camera.look_at)
    back /= np.linalg.norm(back)
    right = _cross(np.array(camera.up), back)
    right /= np.linalg.norm(right)
    rotation = np.stack([right, _cross(back, right), back])
    matrix = np.eye(4)
    matrix[:3, :3] = rotation
    matrix[:3, 3] = -rotation @ eye
    return matrix


def _cross(one: Vector, two: Vector) -> Vector:
    """Cross product of two vectors (3,); numpy's own takes ten times as long for a single one."""
    (a, b, c), (x, y, z) = one.tolist(), two.tolist()
    return np.array([b * z - c * y, c * x - a * z, a * y - b * x])


def projection_matrix(camera: Camera, aspect: float) -> Vector:
    """Camera to clip space, (4, 4): shifted so that `look_at` falls on the centre of `free`."""
    scale = 1.0 / tan(camera.fov / 2)
    near, far = camera.near, camera.far
    x0, y0, x1, y1 = camera.free
    return np.array(
        [
            [scale / aspect, 0.0, -(x0 + x1 - 1.0), 0.0],
            [0.0, scale, -(y0 + y1 - 1.0), 0.0],
            [0.0, 0.0, (near + far) / (near - far), 2.0 * near * far / (near - far)],
            [0.0, 0.0, -1.0, 0.0],
        ]
    )


@lru_cache(maxsize=16)
def view_projection(camera: Camera, aspect: float) -> Vector:
    """World to clip space, (4, 4), remembered while a camera stands still: not to be written to."""
    matrix: Vector = projection_matrix(camera, aspect) @ view_matrix(camera)
    matrix.setflags(write=False)
    return matrix


def project(camera: Camera, points: Vector, width: int, height: int) -> Vector:
    """World points (n, 3) to pixels (n, 2) from the upper left. NaN for points behind the eye."""
    matrix = view_projection(camera, width / height)
    clip = np.concatenate([points, np.ones((len(points), 1))], axis=1) @ matrix.T
    depth = np.where(clip[:, 3:] > 0, clip[:, 3:], np.nan)
    ndc = clip[:, :2] / depth
    return np.asarray((ndc * (0.5, -0.5) + 0.5) * (width, height))


def ray(camera: Camera, x: float, y: float, width: int, height: int) -> tuple[Vector, Vector]:
    """Return the origin and unit direction of the ray through pixel (x, y) from the upper left."""
    matrix = view_projection(camera, width / height)
    far = np.linalg.solve(matrix, np.array([2 * x / width - 1, 1 - 2 * y / height, 1.0, 1.0]))
    eye = np.array(camera.eye)
    towards = far[:3] / far[3] - eye
    return eye, towards / np.linalg.norm(towards)
