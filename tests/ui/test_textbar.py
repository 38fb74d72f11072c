"""The sentence breaks between words, loses nothing, and shows its end."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st
from show import hand_run

from engine.trace import Token, join_text
from visualizer.ui.textbar import (
    BLOCK,
    DRAFTED,
    Run,
    Stretch,
    flow,
    merged,
    painted,
    settled,
    tail,
)

RUN = hand_run()

ROLES = st.sampled_from(["committed", "guess", "rejected"])
STRETCHES = st.lists(st.tuples(st.text(alphabet="ab 日👍", max_size=12), ROLES), max_size=15)


def lines_of(stretches: list[Stretch], width: float) -> list[str]:
    return ["".join(run.text for run in line) for line in flow(stretches, width, len)]


@given(STRETCHES, st.integers(1, 30))
def test_every_line_fits_and_no_letter_is_lost(stretches: list[Stretch], width: int) -> None:
    lines = lines_of(stretches, width)
    assert all(len(line) <= width for line in lines)
    whole = "".join(text for text, _ in stretches)
    assert "".join(lines).replace(" ", "") == whole.replace(" ", "")


def test_a_word_of_several_tokens_moves_whole() -> None:
    stretches = [("The mole", "committed"), ("cules", "guess"), (" move", "guess")]
    assert lines_of(stretches, 10) == ["The", "molecules", "move"]


def test_runs_keep_their_role_and_place() -> None:
    (line,) = flow([("one", "committed"), (" two", "guess")], 20, len)
    assert [(run.text, run.role, run.x) for run in line] == [
        ("one", "committed", 0),
        (" two", "guess", 3),
    ]


def test_line_breaks_become_visible() -> None:
    assert lines_of([("a\nb", "committed")], 20) == ["a↵ b"]


@given(STRETCHES, st.integers(0, 40))
def test_the_tail_is_the_end_of_the_text(stretches: list[Stretch], length: int) -> None:
    whole = "".join(text for text, _ in stretches)
    kept = "".join(text for text, _ in tail(stretches, length))
    assert kept == (whole[-length:] if length else "")


# --- painted by acceptance -----------------------------------------------------------------


def test_painted_text_is_the_text_and_every_token_has_its_origin() -> None:
    for count in range(len(RUN.rounds) + 1):
        rounds = RUN.rounds[:count]
        text = RUN[:count].text
        stretches = painted(rounds, text, 10_000)
        assert "".join(part for part, _ in stretches) == text
        drafted = sum(len(part) for part, role in stretches if role == DRAFTED)
        kept = [g.token.text for each in rounds for g in each.guesses[: each.accepted]]
        assert drafted <= len("".join(kept))


def test_only_the_end_of_a_long_text_is_painted() -> None:
    many = RUN.rounds[:2] * 500
    stretches = painted(many, join_text([t for each in many for t in each.committed]), 200)
    assert 200 <= sum(len(part) for part, _ in stretches) < 300


def test_bytes_of_one_character_stay_whole_across_origins() -> None:
    """The first byte was guessed, the rest is the target's correction: one 日."""
    first, *rest = (chr(0xDC00 + byte) for byte in "日".encode())
    each = RUN.rounds[0]
    guess = replace(each.guesses[0], token=Token(1, f" {first}"), verdict="accepted")
    emitted = replace(each.emitted, token=Token(2, "".join(rest)))  # type: ignore[type-var]
    broken = replace(each, guesses=(guess,), emitted=emitted)
    assert painted([broken], " 日", 100) == [(" 日", DRAFTED)]


# --- remembered lines ----------------------------------------------------------------------


@given(
    st.lists(st.sampled_from(["a", " an", " the", "\n", " 日本", "  "]), max_size=700),
    st.integers(4, 60),
)
def test_lines_found_block_by_block_are_those_of_the_whole_text(
    parts: list[str], width: int
) -> None:
    """What is written is broken once; blocks cut anywhere but at a gap would show here."""
    text, end = "".join(parts), [("ok", "accepted"), (" and", "guess")]
    cuts = [settled(text, block) for block in range(1, len(text) // BLOCK + 1)]
    assume(all(text[cut - 1] != " " == text[cut] for cut in cuts))
    lines: list[list[Run]] = []
    for start, cut in pairwise([0, *cuts]):
        lines = flow([(text[start:cut], "committed")], width, len, lines)
    last = text[cuts[-1] if cuts else 0 :]
    lines = flow([(last, "committed"), *end], width, len, lines)
    assert joined(lines) == joined(flow([(text, "committed"), *end], width, len))


def test_a_block_cut_in_the_middle_of_a_word_breaks_it_elsewhere() -> None:
    words = [("The molecules", "committed")]
    cut = flow([("cules", "committed")], 10, len, flow([("The mole", "committed")], 10, len))
    assert joined(cut) != joined(flow(words, 10, len))


def test_a_merged_line_is_the_same_line() -> None:
    (line,) = flow([("one two", "committed"), (" three four", DRAFTED)], 40, len)
    runs = merged(line)
    assert [(run.text, run.x) for run in runs] == [("one two", 0), (" three", 7), (" four", 13)]


def joined(lines: list[list[Run]]) -> list[str]:
    return ["".join(run.text for run in line).rstrip() for line in lines]
