"""The dock's controls: ladders, matches, layers, sampling, run files and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from show import ScriptedSource, Stage, hand_run
from test_panels import SIZES, click, frames, inside, model, press

from engine import codec
from engine.drafters.memory import memory_of
from engine.requests import Change
from engine.trace import EngineState, Settings
from visualizer import actions as act
from visualizer import dial
from visualizer.actions import Action
from visualizer.config import ShowOptions
from visualizer.input import LEFT
from visualizer.palette import Entry
from visualizer.state import ViewState
from visualizer.ui.layout import arrange
from visualizer.ui.model import EngineView, UiModel
from visualizer.ui.overlay import Overlay

NAMES = (
    "auto", "none", "copy-8", "copy-4g64", "copy-2g16", "small-1", "small", "small-4", "eagle",
    "eagle-middle", "eagle-early", "n-gram",
)  # fmt: skip
READY = EngineView(expected=True, state=EngineState("ready", drafters=NAMES))


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    made = Overlay()
    yield made
    made.close()


def at(settings: Settings, now: dial.Dial = "noise", **changes: object) -> UiModel:
    """The panels with every ladder there, the slider acting through `now`."""
    return model(engine=READY, state=ViewState(settings=settings, dial=now, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("now", dial.DIALS)
def test_nothing_is_clipped_with_every_ladder(
    overlay: Overlay, size: tuple[int, int], now: dial.Dial
) -> None:
    frames(overlay, at(Settings(drafter="small"), now), size)
    dock = arrange(*size).dock
    for name in ("quality", "dial", "temperature", "sampling", "prompt", "start", "histogram"):
        assert inside(overlay.marks[name], dock), f"{name} at {size}"


@pytest.mark.parametrize("theme", ["dark", "light", "high-contrast"])
@pytest.mark.parametrize("scale", [0.75, 1.0, 2.5])
def test_every_theme_and_scale_has_the_dial(overlay: Overlay, theme: str, scale: float) -> None:
    frames(overlay, at(Settings(drafter="copy-8"), "bits", theme=theme, ui_scale=scale))
    assert {"dial", "quality", "sampling"} <= overlay.marks.keys()


def test_the_switch_moves_onto_a_ladder_at_its_best_stop(overlay: Overlay) -> None:
    for number, (now, best) in enumerate(
        (("training", "eagle"), ("size", "small-4"), ("bits", "copy-8")), 1
    ):
        (action,) = click(overlay, at(Settings(quality=40.0)), "dial", (number + 0.5) / 4)
        assert action == act.ChooseDial(now, Settings(drafter=best))  # type: ignore[arg-type]
    (back,) = click(overlay, at(Settings(drafter="small"), "size"), "dial", 0.1)
    assert back == act.ChooseDial("noise", Settings(drafter="small"))


@pytest.mark.parametrize(
    ("now", "stops"),
    [
        ("training", ("eagle-early", "eagle-middle", "eagle")),
        ("size", ("small-1", "small", "small-4")),
        ("bits", ("copy-2g16", "copy-4g64", "copy-8")),
    ],
)
def test_the_slider_steps_along_the_ladder(
    overlay: Overlay, now: dial.Dial, stops: tuple[str, ...]
) -> None:
    for across, name in zip((0.0, 0.5, 1.0), stops, strict=True):
        actions = click(overlay, at(Settings(k=3), now), "quality", across)
        assert actions[0] == act.ChangeSettings(Settings(drafter=name, k=3))


def test_a_ladder_that_is_not_there_is_noise(overlay: Overlay) -> None:
    """Remembered from another engine."""
    plain = at(Settings(), "bits")
    poor = replace(plain, engine=EngineView(True, EngineState("ready", drafters=("auto", "small"))))
    actions = click(overlay, poor, "quality", 0.0)
    assert actions[0] == act.ChangeSettings(Settings(quality=0.0))
    assert "dial" not in overlay.marks


def test_arrow_keys_step_along_a_ladder(overlay: Overlay) -> None:
    frames(overlay, at(Settings(drafter="small"), "size"))
    what = at(Settings(drafter="small"), "size", panel="dock")
    frames(overlay, what)
    seen: list[Action] = []
    for _ in range(14):
        seen += press(overlay, what, "down", "right")
    assert act.ChangeSettings(Settings(drafter="small-4")) in seen


# --- n-gram's matches ------------------------------------------------------------------------


def test_matches_can_be_set_where_they_matter(overlay: Overlay) -> None:
    frames(overlay, at(Settings()))
    assert "match" not in overlay.marks
    here = at(Settings(drafter="n-gram"))
    for across, lengths in ((1.0, (2, 8)), (0.0, (1, 5)), (0.3, (3, 5))):
        actions = click(overlay, here, "match", across)
        changed = Settings(drafter="n-gram", shortest_match=lengths[0], longest_match=lengths[1])
        assert actions[0] == act.ChangeSettings(changed)


def test_a_knob_that_is_held_stays_the_one_that_moves(overlay: Overlay) -> None:
    """Dragged over the other one it stops there."""
    settings = Settings(drafter="n-gram")
    frames(overlay, at(settings))
    rect = overlay.marks["match"]
    y = rect.y + rect.height / 2
    overlay.port.mouse_at((rect.x + rect.width * 0.15, y))
    frames(overlay, at(settings))
    overlay.port.mouse_button(LEFT, True)
    for across in (0.15, 0.3, 0.45, 0.6, 0.9):
        overlay.port.mouse_at((rect.x + rect.width * across, y))
        for action in frames(overlay, at(settings), count=1):
            assert isinstance(action, act.ChangeSettings)
            settings = action.settings
    overlay.port.mouse_button(LEFT, False)
    assert (settings.shortest_match, settings.longest_match) == (5, 5)


# --- layer skip's layers ---------------------------------------------------------------------


def skipping(drafter: str = "layer-skip-20", layers: int = 30, **changes: object) -> UiModel:
    """The panels with a drafter in use, over a run of a target of so many layers."""
    made = at(Settings(drafter=drafter))
    assert made.header is not None
    return replace(made, **{"header": replace(made.header, target_layers=layers)} | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("layers", [3, 12, 30])
def test_the_layers_of_layer_skip_are_dragged_from_one_to_all_but_the_last(
    overlay: Overlay, layers: int
) -> None:
    here = skipping("layer-skip-2", layers)
    for across, count in ((0.0, 1), (1.0, layers - 1)):
        wanted = act.ChangeSettings(Settings(drafter=f"layer-skip-{count}"))
        assert click(overlay, here, "layers", across)[:1] == ([wanted] if count != 2 else [])


def test_layers_step_by_arrow_keys_and_the_choice_keeps_everything_else(overlay: Overlay) -> None:
    plain = skipping()
    settings = Settings(drafter="layer-skip-20", k=7, temperature=0.5)
    what = replace(plain, state=replace(plain.state, settings=settings, panel="dock"))
    frames(overlay, plain)
    frames(overlay, what)
    seen: list[Action] = []
    for _ in range(14):
        seen += press(overlay, what, "down", "left")
    assert act.ChangeSettings(replace(settings, drafter="layer-skip-19")) in seen


@pytest.mark.parametrize(("typed", "count"), [("7", 7), ("0", 1), ("300", 29), ("many", None)])
def test_layers_take_what_is_typed_within_the_target(
    overlay: Overlay, typed: str, count: int | None
) -> None:
    here = skipping()
    click(overlay, here, "layers-field")
    overlay.port.text(typed)
    frames(overlay, here, count=len(typed) + 2)
    overlay.port.key("return", True)
    actions = frames(overlay, here)
    wanted = act.ChangeSettings(Settings(drafter=f"layer-skip-{count}"))
    assert actions == ([] if count is None else [wanted])


@pytest.mark.parametrize(
    ("what", "there"),
    [
        (skipping(), True),
        (skipping("layer-skip-30"), True),
        (skipping("n-gram"), False),
        (skipping("auto"), False),
        (skipping(layers=0), False),
        (skipping(layers=2), False),
        (skipping(header=None), False),
        (skipping(badge="RECORDED"), False),
        (skipping(badge="RECORDED", engine=replace(READY, opened=True)), True),
    ],
    ids=["skips", "all of them", "n-gram", "auto", "no depth told", "nothing to choose",
         "no run", "another target's run", "a run file"],
)  # fmt: skip
def test_layers_can_be_set_where_they_matter_and_their_number_is_known(
    overlay: Overlay, what: UiModel, there: bool
) -> None:
    frames(overlay, what)
    assert ("layers" in overlay.marks) is there


# --- sampling --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "typed", "changed"),
    [
        ("top-k", "40", {"top_k": 40}),
        ("top-k", "off", {"top_k": 0}),
        ("top-p", "0,9", {"top_p": 0.9}),
        ("top-p", "0", {"top_p": 1.0}),
        ("min-p", "0.05", {"min_p": 0.05}),
        ("penalty", "1.2", {"repetition_penalty": 1.2}),
        ("penalty", "off", {"repetition_penalty": 1.0}),
        ("min-p", "some", None),
    ],
)
def test_sampling_unfolds_and_takes_what_is_typed(
    overlay: Overlay, field: str, typed: str, changed: dict[str, float] | None
) -> None:
    start = Settings(top_k=7, top_p=0.5, min_p=0.1, repetition_penalty=1.5)
    what = at(start)
    click(overlay, what, "sampling", 0.2)
    assert {"top-k", "top-p", "min-p", "penalty"} <= overlay.marks.keys()
    click(overlay, what, field)
    overlay.port.text(typed)
    frames(overlay, what, count=len(typed) + 2)
    overlay.port.key("return", True)
    actions = frames(overlay, what)
    assert actions == ([] if changed is None else [act.ChangeSettings(replace(start, **changed))])  # type: ignore[arg-type]


# --- a run file in front of a live run, and refusals -----------------------------------------


def live(stage_of, **options: object) -> tuple[Stage, ScriptedSource]:  # type: ignore[no-untyped-def]
    source = ScriptedSource()
    stage = stage_of(source, **options)
    run = hand_run()
    source.say(EngineState("ready", drafters=NAMES))
    stage.step()
    source.say(run.header, *run.rounds)
    stage.step(0.1, 2)
    return stage, source


def test_a_run_file_shows_its_own_settings_and_the_way_back(stage_of, tmp_path) -> None:  # type: ignore[no-untyped-def]
    stage, _ = live(stage_of, size=(1280, 720))
    stage.app.handle(act.ChooseDial("size", Settings(drafter="small", k=9)))
    stage.step()
    run = hand_run()
    assert run.header is not None
    other = replace(run.header, settings=Settings(drafter="medusa", k=2), prompt="Its own")
    path = tmp_path / "file.jsonl"
    path.write_text("".join(codec.iter_lines([other])))
    stage.app.handle(act.OpenRun(path))
    stage.step(0.1, 3)
    told = stage.app.model()
    assert told.engine.opened
    assert (told.state.settings, told.state.prompt.text) == (other.settings, "Its own")
    assert told.state.dial == "noise", "its quality is told, whatever the slider acts through"
    for mark in ("mode", "quality", "temperature", "start"):
        assert click(stage.overlay, told, mark, 0.2) == [], mark
    assert not any("K: " in entry.title for entry in offers(stage)), "the palette neither"
    assert click(stage.overlay, told, "resume") == [act.ShowLive()]
    stage.app.handle(act.ShowLive())
    stage.step(0.1, 3)
    assert not stage.app.model().engine.opened
    state = stage.app.model().state
    assert (state.settings, state.dial) == (Settings(drafter="small", k=9), "size")


def offers(stage: Stage) -> tuple[Entry, ...]:
    stage.app.handle(act.OpenPalette())
    found = stage.app.model().offers
    stage.app.handle(act.ClosePalette())
    return found


def test_a_refused_change_is_told_until_the_next_one(stage_of) -> None:  # type: ignore[no-untyped-def]
    stage, source = live(stage_of, size=(1280, 720))
    stage.app.handle(act.ChangeSettings(Settings(drafter="small", k=3)))
    stage.step()
    assert isinstance(source.requests[-1], Change)
    source.changing = False
    source.say(EngineState("ready", "There is no drafter “small” here."))
    stage.step(0.1, 2)
    assert stage.app.model().engine.refusal == "There is no drafter “small” here."
    assert stage.app.model().message == "There is no drafter “small” here.", "with the dock hidden"
    assert "refusal" in stage.overlay.marks
    stage.step(5.0)
    assert stage.app.model().message == "", "a passing word: the dock keeps it"
    stage.app.handle(act.ChangeSettings(Settings(k=3)))
    stage.step(0.1, 2)
    assert stage.app.model().engine.refusal is None
    assert "refusal" not in stage.overlay.marks


def test_a_notice_of_the_engine_is_no_answer_to_a_change(stage_of) -> None:  # type: ignore[no-untyped-def]
    stage, source = live(stage_of, size=(1280, 720))
    source.say(EngineState("notice", "This reply is not remembered: the disk is full."))
    stage.step(0.1, 2)
    told = stage.app.model()
    assert told.engine.notice == "This reply is not remembered: the disk is full."
    assert told.engine.refusal is None
    assert told.engine.state is not None
    assert told.engine.state.phase == "ready"


# --- what is remembered ----------------------------------------------------------------------


def test_only_replies_to_one_s_own_prompts_are_remembered_and_only_if_wanted(stage_of) -> None:  # type: ignore[no-untyped-def]
    stage, source = live(stage_of)
    stage.app._options = replace(stage.app._options, remember=True)
    stage.app.handle(act.StartRun())
    assert not source.starts()[-1].remember, "a curated prompt shows how guessing goes"
    stage.app.handle(act.EditPrompt("My own", True))
    stage.app.handle(act.StartRun())
    assert source.starts()[-1].remember
    stage.app.handle(act.ToggleRemember())
    assert stage.app.model().message.endswith("not remembered.")
    stage.app.handle(act.StartRun())
    assert not source.starts()[-1].remember
    stage.app.handle(act.ToggleRemember())
    stage.app._options = replace(stage.app._options, remember=False)  # --no-remember
    stage.app.handle(act.StartRun())
    assert not source.starts()[-1].remember


def test_forgetting_says_what_became_of_it(stage_of, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    stage, _ = live(stage_of)
    memory_of(tmp_path, tmp_path, "full", 100).keep([1, 2, 3])
    stage.app._options = ShowOptions(replies=tmp_path)
    for words in ("The replies remembered are gone.", "No reply is remembered."):
        stage.app.handle(act.ForgetReplies())
        assert stage.app.model().message == words
    assert list(tmp_path.iterdir()) == []
