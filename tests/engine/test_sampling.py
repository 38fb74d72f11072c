"""Sampling laws against transformers' own processors, and draws that depend on their key only."""

from __future__ import annotations

import itertools
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import sampling
from engine.sampling import Draws, mix, one_hot, penalise, process
from engine.verification import pick


def reference(logits, temperature, top_k, top_p, penalty=1.0, ids=(0,), min_p=0.0):
    """The law transformers' generate draws from after `ids`: its processors, in its order."""
    from transformers.generation.logits_process import (
        LogitsProcessorList,
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    chain = LogitsProcessorList()
    if penalty != 1:
        chain.append(RepetitionPenaltyLogitsProcessor(penalty))
    if temperature != 1:
        chain.append(TemperatureLogitsWarper(temperature))
    if top_k > 0:
        chain.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        chain.append(TopPLogitsWarper(top_p))
    if min_p > 0:
        chain.append(MinPLogitsWarper(min_p))
    return chain(torch.tensor([ids] * len(logits)), logits.clone()).softmax(-1)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    itertools.product((0.3, 0.7, 1.0, 2.0), (0, 1, 3, 50, 5000), (0.1, 0.5, 0.9, 0.99, 1.0)),
)
def test_laws_are_transformers_own(temperature, top_k, top_p):
    logits = torch.randn(4, 3000, generator=torch.Generator().manual_seed(0)) * 3
    ours = process(logits, temperature, top_k, top_p)
    theirs = reference(logits, temperature, top_k, top_p)
    assert torch.equal(ours > 0, theirs > 0)
    assert torch.allclose(ours, theirs, rtol=1e-6, atol=0)


@pytest.mark.parametrize("top_k", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("top_p", [0.2, 0.5, 0.6, 0.75, 0.9, 1.0])
@pytest.mark.parametrize(
    "row", [(2, 2, 1, 0), (1, 1, 1, 1), (0, 3, 3, 3), (5, 5, 5, 0), (3, 2, 1, 0)]
)
def test_ties_are_cut_as_in_transformers(row, top_k, top_p):
    logits = torch.tensor([row], dtype=torch.float32)
    ours = process(logits, 1.0, top_k, top_p)
    assert torch.allclose(ours, reference(logits, 1.0, top_k, top_p), rtol=1e-6, atol=0)
    assert (ours > 0).any()


@settings(max_examples=200, deadline=None)
@given(
    logits=st.lists(st.integers(-8, 8), min_size=2, max_size=12),
    temperature=st.sampled_from([0.5, 1.0, 1.5]),
    top_k=st.integers(0, 6),
    top_p=st.sampled_from([0.15, 0.45, 0.85, 0.95]),
)
def test_many_ties_are_cut_as_in_transformers(logits, temperature, top_k, top_p):
    row = torch.tensor([logits], dtype=torch.float64)
    ours = process(row, temperature, top_k, top_p)
    theirs = reference(row, temperature, top_k, top_p)
    assert torch.allclose(ours, theirs, rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "min_p"),
    itertools.product((0.3, 1.0, 2.0), (0, 1, 50), (0.5, 0.99, 1.0), (1e-4, 0.05, 0.3, 1.0)),
)
def test_min_p_is_transformers_own(temperature, top_k, top_p, min_p):
    logits = torch.randn(4, 3000, generator=torch.Generator().manual_seed(0)) * 3
    ours = process(logits, temperature, top_k, top_p, min_p)
    theirs = reference(logits, temperature, top_k, top_p, min_p=min_p)
    assert torch.equal(ours > 0, theirs > 0)
    assert torch.allclose(ours, theirs, rtol=1e-6, atol=0)


@settings(max_examples=200, deadline=None)
@given(
    logits=st.lists(st.integers(-4, 4), min_size=2, max_size=12),
    temperature=st.sampled_from([0.5, 1.0, 1.5]),
    top_k=st.integers(0, 6),
    top_p=st.sampled_from([0.45, 0.85, 1.0]),
    min_p=st.sampled_from([0.01, 0.1, 0.5, 1.0]),
)
def test_many_ties_are_cut_by_min_p_as_in_transformers(logits, temperature, top_k, top_p, min_p):
    row = torch.tensor([logits], dtype=torch.float64)
    ours = process(row, temperature, top_k, top_p, min_p)
    theirs = reference(row, temperature, top_k, top_p, min_p=min_p)
    assert torch.allclose(ours, theirs, rtol=1e-9, atol=0)


@settings(max_examples=200, deadline=None)
@given(
    rows=st.integers(2, 9).flatmap(
        lambda vocab: st.lists(
            st.lists(st.floats(-9, 9, width=32), min_size=vocab, max_size=vocab), min_size=1,
            max_size=4,
        )
    ),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    temperature=st.floats(0.01, 9),
    top_k=st.integers(0, 6),
    top_p=st.one_of(st.just(1.0), st.floats(0.05, 0.99)),
    min_p=st.one_of(st.just(0.0), st.floats(0.01, 1.0)),
)  # fmt: skip
def test_numbers_that_lie_on_a_device_give_the_same_bits(
    rows, dtype, temperature, top_k, top_p, min_p
):
    """And so do rows that are cut together: as one by one, by sorting."""
    logits = torch.tensor(rows, dtype=dtype)
    dials = torch.tensor((temperature, top_p, min_p), dtype=torch.float64)
    found = sampling.filtered(
        logits, dials[0], top_k, dials[1] if top_p < 1 else None, dials[2] if min_p > 0 else None
    )
    assert found.dtype == dtype
    one_by_one = mock.patch.object(
        sampling, "nucleus", lambda probs, top_p: sampling.sorted_nucleus(probs, 1.0 - top_p)
    )
    with one_by_one:
        assert found.equal(process(logits, temperature, top_k, top_p, min_p))


def test_min_p_comes_after_temperature_and_ignores_it_at_zero():
    """Of the raw law min-p keeps both tokens, of the cooled law one."""
    logits = torch.tensor([2.0, 1.0])
    assert int((process(logits, 1.0, min_p=0.3) > 0).sum()) == 2
    assert int((process(logits, 0.4, min_p=0.3) > 0).sum()) == 1
    assert process(logits, 0.0, min_p=0.3).tolist() == [1, 0]


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.lists(st.integers(-4, 4), min_size=6, max_size=6), min_size=1, max_size=4),
    prompt=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    guesses=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    penalty=st.sampled_from([0.5, 1.0, 1.2, 2.0]),
    temperature=st.sampled_from([0.5, 1.0, 1.5]),
    top_k=st.integers(0, 6),
    top_p=st.sampled_from([0.15, 0.45, 0.85, 1.0]),
)
def test_each_row_is_what_transformers_makes_of_it_after_the_guesses_before(
    rows, prompt, guesses, penalty, temperature, top_k, top_p
):
    """Row i has seen the text and the guesses before i, and no later one; ties included."""
    logits = torch.tensor(rows, dtype=torch.float64)
    guesses = guesses[: len(rows) - 1]
    ours = process(penalise(logits, prompt, penalty, guesses), temperature, top_k, top_p)
    for i in range(len(rows)):
        ids = prompt + guesses[:i]
        theirs = reference(logits[i : i + 1], temperature, top_k, top_p, penalty, ids)
        assert torch.allclose(ours[i], theirs[0], rtol=1e-9, atol=0)


def test_a_penalty_worked_by_hand():
    """Seen logits 3 and -1 become 1.5 and -2; the second row has seen token 2 as well."""
    logits = torch.tensor([[3.0, -1.0, 2.0, -torch.inf]] * 2)
    kept = logits.clone()
    for guesses in ([2], torch.tensor([2])):
        assert penalise(logits, [0, 1, 1], 2.0, guesses).tolist() == [
            [1.5, -2.0, 2.0, -torch.inf],
            [1.5, -2.0, 1.0, -torch.inf],
        ]
    assert penalise(logits[:1], [3, 3], 2.0)[0, 3] == -torch.inf
    assert penalise(logits, [0, 1], 1.0) is logits
    assert torch.equal(logits, kept)


def test_the_guesses_of_a_tree_are_seen_on_their_own_branch():
    """1 and 2 follow the text, 0 follows the 2."""
    logits = torch.ones(4, 4)
    seen = penalise(logits, [3], 2.0, [1, 2, 0], [-1, -1, 1]) < 1
    assert [row.nonzero().flatten().tolist() for row in seen] == [[3], [1, 3], [2, 3], [0, 2, 3]]


def test_a_penalty_acts_before_temperature_zero_chooses():
    logits = torch.tensor([[3.0, 2.0]])
    assert process(penalise(logits, [0], 2.0), 0.0).tolist() == [[0, 1]]


def test_top_p_is_taken_after_temperature():
    """On these logits top-p of the raw law keeps two tokens, of the cooled law one."""
    logits = torch.tensor([2.0, 1.0, 0.0])
    assert int((process(logits, 1.0, 0, 0.8) > 0).sum()) == 2
    assert int((process(logits, 0.4, 0, 0.8) > 0).sum()) == 1


@pytest.mark.parametrize("temperature", [0.0, 1e-45, 1e-8, 1e-5])
def test_temperature_zero_is_one_hot(temperature):
    logits = torch.tensor([[0.0, 90.0, 89.0], [3.0, -torch.inf, 3.0]])
    law = process(logits, temperature, 2, 0.5)
    assert law.tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("temperature", [1e-8, 1e-5, 2e-5, 1e-3, 1e-2, 1.0, 50.0])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_every_law_is_finite_and_sums_to_one(temperature, scale):
    logits = torch.linspace(-1, 1, 200) * scale
    for top_k, top_p in itertools.product((0, 5), (0.5, 1.0)):
        law = process(logits, temperature, top_k, top_p)
        assert torch.isfinite(law).all()
        assert float(law.sum()) == pytest.approx(1, abs=1e-5)
        if temperature <= 1e-3:
            assert int(law.argmax()) == 199


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("top_k", [0, 2])
@pytest.mark.parametrize("top_p", [1.0, 0.5])
@pytest.mark.parametrize("place", range(4))
def test_logits_that_are_no_numbers_give_no_law_to_draw_from(temperature, top_k, top_p, place):
    """A model that overflows must fail loudly, not write some token."""
    logits = torch.tensor([[0.0, 3.0, 1.0, 2.0]] * 2)
    logits[1, place] = torch.nan
    right, wrong = process(logits, temperature, top_k, top_p)
    assert right[pick(right, 0.3)] > 0
    for draw in (0.0, 0.3, 1 - 2**-53):
        with pytest.raises(ValueError, match="not finite"):
            pick(wrong, draw)


def test_logits_are_left_unchanged():
    logits = torch.randn(3, 50)
    kept = logits.clone()
    process(logits, 0.7, 5, 0.8)
    assert torch.equal(logits, kept)


def test_ids_a_reduced_head_does_not_score_keep_no_probability():
    logits = torch.tensor([1.0, -torch.inf, 2.0, -torch.inf])
    for settings_ in ((0.0, 0, 1.0), (1.0, 0, 1.0), (1.0, 3, 0.9)):
        law = process(logits, *settings_)
        assert law[[1, 3]].tolist() == [0.0, 0.0]


def test_mix_is_linear_and_full_quality_is_the_very_law():
    draft = torch.tensor([1.0, 0.0, 0.0])
    unigram = torch.tensor([0.2, 0.3, 0.5])
    assert mix(draft, unigram, 1.0) is draft
    assert mix(draft, unigram, 0.0).tolist() == unigram.tolist()
    assert mix(draft, unigram, 0.4).tolist() == pytest.approx([0.52, 0.18, 0.3])


def test_one_hot():
    assert one_hot(2, torch.ones(4)).tolist() == [0, 0, 1, 0]


def test_draws_depend_on_their_key_and_on_nothing_else():
    first, again = Draws(3), Draws(3)
    keys = list(itertools.product(("draft", "accept", "emit"), range(6), range(4)))
    forwards = [first.uniform(*key) for key in keys]
    backwards = [again.uniform(*key) for key in reversed(keys)]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) == len(keys)
    assert Draws(4).uniform("emit", 0) != first.uniform("emit", 0)
    assert Draws(2**64 + 3).uniform("emit", 0) == first.uniform("emit", 0), (
        "any whole number is one"
    )
    assert Draws(-1).uniform("emit", 0) != first.uniform("emit", 0)


def test_draws_are_uniform_in_the_half_open_interval():
    draws = torch.tensor([Draws(0).uniform("accept", i, j) for i in range(400) for j in range(10)])
    assert 0 <= float(draws.min()) < float(draws.max()) < 1
    counts = torch.histc(draws, bins=20, min=0, max=1)
    chi_square = float(((counts - 200) ** 2 / 200).sum())
    assert chi_square < 43.8  # the 99.9 % point at 19 degrees of freedom; the keys are fixed


def test_streams_are_independent():
    pairs = torch.tensor(
        [
            [Draws(0).uniform(stream, i) for stream in ("draft", "accept", "emit")]
            for i in range(2000)
        ]
    )
    correlation = torch.corrcoef(pairs.T) - torch.eye(3)
    assert float(correlation.abs().max()) < 0.08


def test_the_numbers_themselves_are_part_of_the_format():
    """A run file names a seed; another version or machine must draw the same from it."""
    assert Draws(0).uniform("draft", 0, 0) == 0.5945927433702273
    assert Draws(7).uniform("emit", 41, 3) == 0.1401326581222716
