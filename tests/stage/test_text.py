"""Every token shows something readable, and it fits."""

import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.stage import text


@pytest.fixture(autouse=True, scope="module")
def _nothing_borrowed() -> None:
    text.borrow(None)


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("sky", "sky"),
        (" sky", "sky"),
        ("  sky", "␣␣sky"),
        (" ", "␣"),
        ("   ", "␣␣␣"),
        ("\n", "↵"),
        (".\n\n", ".↵↵"),
        ("\t", "⇥"),
        ("a b", "a b"),
        ("end ", "end␣"),
        ("<|im_end|>", "<|im_end|>"),
        (b"\xe2".decode("utf-8", "surrogateescape"), "⟨E2⟩"),
        (b" \xf0\x9f".decode("utf-8", "surrogateescape"), "⟨F0 9F⟩"),
        ("中", "⟨U+4E2D⟩"),
        (" 中文!", "⟨U+4E2D U+6587⟩!"),
        ("🚀", "⟨U+1F680⟩"),
        ("\x1b", "⟨1B⟩"),
        ("naïve Žižek αβγ Привет → ≤ ½ €", "naïve Žižek αβγ Привет → ≤ ½ €"),
        ("", "∅"),
    ],
)
def test_visible_forms(token: str, shown: str) -> None:
    assert text.visible(token) == shown


@given(st.text(max_size=20))
def test_whatever_the_text_something_is_drawn(token: str) -> None:
    shown = text.visible(token)
    assert shown
    assert text.measure(shown) > 0
    assert all(char in text.metrics().rows for char in shown)
    assert len(text.quads(shown)) == sum(char != " " for char in shown)


@given(st.text(max_size=60), st.floats(0.7, 6.0))
def test_a_fitted_label_never_overflows(token: str, room: float) -> None:
    label = text.fit(text.visible(token), 0.6, room)
    assert label.width <= room * 1.001
    assert 0.6 * 0.6 <= label.em <= 0.6
    assert label.text


def test_long_texts_shrink_before_they_are_elided() -> None:
    room = text.measure("incomprehensible") * 0.6 * 0.8
    shrunk = text.fit("incomprehensible", 0.6, room)
    assert shrunk.text == "incomprehensible"
    assert shrunk.em < 0.6
    elided = text.fit("incomprehensible" * 3, 0.6, room)
    assert elided.text.endswith("…")
    assert elided.text.startswith("incompre")


def test_the_atlas_covers_what_tokens_are_made_of() -> None:
    known = set(text.metrics().rows)
    printable = set(string.printable) - set(string.whitespace)
    assert printable <= known
    assert set("äöüßéèçñøåÆœŁžğ") <= known
    assert set("ΑΒΓΔαβγδωЖЯбюї") <= known
    assert set("␣↵⇥⟨⟩…–—“”‘’•·★◆→←×≈≤≥∞√∑∫€£¥©®°½") <= known


def test_glyphs_stand_on_the_base_line_in_order() -> None:
    laid = text.quads("Hi")
    rows = text.rows(
        laid, np.zeros(3), np.array((2.0, 0.0, 0.0)), np.array((0.0, 2.0, 0.0)), np.ones(4)
    )
    assert rows["origin"][0, 0] < rows["origin"][1, 0]
    assert (rows["up"][:, 1] > 0).all()
    height = rows["origin"][0, 1] + rows["up"][0, 1]
    rim = 8 / 48 * 2.0  # the field reaches past the outline
    assert height == pytest.approx(2.0 * text.metrics().cap_height + rim, abs=0.06)
    assert (rows["uv"][:, 2:] > rows["uv"][:, :2]).all()
    assert (rows["uv"] >= 0).all()
    assert (rows["uv"] <= 1).all()


def test_remembered_quads_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        text.quads("Hi")[0, 0] = 1.0
