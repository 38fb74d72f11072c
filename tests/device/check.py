"""What only a GPU can answer, in under ten minutes: CUDA decoding and EGL rendering, measured.

    python tests/device/check.py --out FOLDER [--device cuda] [--target FOLDER]

Every step is a command of the program or a measured loop, each with its own time limit; a step
that fails is reported and the others go on. Writes report.md and the JSON behind it. Runs on a
machine without a GPU too (``--device cpu``), which is how the script itself is tested.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

PROMPT = "Write a short story about a lighthouse."
DRAFTERS = ("copy-8", "copy-4g64", "small", "n-gram", "retrieval", "hybrid", "layer-skip-20")
SIZES = {"1080p": (1920, 1080), "4K": (3840, 2160)}
FRAMES = 30


class Check:
    """Runs steps, keeps what they found, writes the report."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.found: dict[str, Any] = {}
        self.lines = ["# Report of a device check", ""]

    def step(self, title: str, work: Callable[[], Any]) -> None:
        started = time.perf_counter()
        try:
            self.found[title] = work()
        except (subprocess.SubprocessError, OSError, ValueError, RuntimeError) as error:
            self.found[title] = {"failed": str(error)[-2000:]}
        seconds = time.perf_counter() - started
        body = json.dumps(self.found[title], indent=1)
        self.lines += [f"## {title} ({seconds:.0f} s)", "", "```", body, "```", ""]
        self.options.out.mkdir(parents=True, exist_ok=True)
        (self.options.out / "report.md").write_text("\n".join(self.lines), encoding="utf-8")
        (self.options.out / "report.json").write_text(json.dumps(self.found), encoding="utf-8")
        print(f"{title}: {seconds:.0f} s", flush=True)

    def command(self, *words: str, limit: float) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=limit
        )
        if done.returncode:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip() or done.stdout}")
        return done.stdout

    def engine(self) -> list[str]:
        target = ["--target", str(self.options.target)] if self.options.target else []
        return ["--device", self.options.device, *target]

    def run(self, drafter: str, *more: str) -> dict[str, Any]:
        words = ["main.py", "run", "--prompt", PROMPT, "--drafter", drafter, "--json"]
        out = self.command(*words, "--max-new-tokens", "96", *more, *self.engine(), limit=90)
        found: dict[str, Any] = json.loads(out)
        return found

    def equality(self) -> dict[str, Any]:
        """Each drafter's greedy text in fp32 against the target alone, and what it gained."""
        alone = self.run("none", "--dtype", "float32")
        table = {}
        for drafter in DRAFTERS:
            one = self.run(drafter, "--dtype", "float32")
            table[drafter] = {
                "same text": one["token_ids"] == alone["token_ids"],
                **{name: one[name] for name in ("acceptance_rate", "speedup", "kernel")},
            }
        return table

    def bench(self) -> Any:
        path = self.options.out / "bench.json"
        words = ["--drafter", "copy-8", "--drafter", "small", "--drafter", "hybrid", "--k", "2,4"]
        self.command("main.py", "bench", *words, "--json", str(path), *self.engine(), limit=180)
        return json.loads(path.read_text(encoding="utf-8"))

    def frames(self) -> dict[str, Any]:
        """Milliseconds from a frame's arrays to finished pixels, by preset and size."""
        from engine.codec import read_run
        from scenes import CATALOG
        from visualizer.render.context import create_context
        from visualizer.render.quality import EFFORTS
        from visualizer.render.renderer import Renderer
        from visualizer.stage.view import View

        scene = CATALOG[0]
        trace = read_run(sorted((ROOT / "assets" / "runs").glob("*.jsonl"))[0])
        line = scene.timeline(trace, None)
        context = create_context()
        table: dict[str, Any] = {"renderer": str(context.info["GL_RENDERER"])}
        for name, (width, height) in SIZES.items():
            for quality in EFFORTS:
                renderer = Renderer(context, (width, height), quality)
                view = View(width=width, height=height, quality=quality)
                start = line.spans[min(3, len(line.spans) - 1)].start
                spent = []
                for index in range(self.options.frames):
                    frame = scene.compose(trace, line, start + index / 10, view)
                    context.finish()
                    began = time.perf_counter()
                    renderer.draw(frame)
                    context.finish()
                    spent.append((time.perf_counter() - began) * 1e3)
                renderer.release()
                table[f"{quality} {name}"] = {
                    "median ms": round(statistics.median(spent), 2),
                    "worst ms": round(max(spent), 2),
                }
        context.release()
        return table

    def recording(self) -> dict[str, float]:
        """Seconds of video per second of work."""
        out = self.options.out / "ten-seconds.mp4"
        run = sorted((ROOT / "assets" / "runs").glob("*.jsonl"))[0]
        seconds = 10.0 * self.options.frames / FRAMES
        words = ["--run", str(run), "--preset", "1080p60", "--seconds", str(seconds)]
        began = time.perf_counter()
        self.command("main.py", "record", "--out", str(out), *words, limit=240)
        return {"times real time": round(seconds / (time.perf_counter() - began), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--target", type=Path, help="a model folder, where no index is reachable")
    parser.add_argument("--frames", type=int, default=FRAMES, help="fewer for a slow rasteriser")
    check = Check(parser.parse_args())
    check.step("doctor", lambda: json.loads(check.command("main.py", "doctor", "--json", limit=60)))
    check.step("greedy equality in fp32", check.equality)
    check.step("speculation measured", check.bench)
    check.step("frames", check.frames)
    check.step("recording 1080p60", check.recording)


if __name__ == "__main__":
    main()
