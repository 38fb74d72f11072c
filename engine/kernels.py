"""How a model's arithmetic is done on this machine, chosen once and named.

On a CPU in float32 the passes of `rowpass` are used: compiled by numba, shared by a small team
of threads, exact to the bit whatever the width of a pass. On CUDA stock torch operations are
recorded once and replayed (`graphs`). Everywhere else, and where those do not work, stock torch
operations do it.

Knows machines and shapes, nothing of drafting.
"""

from __future__ import annotations

import atexit
import hashlib
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from engine import devices
from engine.desk import Desk
from engine.fetch import cache_root
from engine.graphs import CudaGraphs, GraphKernel, Recorder
from engine.llama import Branches, Cache, Runner, TorchKernel, Weights, rope_table
from engine.lowbit import Codes
from engine.trace import Settings

MAX_ROWS = 32
"""Most rows of one compiled pass; longer feeds are cut into such passes."""

_FAREWELL = 1.0
"""Seconds the end of the program waits for a helper's last pass."""

_prepared: set[tuple[Any, ...]] = set()
"""Forms of weights whose machine code this process has."""


class Team:
    """Threads that share one job: the caller and `threads` - 1 helpers, parked between jobs."""

    def __init__(self, threads: int) -> None:
        self.threads = max(1, threads)
        self._boxes: list[SimpleQueue[Callable[[int], None] | None]] = []
        self._helpers: list[threading.Thread] = []
        for number in range(1, self.threads):
            box: SimpleQueue[Callable[[int], None] | None] = SimpleQueue()
            helper = threading.Thread(target=self._serve, args=(box, number), daemon=True)
            self._boxes.append(box)
            self._helpers.append(helper)
            helper.start()
        atexit.register(self.dismiss)

    def dismiss(self) -> None:
        """Let the helpers go; the team does no more jobs.

        An interpreter that ends while one of them is on its way back from compiled code would take
        the process down with it.
        """
        for box in self._boxes:
            box.put(None)
        for helper in self._helpers:
            helper.join(_FAREWELL)
        self._boxes.clear()

    def run(self, job: Callable[[int], None]) -> None:
        """Call ``job(number)`` on every thread; return when the caller's own call does.

        A job shares its work so that the caller's call returns only once all of it is done;
        a helper that wakes late finds nothing left.
        """
        for box in self._boxes:
            box.put(job)
        job(0)

    def counters(self, stages: int) -> tuple[Any, Any]:
        """Of a job in so many stages: tickets (stages, threads), tasks finished (stages)."""
        return np.zeros((stages, self.threads), np.int64), np.zeros(stages, np.int64)

    @staticmethod
    def _serve(box: SimpleQueue[Callable[[int], None] | None], number: int) -> None:
        while (job := box.get()) is not None:
            job(number)


@dataclass(frozen=True, slots=True)
class Kernels:
    """The chosen way: makes the kernel of each model that runs here."""

    name: str
    team: Team | None = None  # of the compiled passes
    record: Recorder | None = None  # neither: stock torch

    def runner(self, weights: Weights, context: int, same_bits: bool = False) -> Runner:
        """A runner of `weights` by these kernels, for sequences of at most `context` tokens.

        With `same_bits` a float32 row has the same bits in passes of every width, if these
        kernels can do that: what a target wants, at a price a drafter need not pay.
        """
        context = min(context, weights.config.context)
        kernel = self.kernel(weights, context, same_bits)
        if not isinstance(kernel, GraphKernel):
            return Runner(weights, context, kernel)
        runner = Runner(weights, context, kernel, kernel.new_cache())
        kernel.record_all(runner.cache)
        return runner

    def name_of(self, runner: Runner, desk: Desk | None = None) -> str:
        """What really computes a runner: what could not be recorded says why."""
        kernel = runner.kernel
        if isinstance(kernel, GraphKernel) and kernel.trouble:
            return kernel.name
        if desk is not None and desk.trouble:
            return f"{self.name} (but rounds cannot be recorded: {desk.trouble})"
        return self.name

    def desk(self, weights: Weights, unigram: Tensor) -> Desk | None:
        """Where rounds of this target stay until they are decided; None where nobody would wait.

        `unigram` (V,) is the law of the quality dial, on the device.
        """
        like = weights.embedding
        if self.record is None and like.device.type != "cuda":
            return None
        desk = Desk(unigram, torch.promote_types(like.dtype, torch.float32), self.record)
        desk.begin(Settings(), ())  # recorded before it is needed
        return desk

    def kernel(
        self, weights: Weights, context: int, same_bits: bool = False
    ) -> RowKernel | TorchKernel | GraphKernel:
        """The kernel alone, `same_bits` as for `runner`."""
        if self.record is not None:
            exact = same_bits and weights.embedding.dtype == torch.float32
            return GraphKernel(weights, context, self.record, exact)
        if self.team is not None and suits_rows(weights):
            return RowKernel(weights, context, self.team)
        return TorchKernel(weights, context)


def choose(device: str, dtype: torch.dtype, threads: int) -> Kernels:
    """The best kernels for a device and precision; the name says why when it is stock torch.

    "exact" in it promises a greedy text that is the target's own to the bit: the same row has the
    same bits in passes of every width. Stock torch promises no more than equality up to rounding.
    Compiled passes must first do a small forward as torch does it. Making their code, which takes
    a while on a machine new to it, happens here.
    """
    if device == "cuda":
        return recorded(device, dtype, CudaGraphs)
    if device != "cpu" or dtype != torch.float32:
        return Kernels("torch")
    problem = _trouble("cpu", torch.float32, lambda: Kernels("", Team(1)))
    if problem is not None:
        return Kernels(f"torch (numba does not work here: {problem})")
    count = f"{threads} thread{'s' if threads > 1 else ''}"
    return Kernels(f"numba rows, exact, {count}", Team(threads))


def recorded(device: str, dtype: torch.dtype, recorder: Callable[[], Recorder]) -> Kernels:
    """Recorded passes, if they work on `device`, else stock torch.

    A model that cannot be recorded after all, for want of memory say, has passes of stock torch
    (see `Kernels.name_of`). "exact" says that a greedy text is the target's own to the bit, as
    long as guesses are chains (see `graphs`); "fast" that it may part from it where two tokens
    are equally likely up to rounding.
    """
    torch.set_float32_matmul_precision("highest")  # else float32 products are made in TF32
    problem = _trouble(device, dtype, lambda: Kernels("", record=recorder()))
    if problem is not None:
        return Kernels(f"torch (CUDA graphs do not work here: {problem})")
    exact = "exact (of a tree, the branch that passes is checked twice)"
    mode = exact if dtype == torch.float32 else "fast"
    return Kernels(f"CUDA graphs, {mode}", record=recorder())


def _trouble(device: str, dtype: torch.dtype, make: Callable[[], Kernels]) -> str | None:
    """Why the kernels that `make` gives cannot be used, in a few words, or None."""
    try:
        found = devices.smoke_logits(device, dtype, make().runner)
    except Exception as error:  # a broken numba can raise anything, at import or when compiling
        first_line = str(error).strip().partition("\n")[0]
        return first_line[:80] or type(error).__name__
    gap = float((found - devices.smoke_logits(device, dtype)).abs().max())
    tolerance = 1e-3 if dtype == torch.float32 else 0.2
    return None if gap < tolerance else f"its results are off by {gap:.2g}"


def suits_rows(weights: Weights) -> bool:
    """Whether the compiled passes can run these weights: float32 on a CPU, sizes in whole lanes."""
    config = weights.config
    matrices = (weights.qkv, weights.output, weights.gate_up, weights.down, weights.head)
    sizes = [config.hidden_size, config.mlp_size, config.head_dim]
    # Lanes of 8, and of two packed codes together.
    whole = not any(size % 8 for size in sizes) and not any(
        matrix.group % (16 if matrix.is_packed else 8)
        for matrix in matrices
        if isinstance(matrix, Codes)
    )
    like = weights.embedding
    return whole and like.dtype == torch.float32 and like.device.type == "cpu"


@cache
def _rowpass() -> ModuleType:
    """Import the compiled passes, their machine code kept in the user's cache."""
    import numba

    numba.config.CACHE_DIR = str(_code_folder())
    from engine import rowpass

    return rowpass


def _code_folder() -> Path:
    """A writable folder for machine code that no other version of its source has used.

    numba looks only at the file of the function it caches, not at what that one calls; hence a
    folder for each state of the sources. Without a writable cache it is a fresh temporary one.
    """
    here = Path(__file__).parent
    source = b"".join((here / name).read_bytes() for name in ("lanes.py", "tiles.py", "rowpass.py"))
    folder = cache_root() / "compiled" / hashlib.sha256(source).hexdigest()[:12]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="verifybox-compiled-"))


class RowKernel:
    """The passes of `rowpass` over one model's weights."""

    chains_only = False  # a row of a tree has the same bits, too

    def __init__(self, weights: Weights, context: int, team: Team) -> None:
        rows = _rowpass()
        self.name = "numba rows"
        self._weights = weights
        self._context = context
        self._team = team
        self._rowpass = rows
        self._norms = rows.Norms(
            _array(weights.attention_norm), _array(weights.mlp_norm), _array(weights.norm)
        )
        self._matrices = rows.Matrices(
            *map(_parts, (weights.qkv, weights.output, weights.gate_up, weights.down))
        )
        self._head = _parts(weights.head[None])
        self._embedding = _array(weights.embedding)
        self._rope = tuple(map(_array, rope_table(weights.config, context)))
        self._scratch: dict[int, Any] = {}
        self._prepare()

    def _prepare(self) -> None:
        """Make the machine code for this form of weights, or read it, in one process at a time.

        numba numbers the files of its cache by what it finds there: two processes that compile
        for different forms at once would take one number, and then run each other's code.
        """
        import numba

        form = numba.typeof(self._matrices), numba.typeof(self._head)
        if form in _prepared:
            return
        with FileLock(Path(numba.config.CACHE_DIR) / "lock"):
            like = self._weights.embedding
            self.logits(self.hidden([0], 0, Cache(self._weights.config, 1, like.dtype, "cpu")))
        _prepared.add(form)

    def first_layers(self, count: int) -> RowKernel:
        return RowKernel(self._weights.first_layers(count), self._context, self._team)

    def hidden(
        self,
        ids: Sequence[int] | Tensor,
        start: int,
        cache: Cache,
        branches: Branches | None = None,
    ) -> Tensor:
        return self._passes(self._embedding[np.asarray(ids)], start, cache, branches)

    def hidden_of(
        self, x: Tensor, start: int, cache: Cache, branches: Branches | None = None
    ) -> Tensor:
        """As `hidden`, of rows (n, hidden) given in the place of embeddings."""
        return self._passes(_array(x).copy(), start, cache, branches)

    def _passes(self, x: Any, start: int, cache: Cache, branches: Branches | None) -> Tensor:
        """Rows x (n, hidden), which are used up, in passes of at most `MAX_ROWS`."""
        out = np.empty_like(x)
        for first in range(0, len(x), MAX_ROWS):
            rows = x[first : first + MAX_ROWS]
            at = start + first
            new = None if branches is None else branches.cut(at, at + len(rows))
            self._pass(rows, at, cache, new, out[first : first + MAX_ROWS])
        return torch.from_numpy(out)

    def logits(self, hidden: Tensor) -> Tensor:
        rows = _array(hidden)
        out = np.empty((rows.shape[0], self._weights.head.shape[0]), np.float32)
        tickets, finished = self._team.counters(1)
        head_pass, head = self._rowpass.head_pass, self._head
        self._team.run(lambda thread: head_pass(thread, tickets, finished, head, 0, rows, out))
        return torch.from_numpy(out)

    def _pass(self, x: Any, start: int, cache: Cache, branches: Branches | None, out: Any) -> None:
        # A helper may wake from the pass before only now: it must not see x being refilled.
        work = self._work(len(x))._replace(x=x)
        keys, values = _array(cache.keys), _array(cache.values)
        shape = (-1, *keys.shape[2:])  # layers · kv heads, context, dim
        cached = self._rowpass.Rows(keys.reshape(shape), values.reshape(shape), *self._rope)
        sight = self._sight(start, len(x), branches)
        stages = self._weights.config.layers * self._rowpass.STAGES_PER_LAYER
        tickets, finished = self._team.counters(stages)
        layers_pass, norms, matrices = self._rowpass.layers_pass, self._norms, self._matrices
        eps = self._weights.config.norm_eps
        self._team.run(
            lambda thread: layers_pass(
                thread, tickets, finished, start, sight, norms, matrices, cached, work, eps, out
            )
        )

    def _sight(self, start: int, rows: int, branches: Branches | None) -> Any:
        """What each row of a pass sees, as the passes take it."""
        if branches is None:
            straight = np.arange(start + 1, start + rows + 1, dtype=np.int64)
            return self._rowpass.Sight(straight, straight, np.empty((rows, 0), np.int64))
        lines = np.zeros((rows, max(map(len, branches.lines))), np.int64)
        for line, others in zip(lines, branches.lines, strict=True):
            line[: len(others)] = others
        straight = np.array(branches.straight, np.int64)
        seen = np.array(branches.positions, np.int64) + 1
        return self._rowpass.Sight(straight, seen, lines)

    def _work(self, rows: int) -> Any:
        """Scratch memory of a pass over `rows` rows, kept for the next such pass."""
        if rows not in self._scratch:
            c, threads = self._weights.config, self._team.threads
            every = c.heads + 2 * c.kv_heads
            self._scratch[rows] = self._rowpass.Scratch(
                x=None,
                normed=_zeros(threads, rows, c.hidden_size),
                scores=_zeros(threads, self._context + MAX_ROWS),
                fused=_zeros(rows * every, c.head_dim),
                mixed=_zeros(rows, c.heads * c.head_dim),
                mlp=_zeros(rows, 2 * c.mlp_size),
                activated=_zeros(rows, c.mlp_size),
                projected=_zeros(rows, c.hidden_size),
            )
        return self._scratch[rows]


def _zeros(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def _array(tensor: Tensor) -> Any:
    """The tensor's own memory as a C-contiguous array."""
    return np.ascontiguousarray(tensor.detach().numpy())


def _parts(matrix: Tensor | Codes) -> tuple[Any, ...]:
    """A stacked matrix as `tiles.dot_tile` takes it."""
    if isinstance(matrix, Codes):
        return tuple(map(_array, matrix.parts))
    return (_array(matrix),)
