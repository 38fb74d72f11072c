"""Panels and scene share one picture and cannot disturb each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import moderngl
import numpy as np
import pytest
from imgui_bundle import imgui

from tests.render import sample
from visualizer.render.imgui_pass import ImguiPass
from visualizer.render.renderer import Renderer

WIDTH, HEIGHT = 320, 180


@pytest.fixture
def panels(gl: moderngl.Context) -> Iterator[ImguiPass]:
    context = imgui.create_context()
    imgui.get_io().set_ini_filename("")
    made = ImguiPass(gl)
    yield made
    made.release()
    imgui.destroy_context(context)


def build(content: Callable[[], None]) -> imgui.ImDrawData:
    io = imgui.get_io()
    io.display_size = (WIDTH, HEIGHT)
    io.delta_time = 1 / 60
    imgui.new_frame()
    content()
    imgui.render()
    return imgui.get_draw_data()


def grey_square() -> None:
    half = imgui.get_color_u32((0.5, 0.5, 0.5, 1.0))
    imgui.get_foreground_draw_list().add_rect_filled((100, 50), (200, 120), half)


def words() -> None:
    imgui.set_next_window_pos((20, 20))
    imgui.set_next_window_size((260, 120))
    imgui.begin("Readouts")
    imgui.text("fifty percent grey, and some lettering")
    imgui.button("Play")
    imgui.end()


def show(
    renderer: Renderer, panels: ImguiPass, content: Callable[[], None], frames: int = 2
) -> np.ndarray:
    for _ in range(frames):
        renderer.draw(sample.frame())
        panels.render(build(content), renderer.picture)
    return renderer.pixels()


def test_half_grey_keeps_its_value_in_the_panels(renderer: Renderer, panels: ImguiPass) -> None:
    pixels = show(renderer, panels, grey_square)
    middle = pixels[60:110, 110:190]
    assert np.abs(middle.astype(int) - 128).max() <= 1


def test_panels_fill_the_pixels_of_a_dense_display(gl: moderngl.Context, panels: ImguiPass) -> None:
    dense = Renderer(gl, (2 * WIDTH, 2 * HEIGHT), "software")
    imgui.get_io().display_framebuffer_scale = (2, 2)
    pixels = show(dense, panels, grey_square).astype(int)
    dense.draw(sample.frame())
    changed = np.abs(pixels - dense.pixels()).max(axis=2) > 0
    rows, columns = np.nonzero(changed)
    assert (rows.min(), rows.max()) == (100, 239)
    assert (columns.min(), columns.max()) == (200, 399)
    dense.release()


def test_panels_show_lettering(renderer: Renderer, panels: ImguiPass) -> None:
    with_panel = show(renderer, panels, words)
    renderer.draw(sample.frame())
    changed = np.abs(with_panel.astype(int) - renderer.pixels()).max(axis=2)
    assert (changed[20:140, 20:280] > 0).mean() > 0.9
    assert changed[150:, 290:].max() == 0
    assert with_panel[40:140, 25:275].max() > 200


def test_a_sampler_left_bound_does_not_blur_the_lettering(
    gl: moderngl.Context, renderer: Renderer, panels: ImguiPass
) -> None:
    clean = show(renderer, panels, words)
    sampler = gl.sampler(filter=(moderngl.NEAREST_MIPMAP_NEAREST, moderngl.NEAREST))
    renderer.draw(sample.frame())
    sampler.use(0)
    panels.render(build(words), renderer.picture)
    assert np.array_equal(renderer.pixels(), clean)
    sampler.release()


def test_a_frame_after_panels_equals_one_without_them(
    gl: moderngl.Context, renderer: Renderer, panels: ImguiPass
) -> None:
    renderer.draw(sample.frame())
    alone = renderer.read()
    show(renderer, panels, words)
    gl.blend_func = (moderngl.ONE, moderngl.ZERO, moderngl.ZERO, moderngl.ONE)
    gl.enable(moderngl.BLEND | moderngl.CULL_FACE)
    renderer.picture.scissor = (3, 3, 20, 20)
    renderer.draw(sample.frame())
    assert renderer.read() == alone


def test_a_window_of_no_area_is_skipped(renderer: Renderer, panels: ImguiPass) -> None:
    def empty() -> None:
        lines = imgui.get_foreground_draw_list()
        lines.push_clip_rect((50, 50), (50, 50))
        lines.add_rect_filled((0, 0), (300, 150), imgui.get_color_u32((1, 1, 1, 1)))
        lines.pop_clip_rect()
        lines.push_clip_rect((400, 300), (500, 400))
        lines.add_rect_filled((0, 0), (600, 500), imgui.get_color_u32((1, 1, 1, 1)))
        lines.pop_clip_rect()

    pixels = show(renderer, panels, empty)
    renderer.draw(sample.frame())
    assert np.array_equal(pixels, renderer.pixels())


def test_many_widgets_outgrow_the_buffers(renderer: Renderer, panels: ImguiPass) -> None:
    def grid() -> None:
        lines = imgui.get_foreground_draw_list()
        color = imgui.get_color_u32((1, 1, 1, 1))
        for index in range(4000):
            x, y = 4 * (index % 80), 3 * (index // 80)
            lines.add_rect_filled((x, y), (x + 2, y + 2), color)

    pixels = show(renderer, panels, grid)
    assert (pixels[::3, ::4][:50, :80] == 255).all()
