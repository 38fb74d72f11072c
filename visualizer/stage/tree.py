"""A round's guesses as a tree: how deep each is, in which lane, its siblings.

A chain is the tree in which nobody has a sibling: it has one lane, and is drawn as a chain.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.trace import Round

ROOT = -1
"""The parent of a guess that follows the text itself."""


def branched(each: Round) -> bool:
    """Whether two guesses of a round follow the same text."""
    parents = each.parents
    return len(set(parents)) < len(parents)


def depths(parents: Sequence[int]) -> tuple[int, ...]:
    """How many guesses lie between each and the text; parents come before their children."""
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent == ROOT else found[parent] + 1)
    return tuple(found)


def lanes(parents: Sequence[int]) -> tuple[int, ...]:
    """The lane each guess stands in, 0 on the line of the text.

    An eldest child goes on in its parent's lane where that is free, else above it. Guesses of one
    depth stand in the order of their parents and then of their age, so that no branches cross.
    """
    deep = depths(parents)
    found = [0] * len(parents)
    for level in range(max(deep, default=-1) + 1):
        free = 0
        here = [slot for slot, depth in enumerate(deep) if depth == level]
        for slot in sorted(here, key=lambda slot: (_lane_of(found, parents[slot]), slot)):
            found[slot] = max(free, _lane_of(found, parents[slot]))
            free = found[slot] + 1
    return tuple(found)


def stands(parents: Sequence[int], most: int) -> tuple[tuple[int, ...], ...]:
    """The tree in parts that stand side by side, so that none has many more than `most` lanes.

    A part is some of the guesses after the text, with everything that follows them: younger ones
    further right. Parts are about equally tall; what follows one guess is never parted.
    """
    tall = max(lanes(parents), default=0) + 1
    least = -(-tall // most)
    share = -(-tall // least)
    parts: list[list[int]] = []
    for first in (slot for slot, parent in enumerate(parents) if parent == ROOT):
        own = _family(parents, first)
        together = sorted([*parts[-1], *own]) if parts else own
        if parts and max(lanes(_apart(parents, together))) < share:
            parts[-1] = together
        else:
            parts.append(own)
    return tuple(tuple(part) for part in parts)


def _family(parents: Sequence[int], first: int) -> list[int]:
    """A guess and everything that follows it."""
    found = [first]
    for slot, parent in enumerate(parents):
        if parent in found:
            found.append(slot)
    return found


def _apart(parents: Sequence[int], part: Sequence[int]) -> tuple[int, ...]:
    """The parents of some guesses of a tree, as a tree of its own."""
    return tuple(ROOT if parents[s] == ROOT else part.index(parents[s]) for s in part)


def part_lanes(parents: Sequence[int], part: Sequence[int]) -> tuple[int, ...]:
    """The lane of each guess of one part of a tree, which stands by itself."""
    return lanes(_apart(parents, part))


def _lane_of(found: Sequence[int], parent: int) -> int:
    return 0 if parent == ROOT else found[parent]


def walk(parents: Sequence[int], start: int = ROOT) -> list[int]:
    """All guesses, each followed by the ones after it: the order of an indented table."""
    found: list[int] = []
    for slot, parent in enumerate(parents):
        if parent == start:
            found += [slot, *walk(parents, slot)]
    return found


def siblings(each: Round, slot: int) -> tuple[int, ...]:
    """The guesses after the same text as guess `slot`, itself among them, eldest first."""
    parent = each.parents[slot]
    return tuple(other for other, its in enumerate(each.parents) if its == parent)


def elder(each: Round, slot: int) -> tuple[int, ...]:
    """The siblings that are judged before guess `slot`."""
    return tuple(other for other in siblings(each, slot) if other < slot)


def ancestors(each: Round, slot: int) -> tuple[int, ...]:
    """The guesses that guess `slot` follows, the first after the text first."""
    found: list[int] = []
    parent = each.parents[slot]
    while parent != ROOT:
        found.append(parent)
        parent = each.parents[parent]
    return tuple(reversed(found))


def hopes(each: Round) -> tuple[float | None, ...]:
    """How likely its drafter thought the text down to each guess; None where it does not say.

    The product of the drafter's own chances from the text on: by it a tree grows.
    """
    found: list[float | None] = []
    for guess, parent in zip(each.guesses, each.parents, strict=True):
        before = 1.0 if parent == ROOT else found[parent]
        own = guess.confidence
        found.append(None if before is None or own is None else before * own)
    return tuple(found)


def judged(each: Round) -> tuple[int, ...]:
    """The guesses that were judged, in the order in which verification judged them.

    Parents come before children and siblings in order: that is the order of the slots.
    """
    return tuple(slot for slot, guess in enumerate(each.guesses) if guess.draw is not None)


def sealed_by(each: Round, slot: int) -> int | None:
    """Whose verdict discarded guess `slot`: a refused ancestor's, or an elder's that passed.

    None where the text ended before anybody was asked.
    """
    for node in (*ancestors(each, slot), slot):
        if each.guesses[node].verdict == "rejected":
            return node
        for other in elder(each, node):
            if each.guesses[other].verdict == "accepted":
                return other
    return None


def trial(each: Round, told: Sequence[bool]) -> tuple[int, ...]:
    """The branch on trial: what has passed, then the guess to be tried next and its eldest line.

    `told` says of each guess whether its verdict is known. Where all children of the accepted
    path are refused, the branch ends with the last of them.
    """
    branch: list[int] = []
    parent = ROOT
    while True:
        children = [slot for slot, its in enumerate(each.parents) if its == parent]
        passed = [s for s in children if told[s] and each.guesses[s].verdict == "accepted"]
        open_ = [s for s in children if not told[s]]
        chosen = (passed or open_ or children[-1:])[:1]
        if not chosen:
            return tuple(branch)
        branch += chosen
        if not passed and not open_:
            return tuple(branch)
        parent = chosen[0]
