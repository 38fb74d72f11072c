"""Tests of samples, against figures worked by hand and against themselves."""

from __future__ import annotations

import random

import pytest
import torch

from engine.compare import Pull, compare


def test_figures_of_a_comparison_worked_by_hand():
    """Counts (12, 8) against (6, 14): distance .3; chi-square 36/18 + 36/22 = 3.636 at 1 degree."""
    proof = compare("a" * 12 + "b" * 8, "a" * 6 + "b" * 14)
    assert proof.total_variation == pytest.approx(0.3)
    assert (proof.chi_square, proof.degrees) == (pytest.approx(36 / 18 + 36 / 22), 1)
    assert proof.p_chi_square == pytest.approx(0.05653, abs=1e-4)
    assert proof.p_distance == pytest.approx(0.11, abs=0.03)


def test_rare_continuations_are_one_bin():
    proof = compare("a" * 50 + "bcdefgh", "a" * 50 + "ijklmno")
    assert proof.distinct == 15
    assert proof.degrees == 1


def test_identical_certainty_is_no_doubt():
    proof = compare("a" * 30, "a" * 30)
    assert proof.total_variation == 0
    assert (proof.p_distance, proof.p_chi_square) == (1.0, 1.0)


def test_p_values_of_one_law_are_uniform():
    chance = random.Random(0)
    p_values = sorted(
        compare(
            [chance.randrange(8) for _ in range(200)], [chance.randrange(8) for _ in range(200)]
        ).p_chi_square
        for _ in range(100)
    )
    assert 0.35 < p_values[50] < 0.65
    assert p_values[0] < 0.1 < 0.9 < p_values[-1]


def test_a_pull_worked_by_hand():
    """target (.5, .3, .2), draft (.2, .5, .3) overrates tokens 1 and 2, which have .5."""
    target, draft = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.5, 0.3])
    pull = Pull()
    for token in (0, 1, 1, 2):
        pull = pull.after(target, draft, token)
    assert (pull.places, pull.found) == (4, 3)
    assert (pull.expected, pull.variance) == pytest.approx((2.0, 1.0))
    assert pull.p_value == pytest.approx(0.3173, abs=1e-4)  # one standard deviation


def test_where_nothing_is_left_to_chance_one_wrong_token_is_proof_enough():
    certain, wrong = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert Pull().p_value == 1.0
    assert Pull().after(certain, wrong, 0).p_value == 1.0
    assert Pull().after(certain, wrong, 1).p_value == 0.0
