"""The panels, laid out by imgui without any GL: what they say, where, and what a click does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from imgui_bundle import imgui
from show import PROMPTS, hand_run

from engine.stats import Stats
from engine.trace import Baseline, EngineState, RunHeader, RunProof, Scored, Settings, Token
from scenes import CATALOG
from visualizer import actions as act
from visualizer.actions import Action
from visualizer.clock import PlaybackClock
from visualizer.input import LEFT, Modifiers
from visualizer.opening import nothing_to_tell
from visualizer.palette import commands
from visualizer.stage.hud import Hud, Piece
from visualizer.stage.theme import ROLES
from visualizer.stage.view import PRESETS
from visualizer.state import Palette, PromptDraft, ViewState, reduce
from visualizer.ui import style, widgets
from visualizer.ui.caption import idle
from visualizer.ui.engine_card import progress_line
from visualizer.ui.layout import Rect, arrange
from visualizer.ui.model import EngineView, UiModel
from visualizer.ui.overlay import Overlay
from visualizer.ui.readouts import readouts_of, slowdown

RUN = hand_run()
LINE = CATALOG[0].timeline(RUN)
READY = EngineView(expected=True, state=EngineState("ready", drafters=("auto", "copy-8")))
SIZES = [(640, 360), (800, 600), (1280, 720), (1920, 1080), (3840, 2160)]


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    made = Overlay()
    yield made
    made.close()


def told(**changes: object) -> Hud:
    """A busy moment: everything the panels can show at once."""
    hud = replace(
        nothing_to_tell(),
        settings=Settings(),
        stats=Stats.of(RUN.rounds, Baseline(0.02, 9)),
        histogram=(3, 4, 2, 1, 6),
        ghost=(1, 2, 5, 3),
        prompt="Wo ist 日本? 👍 \udcf0",
        committed=(Piece("The sky\nis blue, ", "committed"),),
        pending=(Piece("and", "committed"), Piece(" so", "rejected"), Piece(" on", "discarded")),
        caption=(Piece("The target's own ", "text"), Piece("correction", "correction")),
        slowdown=35.0,
    )
    return replace(hud, **changes)  # type: ignore[arg-type]


def model(**changes: object) -> UiModel:
    assert RUN.header is not None
    made = UiModel(
        state=ViewState(prompt=PromptDraft("Explain why the sky is blue.")),
        clock=PlaybackClock(t=10.0),
        hud=told(),
        timeline=LINE,
        badge="LIVE",
        header=replace(RUN.header, drafter_reason="copy-8 gave 62 tok/s here, 46 alone"),
        engine=READY,
        prompts=PROMPTS,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def frames(
    overlay: Overlay, what: UiModel, size: tuple[int, int] = (1280, 720), count: int = 2
) -> list[Action]:
    actions: list[Action] = []
    for _ in range(count):
        actions += overlay.frame(what, size, 1.0, 1 / 60)
    return actions


def click(overlay: Overlay, what: UiModel, mark: str, across: float = 0.5) -> list[Action]:
    """Press and release on a control, as the window would; returns what it caused."""
    frames(overlay, what)
    rect = overlay.marks[mark]
    overlay.port.mouse_at((rect.x + rect.width * across, rect.y + rect.height / 2))
    actions = frames(overlay, what)
    overlay.port.mouse_button(LEFT, True)
    actions += frames(overlay, what)
    overlay.port.mouse_button(LEFT, False)
    return actions + frames(overlay, what)


def inside(rect: Rect, outer: Rect) -> bool:
    return (
        rect.x >= outer.x - 1
        and rect.y >= outer.y - 1
        and rect.right <= outer.right + 1
        and rect.bottom <= outer.bottom + 1
    )


# --- where things lie ----------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_clipped(overlay: Overlay, size: tuple[int, int]) -> None:
    frames(overlay, model(), size)
    layout = arrange(*size)
    in_dock = {"mode", "drafter", "k", "quality", "temperature", "prompt", "start", "histogram"}
    assert in_dock <= overlay.marks.keys()
    for name in in_dock:
        assert inside(overlay.marks[name], layout.dock), f"{name} at {size}"
    assert inside(overlay.marks["scrub"], layout.timeline)
    for name in ("play", "camera"):
        assert inside(overlay.marks[name], layout.transport), f"{name} at {size}"
    assert inside(overlay.marks["badge"], layout.readouts)


def test_the_badge_stays_with_the_panels_hidden(overlay: Overlay) -> None:
    frames(overlay, model(state=ViewState(ui_visible=False)))
    assert set(overlay.marks) == {"badge"}


def test_a_black_screen_shows_nothing_else(overlay: Overlay) -> None:
    frames(overlay, model(state=ViewState(blackout=True)))
    assert overlay.marks == {}


def test_help_lies_over_the_panels(overlay: Overlay) -> None:
    wide = ViewState(ui_scale=1.6, help_visible=True)
    assert click(overlay, model(state=wide), "mode", across=0.95) == [act.ToggleHelp()]


@pytest.mark.parametrize("theme", ["dark", "light", "classic"])
def test_words_in_role_colours_can_be_read_on_their_panel(theme: str) -> None:
    panel = style.palette_of(theme).panel
    for role in ROLES:
        assert style.contrast(style.ink(theme, role), panel) >= style.READABLE, role


@pytest.mark.parametrize("theme", ["dark", "light", "classic"])
def test_every_theme_and_scale_lays_out(overlay: Overlay, theme: str) -> None:
    for scale in (0.75, 1.25, 2.5):
        state = ViewState(theme=theme, ui_scale=scale, help_visible=True)
        frames(overlay, model(state=state))
        assert "help" in overlay.marks


def test_an_empty_show_lays_out(overlay: Overlay) -> None:
    frames(overlay, model(hud=nothing_to_tell(), header=None, prompts=(), timeline=None))
    assert "play" in overlay.marks


# --- what a click does ---------------------------------------------------------------------


def test_the_mode_switch(overlay: Overlay) -> None:
    (action,) = click(overlay, model(), "mode", across=0.75)
    assert action == act.ChangeSettings(Settings(speculative=False))


def test_dragging_the_quality_dial(overlay: Overlay) -> None:
    actions = click(overlay, model(), "quality", across=0.0)
    assert actions[0] == act.ChangeSettings(Settings(quality=0.0))


def test_the_k_dial_reaches_both_ends(overlay: Overlay) -> None:
    for across, k in ((0.0, 1), (1.0, 8)):
        actions = click(overlay, model(), "k", across)
        assert actions[0] == act.ChangeSettings(Settings(k=k))


def auto_k(k: int = 3) -> UiModel:
    """Auto K is on, and the present round was made with `k`."""
    round_settings = Settings(k=k, auto_k=True)
    reason = "K 3: a 4th guess would survive 31 % of the time and costs 1.9 ms"
    return model(
        state=ViewState(settings=Settings(auto_k=True)),
        hud=told(settings=round_settings, k_reason=reason),
    )


@pytest.mark.parametrize("size", SIZES)
def test_an_explained_k_leaves_room_for_the_rest(overlay: Overlay, size: tuple[int, int]) -> None:
    frames(overlay, auto_k(), size)
    dock = arrange(*size).dock
    for name in ("auto-k", "k", "start", "histogram"):
        assert inside(overlay.marks[name], dock), f"{name} at {size}"


def test_k_can_be_left_to_the_engine_and_taken_back(overlay: Overlay) -> None:
    (on,) = click(overlay, model(), "auto-k")
    assert on == act.ChangeSettings(Settings(auto_k=True))
    (off,) = click(overlay, auto_k(), "auto-k")
    assert off == act.ChangeSettings(Settings(k=3)), "the K it had last stays"


def test_moving_the_k_dial_leaves_auto(overlay: Overlay) -> None:
    actions = click(overlay, auto_k(), "k", across=1.0)
    assert actions[0] == act.ChangeSettings(Settings(k=8))


def test_an_automatic_k_shows_the_k_of_the_round_and_lets_it_be(overlay: Overlay) -> None:
    """The dial follows the rounds; nobody asks the engine for that very K."""
    for k in (3, 0, 7):
        assert frames(overlay, auto_k(k)) == []


@pytest.mark.parametrize(
    ("typed", "k"), [("12", 12), ("0", 0), ("17", 16), ("-3", 0), ("nan", None), ("two", None)]
)
def test_k_can_be_typed_and_nonsense_is_dropped(
    overlay: Overlay, typed: str, k: int | None
) -> None:
    click(overlay, model(), "k-field")
    overlay.port.text(typed)
    frames(overlay, model(), count=len(typed) + 2)
    overlay.port.key("return", True)
    actions = frames(overlay, model())
    if k is None:
        assert actions == []
        return
    (action,) = actions
    assert isinstance(action, act.ChangeSettings)
    assert reduce(ViewState(), action).settings.k == k


def test_typing_into_the_prompt_box_takes_any_script(overlay: Overlay) -> None:
    empty = model(state=ViewState(prompt=PromptDraft("")))
    click(overlay, empty, "prompt")
    assert overlay.port.wants_text
    overlay.port.text("é日👍")
    texts = [
        action.text
        for action in frames(overlay, empty, count=8)
        if isinstance(action, act.EditPrompt)
    ]
    assert texts[-1] == "é日👍"


def test_what_is_typed_within_one_frame_is_there_after_the_next(overlay: Overlay) -> None:
    """However slow the frames: a line of text must not take a frame for each character."""
    click(overlay, model(), "prompt")
    line = "aa bb 11 " * 20
    for character in line:
        name = "space" if character == " " else character
        overlay.port.key(name, True)
        overlay.port.text(character)
        overlay.port.key(name, False)
    texts = [a.text for a in frames(overlay, model()) if isinstance(a, act.EditPrompt)]
    assert line in texts[-1]
    overlay.port.modifiers(Modifiers(ctrl=True))
    overlay.port.key("a", True)
    frames(overlay, model())
    overlay.port.key("a", False)
    overlay.port.modifiers(Modifiers())
    overlay.port.text("x")
    texts = [a.text for a in frames(overlay, model()) if isinstance(a, act.EditPrompt)]
    assert texts[-1] == "x", "keys held with Ctrl still command"


def test_ctrl_enter_starts_after_what_was_typed_before_it(overlay: Overlay) -> None:
    what = model()
    click(overlay, what, "prompt")
    overlay.port.text("!!")
    overlay.port.modifiers(Modifiers(ctrl=True))
    overlay.port.key("return", True)
    actions = frames(overlay, what, count=8)
    kinds = [type(action) for action in actions]
    assert kinds.count(act.StartRun) == 1
    assert kinds[-1] is act.StartRun
    assert isinstance(actions[-2], act.EditPrompt)
    assert actions[-2].text.count("!") == 2


def test_a_blank_prompt_cannot_be_started(overlay: Overlay) -> None:
    assert click(overlay, model(state=ViewState(prompt=PromptDraft(" \n"))), "start") == []
    assert click(overlay, model(), "start") == [act.StartRun()]


def test_a_recording_only_shows_its_settings(overlay: Overlay) -> None:
    replay = model(engine=EngineView(expected=False))
    for mark in ("mode", "k", "quality", "temperature", "start", "form"):
        assert click(overlay, replay, mark, across=0.9) == []
    assert click(overlay, replay, "camera", across=0.99) == [act.ChoosePreset(PRESETS[-1])]


def test_the_scrub_line_seeks(overlay: Overlay) -> None:
    actions = click(overlay, model(), "scrub", across=0.5)
    assert actions[0] == act.Seek(pytest.approx(LINE.duration / 2, rel=0.02))


def test_a_dead_engine_offers_a_restart(overlay: Overlay) -> None:
    dead = model(engine=EngineView(expected=True, fault="It was ended by signal 9."))
    assert click(overlay, dead, "restart") == [act.RestartEngine()]


def test_a_held_slider_says_so(overlay: Overlay) -> None:
    what = model()
    frames(overlay, what)
    rect = overlay.marks["quality"]
    overlay.port.mouse_at((rect.x + 30, rect.y + rect.height / 2))
    frames(overlay, what)
    overlay.port.mouse_button(LEFT, True)
    frames(overlay, what)
    assert overlay.holding
    overlay.port.focus(False)
    overlay.port.mouse_button(LEFT, False)
    frames(overlay, what)
    assert not overlay.holding


# --- time ----------------------------------------------------------------------------------


def test_ui_time_is_wall_time(overlay: Overlay) -> None:
    """Cases G01: imgui's clock runs as fast as ours."""
    started = imgui.get_time()
    for _ in range(60):
        overlay.frame(model(), (1280, 720), 1.0, 1 / 60)
    assert imgui.get_time() - started == pytest.approx(1.0, rel=0.01)


# --- words ---------------------------------------------------------------------------------


def test_what_is_not_known_is_a_dash() -> None:
    figures = [each.figure for each in readouts_of(model(hud=nothing_to_tell(), header=None))]
    assert figures == ["–"] * 6


def test_below_one_the_speedup_says_slower_and_why() -> None:
    slow = Stats.of(RUN.rounds, Baseline(0.001, 9))
    speedup = readouts_of(model(hud=told(stats=slow)))[2]
    assert speedup.figure.endswith("x slower")
    assert speedup.warns
    assert speedup.remark == slow.slowness


def test_above_one_it_does_not() -> None:
    fast = Stats.of(RUN.rounds, Baseline(0.5, 9))
    speedup = readouts_of(model(hud=told(stats=fast)))[2]
    assert "slower" not in speedup.figure
    assert not speedup.warns


def test_a_proven_run_says_so_and_one_that_differs_warns_and_tells_both_passes() -> None:
    fast, slow = (Stats.of(RUN.rounds, Baseline(each, 9)) for each in (0.5, 0.001))
    speedup = readouts_of(model(hud=told(stats=fast, proof=RunProof(200))))[2]
    assert speedup.remark == "lossless: 200 of 200 tokens equal the target alone"
    assert not speedup.warns
    speedup = readouts_of(model(hud=told(stats=slow, proof=RunProof(200))))[2]
    assert speedup.remark == f"{slow.slowness}; lossless: 200 of 200 tokens equal the target alone"
    near = (Scored(Token(1, "a"), 2.5), Scored(Token(2, "b"), 2.4999))
    differs = RunProof(200, 6, near[::-1], near)
    speedup = readouts_of(model(hud=told(stats=fast, proof=differs)))[2]
    assert speedup.warns
    assert speedup.remark == differs.words
    assert "alone it preferred “a” (2.5000) to “b” (2.4999)," in speedup.why


def test_the_target_alone_is_never_slower_than_itself() -> None:
    """Its rate differs from the baseline by the noise of measuring, and by nothing else."""
    alone = [each for each in RUN.rounds if not each.guesses]
    speedup = readouts_of(model(hud=told(stats=Stats.of(alone, Baseline(0.001, 9)))))[2]
    assert not speedup.warns
    assert "slower" not in speedup.figure


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (35.2, "slowed 35x"),
        (1.24, "slowed 1.2x"),
        (1.0, "real speed"),
        (0.5, "sped up 2.0x"),
        (0.0, ""),
    ],
)
def test_the_stretch_of_time_in_words(factor: float, words: str) -> None:
    assert slowdown(factor) == words


def test_fetching_tells_bytes_rate_and_time_left() -> None:
    state = EngineState("fetching", done=45_200_000, total=92_900_000, rate=3.1e6)
    assert progress_line(state) == "45.2 of 92.9 MB · 3.1 MB/s · 15 s left"
    assert progress_line(replace(state, rate=0.0)) == "45.2 of 92.9 MB"
    assert progress_line(EngineState("reading", done=256, total=900)) == "256 of 900 tokens"


# --- an empty stage ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "header", "says"),
    [
        (EngineView(expected=False), None, "Drop a run file"),
        (EngineView(expected=False), RUN.header, "holds no rounds"),
        (EngineView(expected=True), None, "as soon as the engine is ready"),
        (EngineView(expected=True, fault="It died."), None, "no engine"),
        (EngineView(expected=True, state=EngineState("failed")), None, "no engine"),
        (replace(READY, problem="Too long."), None, "did not come"),
    ],
)
def test_an_empty_stage_says_what_it_waits_for(
    overlay: Overlay, engine: EngineView, header: RunHeader | None, says: str
) -> None:
    what = model(hud=nothing_to_tell(), header=header, timeline=None, engine=engine)
    frames(overlay, what)
    assert says in "".join(piece.text for piece in idle(what))
    assert idle(model()) == ()


# --- by keyboard alone ---------------------------------------------------------------------


def press(overlay: Overlay, what: UiModel, *names: str) -> list[Action]:
    """Press and release keys, one after the other."""
    actions: list[Action] = []
    for name in names:
        overlay.port.key(name, True)
        actions += frames(overlay, what)
        overlay.port.key(name, False)
        actions += frames(overlay, what)
    return actions


def test_a_panel_with_the_keyboard_is_worked_by_arrows_and_enter(overlay: Overlay) -> None:
    what = model()
    frames(overlay, what)
    assert press(overlay, what, "down", "down", "return") == [], "the stage has the keyboard"
    given = replace(what, state=replace(what.state, panel="dock"))
    frames(overlay, given)
    assert overlay.port.wants_keys
    seen: list[Action] = []
    for _ in range(14):  # on a slider, an arrow moves its value
        seen += press(overlay, given, "down", "right")
    assert any(isinstance(each, act.ChangeSettings) for each in seen)
    bottom = replace(what, state=replace(what.state, panel="transport"))
    frames(overlay, bottom, count=4)
    assert press(overlay, bottom, *["right"] * 12, "return") == [act.ToggleHelp()]
    frames(overlay, what)
    assert not overlay.port.wants_keys
    assert press(overlay, what, "right", "return") == []


def test_the_palette_is_typed_into_at_once_and_worked_by_keys(overlay: Overlay) -> None:
    offers = commands(Settings())
    what = model(state=ViewState(palette=Palette()), offers=offers)
    frames(overlay, what, count=4)
    assert overlay.port.wants_text
    overlay.port.text("ab")
    assert act.Query("ab") in frames(overlay, what, count=3)
    assert act.Choose(1) in press(overlay, what, "down")
    chosen = replace(what, state=ViewState(palette=Palette(chosen=2)))
    assert press(overlay, chosen, "return")[-2:] == [act.ClosePalette(), offers[2].action]


def test_a_folder_chosen_in_the_palette_is_gone_on_with(overlay: Overlay) -> None:
    """The caret stands behind a path that was put in: typing goes on, and replaces nothing."""
    what = model(state=ViewState(palette=Palette("open", "/some/folder/")))
    frames(overlay, what, count=5)
    overlay.port.text("a")
    queries = [each for each in frames(overlay, what, count=3) if isinstance(each, act.Query)]
    assert queries[0] == act.Query("/some/folder/a")


def test_esc_and_a_click_beside_it_close_the_palette(overlay: Overlay) -> None:
    what = model(state=ViewState(palette=Palette()), offers=commands(Settings()))
    frames(overlay, what, count=4)
    assert act.ClosePalette() in press(overlay, what, "escape")
    assert act.ClosePalette() in click(overlay, what, "badge")
    assert overlay.port.wants_mouse(1.0, 1.0), "the stage gets no click meanwhile"


def test_esc_shuts_an_open_list(overlay: Overlay) -> None:
    what = model()
    click(overlay, what, "drafter")
    assert overlay.port.wants_escape
    press(overlay, what, "escape")
    frames(overlay, what)
    assert not overlay.port.wants_escape


def test_pointing_at_a_number_tells_what_it_is_made_of(
    overlay: Overlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr(widgets, "explanation", lambda _style, lines: told.append(lines))
    frames(overlay, model())
    for name in ("TOK/S", "ACCEPT", "SPEEDUP", "TOKENS/ROUND", "Draft step", "Target pass"):
        rect = overlay.marks[name]
        overlay.port.mouse_at((rect.x + 10, rect.y + rect.height / 2))
        told.clear()
        frames(overlay, model(), count=3)
        assert told, name
        assert "÷" in told[-1][0]
    bars = overlay.marks["histogram"]
    overlay.port.mouse_at((bars.x + 4, bars.y + bars.height / 2))
    told.clear()
    frames(overlay, model(), count=3)
    assert "accepted exactly 0" in told[-1][0]
