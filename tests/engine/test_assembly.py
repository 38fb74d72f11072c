"""An engine put together on a tiny model: what it refuses early, and what it proves of its runs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import saved_model

from engine import arguments, assembly, commands
from engine.commands import WrongUse
from engine.config import EngineConfig
from engine.decode import DecodeError
from engine.requests import Start
from engine.trace import RunProof, Settings
from engine.verification import Verdict, pick

GUESSING = Settings(drafter="n-gram", k=3)
PROMPT = "abcabcabcabc"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model.save(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def engine(folder: Path) -> assembly.Engine:
    return assembly.open_engine(EngineConfig(target=folder, threads=1), lambda state: None)


def run_options(folder: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    arguments.add_run(parser)
    plain = ("--prompt", PROMPT, "--raw", "--drafter", "n-gram", "--max-new-tokens", "12")
    return parser.parse_args([*plain, "--target", str(folder), "--threads", "1", *more])


def test_a_prompt_too_long_is_refused_before_anything_heavy_is_done(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def heavy(*_: object) -> None:
        raise AssertionError("the device was chosen")

    monkeypatch.setattr("engine.devices.choose", heavy)
    long = Start("x" * 10_000, chat=False)
    with pytest.raises(DecodeError, match="10000 tokens long"):
        assembly.open_engine(EngineConfig(target=folder), lambda state: None, first=long)


def test_what_is_refused_leaves_the_run_that_goes_on_alone(engine: assembly.Engine) -> None:
    straight = engine.begin(Start(PROMPT, False, GUESSING, max_new_tokens=20))
    list(straight.rounds())
    run = engine.begin(Start(PROMPT, False, GUESSING, max_new_tokens=20))
    run.advance()
    for wrong in (
        Start(" "),
        Start("x" * 10_000, chat=False),
        Start("x", settings=Settings(drafter="nobody")),
        Start("x", settings=Settings(repetition_penalty=0.0)),
    ):
        with pytest.raises((ValueError, DecodeError)):
            engine.admit(wrong)
    list(run.rounds())
    assert run.ids == straight.ids


def test_a_finished_greedy_run_is_proven_on_rows_of_its_own(engine: assembly.Engine) -> None:
    """A run that is proven can still be taken back and go on."""
    run = engine.begin(Start(PROMPT, False, GUESSING, max_new_tokens=20))
    list(run.rounds())
    ids = run.ids
    beside = engine.beside()
    assert beside is not None
    assert beside.finish() == RunProof(20)
    run.rewind(1, GUESSING)
    list(run.rounds())
    assert run.ids == ids


def test_nothing_is_proven_of_a_sampled_run_or_of_no_text(engine: assembly.Engine) -> None:
    warm = Settings("n-gram", 3, temperature=1.0)
    list(engine.begin(Start(PROMPT, False, warm, max_new_tokens=6)).rounds())
    assert engine.beside() is None
    list(engine.begin(Start(PROMPT, False, GUESSING, max_new_tokens=0)).rounds())
    assert engine.beside() is None


def test_a_checked_run_says_that_it_is_the_target_s_own(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "run.jsonl"
    assert commands.run(run_options(folder, "--check", "--json", "--trace", str(trace))) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["lossless"]["tokens"] == 12
    assert "lossless: 12 of 12 tokens equal the target alone" in said.err
    assert json.loads(trace.read_text().splitlines()[-1])["event"] == "RunProof"


def keeps_everything(target_probs, draft_probs, tokens, parents, draws, emit_draw) -> Verdict:  # type: ignore[no-untyped-def]
    """A broken rule: no guess is ever refused."""
    law = target_probs[len(tokens)]
    count = len(tokens)
    path, token = tuple(range(count)), pick(law, emit_draw)
    return Verdict(path, token, "bonus", law, target_probs[:count], (1.0,) * count)


def test_a_checked_run_of_a_broken_rule_fails(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.decode.verify", keeps_everything)
    assert commands.run(run_options(folder, "--check", "--json")) == 1
    said = capsys.readouterr()
    lossless = json.loads(said.out)["lossless"]
    assert lossless["first_difference"] is not None
    assert len(lossless["alone"]) == len(lossless["together"]) == 2
    assert "differs from the target alone at token" in said.err


def test_a_sampled_run_is_not_checked_word_for_word(folder: Path) -> None:
    with pytest.raises(WrongUse, match="`prove` compares sampled laws"):
        commands.run(run_options(folder, "--check", "--temperature", "0.7"))
