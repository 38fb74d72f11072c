"""The proof command: it passes what is sound, and fails what is not."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import replace

import pytest
import torch

from engine import prove
from engine.drafters.model import ModelDrafter
from engine.llama import Runner
from engine.trace import Settings
from engine.verification import verify
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


def test_in_low_precision_texts_part_only_where_two_tokens_are_as_likely_up_to_rounding():
    """B43: in bf16 passes of other widths round otherwise; each difference is a near tie."""
    low = [low_precision(weights) for weights in (TINY, TINY_D)]
    rounding = widest_rounding(low[0])
    parted = 0
    for first in range(12):
        prompt = [first, 7, 9, 7]

        def begin(settings, prompt=prompt):
            draft = ModelDrafter("model", Runner(low[1]))
            run = header(prompt, settings, max_new_tokens=50, context_limit=128)
            return session(Runner(low[0]), draft, run)

        proof = prove.greedy(begin, Settings("model", 5))
        if not proof.holds:
            parted += 1
            for best in (proof.run.alone, proof.run.together):
                assert best[0].logit - best[1].logit <= 2 * rounding
    assert parted < 12


def low_precision(weights):
    tensors = {
        each.name: getattr(weights, each.name).bfloat16()
        for each in dataclasses.fields(weights)
        if isinstance(getattr(weights, each.name), torch.Tensor)
    }
    return replace(weights, **tensors)


def widest_rounding(weights):
    """How far a logit moves, at most, between passes of one row and of six."""
    ids = [(7 * i) % 60 for i in range(60)]
    one, six = Runner(weights), Runner(weights)
    rows = torch.cat([one.forward([token]) for token in ids])
    blocks = torch.cat([six.forward(ids[at : at + 6]) for at in range(0, 60, 6)])
    return float((rows - blocks).abs().max())


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
    assert proof.likeness.samples == 400
    assert proof.likeness.total_variation < 2 * proof.likeness.by_chance
    assert proof.likeness.degrees > 5
    assert proof.pull.places > 400


def keeps_too_much(target_probs, draft_probs, tokens, parents, draws, emit_draw):
    """A broken rule: every draw is half of what it should be."""
    halves = [draw / 2 for draw in draws]
    return verify(target_probs, draft_probs, tokens, parents, halves, emit_draw)


@pytest.mark.parametrize("rule", [prove.without_residual, keeps_too_much])
def test_a_biased_rule_is_caught(monkeypatch, rule):
    monkeypatch.setattr("engine.decode.verify", rule)
    proof = prove.sampled(table_session, WARM, 300)
    assert not proof.holds
    assert proof.pull.p_value < 1e-6


def test_the_control_is_caught_and_breaks_nothing_else():
    assert prove.control(table_session, WARM, 300).p_value < 1e-4
    assert prove.sampled(table_session, WARM, 100).holds


def test_the_pull_of_a_sound_program_is_what_chance_gives():
    """Over many seeds its p-values are spread evenly: few below .1, about half below .5."""
    session_ = table_session(WARM)
    p_values = [prove.sample(session_, 25, seed)[1].p_value for seed in range(0, 750, 25)]
    assert min(p_values) > 1e-3
    assert 0.02 < sum(p < 0.1 for p in p_values) / len(p_values) < 0.2
    assert 0.35 < sum(p < 0.5 for p in p_values) / len(p_values) < 0.65


class Engine:
    def begin(self, start):
        run = table_session if start.settings.temperature else tiny_session
        return run(start.settings)


def options(**changes):
    plain = {
        "prompt": "x", "raw": True, "drafter": "script", "k": 2, "quality": 100.0,
        "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "match": (2, 5), "seed": 0,
        "samples": None,
        "max_new_tokens": 24, "repetition_penalty": 1.0,
    }  # fmt: skip
    return argparse.Namespace(**plain | changes)


def test_the_command_says_what_it_proved(capsys):
    assert prove.main(Engine(), options()) == 0
    assert (
        "1 of 1 texts are the target's own, token for token (24 tokens" in capsys.readouterr().out
    )
    assert prove.main(Engine(), options(temperature=1.0, samples=400)) == 0
    said = capsys.readouterr().out
    assert "as alike as two samples of one law" in said
    assert "control: a broken rule" in said
    assert "is caught (p = " in said


def test_a_control_that_sees_nothing_is_said_to_need_more_samples(capsys):
    assert prove.main(Engine(), options(temperature=1.0, samples=4)) == 0
    assert "ask for more --samples" in capsys.readouterr().out


def test_the_command_fails_where_a_text_differs_and_shows_both_passes(capsys):
    class Differing:
        def begin(self, start):
            run = tiny_session(start.settings)
            if start.settings.speculative:
                run._target = Nudged(TINY)
                run._target.forward(PROMPT[:-1])
            return run

    assert prove.main(Differing(), options()) == 1
    said = capsys.readouterr().out
    assert "DIFFERS at new token" in said
    assert said.count("gap ") == 2


def test_the_command_refuses_to_prove_nothing():
    for nothing in ({"drafter": "none"}, {"k": 0}):
        with pytest.raises(ValueError, match="nothing to prove"):
            prove.main(Engine(), options(**nothing))


def test_restarting_samples_afresh_from_the_same_prompt():
    run = table_session(replace(WARM, k=3))
    texts, pull = prove.sample(run, 40, seed=9)
    assert len(set(texts)) > 5
    assert prove.sample(run, 40, seed=9) == (texts, pull)
