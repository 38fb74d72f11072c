"""The proof command: it passes what is sound, and fails what is not."""

from __future__ import annotations

import argparse
import random
from dataclasses import replace

import pytest
import torch

from engine import prove
from engine.drafters.model import ModelDrafter
from engine.llama import Runner
from engine.trace import Settings
from engine.verification import Verdict, verify_chain
from tests.engine import kit
from tests.engine.kit import TINY, TINY_D, TableModel, header, session

PROMPT = [3, 1, 4, 1, 5]
WARM = Settings("script", 2, temperature=1.0)


def table_session(settings):
    target, draft = kit.random_law(1, 4), kit.random_law(2, 4)
    script = kit.Script(lambda text: draft(tuple(text)))
    return session(TableModel(target), script, header([0], settings, max_new_tokens=3), vocab=4)


def tiny_session(settings):
    return session(Runner(TINY), ModelDrafter("model", Runner(TINY_D)), header(PROMPT, settings))


def test_equal_texts_are_a_proof():
    proof = prove.greedy(tiny_session, Settings("model", 3))
    assert proof.holds
    assert proof.run.tokens == 24
    assert proof.stats.drafted > 0


def test_a_first_difference_is_found_with_the_two_likeliest_of_both_passes():
    """The second pass of the run sees other logits, as in low precision it may."""

    def begin(settings):
        run = tiny_session(settings)
        if settings.speculative:
            run._target = Nudged(TINY)
            run._target.forward(PROMPT[:-1])
        return run

    proof = prove.greedy(begin, Settings("model", 1))
    place = proof.run.first_difference
    assert not proof.holds
    shared = PROMPT + kit.alone(TINY, PROMPT, place)
    top = Runner(TINY).forward(shared)[-1].topk(2)
    assert [each.token.id for each in proof.run.alone] == top.indices.tolist()
    assert [each.logit for each in proof.run.alone] == pytest.approx(top.values.tolist())
    assert [each.token.id for each in proof.run.together] == top.indices.tolist()[::-1]


class Nudged(Runner):
    """A target that from its eighth row on takes the second likeliest token for the first."""

    def forward(self, ids, last_only=False):
        logits = super().forward(ids, last_only).clone()
        for row in range(len(logits)):
            if self.length - len(logits) + row >= 8:
                best = logits[row].topk(2)
                logits[row, best.indices[1]] = best.values[0] + 1e-3
        return logits


def test_sampled_laws_agree():
    proof = prove.sampled(table_session, WARM, 400)
    assert proof.holds
    assert proof.samples == 400
    assert proof.total_variation < 2 * proof.by_chance
    assert proof.degrees > 5


def draws_correction_from_the_target(target_probs, draft_probs, tokens, draws, emit_draw):
    verdict = verify_chain(target_probs, draft_probs, tokens, draws, emit_draw)
    row = target_probs[verdict.accepted]
    token = int(torch.searchsorted(row.cumsum(0), emit_draw, right=True))
    return Verdict(verdict.accepted, token, verdict.kind, row, verdict.accept_probs)


def test_a_biased_rule_is_caught(monkeypatch):
    monkeypatch.setattr("engine.decode.verify_chain", draws_correction_from_the_target)
    assert not prove.sampled(table_session, WARM, 1500).holds


def test_figures_of_a_comparison_worked_by_hand():
    """Counts (12, 8) against (6, 14): distance .3; chi-square 36/18 + 36/22 = 3.636 at 1 degree."""
    proof = prove.compare("a" * 12 + "b" * 8, "a" * 6 + "b" * 14)
    assert proof.total_variation == pytest.approx(0.3)
    assert (proof.chi_square, proof.degrees) == (pytest.approx(36 / 18 + 36 / 22), 1)
    assert proof.p_chi_square == pytest.approx(0.05653, abs=1e-4)
    assert proof.p_distance == pytest.approx(0.11, abs=0.03)


def test_rare_continuations_are_one_bin():
    proof = prove.compare("a" * 50 + "bcdefgh", "a" * 50 + "ijklmno")
    assert proof.distinct == 15
    assert proof.degrees == 1


def test_identical_certainty_is_no_doubt():
    proof = prove.compare("a" * 30, "a" * 30)
    assert proof.total_variation == 0
    assert (proof.p_distance, proof.p_chi_square) == (1.0, 1.0)


def test_p_values_of_one_law_are_uniform():
    chance = random.Random(0)
    p_values = sorted(
        prove.compare(
            [chance.randrange(8) for _ in range(200)], [chance.randrange(8) for _ in range(200)]
        ).p_chi_square
        for _ in range(100)
    )
    assert 0.35 < p_values[50] < 0.65
    assert p_values[0] < 0.1 < 0.9 < p_values[-1]


class Engine:
    def begin(self, start):
        run = table_session if start.settings.temperature else tiny_session
        return run(start.settings)


def options(**changes):
    plain = {
        "prompt": "x", "raw": True, "drafter": "script", "k": 2, "quality": 100.0,
        "temperature": 0.0, "top_k": 0, "top_p": 1.0, "seed": 0, "samples": None,
        "max_new_tokens": 24, "repetition_penalty": 1.0,
    }  # fmt: skip
    return argparse.Namespace(**plain | changes)


def test_the_command_says_what_it_proved(capsys):
    assert prove.main(Engine(), options()) == 0
    assert (
        "1 of 1 texts are the target's own, token for token (24 tokens" in capsys.readouterr().out
    )
    assert prove.main(Engine(), options(temperature=1.0, samples=60)) == 0
    assert "total variation" in capsys.readouterr().out


def test_the_command_refuses_to_prove_nothing():
    for nothing in ({"drafter": "none"}, {"k": 0}):
        with pytest.raises(ValueError, match="nothing to prove"):
            prove.main(Engine(), options(**nothing))


def test_restarting_samples_afresh_from_the_same_prompt():
    run = table_session(replace(WARM, k=3))
    texts = list(prove.continuations(run, 40, seed=9))
    assert len(set(texts)) > 5
    again = list(prove.continuations(run, 40, seed=9))
    assert texts == again
