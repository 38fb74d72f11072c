"""Writing on blocks can be read as they are drawn, light and shade included (WCAG 1.4.3)."""

import moderngl
import numpy as np
import pytest
from numpy.typing import NDArray

from visualizer.render.renderer import Renderer
from visualizer.stage.camera import DIRECTIONS, Pose, place, project
from visualizer.stage.frame import BLOCK, Frame
from visualizer.stage.theme import THEMES, Role, Theme, decode, theme
from visualizer.stage.view import Orbit

SIZE = (320, 180)
READABLE = 4.5
SOLID: tuple[Role, ...] = ("prompt", "committed", "correction", "bonus", "rejected")


def luminance(color: NDArray[np.float64]) -> float:
    """Relative luminance of an sRGB colour in 0..1."""
    return float(np.dot((0.2126, 0.7152, 0.0722), [decode(float(part)) for part in color]))


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def faces(renderer: Renderer, colors: Theme, role: Role) -> list[float]:
    """Luminances of the middles of a block's front and top, as drawn."""
    block = np.zeros(1, BLOCK)
    block["center"], block["half"] = (0.0, 0.5, 0.0), (2.0, 0.5, 0.42)
    shade = 0.75 if role == "prompt" else 1.0  # prompts are laid a little darker
    block["color"] = (*(shade * part for part in colors.linear(role)), 1.0)
    camera = place(Pose((0.0, 0.5, 0.0), 6.0), DIRECTIONS["default"], Orbit(), (0, 0, 1, 1))
    renderer.draw(Frame(camera, colors.lighting, (0.0, 0.5, 0.0), 6.0, solids=block))
    picture = renderer.pixels() / 255.0
    middles = project(camera, np.array([(0.0, 0.5, 0.42), (0.0, 1.0, 0.0)]), *SIZE)
    return [luminance(picture[int(y), int(x)]) for x, y in middles]


@pytest.mark.parametrize("name", THEMES)
def test_writing_stands_out_from_lit_blocks(gl: moderngl.Context, name: str) -> None:
    colors = theme(name)
    made = Renderer(gl, SIZE, "low")
    for role in SOLID:
        red, green, blue = colors.ink(role)
        ink = 0.2126 * red + 0.7152 * green + 0.0722 * blue
        front, top = faces(made, colors, role)
        assert contrast(front, ink) >= READABLE, (role, "front")
        if role != "rejected":  # it lies in pieces before a camera could go round it
            assert contrast(top, ink) >= READABLE, (role, "top")
    white = luminance(np.array(colors.srgb("engraved")))
    front, _ = faces(made, colors, "correction")
    assert contrast(front, white) < READABLE  # the twin: white on amber is found out
    made.release()
