"""The drafter gallery and its table: what they say, what keys and clicks do, what is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from imgui_bundle import imgui
from show import PROMPTS, ScriptedSource, Stage, hand_run
from test_panels import click, frames, inside, model

from engine.comparison import ALONE, Compared, Comparison, Sample
from engine.families import SHOWN, about
from engine.prompts import CURATED, load
from engine.requests import Compare, StopComparing
from engine.trace import Baseline, EngineState, Settings
from visualizer import actions as act
from visualizer import gallery, keymap
from visualizer.actions import Action
from visualizer.gallery import Exhibit, GalleryView
from visualizer.ledger import Figures, Ledger, figures_of
from visualizer.state import PromptDraft, ViewState, left, reduce
from visualizer.ui import comparison as table
from visualizer.ui.gallery import told
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.overlay import Overlay

RUN = hand_run()
OFFERED = ("auto", "none", "copy-8", "small", "eagle", "n-gram")
OPEN = reduce(ViewState(prompt=PromptDraft("Why is the sky blue?")), act.OpenGallery())
TABLE = reduce(OPEN, act.OpenGallery("compare"))
Make = Callable[..., Stage]


def row(name: str, speedup: float | None, **figures: object) -> Compared:
    made = Compared(
        name, prompts=2, tokens=96, acceptance_rate=0.5, tokens_per_round=2.0, step_cost=0.05,
        check_cost=1.2, tokens_per_second=50.0, speedup=speedup, weight_bytes=1_000_000,
        cache_bytes=500_000, same_text=True,
    )  # fmt: skip
    return replace(made, **figures)  # type: ignore[arg-type]


TOLD = Comparison(
    "measuring", Settings(), 6, 48,
    (row(ALONE, 1.0, acceptance_rate=None), row("small", 1.4), row("eagle", 0.7),
     Compared("n-gram")),
    now="n-gram", place=4, prompt=1,
)  # fmt: skip


class Told:
    """What a view asks of the feed."""

    def __init__(self, live: bool = True, comparison: Comparison | None = None) -> None:
        self.has_engine = live
        self.offered = OFFERED if live else ()
        self.engine = EngineState("ready", drafters=OFFERED) if live else None
        self.fault: str | None = None
        self.trace = RUN
        self.measured: dict[str, Figures] = {}
        self.comparison = comparison
        self.comparison_problem = ""

    @property
    def comparing(self) -> bool:
        return self.comparison is not None and self.comparison.phase == "measuring"


def view_of(state: ViewState, feed: Told | None = None) -> GalleryView:
    made = gallery.view(state, feed or Told(), load(CURATED))  # type: ignore[arg-type]
    assert made is not None
    return made


def ui_of(state: ViewState, feed: Told | None = None) -> UiModel:
    return model(state=state, gallery=view_of(state, feed))


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    made = Overlay()
    yield made
    made.close()


def press(overlay: Overlay, what: UiModel, *keys: str) -> list[Action]:
    """Press and release keys, one after another, as the window would."""
    actions: list[Action] = []
    for key in keys:
        overlay.port.key(key, True)
        actions += frames(overlay, what)
        overlay.port.key(key, False)
        actions += frames(overlay, what)
    return actions


# --- the state -----------------------------------------------------------------------------


def test_it_opens_closes_and_is_left_like_other_modes() -> None:
    assert OPEN.gallery.open
    assert not left(OPEN).gallery.open
    assert not reduce(OPEN, act.ToggleGallery()).gallery.open
    assert not reduce(OPEN, act.OpenPalette()).gallery.open
    assert not reduce(OPEN, act.ToggleHelp()).gallery.open
    over = replace(ViewState(help_visible=True, selected=3), palette=None)
    opened = reduce(over, act.ToggleGallery())
    assert opened.gallery.open
    assert not opened.help_visible
    assert left(opened).selected == 3, "one mode at a time"


def test_it_opens_on_the_drafter_in_use_and_where_it_was_left() -> None:
    elsewhere = reduce(TABLE, act.ChooseCard("eagle"))
    again = reduce(reduce(elsewhere, act.ToggleGallery()), act.ToggleGallery())
    assert again.gallery.tab == "compare"
    assert again.gallery.chosen == ""


def test_ticks_are_kept_while_it_is_closed() -> None:
    state = reduce(OPEN, act.Tick(("eagle", "small"), False))
    assert state.gallery.left_out == {"eagle", "small"}
    state = reduce(reduce(state, act.ToggleGallery()), act.Tick(("eagle",), True))
    assert state.gallery.left_out == {"small"}


def test_g_opens_it_and_no_other_command_has_that_key() -> None:
    assert keymap.action_of("g") == act.ToggleGallery()
    assert [each.title for each in keymap.COMMANDS if "g" in each.keys] == ["Drafter gallery"]


# --- what hangs on the wall ----------------------------------------------------------------


def test_every_drafter_on_offer_has_a_card_and_auto_is_one_of_them() -> None:
    view = view_of(replace(OPEN, settings=Settings(drafter="small")))
    assert {each.name for each in view.exhibits} == {*OFFERED} - {"auto"}
    assert view.chosen.name == "small"
    assert [each.name for each in view.exhibits if each.in_use] == ["small"]


def test_auto_is_the_drafter_that_the_run_s_header_names() -> None:
    feed = Told()
    assert RUN.header is not None
    auto = replace(RUN.header, settings=Settings(drafter="auto"), drafter="eagle")
    feed.trace = replace(RUN, header=auto)
    assert view_of(replace(OPEN, settings=Settings(drafter="auto")), feed).chosen.name == "eagle"


def test_a_replay_shows_all_cards_and_offers_none() -> None:
    view = view_of(OPEN, Told(live=False))
    assert RUN.header is not None
    assert {each.name for each in view.exhibits} >= {*SHOWN}
    assert not any(each.offered for each in view.exhibits)
    assert view.chosen.name == RUN.header.drafter


def test_layer_skip_with_other_layers_can_be_put_to_work_again() -> None:
    feed = Told()
    feed.measured = {"layer-skip-7": Figures(), "eagle-late": Figures()}
    offered = {each.name: each.offered for each in view_of(OPEN, feed).exhibits}
    assert (offered["layer-skip-7"], offered["eagle-late"]) == (True, False)
    feed.offered = ()
    assert not any(each.offered for each in view_of(OPEN, feed).exhibits)


def test_a_drafter_of_a_later_program_is_a_stranger_and_no_fault() -> None:
    feed = Told()
    feed.offered = ("auto", "telepathy")
    (only, *_) = [each for each in view_of(OPEN, feed).exhibits if each.name == "telepathy"]
    assert only.about.vllm.line() is None
    assert only.about.blurb


def test_cards_are_read_as_they_ship(tmp_path: Path) -> None:
    known = gallery.cards()
    assert known["small"].tokens_per_round == pytest.approx(1.70, abs=0.3)
    assert known["retrieval"].visits is None
    for name, text in (("odd", "[1]"), ("cut", "{"), ("bare", "{}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "card.json").write_text(text)
    assert gallery.cards(tmp_path) == {"bare": gallery.Card()}


def test_cards_of_another_target_are_left_out() -> None:
    feed = Told()
    assert RUN.header is not None
    assert gallery.cards()["small"].target != RUN.header.target
    assert not any(each.card for each in view_of(OPEN, feed).exhibits)
    target = gallery.cards()["small"].target
    feed.trace = replace(RUN, header=replace(RUN.header, target=target))
    assert [each.name for each in view_of(OPEN, feed).exhibits if each.card] == ["small", "eagle"]


def test_whose_drafters_are_given_sees_their_cards(tmp_path: Path) -> None:
    assert RUN.header is not None
    (tmp_path / "eagle").mkdir()
    (tmp_path / "eagle" / "card.json").write_text(json.dumps({"target": RUN.header.target}))
    made = gallery.view(OPEN, Told(), load(CURATED), tmp_path)  # type: ignore[arg-type]
    assert made is not None
    assert [each.name for each in made.exhibits if each.card] == ["eagle"]


def test_the_face_of_a_card_tells_what_was_measured_first() -> None:
    told_of = about("eagle")
    assert told_of is not None
    card = gallery.Card(tokens_per_round=1.49)
    bare = Exhibit(told_of, True, False, None, None)
    assert told(bare) == "not used yet"
    assert told(replace(bare, card=card)) == "card: 1.49 a round"
    done = Figures(rounds=10, drafted=40, accepted=20)
    assert told(replace(bare, card=card, measured=done)) == "50% · 3.00 a round"


# --- what was measured ---------------------------------------------------------------------


def test_rounds_are_counted_by_drafter_and_only_at_full_quality() -> None:
    assert RUN.header is not None
    header = replace(RUN.header, baseline=Baseline(0.02, 9))
    first, second, *_ = RUN.rounds
    rounds = [
        replace(first, settings=replace(first.settings, drafter="eagle", quality=100.0)),
        replace(second, settings=replace(second.settings, drafter="small", quality=100.0)),
        replace(second, settings=replace(second.settings, drafter="small", quality=40.0)),
    ]
    found = figures_of(header, rounds)
    assert set(found) == {"eagle", "small"}
    assert found["small"].rounds == 1
    assert found["eagle"].drafted == len(first.guesses)
    assert found["eagle"].accepted == first.accepted
    assert found["eagle"].step_passes == pytest.approx(
        0.0 if first.cold else first.draft_seconds / 0.02
    )


def test_rounds_taken_back_never_count_and_a_run_counts_once() -> None:
    ledger = Ledger()
    whole, part = RUN, RUN[: len(RUN.rounds) - 2]
    for run in (part, whole, part, whole):
        ledger.note(run)
    once = Ledger()
    once.note(whole)
    assert ledger.total == once.total
    ledger.note(part)
    cut = Ledger()
    cut.note(part)
    assert ledger.total == cut.total


def test_runs_of_a_show_add_up() -> None:
    assert RUN.header is not None
    ledger = Ledger()
    ledger.note(RUN)
    one = ledger.total
    ledger.note(replace(RUN, header=replace(RUN.header, run_id="another")))
    assert {name: each.plus(each) for name, each in one.items()} == ledger.total


# --- what is asked for ---------------------------------------------------------------------


def test_a_comparison_is_asked_for_as_it_is_set() -> None:
    state = replace(TABLE, settings=Settings(drafter="eagle", k=0, temperature=0.7))
    state = reduce(state, act.Tick(("copy-8",), False))
    asked = gallery.request_of(state, load(CURATED), OFFERED)
    assert asked is not None
    assert asked.drafters == ("small", "eagle", "n-gram")
    assert asked.settings.k == Settings().k, "without guesses there is nothing to compare"
    assert asked.settings.temperature == 0.7
    families = {each.family for each in load(CURATED)}
    assert len(asked.samples) == len(families)


def test_one_s_own_prompt_is_written_several_times() -> None:
    state = reduce(TABLE, act.CompareOn(True))
    asked = gallery.request_of(state, load(CURATED), OFFERED)
    assert asked is not None
    assert asked.samples == (Sample("Why is the sky blue?", True),) * gallery.OWN_TURNS


def test_nothing_is_asked_for_without_drafters_or_a_prompt() -> None:
    none = reduce(TABLE, act.Tick(gallery.contenders(OFFERED), False))
    assert gallery.request_of(none, load(CURATED), OFFERED) is None
    blank = reduce(replace(TABLE, prompt=PromptDraft(" ", True, None)), act.CompareOn(True))
    assert gallery.request_of(blank, load(CURATED), OFFERED) is None


# --- the table -----------------------------------------------------------------------------


def test_rows_are_in_order_the_unmeasured_below_and_none_is_missing() -> None:
    rows = gallery.rows_of(TOLD, OFFERED)
    assert [each.drafter for each in rows] == ["small", ALONE, "eagle", "n-gram", "copy-8"]
    assert [each.drafter for each in gallery.rows_of(None, ())] == [ALONE]


def test_progress_is_said_in_words_and_as_a_share() -> None:
    assert gallery.progress(TOLD) == ("measuring n-gram, 4 of 4 · prompt 1 of 6", 3 / 24)
    last = replace(TOLD, prompt=6, place=1, now=ALONE)
    assert gallery.progress(last) == ("measuring the target alone, 1 of 4 · prompt 6 of 6", 20 / 24)


def test_tsv_and_json_hold_the_measured_rows() -> None:
    lines = gallery.as_tsv(gallery.rows_of(TOLD, OFFERED)).splitlines()
    assert lines[0].startswith("drafter\tspeedup\ttokens_per_second\t")
    assert [line.split("\t")[0] for line in lines[1:]] == ["small", ALONE, "eagle"]
    assert all(line.count("\t") == lines[0].count("\t") for line in lines)
    body = json.loads(gallery.as_json(TOLD, gallery.rows_of(TOLD, OFFERED), RUN.header))
    assert body["settings"]["k"] == 4
    assert [each["drafter"] for each in body["rows"]] == ["small", ALONE, "eagle"]
    assert RUN.header is not None
    assert body["target"] == RUN.header.target


def test_what_is_said_of_a_finished_comparison() -> None:
    def words(feed: Told, state: ViewState = TABLE) -> tuple[str, bool]:
        return table.standing(view_of(state, feed))

    done = replace(TOLD, phase="done", now="")
    assert words(Told(comparison=done)) == (
        "Measured, K 4 · T 0: small is fastest, 1.40x on 2 prompts.",
        False,
    )
    slow = replace(done, rows=(row(ALONE, 1.0), row("eagle", 0.7)), phase="stopped")
    assert words(Told(comparison=slow))[0].startswith(
        "Stopped, K 4 · T 0: no drafter is faster than the target alone"
    )
    dead = Told(comparison=TOLD)
    dead.fault = "The engine process was ended by SIGKILL."
    assert words(dead) == (dead.fault, True)
    starting = Told()
    starting.engine = EngineState("loading")
    assert words(starting) == ("The engine is getting ready.", False)
    assert "in turns" in words(Told())[0]


def test_speed_below_one_says_slower() -> None:
    assert table.speed(1.34) == "1.34x"
    assert table.speed(0.99) == "0.99x"
    assert table.speed(0.72) == "0.72x, slower"
    assert table.speed(None) == "–"


def test_a_text_that_is_not_the_target_s_own_is_told() -> None:
    assert table.proof([row(ALONE, 1.0), row("small", 1.4)]) == "All 1 wrote the target's own text."
    wrong = [row("small", 1.4), row("eagle", 0.7, same_text=False)]
    assert table.proof(wrong) == "Not the target's own text: eagle."
    assert table.proof([row("small", 1.4, same_text=None)]) == ""


def test_columns_are_given_up_where_there_is_no_room() -> None:
    assert table.shown(2000) == table.COLUMNS
    assert [each.heading for each in table.shown(100)] == ["tok/s"]


# --- panels --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(640, 480), (1000, 700), (1280, 720), (1920, 1080)])
@pytest.mark.parametrize("scale", [0.75, 1.0, 2.5])
@pytest.mark.parametrize("tab", ["cards", "compare"])
def test_it_lies_within_the_window_and_its_controls_within_it(
    overlay: Overlay, size: tuple[int, int], scale: float, tab: act.Tab
) -> None:
    state = replace(reduce(OPEN, act.OpenGallery(tab)), ui_scale=scale)
    frames(overlay, ui_of(state, Told(comparison=TOLD)), size, 3)
    marks = overlay.marks
    assert inside(marks["gallery"], Rect(0, 0, *size))
    named = ["tabs", "close-gallery", "badge"]
    named += ["use"] if tab == "cards" else ["compare-on", "stop-comparing", "copy-tsv"]
    for name in named:
        assert inside(marks[name], marks["gallery"]), f"{name} at {size}, {scale}"
    assert not marks["badge"].overlaps(marks["tabs"])


@pytest.mark.parametrize("theme", ["dark", "light", "classic", "high-contrast"])
def test_every_theme_lays_out(overlay: Overlay, theme: str) -> None:
    for state in (OPEN, TABLE):
        frames(overlay, ui_of(replace(state, theme=theme), Told(comparison=TOLD)), count=3)
        assert "gallery" in overlay.marks


def test_a_click_looks_and_the_button_uses(overlay: Overlay) -> None:
    what = ui_of(replace(OPEN, settings=Settings(drafter="small", k=3)))
    assert {*click(overlay, what, "card-eagle")} == {act.ChooseCard("eagle")}
    looked = reduce(what.state, act.ChooseCard("eagle"))
    used = click(overlay, ui_of(looked), "use")
    assert used == [
        act.ChangeSettings(Settings(drafter="eagle", k=3)), act.ToggleGallery(),
    ]  # fmt: skip
    assert click(overlay, what, "use") == [], "it is in use already"


def test_choosing_a_drafter_leaves_target_only_behind(overlay: Overlay) -> None:
    alone = Settings(drafter="small", speculative=False)
    state = reduce(replace(OPEN, settings=alone), act.ChooseCard("eagle"))
    assert click(overlay, ui_of(state), "use")[0] == act.ChangeSettings(Settings(drafter="eagle"))


def test_a_replay_has_cards_to_read_and_nothing_to_use(overlay: Overlay) -> None:
    what = ui_of(OPEN, Told(live=False))
    assert {*click(overlay, what, "card-pard")} == {act.ChooseCard("pard")}
    assert "use" not in overlay.marks
    frames(overlay, ui_of(TABLE, Told(live=False)), count=3)
    assert "nothing-live" in overlay.marks
    assert "compare" not in overlay.marks


def test_it_is_walked_with_the_arrows_and_enter_uses(overlay: Overlay) -> None:
    state = replace(OPEN, settings=Settings(drafter="none"))
    frames(overlay, ui_of(state), count=4)
    names = [each.name for each in view_of(state).exhibits]
    actions = press(overlay, ui_of(state), "right")
    assert actions[-1:] == [act.ChooseCard(names[1])]
    state = reduce(state, act.ChooseCard(names[1]))
    frames(overlay, ui_of(state))
    assert press(overlay, ui_of(state), "return")[:2] == [
        act.ChangeSettings(Settings(drafter=names[1])),
        act.ToggleGallery(),
    ]


def test_the_key_that_opens_it_closes_it_but_not_at_once(overlay: Overlay) -> None:
    frames(overlay, model())
    overlay.port.key("g", True)
    assert frames(overlay, ui_of(OPEN), count=3) == []
    overlay.port.key("g", False)
    frames(overlay, ui_of(OPEN))
    assert act.ToggleGallery() in press(overlay, ui_of(OPEN), "g")


def test_a_click_beside_it_closes_it_and_one_in_it_does_not(overlay: Overlay) -> None:
    what = ui_of(OPEN)
    frames(overlay, what, count=3)
    overlay.port.mouse_at((5.0, 5.0))
    frames(overlay, what)
    overlay.port.mouse_button(0, True)
    assert frames(overlay, what)[:1] == [act.ToggleGallery()]
    overlay.port.mouse_button(0, False)
    frames(overlay, what)
    assert act.ToggleGallery() not in click(overlay, what, "card-eagle")
    assert click(overlay, what, "close-gallery")[-1] == act.ToggleGallery()


def test_keys_of_the_stage_are_not_for_the_stage_while_it_is_open(overlay: Overlay) -> None:
    frames(overlay, ui_of(OPEN))
    assert overlay.port.wants_keys
    assert overlay.port.wants_mouse(3.0, 3.0)
    frames(overlay, model())
    assert not overlay.port.wants_keys
    assert not imgui.get_io().want_text_input


def test_the_line_for_vllm_is_copied_with_the_present_k(overlay: Overlay) -> None:
    state = reduce(replace(OPEN, settings=Settings(k=6)), act.ChooseCard("n-gram"))
    (copied,) = click(overlay, ui_of(state), "copy-vllm")
    assert isinstance(copied, act.CopyText)
    assert json.loads(copied.text) == {
        "method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 5,
        "num_speculative_tokens": 6,
    }  # fmt: skip
    frames(overlay, ui_of(reduce(state, act.ChooseCard("none"))))
    assert "copy-vllm" not in overlay.marks


def test_the_table_s_buttons(overlay: Overlay) -> None:
    what = ui_of(TABLE)
    assert click(overlay, what, "compare") == [act.StartComparing()]
    assert click(overlay, what, "compare-on", 0.9) == [act.CompareOn(True)]
    assert click(overlay, what, "row-eagle") == [act.Tick(("eagle",), False)]
    assert click(overlay, what, f"row-{ALONE}") == [], "the target alone is always measured"
    assert click(overlay, what, "tick-all") == [act.Tick(gallery.contenders(OFFERED), False)]
    going = ui_of(TABLE, Told(comparison=TOLD))
    assert click(overlay, going, "stop-comparing") == [act.StopComparing()]
    assert click(overlay, going, "row-eagle") == [], "not in the middle of it"
    (copied,) = click(overlay, going, "copy-tsv")
    assert isinstance(copied, act.CopyText)
    assert copied.text.startswith("drafter\tspeedup")


def test_without_an_engine_that_is_ready_nothing_is_started(overlay: Overlay) -> None:
    starting = Told()
    starting.engine = EngineState("loading")
    assert click(overlay, ui_of(TABLE, starting), "compare") == []


# --- the show ------------------------------------------------------------------------------


def live(stage_of: Make) -> Stage:
    source = ScriptedSource()
    stage = stage_of(source, size=(640, 480))
    source.say(EngineState("ready", drafters=OFFERED))
    stage.step()
    source.say(RUN.header, *RUN.rounds[:4])
    stage.step()
    return stage


def test_a_comparison_is_asked_for_shown_stopped_and_survives_a_dead_engine(
    stage_of: Make,
) -> None:
    stage = live(stage_of)
    stage.app.handle(act.OpenGallery("compare"))
    stage.app.handle(act.StartComparing())
    asked = [each for each in stage.source.requests if isinstance(each, Compare)]
    assert [each.drafters for each in asked] == [gallery.contenders(OFFERED)]
    assert [each.prompt for each in asked[0].samples] == [PROMPTS[0].text], "one of each family"
    stage.source.say(TOLD)
    stage.step()
    view = stage.app.model().gallery
    assert view is not None
    assert view.going
    assert view.rows[0].drafter == "small"
    stage.source.say(Comparison("refused", Settings(), 1, 48, detail="Another one is going on."))
    stage.step()
    view = stage.app.model().gallery
    assert view is not None
    assert view.going, "a refusal leaves the table alone"
    assert view.problem == "Another one is going on."
    stage.app.handle(act.StopComparing())
    assert StopComparing() in stage.source.requests
    stage.source.fault = "The engine process was ended by SIGKILL."
    stage.step()
    view = stage.app.model().gallery
    assert view is not None
    assert not view.going
    assert view.rows[0].measured, "what was measured stays"
    stage.app.handle(act.RestartEngine())
    stage.source.say(EngineState("ready", drafters=OFFERED))
    stage.step()
    view = stage.app.model().gallery
    assert view is not None
    assert not view.going
    assert view.ready


def test_the_run_on_stage_is_none_the_wiser(stage_of: Make) -> None:
    stage = live(stage_of)
    before = stage.app.timeline
    stage.source.say(TOLD, replace(TOLD, phase="done", now=""))
    stage.step()
    assert stage.app.timeline is before
    assert stage.app.model().badge == "LIVE"


def test_what_live_runs_measured_is_on_the_cards_and_what_a_recording_did_is_not(
    stage_of: Make,
) -> None:
    assert RUN.header is not None
    source = ScriptedSource()
    stage = stage_of(source, opening=RUN)
    source.say(EngineState("ready", drafters=OFFERED))
    stage.step()
    stage.app.handle(act.OpenGallery())
    view = stage.app.model().gallery
    assert view is not None
    assert not any(each.measured for each in view.exhibits)
    source.say(replace(RUN.header, run_id="live"), *RUN.rounds[:4])
    stage.step()
    view = stage.app.model().gallery
    assert view is not None
    assert sum(each.measured.rounds for each in view.exhibits if each.measured) > 0


def test_pictures_without_panels_have_no_gallery(stage_of: Make) -> None:
    stage = live(stage_of)
    stage.app.handle(act.OpenGallery())
    stage.step()
    assert "gallery" in stage.overlay.marks
    stage.app.draw(panels=False)
    assert set(stage.overlay.marks) == {"badge"}
    assert stage.app.state.gallery.open


def test_the_dock_has_a_button_for_it(overlay: Overlay) -> None:
    assert click(overlay, model(), "open-gallery") == [act.ToggleGallery()]


def test_the_palette_offers_it(stage_of: Make) -> None:
    stage = live(stage_of)
    stage.app.handle(act.OpenPalette())
    stage.app.handle(act.Query("gallery"))
    assert stage.app.model().offers[0].action == act.ToggleGallery()
    stage.app.handle(act.Query("compare the drafters"))
    assert stage.app.model().offers[0].action == act.OpenGallery("compare")
