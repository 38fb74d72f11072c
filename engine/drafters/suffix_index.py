"""What followed these words before: longest-match lookup in a long text of token ids.

A suffix array cut to a fixed depth. Every position of the text is sorted by the seven ids
that begin there, packed into two integers; all occurrences of a context then lie side by
side, found by bisection, and their next ids come out already sorted. Building it for a
million ids takes a fraction of a second, a lookup some tens of microseconds.

Knows nothing of drafting: how sure a continuation must be is the caller's to decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

# Stands between two texts laid end to end. Not a token: it never matches, never follows.
SEPARATOR = 0xFFFF

# The longest context that can be matched.
DEPTH = 6

_BITS = 16
_HEAD = 4  # ids packed into the first integer
_TAIL = DEPTH + 1 - _HEAD  # into the second: the rest of the longest context, and what follows


class SuffixIndex:
    """An index over ids (n,), texts end to end with `SEPARATOR` between them."""

    def __init__(self, ids: npt.ArrayLike) -> None:
        """Sort every position; raises ValueError for ids that do not fit in 16 bits."""
        wide = np.asarray(ids, dtype=np.int64)
        if wide.size and not 0 <= wide.min() <= wide.max() <= SEPARATOR:
            raise ValueError("ids must lie between 0 and 65535")
        self.ids: npt.NDArray[np.uint16] = wide.astype(np.uint16)
        padded = np.concatenate((self.ids, np.full(DEPTH, SEPARATOR, np.uint16)))
        head = _pack(padded[: len(wide) + _HEAD - 1], _HEAD)
        tail = _pack(padded[_HEAD:], _TAIL)
        order = np.lexsort((tail, head))
        self._head = head[order]  # (n,) sorted; within equal heads, tails are sorted
        self._tail = tail[order]

    @classmethod
    def load(cls, path: Path) -> SuffixIndex:
        """Index the array ``ids`` of a store written by ``engine.training.store``."""
        with np.load(path) as arrays:
            return cls(arrays["ids"])

    def __len__(self) -> int:
        return len(self.ids)

    def continuations(
        self, context: Sequence[int], max_len: int = DEPTH, min_len: int = 2
    ) -> tuple[int, tuple[Numbers, Numbers]]:
        """The ids that followed the longest suffix of `context` found, and how often each did.

        Suffixes of `max_len` (at most `DEPTH`) down to `min_len` ids are tried, longest first.
        Returns the length matched and (ids ascending, counts); length 0 and empty arrays
        where nothing matches.
        """
        recent = [int(token) for token in context[-min(max_len, DEPTH) :]]
        for length in range(len(recent), max(min_len, 1) - 1, -1):
            suffix = recent[-length:]
            if all(0 <= token < SEPARATOR for token in suffix):
                following, counts = self._following(suffix)
                if len(following):
                    return length, (following, counts)
        return 0, (np.empty(0, np.int64), np.empty(0, np.int64))

    def _following(self, context: list[int]) -> tuple[Numbers, Numbers]:
        """Sorted distinct ids after each occurrence of the whole context, with counts."""
        low, high = _bounds(self._head, context[:_HEAD], _HEAD)
        if len(context) < _HEAD:
            packed, shift = self._head[low:high], _BITS * (_HEAD - 1 - len(context))
        else:
            tails = self._tail[low:high]
            inner_low, inner_high = _bounds(tails, context[_HEAD:], _TAIL)
            packed = tails[inner_low:inner_high]
            shift = _BITS * (_TAIL - 1 - (len(context) - _HEAD))
        following = (packed >> np.uint64(shift)).astype(np.uint16)  # keeps the low 16 bits
        # The separator is the largest id, so texts that ended here lie last.
        following = following[: following.searchsorted(np.uint16(SEPARATOR))]
        if not len(following):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        firsts = np.flatnonzero(following[1:] != following[:-1]) + 1
        edges = np.concatenate(([0], firsts, [len(following)]))
        return following[edges[:-1]].astype(np.int64), np.diff(edges)


def _pack(ids: npt.NDArray[np.uint16], width: int) -> npt.NDArray[np.uint64]:
    """Each run of `width` ids as one integer, the first id in the highest place."""
    count = len(ids) - width + 1
    packed = np.zeros(count, dtype=np.uint64)
    for place in range(width):
        packed <<= np.uint64(_BITS)
        packed |= ids[place : place + count]
    return packed


def _bounds(packed: npt.NDArray[np.uint64], prefix: list[int], width: int) -> tuple[int, int]:
    """Where, among sorted packed runs of `width` ids, those beginning with `prefix` lie."""
    number = 0
    for token in prefix:
        number = number << _BITS | token
    free = _BITS * (width - len(prefix))
    first = np.uint64(number << free)
    last = np.uint64((number << free) | ((1 << free) - 1))
    return int(packed.searchsorted(first)), int(packed.searchsorted(last, side="right"))
