"""The law of whole runs, by walking every branch the draws of a session can take."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import sampling
from engine.sampling import Draws
from engine.trace import Settings
from engine.verification import pick, verify_chain
from tests.engine import kit
from tests.engine.enumeration import difference
from tests.engine.kit import TableModel, header, session

NOTHING = 1e-14
"""A chance below this is rounding."""


class Draw:
    """A uniform number of which no more is known than was asked: it lies between two others."""

    def __init__(self, choose):
        self._choose = choose
        self._low, self._high = 0.0, 1.0

    def among(self, bounds):
        """Between which two neighbours of `bounds`, ascending from 0 to 1, it lies."""
        parts = [(max(a, self._low), min(b, self._high)) for a, b in itertools.pairwise(bounds)]
        chosen = self._choose([(b - a) / (self._high - self._low) for a, b in parts])
        self._low, self._high = parts[chosen]
        return chosen

    def __lt__(self, bound):
        return self.among([0.0, min(bound, 1.0), 1.0]) == 0

    def __mul__(self, factor):
        return Times(self, factor)


@dataclass
class Times:
    """A draw times a factor; all that is asked of it is whether it lies below something."""

    draw: Draw
    factor: float

    def __lt__(self, bound):
        return self.draw < bound / self.factor


def pick_of(probs, draw):
    """`engine.verification.pick` for a draw that is not known."""
    tokens = probs.nonzero().squeeze(-1).tolist()
    bounds = (probs[tokens].double().cumsum(0) / probs.sum().double()).tolist()
    return tokens[draw.among([0.0, *bounds[:-1], 1.0])]


class Choices:
    """Stands in for every draw of a run: follows a script of choices, then takes the first.

    `weight` is the exact chance of the run that the choices make; `untaken` are the scripts
    that branch off it. Walking them all enumerates every run there is. A draw used twice is
    one draw.
    """

    def __init__(self, script):
        self._script = script
        self._taken = []
        self._draws = {}
        self.weight = 1.0
        self.untaken = []

    def uniform(self, stream, round_index, slot=0):
        return self._draws.setdefault((stream, round_index, slot), Draw(self._choose))

    def _choose(self, chances):
        options = [i for i, chance in enumerate(chances) if chance > NOTHING]
        at = len(self._taken)
        if at == len(self._script):
            self.untaken += [(*self._script, other) for other in options[1:]]
            self._script = (*self._script, options[0])
        chosen = self._script[at]
        self._taken.append(chosen)
        self.weight *= chances[chosen]
        return chosen


def law_of_whole_runs(monkeypatch, pair, configured, vocab, length, ks=(), words=None):
    """The exact law of `length` tokens written by the session, every branch walked.

    `pair` makes target and drafter of a run that is `configured` by this header. With `ks` each
    round asks for the next number of them, around and around. `words` may end a text earlier. Runs
    may have room to write on past these tokens, so that limits need not cut what is proposed.
    Their clock hardly moves: a pass made to wake the machine up would ask for a draw.
    """
    for module in ("verification", "drafters.proposal", "prove"):
        monkeypatch.setattr(f"engine.{module}.pick", pick_of)
    found = defaultdict(float)
    pending = [()]
    while pending:
        choices = Choices(pending.pop())
        run = session(
            *pair(), configured, words, vocab=vocab, now=itertools.count(0.0, 1e-6).__next__
        )
        run._draws = choices
        while run.finished is None and len(kit.committed(run)) < length:
            if ks:
                now = replace(configured.settings, k=ks[run.made % len(ks)])
                run.rewind(run.made, now)
            run.advance()
        found[tuple(kit.committed(run)[:length])] += choices.weight
        pending.extend(choices.untaken)
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    return found


def distance_of_whole_runs(monkeypatch, s, vocab=3, length=3, ks=(), seed=1):
    """Largest difference between the law of whole runs and that of the target alone."""
    target_law, draft_law = kit.random_law(seed, vocab), kit.random_law(seed + 1, vocab)

    def pair():
        return TableModel(target_law), kit.Script(lambda text: draft_law(tuple(text)))

    run = header([0], s, max_new_tokens=length)
    found = law_of_whole_runs(monkeypatch, pair, run, vocab, length, ks)

    def law(prefix):
        return kit.process_law(target_law((0, *prefix)), s, (0, *prefix))

    return difference(law, length, found)


@pytest.mark.parametrize(
    ("k", "quality", "temperature", "top_k", "top_p", "penalty"),
    [
        (0, 100.0, 1.0, 0, 1.0, 1.0),
        (1, 100.0, 1.0, 0, 1.0, 1.0),
        (2, 100.0, 0.6, 2, 1.0, 1.0),
        (2, 40.0, 1.3, 0, 0.8, 1.0),
        (1, 0.0, 1.0, 0, 1.0, 1.0),
        (2, 70.0, 0.0, 0, 1.0, 1.0),
        (2, 100.0, 1.0, 0, 1.0, 1.8),
        (2, 60.0, 0.8, 2, 0.9, 0.6),
    ],
)
def test_the_law_of_whole_runs_is_the_target_s(
    monkeypatch, k, quality, temperature, top_k, top_p, penalty
):
    """Drafting, dial, penalty, filters, verdicts and commits together; nothing is sampled."""
    s = Settings("script", k, quality, temperature, top_k, top_p, repetition_penalty=penalty)
    assert distance_of_whole_runs(monkeypatch, s) < 1e-12


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 10**6),
    vocab=st.integers(2, 3),
    ks=st.lists(st.integers(0, 2), min_size=1, max_size=3),
    temperature=st.sampled_from([0.4, 1.0, 2.0]),
    top_k=st.integers(0, 3),
    top_p=st.sampled_from([0.5, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.6]),
    penalty=st.sampled_from([1.0, 1.5]),
    quality=st.sampled_from([100.0, 50.0]),
)
def test_the_law_is_the_target_s_for_any_settings_and_a_k_that_changes_every_round(
    monkeypatch, seed, vocab, ks, temperature, top_k, top_p, min_p, penalty, quality
):
    s = Settings("script", 1, quality, temperature, top_k, top_p, True, penalty, min_p=min_p)
    assert distance_of_whole_runs(monkeypatch, s, vocab, ks=ks, seed=seed) < 1e-12


PENALISED = Settings("script", 2, temperature=1.0, repetition_penalty=1.8)


@pytest.mark.parametrize(
    "fault",
    [
        lambda logits, text, penalty, guesses, parents: torch.cat(
            [sampling.penalise(row[None], text, penalty) for row in logits]
        ),
        lambda logits, text, penalty, guesses, parents: torch.cat(
            [sampling.penalise(row[None], [*text, *guesses], penalty) for row in logits]
        ),
        lambda logits, text, penalty, guesses, parents: logits,
    ],
    ids=["guesses are not seen", "later guesses are seen too", "only the drafter penalises"],
)
def test_a_penalty_that_sees_the_wrong_guesses_is_caught(monkeypatch, fault):
    """B40's kind: a row is shaped by the guesses before it, by no others, and undone with them."""
    monkeypatch.setattr("engine.decode.penalise", fault)
    assert distance_of_whole_runs(monkeypatch, PENALISED) > 1e-3


def test_a_drafter_that_penalises_otherwise_costs_acceptance_and_no_exactness(monkeypatch):
    """B14: an honest law may be any law."""
    monkeypatch.setattr(
        "engine.drafters.proposal.penalise", lambda logits, ids, penalty: logits.flip(-1)
    )
    assert distance_of_whole_runs(monkeypatch, PENALISED) < 1e-12


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


# --- draws ------------------------------------------------------------------------------------

TARGET = torch.tensor([0.4, 0.1, 0.3, 0.2], dtype=torch.float64)
DRAFT = torch.tensor([0.1, 0.3, 0.1, 0.5], dtype=torch.float64)
SIGMAS = 5


def farthest(streams, count=6000):
    """Standard deviations by which the frequency of any token is off the target's law.

    `streams` says which stream each decision of a round of one guess draws from.
    """
    draws = Draws(3)
    counts = torch.zeros(4, dtype=torch.float64)
    for index in range(count):
        draft, accept, emit = (draws.uniform(stream, index) for stream in streams)
        guess = pick(DRAFT, draft)
        verdict = verify_chain(torch.stack((TARGET,) * 2), DRAFT[None], [guess], [accept], emit)
        counts[guess if verdict.path else verdict.token] += 1
    spread = (count * TARGET * (1 - TARGET)).sqrt()
    return float(((counts - count * TARGET) / spread).abs().max())


def test_sampled_tokens_are_within_five_sigma_of_the_target_s_law():
    assert farthest(("draft", "accept", "emit")) < SIGMAS


@pytest.mark.parametrize(
    "streams", [("draft", "draft", "emit"), ("draft", "accept", "draft"), ("draft", "emit", "emit")]
)
def test_a_stream_shared_between_two_decisions_is_caught(streams):
    assert farthest(streams) > SIGMAS


def test_a_session_draws_every_decision_from_a_stream_of_its_own():
    """B20: no number is used for two decisions, and how many are used depends on nothing."""
    used = []

    class Watched(Draws):
        def uniform(self, stream, round_index, slot=0):
            used.append((stream, round_index, slot))
            return super().uniform(stream, round_index, slot)

    law = kit.random_law(1, 4)
    run = session(
        TableModel(law), kit.Script(lambda text: kit.random_law(2, 4)(tuple(text))),
        header([0], Settings("script", 2, temperature=1.0), max_new_tokens=12), vocab=4,
    )  # fmt: skip
    run._draws = Watched(5)
    rounds = list(run.rounds())
    widths = [len(made.guesses) for made in rounds]
    assert len(used) == len(set(used))
    assert set(used) == {
        *((stream, i, slot) for i, n in enumerate(widths) for slot in range(n)
          for stream in ("draft", "accept")),
        *(("emit", i, 0) for i in range(len(rounds))),
    }  # fmt: skip


def test_any_temperature_that_is_as_good_as_zero_writes_the_greedy_text():
    """B17: one predicate for both sides, and nothing that divides by it."""
    law = kit.random_law(4, 5)
    texts = []
    for temperature, k in itertools.product((0.0, 1e-8, 1e-5, 1e-3), (0, 3)):
        run = session(
            TableModel(law), kit.Script(lambda text: kit.random_law(2, 5)(tuple(text))),
            header([0], Settings("script", k, temperature=temperature), max_new_tokens=12),
            vocab=5,
        )  # fmt: skip
        rounds = list(run.rounds())
        assert all(made.emitted.prob > 0.999 for made in rounds)
        texts.append(kit.committed(run))
    assert len(set(map(tuple, texts))) == 1
