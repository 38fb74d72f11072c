"""A quantised file's own blocks: the same values as its full weights, and the same logits."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch

from engine import kernels
from engine.gguf_model import BLOCKS_FILE, NoBlocksError, convert, read_blocks
from engine.llama import LlamaConfig, ModelError, Runner, Weights
from engine.lowbit import Codes

MATRICES = ("qkv", "output", "gate_up", "down", "head")
IDS = torch.randint(0, 200, (40,), generator=torch.Generator().manual_seed(5)).tolist()


def of_blocks(folder: Path) -> Weights:
    return Weights.from_tensors(LlamaConfig.from_folder(folder), read_blocks(folder))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("quantised")
    tiny.write_gguf(made / "source.gguf", quantised=True)
    convert(made / "source.gguf", made)
    return made


def test_blocks_stand_for_the_very_weights_of_the_full_model(folder: Path) -> None:
    coded, full = of_blocks(folder), Weights.load(folder)
    for name in MATRICES:
        matrix = getattr(coded, name)
        assert isinstance(matrix, Codes)
        assert matrix.dense().equal(getattr(full, name)), name
    assert (coded.bits, coded.head.bits, full.bits) == (4, 8, 32)
    assert coded.embedding.equal(full.embedding)
    assert coded.norm.equal(full.norm)


@pytest.mark.parametrize("rows_of", ["numba", "torch"])
def test_logits_are_those_of_the_full_model_to_the_bit(folder: Path, rows_of: str) -> None:
    rows = kernels.choose("cpu", torch.float32, 1)
    mine, full = (
        rows.runner(weights, 64) if rows_of == "numba" else Runner(weights, 64)
        for weights in (of_blocks(folder), Weights.load(folder))
    )
    for count in (11, 5, 1, 9):
        ids = IDS[mine.length : mine.length + count]
        assert mine.forward(ids).equal(full.forward(ids))


def test_a_model_without_blocks_says_how_to_get_them(tmp_path: Path) -> None:
    tiny.write_gguf(tmp_path / "plain.gguf")
    convert(tmp_path / "plain.gguf", tmp_path)
    assert not (tmp_path / BLOCKS_FILE).exists(), "a file without blocks has none to keep"
    with pytest.raises(NoBlocksError, match=r"main\.py fetch --again"):
        read_blocks(tmp_path)


def test_damaged_blocks_are_one_sentence(folder: Path, tmp_path: Path) -> None:
    whole = (folder / BLOCKS_FILE).read_bytes()
    (tmp_path / BLOCKS_FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="not whole"):
        read_blocks(tmp_path)


def test_the_real_target_says_the_same_in_its_own_blocks(target_folder: Path) -> None:
    assert (target_folder / BLOCKS_FILE).is_file(), "an older cache: python main.py fetch --again"
    rows = kernels.choose("cpu", torch.float32, 1)
    coded, full = (
        rows.runner(weights, 64)
        for weights in (of_blocks(target_folder), Weights.load(target_folder))
    )
    prompt = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511]
    assert coded.forward(prompt).equal(full.forward(prompt))
