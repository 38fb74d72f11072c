"""The acceptance rule, proven by enumeration; and the same proof failing on broken twins.

Nothing is sampled: see `enumeration`. Trees have `test_tree.py`.
"""

from __future__ import annotations

import itertools
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.sampling import process
from engine.verification import Verdict, pick, residual, verify_chain
from tests.engine.enumeration import (
    Law,
    VerifyChain,
    as_tree,
    distance,
    draft_law,
    line,
    one_hot_law,
    target_law,
    tree_distance,
)
from tests.engine.kit import random_law


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_the_law_is_exactly_the_target_s(k):
    assert distance(verify_chain, k) < 1e-12


def test_the_law_is_the_target_s_for_a_drafter_that_does_not_sample():
    assert distance(verify_chain, 3, draft=one_hot_law(draft_law), grain=8) < 1e-12


def test_the_law_is_the_target_s_when_both_are_one_hot():
    """Greedy: whatever is proposed, the target's own choices come out."""
    assert distance(verify_chain, 3, one_hot_law(target_law), one_hot_law(draft_law)) == 0.0


# --- broken twins: each must be caught by the very same enumeration --------------------------


def twin(
    passes=lambda draw, draft, target: draw * draft < target,
    leftover=residual,
    row=lambda i, k: i,
    count=lambda flags: (*flags, False).index(False),
) -> VerifyChain:
    """A verification written afresh, of which one part may be replaced by a broken one."""

    def verify(target_probs, draft_probs, tokens, draws, emit_draw):
        k = len(tokens)
        judged = [target_probs[row(i, k)] for i in range(k)]
        flags = [
            passes(draws[i], float(draft_probs[i, t]), float(judged[i][t]))
            for i, t in enumerate(tokens)
        ]
        accepted = count(flags)
        if accepted == k:
            return Verdict(tuple(range(k)), 0, "bonus", target_probs[k], target_probs, (0.0,) * k)
        emit_probs = leftover(judged[accepted], draft_probs[accepted])
        path = tuple(range(accepted))
        return Verdict(path, 0, "recovered", emit_probs, target_probs, (0.0,) * k)

    return verify


BROKEN = {
    "rows shifted by one": twin(row=lambda i, k: i + 1),
    "residual by softmax": twin(leftover=lambda t, d: (t - d).clamp(min=0).softmax(-1)),
    "correction from the target's law": twin(leftover=lambda t, d: t),
    "residual the wrong way round": twin(leftover=lambda t, d: residual(d, t)),
    "<= instead of <": twin(lambda draw, draft, target: draw * draft <= target),
    "ratio upside down": twin(lambda draw, draft, target: draw * target < draft),
    "the target's probability alone": twin(lambda draw, draft, target: draw < target),
    "accepts counted past a rejection": twin(count=sum),
}


def test_the_twin_without_a_fault_passes():
    assert distance(twin(), 3) < 1e-12


@pytest.mark.parametrize("fault", BROKEN)
def test_the_enumeration_catches(fault):
    assert distance(BROKEN[fault], 3) > 1e-3


def test_a_soft_law_claimed_for_an_argmax_draft_is_biased_as_computed_by_hand():
    """B12: target (.1, .6, .3), argmax drafter claiming a soft law of its own."""
    target = torch.tensor([[0.1, 0.6, 0.3], [1.0, 0.0, 0.0]], dtype=torch.float64)

    def first_token_law(claimed: Tensor, guess: int) -> list[float]:
        accept = float(verify_chain(target, claimed[None], [guess], [0.0], 0.5).accept_probs[0])
        law = (1 - accept) * residual(target[0], claimed)
        law[guess] += accept
        return law.tolist()

    for soft, wrong in (
        ([0.2, 0.5, 0.3], [0.0, 1.0, 0.0]),
        ([0.1, 0.2, 0.7], [0.0, 4 / 7, 3 / 7]),
    ):
        claimed = torch.tensor(soft, dtype=torch.float64)
        guess = int(claimed.argmax())
        assert first_token_law(claimed, guess) == pytest.approx(wrong, abs=1e-12)
        honest = torch.eye(3, dtype=torch.float64)[guess]
        assert first_token_law(honest, guess) == pytest.approx([0.1, 0.6, 0.3], abs=1e-12)


# --- laws that are no binary fractions: enumerate by the stated acceptance chances -----------


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 3), vocab=st.integers(2, 3))
def test_the_law_is_the_target_s_for_random_laws(seed, k, vocab):
    target, draft = random_law(seed, vocab), random_law(seed + 1, vocab)
    assert tree_distance(as_tree(verify_chain), line(k), target, draft) < 1e-12


GRID = list(itertools.product((0.3, 1.0, 2.0), (0, 1, 3), (0.1, 0.9, 1.0)))


def processed(seed: int, *shape: float) -> Law:
    """The law that sampling settings make of a random one over five tokens."""
    raw = random_law(seed, 5)
    return cache(lambda prefix: process(raw(prefix).log(), *shape))


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), GRID)
def test_the_law_is_the_processed_target_s_however_the_drafter_s_is_processed(
    temperature, top_k, top_p
):
    """B13, B14: alike on both sides, or on one only, as long as the drafter is honest."""
    target = processed(1, temperature, top_k, top_p)
    for draft in (processed(2, temperature, top_k, top_p), processed(2, 1.0, 0, 1.0)):
        assert tree_distance(as_tree(verify_chain), line(1), target, draft) < 1e-12


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), [(0.3, 0, 1.0), (1.0, 3, 1.0)])
def test_a_drafter_that_hands_back_its_raw_law_is_caught(temperature, top_k, top_p):
    """B13: it drew from the processed one."""
    raw = random_law(2, 5)(())

    def raw_law_claimed(target_probs, draft_probs, *more):
        return verify_chain(target_probs, raw.expand_as(draft_probs), *more)

    target = processed(1, temperature, top_k, top_p)
    draft = processed(2, temperature, top_k, top_p)
    assert tree_distance(as_tree(raw_law_claimed), line(1), target, draft) > 1e-3


def test_a_target_whose_law_is_not_processed_is_caught():
    """B14."""
    target, draft = processed(1, 0.3, 0, 1.0), processed(2, 0.3, 0, 1.0)
    raw = random_law(1, 5)

    def raw_target(target_probs, draft_probs, tokens, *more):
        rows = torch.stack([raw(tuple(tokens[:i])) for i in range(len(target_probs))])
        return verify_chain(rows, draft_probs, tokens, *more)

    assert tree_distance(as_tree(raw_target), line(1), target, draft) > 1e-3


@pytest.mark.parametrize("drafted", [3, 5])
def test_ids_that_only_one_side_has_count_as_impossible_on_the_other(drafted):
    """B32: four tokens of one vocabulary, and a drafter that knows more of them or fewer."""

    def padded(seed, real):
        law = random_law(seed, real)
        return cache(lambda prefix: torch.nn.functional.pad(law(prefix), (0, 5 - real)))

    target, draft = padded(1, 4), padded(2, drafted)
    assert tree_distance(as_tree(verify_chain), line(2), target, draft) < 1e-12


def test_worked_figures():
    """target (.5, .3, .2), draft (.2, .5, .3): acceptance .7, residual (1, 0, 0)."""
    target = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    draft = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    both = torch.stack((target, target))
    accept = [
        verify_chain(both, draft[None], [token], [0.0], 0.0).accept_probs[0] for token in range(3)
    ]
    assert sum(float(draft[i]) * accept[i] for i in range(3)) == pytest.approx(0.7, abs=1e-15)
    assert residual(target, draft).tolist() == [1.0, 0.0, 0.0]
    certain = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    refused = verify_chain(both, certain[None], [1], [0.3], 0.0)
    assert refused.accept_probs == (0.3,)
    assert refused.emit_probs.tolist() == pytest.approx([5 / 7, 0, 2 / 7])


def test_equal_laws_are_never_refused():
    law = torch.tensor([[0.1, 0.2, 0.7]] * 2)
    for token in range(3):
        assert verify_chain(law, law[:1], [token], [1 - 2**-53], 0.5).kind == "bonus"


def test_a_residual_of_nothing_falls_back_to_the_target():
    target = torch.tensor([[0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    draft = target[:1] * (1 + 1e-7)
    verdict = verify_chain(target, draft, [0], [1 - 1e-9], 0.75)
    assert (verdict.kind, verdict.token) == ("recovered", 1)
    assert torch.equal(verdict.emit_probs, target[0])


def test_the_impossible_is_refused_even_by_a_draw_of_zero():
    target = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    draft = torch.tensor([[1.0, 0.0]])
    verdict = verify_chain(target, draft, [0], [0.0], 0.0)
    assert (verdict.path, verdict.token) == ((), 1)


def test_a_guess_its_own_law_calls_impossible_is_an_error():
    law = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    for broken in (law[:1], torch.tensor([[1.0, float("nan")]])):
        with pytest.raises(ValueError, match="no probability"):
            verify_chain(law, broken, [1], [0.5], 0.5)


@settings(max_examples=200, deadline=None)
@given(
    weights=st.lists(st.sampled_from([0.0, 1e-30, 1e-8, 0.1, 0.5, 1.0]), min_size=1, max_size=6),
    draw=st.one_of(st.just(0.0), st.just(1 - 2**-53), st.floats(0, 1, exclude_max=True)),
)
def test_an_impossible_token_is_never_picked(weights, draw):
    if not any(weights):
        weights[0] = 1.0
    law = torch.tensor(weights)
    assert law[pick(law, draw)] > 0


@pytest.mark.parametrize("draw", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("weights", [(0.0, 0.0), (0.5, float("nan")), (float("nan"),) * 2])
def test_nothing_is_picked_from_what_is_no_law(weights, draw):
    with pytest.raises(ValueError, match="not finite"):
        pick(torch.tensor(weights), draw)


def test_picks_follow_the_law():
    law = torch.tensor([0.25, 0.0, 0.5, 0.25], dtype=torch.float64)
    assert [pick(law, (i + 0.5) / 8) for i in range(8)] == [0, 0, 2, 2, 2, 2, 3, 3]
    assert pick(law, 0.25) == 2
