"""A frame with every role in it, made by hand: for previews and golden pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from visualizer.stage.frame import (
    BEAM,
    BLOCK,
    GLYPH,
    RIBBON,
    SHATTER,
    SPHERE,
    Camera,
    Frame,
    Lighting,
)
from visualizer.stage.text import metrics

FONTS = Path(__file__).parent.parent.parent / "assets" / "fonts"
ATLAS = json.loads((FONTS / "atlas.json").read_text(encoding="utf-8"))

DARK = Lighting(
    background_low=(0.016, 0.020, 0.030),
    background_high=(0.040, 0.048, 0.066),
    ground=(0.030, 0.035, 0.047),
    grid=(0.075, 0.095, 0.135),
    key=(2.9, 2.8, 2.65),
    ambient=(0.40, 0.44, 0.52),
    bloom=0.35,
    vignette=0.45,
)
LIGHT = Lighting(
    background_low=(0.80, 0.82, 0.85),
    background_high=(0.90, 0.905, 0.92),
    ground=(0.62, 0.63, 0.66),
    grid=(0.55, 0.58, 0.64),
    key=(2.4, 2.35, 2.3),
    ambient=(0.55, 0.57, 0.62),
    bloom=0.2,
    vignette=0.1,
)


def linear(hexadecimal: str, alpha: float = 1.0) -> tuple[float, float, float, float]:
    """Linear RGBA of an sRGB ``#rrggbb``."""
    encoded = np.array([int(hexadecimal[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    low, high = encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4
    red, green, blue = np.where(encoded <= 0.04045, low, high)
    return float(red), float(green), float(blue), alpha


PROMPT, GUESS, BOX = linear("#6B7687"), linear("#7CC4F5"), linear("#8FE3D6")
COMMITTED, REJECTED = linear("#3D7DD8"), linear("#E4572E")
DISCARDED, CORRECTION, BONUS = linear("#8A8F98"), linear("#F2B134"), linear("#2BB39A")
TEXT = linear("#F4F6FA")
TARGET, DRAFTER = linear("#E9D9B8"), linear("#7CC4F5")

CLEAR = (0.0, 0.0, 0.0, 0.0)


def block(x, z, width, color, *, height=1.0, alpha=1.0, edge=CLEAR, fill=0.0,
          fill_color=CLEAR, crack=0.0, lift=0.0):  # fmt: skip
    out = np.zeros((), BLOCK)
    out["center"] = (x, height / 2 + lift, z)
    out["half"] = (width / 2, height / 2, 0.42)
    out["color"] = (*color[:3], alpha)
    out["edge_color"], out["fill_color"] = edge, fill_color
    out["fill"], out["crack"] = fill, crack
    return out


def letters(text, x, y, z, size, color, on_top=False):
    """Glyphs of `text` centred at x, baseline y (or z when lying on top)."""
    rows = []
    width = sum(ATLAS["glyphs"][str(ord(c))][6] for c in text) * size
    pen = x - width / 2
    em = ATLAS["em"]
    for char in text:
        left, top, wide, high, bearing, bottom, advance = ATLAS["glyphs"][str(ord(char))]
        if wide:
            glyph = np.zeros((), GLYPH)
            at = pen + bearing * size
            if on_top:
                glyph["origin"] = (at, y, z - bottom * size)
                glyph["up"] = (0, 0, -high / em * size)
            else:
                glyph["origin"] = (at, y + bottom * size, z)
                glyph["up"] = (0, high / em * size, 0)
            glyph["right"] = (wide / em * size, 0, 0)
            width_px, height_px = metrics().size
            glyph["uv"] = (
                left / width_px, top / height_px, (left + wide) / width_px, (top + high) / height_px
            )  # fmt: skip
            glyph["color"] = color
            rows.append(glyph)
        pen += advance * size
    return rows


LINES = (
    ["The", "sky", "is", "blue", "because", "sunlight", "is"],
    ["scattered", "by", "the", "air", "in", "all"],
)


def labelled(solids, glyphs, word, x, z, width, color, **options):
    solids.append(block(x, z, width, color, **options))
    height = options.get("height", 1.0) + 2 * options.get("lift", 0.0)
    dim = 1.0 if z > -1 else 0.55
    ink = (*(dim * c for c in TEXT[:3]), 1.0)
    top = options.get("height", 1.0) + options.get("lift", 0.0)
    glyphs.extend(letters(word, x, height / 2 - 0.17, z + 0.425, 0.5, ink))
    glyphs.extend(letters(word, x, top + 0.005, z + 0.15, 0.42, ink, on_top=True))


def tree():
    """Guesses in lanes and the branches to them, in an open box: one has passed, one is refused."""
    solids, glass, glyphs, ribbons = [], [], [], np.zeros(5, RIBBON)
    words = [("the", 0, 0), ("light", 1, 0), ("is", 0, 1), ("travels", 1, 1), ("bends", 1, 2)]
    for row, (word, column, lane) in enumerate(words):
        x, y, z = -1.6 + 2.7 * column, 0.88 * lane, 0.9 - 0.94 * lane
        options = {"alpha": 0.2, "edge": (*(1.5 * c for c in GUESS[:3]), 1.0), "lift": y}
        rows, color = glass, GUESS
        if word == "is":
            rows, color, options["alpha"] = solids, COMMITTED, 1.0
        if word == "the":
            color, options["crack"] = REJECTED, 0.8
        rows.append(block(x, z, 1.7, color, **options))
        glyphs.extend(letters(word, x, y + 0.33, z + 0.425, 0.5, TEXT))
        if column == 0:
            start = (-3.1, 0.5, 0.9)
        else:
            start = (-0.75, 0.5 + 0.88 * (lane > 0), 0.9 - 0.94 * (lane > 0))
        end = (x - 0.85, y + 0.5, z)
        for name, value in (
            ("start", start),
            ("rise", (start[0] + 0.4, *start[1:])),
            ("fall", (end[0] - 0.4, *end[1:])),
            ("end", end),
            ("width", 0.07 if word == "is" else 0.04),
            ("span", (0.0, 1.0)),
            ("share", (0.0, 1.0)),
            ("color", (*(REJECTED if word == "the" else GUESS)[:3], 0.8)),
        ):
            ribbons[name][row] = value
    box = block(-0.25, -0.04, 5.5, BOX, height=3.0, alpha=0.07, edge=(*BOX[:3], 0.95), fill=1.0)
    box["half"][2] = 1.6
    plain = frame("drop")
    return Frame(
        camera=Camera((0.6, 7.0, 11.5), (0.0, 1.1, 0.0), 0.55, 0.5, 60.0),
        lighting=DARK,
        focus=plain.focus,
        focus_radius=plain.focus_radius,
        solids=np.array(solids, BLOCK),
        glass=np.array(glass, BLOCK),
        boxes=np.array([box], BLOCK),
        ribbons=ribbons,
        glyphs=np.array(glyphs, GLYPH),
    )


def frame(moment="verify", camera="default", lighting=DARK, age=0.35):
    """`moment`: drop, verify, fill, crack, shatter or land."""
    solids, glass, glyphs, boxes, shatters, beams = [], [], [], [], [], []
    for row, words in enumerate(LINES):
        x, z = -6.5, -2.6 + 1.5 * row
        for index, word in enumerate(words):
            width = 0.45 + 0.26 * len(word)
            color = PROMPT if row == 0 and index < 3 else COMMITTED
            shade = tuple(0.6 * c for c in color[:3])
            edge = (*BONUS[:3], 0.9) if index == 4 else (*GUESS[:3], 0.5)
            labelled(solids, glyphs, word, x + width / 2, z, width, shade,
                     height=0.55 if color is PROMPT else 1.0, edge=edge)  # fmt: skip
            x += width + 0.16
    x, z = -4.2, 0.9
    for word, color in (("directions", COMMITTED), (".", CORRECTION), ("Blue", COMMITTED)):
        width = 0.5 + 0.26 * len(word)
        labelled(solids, glyphs, word, x + width / 2, z, width, color, edge=(*GUESS[:3], 0.6))
        x += width + 0.16
    start = x
    guesses = ("light", "travels", "as", "short")
    for index, word in enumerate(guesses):
        width = 0.5 + 0.26 * len(word)
        options = {"alpha": 0.2, "edge": (*(1.5 * c for c in GUESS[:3]), 1.0)}
        color, middle = GUESS, x + width / 2
        if moment == "drop" and index == 3:
            options["lift"] = 1.1
        if moment in ("fill", "crack", "shatter", "land") and index < 2:
            options |= {"fill": (0.55 if index == 1 else 1.0) if moment == "fill" else 1.0,
                        "fill_color": COMMITTED}  # fmt: skip
        if moment == "crack" and index == 2:
            color, options["crack"] = REJECTED, 0.8
            options["edge"] = (*(1.6 * c for c in REJECTED[:3]), 1.0)
        if moment in ("shatter", "land") and index == 3:
            options |= {"alpha": 0.02, "edge": (*DISCARDED[:3], 0.6)}
        if moment in ("shatter", "land") and index == 2:
            shatter = np.zeros((), SHATTER)
            shatter["center"], shatter["half"] = (middle, 0.5, z), (width / 2, 0.5, 0.42)
            shatter["color"], shatter["age"], shatter["fade"] = REJECTED, age, 1.0
            shatter["seed"], shatter["pattern"] = 3.0, 1
            shatters.append(shatter)
        else:
            labelled(glass, glyphs, word, middle, z, width, color, **options)
        if moment == "land" and index == 2:
            labelled(solids, glyphs, "a", middle, z, width, CORRECTION, lift=0.6)
        x += width + 0.16
    spheres = np.zeros(2, SPHERE)
    for row, *values in (
        (0, (1.6, 4.6, -2.6), 1.25, TARGET, 1.0 if moment == "verify" else 0.0),
        (1, (x - 0.9, 2.9, z), 0.24, DRAFTER, 0.5),
    ):
        for name, value in zip(("center", "radius", "color", "glow"), values, strict=True):
            spheres[name][row] = value
    if moment == "verify":
        low, high = start - 0.16 - 0.17, x + 0.17
        box = block((low + high) / 2, z, high - low, BOX, height=1.3, alpha=0.07,
                    edge=(*(1.3 * c for c in BOX[:3]), 0.95))  # fmt: skip
        box["half"][2] = 0.67
        boxes.append(box)
        beam = np.zeros((), BEAM)
        beam["start"], beam["end"] = (1.6, 4.6, -2.6), ((low + high) / 2, 1.3, z)
        beam["half"], beam["color"] = ((high - low) / 2, 0.67), (*TARGET[:3], 0.5)
        beams.append(beam)
    views = {
        "default": ((1.4, 6.6, 13.5), (0.6, 1.7, -0.6)),
        "side": ((1.2, 1.6, 12.0), (1.2, 1.5, 0.0)),
        "top": ((0.6, 17.0, 0.6), (0.6, 0.0, -0.4)),
    }
    eye, look_at = views[camera]
    return Frame(
        camera=Camera(eye, look_at, 0.70, 0.5, 60.0),
        lighting=lighting,
        focus=(0.8, 0.5, -0.4),
        focus_radius=8.5,
        solids=np.array(solids, BLOCK),
        glass=np.array(glass, BLOCK),
        boxes=np.array(boxes, BLOCK) if boxes else np.zeros(0, BLOCK),
        shatters=np.array(shatters, SHATTER) if shatters else np.zeros(0, SHATTER),
        spheres=spheres,
        beams=np.array(beams, BEAM) if beams else np.zeros(0, BEAM),
        glyphs=np.array(glyphs, GLYPH),
    )
