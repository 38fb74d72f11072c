"""What pictures take on this machine, drawn without a window: `main.py doctor --frames`.

Real moments of a recorded run with all panels, every part of our side measured as the window
does it, and every pass of the graphics processor waited for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from engine.trace import Trace
from visualizer.actions import Seek
from visualizer.config import RecordOptions
from visualizer.meter import Minute, summed
from visualizer.opening import scene_named
from visualizer.recorder import headless, still_app
from visualizer.render.context import default_quality, is_software
from visualizer.render.renderer import Renderer
from visualizer.stage.scene import Scene
from visualizer.stage.view import Quality
from visualizer.ui.overlay import Overlay

SIZES = ((1280, 720), (1920, 1080), (3840, 2160))
SOFTWARE_SIZES = SIZES[:1]
PLACES = 6  # of the run, evenly apart
PICTURES = 24  # one after another in each place
SETTLING = 4  # the first of them: everything is new to them, as it never is while a show runs
RATE = 60


@dataclass(frozen=True, slots=True)
class Sizes:
    """One size and quality: our side (see `meter`), and milliseconds of each pass."""

    width: int
    height: int
    quality: Quality
    ours: Minute
    passes: dict[str, float]


@dataclass(frozen=True, slots=True)
class Report:
    renderer: str
    software: bool
    rows: tuple[Sizes, ...]


def measured(run: Trace, catalog: Iterable[Scene], progress: Callable[[int, int], None]) -> Report:
    """Draw and measure. Raises VisualizerError where nothing can be drawn."""
    scene = scene_named(catalog, "full-loop")
    context = headless()
    try:
        software = is_software(context)
        first = default_quality(context)
        qualities: tuple[Quality, ...] = (first,) if software else ("high", "ultra")
        sizes = SOFTWARE_SIZES if software else SIZES
        kinds = [(size, quality) for size in sizes for quality in qualities]
        rows = []
        for index, (size, quality) in enumerate(kinds):
            renderer, overlay = Renderer(context, size, quality), Overlay()
            try:
                rows.append(_row(renderer, overlay, scene, run))
            finally:
                overlay.close()
                renderer.release()
            progress(index + 1, len(kinds))
        return Report(str(context.info["GL_RENDERER"]), software, tuple(rows))
    finally:
        context.release()


def _row(renderer: Renderer, overlay: Overlay, scene: Scene, run: Trace) -> Sizes:
    app = still_app(renderer, overlay, scene, run, RecordOptions(out=Path()))
    try:
        samples, passes = [], []
        for place in range(PLACES):
            app.handle(Seek(app.end * (place + 0.5) / PLACES))
            for index in range(PICTURES):
                app.step(1 / RATE)
                if index >= SETTLING:
                    samples.append((1 / RATE, dict(app.spent)))
            passes.append(app.passes())
    finally:
        app.close()
    each = {name: round(1e3 * median(one[name] for one in passes), 3) for name in passes[0]}
    return Sizes(*renderer.size, renderer.quality, summed(0.0, samples, ()), each)


def as_json(report: Report) -> str:
    return json.dumps(asdict(report), indent=2)


def as_text(report: Report) -> str:
    """A few lines for each size and quality."""
    lines = [f"Drawn by {report.renderer}, {PLACES * PICTURES} pictures, milliseconds each"]
    if report.software:
        lines.append("The processor draws: the part called drawing is the passes, not ours alone.")
    for row in report.rows:
        ours = "  ".join(f"{name} {ms:.2f}" for name, ms in row.ours.parts.items())
        passes = "  ".join(f"{name} {ms:.2f}" for name, ms in row.passes.items())
        whole = sum(row.passes.values())
        lines += [
            "",
            f"{row.width}x{row.height}, {row.quality}",
            f"  our side {row.ours.ours_p50:.2f}, 1 in 100 over {row.ours.ours_p99:.2f}:  {ours}",
            f"  passes   {whole:.2f}:  {passes}",
        ]
    return "\n".join(lines)
