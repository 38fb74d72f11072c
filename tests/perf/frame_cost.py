"""What a frame costs in Python, part by part: a report, never an assertion.

    GALLIUM_NOOP=1 python tests/perf/frame_cost.py [--tokens 5000] [--scattered] [--busy]

Two hundred blocks, three shatters and the panels, picture after picture of real rounds as the
window shows them, 60 a second; --scattered jumps through the run instead, so that every picture
is new to what is remembered. With --tokens at the end of a run that has committed so many (the
same rounds over and over). With Mesa's GALLIUM_NOOP the driver throws all drawing away, so that
what is left is our side alone. On a machine with other work --busy counts this thread's own
processor time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from engine.codec import read_run
from engine.trace import Round, Trace
from scenes import CATALOG
from visualizer.config import FRAME_RATE, RecordOptions
from visualizer.garbage import Garbage
from visualizer.opening import scene_named
from visualizer.recorder import still_app
from visualizer.render.context import create_context
from visualizer.render.renderer import Renderer
from visualizer.stage.frame import Frame
from visualizer.ui.overlay import Overlay

BLOCKS, SHATTERS = 200, 3
RUN = Path(__file__).parents[2] / "assets" / "runs" / "1-photosynthesis-hybrid.jsonl"


def heavy(frame: Frame, shatters: np.ndarray) -> Frame:
    """The frame with its blocks repeated to 200, and three shatters."""
    times = -(-BLOCKS // max(len(frame.solids), 1))
    solids = np.concatenate([frame.solids] * times)[:BLOCKS]
    return replace(frame, solids=solids, shatters=np.repeat(shatters[:1], SHATTERS))


def lengthened(trace: Trace, tokens: int) -> Trace:
    """The run with its rounds repeated until it has committed `tokens`."""
    rounds: list[Round] = []
    committed = 0
    while committed < tokens:
        each = trace.rounds[len(rounds) % len(trace.rounds)]
        rounds.append(replace(each, index=len(rounds)))
        committed += len(each.committed)
    return replace(trace, rounds=tuple(rounds)) if rounds else trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--frames", type=int, default=3000)
    parser.add_argument("--tokens", type=int, default=0, help="committed before what is timed")
    parser.add_argument("--scattered", action="store_true", help="moments all over the run")
    parser.add_argument("--busy", action="store_true", help="processor time, not the clock's")
    options = parser.parse_args()
    clock = time.thread_time if options.busy else time.perf_counter
    context = create_context()
    renderer, overlay = Renderer(context, (1280, 720), "software"), Overlay()
    scene, run = scene_named(CATALOG, "full-loop"), lengthened(read_run(RUN), options.tokens)
    app = still_app(renderer, overlay, scene, run, RecordOptions(out=Path()))
    trace, timeline, view = app._trace, app._timeline, app.view()
    assert timeline is not None
    burst = next(spans for spans in timeline.spans if spans.crack.duration > 0).shatter
    shatters = scene.compose(trace, timeline, burst.start + 0.2, view).shatters
    start = timeline.spans[max(len(timeline.spans) - len(read_run(RUN).rounds), 0)].start
    costs: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        start = clock()
        made = work()
        costs.setdefault(name, []).append(clock() - start)
        return made

    spaced = np.linspace(start, timeline.duration, options.frames)
    played = np.arange(start, timeline.duration, 1 / FRAME_RATE)[: options.frames]
    garbage = Garbage()
    for t in (spaced if options.scattered else played).tolist():
        app.clock = replace(app.clock, t=t, playing=False)
        frame = timed("compose", lambda t=t: scene.compose(trace, timeline, t, view))
        frame = heavy(frame, shatters)
        timed("draw", lambda frame=frame: renderer.draw(frame))
        model = timed("model", app.model)
        timed("panels", lambda model=model: overlay.frame(model, (1280, 720), 1.0, 1 / 60))
        timed("panels' GL", lambda: app._pass.render(overlay.draw_data, renderer.picture))
    garbage.close()
    table = {name: np.array(values[20:]) * 1e3 for name, values in costs.items()}
    table["whole frame"] = np.sum(list(table.values()), axis=0)
    whole = np.median(table["whole frame"])
    print(f"{context.info['GL_RENDERER']}, {len(costs['draw'])} frames, milliseconds")
    print(f"{'part':12} {'p50':>7} {'p99':>7} {'share':>7}")
    for name, values in table.items():
        p50, p99 = np.percentile(values, (50, 99))
        print(f"{name:12} {p50:7.2f} {p99:7.2f} {p50 / whole:7.0%}")
    overlay.close()


if __name__ == "__main__":
    main()
