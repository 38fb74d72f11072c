"""What each pass of a frame costs the graphics processor: a report, never an assertion.

    python tests/perf/draw_cost.py [--sizes 1920x1080 3840x2160] [--qualities high ultra]

A target pass and a shatter of a bundled run, the median of a few frames of each, every pass
waited for.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from engine.codec import read_run
from scenes import full_loop
from visualizer.render.context import create_context
from visualizer.render.renderer import Renderer
from visualizer.stage.frame import Frame
from visualizer.stage.view import QUALITIES, View

RUN = Path(__file__).parents[2] / "assets" / "runs" / "1-photosynthesis-hybrid.jsonl"


def moments(size: tuple[int, int]) -> list[Frame]:
    """A pass in the middle of the run, and a block that has just burst."""
    trace = read_run(RUN)
    timeline = full_loop.timeline(trace)
    pulse = timeline.spans[len(timeline.spans) // 2].pulse
    burst = next(spans.shatter for spans in timeline.spans if spans.crack.duration > 0)
    times = (pulse.start + pulse.duration / 2, burst.start + 0.2)
    return [full_loop.compose(trace, timeline, t, View(*size)) for t in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", nargs="+", default=["1920x1080", "3840x2160"])
    parser.add_argument("--qualities", nargs="+", choices=QUALITIES, default=["high", "ultra"])
    parser.add_argument("--frames", type=int, default=10)
    options = parser.parse_args()
    context = create_context()
    print(f"{context.info['GL_RENDERER']}, milliseconds a frame")
    for name in options.sizes:
        width, height = map(int, name.split("x"))
        frames = moments((width, height))
        for quality in options.qualities:
            renderer = Renderer(context, (width, height), quality)
            tries = [renderer.profile(frames[i % 2]) for i in range(options.frames + 2)][2:]
            renderer.release()
            passes = {each: np.median([one[each] for one in tries]) * 1e3 for each in tries[0]}
            whole = sum(passes.values())
            parts = ", ".join(f"{each} {cost:.2f}" for each, cost in passes.items())
            print(f"{name:>10} {quality:8} {whole:8.2f}: {parts}")


if __name__ == "__main__":
    main()
