"""A file or folder that a training command cannot use is refused in a sentence, before any work."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.training import corpus as text
from tests.engine.test_training import made_up_corpus, target_folder

COMMANDS = {
    "distil": "--target {target} --text {text} --work work --out out",
    "everything": "--target {target} --text {text} --work work",
    "evaluate": "small --target {target} --text {text}",
    "ship": "--target {target} --text {text} --work work --out out",
    "store": "{text} --target {target} --out out",
    "teacher": "--target {target} --text {text} --work work",
    "unigram": "{text} --target {target} --out out",
}


def whole_text(folder: Path) -> Path:
    text.save(made_up_corpus(), folder / "text.npz")
    return folder / "text.npz"


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def something_else(path: Path) -> None:
    path.write_text("Once upon a time")


@pytest.mark.parametrize("harm", [missing, empty, cut_short, something_else])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_text_that_is_none_is_refused(
    command: str,
    harm: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = whole_text(tmp_path)
    harm(given)
    said = refused(command, target_folder(tmp_path / "target"), given, monkeypatch, capsys)
    assert "text.npz" in said
    assert "does not exist" in said or "cannot be read as the target's own text" in said


@pytest.mark.parametrize("harm", [missing, empty, cut_short, something_else])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_target_that_is_none_is_refused(
    command: str,
    harm: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = target_folder(tmp_path / "target")
    harm(target / "model.safetensors")
    said = refused(command, target, whole_text(tmp_path), monkeypatch, capsys)
    assert "model.safetensors" in said
    assert "is no target" in said or "cut short or no file of weights" in said


def test_a_drafter_to_begin_with_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = target_folder(tmp_path / "target")
    line = COMMANDS["distil"] + f" --start {target}"
    monkeypatch.setitem(COMMANDS, "distil", line)
    said = refused("distil", target, whole_text(tmp_path), monkeypatch, capsys)
    assert "is no drafter: it has no card.json" in said


def refused(
    command: str,
    target: Path,
    given: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """The sentence a command ends with, having done nothing."""
    monkeypatch.chdir(target.parent)
    there = sorted(target.parent.iterdir())
    line = COMMANDS[command].format(target=target, text=given)
    monkeypatch.setattr(sys, "argv", [command, *line.split()])
    main = importlib.import_module(f"engine.training.{command}").main
    arguments = (threading.Event(),) if command in ("distil", "everything") else ()
    with pytest.raises(SystemExit) as ended:
        main(*arguments)
    assert ended.value.code == 2
    assert sorted(target.parent.iterdir()) == there
    out, err = capsys.readouterr()
    assert not out
    return err.splitlines()[-1]
