"""Vector dot products and atomic counters for numba, written as LLVM instructions.

A dot product is always summed in the same LANES lanes over ascending columns, lanes then
added pairwise. That order depends on nothing else, so a row of activations gives the same
bits however many rows are multiplied together, and on every machine with fused multiply-add.

Why not plain numba loops: written with this fixed order they are not made vector code, and
took 3 to 5 times as long for one row and 11 to 19 times for five; with `fastmath` they are as
fast for one row, but took 1.3 to 1.8 times as long for five, and the compiler then chose another
order of summing for another shape of tile (30 matrices of 3072 x 576, one thread).

Knows arrays and indices, nothing of models.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
_AHEAD = 16 * 1024  # bytes the prefetch runs ahead of the multiplication

_FLOAT = ir.FloatType()
_BYTE = ir.IntType(8)
_INT = ir.IntType(32)
_INDEX = ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)


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
) -> Any:
    """out[out_row + i, n + r] = Σk weight[layer, n + r, k] · x[row + i, k].

    r and i run below the literals `weight_rows` and `x_rows`. `weight` is ``(matrix,)`` of
    float32 (L, N, K) or ``(codes, scales)`` of int8 (L, N, K) and float32 (L, N, K / group),
    where each group's sum is scaled before it joins the total. x and out are float32 and
    2-D; all arrays are C-contiguous; K and the group are multiples of LANES.
    """
    index = types.intp
    signature = types.void(weight_rows, x_rows, weight, index, index, x, index, out, index)
    r_count, i_count = weight_rows.literal_value, x_rows.literal_value

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        _, _, weight_value, layer_at, n_at, x_value, row_at, out_value, out_row_at = args
        matrix, *scales = (
            context.make_array(kind)(context, builder, builder.extract_value(weight_value, i))
            for i, kind in enumerate(weight)
        )
        _, height, width = cgutils.unpack_tuple(builder, matrix.shape, 3)
        first = builder.add(builder.mul(layer_at, height), n_at)
        xs = context.make_array(x)(context, builder, x_value)
        tile = _Tile(
            builder,
            weights=_lines(builder, matrix.data, first, r_count, width),
            xs=_lines(builder, xs.data, row_at, i_count, width),
        )
        sums = _Sums(builder, r_count, i_count)
        if scales:
            groups = cgutils.unpack_tuple(builder, scales[0].shape, 3)[2]
            lines = _lines(builder, scales[0].data, first, r_count, groups)
            tile.add_scaled_products(sums, lines, groups, width)
        else:
            tile.add_products(sums, _INDEX(0), width)
        outs = context.make_array(out)(context, builder, out_value)
        out_width = cgutils.unpack_tuple(builder, outs.shape, 2)[1]
        for i, line in enumerate(_lines(builder, outs.data, out_row_at, i_count, out_width)):
            for r in range(r_count):
                place = builder.gep(line, [builder.add(n_at, _INDEX(r))])
                builder.store(_add_lanes(builder, sums.read(r, i)), place)
        return context.get_dummy_value()

    return signature, generate


@dataclass(frozen=True, slots=True)
class _Tile:
    """The loops of one tile: columns of a few weight rows times columns of a few x rows."""

    builder: Any
    weights: list[Any]
    xs: list[Any]

    def add_products(self, sums: _Sums, start: Any, stop: Any) -> None:
        """sums[r, i] += weight row r · x row i over columns start … stop, LANES at a step."""
        builder = self.builder
        with cgutils.for_range_slice(builder, start, stop, _INDEX(LANES), intp=_INDEX) as (k, _):
            x_parts = [_load_vector(builder, line, k) for line in self.xs]
            self._prefetch(k)
            for r, line in enumerate(self.weights):
                weight = _load_vector(builder, line, k)
                for i, x_part in enumerate(x_parts):
                    sums.add_product(r, i, x_part, weight)

    def add_scaled_products(self, sums: _Sums, scales: list[Any], groups: Any, width: Any) -> None:
        """The same over all columns, each group's products scaled by its row's scale."""
        builder = self.builder
        size = builder.udiv(width, groups)
        partial = _Sums(builder, len(self.weights), len(self.xs))
        with cgutils.for_range(builder, groups, intp=_INDEX) as loop:
            partial.clear()
            start = builder.mul(loop.index, size)
            self.add_products(partial, start, builder.add(start, size))
            for r, line in enumerate(scales):
                scale = _splat(builder, builder.load(builder.gep(line, [loop.index])))
                for i in range(len(self.xs)):
                    sums.add_product(r, i, partial.read(r, i), scale)

    def _prefetch(self, k: Any) -> None:
        """Ask for the bytes _AHEAD of this step, in address order over the tile's rows.

        Several rows at once are several streams, which hardware prefetchers follow badly.
        Past the end of the matrix a prefetch does nothing.
        """
        builder, rows = self.builder, len(self.weights)
        if rows == 1 and len(self.xs) < 3:
            return  # one stream and little to do under it: the hardware is better at it
        pointer = _BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _INT, _INT, _INT])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        size = self.weights[0].type.pointee.width // 8 if _is_byte(self.weights[0]) else 4
        for part in range(max(1, rows * LANES * size // 64)):
            ahead = _INDEX((_AHEAD + 64 * part) // size)
            place = builder.gep(self.weights[0], [builder.add(builder.mul(k, _INDEX(rows)), ahead)])
            read, second_level, data = _INT(0), _INT(2), _INT(1)
            builder.call(prefetch, [builder.bitcast(place, pointer), read, second_level, data])


class _Sums:
    """A tile's vector accumulators; LLVM keeps them in registers."""

    def __init__(self, builder: Any, r_count: int, i_count: int) -> None:
        self._builder = builder
        self._slots = [cgutils.alloca_once(builder, _VECTOR) for _ in range(r_count * i_count)]
        self._i_count = i_count
        self.clear()

    def clear(self) -> None:
        for slot in self._slots:
            self._builder.store(ir.Constant(_VECTOR, [0.0] * LANES), slot)

    def read(self, r: int, i: int) -> Any:
        return self._builder.load(self._slots[r * self._i_count + i])

    def add_product(self, r: int, i: int, left: Any, right: Any) -> None:
        """sums[r, i] += left · right, one fused instruction where the machine has it."""
        product = self._builder.fmul(left, right, flags=("contract",))
        total = self._builder.fadd(self.read(r, i), product, flags=("contract",))
        self._builder.store(total, self._slots[r * self._i_count + i])


def _lines(builder: Any, data: Any, first: Any, count: int, width: Any) -> list[Any]:
    """Pointers to the starts of rows first … first + count - 1 of a matrix `width` wide."""
    return [
        builder.gep(data, [builder.mul(builder.add(first, _INDEX(offset)), width)])
        for offset in range(count)
    ]


def _is_byte(pointer: Any) -> bool:
    return bool(pointer.type.pointee == _BYTE)


def _load_vector(builder: Any, line: Any, k: Any) -> Any:
    """LANES values from column k on, as floats; codes are converted."""
    coded = _is_byte(line)
    kind = ir.VectorType(_BYTE if coded else _FLOAT, LANES)
    place = builder.bitcast(builder.gep(line, [k]), kind.as_pointer())
    vector = builder.load(place, align=1 if coded else 4)
    return builder.sitofp(vector, _VECTOR) if coded else vector


def _splat(builder: Any, value: Any) -> Any:
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    lanes = ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES)
    return builder.shuffle_vector(builder.insert_element(nothing, value, _INT(0)), nothing, lanes)


def _add_lanes(builder: Any, vector: Any) -> Any:
    """Add the lanes pairwise, halves first."""
    width = LANES
    while width > 1:
        width //= 2
        nothing = ir.Constant(vector.type, ir.Undefined)
        low, high = (
            ir.Constant(ir.VectorType(_INT, width), list(range(at, at + width)))
            for at in (0, width)
        )
        vector = builder.fadd(
            builder.shuffle_vector(vector, nothing, low),
            builder.shuffle_vector(vector, nothing, high),
        )
    return builder.extract_element(vector, _INT(0))


@intrinsic
def fetch_add(typing_context: Any, counters: Any, at: Any) -> Any:
    """Add one to counters[at] as one indivisible step; return the value before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _counter(context, builder, signature, args)
        return builder.atomic_rmw("add", place, _INDEX(1), "seq_cst")

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
