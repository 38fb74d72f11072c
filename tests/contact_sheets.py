"""Draw what people should look at: every beat of a round, by camera, on one sheet.

    python tests/contact_sheets.py assets/runs/NAME.jsonl --out docs

One sheet a theme: a row for every beat of the chosen rounds, a column for each camera, drawn
by the very code of the window and the recorder, panels included.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parent.parent))

from engine.codec import read_run
from scenes import CATALOG
from visualizer.app import App
from visualizer.config import RecordOptions
from visualizer.opening import scene_named
from visualizer.recorder import still_app
from visualizer.render.context import create_context
from visualizer.render.renderer import Renderer
from visualizer.stage.view import PRESETS
from visualizer.ui.overlay import Overlay


def stills(app: App, rounds: list[int]) -> list[Image.Image]:
    """One picture for each beat of these rounds, just before the beat."""
    pictures = []
    timeline = app.timeline
    assert timeline is not None
    for index in rounds:
        for beat in timeline.spans[index].beats:
            app.clock = replace(app.clock, t=beat.time - 0.05, playing=False)
            app.step(0.0)
            pictures.append(Image.fromarray(app.renderer.pixels()))
    return pictures


def sheet(run: Path, theme: str, size: tuple[int, int], rounds: list[int]) -> Image.Image:
    context = create_context()
    columns = []
    for preset in PRESETS:
        renderer = Renderer(context, size, "medium")
        overlay = Overlay()
        options = RecordOptions(out=Path(), theme=theme, preset=preset)
        app = still_app(
            renderer, overlay, scene_named(CATALOG, "full-loop"), read_run(run), options
        )
        columns.append(stills(app, rounds))
        app.close()
        overlay.close()
        renderer.release()
    context.release()
    width, height = size
    whole = Image.new("RGB", (width * len(columns), height * len(columns[0])))
    for x, column in enumerate(columns):
        for y, picture in enumerate(column):
            whole.paste(picture, (x * width, y * height))
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--themes", nargs="+", default=["dark", "light"])
    parser.add_argument("--rounds", nargs="+", type=int, default=[3])
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--width", type=int, default=1920, help="of the whole sheet, pixels")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    for theme in options.themes:
        whole = sheet(options.run, theme, (width, height), options.rounds)
        whole.thumbnail((options.width, 100_000), Image.Resampling.LANCZOS)
        path = options.out / f"beats-{theme}.webp"
        whole.save(path, quality=82)
        print(path)


if __name__ == "__main__":
    main()
