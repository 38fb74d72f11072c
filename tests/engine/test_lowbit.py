"""Rounded copies: as near as their bits allow, and a ladder from near-perfect down."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine import kernels
from engine.llama import Runner, Weights
from engine.lowbit import LADDER, Codes, Width, copy_of, encode, join, pack, pair, stack, unpair


@given(
    bits=st.integers(2, 8), group=st.sampled_from([0, 8, 16]), seed=st.integers(0, 99),
    shift=st.floats(-2, 2),
)  # fmt: skip
def test_no_weight_moves_by_more_than_half_a_step(
    bits: int, group: int, seed: int, shift: float
) -> None:
    matrix = torch.randn(6, 32, generator=torch.Generator().manual_seed(seed)) + shift
    codes = encode(matrix, Width(bits, group))
    assert codes.values.dtype == torch.int8
    assert codes.group == (group or 32)
    step = codes.scales.repeat_interleave(codes.group, dim=-1)
    # The lowest level is rounded to a whole step, so an end of the range may be half a step off.
    assert ((codes.dense() - matrix).abs() <= step * 1.001 + 1e-6).all()
    inner = ((codes.dense() - matrix).abs() <= step * 0.501 + 1e-6).float().mean()
    assert inner >= 1 - 2 / codes.group * (1 if bits < 8 else 0)
    for row in codes.values.view(-1, codes.group):
        assert len(row.unique()) <= 2**bits
        assert int(row.max()) - int(row.min()) < 2**bits


def test_more_bits_and_shorter_groups_come_nearer() -> None:
    matrix = torch.randn(16, 64, generator=torch.Generator().manual_seed(0))

    def error(*width: int) -> float:
        return float((encode(matrix, Width(*width)).dense() - matrix).square().mean())

    assert error(8) < error(5) < error(4) < error(3) < error(2)
    assert error(4, 8) < error(4, 16) < error(4, 64)


def test_zeros_and_constants_survive() -> None:
    for value in (0.0, 0.25, -3.0):
        matrix = torch.full((2, 16), value)
        assert torch.allclose(encode(matrix, Width(4, 8)).dense(), matrix)


def test_a_group_must_divide_the_row() -> None:
    with pytest.raises(ValueError, match="rows of 32 do not divide into groups of 5"):
        encode(torch.zeros(2, 32), Width(4, 5))


def test_a_copy_shares_what_it_does_not_round() -> None:
    weights = tiny.weights(dtype=torch.float32)
    copy = copy_of(weights, Width(4, 8))
    assert copy.embedding is weights.embedding
    assert copy.norm is weights.norm
    assert isinstance(copy.head, Codes)
    assert copy.first_layers(1).qkv.shape[0] == 1
    coarser = copy_of(copy, Width(2, 8))
    assert coarser.head is copy.head
    assert len(coarser.qkv.values[0, 0, :8].unique()) <= 4


@given(bits=st.integers(2, 4), group=st.sampled_from([16, 32, 48]), seed=st.integers(0, 99))
def test_packing_keeps_every_code_in_half_the_bytes(bits: int, group: int, seed: int) -> None:
    matrix = torch.randn(2, 5, 96, generator=torch.Generator().manual_seed(seed)) + seed % 3 - 1
    codes = encode(matrix, Width(bits, group))
    packed = pack(codes)
    assert packed.whole().equal(codes.values)
    assert packed.dense().equal(codes.dense())
    assert packed.values.nbytes * 2 == codes.values.nbytes
    assert (packed.shape, packed.group, packed.bits) == (codes.shape, group, 4)
    assert packed[0].dense().equal(codes[0].dense())


def test_pairs_lie_as_the_compiled_passes_read_them() -> None:
    """Of every sixteen columns, the first eight in the low halves of eight bytes."""
    numbers = torch.arange(32) % 16
    pairs = pair(numbers)
    assert pairs[:8].tolist() == [(k + 8) << 4 | k for k in range(8)]
    assert unpair(pairs).tolist() == numbers.tolist()


def test_what_does_not_fit_four_bits_is_not_packed() -> None:
    with pytest.raises(ValueError, match="groups of 8 cannot be packed"):
        pack(encode(torch.randn(2, 16), Width(4, 8)))
    with pytest.raises(ValueError, match="do not fit four bits"):
        pack(encode(torch.randn(4, 16), Width(5, 16)))


def test_copies_of_four_bits_and_less_are_packed_where_groups_allow_it() -> None:
    weights = tiny.weights(dtype=torch.float32)
    assert copy_of(weights, Width(3, 16)).down.is_packed
    assert copy_of(weights, Width(4)).down.is_packed
    assert not copy_of(weights, Width(4, 8)).down.is_packed
    assert not copy_of(weights, Width(8)).down.is_packed


def test_rows_are_joined_and_layers_stacked() -> None:
    upper, lower = (pack(encode(torch.randn(3, 32), Width(4, 16))) for _ in range(2))
    both = stack([join([upper, lower])] * 2)
    assert both.shape == (2, 6, 32)
    assert both[1].dense().equal(torch.cat([upper.dense(), lower.dense()]))


def test_torch_runs_a_copy_as_its_dense_matrices() -> None:
    weights = tiny.weights()
    near, far = (Runner(copy_of(weights, Width(bits))).forward([1, 2, 3]) for bits in (8, 2))
    right = Runner(weights).forward([1, 2, 3])
    assert (near - right).abs().mean() < 0.1 < (far - right).abs().mean()


def test_the_ladder_of_the_real_target_goes_down(target_folder: Path) -> None:
    """Greedy agreement on a text of the target's own, wide apart rungs only: the text is short."""
    rows = kernels.choose("cpu", torch.float32, 2)
    weights = Weights.load(target_folder)
    target = rows.runner(weights, 256)
    ids = [1, 4093, 198, 36971, 1701, 260, 6376, 314, 4461, 30, 2, 198, 1, 520, 9531, 198]
    prompt = len(ids)
    target.forward(ids[:-1])
    for _ in range(60):
        ids.append(int(target.forward(ids[-1:]).argmax()))

    def agreement(name: str) -> float:
        copy = rows.runner(copy_of(weights, LADDER[name]), 256)
        guesses = copy.forward(ids[:-1])[prompt - 1 :].argmax(-1)
        return float((guesses == torch.tensor(ids[prompt:])).float().mean())

    best, middle, worst = map(agreement, ("copy-8", "copy-4g64", "copy-2g16"))
    assert best > 0.9
    assert 0.4 < middle < 0.95
    assert worst < 0.3
