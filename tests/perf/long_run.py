"""A live run of many minutes in the real window: memory and frame times, written down and drawn.

    python tests/perf/long_run.py --minutes 30 --out docs/reports/long-run

The window on a virtual display (or, with --here, on this one), with the real engine, prompt after
prompt as it goes by itself; words that are not its own go to the program (--drafter hybrid).
Writes OUT.md, OUT.json and OUT.png: memory of the window and of the engine every ten seconds,
frame times a minute at a time, and what a round takes in its run file, beside the most that it
may take. They are written anew every minute, so that a run that is cut short has its report, too.
A report, never an assertion.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
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


class Rounds:
    """Bytes of every round in the run files below a folder, each line read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self.bytes: list[int] = []

    def look(self) -> list[int]:
        for file in self._folder.rglob("*.jsonl"):
            with file.open("rb") as lines:
                lines.seek(self._read.get(file, 0))
                whole = [line for line in lines if line.endswith(b"\n")]
            self._read[file] = self._read.get(file, 0) + sum(map(len, whole))
            self.bytes += [len(line) for line in whole if line.startswith(b'{"event":"Round"')]
        return self.bytes


def watched(
    display: str,
    minutes: float,
    data: Path,
    words: list[str],
    write: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Let the program run and look at it; `write` gets the report of every minute so far."""
    profile = data / "profile.txt"
    samples: list[dict[str, float]] = []
    rounds, written, ended = Rounds(data), 0.0, ""
    with program(display, data, *words, "--profile-to", str(profile)) as window:
        start = time.monotonic()
        while time.monotonic() - start < 60 * minutes + 2:
            time.sleep(SAMPLE_SECONDS)
            at = time.monotonic() - start
            if window.poll() is not None:
                ended = f"The window ended after {at / 60:.1f} minutes: {window.communicate()[1]}"
                break
            samples.append(
                {
                    "at": round(at, 1),
                    "window_mib": round(resident(window.pid) / 2**20, 1),
                    "engine_mib": round(sum(map(resident, children(window.pid))) / 2**20, 1),
                    "rounds": len(rounds.look()),
                }
            )
            if at - written >= 60:
                written = at
                write(summed(samples, rounds.look(), profile, words))
    return summed(samples, rounds.look(), profile, words) | ({"ended": ended} if ended else {})


def summed(
    samples: list[dict[str, float]], rounds: list[int], profile: Path, words: list[str]
) -> dict[str, Any]:
    """What is known so far."""
    lines = profile.read_text(encoding="utf-8").splitlines() if profile.exists() else []
    return {
        "minutes": round(samples[-1]["at"] / 60, 1) if samples else 0.0,
        "words": words,
        "rounds": len(rounds),
        "bytes_a_round": round(sum(rounds) / max(len(rounds), 1)),
        "bytes_of_the_largest": max(rounds, default=0),
        "bytes_at_most": ROUND_BYTES,
        "trace_mib": round(sum(rounds) / 2**20, 2),
        "memory": samples,
        "frames": [json.loads(line) for line in lines],
    }


def growth(samples: list[dict[str, float]], key: str) -> float:
    """MiB in ten minutes, by a straight line through what was seen after the first sixth."""
    seen = samples[len(samples) // 6 :]
    if len(seen) < 2:
        return 0.0
    return float(np.polyfit([s["at"] / 600 for s in seen], [s[key] for s in seen], 1)[0])


def told(report: dict[str, Any], picture: str) -> str:
    """The report in words."""
    samples, frames = report["memory"], report["frames"]
    lines = [
        "# A long live run",
        "",
        f"{report['minutes']:g} minutes of the real window and engine"
        f" (`main.py {' '.join(report['words'])}`), prompt after prompt, on a virtual display.",
        *(["", f"**{report['ended']}**"] if "ended" in report else []),
        "",
        f"![Memory and frame times]({picture})",
        "",
        "| memory | at a sixth | at the end | growth in ten minutes |",
        "|---|---|---|---|",
    ]
    for name, key in (("window", "window_mib"), ("engine", "engine_mib")) if samples else ():
        early, last = samples[len(samples) // 6][key], samples[-1][key]
        lines.append(f"| {name} | {early} MiB | {last} MiB | {growth(samples, key):+.1f} MiB |")
    lines += [
        "",
        f"{report['rounds']} rounds took {report['bytes_a_round']} bytes each on average in their"
        f" run files and {report['bytes_of_the_largest']} at most, {report['trace_mib']} MiB in"
        f" all; a round may take {report['bytes_at_most']}.",
        "",
        "| milliseconds | median minute | worst minute |",
        "|---|---|---|",
    ]
    for name, key in (
        (
            ("from picture to picture, p50", "interval_p50"),
            ("from picture to picture, p99", "interval_p99"),
            ("our side of a picture, p50", "ours_p50"),
            ("our side of a picture, p99", "ours_p99"),
        )
        if frames
        else ()
    ):
        values = [each[key] for each in frames]
        lines.append(f"| {name} | {median(values):.1f} | {max(values):.1f} |")
    return "\n".join(lines) + "\n"


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
    options.out.parent.mkdir(parents=True, exist_ok=True)

    def write(report: dict[str, Any]) -> None:
        text = json.dumps(report, indent=1)
        options.out.with_suffix(".json").write_text(text, encoding="utf-8")
        picture = options.out.with_suffix(".png")
        drawn(report).quantize(32).save(picture, optimize=True)
        words_ = told(report, picture.name)
        options.out.with_suffix(".md").write_text(words_, encoding="utf-8")

    if not options.here and missing_tools():
        raise SystemExit(f"This machine lacks {', '.join(missing_tools())}.")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        if options.here:
            display_name = os.environ.get("DISPLAY", "")
            report = watched(display_name, options.minutes, data, words, write)
        else:
            display = Display(tuple(map(int, options.size.split("x"))))
            try:
                wait_for("the display", lambda: display.name)
                report = watched(display.name, options.minutes, data, words, write)
            finally:
                display.close()
    write(report)
    print(told(report, options.out.with_suffix(".png").name))
    if "ended" in report:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
