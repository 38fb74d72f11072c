"""Pictures: repeatable, the right size, the right colours, and nothing left behind."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import moderngl
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.render import sample
from visualizer.render import batches, uniforms
from visualizer.render.bloom import THRESHOLD
from visualizer.render.renderer import Renderer
from visualizer.render.targets import RIM, same_shape, straight
from visualizer.render.uniforms import LIGHT
from visualizer.stage.frame import BLOCK, GLYPH, SHATTER, TILE, Camera, Frame, Lighting

SIZE = (320, 180)
GREY = sample.linear("#808080")[:3]
FLAT = Lighting(GREY, GREY, GREY, GREY, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 0.0, 0.0)
AHEAD = Camera((0.0, 0.5, 6.0), (0.0, 0.5, 0.0), 0.5, 0.5, 40.0)


def empty(lighting: Lighting = sample.DARK) -> Frame:
    return Frame(AHEAD, lighting, (0.0, 0.5, 0.0), 4.0)


def test_two_renders_are_byte_identical(renderer: Renderer) -> None:
    renderer.draw(sample.frame("verify"))
    first = renderer.read()
    renderer.draw(sample.frame("shatter"))
    assert renderer.read() != first
    renderer.draw(sample.frame("verify"))
    assert renderer.read() == first
    assert len(first) == 320 * 180 * 3


def test_order_within_an_array_carries_no_meaning(renderer: Renderer) -> None:
    frame = sample.frame("verify")
    renderer.draw(frame)
    first = renderer.pixels().astype(int)
    renderer.draw(replace(frame, glass=frame.glass[::-1], solids=frame.solids[::-1]))
    assert np.abs(renderer.pixels() - first).max() <= 1


def test_half_grey_keeps_its_value_in_the_scene(renderer: Renderer) -> None:
    renderer.draw(empty(FLAT))
    assert np.abs(renderer.pixels()[:60].astype(int) - 128).max() <= 1


@pytest.mark.parametrize("code", ["#3D7DD8", "#6B7687", "#2BB39A", "#F2B134", "#E4572E"])
def test_a_lit_block_shows_its_own_colour(renderer: Renderer, code: str) -> None:
    """Within what light does to it: same hue, not washed out, not burnt."""
    block = sample.block(0.0, 0.0, 2.0, sample.linear(code))
    renderer.draw(replace(empty(), solids=np.array([block], BLOCK)))
    seen = renderer.pixels()[90, 160].astype(float)
    meant = np.array([int(code[i : i + 2], 16) for i in (1, 3, 5)], float)
    cosine = seen @ meant / np.linalg.norm(seen) / np.linalg.norm(meant)
    assert cosine > 0.985
    assert 0.7 < np.linalg.norm(seen) / np.linalg.norm(meant) < 1.15


def test_resizing_equals_starting_at_that_size(gl: moderngl.Context, renderer: Renderer) -> None:
    frame = sample.frame("fill")
    renderer.draw(frame)
    renderer.resize((200, 150))
    renderer.draw(frame)
    resized = renderer.read()
    fresh = Renderer(gl, (200, 150), "software")
    fresh.draw(frame)
    assert fresh.read() == resized
    fresh.release()
    renderer.resize((0, 150))  # a minimised window
    assert renderer.size == (200, 150)


def test_a_glyph_is_legible_before_and_inside_glass(renderer: Renderer) -> None:
    letter = sample.letters("H", 0.0, 0.2, 0.43, 0.9, (0.9, 0.9, 0.9, 1.0))
    glyphs = np.array(letter, GLYPH)
    pane = np.array([sample.block(0.0, 0.0, 2.0, sample.GUESS, alpha=0.2)], BLOCK)
    for frame in (
        replace(empty(), glyphs=glyphs),
        replace(empty(), glyphs=glyphs, glass=pane),
        replace(empty(), glyphs=glyphs, solids=pane),
    ):
        renderer.draw(frame)
        middle = renderer.pixels()[70:110, 130:190]
        ink = (middle.min(axis=2) > 220).mean()
        assert 0.06 < ink < 0.35


def test_text_behind_a_solid_block_is_hidden(renderer: Renderer) -> None:
    letter = sample.letters("H", 0.0, 0.2, -0.6, 0.9, (0.9, 0.9, 0.9, 1.0))
    wall = np.array([sample.block(0.0, 0.0, 3.0, sample.COMMITTED)], BLOCK)
    renderer.draw(replace(empty(), glyphs=np.array(letter, GLYPH), solids=wall))
    with_text = renderer.read()
    renderer.draw(replace(empty(), solids=wall))
    assert renderer.read() == with_text


def test_the_filled_part_of_glass_hides_what_is_behind_it(renderer: Renderer) -> None:
    letter = sample.letters("H", 0.0, 0.2, -0.6, 0.9, (0.9, 0.9, 0.9, 1.0))
    pane = sample.block(
        0.0, 0.0, 3.0, sample.GUESS, alpha=0.2, fill=0.5, fill_color=sample.COMMITTED
    )

    def picture(glyphs: list[np.ndarray]) -> np.ndarray:
        renderer.draw(
            replace(empty(), glyphs=np.array(glyphs, GLYPH), glass=np.array([pane], BLOCK))
        )
        return renderer.pixels().astype(int)

    changed = np.abs(picture(letter) - picture([])).max(axis=2) > 8
    rows = np.flatnonzero(changed.any(axis=1))
    level = 90  # the camera looks straight at the middle of the block
    assert rows.min() < level - 15
    assert rows.max() <= level + 1


def test_lettering_never_glows() -> None:
    brightest = max(max(sample.linear(code)[:3]) for code in ("#FFFFFF", "#F4F6FA"))
    assert brightest < THRESHOLD


def test_shards_start_as_the_block_and_fall_to_the_ground(renderer: Renderer) -> None:
    whole = sample.block(0.0, 0.0, 1.6, sample.REJECTED, lift=1.0)
    pieces = np.zeros(1, SHATTER)
    pieces["center"], pieces["half"] = whole["center"], whole["half"]
    pieces["color"], pieces["seed"], pieces["fade"] = sample.REJECTED, 5.0, 1.0

    def red(age: float, fade: float = 1.0) -> np.ndarray:
        pieces["age"], pieces["fade"] = age, fade
        renderer.draw(replace(empty(), shatters=pieces))
        pixels = renderer.pixels().astype(int)
        return pixels[..., 0] - pixels[..., 2] > 60

    renderer.draw(replace(empty(), solids=np.array([whole], BLOCK)))
    pixels = renderer.pixels().astype(int)
    solid = pixels[..., 0] - pixels[..., 2] > 60
    start, end = red(0.0), red(1.5)
    assert (start & solid).sum() > 0.85 * solid.sum()
    rows = np.arange(180)[:, None]
    lower = (rows * end).sum() / end.sum() - (rows * solid).sum() / solid.sum()
    assert lower > 10
    assert red(0.6, fade=0.0).sum() == 0


def beam_gain(gl: moderngl.Context, lighting: Lighting) -> NDArray[np.int_]:
    """What the beam changes in a picture whose edges nothing evens out."""
    made = Renderer(gl, SIZE, "low")
    frame = sample.frame("verify", lighting=lighting)
    made.draw(replace(frame, beams=frame.beams[:0]))
    before = made.pixels().astype(int)
    made.draw(frame)
    gain = made.pixels() - before
    made.release()
    return gain


def test_in_the_dark_the_beam_adds_light_and_takes_none(gl: moderngl.Context) -> None:
    gain = beam_gain(gl, sample.DARK)
    assert gain.min() >= -1
    assert (gain.max(axis=2) > 4).mean() > 0.02


def test_on_a_bright_stage_the_beam_tints(gl: moderngl.Context) -> None:
    gain = beam_gain(gl, sample.LIGHT)
    assert (gain[..., 2] < -8).mean() > 0.02  # blue goes where the target's light is warm


def beams_late(passes: dict[str, Callable[[], None]]) -> dict[str, Callable[[], None]]:
    """The same passes, the light drawn when the glass has been."""
    late = {name: each for name, each in passes.items() if name != "beams"}
    names = list(late)
    after = names.index("glass") + 1
    return {name: passes[name] for name in [*names[:after], "beams", *names[after:]]}


def test_words_keep_their_ink_in_the_beam(
    gl: moderngl.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin draws its light last: dark words then turn as warm as their ground."""
    frame = sample.frame("verify", lighting=sample.LIGHT)
    frame = replace(frame, solids=frame.solids[:0], glass=frame.glass[:0], boxes=frame.boxes[:0])
    glyphs = frame.glyphs.copy()
    glyphs["color"][:] = 0.01, 0.01, 0.01, 1.0
    gains = []
    passes = Renderer._passes
    for last in (False, True):
        if last:
            monkeypatch.setattr(Renderer, "_passes", lambda *each: beams_late(passes(*each)))
        made = Renderer(gl, (960, 540), "low")  # letters of many pixels
        pictures = []
        for beams in (frame.beams[:0], frame.beams):
            made.draw(replace(frame, glyphs=glyphs, beams=beams))
            pictures.append(made.pixels().astype(int)[..., 0])
        made.release()
        unlit, lit = pictures
        gains.append(int((lit - unlit)[unlit < 40].max()))
    kept, faded = gains
    assert kept <= 4 < 60 < faded, gains


def test_edges_are_evened_out_and_lettering_is_not(
    gl: moderngl.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one sample a pixel, slanted edges get steps between their two sides."""
    leaning = Camera((0.0, 3.0, 8.0), (0.0, 0.3, 0.0), 0.5, 0.5, 40.0, up=(0.3, 0.95, 0.0))
    block = np.array([sample.block(0.0, 0.0, 3.0, sample.TEXT)], BLOCK)
    glyphs = np.array(sample.letters("HI", 0.0, 0.35, 0.43, 0.4, sample.PROMPT), GLYPH)
    pictures = []
    nothing = np.zeros(0, batches.EDGED)
    for kind in (batches.edged, lambda frame: nothing):
        monkeypatch.setattr(batches, "edged", kind)
        made = Renderer(gl, SIZE, "software")
        made.draw(replace(empty(), camera=leaning, solids=block, glyphs=glyphs))
        pictures.append(made.pixels().astype(int))
        made.release()
    changed = np.abs(pictures[0] - pictures[1]).max(axis=2) > 6
    assert 0.002 < changed.mean() < 0.05
    middle = np.s_[80:100, 145:175]  # the lettering
    assert changed[middle].mean() < 0.06


def test_shadow_falls_away_from_the_light(renderer: Renderer) -> None:
    block = np.array([sample.block(0.0, 0.0, 1.0, sample.COMMITTED)], BLOCK)
    bright = replace(sample.DARK, ground=(0.5, 0.5, 0.5))
    above = Camera((0.0, 12.0, 0.01), (0.0, 0.0, 0.0), 0.5, 0.5, 40.0)
    renderer.draw(replace(empty(bright), camera=above, solids=block))
    pixels = renderer.pixels().astype(int).sum(axis=2)
    scale = 90 / (12 * math.tan(0.25))  # pixels per unit on the ground
    across = round(0.8 * scale)
    towards, away = (-1, 1) if LIGHT[0] > 0 else (1, -1)
    assert pixels[90, 160 + towards * across] < 0.8 * pixels[90, 160 + away * across]


def test_a_transparent_picture_keeps_coverage(gl: moderngl.Context) -> None:
    made = Renderer(gl, SIZE, "software", transparent=True)
    block = np.array([sample.block(0.0, 0.0, 2.0, sample.COMMITTED)], BLOCK)
    made.draw(replace(empty(), solids=block))
    pixels = made.pixels()
    assert pixels.shape == (180, 320, 4)
    assert pixels[5, 5, 3] == 0
    assert pixels[90, 160, 3] == 255
    made.release()


def test_colours_come_back_straight_from_any_coverage() -> None:
    """G64: a white edge of half coverage over red is what white at half opacity makes of it."""
    coverage = np.arange(256)
    for color in (255, 128, 7):
        stored = np.round(color * coverage / 255).astype(np.uint8)
        picture = np.stack([stored] * 3 + [coverage.astype(np.uint8)], axis=1)[None]
        back = straight(picture.copy())[0].astype(int)
        over_red = back[:, 0] * coverage / 255 + 255 * (1 - coverage / 255)
        wanted = color * coverage / 255 + 255 * (1 - coverage / 255)
        assert np.abs(over_red - wanted).max() <= 1.0
        assert not back[0].any()
        fringed = picture[0, :, 0].astype(int) * coverage / 255 + 255 * (1 - coverage / 255)
        assert np.abs(fringed - wanted).max() > 1.0, "taken for straight, it has dark fringes"


def test_presenting_shows_the_same_bytes(gl: moderngl.Context, renderer: Renderer) -> None:
    renderer.draw(sample.frame())
    texture = gl.texture(SIZE, 3)
    window = gl.framebuffer([texture])
    renderer.present(window)
    shown = np.frombuffer(window.read(components=3, alignment=1), np.uint8).reshape(180, 320, 3)
    assert np.array_equal(shown[::-1], renderer.pixels())
    gl.detect_framebuffer(0).use()
    window.release()
    texture.release()


def test_resolving_needs_equal_shapes(gl: moderngl.Context) -> None:
    one, other = (gl.framebuffer([gl.texture(size, 4)]) for size in ((8, 8), (8, 9)))
    same_shape(one, one)
    with pytest.raises(ValueError, match=r"\(8, 8\) into \(8, 9\)"):
        same_shape(one, other)


def test_hundreds_of_renderers_in_one_process(gl: moderngl.Context) -> None:
    frame = empty()
    for _ in range(20):
        made = Renderer(gl, (32, 18), "software")
        made.draw(frame)
        made.release()
    assert len(gl.objects) == 0


def test_the_mirrored_scene_shows_points_where_their_reflections_are() -> None:
    block = uniforms.scene(sample.frame(), SIZE, 512)
    below = uniforms.mirrored(block)
    point, reflection = np.array([0.3, 0.8, -0.4, 1.0]), np.array([0.3, -0.8, -0.4, 1.0])
    assert np.allclose(point @ below["view_projection"], reflection @ block["view_projection"])
    assert below["eye"][1] == -block["eye"][1]
    assert np.array_equal(below["light_projection"], block["light_projection"])


def test_frames_are_timed_now_and_then(renderer: Renderer) -> None:
    seconds = []
    for _ in range(40):
        renderer.draw(empty())
        seconds.append(renderer.measured())
    known = [each for each in seconds if each is not None]
    assert 2 <= len(known) <= 3
    assert all(0.0 < each < 5.0 for each in known)


def test_what_panels_hide_changes_nothing_of_the_rest(renderer: Renderer) -> None:
    frame = sample.frame("verify")
    renderer.draw(frame)
    whole = renderer.pixels().astype(int)
    within = (0.2, 0.1, 1.0, 0.85)
    renderer.draw(frame, within)
    part = renderer.pixels().astype(int)
    width, height = SIZE
    inside = np.s_[round(0.15 * height) : round(0.9 * height), round(0.2 * width) :]
    apart = np.abs(whole - part)[inside]
    assert apart.max() <= 12  # light that would spill in from what is hidden
    assert apart.mean() < 0.1
    hidden = part[:, : round(0.2 * width) - RIM - 1]
    assert (hidden == hidden[0, 0]).all()
    renderer.draw(frame)
    assert np.array_equal(renderer.pixels(), whole)  # and nothing is left behind


def tiles_at(*places: tuple[float, float]) -> np.ndarray:
    """Tiles less than a unit wide, red as light can be, in the middle of x, z."""
    rows = np.zeros(len(places), TILE)
    rows["center"] = [(x, 0.008, z) for x, z in places]
    rows["half"], rows["color"] = (0.4, 0.4), (0.9, 0.0, 0.0, 1.0)
    return rows


def test_tiles_lie_on_the_ground_behind_what_stands_and_fade_with_distance(
    renderer: Renderer,
) -> None:
    above = Camera((0.0, 14.0, 0.01), (0.0, 0.0, 0.0), 0.6, 0.5, 60.0)
    block = np.array([sample.block(0.0, 0.0, 3.0, sample.COMMITTED)], BLOCK)

    def red(frame: Frame) -> np.ndarray:
        renderer.draw(frame)
        pixels = renderer.pixels().astype(int)
        return pixels[..., 0] - pixels[..., 2] > 40

    seen = red(replace(empty(), camera=above, tiles=tiles_at((0.0, 0.0), (2.5, 0.0))))
    assert 200 < seen.sum() < 2000
    hidden = red(replace(empty(), camera=above, tiles=tiles_at((0.0, 0.0)), solids=block))
    assert hidden.sum() == 0
    far = replace(empty(), tiles=tiles_at((0.0, 0.0)), focus=(0.0, 0.5, 40.0))
    assert red(replace(far, camera=above)).sum() == 0


def test_a_profiled_frame_is_the_same_frame_and_every_pass_is_timed(renderer: Renderer) -> None:
    frame = sample.frame("shatter")
    renderer.draw(frame)
    plain = renderer.read()
    seconds = renderer.profile(frame)
    assert renderer.read() == plain
    assert {"ground", "glass", "finish"} < set(seconds)
    assert all(0.0 <= each < 5.0 for each in seconds.values())
