"""The curated prompts are whole, and what is no prompt file is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import prompts
from engine.codec import CodecError


def test_there_are_enough_curated_prompts_and_each_says_what_it_shows() -> None:
    curated = prompts.load(prompts.CURATED)
    assert 8 <= len(curated) <= 12
    assert len({prompt.title for prompt in curated}) == len(curated)
    for prompt in curated:
        assert prompt.text.strip()
        assert len(prompt.shows) > 20
        assert len(prompt.reply) > 20
        assert 16 <= prompt.max_new_tokens <= 200


def test_both_kinds_of_prompt_are_there() -> None:
    assert {prompt.chat for prompt in prompts.load(prompts.CURATED)} == {True, False}


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "not JSON"), ("{}", "a list"), ("[1]", "a list"), ('[{"title": "x"}]', "Prompt")],
)
def test_what_is_no_prompt_file_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "prompts.json"
    path.write_text(text)
    with pytest.raises(CodecError, match=words):
        prompts.load(path)
