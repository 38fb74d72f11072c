"""How the viewer looks at a run: the frozen third argument of every scene."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

Preset = Literal["default", "side", "top", "follow", "close", "free"]
Quality = Literal["software", "low", "medium", "high", "ultra"]

PRESETS: tuple[Preset, ...] = get_args(Preset)
QUALITIES: tuple[Quality, ...] = get_args(Quality)


NEAREST = (0.35, 0.50)
"""The least zoom while time runs as usual, and while it runs faster than `CALM`: from nearer by,
what comes and goes in a round would fill a field of view more than three times a second."""
CALM = 2.0  # of playback


@dataclass(frozen=True, slots=True)
class Orbit:
    """The user's offset from the preset camera: added after composing, never stored in a scene."""

    yaw: float = 0.0  # radians
    pitch: float = 0.0  # radians
    zoom: float = 1.0  # factor on the distance
    pan: tuple[float, float] = (0.0, 0.0)  # world units along camera right and up


def unflickering(orbit: Orbit, speed: float) -> Orbit:
    """The orbit, or as near as is safe at this playback speed."""
    nearest = NEAREST[speed > CALM]
    return orbit if orbit.zoom >= nearest else replace(orbit, zoom=nearest)


@dataclass(frozen=True, slots=True)
class Glide:
    """A camera on its way from an earlier look: `progress` (0..1) has been gone, eased."""

    preset: Preset
    orbit: Orbit
    progress: float


@dataclass(frozen=True, slots=True)
class View:
    """Everything but the run and the time that a picture depends on."""

    width: int = 1280  # framebuffer pixels
    height: int = 720
    theme: str = "dark"
    preset: Preset = "default"
    orbit: Orbit = Orbit()
    free: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)  # see Camera.free
    selected: int = 0  # pick id
    reduce_motion: bool = False
    calm: bool = False  # time runs faster than `CALM`: cameras frame whole lines
    fast: bool = False  # time runs faster than `schedule.BRISKEST`: only some passes pulse
    quality: Quality = "high"
    scale: float = 1.0  # of words, as of the panels: names are larger, blocks seen from nearer by
    glide: Glide | None = None  # None: the camera has arrived
