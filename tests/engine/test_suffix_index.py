"""The suffix index answers exactly what a plain scan of the text answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafters.suffix_index import DEPTH, SEPARATOR, SuffixIndex


def scan(
    text: Sequence[int], context: Sequence[int], max_len: int, min_len: int
) -> tuple[int, dict[int, int]]:
    """The definition: try suffixes longest first, count what followed each occurrence."""
    for length in range(min(max_len, len(context)), min_len - 1, -1):
        suffix = list(context[-length:])
        if SEPARATOR in suffix:
            continue
        counts = Counter(
            text[at + length]
            for at in range(len(text) - length)
            if list(text[at : at + length]) == suffix and text[at + length] != SEPARATOR
        )
        if counts:
            return length, dict(counts)
    return 0, {}


def ask(
    index: SuffixIndex, context: Sequence[int], max_len: int = DEPTH, min_len: int = 2
) -> tuple[int, dict[int, int]]:
    length, (ids, counts) = index.continuations(context, max_len, min_len)
    assert ids.tolist() == sorted(set(ids.tolist()))
    return length, dict(zip(ids.tolist(), counts.tolist(), strict=True))


tokens = st.sampled_from([0, 1, 2, 49151, SEPARATOR])


@given(
    st.lists(tokens, max_size=80),
    st.lists(tokens, max_size=10),
    st.integers(1, DEPTH),
    st.integers(1, DEPTH),
)
def test_equals_a_scan_of_the_text(
    text: list[int], context: list[int], max_len: int, min_len: int
) -> None:
    expected = scan(text, context, max_len, min_len)
    assert ask(SuffixIndex(text), context, max_len, min_len) == expected


def test_equals_a_scan_on_a_longer_text() -> None:
    source = np.random.default_rng(1)
    text = source.integers(0, 12, 4000).tolist()
    text[1000] = text[2500] = SEPARATOR
    index = SuffixIndex(text)
    for _ in range(60):
        context = source.integers(0, 12, 8).tolist()
        assert ask(index, context) == scan(text, context, DEPTH, 2)


def test_the_longest_match_wins_over_more_frequent_shorter_ones() -> None:
    index = SuffixIndex([1, 2, 3, 9, SEPARATOR, 2, 3, 8, 2, 3, 8, 2, 3, 8])
    assert ask(index, [5, 1, 2, 3]) == (3, {9: 1})
    assert ask(index, [5, 2, 3]) == (2, {8: 3, 9: 1})


def test_nothing_is_found_across_two_texts() -> None:
    index = SuffixIndex([4, 5, SEPARATOR, 6, 7])
    assert ask(index, [4, 5]) == (0, {})
    assert ask(index, [5, 6]) == (0, {})


def test_an_empty_text_and_an_empty_context_match_nothing() -> None:
    assert ask(SuffixIndex([]), [1, 2]) == (0, {})
    assert ask(SuffixIndex([1, 2, 3]), []) == (0, {})


def test_ids_beyond_sixteen_bits_are_refused_in_the_text_and_unmatched_in_the_context() -> None:
    with pytest.raises(ValueError, match="65535"):
        SuffixIndex([1, 70_000])
    assert ask(SuffixIndex([1, 2, 3]), [70_000, 70_001]) == (0, {})
