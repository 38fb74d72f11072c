"""What kind of token a token is: glue word, content word, number, punctuation or code.

Some words of a text are easier to guess than others, and this says which are which. A token
takes the kind of the word it is part of, found in the whole text: the pieces of a long word are
of one kind. What stands between backticks is code. Made for English: in other languages a
number is a number, but every word is a content word.

Standard library only; knows texts, no tokens' ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal, get_args

Kind = Literal["glue", "content", "number", "punctuation", "code"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_GLUE = """
    a an the this that these those each every either neither some any no all both few many much
    more most other another such same own
    i me my mine myself we us our ours you your yours he him his she her hers it its they them
    their theirs who whom whose which what itself himself herself themselves yourself one
    and or but nor so yet if then than because while although though unless until since whether
    as of at by for with about against between into through during before after above below to
    from up down in out on off over under within without across along among around behind beyond
    near per upon via toward towards
    is am are was were be been being have has had having do does did doing will would shall
    should can could may might must not n't isn't aren't wasn't weren't don't doesn't didn't
    can't couldn't won't wouldn't it's that's there's i'm you're we're they're i've you've
    there here when where why how also just only very too again further once
"""
GLUE = frozenset(_GLUE.split())
"""Words that hold a sentence together and say little by themselves."""

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_WORD = re.compile(r"[^\W_]+(?:['’\-_.,][^\W_]+)*")
_NUMBER = re.compile(r"[\d.,:%\-]*\d[\d.,:%\-]*(?:st|nd|rd|th)?", re.IGNORECASE)


def kinds(tokens: Sequence[str]) -> tuple[Kind, ...]:
    """The kind of each of the `tokens` that a text is made of, by their texts, in order.

    A token of white space alone, or of a sign, is punctuation; one that begins with white space
    is what follows it.
    """
    text = "".join(tokens)
    spans = list(_spans(text))
    ends = list(accumulate(map(len, tokens)))
    found: list[Kind] = []
    at = 0
    for token, end in zip(tokens, ends, strict=True):
        first = end - len(token.lstrip()) if token.strip() else end - len(token)
        while at < len(spans) and spans[at][1] <= first:
            at += 1
        inside = at < len(spans) and spans[at][0] <= first
        found.append(spans[at][2] if inside else "punctuation")
    return tuple(found)


def _spans(text: str) -> Iterator[tuple[int, int, Kind]]:
    """Start, end and kind of every stretch of code and every word outside, in order."""
    at = 0
    for code in _CODE.finditer(text):
        yield from _words(text, at, code.start())
        yield code.start(), code.end(), "code"
        at = code.end()
    yield from _words(text, at, len(text))


def _words(text: str, start: int, end: int) -> Iterator[tuple[int, int, Kind]]:
    for word in _WORD.finditer(text, start, end):
        yield word.start(), word.end(), _kind(word[0].replace("’", "'"))


def _kind(word: str) -> Kind:
    if _NUMBER.fullmatch(word):
        return "number"
    return "glue" if word.lower() in GLUE else "content"
