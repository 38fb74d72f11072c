"""Prompt lookup: find the last few tokens earlier in the text, and copy what followed them.

The longest match wins, the most recent among equals; a match never includes the place it is
looked up from. A copy that runs past the end of the text goes on through its own guesses, so
that a short period repeats. Costs next to nothing, and pays on text that quotes itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.drafters.proposal import DraftRequest, Proposal, Step, chain

Ids = NDArray[np.int64]


class NGramDrafter:
    """Copies from this text. Holds nothing between rounds."""

    name = "n-gram"
    context: int | None = None

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        start: int | None = None
        s = request.settings

        def step(text: list[int], slot: int) -> Step | None:
            nonlocal start
            if slot == 0:
                start = latest_continuation(np.asarray(text), s.longest_match, s.shortest_match)
            if start is None:
                return None
            return request.copied(text[start + slot], "n-gram", start + slot)

        return chain(step, ids, request).as_one_step()

    def observe(self, ids: Sequence[int]) -> None:
        """Nothing to learn: the text itself is the memory."""


def latest_continuation(ids: Ids, longest: int, shortest: int) -> int | None:
    """Where the text went on after the latest earlier occurrence of its longest matching end.

    Ends of `longest` down to `shortest` ids are looked for.
    """
    for length in range(longest, shortest - 1, -1):
        starts = continuations(ids, length)
        if len(starts):
            return int(starts[-1])
    return None


def continuations(ids: Ids, length: int) -> Ids:
    """Positions (ascending) that follow earlier occurrences of the last `length` ids."""
    last_start = len(ids) - length  # the end itself starts here, and is no match
    if last_start < 1:
        return np.empty(0, dtype=np.int64)
    matches = np.ones(last_start, dtype=bool)
    for offset in range(length):
        matches &= ids[offset : offset + last_start] == ids[last_start + offset]
    return np.flatnonzero(matches) + length
