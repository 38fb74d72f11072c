"""Settings no run can have are refused in one sentence; options reach the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine import config
from engine.config import EngineConfig
from engine.trace import Settings


@pytest.mark.parametrize(
    "fine",
    [
        Settings(),
        Settings(k=0),
        Settings(k=16, quality=0.0, temperature=100.0, top_k=5, top_p=1e-3),
        Settings(speculative=False),
        Settings(repetition_penalty=0.5),
        Settings(min_p=1.0, shortest_match=1, longest_match=16),
    ],
)
def test_what_is_possible_passes(fine):
    assert config.check(fine) is fine


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("k", 17, "0 to 16"),
        ("k", -1, "0 to 16"),
        ("quality", 100.5, "0 to 100"),
        ("quality", float("nan"), "0 to 100"),
        ("temperature", -1.0, "from 0 up"),
        ("temperature", float("nan"), "from 0 up"),
        ("temperature", float("inf"), "from 0 up"),
        ("top_k", -2, "0 .no limit."),
        ("top_p", 0.0, "above 0"),
        ("top_p", 1.5, "at most 1"),
        ("top_p", float("nan"), "at most 1"),
        ("min_p", -0.1, "0 .no limit. to 1"),
        ("min_p", float("nan"), "0 .no limit. to 1"),
        ("shortest_match", 0, "must rise"),
        ("shortest_match", 6, "must rise"),
        ("longest_match", 17, "must rise"),
        ("repetition_penalty", 0.0, "above 0"),
        ("repetition_penalty", float("inf"), "above 0"),
        ("repetition_penalty", float("nan"), "above 0"),
    ],
)
def test_what_is_not_is_one_sentence(field, value, says):
    with pytest.raises(ValueError, match=says) as refusal:
        config.check(replace(Settings(), **{field: value}))
    assert str(refusal.value).endswith(".")
    assert "\n" not in str(refusal.value)


def test_options_of_the_engine_process():
    assert config.from_arguments([]) == EngineConfig()
    words = ["--target", "there", "--device", "cpu", "--dtype", "float32", "--threads", "3"]
    assert config.from_arguments(words) == EngineConfig(Path("there"), "cpu", "float32", 3)
    assert config.from_arguments(["--weights", "q4_1"]) == EngineConfig(weights="q4_1")
    assert config.from_arguments(["--drafters", "d"]) == EngineConfig(drafters=Path("d"))


def test_wrong_use_exits_with_2(capsys):
    with pytest.raises(SystemExit) as stopped:
        config.from_arguments(["--device", "abacus"])
    assert stopped.value.code == 2
    assert "abacus" in capsys.readouterr().err
