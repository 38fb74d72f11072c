"""The sentence along the bottom: what is written bright, what is only guessed in role colours.

Colour is not the only carrier: accepted guesses are underlined, rejected and discarded ones
struck through. Painted by acceptance, committed words keep the colour of where they came from:
guesses a thin line, corrections a thick one, bonus tokens a dotted one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from imgui_bundle import imgui

from engine.trace import Round, Token, join_text
from visualizer.stage.hud import Hud
from visualizer.stage.layout import closing_role
from visualizer.stage.timeline import Timeline
from visualizer.ui import widgets
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE, FontSize, Rgba, mixed

TEXT_SIZE = 21.0
LEADING = 1.18
TAIL = 900
"""Characters of painted text that are laid out: more than the bar can show at any size."""

BLOCK = 300
"""Characters of the text whose lines are broken once and then remembered."""

ACCEPTED = "accepted"  # a guess that passed and is not committed yet
DRAFTED = "drafted"  # committed, and somebody else's guess
_MARKS = {
    ACCEPTED: 0.98, "rejected": 0.55, "discarded": 0.55, DRAFTED: 0.98, "correction": 0.98,
    "bonus": 0.98,
}  # fmt: skip
"""Line at this part of the height."""
_THICK = {"correction": 3.0}

Stretch = tuple[str, str]
"""Text, and the role whose colour it has."""


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of one line, `x` units from its left."""

    text: str
    role: str
    x: float


def told(model: UiModel) -> tuple[object, ...]:
    """All that the panel tells (see `stills`)."""
    hud, painted = model.hud, model.state.painted
    words = (hud.prompt, hud.committed, hud.pending)
    return (*words, painted, *((model.timeline, hud.shown) if painted else ()))


def draw(ui: Ui, rect: Rect, model: UiModel) -> None:
    unit = ui.style.unit
    tall = min(TEXT_SIZE, (rect.height / unit - 8) / (2.05 * LEADING))  # so that two lines fit
    with widgets.panel("text", rect), widgets.font(ui.style, tall):
        pad = 18 * unit
        step = imgui.get_text_line_height() * LEADING
        rows = max(int((rect.height - 8 * unit) // step), 1)
        painted = model.state.painted and model.timeline is not None
        room = rect.width - 2 * pad - (_legend(ui, rect, model) if painted else 0.0)
        size = (tall * unit, ui.style.size[1])
        if painted:
            lines = _painted_lines(tuple(painted_sentence(model)), room, rows, size)
        else:
            lines = _lines(tuple(sentence(model.hud)), room, rows, size)
        y = rect.y + (rect.height - step * rows) / 2
        for line in lines:
            for run in line:
                _draw_run(ui, run, rect.x + pad + run.x, y)
            y += step


# What is laid out changes with a verdict, not with a frame. `size` stands for the font that it is
# measured with.


@lru_cache(maxsize=4)
def _lines(
    stretches: tuple[Stretch, ...], room: float, rows: int, size: FontSize
) -> list[list[Run]]:
    """The last `rows` lines of the sentence. Lines that are written never break anew."""
    first = next((i for i, (_, role) in enumerate(stretches) if role == "committed"), None)
    if first is None:
        return _broken(stretches, room, rows, ())
    text, rest = stretches[first][0], stretches[first + 1 :]
    cut = settled(text, len(text) // BLOCK)
    before = _settled(stretches[:first], text[:cut], room, rows, size)
    return _broken(((text[cut:], "committed"), *rest), room, rows, before)


@lru_cache(maxsize=4)
def _painted_lines(
    stretches: tuple[Stretch, ...], room: float, rows: int, size: FontSize
) -> list[list[Run]]:
    return _broken(tail(stretches, TAIL), room, rows, ())


@lru_cache(maxsize=512)
def _settled(
    before: tuple[Stretch, ...], text: str, room: float, rows: int, size: FontSize
) -> list[list[Run]]:
    """The last lines of a text that only grows, found from those of its earlier blocks."""
    if not text:
        return _broken(before, room, rows, ())
    cut = settled(text, (len(text) - 1) // BLOCK)
    earlier = _settled(before, text[:cut], room, rows, size)
    return _broken(((text[cut:], "committed"),), room, rows, earlier)


def settled(text: str, blocks: int) -> int:
    """Where the first `blocks` blocks of `text` end: before a gap, if there is one near."""
    end = blocks * BLOCK
    near = text[end - BLOCK // 2 : end]
    return end - len(near) + len(near[: near.rfind(" ")].rstrip(" ")) if " " in near else end


def _broken(
    stretches: Iterable[Stretch], room: float, rows: int, before: Sequence[list[Run]]
) -> list[list[Run]]:
    known = ((widgets.legible(text), role) for text, role in stretches)
    return [merged(line) for line in flow(known, room, _measure, before)[-rows:]]


def sentence(hud: Hud, committed: Sequence[Stretch] | None = None) -> list[Stretch]:
    """Prompt, committed text (as told, unless it is given) and the guesses on the table."""
    plain: list[Stretch] = [(piece.text, piece.role) for piece in hud.committed]
    written = plain if committed is None else list(committed)
    written += [
        (piece.text, ACCEPTED if piece.role == "committed" else piece.role) for piece in hud.pending
    ]
    if not hud.prompt.strip():
        return written
    gap = "" if written and written[0][0].startswith((" ", "\n")) else " "
    return [(hud.prompt.rstrip() + gap, "prompt"), *written]


def painted_sentence(model: UiModel) -> list[Stretch]:
    """The sentence with the committed words in the colours of where they came from."""
    line, hud = model.timeline, model.hud
    text = "".join(piece.text for piece in hud.committed)
    return sentence(hud, _painted(line, hud.shown, text) if line is not None else ())


@lru_cache(maxsize=4)
def _painted(timeline: Timeline, shown: int, text: str) -> tuple[Stretch, ...]:
    return tuple(painted(timeline.rounds[:shown], text, TAIL))


def painted(rounds: Sequence[Round], text: str, characters: int) -> list[Stretch]:
    """The last `characters` of what `rounds` wrote, by where it came from.

    `text` is what they wrote together: a token that is no part of it (the end of the text) is
    left out. Bytes of one character that come from two sources go with the first.
    """
    tokens: list[tuple[Token, str]] = []
    left = characters
    for each in reversed(rounds):
        if left <= 0:
            break
        origins = [DRAFTED] * each.accepted + [closing_role(each)] * (each.emitted is not None)
        pairs = list(zip(each.committed, origins, strict=True))
        left -= sum(len(token.text) for token, _ in pairs)
        tokens = pairs + tokens
    if not text.endswith(join_text(token for token, _ in tokens)[-8:]):
        tokens.pop()
    groups: list[tuple[list[Token], str]] = []
    for token, role in tokens:
        goes_on = "\udc80" <= token.text[:1] <= "\udcbf"
        if groups and (goes_on or groups[-1][1] == role):
            groups[-1][0].append(token)
        else:
            groups.append(([token], role))
    return [(join_text(group), role) for group, role in groups]


@lru_cache(maxsize=4)
def _origins(timeline: Timeline, shown: int) -> tuple[int, int, int]:
    """How many committed tokens were guesses, corrections, bonus tokens."""
    rounds = timeline.rounds[:shown]
    roles = [closing_role(each) for each in rounds if each.emitted is not None]
    drafted = sum(each.accepted for each in rounds)
    return drafted, roles.count("correction"), roles.count("bonus")


def _legend(ui: Ui, rect: Rect, model: UiModel) -> float:
    """What the colours mean and how many tokens have each, at the right; returns its width."""
    assert model.timeline is not None
    unit = ui.style.unit
    counts = _origins(model.timeline, model.hud.shown)
    rows = tuple(
        (f"{count} {words}", role)
        for count, words, role in zip(
            counts,
            ("drafted", "corrected ◆", "bonus ★"),
            (DRAFTED, "correction", "bonus"),
            strict=True,
        )
    )
    with widgets.font(ui.style, SMALL_SIZE):
        wide = max(_measure(words) for words, _ in rows) + 24 * unit
        step = min(imgui.get_text_line_height() * 1.2, rect.height / len(rows))
        y = rect.y + (rect.height - step * len(rows)) / 2
        for words, role in rows:
            _draw_run(ui, Run(words, role, 0.0), rect.right - wide + 10 * unit, y)
            y += step
    return wide


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
    stretches: Iterable[Stretch],
    width: float,
    measure: Callable[[str], float],
    before: Sequence[list[Run]] = (),
) -> list[list[Run]]:
    """Break text into lines of at most `width`, between words where that is possible.

    A word may span stretches (tokens are parts of words): it moves to the next line whole.
    The text goes on where the lines `before` it end; they are the first of those returned.
    """
    lines: list[list[Run]] = [*before[:-1], list(before[-1])] if before else [[]]
    x = lines[-1][-1].x + measure(lines[-1][-1].text) if lines[-1] else 0.0
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


def merged(line: Sequence[Run]) -> list[Run]:
    """The line with neighbours of one role as one run, drawn at one go; marked words stay apart."""
    joined: list[Run] = []
    for run in line:
        if joined and joined[-1].role == run.role and run.role not in _MARKS:
            last = joined.pop()
            run = Run(last.text + run.text, run.role, last.x)
        joined.append(run)
    return joined


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
        if run.role == "bonus":
            _dotted(start, end, at, color, ui.style.unit)
        else:
            canvas.add_line(*ends, color, _THICK.get(run.role, 1.6) * ui.style.unit)


def _dotted(start: float, end: float, y: float, color: int, unit: float) -> None:
    canvas, x = imgui.get_window_draw_list(), start + unit
    while x < end:
        canvas.add_circle_filled(imgui.ImVec2(x, y), 1.3 * unit, color)
        x += 4.5 * unit


def _color(ui: Ui, role: str) -> Rgba:
    palette = ui.style.palette
    if role == ACCEPTED:
        return mixed(ui.style.role("committed"), palette.text, 0.35)
    if role == DRAFTED:
        return ui.style.ink("guess")
    return {"committed": palette.text, "prompt": palette.dim}.get(role) or ui.style.ink(role)
