"""Bloom: ever smaller pictures of what is too bright, added up again.

The blending is the caller's: none on the way down, adding on the way up.
"""

from __future__ import annotations

from visualizer.render.primitive import Primitive
from visualizer.render.targets import Targets

THRESHOLD = 1.15  # linear: above anything lettering or a lit block reaches


def shrink(targets: Targets, halve: Primitive, unit: int) -> None:
    """Fill the chain of `targets.spills`, each from the one before it."""
    source, program = targets.light_texture, halve.programs["color"]
    for level, (texture, target) in enumerate(targets.spills):
        target.use()
        source.use(unit)
        program["texel"] = (1 / source.width, 1 / source.height)
        program["threshold"] = THRESHOLD if level == 0 else 0.0
        halve.draw()
        source = texture


def add_up(targets: Targets, widen: Primitive, unit: int) -> None:
    """Add each picture of the chain to the next larger one, softened."""
    program = widen.programs["color"]
    pairs = list(zip(targets.spills, targets.spills[1:], strict=False))
    for (_, larger), (smaller, _) in reversed(pairs):
        larger.use()
        smaller.use(unit)
        program["texel"] = (1.4 / smaller.width, 1.4 / smaller.height)
        widen.draw()
