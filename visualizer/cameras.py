"""A camera as a line of text: "camera side yaw 12.0 pitch -3.5 zoom 1.20 pan 0.50 -1.00"."""

from __future__ import annotations

import math
import re

from visualizer.actions import SetCamera
from visualizer.stage.view import PRESETS, Orbit, Preset

_FORM = re.compile(
    r"camera\s+(?P<preset>\w+)\s+yaw\s+(\S+)\s+pitch\s+(\S+)\s+zoom\s+(\S+)\s+pan\s+(\S+)\s+(\S+)",
    re.IGNORECASE,
)


def text_of(preset: Preset, orbit: Orbit) -> str:
    """Angles in degrees, zoom as a factor on the distance, pan in world units."""
    yaw, pitch = math.degrees(orbit.yaw), math.degrees(orbit.pitch)
    right, up = orbit.pan
    return (
        f"camera {preset} yaw {yaw:.2f} pitch {pitch:.2f} zoom {orbit.zoom:.3f}"
        f" pan {right:.3f} {up:.3f}"
    )


def parse(text: str) -> SetCamera | None:
    """The camera in a text, wherever it stands in it; None when there is none."""
    found = _FORM.search(text)
    if found is None:
        return None
    name = found["preset"].lower()
    preset = next((each for each in PRESETS if each == name), None)
    try:
        yaw, pitch, zoom, right, up = (float(part) for part in found.groups()[1:])
    except ValueError:
        return None
    if preset is None:
        return None
    return SetCamera(preset, Orbit(math.radians(yaw), math.radians(pitch), zoom, (right, up)))
