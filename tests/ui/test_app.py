"""The show: opening run, the switch to live, holding back for a change, engine death."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from show import PROMPTS, ScriptedSource, Stage, hand_run

from engine.requests import Change, Shown
from engine.trace import EngineState, Rewind, RunFailed, RunFinished, Settings
from visualizer import actions as act
from visualizer.config import HOLD_SECONDS

Make = Callable[..., Stage]
READY = EngineState("ready", drafters=("auto", "copy-8", "n-gram"))
HAND = hand_run()


def live_stage(stage_of: Make, rounds: int = 3) -> Stage:
    """A live run on stage with its first rounds."""
    source = ScriptedSource()
    stage = stage_of(source)
    source.say(READY)
    stage.step()
    source.say(HAND.header, *HAND.rounds[:rounds])
    stage.step()
    return stage


def badge(stage: Stage) -> str:
    return stage.app.model().badge


def test_a_recorded_run_opens_the_show_and_live_takes_over(stage_of: Make) -> None:
    source = ScriptedSource()
    stage = stage_of(source, opening=HAND)
    stage.step(0.5)
    assert badge(stage) == "RECORDED"
    assert stage.app.clock.t == 0.5
    assert source.requests == []
    source.say(EngineState("loading"), READY)
    stage.step()
    (start,) = source.starts()
    assert start.prompt == PROMPTS[0].text
    source.say(HAND.header)
    stage.step()
    assert badge(stage) == "RECORDED", "a run with nothing to show must not take the stage"
    source.say(HAND.rounds[0])
    stage.step()
    assert badge(stage) == "LIVE"
    assert stage.app.clock.t == 0.0


def test_a_paused_recording_is_not_taken_away(stage_of: Make) -> None:
    source = ScriptedSource()
    stage = stage_of(source, opening=HAND)
    stage.app.handle(act.TogglePlay())
    source.say(READY, HAND.header, HAND.rounds[0])
    stage.step(0.5)
    assert badge(stage) == "RECORDED"
    stage.app.handle(act.TogglePlay())
    stage.step(0.5)
    assert badge(stage) == "LIVE"


def test_a_pause_before_there_is_a_run_does_not_keep_it_away(stage_of: Make) -> None:
    source = ScriptedSource(live=False)
    stage = stage_of(source)
    stage.app.handle(act.TogglePlay())
    stage.step(0.5)
    source.say(HAND.header, *HAND.rounds)
    stage.step(0.5)
    assert badge(stage) == "RECORDED"
    assert stage.app.end > 0


def test_rounds_are_reported_as_they_begin(stage_of: Make) -> None:
    stage = live_stage(stage_of)
    assert stage.source.shown() == [1]
    stage.step(60.0)
    assert stage.source.shown()[-1] == 3
    assert stage.source.shown() == sorted(set(stage.source.shown()))


def test_the_picture_waits_for_the_engine_at_the_tail(stage_of: Make) -> None:
    stage = live_stage(stage_of, rounds=1)
    stage.step(100.0)
    at = stage.app.clock.t
    assert at == stage.app.end
    stage.step(1.0)
    assert stage.app.clock.t == at
    stage.source.say(HAND.rounds[1])
    stage.step(0.25)
    assert stage.app.clock.t == pytest.approx(at + 0.25)


def test_a_change_acts_at_the_next_round_not_shown(stage_of: Make) -> None:
    """While the engine answers, no further round begins; then the new ones do."""
    stage = live_stage(stage_of)
    settings = replace(HAND.header.settings, k=7) if HAND.header else Settings()
    stage.app.handle(act.ChangeSettings(settings))
    stage.step()
    assert stage.source.requests[-1] == Change(stage.app.state.settings)
    stage.step(100.0)
    assert stage.source.shown() == [1]
    begun = stage.app.clock.t
    stage.source.changing = False
    stage.source.say(Rewind(1, settings), HAND.rounds[1], HAND.rounds[2])
    stage.step(1.0)
    assert stage.app.clock.t > begun
    assert stage.source.shown()[-1] >= 2


def test_settings_on_the_move_are_sent_one_at_a_time(stage_of: Make) -> None:
    stage = live_stage(stage_of)
    for k in (5, 6, 7):
        stage.app.handle(act.ChangeSettings(replace(stage.app.state.settings, k=k)))
        stage.step()
    stage.source.changing = False
    stage.step()
    changes = [each.settings.k for each in stage.source.requests if isinstance(each, Change)]
    assert changes == [5, 7]


def test_a_refused_prompt_is_told_and_leaves_the_run_on_stage_alone(stage_of: Make) -> None:
    stage = live_stage(stage_of)
    stage.source.say(EngineState("refused", "The prompt is 10000 tokens long."))
    stage.step()
    engine = stage.app.model().engine
    assert engine.problem == "The prompt is 10000 tokens long."
    assert engine.state == READY, "the engine is as ready as before"
    at = stage.app.clock.t
    stage.step(0.5)
    assert stage.app.clock.t > at, "the run goes on"
    assert stage.app.model().hud.end is None


def test_engine_death_is_told_and_a_restart_brings_it_back(stage_of: Make) -> None:
    stage = live_stage(stage_of)
    stage.source.fault = "The engine was ended by signal 9."
    stage.step(0.5)
    assert "restart" in stage.overlay.marks
    at = stage.app.clock.t
    stage.step(0.5)
    assert stage.app.clock.t > at, "the window lives on"
    stage.app.handle(act.RestartEngine())
    assert stage.source.restarts == 1
    stage.source.say(READY)
    stage.step()
    assert len(stage.source.starts()) == 2
    assert "restart" not in stage.overlay.marks


def test_what_a_ready_engine_does_for_a_run_is_told_until_it_begins(stage_of: Make) -> None:
    stage = live_stage(stage_of)
    stage.app.handle(act.StartRun())
    for busy in (EngineState("measuring", "none"), EngineState("reading", "", 256, 900)):
        stage.source.say(busy)
        stage.step()
        assert stage.app.model().engine.busy == busy
        assert "engine-card" in stage.overlay.marks
    assert stage.app.model().engine.state == READY, "the engine can be asked for more"
    stage.source.say(hand_run().header)
    stage.step(frames=2)
    assert "engine-card" not in stage.overlay.marks


def test_a_run_that_fails_leaves_a_sentence(stage_of: Make) -> None:
    stage = live_stage(stage_of)
    stage.source.say(RunFailed("This prompt needs 9000 tokens; the target holds 2048."))
    stage.step()
    assert stage.app.model().engine.problem == (
        "This prompt needs 9000 tokens; the target holds 2048."
    )


def test_events_that_cannot_follow_do_not_end_the_show(stage_of: Make) -> None:
    stage = live_stage(stage_of)
    stage.source.say(HAND.rounds[2])
    stage.step()
    assert "out of order" in (stage.app.model().engine.problem or "")


def test_the_next_prompt_follows_after_the_last_picture_has_stood(stage_of: Make) -> None:
    stage = live_stage(stage_of)
    stage.source.say(RunFinished("eos"))
    stage.step()
    stage.step(100.0)
    stage.step(HOLD_SECONDS * 0.9)
    assert len(stage.source.starts()) == 1
    stage.step(HOLD_SECONDS)
    assert [each.prompt for each in stage.source.starts()] == [
        PROMPTS[0].text,
        PROMPTS[1].text,
    ]


def test_a_prompt_chosen_during_a_run_is_the_next(stage_of: Make) -> None:
    stage = live_stage(stage_of)
    stage.app.handle(act.ChoosePrompt(2, PROMPTS[2].text, True))
    stage.source.say(RunFinished("eos"))
    stage.step()
    stage.step(100.0)
    stage.step(HOLD_SECONDS * 1.1)
    assert stage.source.starts()[-1].prompt == PROMPTS[2].text


@pytest.mark.parametrize("action", [act.TogglePlay(), act.EditPrompt("Mine", True)])
def test_no_prompt_follows_when_someone_paused_or_typed(stage_of: Make, action: act.Action) -> None:
    stage = live_stage(stage_of)
    stage.source.say(RunFinished("eos"))
    stage.step()
    stage.step(100.0)
    stage.app.handle(action)
    stage.step(HOLD_SECONDS * 3, frames=4)
    assert len(stage.source.starts()) == 1


def test_typed_text_starts_and_blank_text_does_not(stage_of: Make) -> None:
    stage = live_stage(stage_of)
    stage.app.handle(act.EditPrompt("  \n", True))
    stage.app.handle(act.StartRun())
    assert len(stage.source.starts()) == 1
    stage.app.handle(act.EditPrompt("Say <|im_end|> 日本 👍", False))
    stage.app.handle(act.StartRun())
    assert stage.source.starts()[-1].prompt == "Say <|im_end|> 日本 👍"
    assert not stage.source.starts()[-1].chat


def test_a_new_run_is_reported_from_its_own_start(stage_of: Make) -> None:
    stage = live_stage(stage_of)
    stage.step(100.0)
    stage.source.requests.clear()
    stage.source.say(HAND.header, HAND.rounds[0])
    stage.step()
    assert stage.source.requests == [Shown(1)]


def test_stepping_stops_at_each_beat_and_back_again(stage_of: Make) -> None:
    stage = stage_of(ScriptedSource(live=False), opening=HAND)
    app = stage.app
    app.handle(act.TogglePlay())
    times = []
    for _ in range(5):
        app.handle(act.NextBeat())
        stage.step(30.0)
        assert not app.clock.playing
        times.append(app.clock.t)
    assert times == sorted(set(times))
    for expected in reversed(times[:-1]):
        app.handle(act.PreviousBeat())
        assert app.clock.t == pytest.approx(expected)


def test_with_nothing_to_show_the_stage_is_drawn(stage_of: Make) -> None:
    stage = stage_of(ScriptedSource(), prompts=())
    stage.step(0.1, frames=3)
    for action in (act.NextBeat(), act.PreviousBeat(), act.NextRound(), act.Seek(3.0)):
        stage.app.handle(action)
    stage.step(0.1)
    assert stage.renderer.pixels().std() > 0


def test_panning_by_one_pixel_moves_the_scene_by_one_pixel(stage_of: Make) -> None:
    stage = stage_of(ScriptedSource(live=False), opening=HAND)
    stage.step()
    right, up = stage.app.offset_at(100.0, 80.0)
    more_right, more_up = stage.app.offset_at(101.0, 79.0)
    scale = stage.app.world_per_pixel()
    assert scale > 0
    assert (more_right - right, more_up - up) == pytest.approx((scale, scale))


def test_a_replay_of_a_run_without_rounds_is_recorded_and_says_so(stage_of: Make) -> None:
    source = ScriptedSource(live=False)
    stage = stage_of(source, prompts=())
    stage.step()
    assert badge(stage) == "RECORDED", "nothing is decoded here"
    assert HAND.header is not None
    source.say(HAND.header)
    stage.step(0.1, frames=2)
    assert stage.app.model().header == HAND.header
    for action in (act.Inspect(), act.ToggleLoop(), act.NextBeat(), act.InspectNext(1)):
        stage.app.handle(action)
    stage.step(0.1)
    assert stage.app.state.selected == 0


def test_a_picture_without_panels_leaves_everything_as_it_was(stage_of: Make) -> None:
    stage = stage_of(ScriptedSource(live=False), opening=HAND)
    stage.app.handle(act.Seek(6.0))
    stage.app.handle(act.Inspect())
    stage.step(1.0, frames=3)
    stage.step(frames=2)
    before, state = stage.renderer.pixels().copy(), stage.app.state
    stage.app.draw(panels=False)
    assert set(stage.overlay.marks) == {"badge"}
    assert stage.app.state == state
    stage.step()
    assert np.array_equal(stage.renderer.pixels(), before)


def test_the_engine_runs_ahead_while_the_picture_stays_where_it_was_put(stage_of: Make) -> None:
    """Stepping back and forth in a live run: shown rounds are told once, as they begin."""
    stage = live_stage(stage_of)
    app = stage.app
    app.handle(act.TogglePlay())
    app.handle(act.NextRound())
    stage.step(0.1)
    assert stage.source.shown() == [1, 2]
    app.handle(act.PreviousRound())
    app.handle(act.PreviousRound())
    at = app.clock.t
    stage.source.say(*HAND.rounds[3:5])
    stage.step(5.0, frames=5)
    assert app.clock.t == at, "new rounds move nothing"
    assert app.timeline is not None
    assert len(app.timeline.rounds) == 5
    assert stage.source.shown() == [1, 2], "looking back is nothing to tell the engine"
    app.handle(act.Seek(app.timeline.spans[3].start + 0.1))
    stage.step(0.1)
    assert stage.source.shown() == [1, 2, 4]


def test_a_change_of_speed_is_told(stage_of: Make) -> None:
    stage = stage_of(ScriptedSource(live=False), opening=HAND)
    stage.app.handle(act.SetSpeed(2.0))
    assert stage.app.model().message == "Speed 2x"
    stage.step(10.0)
    assert stage.app.model().message == ""


def test_what_only_a_window_can_do_is_handed_on_from_the_panels(
    stage_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[act.Action] = []
    stage = stage_of(ScriptedSource(live=False), opening=HAND, program=asked.append)
    stage.step()
    wanted = [act.Quit(), act.Screenshot(panels=True), act.CopyCamera(), act.ToggleFullScreen()]
    monkeypatch.setattr(stage.overlay, "frame", lambda *_: [*wanted, act.NextTheme()])
    stage.step()
    assert asked == wanted
    assert stage.app.state.theme != "dark"
