"""Retrieval: continue as this text did before, else as the target's earlier replies did.

At each guess the longest match is looked up, first in the text itself, then in what the target
wrote on other prompts: a store that ships, and the run's memory of earlier replies, as one;
its most frequent continuation is proposed while it is at least half of them (the idea of suffix
decoding and of REST). Needs no training, costs next to nothing.

`HybridDrafter` lets a small model guess where the memory has nothing to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.drafters.model import ModelDrafter
from engine.drafters.ngram import continuations
from engine.drafters.proposal import DraftRequest, Proposal, Step, chain
from engine.drafters.suffix_index import Store, pooled

LONGEST, SHORTEST = 6, 2
CONFIDENT_SHARE = 0.5

WORTH_MORE = 4
"""Tokens a store must have matched to know better than a small model.

On thirty prompts (1,755 tokens) what followed a match of two or three was right less often than the
model's own guess; what followed in the text itself, far more often after matches of any length.
"""


class RetrievalDrafter:
    """Copies from this text, a store and the run's memory. Holds nothing between rounds."""

    name = "retrieval"
    context: int | None = None

    def __init__(self, store: Store) -> None:
        self._store = store

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        return chain(lambda text, slot: self.step(text, request), ids, request).as_one_step()

    def step(
        self, text: Sequence[int], request: DraftRequest, shortest: int = SHORTEST
    ) -> Step | None:
        """A confident continuation of `text`, or None; stores must match `shortest` tokens."""
        found = in_text(text)
        if found is not None:
            return request.copied(text[found], "n-gram", found)
        stores = {"store": self._store}
        if request.memory is not None:
            stores["memory"] = request.memory
        copied = in_stores(text, stores, shortest)
        return None if copied is None else request.copied(*copied)

    def observe(self, ids: Sequence[int]) -> None:
        """Nothing to learn: the text itself is the memory."""


class HybridDrafter:
    """Memory where it knows better, a small model elsewhere; decided guess by guess.

    Where guesses stay unread, nobody knows the text to look up once the model has guessed: from
    there it goes on alone until the round is decided.
    """

    name = "hybrid"

    def __init__(self, memory: RetrievalDrafter, model: ModelDrafter) -> None:
        self._memory = memory
        self._model = model

    @property
    def context(self) -> int | None:
        return self._model.context

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        # With the dial turned a copied guess is drawn, too: then nothing stays unread.
        if request.desk is not None and request.settings.quality >= 100:
            copied = chain(lambda text, slot: self._copied(text, request), ids, request)
            left = request.k - len(copied.tokens)
            return self._model.go_on(copied, ids, request) if left else copied

        def step(text: list[int], slot: int) -> Step:
            return self._copied(text, request) or self._model.step(text, request)

        return chain(step, ids, request)

    def _copied(self, text: Sequence[int], request: DraftRequest) -> Step | None:
        return self._memory.step(text, request, WORTH_MORE)

    def observe(self, ids: Sequence[int]) -> None:
        self._model.observe(ids)


def in_text(text: Sequence[int]) -> int | None:
    """Position of the confident continuation in the text itself: its latest occurrence."""
    ids = np.asarray(text)
    for length in range(LONGEST, SHORTEST - 1, -1):
        starts = continuations(ids, length)
        if len(starts):
            token = _confident(*np.unique(ids[starts], return_counts=True))
            return None if token is None else int(starts[ids[starts] == token][-1])
    return None


def in_stores(
    text: Sequence[int], stores: Mapping[str, Store], shortest: int = SHORTEST
) -> tuple[int, str] | None:
    """The confident continuation in all stores together, and the one that has most of it."""
    context = text[-LONGEST:]
    found = {name: each.continuations(context, LONGEST, shortest) for name, each in stores.items()}
    length, (ids, counts) = pooled(list(found.values()))
    token = _confident(ids, counts) if length else None
    if token is None:
        return None

    def has(name: str) -> int:
        matched, (theirs, times) = found[name]
        return int(times[theirs == token].sum()) if matched == length else 0

    return token, max(found, key=has)


def _confident(ids: NDArray[np.int64], counts: NDArray[np.int64]) -> int | None:
    best = int(counts.argmax())
    return int(ids[best]) if counts[best] >= CONFIDENT_SHARE * counts.sum() else None
