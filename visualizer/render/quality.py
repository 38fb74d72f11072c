"""What each quality preset buys, and which one suits. The picture's content never depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import Final

from visualizer.stage.view import Quality


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work a frame may be."""

    samples: int  # multisampling of the scene; with 0 the finish evens edges out instead
    shadow_size: int  # pixels along a side of the shadow map
    shadow_taps: int
    bloom_levels: int
    bloom_start: int  # the first level is the picture's size divided by this: 2 or 4
    bevel_steps: int  # mesh divisions of a block's rounded edge
    beam_steps: int
    reflections: bool  # highlights and environment on surfaces
    mirror: bool  # the stage floor reflects what stands on it


EFFORTS: Final = MappingProxyType(
    {
        "software": Effort(0, 512, 2, 2, 4, 2, 6, False, False),
        "low": Effort(4, 512, 8, 2, 4, 2, 8, False, False),
        "medium": Effort(4, 768, 12, 4, 2, 3, 10, True, False),
        "high": Effort(4, 1024, 24, 5, 2, 4, 16, True, True),
        "ultra": Effort(8, 2048, 40, 6, 2, 6, 24, True, True),
    }
)


def effort(quality: Quality) -> Effort:
    return EFFORTS[quality]


HARDWARE: tuple[Quality, ...] = ("low", "medium", "high", "ultra")
SLOW = 0.011  # seconds a frame may take a GPU: the panels and the desktop need theirs, too
FAST = 0.003  # the next preset takes two to three times as long
SAMPLES = 8


class Governor:
    """Finds the preset that suits a GPU, from what frames have taken it.

    One step at a time, and never again up to a preset that was too slow. Where the CPU draws
    there is nothing to choose.
    """

    def __init__(self, start: Quality) -> None:
        self.quality = start
        self._ceiling = len(HARDWARE) - 1
        self._samples: list[float] = []

    def after(self, seconds: float | None) -> Quality:
        """The preset to go on with, after a frame took `seconds` (None: not measured)."""
        if self.quality not in HARDWARE or seconds is None:
            return self.quality
        self._samples.append(seconds)
        if len(self._samples) < SAMPLES:
            return self.quality
        typical = median(self._samples)
        self._samples.clear()
        rung = HARDWARE.index(self.quality)
        if typical > SLOW and rung > 0:
            rung = self._ceiling = rung - 1
        elif typical < FAST and rung < self._ceiling:
            rung += 1
        self.quality = HARDWARE[rung]
        return self.quality
