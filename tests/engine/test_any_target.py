"""Drafters of any target: what is read from its folder, what is refused, and how they are used."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import saved_model
import tokenizers
import torch
from safetensors.torch import load_file, save_file

from engine import assembly, fetch
from engine.config import EngineConfig
from engine.drafters.trained import check
from engine.llama import LlamaConfig, ModelError
from engine.requests import Start
from engine.tokenizer import Tokenizer
from engine.trace import Settings
from engine.training import corpus as text
from engine.training import prompts, student, teacher, write
from engine.training.model import Shape
from tests.engine.test_everything import After
from tests.engine.test_training import target_folder, tiny_target


def changed(folder: Path, **fields: Any) -> Path:
    """The folder with other fields in its config; None takes one out."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return folder


def with_head(folder: Path, factor: float) -> Path:
    """The folder with a head of so many times its embedding."""
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = factor * tensors["model.embed_tokens.weight"]
    save_file(tensors, folder / "model.safetensors")
    return folder


def told(argv: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The last sentence of ``write`` on a line it refuses."""
    monkeypatch.setattr(sys, "argv", ["write", *argv.split()])
    with pytest.raises(SystemExit) as ended:
        write.main(threading.Event())
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


# --- what is read from the folder ---------------------------------------------------------


def test_the_default_target_is_asked_as_the_shipped_drafters_were_trained(request: Any) -> None:
    folder: Path = request.getfixturevalue("target_folder")
    before = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\n"
    )
    after = "<|im_end|>\n<|im_start|>assistant\n"
    tokenizer = Tokenizer.from_folder(folder)
    rules = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.frame == (before, after)
    assert tokenizer.eos_ids == (2,)
    for prompt in islice(prompts.stream(5), 200):
        ids = tokenizer.chat(prompt.text)
        assert ids == rules.encode(before + prompt.text + after, add_special_tokens=False).ids
        assert text.user_text(ids, tokenizer) == prompt.text


def test_template_and_ends_of_text_are_the_folders_own(tmp_path: Path) -> None:
    folder = changed(target_folder(tmp_path / "target"), eos_token_id=[5, 6])
    template = "{% for turn in messages %}[{{ turn['content'] | trim }}]{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    tokenizer = Tokenizer.from_folder(folder)
    writer = write.Writer(tiny_target(), tokenizer, 0, wanted=10, max_new=4, context=400)
    turn = next(writer.turns())
    asked = next(prompts.stream(0)).text
    assert tokenizer.decode(turn.ids) == f"[{asked}]"
    assert text.user_text(turn.ids, tokenizer) == asked
    for token, ends in ((5, True), (6, True), (2, False)):
        assert writer.ended(write.Turn("", 0.0, 1, [9, token])) == ends


@pytest.mark.parametrize(
    ("name", "called"), [("mine", "mine"), ("smollm2-135m", "SmolLM2-135M-Instruct")]
)
def test_a_card_calls_the_target_as_the_program_does(
    name: str, called: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fetch.title(tmp_path / name) == called
    monkeypatch.chdir(tmp_path)
    assert fetch.title(Path(name)) == called


def test_the_shape_is_read_as_the_engine_reads_it(tmp_path: Path) -> None:
    folder = target_folder(tmp_path / "target")
    config = LlamaConfig.from_folder(folder)
    shape = Shape.of(config)
    assert teacher.Target.load(folder).shape == shape
    assert (shape.head_size, shape.rope_theta) == (config.head_dim, config.rope_theta)


# --- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda folder: changed(folder, vocab_size=65_536), "65,536 ids, and a text keeps"),
        (lambda folder: changed(folder, head_dim=8), "not as wide as its hidden states"),
        (lambda folder: changed(folder, model_type="gpt2"), "'gpt2' is not supported"),
        (
            lambda folder: changed(folder, rope_scaling={"rope_type": "llama3", "factor": 8}),
            "scaled rotary positions are not supported",
        ),
        (lambda folder: with_head(folder, 1.5), "its head is not tied to its embedding"),
        (lambda folder: (folder / "tokenizer_config.json").unlink(), "no tokenizer_config.json"),
    ],
)
def test_a_target_that_cannot_be_taught_from_is_refused_at_the_start(
    harm: Callable[[Path], Any],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = target_folder(tmp_path / "target")
    harm(folder)
    line = f"--target {folder} --out {tmp_path / 'text.npz'}"
    assert says in told(line, monkeypatch, capsys)


def test_a_head_that_is_the_embedding_once_more_is_tied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = with_head(target_folder(tmp_path / "target"), 1), tmp_path / "text.npz"
    line = f"write --target {folder} --out {out} --tokens 20 --slots 3 --max-new-tokens 4"
    monkeypatch.setattr(sys, "argv", line.split())
    write.main(threading.Event())
    assert f"{len(text.load(out))} replies" in capsys.readouterr().out


def test_who_stops_a_writer_has_what_had_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "text.npz"
    line = f"write --target {target_folder(tmp_path / 'target')} --out {out} --slots 2"
    monkeypatch.setattr(sys, "argv", [*line.split(), "--max-new-tokens", "2"])
    write.main(After(200))
    assert 2 <= len(text.load(out)) < 200


@pytest.mark.parametrize(
    "wrong",
    [
        "--tokens 0", "--tokens -5", "--slots 0", "--slots many", "--seed -1", "--context 0",
        "--max-new-tokens 0", "--out {there}", "--out {folder}/no/such/text.npz",
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused_at_the_start(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there.npz"
    there.write_bytes(b"two hours of text")
    line = f"--target {target_folder(tmp_path / 'target')} --out {tmp_path / 'new.npz'} "
    said = told(line + wrong.format(there=there, folder=tmp_path), monkeypatch, capsys)
    assert wrong.split()[0] in said
    assert there.read_bytes() == b"two hours of text"


def test_a_context_without_room_for_any_prompt_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = target_folder(tmp_path / "target")
    line = f"write --target {folder} --out {tmp_path / 'text.npz'} --context 384"
    monkeypatch.setattr(sys, "argv", [*line.split(), "--max-new-tokens", "380"])
    with pytest.raises(ValueError, match="has no room for any prompt and a reply of 380"):
        write.main(threading.Event())


# --- how they are used --------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target that the engine opens, with a tied head."""
    folder = saved_model.save(tmp_path_factory.mktemp("model") / "tiny")
    return with_head(folder, 1)


@pytest.fixture(scope="module")
def drafters(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one trained drafter, `small`."""
    target = teacher.Target.load(model)
    learner = student.Student(target, 1, torch.arange(200))
    learner.begin(target, [])
    folder = tmp_path_factory.mktemp("trained")
    student.export(learner, folder / "small", "tiny")
    return folder


def test_trained_drafters_are_taken_from_another_folder(model: Path, drafters: Path) -> None:
    options = EngineConfig(target=model, threads=1, drafters=drafters)
    engine = assembly.open_engine(options, lambda state: None)
    assert "small" in engine.drafters
    assert {"eagle", "medusa", "retrieval", "hybrid"}.isdisjoint(engine.drafters)
    texts = []
    for name in ("small", "none"):
        settings = Settings(drafter=name, k=3)
        run = engine.begin(Start("abcabc", False, settings, max_new_tokens=12))
        list(run.rounds())
        texts.append(run.ids)
    assert texts[0] == texts[1]


def test_drafters_of_another_target_are_refused(
    model: Path, drafters: Path, tmp_path: Path
) -> None:
    config = LlamaConfig.from_folder(model)
    assert check(drafters, config) == drafters
    other = tmp_path / "other"
    shutil.copytree(drafters, other)
    changed(other / "small", hidden_size=576)
    options = EngineConfig(target=model, threads=1, drafters=other)
    with pytest.raises(ModelError, match="small was made for another target: its hidden_size is"):
        assembly.open_engine(options, lambda state: None)
    changed(other / "small", hidden_size=config.hidden_size, vocab_size=49_152)
    with pytest.raises(ModelError, match="its vocab_size is 49152"):
        check(other, config)
    shutil.rmtree(other / "small")
    with pytest.raises(ModelError, match="holds no drafter"):
        check(other, config)
    (other / "retrieval").mkdir()
    np.savez(other / "retrieval" / "store.npz", ids=np.array([3, 40_000], dtype=np.uint16))
    with pytest.raises(ModelError, match="holds the id 40000"):
        check(other, config)
    with pytest.raises(ModelError, match="is a drafter itself"):
        check(drafters / "small", config)
    with pytest.raises(ModelError, match="is no folder of drafters"):
        check(tmp_path / "nowhere", config)


def test_a_damaged_file_is_left_to_whoever_wants_that_drafter(
    model: Path, drafters: Path, tmp_path: Path
) -> None:
    shutil.copytree(drafters, tmp_path / "some")
    (tmp_path / "some" / "small" / "config.json").write_text("Once upon a time")
    check(tmp_path / "some", LlamaConfig.from_folder(model))
