"""Roles can be told apart, also without colour."""

import numpy as np
import pytest

from visualizer.stage.theme import (
    EMBLEMS,
    ROLES,
    THEMES,
    decode,
    lightness,
    theme,
)

# Neighbours in the picture that share a shape at some moment; the others differ by shape:
# glass or solid, whole or in pieces, low, hollow, or with an emblem.
SAME_SHAPE = [("committed", "engraved"), ("prompt", "engraved"), ("rejected", "engraved")]


@pytest.mark.parametrize("name", THEMES)
def test_every_role_has_a_colour(name: str) -> None:
    colors = theme(name)
    assert set(colors.hexes) == set(ROLES)
    for role in ROLES:
        assert all(0.0 <= part <= 1.0 for part in colors.linear(role))


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize(("one", "other"), SAME_SHAPE)
def test_writing_stands_out_from_its_block(name: str, one: str, other: str) -> None:
    colors = theme(name)
    assert abs(lightness(colors.linear(one)) - lightness(colors.linear(other))) >= 20


@pytest.mark.parametrize("name", THEMES)
def test_neighbouring_roles_differ_in_lightness_and_closing_tokens_in_shape(name: str) -> None:
    colors = theme(name)
    light = {role: lightness(colors.linear(role)) for role in ROLES}
    for one, other in (("guess", "committed"), ("correction", "committed"), ("box", "committed")):
        assert abs(light[one] - light[other]) >= 20
    assert {"correction", "bonus"} <= set(EMBLEMS)
    assert len(set(EMBLEMS.values())) == len(EMBLEMS)


@pytest.mark.parametrize("name", THEMES)
def test_text_can_be_read_on_its_stage(name: str) -> None:
    colors = theme(name)
    stage = lightness(colors.lighting.background_high)
    for role in ("text", "label"):
        assert abs(lightness(colors.linear(role)) - stage) >= 30


def test_colours_survive_as_the_design_gives_them() -> None:
    colors = theme("dark")
    assert colors.hexes["committed"] == "#3D7DD8"
    assert colors.srgb("guess") == pytest.approx((124 / 255, 196 / 255, 245 / 255))
    assert decode(1.0) == pytest.approx(1.0)
    assert decode(0.5) == pytest.approx(0.2140, abs=1e-4)
    assert lightness((1.0, 1.0, 1.0)) == pytest.approx(100.0)
    assert lightness((0.0, 0.0, 0.0)) == 0.0


def test_classic_is_the_first_drawing_with_red_committed_blocks() -> None:
    red, green, blue = theme("classic").linear("committed")
    assert red > 3 * max(green, blue)
    assert theme("classic").hexes["rejected"] != theme("classic").hexes["committed"]


def test_an_unknown_theme_is_the_dark_one() -> None:
    assert theme("no such theme") is theme("dark")
    with pytest.raises(KeyError):
        theme("dark").linear("no such role")
    assert np.isfinite(theme("light").lighting.key).all()
