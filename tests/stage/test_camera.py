"""Framing, projection and picking agree with each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.stage import pick
from visualizer.stage.camera import (
    DIRECTIONS,
    PITCH_LIMITS,
    frame_points,
    pitch_of,
    place,
    project,
    projection_matrix,
    ray,
    view_matrix,
)
from visualizer.stage.frame import BLOCK, Camera, Frame
from visualizer.stage.theme import theme
from visualizer.stage.view import PRESETS, Orbit

WIDTH, HEIGHT = 1280, 720
ASPECT = WIDTH / HEIGHT
FREE = (0.22, 0.17, 1.0, 0.92)
WHOLE = (0.0, 0.0, 1.0, 1.0)

coordinates = st.floats(-20, 20)
clouds = st.lists(st.tuples(coordinates, st.floats(0, 5), coordinates), min_size=1, max_size=12)


def framed(points: np.ndarray, preset: str, free: tuple[float, ...] = FREE) -> Camera:
    direction = DIRECTIONS[preset]  # type: ignore[index]
    pose = frame_points(points, points.mean(axis=0), direction, ASPECT, free)  # type: ignore[arg-type]
    return place(pose, direction, Orbit(), free)  # type: ignore[arg-type]


@pytest.mark.parametrize("preset", PRESETS)
@given(clouds)
def test_framing_keeps_every_point_in_the_free_rectangle(
    preset: str, cloud: list[tuple[float, float, float]]
) -> None:
    points = np.array([*cloud, (0, 0, 0), (6, 0, 0)], float)
    pixels = project(framed(points, preset), points, WIDTH, HEIGHT)
    x, y = pixels[:, 0] / WIDTH, 1 - pixels[:, 1] / HEIGHT
    assert (x >= FREE[0] - 1e-6).all()
    assert (x <= FREE[2] + 1e-6).all()
    assert (y >= FREE[1] - 1e-6).all()
    assert (y <= FREE[3] + 1e-6).all()


@pytest.mark.parametrize("preset", PRESETS)
def test_framing_is_tight(preset: str) -> None:
    """From a little nearer, something would be cut off."""
    points = np.array([(x, y, z) for x in (-8, 8) for y in (0, 2) for z in (-1, 1)], float)
    pixels = project(framed(points, preset), points, WIDTH, HEIGHT)
    x, y = pixels[:, 0] / WIDTH, 1 - pixels[:, 1] / HEIGHT
    gaps = (x.min() - FREE[0], FREE[2] - x.max(), y.min() - FREE[1], FREE[3] - y.max())
    assert min(gaps[0] + gaps[1], gaps[2] + gaps[3]) < 1e-6


def test_what_is_looked_at_falls_on_the_centre_of_the_free_rectangle() -> None:
    camera = framed(np.array([(0.0, 0.0, 0.0), (10.0, 1.0, 2.0)]), "default")
    (pixel,) = project(camera, np.array([camera.look_at]), WIDTH, HEIGHT)
    assert pixel[0] / WIDTH == pytest.approx((FREE[0] + FREE[2]) / 2)
    assert 1 - pixel[1] / HEIGHT == pytest.approx((FREE[1] + FREE[3]) / 2)


def test_matrices_follow_the_conventions() -> None:
    camera = Camera((0.0, 0.0, 5.0), (0.0, 0.0, 0.0), 1.0, 0.1, 50.0)
    eye_space = view_matrix(camera) @ (1.0, 2.0, 0.0, 1.0)
    assert eye_space == pytest.approx((1.0, 2.0, -5.0, 1.0))
    for depth, ndc in ((0.1, -1.0), (50.0, 1.0)):
        clip = projection_matrix(camera, 1.0) @ (0.0, 0.0, -depth, 1.0)
        assert clip[2] / clip[3] == pytest.approx(ndc)
    rotation = view_matrix(framed(np.eye(3), "side"))[:3, :3]
    assert rotation @ rotation.T == pytest.approx(np.eye(3))
    assert np.linalg.det(rotation) == pytest.approx(1.0)


def test_points_behind_the_eye_have_no_pixel() -> None:
    camera = Camera((0.0, 0.0, 5.0), (0.0, 0.0, 0.0), 1.0, 0.1, 50.0)
    assert np.isnan(project(camera, np.array([(0.0, 0.0, 9.0)]), 100, 100)).all()


@given(st.floats(0, WIDTH), st.floats(0, HEIGHT))
def test_a_ray_comes_back_to_its_pixel(x: float, y: float) -> None:
    camera = framed(np.array([(0.0, 0.0, 0.0), (10.0, 1.0, 2.0)]), "default")
    origin, towards = ray(camera, x, y, WIDTH, HEIGHT)
    (pixel,) = project(camera, (origin + 7.0 * towards)[None], WIDTH, HEIGHT)
    assert pixel == pytest.approx((x, y), abs=1e-6)


@given(st.floats(-9, 9), st.floats(-9, 9), st.floats(0, 99))
def test_no_orbit_goes_under_the_ground_or_over_the_top(
    yaw: float, pitch: float, zoom: float
) -> None:
    pose = frame_points(np.eye(3), np.zeros(3), DIRECTIONS["default"], ASPECT, WHOLE)
    camera = place(pose, DIRECTIONS["default"], Orbit(yaw, pitch, zoom), WHOLE)
    assert PITCH_LIMITS[0] - 1e-6 <= pitch_of(camera) <= PITCH_LIMITS[1] + 1e-6
    assert np.isfinite(view_matrix(camera)).all()


def block(center: tuple[float, float, float], pick_id: int, yaw: float = 0.0) -> np.ndarray:
    rows = np.zeros(1, BLOCK)
    rows["center"], rows["half"], rows["pick"], rows["yaw"] = center, (1.0, 0.5, 0.4), pick_id, yaw
    return rows


def test_picking_finds_the_nearest_block_under_the_pointer() -> None:
    near, far = block((0.0, 0.5, 2.0), 7), block((0.0, 0.5, 0.0), 8)
    beside = block((6.0, 0.5, 0.0), 9)
    camera = framed(np.array([(-2.0, 0.0, 0.0), (8.0, 1.0, 3.0)]), "default")
    frame = Frame(
        camera,
        theme("dark").lighting,
        (0.0, 0.0, 0.0),
        5.0,
        solids=np.concatenate([near, beside]),
        glass=far,
    )
    for at, expected in (((0.0, 0.5, 2.4), 7), ((6.0, 0.5, 0.4), 9), ((3.0, 0.0, 1.0), 0)):
        ((x, y),) = project(camera, np.array([at]), WIDTH, HEIGHT)
        assert pick.hit(frame, x, y, WIDTH, HEIGHT) == expected
    assert pick.hit(Frame(camera, frame.lighting, frame.focus, 1.0), 5, 5, WIDTH, HEIGHT) == 0


def test_picking_knows_turned_blocks() -> None:
    turned = block((0.0, 0.5, 0.0), 3, yaw=np.pi / 2)
    camera = framed(np.array([(-2.0, 0.0, -2.0), (2.0, 1.0, 2.0)]), "top")
    frame = Frame(camera, theme("dark").lighting, (0.0, 0.0, 0.0), 5.0, solids=turned)
    for at, expected in (((0.0, 1.0, 0.9), 3), ((0.9, 1.0, 0.0), 0)):
        ((x, y),) = project(camera, np.array([at]), WIDTH, HEIGHT)
        assert pick.hit(frame, x, y, WIDTH, HEIGHT) == expected


@given(st.integers(0, 10**6), st.integers(0, pick.EMITTED))
def test_pick_ids_come_back(index: int, slot: int) -> None:
    assert pick.encode(index, slot) > 0
    assert pick.decode(pick.encode(index, slot)) == (index, slot)
    assert pick.decode(0) is None
