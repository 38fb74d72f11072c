"""Vector dot products and atomic counters for numba, written as LLVM instructions.

A dot product is always summed in the same LANES lanes over ascending columns, lanes then
added pairwise. That order depends on nothing else, so a row of activations gives the same
bits however many rows are multiplied together, and on every machine with fused multiply-add.
Low-bit weights are decoded to float32 first, as their `dense` form holds them, and so give the
very bits that their dense form gives.

Why not plain numba loops: written with this fixed order they are not made vector code, and
took 3 to 5 times as long for one row and 11 to 19 times for five; with `fastmath` they are as
fast for one row, but took 1.3 to 1.8 times as long for five, and the compiler then chose another
order of summing for another shape of tile (30 matrices of 3072 x 576, one thread).

Knows arrays and indices, nothing of models.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.lanes import (
    BYTE,
    INDEX,
    INT,
    INTS,
    LANES,
    VECTOR,
    add_up,
    constant,
    lines,
    load,
    multiply_add,
    splat,
)

_MANY_REGISTERS = llvmlite.binding.get_host_cpu_features().get("avx512vl", False)

HEIGHT, WIDEST = (4, 6) if _MANY_REGISTERS else (2, 5)
"""Weight rows and most x rows of one tile of many sums: what 32, or 16, registers can hold."""

Decode = Callable[[int, Any], Any]
"""Makes weights, a vector of floats, of what row r has stored."""

_AHEAD = 16 * 1024  # bytes the prefetch runs ahead of the multiplication


@intrinsic(prefer_literal=True)
def dot_tile(
    typing_context: Any,
    weight_rows: Any,
    x_rows: Any,
    weight: Any,
    layer: Any,
    n: Any,
    x: Any,
    row: Any,
    out: Any,
    out_row: Any,
    half: Any,
) -> Any:
    """out[out_row + i, n + r] = Σk weight[layer, n + r, k] · x[row + i, k].

    r and i run below the literals `weight_rows` (1, 2 or 4) and `x_rows`. `weight` is one of

    - ``(matrix,)``: float32 (L, N, K);
    - ``(codes, scales)``: int8 (L, N, K) and float32 (L, N, K / group): code · scale;
    - ``(codes, scales, lows)`` with int8 lows (L, N, K / group): (code + low) · scale;
    - ``(codes, scales, lows)`` with float32 lows: code · scale + low.

    With lows, codes may be pairs: uint8 (L, N, K / 2), two of 0 … 15 a byte as `lowbit.pack`
    lays them out. Under float32 lows each weight is decoded first, so that the sums are to the
    bit those of the decoded matrix; else each group's sum is scaled, which is less work.

    `half` says which of the weight rows this tile asks for a little ahead of their use: 0 the
    upper half and 1 the lower, where another tile visits the same rows; -1 both.

    x and out are float32 and 2-D; all arrays are C-contiguous; K and the group are multiples of
    LANES, of twice as many for pairs.
    """
    index = types.intp
    signature = types.void(weight_rows, x_rows, weight, index, index, x, index, out, index, index)
    r_count, i_count = weight_rows.literal_value, x_rows.literal_value

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        _, _, weight_value, layer_at, n_at, x_value, row_at, out_value, out_row_at, half_at = args
        matrix, *factors = (
            context.make_array(kind)(context, builder, builder.extract_value(weight_value, i))
            for i, kind in enumerate(weight)
        )
        _, height, stored = cgutils.unpack_tuple(builder, matrix.shape, 3)
        first = builder.add(builder.mul(layer_at, height), n_at)
        xs = context.make_array(x)(context, builder, x_value)
        width = cgutils.unpack_tuple(builder, xs.shape, 2)[1]
        tile = _Tile(
            builder,
            weights=lines(builder, matrix.data, first, r_count, stored),
            stored=stored,
            packed=weight[0].dtype == types.uint8,
            xs=lines(builder, xs.data, row_at, i_count, width),
            half=half_at,
        )
        sums = _Sums(builder, r_count, i_count)
        if factors:
            groups = cgutils.unpack_tuple(builder, factors[0].shape, 3)[2]
            by_row = [lines(builder, each.data, first, r_count, groups) for each in factors]
            tile.add_groups(sums, by_row, groups, width)
        else:
            tile.add_products(sums, INDEX(0), width, lambda r, weight: weight)
        outs = context.make_array(out)(context, builder, out_value)
        out_width = cgutils.unpack_tuple(builder, outs.shape, 2)[1]
        for i, line in enumerate(lines(builder, outs.data, out_row_at, i_count, out_width)):
            totals = add_up(builder, [sums.read(r, i) for r in range(r_count)])
            place = builder.bitcast(builder.gep(line, [n_at]), totals.type.as_pointer())
            builder.store(totals, place, align=4)
        return context.get_dummy_value()

    return signature, generate


@dataclass(frozen=True, slots=True)
class _Tile:
    """The loops of one tile: columns of a few weight rows times columns of a few x rows."""

    builder: Any
    weights: list[Any]
    stored: Any  # elements from one weight row to the next
    packed: bool
    xs: list[Any]
    half: Any

    def add_products(self, sums: _Sums, start: Any, stop: Any, decode: Decode) -> None:
        """sums[r, i] += weight row r · x row i over columns start … stop."""
        builder = self.builder
        step = INDEX(2 * LANES if self.packed else LANES)
        with cgutils.for_range_slice(builder, start, stop, step, intp=INDEX) as (k, _):
            place = builder.lshr(k, INDEX(1)) if self.packed else k
            self._prefetch(place)
            decoded = [
                [decode(r, each) for each in self._stored(line, place)]
                for r, line in enumerate(self.weights)
            ]
            for part, weights in enumerate(zip(*decoded, strict=True)):
                column = builder.add(k, INDEX(part * LANES))
                for i, line in enumerate(self.xs):
                    x_part = load(builder, line, column)
                    for r, weight in enumerate(weights):
                        sums.add_product(r, i, x_part, weight)

    def add_groups(self, sums: _Sums, factors: list[list[Any]], groups: Any, width: Any) -> None:
        """The same over all columns, group by group; `factors` are lines of scales, then lows."""
        builder = self.builder
        size = builder.udiv(width, groups)
        partial = _Sums(builder, len(self.weights), len(self.xs))
        with cgutils.for_range(builder, groups, intp=INDEX) as loop:
            start = builder.mul(loop.index, size)
            stop = builder.add(start, size)
            scales, *lows = (
                [_factor(builder, builder.gep(line, [loop.index])) for line in by_row]
                for by_row in factors
            )
            if lows and lows[0][0].type == VECTOR:
                self.add_products(sums, start, stop, self._decode_wholly(scales, lows[0]))
            else:
                partial.clear()
                self.add_products(partial, start, stop, self._decode_codes(*lows))
                for r, scale in enumerate(scales):
                    for i in range(len(self.xs)):
                        sums.add_product(r, i, partial.read(r, i), scale)

    def _decode_wholly(self, scales: list[Any], lows: list[Any]) -> Decode:
        def decode(r: int, codes: Any) -> Any:
            number = self.builder.sitofp(codes, VECTOR)
            return multiply_add(self.builder, number, scales[r], lows[r])

        return decode

    def _decode_codes(self, lows: list[Any] | None = None) -> Decode:
        def decode(r: int, codes: Any) -> Any:
            whole = codes if lows is None else self.builder.add(codes, lows[r])
            return self.builder.sitofp(whole, VECTOR)

        return decode

    def _stored(self, line: Any, place: Any) -> list[Any]:
        """What lies at `place` of a row: a vector of floats or of codes, or two of packed codes."""
        builder = self.builder
        if line.type.pointee != BYTE:
            return [load(builder, line, place)]
        there = builder.bitcast(builder.gep(line, [place]), ir.VectorType(BYTE, LANES).as_pointer())
        stored = builder.load(there, align=1)
        if not self.packed:
            return [builder.sext(stored, INTS)]
        pairs = builder.zext(stored, INTS)
        fifteens, fours = (ir.Constant(INTS, [each] * LANES) for each in (15, 4))
        return [builder.and_(pairs, fifteens), builder.lshr(pairs, fours)]

    def _prefetch(self, place: Any) -> None:
        """Ask for weights the multiplication will come to a little later.

        Several rows at once are several streams, which hardware prefetchers follow badly. Of
        floats it is the same column of a tile _AHEAD or so further on; of codes, whose rows are
        short, bytes _AHEAD of this step in address order. Past the end of the matrix a prefetch
        does nothing.
        """
        builder, rows = self.builder, len(self.weights)
        if rows == 1 and len(self.xs) < 3:
            return  # one stream and little to do under it: the hardware is better at it
        pointer = BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, INT, INT, INT])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        if self.weights[0].type.pointee == BYTE:
            ahead = builder.add(builder.mul(place, INDEX(rows)), INDEX(_AHEAD))
            places = [builder.gep(self.weights[0], [ahead])]
        else:
            tile = builder.mul(self.stored, INDEX(4 * rows))
            tiles = builder.udiv(builder.add(INDEX(_AHEAD), builder.lshr(tile, INDEX(1))), tile)
            is_none = builder.icmp_unsigned("==", tiles, INDEX(0))
            tiles = builder.select(is_none, INDEX(1), tiles)
            first = builder.mul(tiles, INDEX(rows))
            places = [
                builder.gep(
                    self.weights[0],
                    [builder.add(place, builder.mul(builder.add(first, row), self.stored))],
                )
                for row in self._rows_to_fetch()
            ]
        read, second_level, data = INT(0), INT(2), INT(1)
        for each in places:
            builder.call(prefetch, [builder.bitcast(each, pointer), read, second_level, data])

    def _rows_to_fetch(self) -> list[Any]:
        """The tile's rows, or those of its half twice: as many steps ask for the same line."""
        builder, rows = self.builder, len(self.weights)
        both = builder.icmp_signed("<", self.half, INDEX(0))
        start = builder.mul(self.half, INDEX(rows // 2))
        return [
            builder.select(both, INDEX(row), builder.add(start, INDEX(row % max(1, rows // 2))))
            for row in range(rows)
        ]


class _Sums:
    """A tile's vector accumulators; LLVM keeps them in registers."""

    def __init__(self, builder: Any, r_count: int, i_count: int) -> None:
        self._builder = builder
        self._slots = [cgutils.alloca_once(builder, VECTOR) for _ in range(r_count * i_count)]
        self._i_count = i_count
        self.clear()

    def clear(self) -> None:
        for slot in self._slots:
            self._builder.store(constant(0.0), slot)

    def read(self, r: int, i: int) -> Any:
        return self._builder.load(self._slots[r * self._i_count + i])

    def add_product(self, r: int, i: int, left: Any, right: Any) -> None:
        """sums[r, i] += left · right."""
        total = multiply_add(self._builder, left, right, self.read(r, i))
        self._builder.store(total, self._slots[r * self._i_count + i])


def _factor(builder: Any, place: Any) -> Any:
    """The scale or low at `place` in every lane; a byte as a whole number of 32 bits."""
    value = builder.load(place)
    return splat(builder, builder.sext(value, INT) if value.type == BYTE else value)


@intrinsic
def fetch_add(typing_context: Any, counters: Any, at: Any) -> Any:
    """Add one to counters[at] as one indivisible step; return the value before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _counter(context, builder, signature, args)
        return builder.atomic_rmw("add", place, INDEX(1), "seq_cst")

    return types.intp(counters, types.intp), generate


@intrinsic
def fetch(typing_context: Any, counters: Any, at: Any) -> Any:
    """Read counters[at] as other threads have left it; what they wrote before is seen too."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _counter(context, builder, signature, args)
        return builder.load_atomic(place, "acquire", 8)

    return types.intp(counters, types.intp), generate


def _counter(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _register_yield() -> None:
    """Give the system's "let another thread run" a name that compiled, cached code can find."""
    if sys.platform == "win32":
        function = ctypes.windll.kernel32.SwitchToThread
    else:
        function = ctypes.CDLL(None).sched_yield
    address = ctypes.cast(function, ctypes.c_void_p).value
    llvmlite.binding.add_symbol("verifybox_yield", address)


_register_yield()
yield_core = types.ExternalFunction("verifybox_yield", types.intc())
