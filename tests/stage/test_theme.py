"""Roles can be told apart, also without colour."""

from itertools import combinations

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


# Linear RGB as people see it who lack one kind of cone (Machado, Oliveira, Fernandes 2009,
# severity 1).
SIGHTS = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]
    ),
    "deuteranopia": np.array(
        [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]
    ),
    "tritanopia": np.array(
        [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(linear: np.ndarray) -> np.ndarray:
    """CIELAB (D65) of a linear colour."""
    xyz = TO_XYZ @ np.clip(linear, 0.0, 1.0) / (0.9505, 1.0, 1.089)
    bent = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    x, y, z = bent
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def apart(colors: dict[str, tuple[float, float, float]], sight: str) -> dict[tuple, float]:
    """Distance (CIE76) of every two colours as seen with these eyes."""
    seen = {role: lab(SIGHTS[sight] @ np.array(color)) for role, color in colors.items()}
    return {(a, b): float(np.linalg.norm(seen[a] - seen[b])) for a, b in combinations(seen, 2)}


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("name", THEMES)
def test_colours_of_one_shape_differ_for_all_eyes(name: str, sight: str) -> None:
    """Solid blocks and the ribbon's tiles; and glass, whole or hollow."""
    colors = theme(name)
    for shapes, least in (
        (("committed", "correction", "bonus", "prompt"), 14.0),
        (("guess", "rejected", "discarded"), 20.0),
        (("committed", "rejected"), 20.0),
    ):
        distances = apart({role: colors.linear(role) for role in shapes}, sight)
        assert min(distances.values()) >= least, distances


def test_red_and_green_would_be_found_out() -> None:
    """The twin: the usual pair of a traffic light."""
    pair = {"no": (0.80, 0.10, 0.05), "yes": (0.20, 0.35, 0.05)}
    assert apart(pair, "all cones")["no", "yes"] > 60
    assert apart(pair, "deuteranopia")["no", "yes"] < 20
