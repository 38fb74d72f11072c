"""A small renderer on the shared context."""

from __future__ import annotations

from collections.abc import Iterator

import moderngl
import pytest

from visualizer.render.renderer import Renderer


@pytest.fixture
def renderer(gl: moderngl.Context) -> Iterator[Renderer]:
    made = Renderer(gl, (320, 180), "software")
    yield made
    made.release()
