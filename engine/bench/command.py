"""``main.py bench``: a sweep as the command line asks for it, printed and kept.

What can be refused is refused before a model is loaded or anything is measured: prompts,
settings, files that cannot be written, engines that are not installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from engine import fetch
from engine.arguments import AUTO
from engine.bench import figures, report, rivals, sweep, texts
from engine.bench.rivals import Rival, Setting
from engine.bench.sweep import Sweep
from engine.bench.texts import Text
from engine.terminal import Progress
from engine.trace import Settings

if TYPE_CHECKING:
    from engine.assembly import Engine

INTERRUPTED = 130
EVERY = "all"


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for, as far as it can be known without a model."""

    texts: list[Text]
    drafters: list[str]
    args: argparse.Namespace


def read(args: argparse.Namespace) -> Order:
    """Check everything that can be checked. Raises ValueError or OSError, one clear sentence."""
    prompts = texts.load(args.prompts or [])
    for path in (args.json, args.csv):
        if path is not None:
            _check_writable(path)
    if (problem := rivals.missing(args.against, args.gguf)) is not None:
        raise ValueError(problem)
    if args.against and args.weights == "int8":
        raise ValueError("Nobody else has our int8 weights: compare without --weights, or q4_1.")
    if args.against and args.repetition_penalty != 1:
        raise ValueError("The others run without a penalty: compare without --repetition-penalty.")
    return Order(prompts, [name for name in args.drafter if name != EVERY], args)


def _check_writable(path: Path) -> None:
    """Raise OSError when the file cannot be written; leave everything as it was."""
    is_new = not path.exists()
    path.open("a", encoding="utf-8").close()
    if is_new:
        path.unlink()


def main(engine: Engine, order: Order) -> int:
    """Sweep, print the tables and the advice, write the files.

    Returns 0, 1 when a greedy text was not the target's own, 130 when interrupted; what was
    measured until then is printed and written all the same.
    """
    args = order.args
    settings = combinations(engine, order)
    others = _others(engine, args)
    about = _about(engine, order)

    def keep(measured: Sweep) -> None:
        _write(measured, about, args)

    planned = sweep.plan(engine, order.texts, settings, others)
    with _steps(planned) as step:
        measured = sweep.measure(planned, args.max_new_tokens, step, keep)
    lines = figures.lines_of(measured)
    if not lines:
        print("Interrupted before anything was measured.", file=sys.stderr)
        return INTERRUPTED
    if shaped := _shape_words(_sampling(args)):
        print(f"Everybody with {shaped}.")
    report.show(lines, figures.rival_lines(measured), report.console_for(sys.stdout))
    if any(line.drafter != "none" and line.speedup is not None for line in lines):
        print(report.advice(lines))
    keep(measured)
    if measured.interrupted:
        done = min((line.prompts for line in lines), default=0)
        print(f"Interrupted: {done} of {len(order.texts)} prompts by everyone.", file=sys.stderr)
        return INTERRUPTED
    return 1 if any(line.same_text is False for line in lines) else 0


def combinations(engine: Engine, order: Order) -> list[Settings]:
    """Every setting of the sweep. Raises ValueError for one that no run can have."""
    args = order.args
    shape = _sampling(args)
    found = [
        replace(
            shape,
            drafter=drafter,
            k=Settings().k if k == AUTO else k,
            auto_k=k == AUTO,
            quality=quality,
            temperature=temperature,
        )
        for temperature, drafter, k, quality in product(
            args.temperature, order.drafters or _usable(engine), args.k, args.quality
        )
    ]
    for settings in found:
        engine.check(settings)
    return found


def _usable(engine: Engine) -> list[str]:
    """All drafters there are; says which of them cannot be had."""
    found = []
    for name in engine.drafters:
        try:
            engine.check(Settings(drafter=name))
            found.append(name)
        except ValueError as refusal:
            print(f"Left out: {refusal}", file=sys.stderr)
    return [name for name in found if name not in ("auto", "none")]


def _sampling(args: argparse.Namespace) -> Settings:
    """What all of a sweep have in common."""
    return Settings(
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        longest_match=args.match[-1],
        shortest_match=args.match[0],
    )


def _shape_words(common: Settings) -> str:
    """What all of a sweep have in common, where it is not the usual."""
    usual = Settings()
    words = (
        (f"top-k {common.top_k}", common.top_k == usual.top_k),
        (f"top-p {common.top_p:g}", common.top_p == usual.top_p),
        (f"min-p {common.min_p:g}", common.min_p == usual.min_p),
        (
            f"repetition penalty {common.repetition_penalty:g}",
            common.repetition_penalty == usual.repetition_penalty,
        ),
    )
    return ", ".join(word for word, plain in words if not plain)


def _others(engine: Engine, args: argparse.Namespace) -> list[Rival]:
    if not args.against:
        return []
    print("Loading the other engines", file=sys.stderr)
    shipped = Path(__file__).resolve().parents[2] / "assets" / "drafters"
    small = (args.drafters or shipped) / "small"
    fits = small.is_dir() if args.drafters else args.target is None  # for which it was made
    folder = args.target or fetch.cached_folder()
    if folder is None:
        raise ValueError("The target's folder is not known: fetch it first.")
    machine = engine.machine
    setting = Setting(
        target=folder,
        small=small if fits else None,
        gguf=args.gguf,
        device=machine.device,
        # Q4_1 blocks mean the very numbers that full weights hold: others compute with those.
        dtype=getattr(torch, machine.dtype) if args.weights == "full" else torch.float32,
        threads=machine.threads,
    )
    return rivals.rivals(args.against, setting)


def _about(engine: Engine, order: Order) -> dict[str, Any]:
    return {
        "target": engine.name,
        "machine": asdict(engine.machine),
        "max_new_tokens": order.args.max_new_tokens,
        "top_k": order.args.top_k,
        "top_p": order.args.top_p,
        "min_p": order.args.min_p,
        "repetition_penalty": order.args.repetition_penalty,
        "match": [order.args.match[0], order.args.match[-1]],
        "prompts": [asdict(text) for text in order.texts],
    }


def _write(measured: Sweep, about: dict[str, Any], args: argparse.Namespace) -> None:
    """Write down what is known so far: a sweep that is broken off has cost its time already."""
    lines = figures.lines_of(measured)
    if args.json is not None:
        about = about | {"interrupted": measured.interrupted}
        report.write_json(args.json, report.as_json(about, lines, figures.rival_lines(measured)))
    if args.csv is not None:
        report.write_csv(args.csv, lines)


@contextmanager
def _steps(planned: Sweep) -> Iterator[Any]:
    """What takes the words of each turn: a bar on a terminal, else a line a second."""
    if not sys.stderr.isatty():
        with Progress() as progress:
            yield lambda words: progress.say("sweep", words)
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        total = planned.turns + len(planned.contenders)
        task, done = bar.add_task("", total=total), count()
        yield lambda words: bar.update(task, completed=next(done), description=words)
