"""What a drafter keeps in memory: the bytes of its tensors and arrays, those it borrows left out.

It looks through the drafter itself, so a figure is of what is really held and not of a file: a
matrix unpacked for the kernels counts as unpacked, and what several parts share counts once.

Knows how engine objects hold tensors; nothing of what they are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from torch import Tensor

from engine.llama import Cache, Runner

_OURS = "engine."


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of weights, tables and indexes; and of cached rows, used or not."""

    weights: int
    cache: int

    @property
    def total(self) -> int:
        return self.weights + self.cache


def footprint(root: object, lent: Iterable[object] = ()) -> Footprint:
    """What `root` holds beyond what the `lent` objects hold."""
    taken: list[tuple[int, int]] = []
    for each in lent:
        for block, _ in _blocks(each):
            taken += _beyond(block, taken)
    sizes = {True: 0, False: 0}
    for block, in_cache in _blocks(root):
        fresh = _beyond(block, taken)
        sizes[in_cache] += sum(end - start for start, end in fresh)
        taken += fresh
    return Footprint(sizes[False], sizes[True])


def _beyond(block: tuple[int, int], taken: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pieces of a stretch of memory that are in none of those `taken`."""
    pieces = [block]
    for low, high in taken:
        pieces = [
            (start, end)
            for a, b in pieces
            for start, end in ((a, min(b, low)), (max(a, high), b))
            if start < end
        ]
    return pieces


def _blocks(root: object) -> Iterator[tuple[tuple[int, int], bool]]:
    """First and last address of the memory reached from `root`, and whether it is a cache's."""
    stack, seen = [(root, False)], set()
    while stack:
        here, in_cache = stack.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        block = _block(here)
        if block is not None:
            yield block, in_cache
            continue
        in_cache = in_cache or isinstance(here, Cache)
        rows = here.hidden if isinstance(here, Runner) else None
        stack += ((part, in_cache or part is rows) for part in _parts(here))


def _block(value: object) -> tuple[int, int] | None:
    """The memory behind a tensor or an array; None for anything else."""
    if isinstance(value, Tensor):
        storage = value.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    if isinstance(value, np.ndarray):
        return byte_bounds(value)
    return None


def _parts(value: object) -> Iterable[Any]:
    """What else an object of ours, a container, a method or a closure leads to."""
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if (owner := getattr(value, "__self__", None)) is not None:
        return (owner,)
    if (cells := getattr(value, "__closure__", None)) is not None:
        return [cell.cell_contents for cell in cells]
    if not type(value).__module__.startswith(_OURS):
        return ()
    named = getattr(value, "__dict__", {})
    slots = (name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()))
    return [*named.values(), *(getattr(value, name) for name in slots if hasattr(value, name))]
