"""Where only chains are exact to the bit, a greedy tree's path is looked at again, as a chain."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.desk import Desk
from engine.drafters.eagle import EagleTreeDrafter
from engine.drafters.medusa import MedusaTreeDrafter
from engine.drafters.proposal import Proposal
from engine.graphs import GraphKernel
from engine.kernels import Kernels
from engine.llama import Runner
from engine.trace import Settings
from tests.engine import kit
from tests.engine.kit import TINY, audit, header, session
from tests.engine.runs import GREEDY, ORACLE, PROMPT
from tests.engine.test_decode import penalised_oracle
from tests.engine.test_eagle import fused
from tests.engine.test_graphs import Tape, failing, runner_of, ticking
from tests.engine.test_medusa import heads
from tests.engine.test_tree_rounds import Bush

NOISE = 0.5
"""Of a tree's row that a chain would have put elsewhere: like rounding, but large."""


class Blurred(Runner):
    """Rows of branches come out otherwise than in a chain: logits, keys, values and features."""

    chains_only = True

    def __init__(self, *args):
        super().__init__(*args)
        self.passes = 0
        self._noise = torch.Generator().manual_seed(0)

    @torch.inference_mode()
    def forward(self, ids, last_only=False, parents=None):
        start = self.length
        logits = super().forward(ids, last_only, parents)
        self.passes += 1
        branches = self._branches
        if parents is None or branches is None:
            return logits
        for row, line in enumerate(branches.lines):
            if line != tuple(range(start, start + row + 1)):
                at = start + row
                logits[row] += self._some(logits[row]) * NOISE * logits[row].abs().max()
                for each in (self.cache.keys, self.cache.values):
                    each[:, :, at] += self._some(each[:, :, at])
                self.hidden[at] += self._some(self.hidden[at])
        return logits

    def _some(self, like):
        return torch.randn(like.shape, generator=self._noise, dtype=like.dtype)


class Trusting(Blurred):
    """The broken twin: what a tree says is taken to be what a chain says."""

    chains_only = False


def on_desk(run):
    run._desk = Desk(run._unigram, torch.double, Tape)
    run.rule = run._desk.judge


def wander(target, drafter, seed, start, desk):
    """A greedy run whose K and quality change every round, its cache looked at after each."""
    chance = random.Random(seed)
    run = session(target, drafter, header(PROMPT, start), now=ticking())
    if desk:
        on_desk(run)
    while run.finished is None:
        quality = chance.choice((100.0, 100.0, 40.0))
        back = run.made - (run.made > 2 and chance.random() < 0.1)
        run.rewind(back, replace(start, k=chance.randrange(12), quality=quality))
        if run.finished is None:
            consistent(run, run.advance())
            audit(target, run.ids)
    return kit.committed(run)


def consistent(run, made):
    """Every verdict follows from the numbers written down with it, the target's own token too."""
    for guess in made.guesses:
        if guess.draw is not None and guess.verdict != "discarded":
            passes = guess.draw * guess.draft_prob < guess.target_prob
            assert passes == (guess.verdict == "accepted")
    if made.emitted is not None:
        assert made.emitted.prob > 0
        assert made.emitted.token.id == run.ids[-1]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    penalty=st.sampled_from([1.0, 1.0, 1.3, 0.7]),
    desk=st.booleans(),
)
def test_a_greedy_text_is_the_target_s_own_though_trees_blur_what_it_says(seed, penalty, desk):
    start = replace(GREEDY, repetition_penalty=penalty)
    assert wander(Blurred(TINY), Bush(seed), seed, start, desk) == penalised_oracle(penalty)


def test_a_text_that_rests_on_what_trees_said_is_caught():
    wrong = 0
    for seed in range(10):
        try:
            wrong += wander(Trusting(TINY), Bush(seed), seed, GREEDY, False) != ORACLE[:24]
        except AssertionError:  # its cache is not that of a fresh reading
            wrong += 1
    assert wrong >= 8


@pytest.mark.parametrize("desk", [False, True])
@pytest.mark.parametrize(
    "drafter",
    [
        lambda: EagleTreeDrafter("eagle-tree", fused()),
        lambda: MedusaTreeDrafter(heads(), [(0,), (1,), (0, 0), (2,), (1, 1)]),
    ],
)
def test_drafters_of_trees_write_the_target_s_own_text_there(drafter, desk):
    for seed in range(3):
        assert wander(Blurred(TINY), drafter(), seed, GREEDY, desk) == ORACLE[:24]


class Placed:
    """Proposes a tree of this shape: the nodes `places` are right, in order, the others wrong."""

    name, context = "script", None

    def __init__(self, shape, places):
        self._shape, self._places = shape, places

    def propose(self, ids, request):
        right = ORACLE[len(ids) - len(PROMPT) :]
        wrong = (token for token in range(kit.TINY_VOCAB) if token not in right)
        tokens = tuple(
            right[self._places.index(node)] if node in self._places else next(wrong)
            for node in range(len(self._shape))
        )
        count = len(tokens)
        return Proposal(
            tokens, tuple(map(request.certain, tokens)), ("script",) * count, (None,) * count,
            (0.001,), self._shape,
        )  # fmt: skip

    def observe(self, ids):
        """Nothing to learn."""


@pytest.mark.parametrize(
    ("shape", "places", "passes"),
    [
        ((-1, 0, 1, -1, -1, 3), (0, 1, 2), 1),  # stands where a chain would
        ((-1, 0, 1, -1, -1, 3), (), 1),  # nothing passes: the first row is a chain's
        ((-1, 0, 1, -1, -1, 3), (0, 1), 1),
        ((-1, 0, 1, -1, -1, 3), (3, 5), 2),
        ((-1, -1, 1, 2, 0, 0), (1, 2, 3), 2),
        ((-1, -1, 0, 1, 2, 4), (0, 2, 4, 5), 2),
    ],
)
def test_only_a_path_that_stands_elsewhere_is_looked_at_again(shape, places, passes):
    target = Exactly(TINY)
    drafter = Placed(shape, places)
    run = session(target, drafter, header(PROMPT, replace(GREEDY, k=6)), now=ticking())
    before = target.passes
    made = run.advance()
    assert target.passes - before == passes
    assert made.path == places
    assert kit.committed(run) == ORACLE[: len(places) + 1]
    audit(target, run.ids)


class Exactly(Blurred):
    """Counts passes and blurs nothing."""

    def _some(self, like):
        return torch.zeros_like(like)


def test_a_sampled_tree_is_judged_once():
    target = Exactly(TINY)
    run = session(
        target, Bush(1), header(PROMPT, Settings("script", 6, temperature=0.8)), now=ticking()
    )
    before = target.passes
    rounds = list(run.rounds())
    assert target.passes - before == len(rounds)


def test_kernels_say_of_what_they_promise_bits():
    assert runner_of(TINY, same_bits=True).chains_only
    assert not runner_of(TINY).chains_only, "nothing is promised there"
    assert not Runner(TINY).chains_only
    kernel = GraphKernel(TINY, 100, failing, same_bits=True)
    broken = Runner(TINY, 100, kernel, kernel.new_cache())
    broken.forward([1, 2, 3])
    assert not broken.chains_only, "plain passes promise nothing"
    single = replace(TINY, embedding=TINY.embedding.float())
    assert Kernels("", record=Tape).kernel(single, 100, same_bits=True).chains_only


def test_recorded_passes_of_trees_write_the_target_s_own_text_there():
    target = runner_of(TINY, 128, same_bits=True)
    assert wander(target, Bush(3), 3, GREEDY, True) == ORACLE[:24]
