"""Pictures come back through the ring in order, all of them, and as they are read at once."""

from __future__ import annotations

from collections import deque

import moderngl
import pytest

from tests.render import sample
from visualizer.render.readback import RING, Readback
from visualizer.render.renderer import Renderer


def shown(gl: moderngl.Context, count: int, alpha: bool) -> tuple[list[bytes], list[bytes]]:
    """So many pictures of growing brightness: read at once, and by way of a ring."""
    renderer = Renderer(gl, (33, 21), "low", transparent=alpha)
    ring = Readback(gl, renderer.size, renderer.channels)
    at_once, ringed = [], []
    try:
        renderer.draw(sample.frame())
        for index in range(count):
            renderer.picture.clear(index / 20, 0.5, 0.25, 1.0, viewport=(3 + index, 2, 9, 7))
            earlier = ring.take(renderer.picture)
            at_once.append(renderer.read())
            ringed += [earlier] if earlier is not None else []
            assert len(ringed) == max(index + 1 - RING, 0), "a ring that waits for nobody"
        ringed += ring.rest()
    finally:
        ring.release()
        renderer.release()
    return at_once, ringed


@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize("count", [0, 1, RING, RING + 1, 11])
def test_every_picture_comes_back_in_order(gl: moderngl.Context, count: int, alpha: bool) -> None:
    at_once, ringed = shown(gl, count, alpha)
    assert ringed == at_once
    assert len(set(at_once)) == count


def test_a_ring_that_hands_out_the_newest_is_found_out(
    gl: moderngl.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(deque[moderngl.Buffer]):
        def popleft(self) -> moderngl.Buffer:
            return self.pop()

    monkeypatch.setattr("visualizer.render.readback.deque", Wrong)
    at_once, ringed = shown(gl, 8, False)
    assert ringed != at_once
