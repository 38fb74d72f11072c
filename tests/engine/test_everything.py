"""Every drafter from nothing in a given time: what is begun ends, and goes on if stopped."""

from __future__ import annotations

import copy
import json
import sys
import threading
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from engine.training import everything, kinds, loop, teacher
from engine.training.recipe import Recipe
from tests.engine.test_training import target_folder, tiny_target, tiny_trainer


def test_one_line_makes_text_laws_and_drafters_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target, work = target_folder(tmp_path / "target"), tmp_path / "work"
    monkeypatch.setattr(teacher, "SHARD_ROWS", 32)
    monkeypatch.setattr(everything, "REPLIES", 4)
    monkeypatch.setattr(everything, "FEWEST_REPLIES", 120)
    monkeypatch.setattr(loop, "PACE_STEPS", 3)
    line = (
        f"everything --target {target} --work {work} --minutes 0.3 --only small pard "
        "--slots 64 --max-new-tokens 12 --context 400"
    )
    monkeypatch.setattr(sys, "argv", line.split())
    stopped = threading.Event()
    stopped.set()
    everything.main(stopped)
    assert "stopped; the same line goes on" in capsys.readouterr().out
    written = (work / "text.npz").read_bytes()
    assert not (work / "drafters" / "small" / "card.json").exists()

    monkeypatch.setattr(sys, "argv", line.replace("--minutes 0.3", "--minutes 0").split())
    everything.main(threading.Event())
    said = capsys.readouterr().out
    assert "continuing from" in said
    assert "all there" in said
    assert (work / "text.npz").read_bytes() == written
    for name, kind in (("small", "small"), ("pard", "pard")):
        facts = json.loads((work / "drafters" / name / "card.json").read_text())
        assert facts["finished"]
        assert facts["visits"] > 0
        assert kinds.load(work / "drafters" / name, tiny_target()).kind == kind
    assert facts["start"]["name"] == "small"
    assert "Began as `small`" in (work / "drafters" / "pard" / "card.md").read_text()
    assert len(np.load(work / "drafters" / "unigram.npz")["probs"]) == 128

    everything.main(threading.Event())  # nothing is left to do
    assert "step" not in capsys.readouterr().out


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
