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
from visualizer.stage.frame import BLOCK, GLYPH, joined
from visualizer.stage.layout import DEPTH, HEIGHT, PROMPT_HEIGHT, Place, PromptPlace, Slot
from visualizer.stage.theme import EMBLEMS, RGB, Role, Theme, theme

Floats = NDArray[np.float64]
Rows = NDArray[np.void]

_UNTOLD = np.zeros(4)  # colour of engraving before `Engraving.at` gives it one
FAINTEST = 0.004  # opacity: what is fainter is left out
_PROUD = 0.006  # engraving lies this far before its face, so that the two never fight
_EMBLEM_EM = 0.44
_POINTER_EM = 0.27
GLASS = 0.20  # opacity of a guess's body
EDGE = 0.7  # opacity of the edge that keeps a token's provenance


@dataclass(frozen=True, slots=True, eq=False)
class Face:
    """Glyphs on one face of blocks, relative to the blocks' centres.

    `owner` (m,) is the block of each glyph, `emblem` (m,) whether it is a shape and no writing.
    """

    glyphs: Rows
    owner: NDArray[np.intp]
    emblem: NDArray[np.bool_]

    def at(self, centers: Floats, ink: Floats, share: float, emblems: Floats | None) -> Rows:
        """The glyphs that are seen where the writing on this face has `share` of its opacity."""
        alpha = ink[self.owner, 3] * share
        seen = alpha > FAINTEST
        owner = self.owner[seen]
        out: Rows = self.glyphs[seen]
        out["origin"] += centers[owner]
        out["color"][:, :3] = ink[owner, :3]
        if emblems is not None:
            shape = self.emblem[seen]
            out["color"][shape, :3] = emblems[owner[shape]]
        out["color"][:, 3] = alpha[seen]
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Engraving:
    """What is written on the fronts and on the tops of blocks."""

    front: Face
    top: Face

    def at(
        self,
        centers: Floats,
        ink: Floats,
        faces: tuple[float, float],
        emblems: Floats | None = None,
    ) -> Rows:
        """Place on blocks at `centers` (n, 3), written in `ink` (n, 4).

        `faces` are the opacities of writing on the front and on the top; `emblems` (n, 3)
        the colours of the shapes.
        """
        pairs = zip((self.front, self.top), faces, strict=True)
        seen = [face.at(centers, ink, share, emblems) for face, share in pairs if share > FAINTEST]
        return joined(seen)


@dataclass(frozen=True, slots=True, eq=False)
class Matter:
    """Blocks at rest and what is engraved on them."""

    blocks: Rows
    engraving: Engraving
    ink: Floats  # (n, 4) colours of the writing
    emblems: Floats  # (n, 3) colours of the shapes


def merged(parts: Sequence[Matter]) -> Matter:
    """Several matters as one; none of them, and there is nothing."""
    if not parts:
        bare = engrave((), HEIGHT)
        return Matter(np.zeros(0, BLOCK), bare, np.zeros((0, 4)), np.zeros((0, 3)))
    shifts = np.cumsum([0, *(len(part.blocks) for part in parts)]).tolist()

    def all_of(faces: Sequence[Face]) -> Face:
        owners = [face.owner + shift for face, shift in zip(faces, shifts, strict=False)]
        glyphs = joined([face.glyphs for face in faces])
        return Face(glyphs, np.concatenate(owners), np.concatenate([each.emblem for each in faces]))

    return Matter(
        joined([part.blocks for part in parts]),
        Engraving(
            all_of([part.engraving.front for part in parts]),
            all_of([part.engraving.top for part in parts]),
        ),
        np.concatenate([part.ink for part in parts]),
        np.concatenate([part.emblems for part in parts]),
    )


def engrave(
    slots: Sequence[Slot], height: float, emblems: Sequence[str] | None = None
) -> Engraving:
    """Engrave labels, and an emblem where there is one (a glyph, or ""), on front and top."""
    fronts, tops = [np.zeros(0, GLYPH)], [np.zeros(0, GLYPH)]
    owners: list[int] = []
    shapes: list[bool] = []
    cap = text.metrics().cap_height
    for index, slot in enumerate(slots):
        start = -(slot.label.width + slot.emblem) / 2
        marks = [(slot.label.text, slot.label.em, start)]
        if emblems and emblems[index]:
            end = start + slot.label.width + slot.emblem
            wide = text.measure(emblems[index]) * _EMBLEM_EM
            marks.append((emblems[index], _EMBLEM_EM, end - wide))
        for shape, (words, em, left) in enumerate(marks):
            quads = text.quads(words)
            base = -cap * em / 2
            front = np.array((left, base, DEPTH / 2 + _PROUD)), np.array((0.0, em, 0.0))
            top = np.array((left, height / 2 + _PROUD, -base)), np.array((0.0, 0.0, -em))
            right = np.array((em, 0.0, 0.0))
            for rows, (origin, up) in ((fronts, front), (tops, top)):
                rows.append(text.rows(quads, origin, right, up, _UNTOLD))
            owners += [index] * len(quads)
            shapes += [bool(shape)] * len(quads)
    owner, shape_ = np.array(owners, int), np.array(shapes, bool)
    return Engraving(Face(joined(fronts), owner, shape_), Face(joined(tops), owner, shape_))


def pointers(slot: Slot, level: float, color: RGB) -> Rows:
    """Two wedges on a block's front, `level` (0..1) of its height up, that point inwards."""
    middle_front = np.array((slot.center, slot.y + level * HEIGHT, slot.z + DEPTH / 2 + _PROUD))
    reach = slot.width / 2
    parts = []
    for shape, side in (("▶", -1.0), ("◀", 1.0)):
        laid = text.quads(shape)
        middle = laid[0, :2] + laid[0, 2:4] / 2
        tip = np.array((side * (reach - 0.36 * _POINTER_EM * laid[0, 2]), 0.0, 0.0))
        origin = middle_front + tip - np.array((*middle, 0.0)) * _POINTER_EM
        right, up = np.array((_POINTER_EM, 0.0, 0.0)), np.array((0.0, _POINTER_EM, 0.0))
        parts.append(text.rows(laid, origin, right, up, np.array((*color, 1.0))))
    return joined(parts)


def centers_of(slots: Sequence[Slot], height: float = HEIGHT, back: float = 0.0) -> Floats:
    """Centres (n, 3) of blocks that stand in `slots`, `back` behind their lines."""
    places = [(slot.center, slot.y + height / 2, slot.z - back) for slot in slots]
    return np.array(places, float).reshape(-1, 3)


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


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """Blocks in their slots, whole and without colours yet. Not to be written to."""

    centers: Floats  # (n, 3)
    halves: Floats  # (n, 3)
    rows: Rows
    engraving: Engraving


@lru_cache(maxsize=64)
def guesses(place: Place) -> Form:
    """The guesses of a round where they are judged."""
    centers, halves = centers_of(place.guesses), halves_of(place.guesses)
    picks = [pick.encode(place.index, slot) for slot in range(len(place.guesses))]
    bare = np.zeros(4)
    rows = bodies(centers, halves, bare, bare, picks)
    return Form(centers, halves, rows, engrave(place.guesses, HEIGHT))


@lru_cache(maxsize=256)
def emitted_engraving(place: Place) -> Engraving:
    """The label and emblem of the token that ends a round (which must have one)."""
    assert place.emitted is not None
    return engrave([place.emitted], HEIGHT, [EMBLEMS.get(place.role, "")])


def emblem_color(colors: Theme, role: Role) -> RGB:
    """The colour of a shape on a committed block: its role's, lifted off the body."""
    red, green, blue = (0.25 + 0.75 * part for part in colors.linear(role))
    return red, green, blue


def picks_of(place: Place) -> list[int]:
    """Pick ids of the tokens that a round adds to the text (`Place.kept`)."""
    last = [pick.EMITTED] if place.emitted else []
    return [pick.encode(place.index, slot) for slot in (*place.path, *last)]


@lru_cache(maxsize=1024)
def committed(place: Place, theme_name: str) -> Matter:
    """What a finished round leaves in the line: accepted guesses, and the token that ended it.

    The body has turned committed; the edge and the emblem tell where the token came from.
    """
    colors = theme(theme_name)
    slots = list(place.settled)
    roles: list[Role] = ["guess"] * len(slots)
    picks = picks_of(place)
    if place.emitted:
        slots.append(place.emitted)
        roles.append(place.role)
    edges = np.array([(*colors.linear(role), EDGE) for role in roles]).reshape(-1, 4)
    emblems = [EMBLEMS.get(role, "") for role in roles]
    blocks = bodies(
        centers_of(slots),
        halves_of(slots),
        np.array((*colors.linear("committed"), 1.0)),
        edges,
        picks,
    )
    ink = np.tile((*colors.linear("engraved"), 1.0), (len(slots), 1))
    shades = np.array([emblem_color(colors, role) for role in roles]).reshape(-1, 3)
    return Matter(blocks, engrave(slots, HEIGHT, emblems), ink, shades)


@lru_cache(maxsize=16)
def prompt(place: PromptPlace, theme_name: str) -> Matter:
    """The prompt as low blocks."""
    colors = theme(theme_name)
    slots = place.slots
    blocks = bodies(
        centers_of(slots, PROMPT_HEIGHT, place.back),
        halves_of(slots, PROMPT_HEIGHT),
        np.array((*colors.linear("prompt"), 1.0)) * (0.75, 0.75, 0.75, 1.0),
        np.array((*colors.linear("prompt"), 0.35)),
        [0] * len(slots),
    )
    ink = np.tile((*colors.linear("engraved"), 0.85), (len(slots), 1))
    return Matter(blocks, engrave(slots, PROMPT_HEIGHT), ink, ink[:, :3])


def receded(blocks: Rows, dim: Floats, sunk: Floats, towards: Theme) -> Rows:
    """Take `blocks` back into the background: `dim` (n,) is 1 for none of it, 0 for all.

    By `sunk` (n,) of their height they have gone down into the ground, writing and all, so
    that nothing ever stands there blank or pops out of the picture.
    """
    out = blocks.copy()
    haze = np.array(towards.lighting.ground)
    keep = 1.0 - towards.haze * (1.0 - dim[:, None])
    for name in ("color", "fill_color", "edge_color"):
        out[name][:, :3] = haze + (out[name][:, :3] - haze) * keep
    out["edge_color"][:, 3] *= dim
    out["center"][:, 1] -= 2.0 * out["half"][:, 1] * sunk
    return out
