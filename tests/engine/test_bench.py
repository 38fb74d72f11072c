"""The sweep measures what it says, alike for all, and notices wrong text."""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import saved_model

from engine import assembly, bench
from engine.config import EngineConfig
from engine.trace import Settings

SWEEP = [Settings(drafter="n-gram", k=2), Settings(drafter="n-gram", k=4, quality=50.0)]
TEXTS = [bench.Text("abcabcabcabc", False), bench.Text("Why is the sky blue?", True)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> assembly.Engine:
    folder = saved_model.save(tmp_path_factory.mktemp("bench") / "tiny")
    return assembly.open_engine(EngineConfig(target=folder, threads=1), lambda state: None)


def test_the_target_alone_is_the_first_line_and_its_own_measure(engine: assembly.Engine) -> None:
    lines = bench.measure(engine, TEXTS, SWEEP, 16)
    alone = lines[0]
    assert (alone.drafter, alone.k, alone.speedup, alone.check_cost) == ("none", 0, 1.0, 1.0)
    assert alone.rounds == 16 * len(TEXTS)
    assert alone.acceptance_rate is None
    assert [(line.drafter, line.k, line.quality) for line in lines[1:]] == [
        ("n-gram", 2, 100.0),
        ("n-gram", 4, 50.0),
    ]


def test_every_greedy_text_equals_the_targets_own(engine: assembly.Engine) -> None:
    assert all(line.same_text for line in bench.measure(engine, TEXTS, SWEEP, 16))


def test_sampled_texts_are_not_compared(engine: assembly.Engine) -> None:
    hot = [replace(settings, temperature=1.0) for settings in SWEEP]
    assert all(line.same_text is None for line in bench.measure(engine, TEXTS, hot, 8))


def test_a_wrong_text_is_seen() -> None:
    right = bench.Tally(SWEEP[0], texts=[(1, 2, 3)])
    wrong = bench.Tally(SWEEP[0], texts=[(1, 2, 4)])
    assert bench._line(wrong, right).same_text is False


def test_the_command_writes_table_json_and_csv(
    engine: assembly.Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("one two one two\n\nthree\n")
    args = argparse.Namespace(
        prompts=texts, drafter=["n-gram"], k=(1, 3), quality=[100.0], temperature=0.0,
        max_new_tokens=8, json=tmp_path / "out.json", csv=tmp_path / "out.csv",
    )  # fmt: skip
    assert bench.main(engine, args) == 0
    table = capsys.readouterr().out
    assert [line.split()[0] for line in table.splitlines()] == [
        "drafter", "none", "n-gram", "n-gram", "best:",
    ]  # fmt: skip
    body = json.loads(args.json.read_text())
    assert body["machine"]["device"] == "cpu"
    assert [text["prompt"] for text in body["prompts"]] == ["one two one two", "three"]
    rows = list(csv.DictReader(args.csv.open()))
    assert [row["k"] for row in rows] == ["0", "1", "3"]


def test_an_unknown_drafter_is_refused_before_anything_is_measured(
    engine: assembly.Engine,
) -> None:
    args = argparse.Namespace(
        prompts=None, drafter=["nobody"], k=(1,), quality=[100.0], temperature=0.0,
        max_new_tokens=8, json=None, csv=None,
    )  # fmt: skip
    with pytest.raises(ValueError, match="nobody"):
        bench.main(engine, args)


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    with pytest.raises(ValueError, match="no prompt"):
        bench.load_texts(empty)
