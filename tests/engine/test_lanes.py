"""The vector parts of a pass: as right as numpy's in float64, whatever lies beyond the end."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import kernels

kernels._rowpass()  # keeps numba's compiled code where the program keeps it

from numba import njit  # noqa: E402

from engine import lanes  # noqa: E402


@pytest.fixture(scope="module")
def compiled() -> SimpleNamespace:
    gate_lanes, exp_scores, mix_values = lanes.gate_lanes, lanes.exp_scores, lanes.mix_values

    @njit
    def gate(gates, out):  # type: ignore[no-untyped-def]
        for k in range(0, out.shape[1], 8):
            gate_lanes(gates, 0, k, out.shape[1] + k, out, k)

    @njit
    def powers(scores, seen, scale):  # type: ignore[no-untyped-def]
        return exp_scores(scores, seen, np.float32(scale))

    @njit
    def mix(values, shares, straight, lines, more, total, out):  # type: ignore[no-untyped-def]
        total = np.float32(total)
        mix_values(2, values, 1, shares, straight, lines, 1, more, total, out, 0)
        mix_values(1, values, 1, shares, straight, lines, 1, more, total, out, 16)

    return SimpleNamespace(gate=gate, powers=powers, mix=mix)


def test_gates_are_those_of_float64_over_the_whole_range(compiled: SimpleNamespace) -> None:
    gate = np.concatenate(
        [np.linspace(-120, 120, 4001), [0.0, -0.0, 1e-30, -1e4, 1e4, 88.5, -87.4]]
    )
    gate = np.pad(gate, (0, -len(gate) % 8))
    up = np.linspace(0.5, 2.0, len(gate))
    gates, out = np.array([[*gate, *up]], np.float32), np.zeros((1, len(gate)), np.float32)
    compiled.gate(gates, out)
    exact = gates[0].astype(np.float64)
    with np.errstate(over="ignore"):
        right = exact[: len(gate)] / (1 + np.exp(-exact[: len(gate)])) * exact[len(gate) :]
    assert np.allclose(out[0], right, rtol=1e-6, atol=1e-30)


@given(seen=st.integers(1, 70), spread=st.sampled_from([0.1, 10.0, 400.0]), seed=st.integers(0, 99))
def test_powers_of_scores_sum_to_their_total(
    compiled: SimpleNamespace, seen: int, spread: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    scores = random.normal(0, spread, (1, 96)).astype(np.float32)
    scores[0, seen:] = 1e9  # what an earlier, longer text has left
    exact = scores[0, :seen].astype(np.float64)
    right = np.exp((exact - exact.max()) * 0.125)
    total = compiled.powers(scores, seen, 0.125)
    assert np.allclose(scores[0, :seen], right, rtol=1e-5, atol=1e-37)
    assert total == pytest.approx(right.sum(), rel=1e-5)


def test_values_are_mixed_up_to_the_last_seen(compiled: SimpleNamespace) -> None:
    random = np.random.default_rng(3)
    values = random.standard_normal((2, 40, 24), np.float32)
    shares = random.random((1, 48), np.float32)
    for seen in (1, 7, 40):
        out = np.full(24, np.nan, np.float32)
        compiled.mix(values, shares, seen, np.empty((2, 0), np.int64), 0, 2.0, out)
        right = shares[0, :seen].astype(np.float64) @ values[1, :seen] / 2
        assert np.allclose(out, right, atol=1e-5)


def test_a_line_of_other_rows_is_mixed_as_if_it_followed(compiled: SimpleNamespace) -> None:
    random = np.random.default_rng(4)
    values = random.standard_normal((2, 40, 24), np.float32)
    shares = random.random((1, 48), np.float32)
    line = [9, 17, 30]
    together, apart = np.empty(24, np.float32), np.empty(24, np.float32)
    compiled.mix(values, shares, 8, np.array([[0, 0, 0], line]), 3, 2.0, apart)
    values[1, 8:11] = values[1, line]
    compiled.mix(values, shares, 11, np.empty((2, 0), np.int64), 0, 2.0, together)
    assert np.array_equal(apart, together)
