"""The command line's options: their names, their limits and what each one means.

Shared by `main.py` and ``python -m engine``, so that a number is refused in the same words
everywhere. Knows argparse and the run's vocabulary only. Standard library only.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn

from engine.trace import Settings

PRESETS = {
    "draft": (640, 360, 30),
    "720p30": (1280, 720, 30),
    "1080p60": (1920, 1080, 60),
    "4k60": (3840, 2160, 60),
}
"""Video presets: width, height, frames a second."""

SMALLEST_SIDE, LARGEST_SIDE = 64, 8192
"""Pixels of a video: what panels still fit into, and what every graphics driver can draw."""

MAX_K = 16

LONGEST_MATCH = 16
"""Tokens of a match that n-gram can be asked to look up."""

WEIGHTS = ("full", "int8", "q4_1")
"""Forms of a target's weights."""

Auto = Literal["auto"]
AUTO: Auto = "auto"
"""In place of a number of guesses: the engine chooses (see `engine.adapt`)."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence instead of repeating the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def number(
    kind: type[int] | type[float], low: float, high: float = math.inf, *, above: bool = False
) -> Callable[[str], Any]:
    """An argparse type: a finite number from `low` (`above`: more than `low`) to `high`."""

    least = f"more than {low:g}" if above else f"{low:g}"
    if high == math.inf:
        limits = least if above else f"{least} or more"
    else:
        limits = f"{least} and at most {high:g}" if above else f"from {least} to {high:g}"
    wanted = f"must be {'a whole number' if kind is int else 'a number'} {limits}"

    def parse(text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{wanted}, not {text!r}") from None
        in_range = low < value <= high if above else low <= value <= high
        if not (math.isfinite(value) and in_range):
            raise argparse.ArgumentTypeError(f"{wanted}, not {text!r}")
        return value

    return parse


def size(text: str) -> tuple[int, int]:
    """An argparse type: ``1280x720`` as (1280, 720)."""
    match = re.fullmatch(r"(\d{2,5})[xX](\d{2,5})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"must look like 1280x720, not {text!r}")
    sides = int(match[1]), int(match[2])
    if not all(SMALLEST_SIDE <= side <= LARGEST_SIDE for side in sides):
        raise argparse.ArgumentTypeError(
            f"must have sides from {SMALLEST_SIDE} to {LARGEST_SIDE}, not {text!r}"
        )
    return sides


def guesses(text: str) -> int | Auto:
    """An argparse type: a number of guesses per round, or ``auto``."""
    return AUTO if text == AUTO else int(number(int, 0, MAX_K)(text))


def span(text: str) -> tuple[int | Auto, ...]:
    """An argparse type: ``1..8``, ``auto,2,4`` or ``4`` as the numbers of guesses they name."""
    if ".." not in text:
        return tuple(guesses(part) for part in text.split(","))
    return _rising(text, number(int, 0, MAX_K))


def match(text: str) -> tuple[int, ...]:
    """An argparse type: ``2..5`` or ``3`` as the lengths of match they name."""
    return _rising(text, number(int, 1, LONGEST_MATCH))


def _rising(text: str, single: Callable[[str], int]) -> tuple[int, ...]:
    first, _, last = text.partition("..")
    low, high = single(first), single(last or first)
    if low > high:
        raise argparse.ArgumentTypeError(f"must rise, as in 1..8, not {text!r}")
    return tuple(range(low, high + 1))


def some_text(text: str) -> str:
    """An argparse type: any text but none."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty: write something for the model to answer")
    return text


def add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--verbose", action="store_true", help="show tracebacks and the engine log")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Options that choose the target and how it is computed."""
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--target", type=Path, metavar="FOLDER", help="a model folder in place of the default one"
    )
    group.add_argument(
        "--drafters",
        type=Path,
        metavar="FOLDER",
        help="trained drafters in place of the shipped ones (see docs/training.md)",
    )
    group.add_argument("--device", choices=("auto", "cuda", "mps", "cpu"), default="auto")
    group.add_argument(
        "--dtype",
        choices=("auto", "float32", "bfloat16", "float16"),
        default="auto",
        help="float32 on CUDA is exact: a greedy text is the target's own to the bit, and a tree's "
        "branch that passes is checked once more, as a chain",
    )
    group.add_argument(
        "--weights",
        choices=WEIGHTS,
        default=WEIGHTS[0],
        help="the target's weights in full (default), rounded to 8 bits, or the default target's "
        "own 4-bit blocks; quantised ones run on the CPU in float32",
    )
    group.add_argument(
        "--threads",
        type=number(int, 1, 1024),
        metavar="N",
        help="CPU threads (default: all cores but the one a window needs)",
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Options of one run."""
    default = Settings()
    group = parser.add_argument_group("decoding")
    add = group.add_argument
    add("--drafter", default=default.drafter, metavar="D", help='who guesses; "none": nobody')
    add(
        "--k",
        type=guesses,
        default=default.k,
        metavar="N",
        help=f"guesses per round, 0..{MAX_K}, or auto: as many as pay (default {default.k})",
    )
    add(
        "--quality",
        type=number(float, 0, 100),
        default=default.quality,
        metavar="PERCENT",
        help="draft quality, 0..100 (default 100)",
    )
    add(
        "--temperature",
        type=number(float, 0, 100),
        default=default.temperature,
        metavar="T",
        help="0 (default) takes the likeliest token",
    )
    add_sampling(group)
    add("--seed", type=number(int, 0, 2**63 - 1), default=0, metavar="N")
    add("--max-new-tokens", type=number(int, 0), default=200, metavar="N")


def add_sampling(group: argparse._ActionsContainer) -> None:
    """Options of the law that tokens are drawn from, apart from its temperature; of lookups."""
    default, add = Settings(), group.add_argument
    add("--top-k", type=number(int, 0), default=default.top_k, metavar="N", help="0: no limit")
    add(
        "--top-p",
        type=number(float, 0, 1, above=True),
        default=default.top_p,
        metavar="SHARE",
        help="1: no limit",
    )
    add(
        "--min-p",
        type=number(float, 0, 1),
        default=default.min_p,
        metavar="SHARE",
        help="of the likeliest token's probability; what has less is never drawn (default 0)",
    )
    add(
        "--repetition-penalty",
        type=number(float, 0, 100, above=True),
        default=default.repetition_penalty,
        metavar="R",
        help="above 1 makes tokens of the text so far less likely (default 1)",
    )
    add(
        "--match",
        type=match,
        default=(default.shortest_match, default.longest_match),
        metavar="2..5",
        help="tokens that the drafter n-gram looks up, longest first (default 2..5)",
    )


def add_memory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-remember",
        dest="remember",
        action="store_false",
        help="neither look up replies to earlier prompts nor keep this one's",
    )


def add_prompt(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--prompt", type=some_text, required=required, metavar="TEXT")
    parser.add_argument("--raw", action="store_true", help="go on from the text: no chat turn")


def add_window(parser: argparse.ArgumentParser) -> None:
    add_profile(parser)
    add_settings(parser)
    add_memory(parser)
    add_engine(parser)


def add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN.jsonl")
    add_profile(parser)


def add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", action="store_true", help="show what pictures take")
    parser.add_argument(
        "--profile-to", type=Path, metavar="FILE", help="and write it there, a JSON line a minute"
    )


def add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--frames", action="store_true", help="draw pictures and say what they take"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def add_run(parser: argparse.ArgumentParser) -> None:
    add_prompt(parser, required=True)
    add_settings(parser)
    add_memory(parser)
    add_engine(parser)
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end there")
    parser.add_argument("--trace", type=Path, metavar="F", help="write the run file there")
    parser.add_argument(
        "--check",
        action="store_true",
        help="then run the target alone too, and say whether it writes the same",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def add_prove(parser: argparse.ArgumentParser) -> None:
    add_prompt(parser, required=False)
    add_settings(parser)
    add_engine(parser)
    parser.add_argument(
        "--samples",
        type=number(int, 1),
        metavar="N",
        help="with a temperature: continuations sampled each way",
    )


def add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="X.mp4")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--run", type=Path, metavar="RUN.jsonl", help="a recorded run")
    source.add_argument("--prompt", type=some_text, metavar="TEXT", help="a live run")
    parser.add_argument("--raw", action="store_true", help="go on from the text: no chat turn")
    parser.add_argument("--scene", default="full-loop", metavar="NAME")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="720p30")
    parser.add_argument("--size", type=size, metavar="WxH", help="in place of the preset's")
    parser.add_argument("--fps", type=number(int, 1, 240), metavar="N")
    parser.add_argument("--seconds", type=number(float, 0, above=True), metavar="S")
    parser.add_argument(
        "--require-gpu", action="store_true", help="fail rather than draw with the processor"
    )
    parser.add_argument(
        "--gpu",
        type=number(int, 0),
        metavar="N",
        help="the graphics device that draws, where there are several (see `doctor`)",
    )
    parser.add_argument("--alpha", action="store_true", help="transparent background (.mov, .webm)")
    add_settings(parser)
    add_engine(parser)


def add_fetch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pair", nargs="?", metavar="PAIR", help="in place of the default target")
    parser.add_argument("--again", action="store_true", help="even if it is there already")


def add_bench(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--pair", metavar="PAIR", help="a target as `fetch` knows it, in place of the default one")
    add("--drafter", action="append", default=[], metavar="D", help="again for more (default: all)")
    add("--k", type=span, default=(2, 4, 6), metavar="1..8", help="or auto,2,4 (default 2,4,6)")
    add(
        "--quality",
        type=number(float, 0, 100),
        nargs="+",
        default=[100.0],
        metavar="PERCENT",
        help="one or more (default 100)",
    )
    add(
        "--temperature",
        type=number(float, 0, 100),
        nargs="+",
        default=[0.0],
        metavar="T",
        help="one or more (default 0)",
    )
    add_sampling(parser)
    add(
        "--prompts",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="texts with a prompt a line (a line “# name” names their family), or .jsonl",
    )
    add("--max-new-tokens", type=number(int, 8), default=64, metavar="N")
    add(
        "--against",
        nargs="+",
        choices=("transformers", "flashspec", "llama.cpp"),
        default=[],
        metavar="ENGINE",
        help="transformers, flashspec, llama.cpp: the same weights by others, in the same run",
    )
    add("--gguf", type=Path, metavar="FILE", help="the weights for llama.cpp")
    add("--json", type=Path, metavar="F", help="write every figure there, as they come")
    add("--csv", type=Path, metavar="F", help="the table as CSV")
    add_engine(parser)
