"""Low-bit copies of a model: weights rounded to a few levels, nothing trained.

Each group of weights along a row shares one scale; a weight becomes the nearest multiple of
it. Fewer bits or longer groups make a cheaper and worse guesser: an honest quality ladder for
a drafter. Embeddings and norms stay as they are and are shared with the original.

Knows tensors, nothing of decoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, slots=True)
class Codes:
    """A matrix as whole numbers and scales: values (…, N, K) int8, scales (…, N, K / group)."""

    values: Tensor
    scales: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    @property
    def group(self) -> int:
        """Neighbouring weights that share a scale."""
        return self.values.shape[-1] // self.scales.shape[-1]

    def __getitem__(self, at: slice | int | None) -> Codes:
        """Index the leading axis of both parts alike."""
        return Codes(self.values[at], self.scales[at])

    def dense(self) -> Tensor:
        """The matrix these codes stand for, in the scales' precision."""
        groups = self.values.to(self.scales.dtype).view(*self.scales.shape, self.group)
        return (groups * self.scales[..., None]).flatten(-2)


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
    low, high = groups.amin(-1).clamp_max(0), groups.amax(-1).clamp_min(0)
    if width.bits == 8:
        scales = torch.maximum(-low, high) / 127
        lowest = torch.full_like(scales, -127)
    else:
        scales = (high - low) / (2**width.bits - 1)
        lowest = (low / scales.clamp_min(_TINY)).round()
    highest = lowest + (254 if width.bits == 8 else 2**width.bits - 1)
    codes = (groups / scales.clamp_min(_TINY)[..., None]).round()
    codes = codes.clamp(lowest[..., None], highest[..., None])
    return Codes(codes.to(torch.int8).flatten(-2), scales)


def copy_of(weights: Weights, width: Width) -> Weights:
    """A copy whose matrices are rounded to `width`, and whose head is to 8 bits a row.

    The head is kept finer: it costs as much to read in any case, and its rounding errors reach
    the law undamped.
    """

    def stack(matrices: Iterator[Codes]) -> Codes:
        parts = list(matrices)
        return Codes(
            torch.stack([part.values for part in parts]),
            torch.stack([part.scales for part in parts]),
        )

    def coded(matrix: Tensor | Codes) -> Codes:
        if isinstance(matrix, Codes):
            raise ValueError("these weights are a low-bit copy already")
        return stack(encode(layer, width) for layer in matrix)

    head = weights.head
    if isinstance(head, Codes):
        raise ValueError("these weights are a low-bit copy already")
    return replace(
        weights,
        qkv=coded(weights.qkv),
        output=coded(weights.output),
        gate_up=coded(weights.gate_up),
        down=coded(weights.down),
        head=encode(head, HEAD_WIDTH),
    )
