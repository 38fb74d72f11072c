"""Run files opened and saved by hand, the live run behind them, and a camera as text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from show import HAND, ScriptedSource, Stage, hand_run

from engine.codec import read_run
from engine.trace import EngineState, Trace
from visualizer import actions as act
from visualizer import cameras, runfiles
from visualizer.stage.view import PRESETS, Orbit
from visualizer.state import ViewState, reduce

RUN = hand_run()
Make = Callable[..., Stage]


def test_a_saved_run_is_the_run(tmp_path: Path) -> None:
    path = tmp_path / "copy.jsonl"
    assert str(path) in runfiles.save(RUN, path)
    assert read_run(path) == RUN


def test_no_file_is_ever_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("precious")
    with pytest.raises(runfiles.RunFileError, match="exists already"):
        runfiles.save(RUN, path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize("text", ["", "no run", "{}\n", '{"format": "other"}', "\x00" * 100])
def test_what_is_no_run_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(text)
    for place in (path, tmp_path, tmp_path / "missing.jsonl"):
        with pytest.raises(runfiles.RunFileError) as found:
            runfiles.read(place)
        assert "\n" not in str(found.value)
    with pytest.raises(runfiles.RunFileError):
        runfiles.save(Trace(), tmp_path / "empty.jsonl")


def live(stage_of: Make) -> Stage:
    stage = stage_of(ScriptedSource())
    stage.source.say(EngineState("ready", drafters=("auto",)))
    stage.step()
    stage.source.say(RUN.header, *RUN.rounds[:3])
    stage.step(60.0)
    return stage


def test_an_opened_file_takes_the_stage_and_the_live_run_goes_on_behind_it(stage_of: Make) -> None:
    stage = live(stage_of)
    app = stage.app
    shown = stage.source.shown()
    app.handle(act.OpenRun(HAND))
    stage.step(0.1, frames=3)
    assert app.model().badge == "RECORDED"
    assert app.clock.t < 1.0
    stage.source.say(RUN.rounds[3])
    stage.step(0.1, frames=3)
    assert app.model().badge == "RECORDED", "what the engine sends does not take it away"
    assert stage.source.shown() == shown, "rounds of a file are nothing to tell the engine"
    assert not app.model().engine.starting
    app.handle(act.ShowLive())
    stage.step(0.0, frames=2)
    assert app.model().badge == "LIVE"
    assert app.timeline is not None
    assert len(app.timeline.rounds) == 4
    assert app.timeline.round_at(app.clock.t) == 2, "where it was"


def test_a_prompt_started_over_an_opened_file_brings_the_live_run(stage_of: Make) -> None:
    stage = live(stage_of)
    stage.app.handle(act.OpenRun(HAND))
    stage.step(0.1)
    stage.app.handle(act.StartRun())
    stage.source.say(RUN.header, RUN.rounds[0])
    stage.step(0.1, frames=2)
    assert stage.app.model().badge == "LIVE"
    assert stage.app.clock.t < 1.0


def test_a_replay_opens_another_file(stage_of: Make, tmp_path: Path) -> None:
    short = tmp_path / "short.jsonl"
    runfiles.save(RUN[:2], short)
    stage = stage_of(ScriptedSource(live=False), opening=RUN)
    stage.app.handle(act.OpenRun(short))
    stage.step(0.1)
    assert stage.app.timeline is not None
    assert len(stage.app.timeline.rounds) == 2
    assert Path(stage.app.state.folder) == tmp_path
    stage.app.handle(act.OpenRun(tmp_path / "missing.jsonl"))
    stage.step(0.1)
    assert "not opened" in stage.app.model().message
    assert len(stage.app.timeline.rounds) == 2, "what was on stage stays"


def test_the_palette_saves_a_copy_under_a_name_it_proposes(stage_of: Make, tmp_path: Path) -> None:
    stage = stage_of(ScriptedSource(live=False), opening=RUN)
    stage.app.handle(act.OpenRun(HAND))
    stage.app.handle(act.OpenPalette("save"))
    assert RUN.header is not None
    assert RUN.header.run_id in stage.app.state.palette.query  # type: ignore[union-attr]
    stage.app.handle(act.Query(str(tmp_path / "kept")))
    stage.step(0.1)
    (offer,) = stage.app.model().offers
    stage.app.handle(offer.action)
    assert read_run(tmp_path / "kept.jsonl") == RUN


@given(
    st.sampled_from(PRESETS),
    st.floats(-3, 3),
    st.floats(-1.2, 1.2),
    st.floats(0.35, 3.9),
    st.tuples(st.floats(-30, 30), st.floats(-30, 30)),
)
def test_a_camera_comes_back_from_its_text(
    preset: str, yaw: float, pitch: float, zoom: float, pan: tuple[float, float]
) -> None:
    orbit = Orbit(yaw, pitch, zoom, pan)
    told = cameras.parse(f"Look: {cameras.text_of(preset, orbit)}\n")  # type: ignore[arg-type]
    assert told is not None
    state = reduce(ViewState(), told)
    assert state.preset == preset
    assert state.orbit.yaw == pytest.approx(yaw, abs=1e-3)
    assert state.orbit.zoom == pytest.approx(zoom, abs=1e-3)
    assert state.orbit.pan == pytest.approx(pan, abs=1e-3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "camera moon yaw 0 pitch 0 zoom 1 pan 0 0",
        "camera top yaw a pitch 0 zoom 1 pan 0 0",
    ],
)
def test_other_text_is_no_camera(text: str) -> None:
    assert cameras.parse(text) is None


def test_numbers_that_lose_the_scene_are_kept_within_reach() -> None:
    wild = cameras.parse("camera top yaw nan pitch 0 zoom 1 pan 0 0")
    assert wild is not None
    assert reduce(ViewState(), wild).orbit == Orbit()
    far = cameras.parse("camera top yaw 9000 pitch 900 zoom 1e9 pan 1e9 0")
    assert far is not None
    orbit = reduce(ViewState(), far).orbit
    assert orbit.zoom <= 4.0
    assert abs(orbit.pan[0]) <= 40.0
