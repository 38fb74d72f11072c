"""The palette finds everything one can do, and run files, by a few letters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from show import PROMPTS

from engine.trace import Settings
from visualizer import actions as act
from visualizer.keymap import ALWAYS, COMMANDS, action_of, keys_of, spoken
from visualizer.palette import closeness, commands, copy_of, matching, run_files, typed_size
from visualizer.stage.theme import THEMES

EVERYTHING = commands(Settings(), PROMPTS, ("auto", "copy-8"))


# --- the table of keys ---------------------------------------------------------------------


def test_no_key_means_two_things() -> None:
    keys = [key for each in COMMANDS for key in each.keys]
    assert len(keys) == len(set(keys))
    titles = [each.title for each in COMMANDS]
    assert len(titles) == len(set(titles))


def test_keys_that_work_while_typing_write_nothing() -> None:
    for key in ALWAYS:
        assert len(key) > 1
        assert action_of(key.removeprefix("ctrl+"), ctrl=key.startswith("ctrl+")) is not None


def test_keys_are_told_as_people_know_them() -> None:
    assert keys_of(act.OpenPalette()) == "Ctrl+K, /"
    assert keys_of(act.NextBeat()) == "→, PgDn"
    assert keys_of(act.RestartEngine()) == ""
    assert spoken("shift+p") == "Shift+P"


def test_a_size_of_screenshots_can_be_typed() -> None:
    for typed in ("2000x3000", "screenshot 2000 x 3000", "shot size: 2000×3000"):
        (entry,) = typed_size(typed)
        assert entry.action == act.ChooseShotSize((2000, 3000))
    for typed in ("", "2000", "9x9", "1920x1080", "20000x10", "k 4"):
        assert typed_size(typed) == (), "not a size, offered anyway, or more than can be had"


# --- finding -------------------------------------------------------------------------------


def test_every_action_of_the_table_is_found_by_its_title() -> None:
    for command in COMMANDS:
        found = matching(command.title, EVERYTHING)
        assert command.action in [each.action for each in found[:3]], command.title


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("thl", "Theme: light"),
        ("full", "Full screen"),
        ("ps 150", "Panel size 150%"),
        ("sp 2x", "Speed 2x"),
        ("k 6", "K: 6 guesses"),
        ("k auto", "K: auto, as many guesses as pay"),
        ("copy-8", "Drafter: copy-8"),
        ("second", "Prompt: Second"),
        ("target", "Target only"),
        ("PLAY", "Play or pause"),
        ("rst cam", "Reset the camera"),
    ],
)
def test_a_few_letters_find_it(typed: str, title: str) -> None:
    assert matching(typed, EVERYTHING)[0].title == title


def test_a_k_chosen_by_hand_ends_auto() -> None:
    everything = commands(Settings(auto_k=True), PROMPTS, ("auto",))
    (first, *_) = matching("K: 6 guesses", everything)
    assert first.action == act.ChangeSettings(Settings(k=6, auto_k=False))
    (first, *_) = matching("k auto", commands(Settings(), PROMPTS, ("auto",)))
    assert first.action == act.ChangeSettings(Settings(auto_k=True))


def test_nothing_typed_is_everything_in_order() -> None:
    assert matching("", EVERYTHING) == EVERYTHING[:200]
    assert matching("zzz", EVERYTHING) == ()


def test_letters_count_only_in_their_order() -> None:
    assert closeness("abc", "a big cat") is not None
    assert closeness("cba", "a big cat") is None


def test_a_k_chosen_by_number_is_no_longer_automatic() -> None:
    found = matching("k 6", commands(Settings(auto_k=True), (), ("auto",)))
    assert found[0].action == act.ChangeSettings(Settings(k=6))


def test_without_an_engine_nothing_asks_for_one() -> None:
    alone = commands(Settings())
    assert not any(isinstance(e.action, (act.ChangeSettings, act.ChoosePrompt)) for e in alone)
    assert {e.action.name for e in alone if isinstance(e.action, act.ChooseTheme)} == set(THEMES)


# --- files ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    for age, name in enumerate(("old.jsonl", "new.jsonl", "deep/odd.jsonl", "notes.txt")):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    return tmp_path


def test_run_files_come_newest_first_and_nothing_else(folder: Path) -> None:
    found = run_files("", [folder, folder, folder / "missing"])
    assert [each.action for each in found] == [
        act.OpenRun(folder / "new.jsonl"),
        act.OpenRun(folder / "old.jsonl"),
    ]
    assert [each.title for each in run_files("old", [folder])] == ["old.jsonl"]


def test_a_typed_path_leads_through_folders(folder: Path) -> None:
    (deeper,) = run_files(f"{folder}{os.sep}de", [])
    assert isinstance(deeper.action, act.Query)
    (found,) = run_files(deeper.action.text, [])
    assert found.action == act.OpenRun(folder / "deep" / "odd.jsonl")


def test_a_path_to_nothing_can_still_be_tried(folder: Path) -> None:
    (only,) = run_files(f"{folder}/nowhere.jsonl", [])
    assert only.action == act.OpenRun(folder / "nowhere.jsonl")


def test_a_copy_needs_a_name_and_gets_its_ending(tmp_path: Path) -> None:
    assert copy_of("") == copy_of(f"{tmp_path}/") == copy_of(str(tmp_path)) == ()
    (entry,) = copy_of(f"{tmp_path}/mine")
    assert entry.action == act.SaveRun(tmp_path / "mine.jsonl")
