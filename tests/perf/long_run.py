"""A live run of many minutes in the real window: memory and frame times, written down and drawn.

    python tests/perf/long_run.py --minutes 30 --out docs/reports/long-run

The window on a virtual display (or, with --here, on this one), with the real engine, prompt after
prompt as it goes by itself. Writes OUT.json and OUT.png: memory of the window and of the engine
every ten seconds, frame times a minute at a time, and what a round takes in its run file, beside
the most that it may take. A report, never an assertion.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).parents[1] / "ui"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from desktop import Display, missing_tools, program, wait_for

from visualizer.meter import ROUND_BYTES, resident

SAMPLE_SECONDS = 10.0
SIZE = (960, 540)  # of the drawing


def children(pid: int) -> list[int]:
    """Processes that `pid` has started and that are still there."""
    try:
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [int(word) for word in words]


def rounds_in(folder: Path) -> list[int]:
    """Bytes of every round in the run files below `folder`."""
    lines = (line for file in folder.rglob("*.jsonl") for line in file.read_bytes().splitlines())
    return [len(line) for line in lines if line.startswith(b'{"event":"Round"')]


def watched(display: str, minutes: float, data: Path, words: list[str]) -> dict[str, Any]:
    """Let the program run and look at it."""
    profile = data / "profile.txt"
    samples = []
    with program(display, data, *words, "--profile-to", str(profile)) as window:
        start = time.monotonic()
        while time.monotonic() - start < 60 * minutes + 2:
            time.sleep(SAMPLE_SECONDS)
            if window.poll() is not None:
                raise SystemExit(f"The window has ended: {window.communicate()[1]}")
            engines = children(window.pid)
            samples.append(
                {
                    "at": round(time.monotonic() - start, 1),
                    "window_mib": round(resident(window.pid) / 2**20, 1),
                    "engine_mib": round(sum(map(resident, engines)) / 2**20, 1),
                    "rounds": len(rounds_in(data)),
                }
            )
    lines = profile.read_text(encoding="utf-8").splitlines() if profile.exists() else []
    rounds = rounds_in(data)
    return {
        "minutes": minutes,
        "rounds": len(rounds),
        "bytes_a_round": round(sum(rounds) / max(len(rounds), 1)),
        "bytes_of_the_largest": max(rounds, default=0),
        "bytes_at_most": ROUND_BYTES,
        "trace_mib": round(sum(rounds) / 2**20, 2),
        "memory": samples,
        "frames": [json.loads(line) for line in lines],
    }


def drawn(report: dict[str, Any]) -> Image.Image:
    """Memory above, frame times below, over the minutes."""
    picture = Image.new("RGB", SIZE, "#F3F4F6")
    canvas = ImageDraw.Draw(picture)
    times = [each["at"] / 60 for each in report["memory"]]
    end = max([*times, 0.1])
    high = 60, 24, SIZE[0] - 20, SIZE[1] // 2 - 24
    low = 60, SIZE[1] // 2 + 24, SIZE[0] - 20, SIZE[1] - 30
    memory = {
        name: ([each[key] for each in report["memory"]], color)
        for name, key, color in (
            ("window", "window_mib", "#2A5DB0"), ("engine", "engine_mib", "#B5622A"),
        )
    }  # fmt: skip
    plot(canvas, high, times, memory, end, "MiB of memory")
    minutes = [each["at"] / 60 for each in report["frames"]]
    frames = {
        name: ([each[key] for each in report["frames"]], color)
        for name, key, color in (
            ("from picture to picture, median", "interval_p50", "#2A5DB0"),
            ("1 in 100 over", "interval_p99", "#B5622A"),
        )
    }
    plot(canvas, low, minutes, frames, end, "milliseconds")
    return picture


def plot(
    canvas: ImageDraw.ImageDraw,
    area: tuple[int, int, int, int],
    times: list[float],
    lines: dict[str, tuple[list[float], str]],
    end: float,
    title: str,
) -> None:
    """Lines over time from 0 up, each named, with its last value."""
    left, top, right, bottom = area
    most = 1.1 * max([1.0, *(value for values, _ in lines.values() for value in values)])
    canvas.line([(left, top), (left, bottom), (right, bottom)], fill="#8A8F98")
    canvas.text((left, top - 16), title, fill="#20242A")
    canvas.text((6, top), f"{most:.0f}", fill="#20242A")
    canvas.text((right - 60, bottom + 6), f"{end:.0f} minutes", fill="#20242A")
    for index, (name, (values, color)) in enumerate(lines.items()):
        points = [
            (left + (right - left) * at / end, bottom - (bottom - top) * value / most)
            for at, value in zip(times, values, strict=True)
        ]
        if len(points) > 1:
            canvas.line(points, fill=color, width=2)
        for x, y in points if len(points) < 40 else []:
            canvas.ellipse((x - 2, y - 2, x + 2, y + 2), fill=color)
        last = f": {values[-1]:.0f}" if values else ""
        canvas.text((left + 130 + 260 * index, top - 16), f"{name}{last}", fill=color)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--out", type=Path, default=Path("long-run"))
    parser.add_argument("--size", default="1280x720", help="of the virtual display")
    parser.add_argument("--here", action="store_true", help="on this display, not a virtual one")
    options, words = parser.parse_known_args()
    if not options.here and missing_tools():
        raise SystemExit(f"This machine lacks {', '.join(missing_tools())}.")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        if options.here:
            report = watched(os.environ.get("DISPLAY", ""), options.minutes, data, words)
        else:
            display = Display(tuple(map(int, options.size.split("x"))))
            try:
                wait_for("the display", lambda: display.name)
                report = watched(display.name, options.minutes, data, words)
            finally:
                display.close()
    options.out.with_suffix(".json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    drawn(report).save(options.out.with_suffix(".png"))
    first, last = report["memory"][len(report["memory"]) // 6], report["memory"][-1]
    print(
        f"{report['minutes']:g} minutes, {report['rounds']} rounds of {report['bytes_a_round']} "
        f"bytes ({report['bytes_of_the_largest']} the largest, {report['bytes_at_most']} at most); "
        f"window {first['window_mib']} → {last['window_mib']} MiB, "
        f"engine {first['engine_mib']} → {last['engine_mib']} MiB"
    )


if __name__ == "__main__":
    main()
