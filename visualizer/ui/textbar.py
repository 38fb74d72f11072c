"""The sentence along the bottom: what is written bright, what is only guessed in role colours.

Colour is not the only carrier: accepted guesses are underlined, rejected and discarded ones
struck through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from imgui_bundle import imgui

from visualizer.stage.hud import Piece
from visualizer.ui import widgets
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import Rgba, mixed

TEXT_SIZE = 21.0
TAIL = 900
"""Characters laid out per frame: more than the bar can show at any size."""


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of one line in one role, `x` units from the left."""

    text: str
    role: str
    x: float


def draw(ui: Ui, rect: Rect, model: UiModel) -> None:
    hud, unit = model.hud, ui.style.unit
    written = (*hud.committed, *map(_judged, hud.pending))
    gap = "" if written and written[0].text.startswith((" ", "\n")) else " "
    prompt = (Piece(hud.prompt.rstrip() + gap, "prompt"),) if hud.prompt else ()
    pieces = tail((*prompt, *written), TAIL)
    with widgets.panel("text", rect), widgets.font(ui.style, TEXT_SIZE):
        pad = 18 * unit
        step = imgui.get_text_line_height() * 1.18
        rows = max(int((rect.height - 8 * unit) // step), 1)
        lines = flow(pieces, rect.width - 2 * pad, _measure)[-rows:]
        y = rect.y + (rect.height - step * rows) / 2
        for line in lines:
            for run in line:
                _run(ui, run, rect.x + pad + run.x, y)
            y += step


def _measure(words: str) -> float:
    return float(imgui.calc_text_size(words).x)


def _run(ui: Ui, run: Run, x: float, y: float) -> None:
    canvas = imgui.get_window_draw_list()
    color = widgets.u32(_color(ui, run.role))
    canvas.add_text(imgui.ImVec2(x, y), color, run.text)
    height = imgui.get_text_line_height()
    mark = {"accepted": 0.98, "rejected": 0.55, "discarded": 0.55}.get(run.role)
    if mark is not None and run.text.strip():
        start = x + _measure(run.text[: len(run.text) - len(run.text.lstrip())])
        end = x + _measure(run.text.rstrip())
        at = y + height * mark
        canvas.add_line(
            imgui.ImVec2(start, at), imgui.ImVec2(end, at), color, 1.6 * ui.style.unit
        )  # fmt: skip


def _judged(piece: Piece) -> Piece:
    """A guess on the table; an accepted one is marked although not committed yet."""
    return Piece(piece.text, "accepted") if piece.role == "committed" else piece


def _color(ui: Ui, role: str) -> Rgba:
    if role == "committed":
        return ui.style.palette.text
    if role == "prompt":
        return ui.style.palette.dim
    if role == "accepted":
        return mixed(ui.style.role("committed"), ui.style.palette.text, 0.35)
    return ui.style.role(role)


def tail(pieces: Iterable[Piece], characters: int) -> tuple[Piece, ...]:
    """The last pieces, together at least `characters` long if there is that much."""
    kept: list[Piece] = []
    left = characters
    for piece in reversed(tuple(pieces)):
        if left <= 0:
            break
        kept.append(Piece(piece.text[-left:], piece.role) if len(piece.text) > left else piece)
        left -= len(piece.text)
    return tuple(reversed(kept))


def flow(pieces: Iterable[Piece], width: float, measure: Callable[[str], float]) -> list[list[Run]]:
    """Break pieces into lines of at most `width`, between words where that is possible.

    A word may span pieces (tokens are parts of words): it moves to the next line whole.
    Line breaks in the text become a visible ↵.
    """
    lines: list[list[Run]] = [[]]
    x = 0.0
    for word in _words(pieces):
        length = sum(measure(text) for text, _ in word)
        if x > 0 and x + length > width:
            lines.append([])
            x = 0.0
        for index, (text, role) in enumerate(word):
            if index == 0 and x == 0.0:
                text = text.lstrip(" ")
            for part in _parts(text, width, measure):
                size = measure(part)
                if x > 0 and x + size > width:
                    lines.append([])
                    x = 0.0
                lines[-1].append(Run(part, role, x))
                x += size
    return lines if lines[-1] or len(lines) == 1 else lines[:-1]


def _words(pieces: Iterable[Piece]) -> list[list[tuple[str, str]]]:
    """Words with the space before them, each as its parts by role."""
    words: list[list[tuple[str, str]]] = []
    for piece in pieces:
        text = piece.text.replace("\n", "↵ ")
        start = 0
        for index in range(1, len(text) + 1):
            at_end = index == len(text)
            if at_end or (text[index] == " " and text[index - 1] != " "):
                part = text[start:index]
                if words and not part.startswith(" ") and not _ends_word(words[-1]):
                    words[-1].append((part, piece.role))
                else:
                    words.append([(part, piece.role)])
                start = index
    return words


def _ends_word(word: list[tuple[str, str]]) -> bool:
    return word[-1][0].endswith(" ")


def _parts(text: str, width: float, measure: Callable[[str], float]) -> list[str]:
    """Cut a part longer than a line into pieces that fit."""
    parts = [text]
    while measure(parts[-1]) > width and len(parts[-1]) > 1:
        rest = parts.pop()
        cut = max((n for n in range(1, len(rest)) if measure(rest[:n]) <= width), default=1)
        parts += [rest[:cut], rest[cut:]]
    return parts
