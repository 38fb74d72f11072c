"""Every drafter from nothing in a given time: what is begun ends, and goes on if stopped."""

from __future__ import annotations

import copy
import json
import sys
import threading
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.training import corpus as text
from engine.training import everything, kinds, loop, teacher
from engine.training.recipe import Recipe
from tests.engine.test_training import made_up_corpus, target_folder, tiny_target, tiny_trainer


class After(threading.Event):
    """Set once it was asked so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_one_line_makes_text_laws_and_drafters_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target, work = target_folder(tmp_path / "target"), tmp_path / "work"
    eagle = next(pupil for pupil in everything.PUPILS if pupil.name == "eagle")
    pupils = [pupil for pupil in everything.PUPILS if pupil is not eagle]
    pupils.append(replace(eagle, kept=(("eagle-early", 0.9),)))  # after the pace is known
    monkeypatch.setattr(everything, "PUPILS", tuple(pupils))
    monkeypatch.setattr(teacher, "SHARD_ROWS", 32)
    monkeypatch.setattr(everything, "REPLIES", 4)
    monkeypatch.setattr(everything, "FEWEST_REPLIES", 120)
    monkeypatch.setattr(loop, "PACE_STEPS", 3)
    line = (
        f"everything --target {target} --work {work} --minutes 0 --only pard eagle "
        "--slots 64 --max-new-tokens 12 --context 400"
    )
    monkeypatch.setattr(sys, "argv", line.split())
    everything.main(After(240))  # while the target writes
    assert everything.STOPPED in capsys.readouterr().out
    begun = text.load(work / "text.part.npz")
    assert 0 < len(begun) < 120
    assert not (work / "text.npz").exists()

    stop = threading.Event()
    fit = loop.fit

    def fit_and_stop(trainer: loop.Trainer, *given: Any) -> int:
        every = fit(trainer, *given)
        trainer.recipe = replace(trainer.recipe, visits=4 * trainer.recipe.visits)
        stop.set()
        return every

    monkeypatch.setattr(loop, "fit", fit_and_stop)
    everything.main(stop)  # while the first drafter trains
    assert everything.STOPPED in capsys.readouterr().out
    monkeypatch.setattr(loop, "fit", fit)
    whole, written = text.load(work / "text.npz"), (work / "text.npz").read_bytes()
    assert len(whole) >= 120
    assert whole.ids[: len(begun.ids)].tolist() == begun.ids.tolist()
    assert whole.row(len(begun)).tolist() != whole.row(0).tolist()
    assert not (work / "text.part.npz").exists()
    assert (work / "drafters" / "retrieval" / "card.json").exists()
    assert not (work / "drafters" / "small" / "card.json").exists()

    everything.main(threading.Event())
    said = capsys.readouterr().out
    assert "continuing from" in said
    assert "all there" in said
    assert (work / "text.npz").read_bytes() == written
    drafters = work / "drafters"
    for name in ("small", "pard", "eagle", "eagle-early"):
        facts = json.loads((drafters / name / "card.json").read_text())
        assert facts["finished"] or name == "eagle-early"
        assert facts["visits"] > 0
        assert facts["target"] == "target"
        assert kinds.load(drafters / name, tiny_target()).kind == name.partition("-")[0]
    assert "Began as `small`" in (drafters / "pard" / "card.md").read_text()
    assert len(np.load(drafters / "unigram.npz")["probs"]) == 128
    assert not (drafters / "mtp").exists()

    everything.main(threading.Event())  # nothing is left to do
    assert "step" not in capsys.readouterr().out


def test_who_is_wanted_comes_with_those_it_starts_from() -> None:
    assert [pupil.name for pupil in everything.wanted(["small-4", "mtp"])] == [
        "small", "small-4", "mtp",
    ]  # fmt: skip
    assert everything.wanted(None) == list(everything.PUPILS)


def test_laws_stop_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    plan = teacher.Plan(tmp_path, tmp_path, made_up_corpus(), None, np.arange(24), None, tmp_path)  # type: ignore[arg-type]
    monkeypatch.setattr(teacher, "SHARD_ROWS", 4)
    monkeypatch.setattr(teacher.Plan, "laws", lambda self, shard: made.append(shard))
    everything.compute_laws(plan, 1000.0, After(2))
    assert made == [0, 1, 2]


class Slow:
    """A look that takes its time."""

    def match(self, *_: object) -> dict[str, float]:
        time.sleep(0.02)
        return {"all": 0.0}


def test_a_pace_sets_visits_that_end_about_in_time_with_the_rate_at_zero() -> None:
    trainer, lessons = tiny_trainer(Recipe(layers=1, visits=2**62, step_tokens=20))
    assert trainer.recipe.rate(100, 10**6) == trainer.recipe.peak_rate
    began = time.monotonic()
    every = loop.fit(trainer, lessons, Slow(), 2.0)  # type: ignore[arg-type]
    assert trainer.progress.step == loop.PACE_STEPS
    assert 0 < trainer.progress.seconds < time.monotonic() - began
    visits = trainer.recipe.visits
    assert visits < 10**7
    losses = list(loop.train(trainer, lessons))
    assert 0.7 * loop.LOOKS * every <= len(losses) <= 1.4 * loop.LOOKS * (every + 1)
    assert trainer.recipe.rate(trainer.progress.step, trainer.progress.visits) == 0


def test_a_training_that_goes_on_keeps_the_visits_it_set_out_for() -> None:
    trainer, lessons = tiny_trainer(Recipe(layers=1, step_tokens=20))
    loop.fit(trainer, lessons, Slow(), 2.0)  # type: ignore[arg-type]
    list(islice(loop.train(trainer, lessons), 5))
    state = copy.deepcopy(trainer.state())
    again, lessons = tiny_trainer(Recipe(layers=1, step_tokens=20))
    again.restore(state)
    loop.fit(again, lessons, Slow(), 0.0)  # type: ignore[arg-type]
    assert again.recipe == trainer.recipe
    assert again.progress == trainer.progress


def test_no_time_left_is_still_one_step() -> None:
    trainer, lessons = tiny_trainer(Recipe(layers=1, visits=2**62, step_tokens=20))
    assert loop.fit(trainer, lessons, Slow(), 0.0) == 1  # type: ignore[arg-type]
    assert len(list(loop.train(trainer, lessons))) >= 1
