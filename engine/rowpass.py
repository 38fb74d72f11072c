"""One forward pass over a few rows, compiled by numba: the fast way on a CPU.

Decoding is bound by reading weights, so a pass reads each of them from memory once for all
its rows. A few rows then cost little more than one: that is what makes verification cheap.
A row's result does not depend, bit for bit, on how many rows share its pass: products are
summed as `tiles` says, and everything else is computed a row at a time.

Threads share a pass by claiming numbered tasks, each from its own run of neighbours first. A
stage is over when its tasks are finished, not when every thread has arrived, so a thread the
system has put aside holds up the others only while it sits on a task.

Weights come as `tiles.dot_tile` takes them. Knows nothing of torch, files or text.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from engine.lanes import LANES, exp_scores, gate_lanes, mix_values
from engine.tiles import HEIGHT, WIDEST, dot_tile, fetch, fetch_add, yield_core

STAGES_PER_LAYER = 5
_TASK_ROWS = 32  # weight rows of one task: many tasks share out evenly
_HEAD_TASK_ROWS = 512
_MIXED_AT_ONCE = 8  # vectors of values summed in registers
_SPINS = 400  # looks at a counter before a waiting thread gives its core away

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


_inner = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


class Norms(NamedTuple):
    attention: Floats  # (layers, hidden)
    mlp: Floats  # (layers, hidden)
    final: Floats  # (hidden,)


class Matrices(NamedTuple):
    """The four products of a layer, each a tuple as `tiles.dot_tile` takes it."""

    qkv: Any
    output: Any
    gate_up: Any
    down: Any


class Rows(NamedTuple):
    """Cache and rotary table: keys, values (layers · kv heads, context, dim), (context, dim/2)."""

    keys: Floats
    values: Floats
    cos: Floats
    sin: Floats


class Sight(NamedTuple):
    """What each row of a pass sees of the cache: first rows of it, and then a line of others."""

    straight: Indices  # (rows,): how many of the first
    seen: Indices  # (rows,): how many in all, its own among them: its position and one
    lines: Indices  # (rows, any): the others, ascending; what is past their number is no row


class Scratch(NamedTuple):
    """What a pass writes while it runs; `x` holds the embeddings when it starts."""

    x: Floats  # (rows, hidden): the residual stream
    normed: Floats  # (threads, rows, hidden)
    scores: Floats  # (threads, context, rounded up to whole vectors)
    fused: Floats  # (rows, heads + 2 kv heads, dim), flattened to (rows · all heads, dim)
    mixed: Floats  # (rows, heads · dim)
    mlp: Floats  # (rows, 2 mlp)
    activated: Floats  # (rows, mlp)
    projected: Floats  # (rows, hidden)


@_inner
def _multiply(weight: Any, layer: int, first: int, last: int, x: Floats, out: Floats) -> None:
    """out[:, first:last] = x · weight[layer, first:last]ᵀ.

    All tiles of x visit a few weight rows before the next are touched, so that reading ahead
    goes on evenly under the arithmetic.
    """
    rows = x.shape[0]
    n = first
    if rows < 4:
        n = _multiply_few(weight, layer, first, last, x, out)
    else:
        # Codes need registers of their own: for the numbers being decoded, for a group's sums.
        widest = WIDEST if len(weight) == 1 else min(WIDEST, 5)
        tiles = (rows + widest - 1) // widest
        while n + HEIGHT <= last:
            for tile in range(tiles):
                row = tile * rows // tiles
                count = (tile + 1) * rows // tiles - row
                half = min(tile, 1) if tiles > 1 else -1
                if len(weight) == 1 and count == 6:
                    dot_tile(HEIGHT, 6, weight, layer, n, x, row, out, row, half)
                elif count == 5:
                    dot_tile(HEIGHT, 5, weight, layer, n, x, row, out, row, half)
                elif count == 4:
                    dot_tile(HEIGHT, 4, weight, layer, n, x, row, out, row, half)
                else:
                    dot_tile(HEIGHT, 3, weight, layer, n, x, row, out, row, half)
            n += HEIGHT
    while n < last:
        for row in range(rows):
            dot_tile(1, 1, weight, layer, n, x, row, out, row, -1)
        n += 1


@_inner
def _multiply_few(weight: Any, layer: int, first: int, last: int, x: Floats, out: Floats) -> int:
    """As `_multiply` for one to three rows of x; returns the first weight row left out.

    In float32 they are bound by memory, for which one stream of weights is best. Decoding codes
    is work, which wants more sums at once.
    """
    rows = x.shape[0]
    n = first
    if len(weight) == 1:
        while n < last:
            if rows == 1:
                dot_tile(1, 1, weight, layer, n, x, 0, out, 0, -1)
            elif rows == 2:
                dot_tile(1, 2, weight, layer, n, x, 0, out, 0, -1)
            else:
                dot_tile(1, 3, weight, layer, n, x, 0, out, 0, -1)
            n += 1
    else:
        while n + 4 <= last:
            if rows == 1:
                dot_tile(4, 1, weight, layer, n, x, 0, out, 0, -1)
            elif rows == 2:
                dot_tile(4, 2, weight, layer, n, x, 0, out, 0, -1)
            else:
                dot_tile(4, 3, weight, layer, n, x, 0, out, 0, -1)
            n += 4
    return n


@njit(nogil=True, fastmath=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _normalise(x: Floats, weight: Floats, eps: float, out: Floats) -> None:
    """RMS norm of every row."""
    for row in range(x.shape[0]):
        squares = np.float32(0.0)
        for k in range(x.shape[1]):
            squares += x[row, k] * x[row, k]
        factor = np.float32(1.0) / np.sqrt(squares / np.float32(x.shape[1]) + np.float32(eps))
        for k in range(x.shape[1]):
            out[row, k] = x[row, k] * factor * weight[k]


@_inner
def _rotate(head: Floats, cos: Floats, sin: Floats) -> None:
    """Rotary position on one head (dim,), in place."""
    half = cos.shape[0]
    for k in range(half):
        low, high = head[k], head[k + half]
        head[k] = low * cos[k] - high * sin[k]
        head[k + half] = high * cos[k] + low * sin[k]


@_inner
def _copy(source: Floats, target: Floats) -> None:
    """target = source, as a loop: numba compiles array assignment into far more code."""
    for k in range(source.shape[0]):
        target[k] = source[k]


@_inner
def _place_head(
    fused: Floats, head: int, heads: int, kv_heads: int, layer: int, start: int, sight: Sight,
    cached: Rows,
) -> None:  # fmt: skip
    """Finish one fused head for every row: turn queries and keys, store keys and values."""
    every = heads + 2 * kv_heads
    for row in range(fused.shape[0] // every):
        vector = fused[row * every + head]
        if head < heads + kv_heads:
            position = sight.seen[row] - 1
            _rotate(vector, cached.cos[position], cached.sin[position])
        if heads <= head < heads + kv_heads:
            _copy(vector, cached.keys[layer * kv_heads + head - heads, start + row])
        elif head >= heads + kv_heads:
            _copy(vector, cached.values[layer * kv_heads + head - heads - kv_heads, start + row])


@_inner
def _attend(
    fused: Floats, query: int, keys_at: int, cached: Rows, sight: Sight, row: int, scores: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """Attention of fused row `query` over all that `row` of the pass sees, into out (dim,).

    In the order of its text, wherever in the cache that stands: its bits do not tell.
    """
    dim = fused.shape[1]
    keys = (cached.keys,)
    straight, seen = sight.straight[row], sight.seen[row]
    n = 0
    while n + 4 <= straight:
        dot_tile(4, 1, keys, keys_at, n, fused, query, scores, 0, -1)
        n += 4
    while n < straight:
        dot_tile(1, 1, keys, keys_at, n, fused, query, scores, 0, -1)
        n += 1
    while n < seen:
        other = sight.lines[row, n - straight]  # >= n: its score is no place that is in use
        dot_tile(1, 1, keys, keys_at, other, fused, query, scores, 0, -1)
        scores[0, n] = scores[0, other]
        n += 1
    total = exp_scores(scores, seen, np.float32(1.0 / math.sqrt(dim)))
    column = 0
    while column + _MIXED_AT_ONCE * LANES <= dim:
        mix_values(
            _MIXED_AT_ONCE, cached.values, keys_at, scores, straight, sight.lines, row,
            seen - straight, total, out, column,
        )  # fmt: skip
        column += _MIXED_AT_ONCE * LANES
    while column < dim:
        mix_values(
            1, cached.values, keys_at, scores, straight, sight.lines, row, seen - straight, total,
            out, column,
        )  # fmt: skip
        column += LANES


@_inner
def _gate(mlp: Floats, first: int, last: int, out: Floats) -> None:
    """out = silu(gate) · up for columns first … last - 1; mlp holds gates, then ups."""
    size = out.shape[1]
    for row in range(mlp.shape[0]):
        for k in range(first, last, LANES):
            gate_lanes(mlp, row, k, size + k, out, k)


@_inner
def _claim(tickets: Any, thread: int, stage: int, tasks: int) -> int:
    """The next task for this thread: of its own share while there are any, then of others'.

    A share is a run of neighbours, because what a task asks for ahead of itself is its
    neighbour's. Returns `tasks` when none is left.
    """
    threads = tickets.shape[1]
    for turn in range(threads):
        share = (thread + turn) % threads
        first, end = share * tasks // threads, (share + 1) * tasks // threads
        task: int = first + fetch_add(tickets, stage * threads + share)
        if task < end:
            return task
    return tasks


@_inner
def _claim_next(tickets: Any, finished: Any, thread: int, stage: int, tasks: int) -> int:
    """Report a task done and claim another."""
    fetch_add(finished, stage)
    claimed: int = _claim(tickets, thread, stage, tasks)
    return claimed


@_inner
def _wait(finished: Any, stage: int, tasks: int) -> None:
    """Return once all tasks of the stage are finished."""
    looks = 0
    while fetch(finished, stage) < tasks:
        looks += 1
        if looks % _SPINS == 0:
            yield_core()


@_inner
def _project_into(
    thread: int, tickets: Any, finished: Any, stage: int, weight: Any, layer: int, inner: Floats,
    work: Scratch,
) -> None:  # fmt: skip
    """x += inner · weight[layer]ᵀ, as one stage."""
    hidden = work.x.shape[1]
    tasks = (hidden + _TASK_ROWS - 1) // _TASK_ROWS
    task = _claim(tickets, thread, stage, tasks)
    while task < tasks:
        first, last = task * _TASK_ROWS, min(hidden, (task + 1) * _TASK_ROWS)
        _multiply(weight, layer, first, last, inner, work.projected)
        for row in range(work.x.shape[0]):
            for k in range(first, last):
                work.x[row, k] += work.projected[row, k]
        task = _claim_next(tickets, finished, thread, stage, tasks)
    _wait(finished, stage, tasks)


@_inner
def _attention_stages(
    thread: int, tickets: Any, finished: Any, stage: int, layer: int, start: int, sight: Sight,
    norms: Norms, matrices: Matrices, cached: Rows, work: Scratch, eps: float,
) -> None:  # fmt: skip
    """x += attention of one layer: three stages."""
    rows = work.x.shape[0]
    every, dim = work.fused.shape[0] // rows, work.fused.shape[1]
    heads = work.mixed.shape[1] // dim
    kv_heads = (every - heads) // 2
    normed = work.normed[thread]
    fused = work.fused.reshape(rows, every * dim)

    task = _claim(tickets, thread, stage, every)
    if task < every:
        _normalise(work.x, norms.attention[layer], eps, normed)
    while task < every:
        _multiply(matrices.qkv, layer, task * dim, task * dim + dim, normed, fused)
        _place_head(work.fused, task, heads, kv_heads, layer, start, sight, cached)
        task = _claim_next(tickets, finished, thread, stage, every)
    _wait(finished, stage, every)

    stage += 1
    scores = work.scores[thread : thread + 1]
    task = _claim(tickets, thread, stage, rows * heads)
    while task < rows * heads:
        head, row = task // rows, task % rows  # heads that share keys one after another
        keys_at = layer * kv_heads + head // (heads // kv_heads)
        out = work.mixed[row, head * dim : head * dim + dim]
        _attend(work.fused, row * every + head, keys_at, cached, sight, row, scores, out)
        task = _claim_next(tickets, finished, thread, stage, rows * heads)
    _wait(finished, stage, rows * heads)

    _project_into(thread, tickets, finished, stage + 1, matrices.output, layer, work.mixed, work)


@_inner
def _mlp_stages(
    thread: int, tickets: Any, finished: Any, stage: int, layer: int,
    norms: Norms, matrices: Matrices, work: Scratch, eps: float,
) -> None:  # fmt: skip
    """x += gated MLP of one layer: two stages."""
    size = work.activated.shape[1]
    normed = work.normed[thread]
    tasks = (size + _TASK_ROWS - 1) // _TASK_ROWS
    task = _claim(tickets, thread, stage, tasks)
    if task < tasks:
        _normalise(work.x, norms.mlp[layer], eps, normed)
    while task < tasks:
        first, last = task * _TASK_ROWS, min(size, (task + 1) * _TASK_ROWS)
        _multiply(matrices.gate_up, layer, first, last, normed, work.mlp)
        _multiply(matrices.gate_up, layer, size + first, size + last, normed, work.mlp)
        _gate(work.mlp, first, last, work.activated)
        task = _claim_next(tickets, finished, thread, stage, tasks)
    _wait(finished, stage, tasks)

    _project_into(thread, tickets, finished, stage + 1, matrices.down, layer, work.activated, work)


@njit(nogil=True, cache=True)
def layers_pass(
    thread: int, tickets: Any, finished: Any, start: int, sight: Sight,
    norms: Norms, matrices: Matrices, cached: Rows, work: Scratch, eps: float, out: Floats,
) -> None:  # fmt: skip
    """Run every layer over new cache rows start…, then the final norm into out (rows, hidden).

    `sight` says what each of them sees.

    Every thread of the team calls it with its own number, and thread 0 returns last with
    `out` complete. `tickets` (stages, threads) and `finished` (stages) are int64 zeros, fresh for
    each pass.
    """
    for layer in range(norms.attention.shape[0]):
        stage = layer * STAGES_PER_LAYER
        _attention_stages(
            thread, tickets, finished, stage, layer, start, sight, norms, matrices, cached, work,
            eps,
        )  # fmt: skip
        _mlp_stages(thread, tickets, finished, stage + 3, layer, norms, matrices, work, eps)
    if thread == 0:
        _normalise(work.x, norms.final, eps, out)


@njit(nogil=True, cache=True)
def head_pass(
    thread: int, tickets: Any, finished: Any, weight: Any, layer: int, hidden: Floats, out: Floats
) -> None:
    """out (rows, vocab) = hidden · weight[layer]ᵀ, shared by every thread that calls it."""
    size = out.shape[1]
    tasks = (size + _HEAD_TASK_ROWS - 1) // _HEAD_TASK_ROWS
    task = _claim(tickets, thread, 0, tasks)
    while task < tasks:
        first, last = task * _HEAD_TASK_ROWS, min(size, (task + 1) * _HEAD_TASK_ROWS)
        _multiply(weight, layer, first, last, hidden, out)
        task = _claim_next(tickets, finished, thread, 0, tasks)
    _wait(finished, 0, tasks)
