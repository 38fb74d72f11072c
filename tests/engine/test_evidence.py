"""What a round says of itself: its evidence, its times and its faults."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from engine.decode import IDLE_SECONDS, DecodeError
from engine.drafters.model import ModelDrafter
from engine.llama import Runner
from engine.sampling import penalise
from tests.engine import kit
from tests.engine.kit import TINY, TINY_D, header, session
from tests.engine.runs import (
    GREEDY,
    ORACLE,
    PROMPT,
    SAMPLED,
    check_verdicts,
    essence,
    oracle_script,
    sampled_run,
)


def test_evidence_holds_the_ten_likeliest_and_the_mass_of_the_rest():
    rounds = list(sampled_run().rounds())
    check_verdicts(rounds)
    for made in rounds:
        for guess in made.guesses:
            for law, prob in (
                (guess.draft_law, guess.draft_prob),
                (guess.target_law, guess.target_prob),
            ):
                probs = [candidate.prob for candidate in law.top]
                assert len(probs) <= 10
                assert probs == sorted(probs, reverse=True)
                assert sum(probs) + law.rest == pytest.approx(1)
                named = {c.token.id: c.prob for c in law.top}
                assert named.get(guess.token.id, prob) == prob
            assert guess.accept_prob == min(1, guess.target_prob / guess.draft_prob)
            if guess.draw is not None:
                accepted = guess.draw * guess.draft_prob < guess.target_prob
                assert guess.verdict == ("accepted" if accepted else "rejected")
        if made.emitted is not None:
            assert made.emitted.prob > 0
            assert sum(c.prob for c in made.emitted.law.top) + made.emitted.law.rest == (
                pytest.approx(1)
            )


def test_target_probabilities_are_those_of_the_text_before_each_guess():
    """B39: row i is conditioned on the guesses before it, as a plain pass would be."""
    run = sampled_run()
    for made in itertools.islice(run.rounds(), 4):
        text = list(run.ids[: made.position])
        for guess in made.guesses:
            logits = Runner(TINY).forward(text)[-1]
            law = kit.process(logits, SAMPLED.temperature, SAMPLED.top_k, SAMPLED.top_p)
            assert guess.target_prob == pytest.approx(float(law[guess.token.id]), abs=1e-9)
            text.append(guess.token.id)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("penalty", [1.0, 1.4])
def test_an_emitted_token_has_the_probability_that_the_plain_loop_gives_it(temperature, penalty):
    """B39: the target's own law, processed, at that place; and the law it was drawn from."""
    s = replace(SAMPLED, temperature=temperature, repetition_penalty=penalty)
    run = sampled_run(settings=s)
    kinds = set()
    while run.finished is None:
        made = run.advance()
        kinds.add(made.emitted.kind)
        text = list(run.ids[: made.position + made.accepted])
        logits = penalise(Runner(TINY).forward(text)[-1:], text, penalty)
        law = kit.process(logits, s.temperature, s.top_k, s.top_p)[0]
        for candidate in made.emitted.target_law.top:
            assert candidate.prob == pytest.approx(float(law[candidate.token.id]), abs=1e-9)
        assert made.emitted.prob == pytest.approx(
            {c.token.id: c.prob for c in made.emitted.law.top}[made.emitted.token.id], abs=1e-9
        )
        if made.emitted.kind == "bonus":
            assert made.emitted.prob == pytest.approx(float(law[made.emitted.token.id]), abs=1e-9)
    assert kinds == {"bonus", "recovered"}


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_model_s_confidence_is_its_own_chance_of_the_guess_unshaped(temperature):
    """At temperature 0 as well, where the law that was drawn from tells of one token only."""
    s = replace(SAMPLED, temperature=temperature, top_k=5, quality=60.0)
    run = session(Runner(TINY), ModelDrafter("model", Runner(TINY_D)), header(PROMPT, s))
    for made in itertools.islice(run.rounds(), 4):
        text = list(run.ids[: made.position])
        for guess in made.guesses:
            own = Runner(TINY_D).forward(text)[-1].softmax(-1)
            assert guess.confidence == pytest.approx(float(own[guess.token.id]), abs=1e-9)
            assert 0 < guess.confidence < 1
            text.append(guess.token.id)


def test_no_verdict_rests_on_a_confidence():
    """Without one the same run comes out, and it says so of every guess."""

    class Silent(ModelDrafter):
        def propose(self, ids, request):
            return replace(super().propose(ids, request), scores=())

    told, silent = (
        list(session(Runner(TINY), kind("model", Runner(TINY_D)), header(PROMPT, SAMPLED)).rounds())
        for kind in (ModelDrafter, Silent)
    )
    assert essence(told) == essence(silent)
    assert all(g.confidence is not None for made in told for g in made.guesses)
    assert all(g.confidence is None for made in silent for g in made.guesses)


def test_logits_are_left_as_the_model_gave_them():
    """B39: nobody shapes a law in place, with every penalty and filter in use."""
    given_out = []

    class Watched(Runner):
        def forward(self, ids, last_only=False):
            logits = super().forward(ids, last_only)
            given_out.append((logits, logits.clone()))
            return logits

    s = replace(SAMPLED, repetition_penalty=1.5)
    model = ModelDrafter("model", Watched(TINY_D))
    list(session(Watched(TINY), model, header(PROMPT, s)).rounds())
    assert len(given_out) > 20
    assert all(logits.equal(kept) for logits, kept in given_out)


class Clock:
    """A clock that only moves when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Timed(Runner):
    """A runner whose passes take 10 ms and 1 ms a position, and are counted."""

    def __init__(self, clock):
        super().__init__(TINY)
        self.clock, self.passes = clock, 0

    def forward(self, ids, last_only=False):
        self.clock.now += 0.010 + 0.001 * len(ids)
        self.passes += 1
        return super().forward(ids, last_only)


def test_measured_seconds_are_the_target_s_pass_and_nothing_else():
    clock = Clock()
    run = session(Timed(clock), oracle_script(), header(PROMPT, GREEDY), now=clock)
    assert run.header.prefill_seconds == pytest.approx(0.014)
    assert run.header.baseline is None
    measured = run.measure_baseline()
    assert measured.pass_seconds == pytest.approx(0.011)
    assert run.header.baseline == measured
    made = run.advance()
    assert made.verify_seconds == pytest.approx(0.015)
    assert run.ids[: len(PROMPT)] == tuple(PROMPT)


def test_measuring_the_baseline_changes_no_text():
    run = sampled_run()
    run.advance()
    run.measure_baseline()
    straight = sampled_run()
    straight.advance()
    assert essence(run.rounds()) == essence(straight.rounds())


def test_after_an_idle_pause_a_pass_is_thrown_away():
    clock = Clock()
    target = Timed(clock)
    run = session(target, oracle_script(), header(PROMPT, GREEDY), now=clock)
    run.advance()
    passes = target.passes
    clock.now += IDLE_SECONDS * 2
    made = run.advance()
    assert target.passes == passes + 2
    assert made.verify_seconds == pytest.approx(0.015)
    assert run.advance().verify_seconds == pytest.approx(0.015)
    assert target.passes == passes + 3
    assert kit.committed(run) == ORACLE[:15]


def test_the_first_round_of_a_drafter_is_marked_cold():
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY))
    assert [run.advance().cold for _ in range(2)] == [True, False]
    run.rewind(2, replace(GREEDY, speculative=False))
    assert run.advance().cold is False
    run.rewind(3, GREEDY)
    assert run.advance().cold is True


def test_a_failing_drafter_is_named_in_one_sentence():
    """B48."""

    def fail(text):
        raise RuntimeError("its weights are gone")

    run = session(Runner(TINY), kit.Script(fail), header(PROMPT, GREEDY))
    with pytest.raises(DecodeError, match=r"drafter “script” failed: its weights are gone"):
        run.advance()
    run.rewind(0, replace(GREEDY, speculative=False))
    list(run.rounds())
    assert kit.committed(run) == ORACLE[:24]


@pytest.mark.parametrize("late", [False, True], ids=["before its rows", "after them"])
@pytest.mark.parametrize("fails_at", [1, 3, 6])
def test_a_pass_that_failed_leaves_a_run_that_can_go_on(fails_at, late):
    """The very text follows, whatever the failing pass had written into the cache."""
    passes = -1  # the prompt is read

    class Flaky(Runner):
        def forward(self, ids, last_only=False):
            nonlocal passes
            passes += 1
            if passes == fails_at and not late:
                raise RuntimeError("a pass failed")
            logits = super().forward(ids, last_only)
            if passes == fails_at:
                raise RuntimeError("a pass failed")
            return logits

    target = Flaky(TINY)
    run = session(target, oracle_script(wrong_every=3), header(PROMPT, GREEDY))
    failed = 0
    while run.finished is None:
        try:
            run.advance()
        except RuntimeError:
            failed += 1
    assert failed == 1
    assert kit.committed(run) == ORACLE[:24]
    kit.audit(target, run.ids)


def test_a_drafter_that_cannot_be_loaded_is_named_in_one_sentence():
    """B48: it is never quietly left out."""

    def load(name):
        raise OSError("model.safetensors is gone")

    run = session(Runner(TINY), None, header(PROMPT, GREEDY))
    run._drafters = load
    with pytest.raises(DecodeError, match=r"drafter “script” failed: model.safetensors is gone"):
        run.advance()


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_a_lack_of_memory_while_drafting_stays_one(error):
    """The process has words for it, and they are not that the drafter failed."""

    def fail(text):
        raise error

    run = session(Runner(TINY), kit.Script(fail), header(PROMPT, GREEDY))
    with pytest.raises(type(error)):
        run.advance()


def test_a_target_whose_numbers_overflow_is_a_sentence_and_no_text():
    """B43: in low precision logits can be no numbers; no token must come of them."""

    class Overflowing(Runner):
        def forward(self, ids, last_only=False):
            return super().forward(ids, last_only) * torch.nan

    for s in (GREEDY, replace(GREEDY, temperature=0.8), replace(GREEDY, k=0)):
        run = session(Overflowing(TINY), oracle_script(), header(PROMPT, s))
        with pytest.raises(ValueError, match="not finite"):
            run.advance()


def test_a_drafter_observes_the_committed_text_before_each_proposal():
    """B35: the very ids of the target, prompt included."""
    script = oracle_script(wrong_every=3)
    run = session(Runner(TINY), script, header(PROMPT, GREEDY))
    rounds = list(run.rounds())
    assert script.observed == [list(run.ids[: made.position]) for made in rounds]


def test_no_drafter_is_asked_for_when_the_target_decodes_alone():
    def none(name):
        raise AssertionError("nobody should draft")

    for s in (
        replace(GREEDY, k=0),
        replace(GREEDY, speculative=False),
        replace(GREEDY, drafter="none"),
    ):
        run = session(Runner(TINY), None, header(PROMPT, s))
        run._drafters = none
        rounds = list(run.rounds())
        assert kit.committed(run) == ORACLE[:24]
        assert {made.emitted.kind for made in rounds} == {"bonus"}


@pytest.mark.parametrize("size", [60, 72])
def test_draft_laws_of_another_width_than_the_target_s_are_refused_loudly(size):
    """B32: a drafter of another vocabulary must not be compared id by id."""
    other = kit.Script(lambda text: torch.full((size,), 1 / size, dtype=torch.float64))
    run = session(Runner(TINY), other, header(PROMPT, replace(GREEDY, temperature=1.0)))
    with pytest.raises(DecodeError, match="vocabulary"):
        run.advance()
