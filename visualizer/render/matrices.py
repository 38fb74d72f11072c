"""Projections for the GPU: row-major numpy, column vectors, right-handed, Y up."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def orthographic(radius: float, near: float, far: float) -> Matrix:
    """A square view volume, `radius` to each side."""
    matrix = np.eye(4)
    matrix[0, 0] = matrix[1, 1] = 1 / radius
    matrix[2, 2] = -2 / (far - near)
    matrix[2, 3] = -(far + near) / (far - near)
    return matrix


def looking(
    eye: NDArray[np.float64], target: NDArray[np.float64], up: NDArray[np.float64]
) -> Matrix:
    """World to view: the viewer at `eye` looks along -Z of the view at `target`."""
    forward = (target - eye) / np.linalg.norm(target - eye)
    side = np.cross(forward, up)
    side /= np.linalg.norm(side)
    matrix = np.eye(4)
    matrix[0, :3], matrix[1, :3], matrix[2, :3] = side, np.cross(side, forward), -forward
    matrix[:3, 3] = -matrix[:3, :3] @ eye
    return matrix


@functools.lru_cache(maxsize=16)
def light_projection(
    focus: tuple[float, float, float], radius: float, light: tuple[float, float, float], texels: int
) -> Matrix:
    """World to shadow map: a square around `focus` seen from the direction `light`.

    The square moves in whole texels, so shadows do not shimmer when the focus glides. Not to be
    written to: it is remembered while the focus rests.
    """
    turn = _towards(light).copy()
    at = turn[:3, :3] @ np.array(focus)
    texel = 2 * radius / texels
    at[:2] = np.round(at[:2] / texel) * texel
    turn[:3, 3] = -at
    matrix: Matrix = orthographic(radius, -3 * radius, 3 * radius) @ turn
    matrix.setflags(write=False)
    return matrix


@functools.cache
def _towards(light: tuple[float, float, float]) -> Matrix:
    return looking(np.zeros(3), -np.array(light), np.array([0.0, 0.0, -1.0]))
