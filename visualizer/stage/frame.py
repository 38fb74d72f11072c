"""One picture, as data: everything the renderer needs to draw it and nothing more.

A scene returns a `Frame`; the renderer uploads its arrays as they stand. The dtypes below
are the vertex contract: shaders read these very fields, and a test holds them to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

BLOCK = np.dtype(
    [
        ("center", "f4", 3),  # world units
        ("half", "f4", 3),  # half extents, world units
        ("color", "f4", 4),  # body: linear RGB, and opacity (1 for solid material)
        ("fill_color", "f4", 4),  # colour of the filled part, linear RGB; alpha unused
        ("edge_color", "f4", 4),  # edge line, linear RGB (may exceed 1: it glows), opacity
        ("fill", "f4"),  # 0..1 of the height filled from below with fill_color
        ("yaw", "f4"),  # radians about Y
        ("crack", "f4"),  # 0..1 hairline cracks
        ("pick", "u4"),  # id for picking; 0 is nothing
    ]
)
"""A rounded box. Used for `solids`, for `glass` and for the verify `boxes`.

A verify box is never filled: where its `fill` is 1 it is open, without its near walls, so that no
edge crosses what stands high inside.
"""

SHATTER = np.dtype(
    [
        ("center", "f4", 3),
        ("half", "f4", 3),
        ("color", "f4", 4),
        ("age", "f4"),  # seconds since it burst, on the scene clock; >= 0
        ("seed", "f4"),  # different at each rejection, equal at each replay
        ("pattern", "f4"),  # which of the pre-cut Voronoi patterns, 0..PATTERNS-1
        ("fade", "f4"),  # 1 whole .. 0 gone
    ]
)
"""A block in pieces: the shader moves every shard in closed form from `age` and `seed`."""

SPHERE = np.dtype(
    [
        ("center", "f4", 3),
        ("radius", "f4"),
        ("color", "f4", 4),  # linear RGB, and opacity: below 1 what is behind shows through
        ("glow", "f4"),  # added emission; 0 calm, 1 full pulse
        ("unlit", "f4"),  # share of the height, from above, that the glow has not reached
        ("layers", "f4"),  # fine grooves part it into so many slices; 0 for none
        ("levels", "f4"),  # its roundness has so many steps from pole to pole; 0 for no steps
        ("squash", "f4"),  # 0 a ball; else a disc whose height is 1 - squash of a ball's
    ]
)
"""A round body: a ball, a ball with facets, or a disc."""

RIBBON = np.dtype(
    [
        ("start", "f4", 3),  # the four points of a cubic Bézier curve, world units
        ("rise", "f4", 3),
        ("fall", "f4", 3),
        ("end", "f4", 3),
        ("width", "f4"),  # half of it, world units
        ("head", "f4"),  # share of the curve that is an arrow's head; 0 for none
        ("span", "f4", 2),  # shares of the curve where the drawn part begins and ends
        ("share", "f4", 2),  # of a longer way, from where to where this curve is part of it
        ("color", "f4", 4),  # linear RGB, opacity
    ]
)
"""A thin band of light along a curve, turned to the viewer: something that goes somewhere."""

BEAM = np.dtype(
    [
        ("start", "f4", 3),
        ("end", "f4", 3),  # centre of the far rectangle
        ("half", "f4", 2),  # half extents of the far rectangle along X and Z
        ("color", "f4", 4),
    ]
)
"""A thin cone of light from the target to the box while a pass runs."""

TILE = np.dtype(
    [
        ("center", "f4", 3),  # world units; the tile lies flat at this height
        ("half", "f4", 2),  # half extents along X and Z
        ("color", "f4", 4),  # linear RGB, opacity
        ("pick", "u4"),  # as of a block; 0 is nothing
    ]
)
"""A token far back in the text: a patch of colour on the ground, without its word."""

GLYPH = np.dtype(
    [
        ("origin", "f4", 3),  # world position of the glyph quad's lower left corner
        ("right", "f4", 3),  # world vector along the quad's width
        ("up", "f4", 3),  # world vector along the quad's height
        ("uv", "f4", 4),  # u0, v0 upper left, u1, v1 lower right; v grows down
        ("color", "f4", 4),
    ]
)

PATTERNS = 3
WIDTHS = (1.0, 2.0, 3.6)
"""Blocks burst into one of so many patterns, each cut for blocks of these widths to height."""


def joined(rows: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """Arrays of one of these dtypes as one. (numpy would first reconcile all their fields.)

    A single array is handed back as it is: what is joined is not to be written to.
    """
    if len(rows) == 1:
        return rows[0]
    return np.frombuffer(b"".join([each.tobytes() for each in rows]), rows[0].dtype)


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera. `fov` is vertical, radians. The subject is framed in `free`.

    `free` is the part of the picture left free by panels (x0, y0, x1, y1, fractions from
    the lower left): the projection is shifted so that `look_at` falls on its centre.
    """

    eye: tuple[float, float, float]
    look_at: tuple[float, float, float]
    fov: float
    near: float
    far: float
    free: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)
    up: tuple[float, float, float] = (0.0, 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Lighting:
    """The theme's part of a frame: linear RGB colours of the surroundings.

    `key` is irradiance: a white surface facing the light shows key / π, shadows none of it.
    `ambient` is what a white surface under the open sky shows of it. `bloom` scales the light
    that spills from what is brighter than white; `vignette` the loss in the corners (at 1,
    half of the light).
    """

    background_low: tuple[float, float, float]
    background_high: tuple[float, float, float]
    ground: tuple[float, float, float]
    grid: tuple[float, float, float]
    key: tuple[float, float, float]
    ambient: tuple[float, float, float]
    bloom: float
    vignette: float


@cache
def _none(dtype: np.dtype[np.void]) -> NDArray[np.void]:
    return np.zeros(0, dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One picture. Arrays have the dtypes above; order within an array carries no meaning."""

    camera: Camera
    lighting: Lighting
    focus: tuple[float, float, float]  # centre of the present round: shadows are fitted here
    focus_radius: float
    solids: NDArray[np.void] = field(default_factory=lambda: _none(BLOCK))
    glass: NDArray[np.void] = field(default_factory=lambda: _none(BLOCK))
    boxes: NDArray[np.void] = field(default_factory=lambda: _none(BLOCK))
    shatters: NDArray[np.void] = field(default_factory=lambda: _none(SHATTER))
    spheres: NDArray[np.void] = field(default_factory=lambda: _none(SPHERE))
    beams: NDArray[np.void] = field(default_factory=lambda: _none(BEAM))
    ribbons: NDArray[np.void] = field(default_factory=lambda: _none(RIBBON))
    tiles: NDArray[np.void] = field(default_factory=lambda: _none(TILE))
    glyphs: NDArray[np.void] = field(default_factory=lambda: _none(GLYPH))

    def equals(self, other: Frame) -> bool:
        """Same picture, byte for byte (live against replay, any order of composing)."""
        arrays = (
            *("solids", "glass", "boxes", "shatters"),
            *("spheres", "beams", "ribbons", "tiles", "glyphs"),
        )
        return (
            self.camera == other.camera
            and self.lighting == other.lighting
            and self.focus == other.focus
            and self.focus_radius == other.focus_radius
            and all(np.array_equal(getattr(self, a), getattr(other, a)) for a in arrays)
        )
