"""The frame-wide values of every shader, as one block of memory (``scene.glsl``)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from visualizer.render import matrices
from visualizer.stage.camera import view_projection
from visualizer.stage.frame import SPHERE, Frame

SCENE = np.dtype(
    [
        ("view_projection", "f4", (4, 4)),
        ("light_projection", "f4", (4, 4)),
        ("eye", "f4", 4),
        ("light_direction", "f4", 4),
        ("key", "f4", 4),
        ("ambient", "f4", 4),
        ("background_low", "f4", 4),
        ("background_high", "f4", 4),
        ("ground_color", "f4", 4),
        ("grid_color", "f4", 4),
        ("lamp", "f4", 4),
        ("lamp_color", "f4", 4),
        ("focus", "f4", 4),
        ("viewport", "f4", 4),
    ]
)

LIGHT = (-0.4195, 0.7991, 0.4307)
"""Towards the key light, unit length: high, left, a little on the viewer's side."""

MIRROR = np.diag([1.0, -1.0, 1.0, 1.0])


def scene(frame: Frame, size: tuple[int, int], shadow_size: int) -> NDArray[np.void]:
    """`SCENE` for `frame` at `size` pixels."""
    camera, light = frame.camera, frame.lighting
    block = np.zeros((), SCENE)
    # GL reads matrices column by column.
    block["view_projection"] = view_projection(camera, size[0] / size[1]).T
    block["light_projection"] = matrices.light_projection(
        frame.focus, frame.focus_radius, LIGHT, shadow_size
    ).T
    block["eye"][:3] = camera.eye
    block["light_direction"][:3] = LIGHT
    # `key` is irradiance: a white surface facing it returns a share of 1/π in each direction.
    block["key"][:3] = np.array(light.key) / math.pi
    block["ambient"][:3] = light.ambient
    block["background_low"][:3] = light.background_low
    block["background_high"][:3] = light.background_high
    block["ground_color"][:3] = light.ground
    block["grid_color"][:3] = light.grid
    lamp = _lamp(frame.spheres)
    if lamp is not None:
        block["lamp"][:3], block["lamp"][3] = lamp["center"], lamp["glow"]
        block["lamp_color"][:3] = lamp["color"][:3]
    block["focus"] = (*frame.focus, frame.focus_radius)
    block["viewport"] = (*size, 1 / size[0], 1 / size[1])
    return block


def mirrored(block: NDArray[np.void]) -> NDArray[np.void]:
    """The same scene as seen from below the stage floor: what the floor reflects."""
    below = block.copy()
    below["view_projection"] = MIRROR @ block["view_projection"]  # transposed: from the left
    below["eye"][1] *= -1
    return below


def _lamp(spheres: NDArray[np.void]) -> np.void | None:
    """The sphere that lights the stage: the largest, which is the target."""
    if len(spheres) == 0:
        return None
    assert spheres.dtype == SPHERE
    largest: np.void = spheres[int(np.argmax(spheres["radius"]))]
    return largest
