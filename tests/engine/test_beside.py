"""The target alone beside a finished run: it finds equality, and any token that is not its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.beside import Beside
from engine.drafters.model import ModelDrafter
from engine.llama import Runner
from engine.sampling import penalise
from engine.trace import RunProof
from tests.engine import kit
from tests.engine.kit import TINY, TINY_D, Words, header, session
from tests.engine.runs import GREEDY, PROMPT, SAMPLED, oracle_script


def finished(s=GREEDY, drafter=None):
    run = session(Runner(TINY), drafter or oracle_script(wrong_every=3), header(PROMPT, s))
    list(run.rounds())
    return run


def beside(run, at_once=16, target=None):
    return Beside(target or Runner(TINY), Words(), run.ids, run.choices, at_once)


@pytest.mark.parametrize("at_once", [1, 2, 3, 16])
def test_a_greedy_run_is_the_target_s_own(at_once):
    run = finished()
    assert beside(run, at_once).finish() == RunProof(24)


def test_it_comes_a_pass_at_a_time_and_reads_on_after_any_use_of_its_rows():
    used = Runner(TINY)
    used.forward([9, 9, 9])
    proof = beside(finished(), at_once=2, target=used)
    passes = 1
    while proof.advance() is None:
        passes += 1
        assert used.length <= len(PROMPT) + 24
    assert passes == 2 + 24  # four tokens of the prompt before its last, two at once


@pytest.mark.parametrize("place", [0, 1, 7, 23])
def test_a_token_that_is_not_the_target_s_own_is_found_with_what_it_would_have_written(place):
    run = finished()
    wrong = list(run.ids)
    at = len(PROMPT) + place
    wrong[at] = (wrong[at] + 1) % kit.TINY_VOCAB
    proof = Beside(Runner(TINY), Words(), wrong, run.choices, 16).finish()
    assert not proof.holds
    assert (proof.tokens, proof.first_difference) == (24, place)
    assert proof.alone[0].token.id == run.ids[at]
    assert proof.alone[0].logit > proof.alone[1].logit
    assert proof.together == run.choices[place].best


def test_the_top_two_are_those_of_the_pass_that_verified():
    run = finished()
    for place, choice in enumerate(run.choices):
        logits = Runner(TINY).forward(run.ids[: len(PROMPT) + place])[-1].topk(2)
        assert [each.token.id for each in choice.best] == logits.indices.tolist()
        assert [each.logit for each in choice.best] == pytest.approx(logits.values.tolist())


def test_penalties_that_change_on_the_way_are_kept_apart():
    run = session(Runner(TINY), ModelDrafter("model", Runner(TINY_D)), header(PROMPT, GREEDY))
    for penalty in (1.0, 1.3, 2.5, 1.0):
        run.rewind(run.made, replace(GREEDY, repetition_penalty=penalty))
        run.advance()
        run.advance()
    penalties = [choice.penalty for choice in run.choices]
    assert len(set(penalties)) == 3
    assert beside(run).finish().holds
    forgetful = tuple(replace(choice, penalty=1.0) for choice in run.choices)
    assert not Beside(Runner(TINY), Words(), run.ids, forgetful, 16).finish().holds


def test_a_penalised_run_is_that_of_the_plain_loop():
    """The oracle: no cache, the whole text penalised for each token."""
    s = replace(GREEDY, repetition_penalty=1.7)
    run = finished(s, ModelDrafter("model", Runner(TINY_D)))
    ids = list(PROMPT)
    for _ in range(24):
        logits = Runner(TINY).forward(ids, last_only=True)
        ids.append(int(penalise(logits, ids, 1.7)[-1].argmax()))
    assert list(run.ids) == ids


def test_what_is_taken_back_is_forgotten_and_what_was_sampled_has_no_choice():
    run = finished()
    run.rewind(2, SAMPLED)
    kept = len(run.choices)
    assert kept == len(run.ids) - len(PROMPT)
    run.advance()
    assert None not in run.choices[:kept]
    assert set(run.choices[kept:]) == {None}
