"""Round bodies and ribbons: light from below, see-through likenesses, facets, discs and curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.render import sample
from visualizer.render.renderer import Renderer
from visualizer.stage import flows
from visualizer.stage.camera import project
from visualizer.stage.frame import BLOCK, SPHERE, Camera, Frame

SIZE = (320, 180)
AHEAD = Camera((0.0, 0.5, 6.0), (0.0, 0.5, 0.0), 0.5, 0.5, 40.0)
BARE = Frame(AHEAD, sample.DARK, (0.0, 0.5, 0.0), 4.0)


def ball(**fields: float) -> NDArray[np.void]:
    row = np.zeros(1, SPHERE)
    row["center"], row["radius"], row["color"] = (0.0, 0.9, 0.0), 0.8, sample.TARGET
    for name, value in fields.items():
        row[name] = value
    return row


def drawn(renderer: Renderer, frame: Frame) -> NDArray[np.int_]:
    renderer.draw(frame)
    return renderer.pixels().astype(int)


def at(point: tuple[float, float, float]) -> tuple[int, int]:
    x, y = project(AHEAD, np.array([point], float), *SIZE)[0]
    return int(y), int(x)


def changed(renderer: Renderer, frame: Frame) -> NDArray[np.bool_]:
    """Pixels that differ from the empty stage."""
    apart = np.abs(drawn(renderer, frame) - drawn(renderer, BARE)).max(axis=2)
    return np.asarray(apart > 12)


def test_light_has_climbed_as_far_as_it_is_told(renderer: Renderer) -> None:
    dark, whole = ball(), ball(glow=1.0)
    resting = drawn(renderer, replace(BARE, spheres=dark)).sum(axis=2)
    for reached in (0.25, 0.5, 0.75):
        half = ball(glow=1.0, unlit=1.0 - reached, layers=30.0)
        lit = drawn(renderer, replace(BARE, spheres=half)).sum(axis=2)
        y = 0.9 + 0.8 * (2.0 * reached - 1.0)  # of the last layer that shines, on the front
        depth = (0.64 - (y - 0.9) ** 2) ** 0.5
        below, above = at((0.0, y - 0.12, depth)), at((0.0, y + 0.12, depth))
        assert lit[below] > resting[below] + 60
        assert abs(lit[above] - resting[above]) < 60
    full = drawn(renderer, replace(BARE, spheres=whole)).sum(axis=2)
    assert full[at((0.0, 1.3, 0.7))] > resting[at((0.0, 1.3, 0.7))] + 60


def test_one_can_see_through_a_likeness_only(renderer: Renderer) -> None:
    behind = np.array([sample.block(0.0, -2.0, 3.0, sample.REJECTED, height=2.0)], BLOCK)
    middle = at((0.0, 0.9, 0.8))

    def reddens(alpha: float) -> float:
        row = ball()
        row["color"][:, 3] = alpha
        alone = drawn(renderer, replace(BARE, spheres=row))[middle]
        before = drawn(renderer, replace(BARE, spheres=row, solids=behind))[middle]
        return float((before - alone)[0] - (before - alone)[2])

    assert reddens(0.6) > 20
    assert abs(reddens(1.0)) < 4


@pytest.mark.parametrize(("fewer", "more"), [(4.0, 8.0), (8.0, 16.0)])
def test_fewer_steps_make_a_rougher_body(renderer: Renderer, fewer: float, more: float) -> None:
    """Its outline strays further from the ball's."""
    round_ = changed(renderer, replace(BARE, spheres=ball()))

    def strays(levels: float) -> int:
        return int((changed(renderer, replace(BARE, spheres=ball(levels=levels))) ^ round_).sum())

    assert strays(fewer) > strays(more) > 0
    assert strays(256.0) == 0  # more steps than can be shown: the ball itself


def test_a_disc_is_flat_and_as_wide_as_a_ball(renderer: Renderer) -> None:
    disc = changed(renderer, replace(BARE, spheres=ball(squash=0.7)))
    round_ = changed(renderer, replace(BARE, spheres=ball()))
    rows = [np.flatnonzero(mask[:100].any(axis=1)) for mask in (disc, round_)]
    middle = at((0.0, 0.9, 0.0))[0]
    assert np.ptp(rows[0]) < 0.6 * np.ptp(rows[1])
    assert abs(int(disc[middle].sum()) - int(round_[middle].sum())) <= 4


def test_a_ribbon_lies_on_its_curve_as_far_as_it_is_drawn(renderer: Renderer) -> None:
    curve = flows.bent((-1.2, 0.2, 0.0), (1.2, 0.2, 0.0), (0.0, 1.4, 0.0), (0.0, 1.4, 0.0))
    for grown in (1.0, 0.5):
        rows = flows.ribbon(curve, 0.06, (0.4, 0.7, 1.0), 1.0, grown)
        seen = changed(renderer, replace(BARE, ribbons=rows))
        for share in (0.2, 0.4, 0.6, 0.8):
            x, y, z = flows.at(curve, share).tolist()
            there = seen[at((x, y, z))]
            assert there == (share < grown), (share, grown)
            assert not seen[at((x, y - 0.3, z))]


def test_a_ribbon_goes_behind_what_stands_before_it(renderer: Renderer) -> None:
    curve = flows.bent((-1.2, 0.5, 0.0), (1.2, 0.5, 0.0), (0.5, 0.0, 0.0), (-0.5, 0.0, 0.0))
    rows = flows.ribbon(curve, 0.06, (0.4, 0.7, 1.0), 1.0)
    block = np.array([sample.block(0.0, 1.0, 0.8, sample.COMMITTED)], BLOCK)
    hidden = drawn(renderer, replace(BARE, solids=block))
    both = drawn(renderer, replace(BARE, solids=block, ribbons=rows))
    middle = at((0.0, 0.5, 0.0))
    assert np.abs(both[middle] - hidden[middle]).max() <= 2
    side = at((-0.9, 0.5, 0.0))
    assert np.abs(both[side] - hidden[side]).max() > 12


def test_the_order_of_see_through_bodies_carries_no_meaning(renderer: Renderer) -> None:
    near, far = ball(), ball()
    far["center"] = (0.4, 0.7, -2.0)
    for row in (near, far):
        row["color"][:, 3] = 0.6
    one = drawn(renderer, replace(BARE, spheres=np.concatenate([near, far])))
    other = drawn(renderer, replace(BARE, spheres=np.concatenate([far, near])))
    assert np.abs(one - other).max() <= 1
