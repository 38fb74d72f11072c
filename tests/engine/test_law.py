"""The law of whole runs, by walking every branch the draws of a session can take."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch

from engine.trace import Settings
from tests.engine import kit
from tests.engine.enumeration import chain_law
from tests.engine.kit import TableModel, header, session


class Choices:
    """Stands in for every draw of a run: follows a script of choices, then takes the first.

    `weight` is the exact chance of the run that the choices make; `untaken` are the scripts
    that branch off it. Walking them all enumerates every run there is.
    """

    def __init__(self, script):
        self._script = script
        self._taken = []
        self._accepts = []
        self.weight = 1.0
        self.untaken = []

    def uniform(self, stream, round_index, slot=0):
        if stream != "accept":
            return 0.5  # `pick` below chooses
        refuse = self._choose([0, 1])
        self._accepts.append(refuse)
        return 1 - 2**-53 if refuse else 0.0

    def pick(self, probs, draw):
        token = self._choose(probs.nonzero().squeeze(-1).tolist())
        self.weight *= float(probs[token] / probs.sum())
        return token

    def weigh(self, made):
        """Put in the chance of the accept draws of a round, now that it is known."""
        for guess, refuse in zip(made.guesses, self._accepts, strict=True):
            chance = 1.0 if guess.draw is None else guess.accept_prob
            self.weight *= 1 - chance if refuse else chance
        self._accepts.clear()

    def _choose(self, options):
        at = len(self._taken)
        if at < len(self._script):
            self._taken.append(self._script[at])
        else:
            self.untaken += [(*self._taken, other) for other in options[1:]]
            self._taken.append(options[0])
        return self._taken[-1]


def law_of_whole_runs(monkeypatch, target_law, draft_law, s, vocab, length):
    """The exact law of `length` tokens written by the session, every branch walked."""
    found = defaultdict(float)
    pending = [()]
    while pending:
        choices = Choices(pending.pop())
        monkeypatch.setattr("engine.verification.pick", choices.pick)
        monkeypatch.setattr("engine.drafters.proposal.pick", choices.pick)
        run = session(
            TableModel(target_law),
            kit.Script(lambda text: draft_law(tuple(text))),
            header([0], s, max_new_tokens=length),
            vocab=vocab,
        )
        run._draws = choices
        for made in run.rounds():
            choices.weigh(made)
        found[tuple(kit.committed(run))] += choices.weight
        pending.extend(choices.untaken)
    return found


@pytest.mark.parametrize(
    ("k", "quality", "temperature", "top_k", "top_p"),
    [
        (0, 100.0, 1.0, 0, 1.0),
        (1, 100.0, 1.0, 0, 1.0),
        (2, 100.0, 0.6, 2, 1.0),
        (2, 40.0, 1.3, 0, 0.8),
        (1, 0.0, 1.0, 0, 1.0),
        (2, 70.0, 0.0, 0, 1.0),
    ],
)
def test_the_law_of_whole_runs_is_the_target_s(monkeypatch, k, quality, temperature, top_k, top_p):
    """Drafting, dial, filters, verdicts and commits together; nothing is sampled."""
    vocab, length = 3, 3
    target_law, draft_law = kit.random_law(1, vocab), kit.random_law(2, vocab)
    s = Settings("script", k, quality, temperature, top_k, top_p)
    found = law_of_whole_runs(monkeypatch, target_law, draft_law, s, vocab, length)
    alone_law = chain_law(lambda prefix: kit.process_law(target_law((0, *prefix)), s), length)
    assert max(abs(found[text] - chance) for text, chance in alone_law.items()) < 1e-12
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)


def test_confidence_decides_nothing_about_acceptance():
    """B42: a guess its drafter is sure of passes with the target's own probability."""
    law = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    run = session(
        TableModel(lambda prefix: law), kit.Script(lambda text: 0),
        header([1], Settings("script", 1, temperature=1.0), max_new_tokens=2), vocab=3,
    )  # fmt: skip
    guess = run.advance().guesses[0]
    assert guess.draft_prob == 1.0
    assert guess.accept_prob == pytest.approx(0.2)
