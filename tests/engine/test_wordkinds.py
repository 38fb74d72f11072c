"""Tokens are sorted by the word they are part of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wordkinds import KINDS, kinds


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["The", " cat", " is", " on", " fire"], "glue content glue glue content"),
        (["un", "believ", "able", " of"], "content content content glue"),
        ([" It", "’s", " don", "'t"], "glue glue glue glue"),
        ([" In", " 19", "84", ",", " 3", ".", "5", "%", " 2", "nd"],
         "glue number number punctuation number number number punctuation number number"),
        ([".", "\n\n", " -", "!", "  "], "punctuation " * 5),
        (["Run", " `", "x", "`", " now"], "content code code code content"),
        (["```", "py", "\n", "the", " = 1", "\n```", " the"], "code code code code code code glue"),
        (["```", "def", " open"], "code code code"),
        ([" well", "-", "known", ".", " The"], "content content content punctuation glue"),
        ([" THE", " B2B"], "glue content"),
        (["日本", "\udce6", " été"], "content punctuation content"),
        ([], ""),
    ],
)  # fmt: skip
def test_kinds(tokens: list[str], expected: str) -> None:
    assert kinds(tokens) == tuple(expected.split())


def test_how_a_text_is_cut_into_tokens_changes_no_word() -> None:
    words = [" understanding", " of", " 1,024", " things"]
    pieces = [" under", "standing", " of", " 1", ",", "024", " th", "ings"]
    whole = dict(zip(words, kinds(words), strict=True))
    cut = kinds(pieces)
    assert cut[0] == cut[1] == whole[" understanding"]
    assert set(cut[3:6]) == {"number"} == {whole[" 1,024"]}


@given(st.lists(st.text(max_size=6), max_size=12))
def test_every_token_of_any_text_has_a_kind(tokens: list[str]) -> None:
    found = kinds(tokens)
    assert len(found) == len(tokens)
    assert set(found) <= set(KINDS)
