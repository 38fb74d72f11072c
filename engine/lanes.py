"""Vectors of LANES floats for numba, written as LLVM instructions: the parts of a pass beside
its products.

Each works on a row alone and in one fixed order, so its result does not depend on how many rows
share a pass. numba's own `exp` is a call for every number; here LANES of them are made at once.

Knows arrays and indices, nothing of models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8

FLOAT = ir.FloatType()
BYTE = ir.IntType(8)
INT = ir.IntType(32)
INDEX = ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
INTS = ir.VectorType(INT, LANES)

_LOWEST, _HIGHEST = -87.0, 88.0  # where exp leaves the normal floats
_LOG2_E = 1.4426950408889634
_LN_2_HIGH, _LN_2_LOW = 0.693359375, -2.12194440e-4  # their sum is ln 2; the first has few digits
_ROUNDER = 12582912.0  # 1.5 · 2²³: adding it leaves a whole number in the last bits
_SERIES = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
"""(exp(r) - 1 - r) / r² for |r| <= ln 2 / 2, highest power first (Cephes, expf; error 2e-7)."""


# --- building blocks -----------------------------------------------------------------------


def constant(value: float) -> Any:
    return ir.Constant(VECTOR, [value] * LANES)


def splat(builder: Any, value: Any) -> Any:
    """`value` in every lane."""
    nothing = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    lanes = ir.Constant(INTS, [0] * LANES)
    return builder.shuffle_vector(builder.insert_element(nothing, value, INT(0)), nothing, lanes)


def multiply_add(builder: Any, left: Any, right: Any, total: Any) -> Any:
    """left · right + total, one fused instruction where the machine has it."""
    product = builder.fmul(left, right, flags=("contract",))
    return builder.fadd(total, product, flags=("contract",))


def lines(builder: Any, data: Any, first: Any, count: int, width: Any) -> list[Any]:
    """Pointers to the starts of rows first … first + count - 1 of a matrix `width` wide."""
    return [
        builder.gep(data, [builder.mul(builder.add(first, INDEX(offset)), width)])
        for offset in range(count)
    ]


def load(builder: Any, line: Any, k: Any) -> Any:
    """The LANES floats from column k on."""
    return builder.load(_place(builder, line, k), align=4)


def store(builder: Any, vector: Any, line: Any, k: Any) -> None:
    builder.store(vector, _place(builder, line, k), align=4)


def _place(builder: Any, line: Any, k: Any) -> Any:
    return builder.bitcast(builder.gep(line, [k]), VECTOR.as_pointer())


def add_up(builder: Any, vectors: Sequence[Any]) -> Any:
    """The sum of each vector's lanes, halves first: a vector of 1, 2, 4 … such sums.

    Several vectors are folded together, two in the room of one; each is added up as if alone.
    """
    length = LANES
    while length > 1:
        half = length // 2
        pairs = [vectors[at : at + 2] for at in range(0, len(vectors), 2)]
        vectors = [
            builder.fadd(
                _pick(builder, pair, length, range(half)),
                _pick(builder, pair, length, range(half, length)),
            )
            for pair in pairs
        ]
        length = half
    return vectors[0]


def _pick(builder: Any, pair: Sequence[Any], length: int, lanes: Iterable[int]) -> Any:
    """The given lanes of every run of `length` in one vector, or in two side by side."""
    count = pair[0].type.count
    chosen = [at + lane for at in range(0, count * len(pair), length) for lane in lanes]
    second = pair[1] if len(pair) == 2 else ir.Constant(pair[0].type, ir.Undefined)
    mask = ir.Constant(ir.VectorType(INT, len(chosen)), chosen)
    return builder.shuffle_vector(pair[0], second, mask)


def _larger(builder: Any, left: Any, right: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def _exp(builder: Any, x: Any) -> Any:
    """exp of every lane: 2ⁿ · exp(r) with n whole; 0 below what a normal float can hold."""
    lowest, rounder = constant(_LOWEST), constant(_ROUNDER)
    too_low = builder.fcmp_ordered("<", x, lowest)
    x = builder.select(too_low, lowest, x)
    x = builder.select(builder.fcmp_ordered(">", x, constant(_HIGHEST)), constant(_HIGHEST), x)
    shifted = multiply_add(builder, x, constant(_LOG2_E), rounder)
    whole = builder.fsub(shifted, rounder)
    rest = multiply_add(builder, whole, constant(-_LN_2_HIGH), x)
    rest = multiply_add(builder, whole, constant(-_LN_2_LOW), rest)
    series = constant(_SERIES[0])
    for factor in _SERIES[1:]:
        series = multiply_add(builder, series, rest, constant(factor))
    series = multiply_add(builder, builder.fmul(series, rest), rest, rest)
    series = builder.fadd(series, constant(1.0))
    exponent = builder.shl(builder.bitcast(shifted, INTS), ir.Constant(INTS, [23] * LANES))
    power = builder.bitcast(builder.add(exponent, builder.bitcast(constant(1.0), INTS)), VECTOR)
    return builder.select(too_low, constant(0.0), builder.fmul(series, power))


# --- what a pass is made of ----------------------------------------------------------------


@intrinsic
def gate_lanes(
    typing_context: Any, gates: Any, row: Any, gate_at: Any, up_at: Any, out: Any, out_at: Any
) -> Any:
    """out[row, out_at …] = silu(gates[row, gate_at …]) · gates[row, up_at …], LANES columns.

    Both arrays are float32 and 2-D.
    """
    index = types.intp

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        gates_value, row_at, gate_column, up_column, out_value, out_column = args
        line = _line(context, builder, gates, gates_value, row_at)
        gate, up = load(builder, line, gate_column), load(builder, line, up_column)
        under = builder.fadd(constant(1.0), _exp(builder, builder.fsub(constant(-0.0), gate)))
        result = builder.fmul(builder.fdiv(gate, under), up)
        store(builder, result, _line(context, builder, out, out_value, row_at), out_column)
        return context.get_dummy_value()

    return types.void(gates, index, index, index, out, index), generate


@intrinsic
def exp_scores(typing_context: Any, scores: Any, seen: Any, scale: Any) -> Any:
    """scores[0, t] = exp((scores[0, t] - the highest) · scale) for t < seen; return their sum.

    `scores` is float32 and 2-D, with room up to the next multiple of LANES: what is there is
    overwritten.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scores_value, seen_value, scale_value = args
        line = _line(context, builder, scores, scores_value, INDEX(0))
        lanes = INDEX(LANES)
        nothing = FLOAT(float("-inf"))
        last = builder.mul(builder.udiv(builder.add(seen_value, INDEX(LANES - 1)), lanes), lanes)
        with cgutils.for_range_slice(builder, seen_value, last, INDEX(1), intp=INDEX) as (k, _):
            builder.store(nothing, builder.gep(line, [k]))
        highest = cgutils.alloca_once_value(builder, constant(float("-inf")))
        with cgutils.for_range_slice(builder, INDEX(0), last, lanes, intp=INDEX) as (k, _):
            part = load(builder, line, k)
            builder.store(_larger(builder, part, builder.load(highest)), highest)
        top = builder.extract_element(builder.load(highest), INT(0))
        for lane in range(1, LANES):
            top = _larger(builder, builder.extract_element(builder.load(highest), INT(lane)), top)
        top, factor = splat(builder, top), splat(builder, scale_value)
        total = cgutils.alloca_once_value(builder, constant(0.0))
        with cgutils.for_range_slice(builder, INDEX(0), last, lanes, intp=INDEX) as (k, _):
            below = builder.fsub(load(builder, line, k), top)
            power = _exp(builder, builder.fmul(below, factor))
            store(builder, power, line, k)
            builder.store(builder.fadd(builder.load(total), power), total)
        return builder.extract_element(add_up(builder, [builder.load(total)]), INT(0))

    return types.float32(scores, types.intp, types.float32), generate


@intrinsic(prefer_literal=True)
def mix_values(
    typing_context: Any, vectors: Any, values: Any, at: Any, shares: Any, straight: Any,
    lines: Any, line: Any, more: Any, total: Any, out: Any, column: Any,
) -> Any:  # fmt: skip
    """out[c] = Σt shares[0, t] · values[at, row t, c] / total for `vectors` · LANES columns c.

    Row t is t below `straight`, and then lines[line, t - straight] for `more` others; c runs from
    `column` on; `vectors` is a literal. values is float32 and 3-D, shares 2-D, out 1-D, lines
    int64 and 2-D.
    """
    index = types.intp
    count = vectors.literal_value
    signature = types.void(
        vectors, values, index, shares, index, lines, index, index, types.float32, out, index
    )

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        _, values_value, at_value, shares_value, below, lines_value, line_at, others = args[:8]
        total_value, out_value, first = args[8:]
        array = context.make_array(values)(context, builder, values_value)
        _, height, width = cgutils.unpack_tuple(builder, array.shape, 3)
        start = builder.mul(builder.mul(at_value, height), width)
        line = builder.gep(array.data, [builder.add(start, first)])
        of_row = _line(context, builder, shares, shares_value, INDEX(0))
        sums = [cgutils.alloca_once_value(builder, constant(0.0)) for _ in range(count)]

        def add(place: Any, row: Any) -> None:
            share = splat(builder, builder.load(builder.gep(of_row, [place])))
            offset = builder.mul(row, width)
            for number, total_at in enumerate(sums):
                part = load(builder, line, builder.add(offset, INDEX(number * LANES)))
                builder.store(multiply_add(builder, share, part, builder.load(total_at)), total_at)

        with cgutils.for_range(builder, below, intp=INDEX) as loop:
            add(loop.index, loop.index)
        of_line = _line(context, builder, lines, lines_value, line_at)
        with cgutils.for_range(builder, others, intp=INDEX) as loop:
            row = builder.load(builder.gep(of_line, [loop.index]))
            add(builder.add(below, loop.index), row)
        target = context.make_array(out)(context, builder, out_value).data
        whole = splat(builder, total_value)
        for number, total_at in enumerate(sums):
            result = builder.fdiv(builder.load(total_at), whole)
            store(builder, result, target, builder.add(first, INDEX(number * LANES)))
        return context.get_dummy_value()

    return signature, generate


def _line(context: Any, builder: Any, kind: Any, value: Any, row: Any) -> Any:
    """Pointer to the start of a row of a 2-D array."""
    array = context.make_array(kind)(context, builder, value)
    width = cgutils.unpack_tuple(builder, array.shape, 2)[1]
    return builder.gep(array.data, [builder.mul(row, width)])
