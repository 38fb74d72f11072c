"""Where every token of a run lies: lines of slots on the ground.

The text runs along +X in lines; each new line is nearer to the viewer. A line only breaks
where a round starts, so all guesses of a round and the token that ends it stand side by
side. Placing a round looks at what came before it and never at what comes after.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from engine.trace import Round, RunHeader, Token
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
LINE = 15.5  # a round that would reach past this starts a new line
PITCH = 2.6  # from line to line

PROMPT_EM = 0.44
PROMPT_HEIGHT = 0.6
PROMPT_BACK = 0.5
PROMPT_LINES = 2  # at most; what does not fit folds into one block


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for one token: its label and its extent along X.

    `emblem` is room kept to the right of the label for the shape that tells where the token
    came from.
    """

    label: Label
    left: float
    width: float
    emblem: float = 0.0

    @property
    def center(self) -> float:
        return self.left + self.width / 2

    @property
    def right(self) -> float:
        return self.left + self.width


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where one round lies: slots of its guesses, and of the token that ends it.

    `before` is where the second-last committed token of the line starts (the place itself
    where there is none): two words of context. The first `accepted` guesses stay; `role` is
    the colour of what ended the round ("target" where nothing was guessed: the target's own
    word, neither correction nor bonus). `cursor` is where the next token would start on the
    line. Compared by identity, so that what is drawn of a round can be remembered per place.
    """

    index: int
    accepted: int
    role: Literal["correction", "bonus", "target"]
    line: int
    guesses: tuple[Slot, ...]
    emitted: Slot | None
    left: float
    cursor: float
    before: float

    @property
    def z(self) -> float:
        return self.line * PITCH

    @property
    def kept(self) -> tuple[Slot, ...]:
        """Slots of the tokens that the round adds to the text."""
        accepted = self.guesses[: self.accepted]
        return (*accepted, self.emitted) if self.emitted else accepted

    @property
    def reach(self) -> float:
        """How far right anything of the round ever is: guesses, a bonus, the parked drafter."""
        return self.right + 1.1

    @property
    def right(self) -> float:
        ends = [slot.right for slot in self.guesses]
        return max([*ends, self.emitted.right] if self.emitted else ends, default=self.left)


@dataclass(frozen=True, slots=True, eq=False)
class PromptPlace:
    """Where the prompt lies: one tuple of slots per line, and where the reply starts.

    `back` is how much further back it lies than its lines, where the reply does not continue
    its last one: low blocks would vanish behind the reply.
    """

    lines: tuple[tuple[Slot, ...], ...]
    line: int
    cursor: float
    back: float = 0.0

    def z(self, line: int) -> float:
        return line * PITCH - self.back


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
            words = [slot.left for slot in self.prompt.lines[-1]] if cursor > 0.0 else []
            for last in places[-2:]:
                words = [*(words if last.line == line else []), *(s.left for s in last.kept)]
                line, cursor = last.line, last.cursor
            places.append(_place(each, line, cursor, tuple(words[-2:])))
        return replace(self, places=tuple(places))


@lru_cache(maxsize=8192)
def _cell(text: str, em: float) -> tuple[Label, float, float]:
    """Label, block width, and gap before the block, for a token's text."""
    label = fit(visible(text), em, WIDEST - 2 * PAD)
    gap = JOIN_GAP if text[:1].strip() and not text.startswith("<|") else WORD_GAP
    return label, max(label.width + 2 * PAD, NARROWEST), gap


def _slot(
    text: str, cursor: float, em: float = EM, emblem: float = 0.0, apart: float = 0.0
) -> Slot:
    """A slot after a gap (at least `apart`) from `cursor`, or without one at a line's start."""
    label, width, gap = _cell(text, em)
    left = cursor + max(gap, apart) if cursor > 0.0 else 0.0
    return Slot(label, left, width + emblem, emblem)


def _slots(texts: Iterable[str], cursor: float) -> tuple[Slot, ...]:
    """Slots side by side; the first one far enough from `cursor` for a box around them."""
    slots: list[Slot] = []
    for text in texts:
        if slots:
            slots.append(_slot(text, slots[-1].right))
        else:
            slots.append(_slot(text, cursor, apart=MARGIN + 0.05))
    return tuple(slots)


def _place(each: Round, line: int, cursor: float, words: tuple[float, ...]) -> Place:
    """Lay out a round from `cursor` on; `words` is where the last words before it start."""
    guesses = _slots([guess.token.text for guess in each.guesses], cursor)
    end = guesses[each.accepted - 1].right if each.accepted else cursor
    apart = MARGIN + 0.05 if guesses and not each.accepted else 0.0
    emitted = None
    if each.emitted:
        room = EMBLEM if guesses else 0.0
        emitted = _slot(each.emitted.token.text, end, emblem=room, apart=apart)
    slots = (*guesses, emitted) if emitted else guesses
    if cursor > 0.0 and max((slot.right for slot in slots), default=0.0) > LINE:
        return _place(each, line + 1, 0.0, ())
    left = slots[0].left if slots else cursor
    return Place(
        index=each.index,
        accepted=each.accepted,
        role=closing_role(each),
        line=line,
        guesses=guesses,
        emitted=emitted,
        left=left,
        cursor=emitted.right if emitted else end,
        before=words[0] if words else left,
    )


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
    lines: list[tuple[Slot, ...]] = [()]
    for index, text in enumerate(texts):
        row = lines[-1]
        slot = _slot(text, row[-1].right if row else 0.0, PROMPT_EM)
        left_over = len(texts) - index
        room = LINE - (4.0 if len(lines) == PROMPT_LINES and left_over > 1 else 0.0)
        if not row or slot.right <= room:
            lines[-1] = (*row, slot)
        elif len(lines) < PROMPT_LINES:
            lines.append((_slot(text, 0.0, PROMPT_EM),))
        else:
            fold = _slot(f" … {left_over} more", row[-1].right, PROMPT_EM)
            lines[-1] = (*row, fold)
            break
    last = len(lines) - 1
    if header.chat or not texts:
        return Page(header, PromptPlace(tuple(lines), last + bool(texts), 0.0, PROMPT_BACK))
    return Page(header, PromptPlace(tuple(lines), last, lines[-1][-1].right))


def _prompt_texts(header: RunHeader) -> list[str]:
    """What the prompt's blocks say: a chat's template folds into one block before the words."""
    tokens = header.prompt_tokens
    if not header.chat:
        return [token.text for token in tokens]
    first, last = _words(tokens, header.prompt.strip())
    folded = len(tokens) - (last - first)
    return [f" template · {folded}", *(token.text for token in tokens[first:last])]


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
