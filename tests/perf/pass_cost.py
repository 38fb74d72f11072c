"""What a pass costs on this CPU, and what it must cost at least: a report, never an assertion.

    python tests/perf/pass_cost.py [--threads N] [--context N] [--busy] [FORM ...]

For each form of the weights (full, int8, q4_1, or a copy of the ladder): the bytes a pass reads,
the time that takes at the rate this very process streams memory with the same threads, and how
near passes of 1 to 9 positions come to it, or to the rate of multiply-adds where that binds. Then
where the time goes. Everything is the best of many interleaved tries. On a machine with other
work to do, --busy counts the processor time of one thread in the place of wall time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from engine import fetch, kernels
from engine.arguments import WEIGHTS
from engine.devices import usable_cores
from engine.gguf_model import NoBlocksError, read_blocks
from engine.llama import LlamaConfig, Runner, Weights
from engine.lowbit import LADDER, Codes, Width, copy_of

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9)
SPLIT_WIDTHS = (1, 5, 9)
MATRICES = ("qkv", "output", "gate_up", "down", "head")
READ_BLOCK = 1 << 18  # floats one task of the streaming read adds up
REPEATS = 4000

Job = Callable[[], Any]


class Idle(kernels.Team):
    """Does no pass at all: what is left of a forward is the host's side."""

    def run(self, job: Callable[[int], None]) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("forms", nargs="*", metavar="FORM", help=f"{WEIGHTS} or {tuple(LADDER)}")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--context", type=int, default=100)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--busy", action="store_true")
    options = parser.parse_args()
    threads = 1 if options.busy else options.threads or usable_cores()
    clock = time.thread_time if options.busy else time.perf_counter
    torch.set_num_threads(1)
    chosen = kernels.choose("cpu", torch.float32, threads)
    assert chosen.team is not None, chosen.name
    full = Weights.load(fetch.fetch())
    limits = Limits(chosen.team, full)
    runners = {
        form: chosen.runner(weights, 2048)
        for form in options.forms or (*WEIGHTS, "copy-4g64")
        if (weights := weights_of(form, full)) is not None
    }
    jobs: dict[Any, Job] = {"read": limits.read, "multiply": limits.multiply}
    for form, runner in runners.items():
        runner.forward([5] * (options.context + max(WIDTHS)))
        jobs |= jobs_of(form, runner, options.context)
    best = dict.fromkeys(jobs, float("inf"))
    for turn in range(options.tries + 2):
        for name, job in jobs.items():
            started = clock()
            job()
            if turn > 1:
                best[name] = min(best[name], clock() - started)
    rate, peak = limits.bytes_read / best["read"], limits.multiplied / best["multiply"]
    print(f"{chosen.name}, {options.context} tokens of context, best of {options.tries}, ", end="")
    print("processor time of one thread" if options.busy else "wall time")
    print(f"streaming read {rate / 1e9:.1f} GB/s, products of cached data {peak / 1e9:.0f} GFLOP/s")
    for form, runner in runners.items():
        report(form, runner, best, rate, peak)


def report(form: str, runner: Runner, best: dict[Any, float], rate: float, peak: float) -> None:
    """Print one form's tables."""
    size, products = size_of(runner.weights), products_of(runner.weights)
    alone = best[form, "pass", 1]
    print(f"\n{form}: {size / 1e6:.0f} MB a pass, {1 / alone:.1f} tokens/s one by one")
    print("positions      " + "".join(f"{width:7}" for width in WIDTHS))
    times = [best[form, "pass", width] for width in WIDTHS]
    bounds = [max(size / rate, 2 * products * width / peak) for width in WIDTHS]
    _row("ms", [1e3 * each for each in times], ".2f")
    _row("in passes of 1", [each / alone for each in times], ".2f")
    _row("bound, ms", [1e3 * each for each in bounds], ".2f")
    _row("% of bound", [100 * low / each for low, each in zip(bounds, times, strict=True)], ".0f")
    print("of which, ms   " + "".join(f"{width:7}" for width in SPLIT_WIDTHS))
    split = {name: [best[form, name, width] for width in SPLIT_WIDTHS] for name in MATRICES}
    times = [best[form, "pass", width] for width in SPLIT_WIDTHS]
    starts = [best[form, "from the start", width] for width in SPLIT_WIDTHS]
    split["attention"] = [late - early for late, early in zip(times, starts, strict=True)]
    split["host"] = [best[form, "host", width] for width in SPLIT_WIDTHS]
    rest = np.array(times) - np.sum(list(split.values()), axis=0)
    for name, seconds in (split | {"norms, gates …": rest}).items():
        _row(name, [1e3 * each for each in seconds], ".2f")


def _row(label: str, numbers: Sequence[float], form: str) -> None:
    print(f"{label:15}" + "".join(f"{each:7{form}}" for each in numbers))


def weights_of(form: str, full: Weights) -> Weights | None:
    """The default target in one form; None, and a line, where this cache does not hold it."""
    if form == "full":
        return full
    if form == "int8":
        return copy_of(full, Width(8))
    if form in LADDER:
        return copy_of(full, LADDER[form])
    folder = fetch.fetch()
    try:
        return Weights.from_tensors(LlamaConfig.from_folder(folder), read_blocks(folder))
    except NoBlocksError as error:
        print(error)
        return None


def jobs_of(form: str, runner: Runner, context: int) -> dict[Any, Job]:
    """Everything that is timed of one form, by (form, part, positions)."""
    kernel = runner.kernel
    assert isinstance(kernel, kernels.RowKernel), kernel.name
    idle = Runner(
        runner.weights, 2048, kernels.RowKernel(runner.weights, 2048, Idle(1)), runner.cache
    )

    def forward(runner: Runner, start: int, width: int) -> None:
        runner.adopt(start)
        runner.forward([5] * width)

    jobs: dict[Any, Job] = {}
    for width in WIDTHS:
        jobs[form, "pass", width] = partial(forward, runner, context, width)
    for width in SPLIT_WIDTHS:
        jobs[form, "from the start", width] = partial(forward, runner, 0, width)
        jobs[form, "host", width] = partial(forward, idle, 0, width)
        for name in MATRICES:
            matrix = kernel._head if name == "head" else getattr(kernel._matrices, name)
            shape = getattr(runner.weights, name).shape
            jobs[form, name, width] = products_alone(kernel._team, matrix, shape, width)
    return jobs


def products_alone(team: kernels.Team, matrix: Any, shape: torch.Size, width: int) -> Job:
    """The products of every layer of one matrix, one after the other."""
    head_pass = kernels._rowpass().head_pass
    x = np.ones((width, shape[-1]), np.float32)
    out = np.empty((width, shape[-2]), np.float32)

    def run() -> None:
        for layer in range(len(matrix[0])):
            counters = team.counters(1)
            team.run(
                lambda thread, layer=layer, counters=counters: head_pass(
                    thread, *counters, matrix, layer, x, out
                )
            )

    return run


class Limits:
    """What memory and arithmetic of this machine allow the same threads."""

    def __init__(self, team: kernels.Team, weights: Weights) -> None:
        kernels._rowpass()
        from numba import njit

        from engine.tiles import HEIGHT, dot_tile, fetch, fetch_add

        @njit(nogil=True, fastmath=True)
        def stream(tickets, finished, data, sums):  # type: ignore[no-untyped-def]
            tasks = len(data) // READ_BLOCK
            task = fetch_add(tickets, 0)
            while task < tasks:
                total = np.float32(0)
                block = data[task * READ_BLOCK : (task + 1) * READ_BLOCK]
                for k in range(len(block)):
                    total += block[k]
                sums[task] = total
                fetch_add(finished, 0)
                task = fetch_add(tickets, 0)
            while fetch(finished, 0) < tasks:
                pass

        @njit(nogil=True)
        def multiply(weight, x, out):  # type: ignore[no-untyped-def]
            for _ in range(REPEATS):
                dot_tile(HEIGHT, 5, weight, 0, 0, x, 0, out, 0, -1)

        self._team = team
        self._stream, self._multiply = stream, multiply
        self._data = weights.gate_up.numpy().reshape(-1)
        self._sums = np.empty(len(self._data) // READ_BLOCK, np.float32)
        self._weight = (np.ones((1, HEIGHT, 576), np.float32),)
        self._x = np.ones((5, 576), np.float32)
        self._outs = [np.empty((5, HEIGHT), np.float32) for _ in range(team.threads)]
        self.bytes_read = 4 * READ_BLOCK * len(self._sums)
        self.multiplied = 2 * HEIGHT * 5 * 576 * REPEATS * team.threads

    def read(self) -> None:
        counters = np.zeros((2, 1), np.int64)
        self._team.run(lambda _: self._stream(*counters, self._data, self._sums))

    def multiply(self) -> None:
        """As many products on every thread; they take the same time."""
        self._team.run(lambda thread: self._multiply(self._weight, self._x, self._outs[thread]))


def size_of(weights: Weights) -> int:
    """Bytes of weights that one pass reads."""
    matrices = (getattr(weights, name) for name in MATRICES)
    parts = (each.parts if isinstance(each, Codes) else (each,) for each in matrices)
    return sum(part.nbytes for of_one in parts for part in of_one)


def products_of(weights: Weights) -> int:
    """Multiply-adds of one position's products."""
    return sum(getattr(weights, name).shape.numel() for name in MATRICES)


if __name__ == "__main__":
    main()
