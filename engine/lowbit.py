"""Weights as small whole numbers and scales: low-bit copies of a model, and quantised targets.

Each group of weights along a row shares one scale; a weight becomes the nearest multiple of
it, nothing is trained. Fewer bits or longer groups make a cheaper and worse guesser: an honest
quality ladder for a drafter. Embeddings and norms stay as they are and are shared with the
original.

Codes of four bits and less lie two in a byte, so a pass over them reads half the bytes.

Knows tensors, nothing of decoding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from engine.llama import Weights


@dataclass(frozen=True, slots=True)
class Width:
    """Bits of a weight and how many neighbours share a scale; `group` 0 means a whole row."""

    bits: int
    group: int = 0


LADDER = {
    "copy-8": Width(8),
    "copy-4g64": Width(4, 64),
    "copy-4": Width(4),
    "copy-3g32": Width(3, 32),
    "copy-3g64": Width(3, 64),
    "copy-2g16": Width(2, 16),
}
"""Copies on offer as drafters, best guesser first."""

HEAD_WIDTH = Width(8)
_TINY = 1e-30  # keeps a group of zeros from dividing by its scale

_PAIRED = 8
"""Columns k and k + 8 of every sixteen share a byte: each half of eight bytes is a vector."""


@dataclass(frozen=True, slots=True)
class Codes:
    """A matrix (…, N, K) as whole numbers, a scale for each group (…, N, K / group), and lows.

    A weight is value · scale; with int8 `lows` (value + low) · scale; with lows in the scales'
    precision value · scale + low. Values are int8 (…, N, K), or, with lows, pairs: uint8
    (…, N, K / 2), two of 0 … 15 a byte (see `pack`).
    """

    values: Tensor
    scales: Tensor
    lows: Tensor | None = None

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Values, scales and, if there are any, lows."""
        return (self.values, self.scales) + (() if self.lows is None else (self.lows,))

    @property
    def is_packed(self) -> bool:
        return self.values.dtype == torch.uint8

    @property
    def bits(self) -> int:
        """Bits one value takes."""
        return 4 if self.is_packed else 8

    @property
    def shape(self) -> torch.Size:
        *leading, width = self.values.shape
        return torch.Size((*leading, 2 * width if self.is_packed else width))

    @property
    def group(self) -> int:
        """Neighbouring weights that share a scale."""
        return self.shape[-1] // self.scales.shape[-1]

    def __getitem__(self, at: slice | int | None) -> Codes:
        """Index the leading axis of all parts alike."""
        return Codes(*(part[at] for part in self.parts))

    def whole(self) -> Tensor:
        """The whole numbers (…, N, K) that scales multiply, as int8."""
        values = unpair(self.values) if self.is_packed else self.values
        if self.lows is None or self.lows.dtype != torch.int8:
            return values
        return values + self.lows.repeat_interleave(self.group, -1)

    def dense(self) -> Tensor:
        """The matrix these codes stand for, in the scales' precision."""
        groups = self.whole().to(self.scales.dtype).view(*self.scales.shape, self.group)
        weights = groups * self.scales[..., None]
        if self.lows is not None and self.lows.dtype != torch.int8:
            weights += self.lows[..., None]
        return weights.flatten(-2)

    def to(self, device: str) -> Codes:
        return Codes(*(part.to(device) for part in self.parts))


def encode(matrix: Tensor, width: Width) -> Codes:
    """Round `matrix` (…, N, K) to nearest, on levels that span each group's own range.

    The levels are 2^bits neighbouring multiples of the group's scale, zero among them, placed
    to fit a lopsided group; at 8 bits they are symmetric, so that every code fits a byte.
    Raises ValueError when rows do not divide into groups.
    """
    group = width.group or matrix.shape[-1]
    if matrix.shape[-1] % group:
        raise ValueError(f"rows of {matrix.shape[-1]} do not divide into groups of {group}")
    groups = matrix.reshape(*matrix.shape[:-1], -1, group)
    low, high = groups.amin(-1).clamp_max_(0), groups.amax(-1).clamp_min_(0)
    if width.bits == 8:
        scales = torch.maximum(-low, high) / 127
        lowest = torch.full_like(scales, -127)
    else:
        scales = (high - low) / (2**width.bits - 1)
        lowest = (low / scales.clamp_min(_TINY)).round_()
    highest = lowest + (254 if width.bits == 8 else 2**width.bits - 1)
    codes = (groups / scales.clamp_min(_TINY)[..., None]).round_()
    codes.clamp_(lowest[..., None], highest[..., None])
    return Codes(codes.to(torch.int8).flatten(-2), scales)


def pack(codes: Codes) -> Codes:
    """The same whole numbers, two in a byte, counted from the lowest of each group.

    Raises ValueError unless a group's numbers span less than 16 and sixteens divide it.
    """
    if codes.lows is not None or codes.group % (2 * _PAIRED):
        raise ValueError(f"groups of {codes.group} cannot be packed")
    groups = codes.values.view(*codes.scales.shape, codes.group)
    lows = groups.amin(-1)
    above = groups - lows[..., None]
    if int(above.amax()) > 15 or int(above.amin()) < 0:
        raise ValueError("codes that span 16 numbers or more do not fit four bits")
    return Codes(pair(above.flatten(-2)), codes.scales, lows)


def pair(values: Tensor) -> Tensor:
    """Numbers 0 … 15 (…, K) as bytes (…, K / 2): of every sixteen, 0 … 7 below 8 … 15."""
    halves = values.to(torch.uint8).reshape(*values.shape[:-1], -1, 2, _PAIRED)
    return (halves[..., 0, :] | halves[..., 1, :] << 4).flatten(-2)


def unpair(pairs: Tensor) -> Tensor:
    """The numbers (…, K), int8, that `pair` has put into bytes (…, K / 2)."""
    eights = pairs.reshape(*pairs.shape[:-1], -1, _PAIRED)
    return torch.stack((eights & 15, eights >> 4), dim=-2).flatten(-3).to(torch.int8)


def join(matrices: Sequence[Codes]) -> Codes:
    """Rows of several matrices of one form and width, one below the other."""
    return Codes(*map(torch.cat, zip(*(each.parts for each in matrices), strict=True)))


def stack(matrices: Iterable[Codes]) -> Codes:
    """Matrices of one form and shape along a new first axis, where they are read fastest."""
    stacked = []
    for part in zip(*(each.parts for each in matrices), strict=True):
        first = part[0]
        room = on_large_pages((len(part), *first.shape), first.dtype, str(first.device))
        stacked.append(torch.stack(part, out=room))
    return Codes(*stacked)


def on_large_pages(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensor:
    """Uninitialised memory; on a CPU numpy's, which asks Linux for large pages.

    Reading weights is what decoding waits for, and small pages slow it down.
    """
    if device != "cpu":
        return torch.empty(shape, dtype=dtype, device=device)
    size = math.prod(shape) * dtype.itemsize
    return torch.from_numpy(np.empty(size, np.uint8)).view(dtype).view(shape)


def copy_of(weights: Weights, width: Width) -> Weights:
    """A copy whose matrices are rounded to `width`, and whose head is to 8 bits a row.

    The head is kept finer: it costs as much to read in any case, and its rounding errors reach
    the law undamped. Of a quantised model it is the head there is.
    """

    def rounded(matrix: Tensor | Codes) -> Codes:
        whole = (
            each.dense() if isinstance(each, Codes) else each
            for each in (matrix[layer] for layer in range(matrix.shape[0]))
        )
        codes = (encode(layer, width) for layer in whole)
        fits = width.bits <= 4 and (width.group or matrix.shape[-1]) % (2 * _PAIRED) == 0
        return stack(map(pack, codes) if fits else codes)

    head = weights.head
    return replace(
        weights,
        qkv=rounded(weights.qkv),
        output=rounded(weights.output),
        gate_up=rounded(weights.gate_up),
        down=rounded(weights.down),
        head=head if isinstance(head, Codes) else stack([encode(head, HEAD_WIDTH)])[0],
    )
