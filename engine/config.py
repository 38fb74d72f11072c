"""How an engine is set up, and which settings a run may have. Standard library only."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine import arguments
from engine.trace import Settings


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Which target, where and in what precision. "auto" is decided when the engine opens.

    `target` is a model folder, None the default target; `threads` None leaves one core to
    whoever draws. `weights` is the form of the target's weights (see `arguments.WEIGHTS`).
    `replies` is the folder where earlier replies are remembered; None: nothing is. `drafters` is
    that of the trained drafters; None: the shipped ones, where the target is the default one.
    """

    target: Path | None = None
    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None
    weights: str = arguments.WEIGHTS[0]
    replies: Path | None = None
    drafters: Path | None = None

    @classmethod
    def of(cls, args: argparse.Namespace) -> EngineConfig:
        """Take the engine's options from a parsed command line."""
        return cls(
            args.target, args.device, args.dtype, args.threads, args.weights, drafters=args.drafters
        )


def from_arguments(argv: Sequence[str] | None = None) -> EngineConfig:
    """Parse the options of ``python -m engine``. Exits with code 2 on wrong use."""
    parser = arguments.Parser(prog="python -m engine")
    arguments.add_engine(parser)
    parser.add_argument("--replies", type=Path, metavar="FOLDER", help="remember replies there")
    args = parser.parse_args(argv)
    return replace(EngineConfig.of(args), replies=args.replies)


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings that the options of `arguments.add_settings` ask for."""
    return Settings(
        drafter=args.drafter,
        k=Settings().k if args.k == arguments.AUTO else args.k,
        quality=args.quality,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        speculative=args.drafter != "none",
        repetition_penalty=args.repetition_penalty,
        auto_k=args.k == arguments.AUTO,
        min_p=args.min_p,
        longest_match=args.match[-1],
        shortest_match=args.match[0],
    )


def check(settings: Settings) -> Settings:
    """Return `settings`. Raises ValueError, one clear sentence, when no run can have them."""
    s = settings
    if not 0 <= s.k <= arguments.MAX_K:
        raise ValueError(f"k must be 0 to {arguments.MAX_K} guesses per round, not {s.k}.")
    if not 0 <= s.quality <= 100:
        raise ValueError(f"Draft quality must be 0 to 100 percent, not {s.quality:g}.")
    if not (math.isfinite(s.temperature) and s.temperature >= 0):
        raise ValueError(f"Temperature must be a number from 0 up, not {s.temperature:g}.")
    if s.top_k < 0:
        raise ValueError(f"Top-k must be 0 (no limit) or more, not {s.top_k}.")
    if not 0 < s.top_p <= 1:
        raise ValueError(f"Top-p must be above 0 and at most 1, not {s.top_p:g}.")
    if not (math.isfinite(s.repetition_penalty) and s.repetition_penalty > 0):
        raise ValueError(
            f"Repetition penalty must be a number above 0 (1: none), not {s.repetition_penalty:g}."
        )
    if not 0 <= s.min_p <= 1:
        raise ValueError(f"Min-p must be 0 (no limit) to 1, not {s.min_p:g}.")
    if not 1 <= s.shortest_match <= s.longest_match <= arguments.LONGEST_MATCH:
        raise ValueError(
            f"Matches must rise, between 1 and {arguments.LONGEST_MATCH} tokens, "
            f"not {s.shortest_match} to {s.longest_match}."
        )
    return s
