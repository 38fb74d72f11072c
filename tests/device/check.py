"""What only a GPU can answer, in under ten minutes: CUDA decoding and EGL rendering, measured.

    python tests/device/check.py [--out FOLDER] [--device cuda] [--target FOLDER] [--quick]

Every step is a command of the program or a measured loop, each with its own time limit; a step
that fails is reported and the others go on. Writes report.md and the JSON behind it, into $OUT
when no folder is named. Runs on a machine without a GPU too (``--device cpu --quick``: a tiny
model, little of everything), which is how the script itself is tested; what needs CUDA then says
so.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.engine import saved_model  # noqa: E402

PROMPTS = (
    "Write a short story about a lighthouse.",
    "Repeat this sentence three times: the quick brown fox jumps over the lazy dog.",
    "List five ways to save water at home.",
)
SHIPPED = (
    "small",
    "hybrid",
    "retrieval",
    "eagle",
    "medusa",
    "eagle-tree",
    "medusa-tree",
)  # were made for the default target
DRAFTERS = ("copy-8", "n-gram", "layer-skip-20")
SIZES = {"1080p": (1920, 1080), "4K": (3840, 2160)}
FRAMES = 30


class Check:
    """Runs steps, keeps what they found, writes the report."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.ends = time.perf_counter() + 60 * options.minutes
        self.found: dict[str, Any] = {}
        self.lines: list[str] = []

    def step(self, title: str, work: Callable[[], Any]) -> None:
        started = time.perf_counter()
        try:
            left_out = {"left out": f"the {self.options.minutes:g} minutes were over"}
            self.found[title] = work() if started < self.ends else left_out
        except Exception as error:  # whatever it is, the steps after it are worth having
            self.found[title] = {"failed": str(error)[-2000:]}
        seconds = time.perf_counter() - started
        body = json.dumps(self.found[title], indent=1)
        self.lines += [f"## {title} ({seconds:.0f} s)", "", "```", body, "```", ""]
        report = ["# Report of a device check", "", *at_a_glance(self.found), "", *self.lines]
        (self.options.out / "report.md").write_text("\n".join(report), encoding="utf-8")
        (self.options.out / "report.json").write_text(json.dumps(self.found), encoding="utf-8")
        print(f"{title}: {seconds:.0f} s", flush=True)

    def command(self, *words: str, limit: float, fine: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=min(limit, max(5.0, self.ends - time.perf_counter())),
        )
        if done.returncode not in fine:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip() or done.stdout}")
        return done.stdout

    def engine(self) -> list[str]:
        target = ["--target", str(self.options.target)] if self.options.target else []
        return ["--device", self.options.device, *target]

    def rounds(self) -> Any:
        """Passes and rounds from within: see `rounds`, beside this file."""
        path = self.options.out / "rounds.json"
        quick = ["--quick"] if self.options.quick else []
        words = ["tests/device/rounds.py", "--out", str(path), *quick, *self.engine()]
        self.command(*words, limit=150)
        return json.loads(path.read_text(encoding="utf-8"))

    def bench(self, dtype: str) -> Any:
        """Every drafter against the target alone and transformers: speed, and the same text."""
        path = self.options.out / f"bench-{dtype}.json"
        prompts = self.options.out / "prompts.txt"
        prompts.write_text("\n".join(PROMPTS[:1] if self.options.quick else PROMPTS))
        drafters = DRAFTERS[1:2] if self.options.quick else DRAFTERS
        drafters += () if self.options.target or self.options.quick else SHIPPED
        words = [word for drafter in drafters for word in ("--drafter", drafter)]
        words += ["--k", "2,4", "--max-new-tokens", "16" if self.options.quick else "96"]
        words += ["--prompts", str(prompts), "--against", "transformers", "--dtype", dtype]
        path.unlink(missing_ok=True)
        words += ["--json", str(path), *self.engine()]
        try:
            self.command("main.py", "bench", *words, limit=150, fine=(0, 1))
        except subprocess.TimeoutExpired:  # it writes down what it has
            if not path.exists():
                raise
        return json.loads(path.read_text(encoding="utf-8"))

    def proof(self) -> dict[str, list[str]]:
        """Greedy texts equal in exact mode, and the law of sampled ones."""
        said = []
        samples = ("--temperature", "0.8", "--samples", "40" if self.options.quick else "200")
        for more in ((), samples):
            words = ["main.py", "prove", "--drafter", "copy-8", "--dtype", "float32", *more]
            words += ["--max-new-tokens", "8"] if self.options.quick else []
            said += self.command(*words, *self.engine(), limit=120, fine=(0, 1)).splitlines()
        return {"said": said}

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
        few = 1 if self.options.quick else None
        for name, (width, height) in list(SIZES.items())[:few]:
            for quality in list(EFFORTS)[:few]:
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
        preset = "draft" if self.options.quick else "1080p60"
        words = ["--run", str(run), "--preset", preset, "--seconds", str(seconds)]
        began = time.perf_counter()
        self.command("main.py", "record", "--out", str(out), *words, limit=240)
        return {"times real time": round(seconds / (time.perf_counter() - began), 2)}


def at_a_glance(found: dict[str, Any]) -> list[str]:
    """What most want to know, a line each, as far as it was found."""
    lines = []
    for dtype, each in found.get("rounds", {}).items():
        if isinstance(each, dict):
            equal, bits = each["recorded against eager"], each["same bits"]
            lines += [
                f"- {dtype}: {each['kernel']}; texts equal: {equal['texts equal']}",
                f"- {dtype}: a row has the same bits in every pass: {bits['all equal']}",
                f"- {dtype}: greedy texts by trees: {each['exact trees']['texts equal']} equal, "
                f"promised: {each['exact trees']['promised']}",
                f"- {dtype}: rounds on a desk: {desk_words(each['rounds on a desk'])}",
            ]
    for title, each in found.items():
        drafted = [line for line in each.get("lines", ()) if line["speedup"] is not None]
        if title.startswith("bench") and drafted:
            best = max(drafted, key=lambda line: line["speedup"])
            same = all(line["same_text"] is not False for line in each["lines"])
            lines.append(
                f"- {title}: {best['drafter']}, K {best['k']} is {best['speedup']:.2f}x the target "
                f"alone ({best['tokens_per_second']:.0f} tok/s); every greedy text its own: {same}"
            )
            for rival in each["rivals"]:
                if rival["ours"] is not None:
                    lines.append(
                        f"- {title}: {rival['ours']:.2f}x {rival['name']} on the wall clock"
                    )
    return lines


def desk_words(found: Any) -> str:
    """Whether rounds are the same with and without recordings, and nothing moved."""
    if isinstance(found, str):
        return found
    kinds = [each for each in found.values() if isinstance(each, dict)]
    replayed = all(each["replayed as launched"] for each in kinds)
    alike = all(each["as without a desk"] for each in kinds)
    return (
        f"replayed as launched: {replayed}; as without a desk: {alike}; buffers stayed: "
        f"{found['buffers stayed']}; recorded: {found['recorded']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=os.environ.get("OUT"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--target", type=Path, help="a model folder, where no index is reachable")
    parser.add_argument("--frames", type=int, default=FRAMES, help="fewer for a slow rasteriser")
    parser.add_argument("--minutes", type=float, default=10.0, help="then no step begins")
    parser.add_argument("--quick", action="store_true", help="as little of everything as possible")
    options = parser.parse_args()
    if options.out is None:
        parser.error("say where the report goes: --out FOLDER, or the environment variable OUT")
    options.out = Path(options.out).resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.quick and options.target is None:
        options.target = saved_model.save(options.out / "tiny")
    check = Check(options)
    check.step("doctor", lambda: json.loads(check.command("main.py", "doctor", "--json", limit=60)))
    check.step("rounds", check.rounds)
    check.step("bench in float32", lambda: check.bench("float32"))
    check.step("frames", check.frames)
    if options.device != "cpu":
        check.step("bench in bfloat16", lambda: check.bench("bfloat16"))
    check.step("proof", check.proof)
    check.step("recording", check.recording)


if __name__ == "__main__":
    main()
