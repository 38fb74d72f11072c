"""Panels never lie on each other or outside, and the stage keeps most of the window."""

from __future__ import annotations

from itertools import combinations

import pytest

from visualizer.ui.layout import arrange

SIZES = [(800, 600), (1280, 720), (1366, 768), (1920, 1080), (2560, 1080), (3840, 2160)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", [0.75, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("drawn", [0.0, 0.4, 1.0])
def test_panels_tile_the_window(size: tuple[int, int], scale: float, drawn: float) -> None:
    layout = arrange(*size, scale, drawn=drawn)
    parts = (
        layout.dock,
        layout.readouts,
        layout.text,
        layout.timeline,
        layout.transport,
        layout.drawer,
        layout.caption,
        layout.canvas,
    )
    assert not any(one.overlaps(other) for one, other in combinations(parts, 2))
    assert sum(each.width * each.height for each in parts) == pytest.approx(size[0] * size[1])


@pytest.mark.parametrize("size", SIZES)
def test_the_dock_takes_at_most_22_percent(size: tuple[int, int]) -> None:
    layout = arrange(*size)
    assert layout.dock.width <= size[0] * 0.22 + 0.5
    assert layout.canvas.width * layout.canvas.height >= 0.45 * size[0] * size[1]


def test_in_an_upright_window_the_dock_can_still_be_read() -> None:
    layout = arrange(600, 1000)
    assert layout.dock.width >= 190 * layout.unit > 0.22 * 600
    assert layout.canvas.width >= 0.5 * 600


def test_free_is_the_canvas_from_the_lower_left() -> None:
    layout = arrange(1000, 800)
    x0, y0, x1, y1 = layout.free
    assert (x0, x1) == (layout.canvas.x / 1000, 1.0)
    assert y0 == pytest.approx(1 - layout.canvas.bottom / 800)
    assert y1 == pytest.approx(1 - layout.canvas.y / 800)


def test_with_the_ui_hidden_only_the_caption_takes_room() -> None:
    layout = arrange(1280, 720, visible=False)
    assert layout.free[:3] == (0.0, 0.0, 1.0)
    assert 0.9 < layout.free[3] < 1.0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", [0.75, 1.0, 1.5, 2.5])
def test_the_drawer_leaves_the_stage_room(size: tuple[int, int], scale: float) -> None:
    """In a narrow window the dock goes while the microscope is out."""
    layout = arrange(*size, scale, drawn=1.0)
    assert layout.drawer.width >= size[0] * 0.27
    assert layout.canvas.width >= size[0] * 0.48
    assert layout.free[2] == pytest.approx(layout.drawer.x / size[0])
