"""Colour is meaning: one table of roles for blocks, captions and panels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Literal, get_args

from visualizer.stage.frame import Lighting

Role = Literal[
    "prompt",
    "guess",
    "box",
    "committed",
    "rejected",
    "discarded",
    "correction",
    "bonus",
    "target",
    "drafter",
    "text",
    "engraved",
    "inlay",
    "label",
    "warning",
]
ROLES: tuple[Role, ...] = get_args(Role)

RGB = tuple[float, float, float]

BRIGHT: frozenset[Role] = frozenset({"correction", "bonus"})
"""Roles whose blocks are so bright that writing on them must be dark."""

EMBLEMS: Mapping[str, str] = MappingProxyType({"correction": "◆", "bonus": "★"})
"""The shape that goes with a colour, in the scene and beside words."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours as "#rrggbb" by role, and the light they stand in.

    Writing is "engraved" on dark blocks and "inlay" on bright ones: see `ink`.
    `gleam` is how bright edges of glass are against their own colour: above 1 they glow in
    the dark, below 1 they draw on white. `haze` is how far old lines fade before they sink.
    """

    name: str
    hexes: Mapping[Role, str] = field(hash=False)
    lighting: Lighting
    gleam: float = 1.25
    haze: float = 1.0

    def srgb(self, role: str) -> RGB:
        """Colour of `role` for panels: sRGB in 0..1. KeyError for a role that is not one."""
        return srgb(self.hexes[role])  # type: ignore[index]

    def ink(self, role: str) -> RGB:
        """Linear colour of writing on a solid block of `role`."""
        return self.linear("inlay" if role in BRIGHT else "engraved")

    def linear(self, role: str) -> RGB:
        """Colour of `role` for the scene: linear RGB in 0..1."""
        return _linear(self.hexes[role])  # type: ignore[index]


@cache
def srgb(code: str) -> RGB:
    """ "#3D7DD8" to sRGB in 0..1."""
    red, green, blue = (int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


@cache
def _linear(code: str) -> RGB:
    red, green, blue = srgb(code)
    return decode(red), decode(green), decode(blue)


def decode(value: float) -> float:
    """One sRGB component to linear light."""
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def lightness(color: RGB) -> float:
    """CIE L* (0..100) of a linear colour."""
    luminance = 0.2126 * color[0] + 0.7152 * color[1] + 0.0722 * color[2]
    return 116 * luminance ** (1 / 3) - 16 if luminance > 0.008856 else 903.3 * luminance


_DARK: dict[Role, str] = {
    "prompt": "#6B7687",
    "guess": "#7CC4F5",
    "box": "#8FE3D6",
    "committed": "#3D7DD8",
    "rejected": "#E4572E",
    "discarded": "#8A8F98",
    "correction": "#F2B134",
    "bonus": "#2BB39A",
    "target": "#FFE9C9",
    "drafter": "#7CC4F5",
    "text": "#F4F6FA",
    "engraved": "#F4F6FA",
    "inlay": "#0B1018",
    "label": "#9AA6B8",
    "warning": "#F2B134",
}
_LIGHT: dict[Role, str] = {
    "prompt": "#596273",
    "guess": "#4FA5DE",
    "box": "#3BA896",
    "committed": "#2A61B4",
    "rejected": "#C4421D",
    "discarded": "#757A83",
    "correction": "#C98A0E",
    "bonus": "#24A38B",
    "target": "#E8B65A",
    "drafter": "#4FA5DE",
    "text": "#1B2230",
    "engraved": "#FBFCFE",
    "inlay": "#05080D",
    "label": "#5B6676",
    "warning": "#B87A00",
}
_STARK: dict[Role, str] = {
    "prompt": "#566178",
    "guess": "#9FDCFF",
    "box": "#B8FFF3",
    "committed": "#2260CE",
    "rejected": "#D8450C",
    "discarded": "#989EA8",
    "correction": "#FFC733",
    "bonus": "#2FE0BC",
    "target": "#FFF3DC",
    "drafter": "#9FDCFF",
    "text": "#FFFFFF",
    "engraved": "#FFFFFF",
    "inlay": "#000000",
    "label": "#D5DCE8",
    "warning": "#FFC733",
}
_NIGHT = Lighting(
    background_low=(0.016, 0.020, 0.030),
    background_high=(0.040, 0.048, 0.066),
    ground=(0.020, 0.024, 0.034),
    grid=(0.055, 0.068, 0.092),
    key=(2.6, 2.5, 2.35),
    ambient=(0.34, 0.38, 0.46),
    bloom=0.30,
    vignette=0.45,
)
_BLACK = Lighting(
    background_low=(0.000, 0.000, 0.000),
    background_high=(0.004, 0.005, 0.006),
    ground=(0.004, 0.005, 0.007),
    grid=(0.050, 0.060, 0.080),
    key=(2.6, 2.55, 2.5),
    ambient=(0.40, 0.42, 0.46),
    bloom=0.12,
    vignette=0.0,
)
_DAY = Lighting(
    background_low=(0.86, 0.87, 0.89),
    background_high=(0.93, 0.94, 0.96),
    ground=(0.80, 0.81, 0.83),
    grid=(0.62, 0.65, 0.70),
    key=(2.2, 2.15, 2.05),
    ambient=(0.62, 0.64, 0.68),
    bloom=0.10,
    vignette=0.12,
)

THEMES: Mapping[str, Theme] = MappingProxyType(
    {
        "dark": Theme("dark", MappingProxyType(_DARK), _NIGHT),
        "light": Theme("light", MappingProxyType(_LIGHT), _DAY, gleam=0.75, haze=0.28),
        # The idea's first drawing had red committed blocks; refusals turn violet there. No redder:
        # where the camera passes a saturated red that covers most of the stage, it flickers.
        "classic": Theme(
            "classic",
            MappingProxyType({**_DARK, "committed": "#C2524E", "rejected": "#A66BE0"}),
            _NIGHT,
        ),
        "high-contrast": Theme(
            "high-contrast", MappingProxyType(_STARK), _BLACK, gleam=1.6, haze=0.45
        ),
    }
)


def theme(name: str) -> Theme:
    """Return the theme of that name, or the dark one when there is none."""
    return THEMES.get(name, THEMES["dark"])
