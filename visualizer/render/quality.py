"""What each quality preset buys. The picture's content never depends on it."""

from __future__ import annotations

from dataclasses import dataclass
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
