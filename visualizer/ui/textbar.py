"""The sentence along the bottom: what is written bright, what is only guessed in role colours.

Colour is not the only carrier: accepted guesses are underlined, rejected and discarded ones
struck through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from imgui_bundle import imgui

from visualizer.stage.hud import Hud
from visualizer.ui import widgets
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import Rgba, mixed

TEXT_SIZE = 21.0
TAIL = 900
"""Characters laid out per frame: more than the bar can show at any size."""

ACCEPTED = "accepted"  # a guess that passed and is not committed yet
_MARKS = {ACCEPTED: 0.98, "rejected": 0.55, "discarded": 0.55}  # line at this part of the height

Stretch = tuple[str, str]
"""Text, and the role whose colour it has."""


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of one line, `x` units from its left."""

    text: str
    role: str
    x: float


def draw(ui: Ui, rect: Rect, model: UiModel) -> None:
    unit = ui.style.unit
    with widgets.panel("text", rect), widgets.font(ui.style, TEXT_SIZE):
        pad = 18 * unit
        step = imgui.get_text_line_height() * 1.18
        rows = max(int((rect.height - 8 * unit) // step), 1)
        known = [(widgets.legible(text), role) for text, role in tail(sentence(model.hud), TAIL)]
        lines = flow(known, rect.width - 2 * pad, _measure)[-rows:]
        y = rect.y + (rect.height - step * rows) / 2
        for line in lines:
            for run in line:
                _draw_run(ui, run, rect.x + pad + run.x, y)
            y += step


def sentence(hud: Hud) -> list[Stretch]:
    """Prompt, committed text and the guesses on the table, in order."""
    written: list[Stretch] = [(piece.text, piece.role) for piece in hud.committed]
    written += [
        (piece.text, ACCEPTED if piece.role == "committed" else piece.role) for piece in hud.pending
    ]
    if not hud.prompt.strip():
        return written
    gap = "" if written and written[0][0].startswith((" ", "\n")) else " "
    return [(hud.prompt.rstrip() + gap, "prompt"), *written]


def tail(stretches: Iterable[Stretch], characters: int) -> list[Stretch]:
    """The last `characters` of the text, or all of a shorter one."""
    kept: list[Stretch] = []
    left = characters
    for text, role in reversed(tuple(stretches)):
        if left <= 0:
            break
        kept.append((text[-left:], role))
        left -= len(text)
    return kept[::-1]


def flow(
    stretches: Iterable[Stretch], width: float, measure: Callable[[str], float]
) -> list[list[Run]]:
    """Break text into lines of at most `width`, between words where that is possible.

    A word may span stretches (tokens are parts of words): it moves to the next line whole.
    """
    lines: list[list[Run]] = [[]]
    x = 0.0
    for word in _words(stretches):
        if x > 0 and x + sum(measure(text) for text, _ in word) > width:
            lines.append([])
            x = 0.0
        for index, (text, role) in enumerate(word):
            shown = text.lstrip(" ") if index == 0 and x == 0.0 else text
            for part in _parts(shown, width, measure):
                size = measure(part)
                if x > 0 and x + size > width:
                    lines.append([])
                    x = 0.0
                lines[-1].append(Run(part, role, x))
                x += size
    return lines


def _words(stretches: Iterable[Stretch]) -> list[list[Stretch]]:
    """Words with the space before them, each as its parts by role. Line ends show as ↵."""
    words: list[list[Stretch]] = []
    for text, role in stretches:
        for part in _cut(text.replace("\n", "↵ ")):
            if words and not part.startswith(" ") and not words[-1][-1][0].endswith(" "):
                words[-1].append((part, role))
            else:
                words.append([(part, role)])
    return words


def _cut(text: str) -> Iterator[str]:
    """`text` cut before every run of spaces."""
    start = 0
    for index in range(1, len(text)):
        if text[index] == " " and text[index - 1] != " ":
            yield text[start:index]
            start = index
    if text:
        yield text[start:]


def _parts(text: str, width: float, measure: Callable[[str], float]) -> list[str]:
    """`text` cut so that every part fits a line; a single letter always does."""
    parts = [text] if text else []
    while parts and measure(parts[-1]) > width and len(parts[-1]) > 1:
        rest = parts.pop()
        cut = max((n for n in range(1, len(rest)) if measure(rest[:n]) <= width), default=1)
        parts += [rest[:cut], rest[cut:]]
    return parts


def _measure(words: str) -> float:
    return float(imgui.calc_text_size(words).x)


def _draw_run(ui: Ui, run: Run, x: float, y: float) -> None:
    canvas = imgui.get_window_draw_list()
    color = widgets.u32(_color(ui, run.role))
    canvas.add_text(imgui.ImVec2(x, y), color, run.text)
    if run.role in _MARKS and run.text.strip():
        start = x + _measure(run.text[: len(run.text) - len(run.text.lstrip())])
        end = x + _measure(run.text.rstrip())
        at = y + imgui.get_text_line_height() * _MARKS[run.role]
        ends = imgui.ImVec2(start, at), imgui.ImVec2(end, at)
        canvas.add_line(*ends, color, 1.6 * ui.style.unit)


def _color(ui: Ui, role: str) -> Rgba:
    palette = ui.style.palette
    if role == ACCEPTED:
        return mixed(ui.style.role("committed"), palette.text, 0.35)
    return {"committed": palette.text, "prompt": palette.dim}.get(role) or ui.style.ink(role)
