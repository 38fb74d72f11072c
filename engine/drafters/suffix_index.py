"""What followed these words before: longest-match lookup in a long text of token ids.

A suffix array cut to a fixed depth. Every position of the text is sorted by the seven ids
that begin there, packed into a few integers; all occurrences of a context then lie side by
side, found by bisection, and their next ids come out already sorted. Building it for a
million ids takes a fraction of a second, a lookup some tens of microseconds.

`Layers` are several of them looked up as one, which can grow without sorting everything anew.

Knows nothing of drafting: how sure a continuation must be is the caller's to decide.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Found = tuple[int, tuple[Numbers, Numbers]]
"""Length of a match, and the ids that followed it (ascending) with their counts."""

# Stands between two texts laid end to end. Not a token: it never matches, never follows.
SEPARATOR = 0xFFFF

# The longest context that can be matched.
DEPTH = 6

GROWING = 1 << 16
"""Ids of a layer that is still sorted anew when a text joins it: some ten milliseconds."""

_WIDTHS = {16: (4, 3), 32: (2, 2, 2, 1)}  # ids packed into each integer, by bits of an id
NOTHING: Found = (0, (np.empty(0, np.int64), np.empty(0, np.int64)))


class Store(Protocol):
    """A memory of texts."""

    def continuations(self, context: Sequence[int], max_len: int, min_len: int) -> Found:
        """What followed the longest suffix of `context`, of `max_len` down to `min_len` ids."""


def replies(
    ids: npt.NDArray[np.uint16], lengths: npt.NDArray[np.int32], prompts: npt.NDArray[np.int32]
) -> npt.NDArray[np.uint16]:
    """The replies alone, each followed by `SEPARATOR`, of chat turns end to end.

    A turn is `lengths` ids, of which the first `prompts` are its prompt.
    """
    place = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    written = ids[place >= np.repeat(prompts, lengths)]
    return np.insert(written, np.cumsum(lengths - prompts), SEPARATOR)


class SuffixIndex:
    """An index over ids (n,) of 16 or 32 `bits`, texts end to end with a separator between them.

    The separator is the largest number of so many bits.
    """

    def __init__(self, ids: npt.ArrayLike, bits: int = 16) -> None:
        """Sort every position; raises ValueError for ids that do not fit in `bits`."""
        self._bits, self._widths = bits, _WIDTHS[bits]
        self._separator = (1 << bits) - 1
        wide = np.asarray(ids, dtype=np.int64)
        if wide.size and not 0 <= wide.min() <= wide.max() <= self._separator:
            raise ValueError(f"ids must lie between 0 and {self._separator}")
        self._id = np.uint16 if bits == 16 else np.uint32
        self.ids = wide.astype(self._id)
        padded = np.concatenate((self.ids, np.full(DEPTH, self._separator, self._id)))
        words, at = [], 0
        for width in self._widths:
            words.append(_pack(padded[at : at + len(wide) + width - 1], width, bits))
            at += width
        order = np.lexsort(words[::-1])
        # (n,) each: the first is sorted; within equals of those before it, so is the next
        self._words = [word[order] for word in words]

    @classmethod
    def load(cls, path: Path) -> SuffixIndex:
        """Index the replies of a text that ``engine.training.store`` has put there.

        Raises ValueError, one clear sentence, where that is not what lies there.
        """
        try:
            with np.load(path) as arrays:
                return cls(replies(arrays["ids"], arrays["lengths"], arrays["prompt_lengths"]))
        except (
            OSError, EOFError, KeyError, ValueError, IndexError, BadZipFile, zlib.error,
        ) as error:  # fmt: skip
            raise ValueError(
                f"{path} is no store of replies, or of an older kind: put the one back that came "
                "with the program, or make it anew (engine/training/store.py)"
            ) from error

    def __len__(self) -> int:
        return len(self.ids)

    def continuations(
        self, context: Sequence[int], max_len: int = DEPTH, min_len: int = 2
    ) -> Found:
        """The ids that followed the longest suffix of `context` found, and how often each did.

        Suffixes of `max_len` (at most `DEPTH`) down to `min_len` ids are tried, longest first.
        Returns the length matched and (ids ascending, counts); length 0 and empty arrays
        where nothing matches.
        """
        recent = [int(token) for token in context[-min(max_len, DEPTH) :]]
        for length in range(len(recent), max(min_len, 1) - 1, -1):
            suffix = recent[-length:]
            if all(0 <= token < self._separator for token in suffix):
                following, counts = self._following(suffix)
                if len(following):
                    return length, (following, counts)
        return NOTHING

    def _following(self, context: list[int]) -> tuple[Numbers, Numbers]:
        """Sorted distinct ids after each occurrence of the whole context, with counts."""
        low, high, at = 0, len(self.ids), 0
        for words, width in zip(self._words, self._widths, strict=True):
            part = context[at : at + width]
            first, last = _bounds(words[low:high], part, width, self._bits)
            low, high, at = low + first, low + last, at + width
            if len(part) < width:
                break
        shift = self._bits * (width - 1 - len(part))
        following = (words[low:high] >> np.uint64(shift)).astype(self._id)  # keeps the low bits
        # The separator is the largest id, so texts that ended here lie last.
        following = following[: following.searchsorted(self._id(self._separator))]
        if not len(following):
            return NOTHING[1]
        firsts = np.flatnonzero(following[1:] != following[:-1]) + 1
        edges = np.concatenate(([0], firsts, [len(following)]))
        return following[edges[:-1]].astype(np.int64), np.diff(edges)


class Layers:
    """Indexes looked up as one. Immutable: `grown` gives another, sorting a small layer only."""

    def __init__(self, bits: int = 16, layers: tuple[SuffixIndex, ...] = ()) -> None:
        self._bits = bits
        self._layers = layers

    def __len__(self) -> int:
        return sum(map(len, self._layers))

    def grown(self, texts: Iterable[npt.ArrayLike]) -> Layers:
        """The same and some texts more. Only the last layer is sorted anew, while it is small."""
        end = np.array([(1 << self._bits) - 1], dtype=np.int64)
        fresh = [part for text in texts for part in (np.asarray(text, np.int64), end)]
        if not fresh:
            return self
        kept, last = self._layers, self._layers[-1:]
        if last and len(last[0]) < GROWING:
            kept, fresh = kept[:-1], [last[0].ids.astype(np.int64), *fresh]
        return Layers(self._bits, (*kept, SuffixIndex(np.concatenate(fresh), self._bits)))

    def continuations(
        self, context: Sequence[int], max_len: int = DEPTH, min_len: int = 2
    ) -> Found:
        """As `SuffixIndex.continuations`, over all layers."""
        return pooled([each.continuations(context, max_len, min_len) for each in self._layers])


def pooled(found: Sequence[Found]) -> Found:
    """What several indexes found, as one index of all their texts would have found it."""
    length = max((each[0] for each in found), default=0)
    best = [follows for matched, follows in found if matched == length]
    if length == 0:
        return NOTHING
    if len(best) == 1:
        return length, best[0]
    ids, places = np.unique(np.concatenate([ids for ids, _ in best]), return_inverse=True)
    counts = np.bincount(places, np.concatenate([counts for _, counts in best]))
    return length, (ids, counts.astype(np.int64))


def _pack(ids: npt.NDArray[np.unsignedinteger], width: int, bits: int) -> npt.NDArray[np.uint64]:
    """Each run of `width` ids as one integer, the first id in the highest place."""
    count = len(ids) - width + 1
    packed = np.zeros(count, dtype=np.uint64)
    for place in range(width):
        packed <<= np.uint64(bits)
        packed |= ids[place : place + count]
    return packed


def _bounds(
    packed: npt.NDArray[np.uint64], prefix: list[int], width: int, bits: int
) -> tuple[int, int]:
    """Where, among sorted packed runs of `width` ids, those beginning with `prefix` lie."""
    number = 0
    for token in prefix:
        number = number << bits | token
    free = bits * (width - len(prefix))
    first = np.uint64(number << free)
    last = np.uint64((number << free) | ((1 << free) - 1))
    return int(packed.searchsorted(first)), int(packed.searchsorted(last, side="right"))
