"""Where every token of a run lies: lines of slots on the ground.

The text runs along +X in lines; each new line is nearer to the viewer. A line breaks where a
round starts, so all guesses of a round and the token that ends it stand side by side; only a
round that is longer than a whole line goes on in the next one. Placing a round looks at what
came before it and never at what comes after.

Guesses that branch stand in columns, one for each depth, and in lanes that rise from the line
like the steps of a stand, so that no word hides another. A tree with many branches at the text
itself is parted: younger ones stand right of the elder ones. What survives ends on the line,
where a chain of the same tokens would lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from engine.trace import Round, RunHeader, Token
from visualizer.stage import tree
from visualizer.stage.text import Label, fit, visible

EM = 0.66  # size of block labels, world units
HEIGHT = 1.0
DEPTH = 0.84
EMBLEM = 0.42  # room for the shape beside a label
PAD = 0.19  # from a label to the side of its block
WIDEST = 4.6
NARROWEST = 0.66
WORD_GAP = 0.32  # before a token that starts with a space
JOIN_GAP = 0.07  # before one that continues a word
MARGIN = 0.25  # of the box around a round's guesses; it may touch no earlier block
APART = MARGIN + 0.05  # room for that box before the first of them
LINE = 12.6  # what would reach past this starts a new line
PITCH = 2.95  # from line to line: a box around one hides no word of the one behind

RISE, BACK = 0.88, 0.94  # from lane to lane of a tree, up and away from the viewer
BRANCH = 0.50  # room for branches before each column of a tree
PARTED = 0.40  # and so much more between parts of a tree that stand side by side
LANES = 5  # a taller tree is parted

PROMPT_EM = 0.44
PROMPT_HEIGHT = 0.6
PROMPT_BACK = 0.5
PROMPT_LINES = 2  # at most; what does not fit folds into one block
FOLD = 2.6  # room kept for that block


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for one token: its label, the line it stands on, and its extent along X.

    `emblem` is room kept to the right of the label for the shape that tells where the token
    came from. In a tree `lane` is the step above the line on which it stands.
    """

    label: Label
    left: float
    width: float
    emblem: float = 0.0
    line: int = 0
    lane: int = 0

    @property
    def z(self) -> float:
        return self.line * PITCH - self.lane * BACK

    @property
    def y(self) -> float:
        """Height of its foot above the ground."""
        return self.lane * RISE

    @property
    def center(self) -> float:
        return self.left + self.width / 2

    @property
    def right(self) -> float:
        return self.left + self.width


@dataclass(frozen=True, eq=False)
class Place:
    """Where one round lies: slots of its guesses, and of the token that ends it.

    It starts on `line` and reaches to `last_line`. `before` is where the second-last committed
    token of the line starts (the place itself where there is none): two words of context. Of the
    `guesses`, as they stand while they are judged, those of `path` stay, and end in the slots
    `settled`; `role` is the colour of what ended the round ("target" where nothing was guessed:
    the target's own word, neither correction nor bonus). `root` is where the text ends before it
    and `cursor` where the next token would start, on `cursor_line`. Compared by identity, so that
    what is drawn of a round can be remembered per place; what follows from the slots is worked out
    once, since every picture of a round asks for it.
    """

    index: int
    path: tuple[int, ...]
    role: Literal["correction", "bonus", "target"]
    line: int
    guesses: tuple[Slot, ...]
    settled: tuple[Slot, ...]
    emitted: Slot | None
    left: float
    root: float
    cursor: float
    cursor_line: int
    before: float

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Every slot of the round, those of guesses first."""
        return (*self.guesses, *self.kept)

    @cached_property
    def lanes(self) -> int:
        """How many lanes its guesses take: more than one where they branch."""
        return 1 + max((slot.lane for slot in self.guesses), default=0)

    @cached_property
    def far(self) -> float:
        """Where along Z the furthest line or lane of its guesses stands."""
        return self.line * PITCH - (self.lanes - 1) * BACK

    @cached_property
    def near(self) -> float:
        """Where along Z the nearest line of its guesses stands."""
        return max((slot.line for slot in self.guesses), default=self.line) * PITCH

    @cached_property
    def top(self) -> float:
        """How high its guesses reach."""
        return HEIGHT + (self.lanes - 1) * RISE

    @cached_property
    def last_line(self) -> int:
        return max((slot.line for slot in self.slots), default=self.line)

    @cached_property
    def kept(self) -> tuple[Slot, ...]:
        """Slots of the tokens that the round adds to the text."""
        return (*self.settled, self.emitted) if self.emitted else self.settled

    @cached_property
    def reach(self) -> float:
        """How far right anything of the round ever is: guesses, a bonus, the parked drafter."""
        return self.right + 1.35

    @cached_property
    def right(self) -> float:
        return max((slot.right for slot in self.slots), default=self.left)


@dataclass(frozen=True, slots=True, eq=False)
class PromptPlace:
    """Where the prompt lies: one tuple of slots per line, and where the reply starts.

    `back` is how much further back it lies than its lines, where the reply does not continue
    its last one: low blocks would vanish behind the reply. Tokens ``words[0]:words[1]`` have slots
    of their own, after one for a template's; the last slot may stand for several.
    """

    lines: tuple[tuple[Slot, ...], ...]
    line: int
    cursor: float
    back: float = 0.0
    words: tuple[int, int] = (0, 0)

    def slot_of(self, position: int) -> Slot | None:
        """The slot that shows the prompt's token at `position`."""
        first, last = self.words
        own = position - first + (first > 0) if first <= position < last else 0
        slot = None
        for line in self.lines:
            if own < len(line):
                return line[own]
            own -= len(line)
            slot = line[-1] if line else slot
        return slot

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(slot for line in self.lines for slot in line)


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """A run laid out: its prompt and one place per round."""

    header: RunHeader | None
    prompt: PromptPlace
    places: tuple[Place, ...] = ()

    def extended(self, kept: int, rounds: Iterable[Round]) -> Page:
        """Keep the first `kept` places and lay out `rounds` after them."""
        places = list(self.places[:kept])
        for each in rounds:
            line, cursor = self.prompt.line, self.prompt.cursor
            words = list(self.prompt.lines[-1]) if cursor > 0.0 else []
            for last in places[-2:]:
                words += last.kept
                line, cursor = last.cursor_line, last.cursor
            here = [slot.left for slot in words if slot.line == line]
            places.append(_place(each, line, cursor, tuple(here[-2:])))
        return replace(self, places=tuple(places))


def _cell(text: str, em: float) -> tuple[Label, float, float]:
    """Label, block width, and gap before the block, for a token's text."""
    label = fit(visible(text), em, WIDEST - 2 * PAD)
    gap = JOIN_GAP if text[:1].strip() and not text.startswith("<|") else WORD_GAP
    return label, max(label.width + 2 * PAD, NARROWEST), gap


class _Pen:
    """Sets slots one after another; past the end of a line it goes on in the next one."""

    def __init__(self, line: int, cursor: float, em: float = EM) -> None:
        self.line, self.cursor, self._em = line, cursor, em

    def slot(self, text: str, emblem: float = 0.0, apart: float = 0.0, end: float = LINE) -> Slot:
        """A slot after a gap (at least `apart`), or without one at a line's start."""
        label, width, gap = _cell(text, self._em)
        left = self.cursor + max(gap, apart) if self.cursor > 0.0 else 0.0
        if left > 0.0 and left + width + emblem > end:
            self.line, left = self.line + 1, 0.0
        self.cursor = left + width + emblem
        return Slot(label, left, width + emblem, emblem, self.line)


def _place(each: Round, line: int, cursor: float, words: tuple[float, ...]) -> Place:
    """Lay out a round from `cursor` on; `words` is where the last words before it start."""
    path = each.path
    if tree.branched(each):
        guesses = _grown(each, line, cursor)
        settled = _row([each.guesses[slot].token for slot in path], line, cursor)
    else:
        guesses = _row([guess.token for guess in each.guesses], line, cursor)
        settled = guesses[: len(path)]
    pen = _Pen(settled[-1].line, settled[-1].right) if settled else _Pen(line, cursor)
    emitted = None
    if each.emitted:
        first = bool(guesses) and not settled
        emitted = pen.slot(
            each.emitted.token.text, EMBLEM if guesses else 0.0, APART if first else 0.0
        )
    slots = [*guesses, *settled, *((emitted,) if emitted else ())]
    over = any(slot.line > line or slot.right > LINE for slot in slots)
    if cursor > 0.0 and over:
        return _place(each, line + 1, 0.0, ())
    left = min((slot.left for slot in slots if slot.line == line), default=cursor)
    return Place(
        index=each.index,
        path=path,
        role=closing_role(each),
        line=line,
        guesses=guesses,
        settled=settled,
        emitted=emitted,
        left=left,
        root=cursor,
        cursor=pen.cursor,
        cursor_line=pen.line,
        before=words[0] if words else left,
    )


def _row(tokens: Sequence[Token], line: int, cursor: float) -> tuple[Slot, ...]:
    """Slots of tokens that follow each other, with room for the box before the first of them."""
    pen = _Pen(line, cursor)
    return tuple(
        pen.slot(token.text, apart=0.0 if index else APART) for index, token in enumerate(tokens)
    )


def _grown(each: Round, line: int, cursor: float) -> tuple[Slot, ...]:
    """Slots of guesses that branch: a column for each depth, as wide as its widest word."""
    cells = [_cell(guess.token.text, EM) for guess in each.guesses]
    parents, deep = each.parents, tree.depths(each.parents)
    found: dict[int, Slot] = {}
    for part in tree.stands(parents, LANES):
        right = cursor + PARTED * bool(found)
        lanes = dict(zip(part, tree.part_lanes(parents, part), strict=True))
        for depth in range(max(deep[slot] for slot in part) + 1):
            left = right + BRANCH
            for slot in (slot for slot in part if deep[slot] == depth):
                label, width, _ = cells[slot]
                found[slot] = Slot(label, left, width, line=line, lane=lanes[slot])
                right = max(right, found[slot].right)
        cursor = right
    return tuple(found[slot] for slot in range(len(cells)))


def closing_role(each: Round) -> Literal["correction", "bonus", "target"]:
    """The role of the token that ends a round."""
    if not each.guesses:
        return "target"
    return "correction" if each.emitted and each.emitted.kind == "recovered" else "bonus"


def page_of(header: RunHeader | None) -> Page:
    """Lay out the prompt; rounds follow by `Page.extended`."""
    if header is None:
        return Page(None, PromptPlace((), 0, 0.0))
    texts = _prompt_texts(header)
    pen = _Pen(0, 0.0, PROMPT_EM)
    lines: list[tuple[Slot, ...]] = [()]
    for index, text in enumerate(texts):
        before = pen.line, pen.cursor
        left_over = len(texts) - index
        full = pen.line == PROMPT_LINES - 1 and left_over > 1
        slot = pen.slot(text, end=LINE - FOLD * full)
        if slot.line == PROMPT_LINES:
            fold = _Pen(*before, PROMPT_EM).slot(f" … {left_over} more")
            lines[-1] = (*lines[-1], fold)
            break
        if slot.line == len(lines):
            lines.append(())
        lines[-1] = (*lines[-1], slot)
    last, own = len(lines) - 1, _own_words(header)
    if header.chat or not texts:
        return Page(header, PromptPlace(tuple(lines), last + bool(texts), 0.0, PROMPT_BACK, own))
    return Page(header, PromptPlace(tuple(lines), last, lines[-1][-1].right, words=own))


def _prompt_texts(header: RunHeader) -> list[str]:
    """What the prompt's blocks say: a chat's template folds into one block before the words."""
    tokens = header.prompt_tokens
    if not header.chat:
        return [token.text for token in tokens]
    first, last = _own_words(header)
    folded = len(tokens) - (last - first)
    return [f" template · {folded}", *(token.text for token in tokens[first:last])]


def _own_words(header: RunHeader) -> tuple[int, int]:
    """The range of the prompt's tokens that have blocks of their own."""
    if not header.chat:
        return 0, len(header.prompt_tokens)
    return _words(header.prompt_tokens, header.prompt.strip())


def _words(tokens: tuple[Token, ...], prompt: str) -> tuple[int, int]:
    """The range of tokens that hold the user's own words; empty when they cannot be found."""
    pieces = [token.text.encode("utf-8", "surrogateescape") for token in tokens]
    words = prompt.encode("utf-8", "surrogateescape")
    start = b"".join(pieces).rfind(words) if words else -1
    if start < 0:
        return 0, 0
    first = last = done = 0
    for index, piece in enumerate(pieces):
        if done <= start:
            first = index
        if done < start + len(words):
            last = index + 1
        done += len(piece)
    return first, last
