"""Slots as matter: rows of blocks with the glyphs engraved on their faces.

What does not change from frame to frame (a label's quads, a committed round) is built once
per place and remembered; places are immutable and compared by identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from visualizer.stage import pick, text
from visualizer.stage.frame import BLOCK, GLYPH
from visualizer.stage.layout import DEPTH, HEIGHT, PITCH, PROMPT_HEIGHT, Place, PromptPlace, Slot
from visualizer.stage.theme import EMBLEMS, Theme, theme

Floats = NDArray[np.float64]
Rows = NDArray[np.void]

_PROUD = 0.006  # engraving lies this far before its face, so that the two never fight
_EMBLEM_EM = 0.24
_EMBLEM_INSET = 0.11
GLASS = 0.20  # opacity of a guess's body
EDGE = 0.7  # opacity of the edge that keeps a token's provenance


@dataclass(frozen=True, slots=True, eq=False)
class Engraving:
    """Glyphs relative to the centres of the blocks they belong to.

    `owner` (m,) is the block of each glyph, `front` (m,) whether it lies on the front face
    (else on the top).
    """

    glyphs: Rows
    owner: NDArray[np.intp]
    front: NDArray[np.bool_]

    def at(self, centers: Floats, colors: Floats, faces: tuple[float, float]) -> Rows:
        """Place on blocks at `centers` (n, 3), coloured `colors` (n, 4).

        `faces` are the opacities of writing on the front and on the top.
        """
        alpha = colors[self.owner, 3] * np.where(self.front, *faces)
        seen = alpha > 0.004
        owner = self.owner[seen]
        out: Rows = self.glyphs[seen]
        out["origin"] += centers[owner]
        shade = out["color"]
        shade[:, :3] = np.where(shade[:, :1] < 0, colors[owner, :3], shade[:, :3])
        shade[:, 3] = alpha[seen]
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Matter:
    """Blocks at rest and what is engraved on them."""

    blocks: Rows
    engraving: Engraving
    ink: Floats  # (n, 4) colours of the writing


def merged(parts: Sequence[Matter]) -> Matter:
    """Several matters as one."""
    counts = [len(part.blocks) for part in parts]
    shifts = np.cumsum([0, *counts])
    return Matter(
        np.concatenate([part.blocks for part in parts]),
        Engraving(
            np.concatenate([part.engraving.glyphs for part in parts]),
            np.concatenate(
                [part.engraving.owner + shift for part, shift in zip(parts, shifts, strict=False)]
            ),
            np.concatenate([part.engraving.front for part in parts]),
        ),
        np.concatenate([part.ink for part in parts]),
    )


_AS_TOLD = (-1.0, -1.0, -1.0)
"""Colour of engraved letters until `Engraving.at` is told one; emblems bring their own."""


def engrave(
    slots: Sequence[Slot],
    height: float,
    emblems: Sequence[tuple[str, tuple[float, float, float]] | None] | None = None,
) -> Engraving:
    """Engrave labels, and an emblem (glyph, linear colour) where there is one, on both faces."""
    parts, owners, fronts = [], [], []
    cap = text.metrics().cap_height
    for index, slot in enumerate(slots):
        marks = [(slot.label.text, slot.label.em, -slot.label.width / 2, 0.0, _AS_TOLD)]
        emblem = emblems[index] if emblems else None
        if emblem:
            glyph, color = emblem
            left = slot.width / 2 - _EMBLEM_INSET - text.measure(glyph) * _EMBLEM_EM
            up = 0.5 - _EMBLEM_INSET - cap * _EMBLEM_EM / 2
            marks.append((glyph, _EMBLEM_EM, left, up, color))
        for words, em, left, raised, color in marks:
            quads = text.quads(words)
            base = -cap * em / 2
            for front in (True, False):
                face = height if front else DEPTH
                across = base + raised * face
                if front:
                    origin, up_axis = (left, across, DEPTH / 2 + _PROUD), (0.0, em, 0.0)
                else:
                    origin, up_axis = (left, height / 2 + _PROUD, -across), (0.0, 0.0, -em)
                parts.append(
                    text.rows(
                        quads,
                        np.array(origin),
                        np.array((em, 0.0, 0.0)),
                        np.array(up_axis),
                        np.array((*color, 1.0)),
                    )
                )
                owners.append(np.full(len(quads), index))
                fronts.append(np.full(len(quads), front))
    if not parts:
        return Engraving(np.zeros(0, GLYPH), np.zeros(0, np.intp), np.zeros(0, bool))
    return Engraving(np.concatenate(parts), np.concatenate(owners), np.concatenate(fronts))


def centers_of(slots: Sequence[Slot], z: float, height: float = HEIGHT) -> Floats:
    """Centres (n, 3) of blocks that stand in `slots`."""
    return np.array([(slot.center, height / 2, z) for slot in slots], float).reshape(-1, 3)


def halves_of(slots: Sequence[Slot], height: float = HEIGHT) -> Floats:
    """Half extents (n, 3) of blocks that stand in `slots`."""
    return np.array([(slot.width / 2, height / 2, DEPTH / 2) for slot in slots], float).reshape(
        -1, 3
    )


def bodies(
    centers: Floats, halves: Floats, colors: Floats, edges: Floats, picks: Sequence[int]
) -> Rows:
    """Return BLOCK rows: unfilled, straight and whole. Colours are linear RGBA, (n, 4) or (4,)."""
    out = np.zeros(len(centers), BLOCK)
    out["center"], out["half"] = centers, halves
    out["color"], out["edge_color"] = colors, edges
    out["fill_color"] = colors
    out["pick"] = picks
    return out


@lru_cache(maxsize=256)
def guess_engraving(place: Place) -> Engraving:
    """The labels of a round's guesses."""
    return engrave(place.guesses, HEIGHT)


@lru_cache(maxsize=256)
def emitted_engraving(place: Place, theme_name: str) -> Engraving:
    """The label and emblem of the token that ends a round (which must have one)."""
    colors = theme(theme_name)
    assert place.emitted is not None
    return engrave([place.emitted], HEIGHT, [(EMBLEMS[place.role], colors.linear(place.role))])


@lru_cache(maxsize=1024)
def committed(place: Place, theme_name: str) -> Matter:
    """What a finished round leaves in the line: accepted guesses, and the token that ended it.

    The body has turned committed; the edge and the emblem tell where the token came from.
    """
    colors = theme(theme_name)
    slots = list(place.guesses[: place.accepted])
    roles = ["guess"] * len(slots)
    picks = [pick.encode(place.index, slot) for slot in range(len(slots))]
    if place.emitted:
        slots.append(place.emitted)
        roles.append(place.role)
        picks.append(pick.encode(place.index, pick.EMITTED))
    edges = np.array([(*colors.linear(role), EDGE) for role in roles]).reshape(-1, 4)
    emblems = [(EMBLEMS[r], colors.linear(r)) if r in EMBLEMS else None for r in roles]
    blocks = bodies(
        centers_of(slots, place.z),
        halves_of(slots),
        np.array((*colors.linear("committed"), 1.0)),
        edges,
        picks,
    )
    ink = np.tile((*colors.linear("engraved"), 1.0), (len(slots), 1))
    return Matter(blocks, engrave(slots, HEIGHT, emblems), ink)


@lru_cache(maxsize=64)
def committed_line(places: tuple[Place, ...], theme_name: str) -> Matter:
    """What finished rounds of one line leave in it."""
    return merged([committed(place, theme_name) for place in places])


@lru_cache(maxsize=16)
def prompt(place: PromptPlace, theme_name: str) -> tuple[Matter, ...]:
    """The prompt as low blocks, one `Matter` per line."""
    colors = theme(theme_name)
    lines = []
    for line, slots in enumerate(place.lines):
        blocks = bodies(
            centers_of(slots, line * PITCH, PROMPT_HEIGHT),
            halves_of(slots, PROMPT_HEIGHT),
            np.array((*colors.linear("prompt"), 1.0)) * (0.75, 0.75, 0.75, 1.0),
            np.array((*colors.linear("prompt"), 0.35)),
            [0] * len(slots),
        )
        ink = np.tile((*colors.linear("engraved"), 0.85), (len(slots), 1))
        lines.append(Matter(blocks, engrave(slots, PROMPT_HEIGHT), ink))
    return tuple(lines)


def receded(blocks: Rows, dim: Floats, towards: Theme) -> Rows:
    """Take `blocks` back into the background: `dim` (n,) is 1 for none of it, 0 for all.

    The last part of the way they also sink, so that nothing ever pops out of the picture.
    """
    out = blocks.copy()
    haze = np.array(towards.lighting.ground)
    keep = dim[:, None]
    for name in ("color", "fill_color", "edge_color"):
        out[name][:, :3] = haze + (out[name][:, :3] - haze) * keep
    out["edge_color"][:, 3] *= dim
    sunk = np.clip(dim / 0.2, 0.0, 1.0)
    out["half"][:, 1] *= sunk
    out["center"][:, 1] *= sunk
    return out
