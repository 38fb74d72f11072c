"""What is remembered: it comes back as it was, and no file of any kind stands in the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visualizer.preferences import VARIABLE, Preferences, Store, default_path, parse, text_of

ODD = Preferences(
    theme="light",
    ui_scale=1.75,
    quality="low",
    reduce_motion=True,
    speed=0.25,
    preset="top",
    painted=True,
    shot_size=(3000, 2000),
    shot_alpha=True,
    folder="/a folder/日本",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "new" / "preferences.json")


def test_they_come_back_as_they_were(store: Store) -> None:
    assert store.read() == Preferences()
    store.write(ODD)
    assert Store(store.path).read() == ODD
    assert store.notice == ""
    assert [each.name for each in store.path.parent.iterdir()] == ["preferences.json"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "\x00\xff", "null", '{"format": "verifybox-run", "version": 1}', "[" * 100_000],
)
def test_another_file_means_the_defaults_and_one_sentence(store: Store, text: str) -> None:
    store.path.parent.mkdir()
    store.path.write_text(text, encoding="utf-8")
    assert store.read() == Preferences()
    assert store.notice.endswith("the defaults are used.")
    assert "\n" not in store.notice


def test_a_newer_version_is_left_alone_by_name(store: Store) -> None:
    store.path.parent.mkdir()
    store.path.write_text(text_of(ODD).replace('"version": 1', '"version": 2'), encoding="utf-8")
    assert store.read() == Preferences()
    assert "version 2" in store.notice


def test_bytes_that_are_no_text_are_no_crash(store: Store) -> None:
    store.path.parent.mkdir()
    store.path.write_bytes(b"\xff\xfe\x00\x01")
    assert store.read() == Preferences()
    assert store.notice


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(list(Preferences.__slots__)), JSON))
def test_a_value_that_makes_no_sense_costs_only_itself(wrong: dict[str, object]) -> None:
    body = {**json.loads(text_of(ODD)), **wrong}
    kept = parse(json.dumps(body))
    assert parse(text_of(kept)) == kept
    for name in Preferences.__slots__:
        if name not in wrong:
            assert getattr(kept, name) == getattr(ODD, name)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "preferences.json")
    store.write(ODD)
    assert "not saved" in store.notice


def test_the_variable_moves_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert default_path() == tmp_path / "preferences.json"
