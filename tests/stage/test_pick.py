"""What lies under the pointer: blocks by the nearest, spheres, the box around, and outlines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.stage import pick
from visualizer.stage.camera import project
from visualizer.stage.frame import BLOCK, SPHERE, TILE, Camera, Frame
from visualizer.stage.theme import theme

SIZE = (640, 480)
CAMERA = Camera((0.0, 2.0, 12.0), (0.0, 0.5, 0.0), 0.5, 0.5, 60.0)


def block(center: tuple[float, float, float], picked: int, half: float = 0.5) -> np.void:
    row = np.zeros(1, BLOCK)
    row["center"], row["half"], row["pick"] = center, half, picked
    return row[0]


def sphere(center: tuple[float, float, float], radius: float) -> np.void:
    row = np.zeros(1, SPHERE)
    row["center"], row["radius"] = center, radius
    return row[0]


GUESSES = np.array([block((x, 0.5, 0.0), pick.encode(7, i)) for i, x in enumerate((-2.0, 0, 2.0))])
FRAME = Frame(
    CAMERA,
    theme("dark").lighting,
    (0.0, 0.5, 0.0),
    6.0,
    solids=np.array([block((-2.0, 0.5, -3.0), pick.encode(1, 0)), block((0, 9.0, 0), 0)]),
    glass=GUESSES,
    boxes=np.array([block((0.0, 0.5, 0.0), 0, 2.8)]),
    spheres=np.array([sphere((1.0, 2.0, -5.0), 1.0), sphere((2.5, 0.3, 3.5), 0.3)]),
)


def pixel(point: tuple[float, float, float]) -> tuple[float, float]:
    x, y = project(CAMERA, np.array([point]), *SIZE)[0]
    return float(x), float(y)


def hit(point: tuple[float, float, float], now: int = 7) -> int:
    return pick.hit(FRAME, *pixel(point), *SIZE, now)


@given(st.integers(0, 10_000), st.integers(0, 31))
def test_an_id_names_its_round_and_slot(round_index: int, slot: int) -> None:
    picked = pick.encode(round_index, slot)
    assert picked > 0
    assert pick.decode(picked) == (round_index, slot)


def test_the_nearest_block_counts() -> None:
    for slot, x in enumerate((-2.0, 0.0, 2.0)):
        assert hit((x, 0.5, 0.5)) == pick.encode(7, slot)
    behind = pixel((-2.0, 0.5, -3.0))
    alone = Frame(CAMERA, FRAME.lighting, FRAME.focus, 6.0, solids=FRAME.solids)
    assert pick.hit(alone, *behind, *SIZE) == pick.encode(1, 0)
    assert pick.hit(FRAME, *behind, *SIZE, 7) != pick.encode(1, 0), "a guess stands before it"


def test_the_spheres_are_the_models() -> None:
    assert hit((1.0, 2.0, -5.0)) == pick.encode(7, pick.PASS)
    assert hit((2.5, 0.3, 3.5)) == pick.encode(7, pick.DRAFT)
    assert hit((1.0, 2.0, -5.0), now=-1) == 0


def test_the_box_counts_where_it_holds_nothing_under_the_pointer() -> None:
    assert hit((1.0, 0.5, 0.0)) == pick.encode(7, pick.CHECK)
    assert hit((0.0, 0.5, 0.5)) == pick.encode(7, 1), "not before a guess"


def test_beside_everything_is_nothing() -> None:
    assert pick.hit(FRAME, 2, 2, *SIZE, 7) == 0


@pytest.mark.parametrize("slot", [0, 1, 2, pick.PASS, pick.DRAFT, pick.CHECK])
def test_what_is_hit_lies_in_its_outline(slot: int) -> None:
    picked = pick.encode(7, slot)
    around = pick.outline(FRAME, picked, *SIZE)
    assert around is not None
    left, top, right, bottom = around
    inside = [
        (x, y)
        for x in range(0, SIZE[0], 8)
        for y in range(0, SIZE[1], 8)
        if pick.hit(FRAME, x, y, *SIZE, 7) == picked
    ]
    assert inside
    slack = 8.0 if slot in (pick.PASS, pick.DRAFT) else 0.5  # a sphere is wider in perspective
    for x, y in inside:
        assert left - slack <= x <= right + slack
        assert top - slack <= y <= bottom + slack


def test_what_is_not_there_has_no_outline() -> None:
    assert pick.outline(FRAME, pick.encode(3, 0), *SIZE) is None
    assert pick.outline(FRAME, 0, *SIZE) is None


# --- tiles of old text ---------------------------------------------------------------------


def tile(x: float, z: float, picked: int) -> np.void:
    row = np.zeros(1, TILE)
    row["center"], row["half"], row["pick"] = (x, 0.01, z), (0.5, 0.2), picked
    return row[0]


OLD = replace(
    FRAME,
    tiles=np.array(
        [
            tile(-9.0, -6.0, pick.encode(0, 3)),
            tile(-7.9, -6.0, 0),
            tile(0.0, -9.0, pick.encode(0, 5)),
        ]
    ),
)


def old(point: tuple[float, float, float]) -> int:
    return pick.hit(OLD, *pixel(point), *SIZE, 7)


def test_a_token_far_back_is_hit_and_outlined_where_it_lies() -> None:
    assert old((-9.0, 0.01, -6.0)) == pick.encode(0, 3)
    assert old((-8.6, 0.01, -6.1)) == pick.encode(0, 3)
    assert old((-9.0, 0.01, -6.3)) == 0, "the ground beside it is nothing"
    assert old((-7.9, 0.01, -6.0)) == 0, "nor is a tile of the prompt"
    around = pick.outline(OLD, pick.encode(0, 3), *SIZE)
    assert around is not None
    x, y = pixel((-9.0, 0.01, -6.0))
    assert around[0] < x < around[2]
    assert around[1] < y < around[3]
    assert pick.outline(OLD, pick.encode(0, 4), *SIZE) is None


def test_what_stands_before_a_tile_counts() -> None:
    """The box around the guesses covers the tile behind it."""
    assert old((0.0, 0.01, -9.0)) != pick.encode(0, 5)
    bare = replace(OLD, boxes=OLD.boxes[:0], glass=OLD.glass[:0], spheres=OLD.spheres[:0])
    assert pick.hit(bare, *pixel((0.0, 0.01, -9.0)), *SIZE, 7) == pick.encode(0, 5)


def test_a_drafter_of_several_bodies_is_one_thing_with_one_outline() -> None:
    """What is far from the first of them (a copy beside the target) can be hit as well."""
    tower = [sphere((2.5, 0.3 + 0.4 * floor, 3.5), 0.3) for floor in range(3)]
    away = sphere((-4.0, 3.0, -5.0), 0.8)
    frame = Frame(
        CAMERA,
        FRAME.lighting,
        FRAME.focus,
        6.0,
        spheres=np.array([sphere((1.0, 2.0, -5.0), 1.0), *tower, away]),
    )
    for body in (*tower, away):
        at = pixel(tuple(body["center"].tolist()))
        assert pick.hit(frame, *at, *SIZE, 7) == pick.encode(7, pick.DRAFT)
    around = pick.outline(frame, pick.encode(7, pick.DRAFT), *SIZE)
    assert around is not None
    left, top, right, bottom = around
    for body in tower:
        x, y = pixel(tuple(body["center"].tolist()))
        assert left < x < right
        assert top < y < bottom
    x, _ = pixel((-4.0, 3.0, -5.0))
    assert not left < x < right
