"""Draw what people should look at: every beat of a round, by camera, on one sheet.

    python tests/contact_sheets.py assets/runs/NAME.jsonl --out docs
    python tests/contact_sheets.py assets/runs/NAME.jsonl --out docs --looks --rounds 20
    python tests/contact_sheets.py assets/runs/NAME.jsonl --out docs --size 3840x2160 --crop 0.25 \
        --suffix=-4k
    python tests/contact_sheets.py RUN.jsonl OTHER.jsonl … --out docs --drafters
    python tests/contact_sheets.py RUN.jsonl --out docs --strip trees --rounds 22

One sheet a theme: a row for every beat of the chosen rounds, a column for each camera. With
``--looks`` one sheet in all: the first chosen round's pass, a row for every theme and a column
for every camera. Drawn by the very code of the window and the recorder, panels included. With
``--crop`` only that share of the sides around the round, pixel for pixel. With
``--drafters`` one still of each run, without panels: its guesses have just been made. With
``--strip`` rounds beat after beat in one camera, without panels: the sheet has that name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import moderngl
import numpy as np
from PIL import Image, ImageDraw, ImageFont

sys.path.insert(0, str(Path(__file__).parent.parent))

from engine.codec import read_run
from engine.trace import Trace
from scenes import CATALOG
from visualizer.app import App
from visualizer.config import RecordOptions
from visualizer.opening import scene_named
from visualizer.recorder import still_app
from visualizer.render import fonts
from visualizer.render.context import create_context
from visualizer.render.renderer import Renderer
from visualizer.stage.camera import project
from visualizer.stage.drafters import kind_of
from visualizer.stage.layout import HEIGHT
from visualizer.stage.theme import THEMES
from visualizer.stage.view import PRESETS, Preset, View
from visualizer.ui.overlay import Overlay

Stills = list[Image.Image]

COLUMNS = 3
CLEAR = (0.0, 0.02, 1.0, 0.93)  # of a still with a title
FONT = Path(__file__).parents[1] / "assets" / "fonts" / "Roboto-Bold.ttf"


def stills(app: App, rounds: Sequence[int], phases: Sequence[str], crop: float) -> Stills:
    """One picture for each beat of these rounds (or those of some phases), just before it.

    Of each only `crop` of its sides is kept, around the round.
    """
    pictures = []
    timeline = app.timeline
    assert timeline is not None
    for index in rounds:
        for beat in timeline.spans[index].beats:
            if phases and beat.phase not in phases:
                continue
            app.clock = replace(app.clock, t=beat.time - 0.05, playing=False)
            app.step(0.0)
            pictures.append(cropped(app, index, crop))
    return pictures


def cropped(app: App, index: int, crop: float) -> Image.Image:
    """The picture around the blocks of round `index`, `crop` of its sides; all of it at 1."""
    picture = Image.fromarray(app.renderer.pixels())
    frame, timeline = app._picture, app.timeline
    if crop >= 1.0 or frame is None or timeline is None:
        return picture
    place = timeline.page.places[index]
    width, height = picture.size
    middle = np.array([((place.left + place.right) / 2, HEIGHT / 2, place.near)])
    x, y = project(frame.camera, middle, width, height)[0].tolist()
    across, along = crop * width / 2, crop * height / 2
    left = round(min(max(x - across, 0), width - 2 * across))
    top = round(min(max(y - along, 0), height - 2 * along))
    return picture.crop((left, top, left + round(2 * across), top + round(2 * along)))


def column(
    context: moderngl.Context,
    trace: Trace,
    look: tuple[str, Preset],
    size: tuple[int, int],
    rounds: Sequence[int],
    phases: Sequence[str] = (),
    crop: float = 1.0,
    panels: bool = True,
) -> Stills:
    """The stills of one camera in one theme."""
    renderer = Renderer(context, size, "medium")
    overlay = Overlay()
    options = RecordOptions(out=Path(), theme=look[0], preset=look[1], ui_visible=panels)
    app = still_app(renderer, overlay, scene_named(CATALOG, "full-loop"), trace, options)
    pictures = stills(app, rounds, phases, crop)
    app.close()
    overlay.close()
    renderer.release()
    return pictures


def drafted(context: moderngl.Context, trace: Trace, size: tuple[int, int]) -> Image.Image:
    """One still: a round's guesses, where as many as possible were copied, have just been made."""
    scene = scene_named(CATALOG, "full-loop")
    timeline = scene.timeline(trace)
    rounds = trace.rounds[2:9]
    best = max(rounds, key=lambda each: (sum(g.copied for g in each.guesses), len(each.guesses)))
    renderer = Renderer(context, (2 * size[0], 2 * size[1]), "high")
    view = View(*renderer.size, free=CLEAR)
    moment = timeline.spans[best.index].close.start - 0.02
    renderer.draw(scene.compose(trace, timeline, moment, view))
    picture = Image.fromarray(renderer.pixels()).resize(size, Image.Resampling.LANCZOS)
    renderer.release()
    kind = kind_of(best, trace.header)
    ImageDraw.Draw(picture).text(
        (14, 10), kind.title if kind else "", (220, 226, 236), ImageFont.truetype(FONT, 19)
    )
    return picture


def gallery(runs: Sequence[Path], width: int) -> Image.Image:
    """Stills of runs with different drafters, row by row."""
    context = create_context()
    fonts.lend()
    across = width // COLUMNS
    size = across - across % 2, across * 9 // 16
    stills = [drafted(context, read_run(run), size) for run in runs]
    rows = -(-len(stills) // COLUMNS)
    whole = Image.new("RGB", (size[0] * COLUMNS, size[1] * rows))
    for index, still in enumerate(stills):
        whole.paste(still, (index % COLUMNS * size[0], index // COLUMNS * size[1]))
    return whole


def strip(
    trace: Trace,
    look: tuple[str, Preset],
    size: tuple[int, int],
    rounds: Sequence[int],
    crop: float,
) -> Image.Image:
    """Rounds beat after beat in one camera, row by row, without panels."""
    context = create_context()
    fonts.lend()
    pictures = column(context, trace, look, size, rounds, crop=crop, panels=False)
    return sheet([pictures[start::COLUMNS] for start in range(COLUMNS)])


def sheet(columns: Sequence[Stills]) -> Image.Image:
    """Columns of pictures, side by side."""
    width, height = columns[0][0].size
    whole = Image.new("RGB", (width * len(columns), height * len(columns[0])))
    for x, pictures in enumerate(columns):
        for y, picture in enumerate(pictures):
            whole.paste(picture, (x * width, y * height))
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run", type=Path, nargs="+", help="only --drafters takes several")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--themes", nargs="+", choices=tuple(THEMES), default=["dark", "light"])
    parser.add_argument("--cameras", nargs="+", choices=PRESETS, default=list(PRESETS[:3]))
    parser.add_argument("--rounds", nargs="+", type=int, default=[3])
    parser.add_argument("--looks", action="store_true", help="every theme by every camera")
    parser.add_argument("--drafters", action="store_true", help="a still of each run")
    parser.add_argument("--strip", metavar="NAME", help="the rounds in the first camera and theme")
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--crop", type=float, default=1.0, help="keep this share of the sides")
    parser.add_argument("--suffix", default="", help="of the sheets' names")
    parser.add_argument("--width", type=int, default=1920, help="of the whole sheet, pixels")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    if options.drafters:
        path = options.out / "drafters.webp"
        gallery(options.run, options.width).save(path, quality=80)
        print(path)
        return
    if options.strip:
        look = options.themes[0], options.cameras[0]
        run = read_run(options.run[0])
        whole = strip(run, look, (width, height), options.rounds, options.crop)
        whole.thumbnail((options.width, 100_000), Image.Resampling.LANCZOS)
        path = options.out / f"{options.strip}.webp"
        whole.save(path, quality=80)
        print(path)
        return
    if len(options.run) > 1:
        parser.error("several runs make one sheet only with --drafters")
    context, trace = create_context(), read_run(options.run[0])
    fonts.lend()

    def columns(themes: Sequence[str], cameras: Sequence[Preset], *only: str) -> list[Stills]:
        rounds = options.rounds[:1] if only else options.rounds
        looks = [[(theme, camera) for theme in themes] for camera in cameras]
        return [
            [still for look in row for still in column(context, trace, look, (width, height),
                                                       rounds, only, options.crop)]
            for row in looks
        ]  # fmt: skip

    sheets = {f"beats-{theme}": ([theme], options.cameras) for theme in options.themes}
    if options.looks:
        sheets = {"looks": (list(THEMES), list(PRESETS))}
    for name, (themes, cameras) in sheets.items():
        whole = sheet(columns(themes, cameras, *(["pass"] if options.looks else [])))
        whole.thumbnail((options.width, 100_000), Image.Resampling.LANCZOS)
        path = options.out / f"{name}{options.suffix}.webp"
        whole.save(path, quality=82)
        print(path)


if __name__ == "__main__":
    main()
