"""The sentence breaks between words, loses nothing, and shows its end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from visualizer.stage.hud import Piece
from visualizer.ui.textbar import flow, tail

ROLES = st.sampled_from(["committed", "guess", "rejected"])
PIECES = st.lists(st.builds(Piece, st.text(alphabet="ab 日👍", max_size=12), ROLES), max_size=15)


def lines_of(pieces: list[Piece], width: float) -> list[str]:
    return ["".join(run.text for run in line) for line in flow(pieces, width, len)]


@given(PIECES, st.integers(1, 30))
def test_every_line_fits_and_no_letter_is_lost(pieces: list[Piece], width: int) -> None:
    lines = lines_of(pieces, width)
    assert all(len(line) <= width for line in lines)
    whole = "".join(piece.text for piece in pieces)
    assert "".join(lines).replace(" ", "") == whole.replace(" ", "")


def test_a_word_of_several_tokens_moves_whole() -> None:
    pieces = [Piece("The mole", "committed"), Piece("cules", "guess"), Piece(" move", "guess")]
    assert lines_of(pieces, 10) == ["The", "molecules", "move"]


def test_runs_keep_their_role_and_place() -> None:
    (line,) = flow([Piece("one", "committed"), Piece(" two", "guess")], 20, len)
    assert [(run.text, run.role, run.x) for run in line] == [
        ("one", "committed", 0),
        (" two", "guess", 3),
    ]


def test_line_breaks_become_visible() -> None:
    assert lines_of([Piece("a\nb", "committed")], 20) == ["a↵ b"]


def test_tail_keeps_the_end() -> None:
    pieces = [Piece("x" * 50, "committed"), Piece("yyyy", "guess")]
    kept = tail(pieces, 10)
    assert "".join(piece.text for piece in kept) == "x" * 6 + "yyyy"
