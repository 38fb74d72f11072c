"""The sentence breaks between words, loses nothing, and shows its end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from visualizer.ui.textbar import Stretch, flow, tail

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
