"""Whatever a training command is given and cannot use is refused in a sentence, before any work."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from engine.training import corpus as text
from engine.training import cost, distil, inputs, prompts, teacher
from engine.training.recipe import Recipe
from tests.engine.test_training import corpus_of_prompts, made_up_corpus, target_folder

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
@pytest.mark.parametrize(
    ("harmed", "refusals"),
    [
        ("text.npz", ("does not exist", "cannot be read as the target's own text")),
        ("target/model.safetensors", ("is no target", "cut short or no file of weights")),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_text_or_target_that_is_none_is_refused(
    command: str,
    harmed: str,
    refusals: tuple[str, ...],
    harm: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given, target = whole_text(tmp_path), target_folder(tmp_path / "target")
    harm(tmp_path / harmed)
    said = refused(command, target, given, monkeypatch, capsys)
    assert Path(harmed).name in said
    assert any(each in said for each in refusals)


def test_a_drafter_to_begin_with_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = target_folder(tmp_path / "target")
    line = COMMANDS["distil"] + f" --start {target}"
    monkeypatch.setitem(COMMANDS, "distil", line)
    said = refused("distil", target, whole_text(tmp_path), monkeypatch, capsys)
    assert "is no drafter: it has no card.json" in said


@pytest.mark.parametrize(
    "wrong",
    [
        "--visits -1", "--minutes 0", "--minutes nan", "--cooldown 1.5", "--step-tokens 0",
        "--layers 0", "--peak-rate 0", "--peak-rate inf", "--unroll 0", "--plain-visits -1",
        "--others -1", "--fitting-rows 0", "--frozen-layers -1", "--keep 0", "--seed -1",
        "--shards 0", "--every 0", "--threads 0", "--device nonsense", "--device cuda:99",
        "--out {text}", "--work {text}", "--laws {text}/deeper",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(
    wrong: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(COMMANDS, "distil", COMMANDS["distil"] + " " + wrong)
    given = whole_text(tmp_path)
    said = refused("distil", target_folder(tmp_path / "target"), given, monkeypatch, capsys)
    assert wrong.split()[0] in said


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


# --- what only shows once it is read ----------------------------------------------------------


def prompts_of(reason: str, count: int) -> list[str]:
    every = islice(prompts.stream(4), 4000)
    return [each.text for each in every if (text.reason(each) == "train") == (reason == "train")][
        :count
    ]


def written(folder: Path, asked: list[str], temperatures: tuple[float, ...] = (0.0, 0.7)) -> Path:
    corpus = corpus_of_prompts(asked)
    cycle = np.resize(np.array(temperatures, dtype=np.float32), len(corpus))
    text.save(replace(corpus, temperature=cycle), folder / "text.npz")
    return folder / "text.npz"


def plan_of(folder: Path, given: Path, seed: int = 0) -> teacher.Plan:
    target = folder / "target"
    if not target.exists():
        target_folder(target)
    return teacher.Plan.make(target, [given], folder, seed)


def test_a_text_must_hold_something_to_learn_and_something_to_measure(tmp_path: Path) -> None:
    trained, kept = prompts_of("train", 20), prompts_of("held out", 6)
    for asked, temperatures, what in (
        (kept, (0.0, 0.7), "to train on"),
        (trained, (0.0, 0.7), "at temperature 0"),
        (trained + kept, (0.7,), "at temperature 0:"),
        (trained + kept, (0.0,), "at temperature 0.7"),
    ):
        with pytest.raises(ValueError, match=what):
            plan_of(tmp_path, written(tmp_path, asked, temperatures))
    plan_of(tmp_path, written(tmp_path, trained + kept))


def test_laws_of_other_text_or_another_order_are_not_learned(tmp_path: Path) -> None:
    asked = prompts_of("train", 20) + prompts_of("held out", 6)
    plan = plan_of(tmp_path, written(tmp_path, asked))
    laws = plan.laws(0)
    assert np.array_equal(plan.laws(0).probs, laws.probs)
    with pytest.raises(ValueError, match="name another folder"):
        plan_of(tmp_path, written(tmp_path, asked), seed=1).laws(0)
    with pytest.raises(ValueError, match="name another folder"):
        plan_of(tmp_path, written(tmp_path, asked[1:])).laws(0)
    other = replace(plan, vocabulary=plan.vocabulary[1:])
    with pytest.raises(ValueError, match="name another folder"):
        other.laws(0)


def test_a_checkpoint_that_is_damaged_or_of_another_make_is_refused(tmp_path: Path) -> None:
    asked = prompts_of("train", 20) + prompts_of("held out", 6)
    plan = plan_of(tmp_path, written(tmp_path, asked))
    distil.prepare("small", plan, Recipe(layers=2), None)
    with pytest.raises(ValueError, match="of 2 layers"):
        distil.prepare("small", plan, Recipe(layers=1), None)
    with pytest.raises(ValueError, match="has too many"):
        distil.prepare("small", plan, Recipe(layers=9), None)
    checkpoint = tmp_path / "checkpoint.pt"
    for broken in (b"", b"Once upon a time", checkpoint.read_bytes()[:-200]):
        checkpoint.write_bytes(broken)
        with pytest.raises(ValueError, match="delete it to begin anew"):
            distil.prepare("small", plan, Recipe(layers=2), None)


def test_what_a_command_refuses_is_its_last_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        raise ValueError("there is nothing to train on")

    monkeypatch.setattr(sys, "argv", ["here/distil.py"])
    with pytest.raises(SystemExit) as ended:
        inputs.told(command)
    assert ended.value.code == "distil: there is nothing to train on"


@pytest.mark.parametrize("name", ["copy-8", "n-gram", "nobody"])
def test_a_cost_belongs_on_a_card(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} has no card"):
        cost.check(name)
    cost.check("eagle-tree")
    cost.check("retrieval")
