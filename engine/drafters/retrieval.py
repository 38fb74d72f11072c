"""Retrieval: continue as this text did before, or as the target's earlier replies did.

At each guess the longest match is looked up in the text itself, and in what the target wrote on
other prompts: a store that ships, and the run's memory of earlier replies, as one. Of the two most
frequent continuations the one more likely to be right is proposed, until a guess is hardly ever
kept (the idea of suffix decoding and of REST). Needs no training, costs next to nothing.

How likely that is follows from how long the match is and how often it went on so: c of n times,
c less a discount ÷ n (absolute discounting, Ney, Essen and Kneser 1994), for what was seen once
is often seen no more. On 115 held-out replies, of what a text had once after two tokens .54 was
right and after six .81, of what a store had, .14 and .61; the discounts say .55, .82, .10, .63.

`HybridDrafter` lets EAGLE guess where the memory does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from engine.arguments import MAX_K
from engine.drafters.eagle import EagleDrafter
from engine.drafters.ngram import continuations
from engine.drafters.proposal import DraftRequest, Proposal, Step, chain, common_prefix
from engine.drafters.suffix_index import Store, pooled

LONGEST, SHORTEST = 6, 2

IN_TEXT, IN_STORES = 0.45, 0.9
"""What is taken off a count after a match of `SHORTEST` tokens,"""

SHRINKS = 0.8
"""and what is left of that with each token more."""

WORTH = 0.03
"""Chance to be kept below which a guess that costs nothing is not made: what a place costs in the
target's pass, in passes of one token on a CPU."""

SURE = 0.6
"""Chance from which on a copy is made without asking a model: it would seldom be surer."""

ASKING = 0.4
"""Chance to be kept below which a model's step does not pay: a guess in two of it is right."""


class Copy(NamedTuple):
    """What may follow: its id, where it is copied from (see `trace.Guess`), and its chance."""

    token: int
    source: str
    origin: int | None
    chance: float

    def guess(self, request: DraftRequest) -> Step:
        return request.copied(self.token, self.source, self.origin)


class RetrievalDrafter:
    """Copies from this text, a store and the run's memory. Holds nothing between rounds."""

    name = "retrieval"
    context: int | None = None

    def __init__(self, store: Store) -> None:
        self._store = store

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        kept = 1.0

        def step(text: list[int], slot: int) -> Step | None:
            nonlocal kept
            copy = self.likeliest(text, request)
            if copy is None or kept * copy.chance < WORTH:
                return None
            kept *= copy.chance
            return copy.guess(request)

        return chain(step, ids, request).as_one_step()

    def likeliest(self, text: Sequence[int], request: DraftRequest) -> Copy | None:
        """What most likely follows `text`, by all that can be looked up."""
        stores = {"store": self._store}
        if request.memory is not None:
            stores["memory"] = request.memory
        return likeliest(text, stores)

    def observe(self, ids: Sequence[int]) -> None:
        """Nothing to learn: the text itself is the memory."""


class HybridDrafter:
    """Copies where the memory knows better, EAGLE's guesses elsewhere; decided guess by guess.

    Both say how likely they are to be right, a model by the chance it gives its likeliest token
    (EAGLE's is true within .03 over its whole range, first guess to fourth, on held-out replies).
    After a copy the model is asked no more in that round: it would have to read what was
    copied first, a step for each token of it, and gains less than that costs. Nor is it where
    its guess would hardly be kept.

    Where guesses stay unread nobody knows how sure the model is: it then guesses all or nothing.
    """

    name = "hybrid"

    def __init__(self, memory: RetrievalDrafter, model: EagleDrafter) -> None:
        self._memory = memory
        self._model = model
        self._last: list[int] = []  # the text of its last round,
        self._held = 0  # and how much of it the model had read by then

    @property
    def context(self) -> int | None:
        return self._model.context

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        # What the model was spared while this one copied is on the clock when it is read; what
        # was there before, or went as others used it between two rounds, is preparation.
        owes = self._goes_on(ids)
        if not owes:
            self._model.prepare(ids, request)
        proposal = self._guess(ids, request, owes)
        self._last, self._held = list(ids), self._model.held(ids)
        return proposal

    def _guess(self, ids: Sequence[int], request: DraftRequest, owes: bool) -> Proposal:
        # With the dial turned a copied guess is drawn, too: then nothing stays unread.
        unread = request.desk is not None and request.settings.quality >= 100
        kept, asking = 1.0, True

        def step(text: list[int], slot: int) -> Step | None:
            nonlocal kept, asking
            copy = self._memory.likeliest(text, request)
            chance = copy.chance if copy is not None else 0.0
            asking = asking and chance < SURE and kept >= ASKING
            if asking and owes and slot == 0:
                self._model.prepare(ids, request)
            if asking and unread:
                return None
            if asking:
                said = self._model.step(text, slot, request)
                sureness = said.sureness
                if not sureness <= chance:  # nor if it is no number: who draws will say so
                    kept *= sureness
                    return said
                asking = False
            if copy is None or kept * chance < WORTH:
                return None
            kept *= chance
            return copy.guess(request)

        copied = chain(step, ids, request)
        if asking and unread:
            return self._model.unread(ids, request, sum(copied.step_seconds))
        return copied

    def _goes_on(self, ids: Sequence[int]) -> bool:
        """Whether the text is that of its last round and what the round brought, read as far."""
        known = len(self._last)
        goes_on = 0 < len(ids) - known <= MAX_K + 1 and common_prefix(self._last, ids) == known
        return goes_on and self._model.held(ids) >= self._held

    def observe(self, ids: Sequence[int]) -> None:
        self._model.observe(ids)


def likeliest(text: Sequence[int], stores: Mapping[str, Store]) -> Copy | None:
    """What most likely follows `text`, by itself and these stores."""
    found = [copy for copy in (in_text(text), in_stores(text, stores)) if copy is not None]
    return max(found, key=lambda copy: copy.chance, default=None)


def in_text(text: Sequence[int]) -> Copy | None:
    """What followed in the text itself most often, of equals the latest, and where it did last."""
    ids = np.asarray(text)
    for length in range(LONGEST, SHORTEST - 1, -1):
        starts = continuations(ids, length)
        if len(starts):
            tokens, counts = np.unique(ids[starts], return_counts=True)
            best = tokens[counts == counts.max()]
            origin = int(starts[np.isin(ids[starts], best)][-1])
            chance = _chance(IN_TEXT, length, int(counts.max()), len(starts))
            return Copy(int(ids[origin]), "n-gram", origin, chance)
    return None


def in_stores(text: Sequence[int], stores: Mapping[str, Store]) -> Copy | None:
    """What followed in all stores together most often, and the one that has most of it."""
    context = text[-LONGEST:]
    found = {name: each.continuations(context, LONGEST, SHORTEST) for name, each in stores.items()}
    length, (ids, counts) = pooled(list(found.values()))
    if not length:
        return None
    best = int(counts.argmax())
    token = int(ids[best])

    def has(name: str) -> int:
        matched, (theirs, times) = found[name]
        return int(times[theirs == token].sum()) if matched == length else 0

    chance = _chance(IN_STORES, length, int(counts[best]), int(counts.sum()))
    return Copy(token, max(found, key=has), None, chance)


def _chance(discount: float, length: int, count: int, total: int) -> float:
    """That what followed a match of `length` tokens `count` times of `total` follows again."""
    return (count - discount * SHRINKS ** (length - SHORTEST)) / total
