"""Shipped weights: a byte a weight, the rest untouched, and packing twice changes nothing more."""

from __future__ import annotations

import torch
from safetensors.torch import load_file, save_file

from engine.drafters.packing import packed, unpacked

TENSORS = {
    "layers.0.mlp.up_proj.weight": torch.randn(6, 16, generator=torch.Generator().manual_seed(0)),
    "norm.weight": torch.linspace(0.1, 3, 16),
    "vocab_ids": torch.tensor([3, 64, 7], dtype=torch.int32),
}


def test_a_weight_moves_by_half_a_step_of_its_row_at_most() -> None:
    matrix = TENSORS["layers.0.mlp.up_proj.weight"]
    found = unpacked(packed(TENSORS))
    step = matrix.abs().amax(1, keepdim=True) / 127
    assert bool(((found["layers.0.mlp.up_proj.weight"] - matrix).abs() <= 0.5001 * step).all())
    assert torch.equal(found["norm.weight"], TENSORS["norm.weight"].half())
    assert torch.equal(found["vocab_ids"], TENSORS["vocab_ids"])
    assert found.keys() == TENSORS.keys()


def test_a_file_takes_a_byte_a_weight_and_says_the_same(tmp_path) -> None:
    once = packed(TENSORS)
    assert once["layers.0.mlp.up_proj.weight"].dtype == torch.int8
    save_file(once, tmp_path / "model.safetensors")
    again = unpacked(load_file(tmp_path / "model.safetensors"))
    for name, tensor in packed(again).items():
        assert torch.equal(tensor, once[name]), name


def test_what_was_never_packed_is_handed_on() -> None:
    assert unpacked(TENSORS) == TENSORS
