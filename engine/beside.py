"""Runs the target alone beside a finished greedy run, a pass at a time, and compares.

It feeds the run's own tokens one by one and asks, of each, whether the target alone would have
written it. Up to the first that it would not, that is the very text the target writes alone, so
the end of the run needs no rule of its own. The passes use cache rows that no run touches, and
are counted in no rate.

Knows nothing of drafting, requests or pictures.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.decode import Target
from engine.evidence import Choice, Vocabulary, best_two
from engine.sampling import penalise
from engine.trace import RunProof


class Beside:
    """The proof of one run in the making: `ids` with its prompt, `choices` of its new tokens.

    `target` is emptied and then read into, `at_once` tokens of the prompt in a pass.
    """

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        ids: Sequence[int],
        choices: Sequence[Choice],
        at_once: int,
    ) -> None:
        self._target = target
        self._vocabulary = vocabulary
        self._ids = ids
        self._choices = choices
        self._prompt = len(ids) - len(choices)
        self._at_once = at_once
        target.rollback(0)

    def advance(self) -> RunProof | None:
        """Make one pass. Returns the proof once it is there; then there is nothing to advance."""
        held = self._target.length
        if held < self._prompt - 1:
            end = min(held + self._at_once, self._prompt - 1)
            self._target.forward(self._ids[held:end], last_only=True)
            return None
        logits = self._target.forward(self._ids[held : held + 1])
        place = held + 1 - self._prompt
        choice = self._choices[place]
        scores = penalise(logits, self._ids[: held + 1], choice.penalty)[-1]
        if int(scores.max(-1).indices) != self._ids[held + 1]:
            best = best_two(scores, self._vocabulary)
            return RunProof(len(self._choices), place, choice.best, best)
        return RunProof(len(self._choices)) if place + 1 == len(self._choices) else None

    def finish(self) -> RunProof:
        """Make every pass that is left."""
        while (proof := self.advance()) is None:
            pass
        return proof
