"""Letters of any script come from the system's fonts, or show their code point."""

from collections.abc import Iterator
from pathlib import Path

import moderngl
import numpy as np
import pytest
from PIL import ImageFont

from visualizer.render import fonts
from visualizer.render.atlas import FONTS, Atlas
from visualizer.stage import text

GEORGIAN = "ქ"  # in a font that comes with the program, and not in the atlas


@pytest.fixture(autouse=True)
def _given_back() -> Iterator[None]:
    text.borrow(None)
    yield
    text.borrow(None)


@pytest.fixture(name="alone")
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any font of its own."""
    monkeypatch.setattr(fonts.shutil, "which", lambda name: None)
    monkeypatch.setattr(fonts, "_folder_fonts", lambda: iter(()))


def test_a_glyph_is_borrowed_where_a_font_has_it_and_escaped_where_none_has(alone: None) -> None:
    assert text.visible(GEORGIAN) == "⟨U+10E5⟩"
    fonts.lend()
    assert text.visible(GEORGIAN) == GEORGIAN
    assert len(text.quads(GEORGIAN)) == 1
    assert 0.3 < text.measure(GEORGIAN) < 1.2
    assert text.visible("\u4e2d") == "⟨U+4E2D⟩"


@pytest.mark.parametrize("char", ["א", "ا", "अ", "ก", "\u0301", "\u200d", "🇩", "\ue000"])
def test_what_needs_shaping_is_never_drawn_wrong(char: str) -> None:
    everything = text.Borrowed(np.zeros((8, 8), np.uint8), 0.0, 0.0, 1.0)
    text.borrow(lambda _: everything)
    assert text.visible(char).startswith("⟨")
    assert text.visible("中") == "中"  # the twin: this source has everything


def test_accents_join_their_letters() -> None:
    assert text.visible("e\u0301") == "é"


def test_a_borrowed_field_is_what_freetype_bakes() -> None:
    """Ours for a letter of the atlas, from the same font, against the baked one."""
    path = FONTS / "Roboto-Bold.ttf"
    font = ImageFont.truetype(str(path), 48 * fonts.SCALE, layout_engine=ImageFont.Layout.BASIC)
    metrics = text.metrics()
    baked = np.asarray(fonts.Image.open(FONTS / "atlas.png")).astype(float)
    for char in "Hg8":
        mine = fonts._borrowed(font, char, 48)
        u0, v0, u1, v1 = metrics.quads[metrics.rows[char], 4:]
        width, height = metrics.size
        cell = baked[round(v0 * height) : round(v1 * height), round(u0 * width) : round(u1 * width)]
        assert abs(len(cell) - len(mine.field)) <= 2
        inside, theirs = (mine.field > 127).mean() * mine.field.size, (cell > 127).sum()
        assert inside == pytest.approx(theirs, rel=0.06)
        assert mine.advance == pytest.approx(metrics.advances[metrics.rows[char]], abs=0.01)


def test_distances_are_those_of_a_disc() -> None:
    side = 60 * fonts.SCALE
    y, x = np.mgrid[:side, :side] - (side - 1) / 2
    field = fonts.signed_distance(np.hypot(x, y) <= 20 * fonts.SCALE)
    middle = np.arange(60) * fonts.SCALE + fonts.SCALE // 2 - (side - 1) / 2
    exact = 20 - np.hypot(*np.meshgrid(middle, middle)) / fonts.SCALE
    near = np.abs(exact) < text.SPREAD
    assert np.abs(field - exact)[near].max() < 0.4


def test_the_texture_follows_what_is_borrowed(gl: moderngl.Context, alone: None) -> None:
    fonts.lend()
    made = Atlas(gl, anisotropic=False)
    text.visible(GEORGIAN)
    made.refresh()
    ((x, y, field),) = text.metrics().borrowed
    width, height = text.metrics().size
    pixels = np.frombuffer(made.texture.read(alignment=1), np.uint8).reshape(height, width)
    assert np.array_equal(pixels[y : y + field.shape[0], x : x + field.shape[1]], field)
    made.release()


def test_the_atlas_runs_full_without_an_error() -> None:
    large = text.Borrowed(np.zeros((400, 1000), np.uint8), 0.0, 0.0, 1.0)
    text.borrow(lambda _: large)
    shown = [text.visible(chr(code)) for code in range(0x4E00, 0x4E14)]
    assert shown[0] == "\u4e00"
    assert shown[-1] == "⟨U+4E13⟩"
    assert all((text.quads(each)[:, 7] <= 1.0).all() for each in shown)


def test_without_fontconfig_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path("nowhere")))
    assert list(fonts.fontconfig("中")) == []


def test_emoji_come_from_a_font_of_outlines_where_the_first_answer_is_one_of_pictures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A desktop with emoji in colour, which fontconfig likes best, and in one colour beside it.

    Their part is played by two fonts that come with the program: one lacks the letter, one has it.
    """
    pictures, outlines = FONTS / "Inconsolata-Medium.ttf", FONTS / "DejaVuSans-Bold.ttf"
    for name, font in (("fc-match", pictures), ("fc-list", outlines)):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nprintf "0\\t{font}\\n"\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(fonts, "BUNDLED", ())
    assert fonts.SystemFonts().glyph(GEORGIAN) is not None
    (tmp_path / "fc-list").write_text("#!/bin/sh\nexit 1\n")
    assert fonts.SystemFonts().glyph(GEORGIAN) is None, "the twin: the first answer alone"


@pytest.mark.parametrize(
    ("platform", "names"),
    [("win32", {"seguisym.ttf", "seguiemj.ttf"}), ("darwin", {"Apple Symbols.ttf"})],
)
def test_fonts_that_draw_emoji_in_one_colour_are_looked_for(
    monkeypatch: pytest.MonkeyPatch, platform: str, names: set[str]
) -> None:
    monkeypatch.setattr(fonts.sys, "platform", platform)
    monkeypatch.setattr(fonts.Path, "exists", lambda _: True)
    assert names <= {path.name for path in fonts._folder_fonts()}


def test_a_sign_that_may_be_a_picture_or_writing_is_writing() -> None:
    assert text.visible("★\ufe0f") == "★"
    assert text.visible("\ufe0f") == "⟨U+FE0F⟩", "by itself it is all there is"
