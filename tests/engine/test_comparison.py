"""Comparing drafters beside a run: turns, figures, refusals, and a run that is none the wiser."""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine import assembly, codec, requests, worker
from engine.comparison import ALONE, Compared, Comparison, Sample
from engine.config import EngineConfig
from engine.drafters.catalogue import Catalogue
from engine.requests import Change, Compare, Quit, Shown, Start, StopComparing
from engine.trace import EngineState, Rewind, RunFinished, Settings
from tests.engine import saved_model
from tests.engine.test_worker import GUESSING, PROMPT, Live, rounds_in

SKIP = "layer-skip-1"
SAMPLES = (Sample(PROMPT, chat=False), Sample("xyxyxyxy", chat=False))
ASKED = Compare(("n-gram", SKIP), SAMPLES, Settings(k=3), tokens=12)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model.save(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def live(model: Path) -> Iterator[Live]:
    engine = Live(model)
    yield engine
    engine.client.close()


@pytest.fixture(scope="module")
def engine(model: Path) -> assembly.Engine:
    return assembly.open_engine(EngineConfig(target=model, threads=1), lambda state: None)


def tables(said: list[object]) -> list[Comparison]:
    return [each for each in said if isinstance(each, Comparison)]


def over(said: list[object]) -> bool:
    found = tables(said)
    return bool(found) and found[-1].phase != "measuring"


def idle(live: Live) -> None:
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=4))
    live.finish()
    live.said.clear()


# --- the table -----------------------------------------------------------------------------


def test_every_drafter_gets_its_row_and_the_target_alone_is_one(live: Live) -> None:
    idle(live)
    live.client.send(ASKED)
    live.until(over)
    last = tables(live.said)[-1]
    assert last.phase == "done"
    assert [row.drafter for row in last.rows] == [ALONE, "n-gram", SKIP]
    for row in last.rows:
        assert (row.prompts, row.tokens) == (2, 24)
        assert row.same_text is True
        assert row.tokens_per_second
    alone, lookup, skip = last.rows
    assert alone.speedup == 1.0
    assert alone.acceptance_rate is None
    assert (lookup.weight_bytes, lookup.cache_bytes) == (0, 0)
    assert skip.step_cost is not None
    assert skip.step_cost > 0


def test_rows_fill_as_turns_end_and_the_one_at_work_is_named(live: Live) -> None:
    idle(live)
    live.client.send(ASKED)
    live.until(over)
    at_work = [(t.now, t.place, t.prompt) for t in tables(live.said) if t.now]
    assert at_work == [
        (ALONE, 1, 1), ("n-gram", 2, 1), (SKIP, 3, 1),
        ("n-gram", 1, 2), (SKIP, 2, 2), (ALONE, 3, 2),
    ]  # fmt: skip
    filled = [sum(row.measured for row in t.rows) for t in tables(live.said) if t.now]
    assert filled == [0, 1, 2, 3, 3, 3]


def test_a_row_s_figures_are_those_of_the_bench(engine: assembly.Engine) -> None:
    """Acceptance is decided by tokens alone, so the same prompts give the same figures."""
    made = engine.compare(ASKED)
    while made.told.phase == "measuring":
        made.advance()
    runs = [
        list(engine.begin(Start(s.prompt, s.chat, GUESSING, max_new_tokens=12)).rounds())
        for s in SAMPLES
    ]
    rounds = [each for run in runs for each in run]
    row = made.told.rows[1]
    assert row.tokens_per_round == pytest.approx(
        1 + sum(each.accepted for each in rounds) / len(rounds)
    )
    drafted = sum(len(each.guesses) for each in rounds)
    assert row.acceptance_rate == pytest.approx(sum(each.accepted for each in rounds) / drafted)


def test_a_drafter_named_twice_or_alone_is_measured_once(engine: assembly.Engine) -> None:
    made = engine.compare(replace(ASKED, drafters=("n-gram", ALONE, "n-gram")))
    assert [row.drafter for row in made.told.rows] == [ALONE, "n-gram"]


def test_a_drafter_whose_files_are_damaged_costs_its_row_alone(
    engine: assembly.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_at(catalogue: Catalogue, name: str) -> str:
        if name == "copy-8":
            raise ValueError("copy-8 cannot be had.")
        return name

    monkeypatch.setattr(Catalogue, "look_at", look_at)
    made = engine.compare(replace(ASKED, drafters=("copy-8", "n-gram")))
    while made.told.phase == "measuring":
        made.advance()
    rows = {row.drafter: row for row in made.told.rows}
    assert rows["copy-8"].problem.endswith("copy-8 cannot be had.")
    assert rows["n-gram"].measured
    assert not rows["n-gram"].problem
    with pytest.raises(ValueError, match="cannot be had"):
        engine.check(Settings(drafter="copy-8"))


def test_a_drafter_that_fails_is_left_out_with_the_reason(
    engine: assembly.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = engine.compare(ASKED)
    drafter = engine._catalogue("n-gram")

    def fails(*_: object) -> None:
        raise ValueError("its weights are broken")

    monkeypatch.setattr(type(drafter), "propose", fails)
    while made.told.phase == "measuring":
        made.advance()
    assert made.told.phase == "done"
    alone, lookup, skip = made.told.rows
    assert "its weights are broken" in lookup.problem
    assert not lookup.measured
    assert skip.measured
    assert alone.prompts == 2


def test_messages_come_through_the_pipe_as_they_were() -> None:
    row = Compared("eagle", 2, 24, 0.5, 2.5, 0.05, 1.2, 40.0, 1.3, 1_000, 2_000, True)
    told = Comparison("measuring", Settings(k=5), 2, 24, (row, Compared("mtp")), "mtp", 2, 1)
    assert codec.decode(codec.encode(told)) == told
    assert requests.decode(requests.encode(ASKED)) == ASKED
    assert requests.decode(requests.encode(StopComparing())) == StopComparing()


# --- beside a run --------------------------------------------------------------------------


@pytest.mark.parametrize("drafter", [SKIP, "n-gram"])
def test_a_run_goes_on_beside_it_and_is_the_same_run(live: Live, drafter: str) -> None:
    """Layers of the target draft on its own cache rows: a comparison must use others."""
    settings = Settings(drafter=drafter, k=3)
    start = Start(PROMPT, chat=False, settings=settings, max_new_tokens=60)
    live.start(start)
    straight = [(each.guesses, each.emitted) for each in live.finish().rounds]
    live.start(start)
    live.until(lambda said: bool(rounds_in(said)))
    live.client.send(replace(ASKED, tokens=30))
    live.client.send(Shown(2))
    live.until(over)
    kept = [each for each in live.said if not isinstance(each, Comparison)]
    live.said = kept
    run = live.finish()
    assert run.end == RunFinished("length")
    assert [(each.guesses, each.emitted) for each in run.rounds] == straight


@pytest.mark.parametrize("apart", [True, False])
def test_a_comparison_on_the_run_s_own_rows_would_spoil_it(
    engine: assembly.Engine, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    """The twin without rows of its own: layers of the target then write into the run's cache."""
    start = Start(PROMPT, chat=False, settings=Settings(drafter=SKIP, k=3), max_new_tokens=40)
    straight = [each.committed for each in engine.begin(start).rounds()]
    if not apart:
        catalogue = engine._catalogue
        monkeypatch.setattr(type(catalogue), "on_rows_of", lambda self, first_layers: self)
    run = engine.begin(start)
    first = [run.advance().committed for _ in range(20)]
    made = engine.compare(replace(ASKED, drafters=(SKIP,), tokens=8))
    while made.told.phase == "measuring":
        made.advance()
    rest = [each.committed for each in run.rounds()]
    assert ([*first, *rest] == straight) is apart


def test_a_change_is_obeyed_in_the_middle_of_a_turn(live: Live) -> None:
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=60))
    live.until(lambda said: bool(rounds_in(said)))
    live.client.send(replace(ASKED, tokens=400))
    live.client.send(Change(replace(GUESSING, k=1)))
    live.until(lambda said: any(isinstance(each, Rewind) for each in said))
    assert not over(live.said)
    live.client.send(StopComparing())
    live.until(over)


def test_it_can_be_stopped_and_keeps_what_it_has(live: Live) -> None:
    idle(live)
    live.client.send(replace(ASKED, tokens=200))
    live.until(lambda said: bool(tables(said)) and tables(said)[-1].rows[0].measured)
    live.client.send(StopComparing())
    live.until(over)
    last = tables(live.said)[-1]
    assert last.phase == "stopped"
    assert last.now == ""
    assert last.rows[0].measured
    live.said.clear()
    live.client.send(StopComparing())  # nothing to stop: nothing is said of it
    live.client.send(Change(GUESSING))
    live.until(lambda said: bool(said))
    assert tables(live.said) == []


def test_a_second_one_is_refused_and_the_first_goes_on(live: Live) -> None:
    idle(live)
    live.client.send(ASKED)
    live.client.send(ASKED)
    live.until(lambda said: any(t.phase == "done" for t in tables(said)))
    refused = [t for t in tables(live.said) if t.phase == "refused"]
    assert len(refused) == 1
    assert "going on" in refused[0].detail


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (replace(ASKED, drafters=("nobody",)), "nobody"),
        (replace(ASKED, drafters=()), "nothing to compare"),
        (replace(ASKED, samples=()), "nothing to compare"),
        (replace(ASKED, samples=(Sample(" "),)), "empty"),
        (replace(ASKED, samples=(Sample("x" * 10_000, False),)), "10000 tokens"),
        (replace(ASKED, settings=Settings(k=99)), "99"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    live: Live, wrong: Compare, words: str
) -> None:
    idle(live)
    live.client.send(wrong)
    live.until(over)
    (told,) = tables(live.said)
    assert told.phase == "refused"
    assert words in told.detail
    assert live.client.alive


def test_an_engine_killed_in_the_middle_is_a_reason_and_a_restart_compares_again(
    model: Path,
) -> None:
    mortal = Live(model)
    mortal.client.send(replace(ASKED, tokens=400))
    mortal.until(lambda said: bool(tables(said)))
    assert mortal.client.pid is not None
    os.kill(mortal.client.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while mortal.client.fault is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert mortal.client.fault == "The engine process was ended by SIGKILL."
    mortal.client.restart()
    mortal.said.clear()
    mortal.client.send(ASKED)
    mortal.until(over)
    assert tables(mortal.said)[-1].phase == "done"
    mortal.client.close()


# --- the loop alone ------------------------------------------------------------------------


class Scripted:
    """A comparison whose every step may bring the next request, or fail."""

    def __init__(self, inbox: worker.Inbox, fails: Exception | None = None) -> None:
        self.told = Comparison("measuring", Settings(), 1, 8)
        self.at_rest = True
        self.steps = 0
        self._inbox, self._fails = inbox, fails

    def advance(self) -> Comparison | None:
        self.steps += 1
        self._inbox.put(Quit())
        if self._fails is not None:
            raise self._fails
        return None

    def stop(self) -> Comparison:
        return replace(self.told, phase="stopped")


class ComparingEngine:
    drafters = ()

    def __init__(self, made: Scripted) -> None:
        self._made = made

    def compare(self, request: Compare) -> Scripted:
        return self._made


def served(fails: Exception | None) -> tuple[int, list[object]]:
    inbox: worker.Inbox = queue.SimpleQueue()
    inbox.put(ASKED)
    said: list[object] = []
    made = worker.Worker(
        ComparingEngine(Scripted(inbox, fails)),  # type: ignore[arg-type]
        inbox,
        said.append,
    )
    return made.work(), said


def test_one_that_fails_is_told_of_and_the_loop_goes_on() -> None:
    code, said = served(ValueError("no room"))
    assert code == 0
    assert [t.phase for t in tables(said)] == ["measuring", "failed"]
    assert tables(said)[-1].detail == "no room."


def test_a_lost_device_ends_the_process() -> None:
    code, said = served(RuntimeError("CUDA error: device-side assert triggered"))
    assert code == 1
    assert said[-1] == EngineState("failed", "The graphics device failed: restart the engine.")
