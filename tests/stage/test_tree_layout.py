"""Guesses that branch: their shape, and that the run worked by hand follows the rule itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine import codec
from engine.trace import Law, Round
from engine.verification import verify_tree
from tests.data import write_tree as hand
from visualizer.stage import tree

HAND = codec.read_run(hand.PATH)
BRANCHED = [each for each in HAND.rounds if tree.branched(each)]

trees = st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=16).map(
    lambda lots: tuple(int(lot * (slot + 1)) - 1 for slot, lot in enumerate(lots))
)
"""Parents of up to 16 guesses, any tree there is."""


def test_the_file_is_what_the_script_writes() -> None:
    assert hand.PATH.read_text(encoding="utf-8") == "".join(codec.iter_lines(hand.EVENTS))


def test_it_holds_every_shape() -> None:
    kinds = [(tree.branched(r), r.accepted, r.emitted and r.emitted.kind) for r in HAND.rounds]
    assert (True, 0, "recovered") in kinds, "all siblings refused"
    assert (False, 3, "bonus") in kinds, "like a chain"
    assert any(branched and n > 1 and kind == "bonus" for branched, n, kind in kinds)
    assert any(branched and n > 1 and kind == "recovered" for branched, n, kind in kinds)
    assert any(branched and kind is None for branched, _, kind in kinds), "ends inside"
    assert {4, 8, 16} <= {len(each.guesses) for each in HAND.rounds}
    assert HAND.rounds[0].path[0] == 1, "the second of two siblings passes"
    position = len(hand.PROMPT)
    for each in HAND.rounds:
        assert each.position == position
        position += len(each.committed)


def row(law: Law) -> torch.Tensor:
    probs = torch.zeros(len(hand.TEXTS), dtype=torch.float64)
    for each in law.top:
        probs[each.token.id] = each.prob
    assert probs.sum().item() == pytest.approx(1.0)
    return probs


def follows_the_rule(each: Round) -> bool:
    """Whether `verify_tree` decides as the round says, from nothing but its laws and draws."""
    end = each.path[-1] if each.path else tree.ROOT
    target = [torch.full((len(hand.TEXTS),), 1 / len(hand.TEXTS), dtype=torch.float64)] * (
        len(each.guesses) + 1
    )
    if each.emitted:  # at a leaf nobody's law is known but the closing token's
        target[end + 1] = row(each.emitted.target_law)
    for slot, guess in enumerate(each.guesses):
        if not tree.elder(each, slot):
            target[each.parents[slot] + 1] = row(guess.target_law)
    verdict = verify_tree(
        torch.stack(target),
        torch.stack([row(guess.draft_law) for guess in each.guesses]),
        [guess.token.id for guess in each.guesses],
        each.parents,
        [0.5 if guess.draw is None else guess.draw for guess in each.guesses],
        each.emitted.draw if each.emitted else 0.0,
    )
    chances = [guess.accept_prob for guess in each.guesses]
    closing = each.emitted is None or (
        (verdict.token, verdict.kind) == (each.emitted.token.id, each.emitted.kind)
        and verdict.emit_probs[verdict.token].item() == pytest.approx(each.emitted.prob)
    )
    return (
        verdict.path == each.path
        and verdict.accept_probs == pytest.approx(chances)
        and closing
        and [guess.verdict for guess in each.guesses] == verdicts(each)
    )


def verdicts(each: Round) -> list[str]:
    """What the path makes of every guess: siblings are tried in order, until one passes."""
    said = []
    for slot, parent in enumerate(each.parents):
        reached = parent == tree.ROOT or parent in each.path
        passed = any(other in each.path for other in tree.elder(each, slot))
        tried = reached and not passed and each.guesses[slot].draw is not None
        said.append("accepted" if slot in each.path else "rejected" if tried else "discarded")
    return said


@pytest.mark.parametrize("each", HAND.rounds, ids=lambda each: str(each.index))
def test_the_hand_worked_rounds_follow_the_rule(each: Round) -> None:
    assert follows_the_rule(each)


def test_a_slip_in_them_is_found() -> None:
    """The twins: another draw, another order of siblings, another closing token."""
    each = HAND.rounds[0]
    first, second, *rest = each.guesses
    other_draw = replace(each, guesses=(replace(first, draw=0.0), second, *rest))
    assert not follows_the_rule(other_draw)
    swapped = replace(each, guesses=(second, first, *rest))
    assert not follows_the_rule(swapped)
    assert each.emitted is not None
    assert not follows_the_rule(replace(each, emitted=replace(each.emitted, draw=0.9)))


# --- shape ---------------------------------------------------------------------------------


def crossing_or_shared(parents: tuple[int, ...], lanes: tuple[int, ...]) -> bool:
    """Whether two guesses stand in one place, or two branches of one column cross."""
    deep = tree.depths(parents)
    above = [0 if parent == tree.ROOT else lanes[parent] for parent in parents]
    for one, other in ((a, b) for b in range(len(parents)) for a in range(b)):
        if deep[one] != deep[other]:
            continue
        if lanes[one] == lanes[other]:
            return True
        if (above[one] - above[other]) * (lanes[one] - lanes[other]) < 0:
            return True
    return False


@given(trees)
def test_no_two_guesses_share_a_place_and_no_branches_cross(parents: tuple[int, ...]) -> None:
    lanes = tree.lanes(parents)
    assert not crossing_or_shared(parents, lanes)
    for slot, parent in enumerate(parents):
        assert lanes[slot] >= (0 if parent == tree.ROOT else lanes[parent]), "branches rise"
        younger = [s for s in range(slot + 1, len(parents)) if parents[s] == parent]
        assert all(lanes[s] > lanes[slot] for s in younger), "siblings in order, upwards"
    assert 0 in lanes


def test_sharing_and_crossing_are_found() -> None:
    """The twins: everybody on the line, and children in the order of the slots alone."""
    parents = (-1, -1, 1, 0)
    assert crossing_or_shared(parents, (0, 0, 0, 0))
    assert crossing_or_shared(parents, (0, 1, 0, 1))
    assert not crossing_or_shared(parents, tree.lanes(parents))


@given(trees)
def test_a_chain_is_the_tree_in_which_nobody_has_a_sibling(parents: tuple[int, ...]) -> None:
    each = HAND.rounds[0]
    guesses = tuple(replace(each.guesses[0], parent=parent) for parent in parents)
    grown = replace(each, guesses=guesses)
    assert tree.branched(grown) == (parents != tuple(range(-1, len(parents) - 1)))
    assert tree.branched(grown) == (max(tree.lanes(parents)) > 0)


@pytest.mark.parametrize("each", BRANCHED, ids=lambda each: str(each.index))
def test_what_discarded_a_guess_was_judged_before_anything_after_it(each: Round) -> None:
    order = tree.judged(each)
    for slot, guess in enumerate(each.guesses):
        by = tree.sealed_by(each, slot)
        if guess.verdict == "discarded":
            ended = each.emitted is None and each.parents[slot] == each.path[-1]
            assert (by is None) == ended
            assert by is None or by in order
        elif guess.verdict == "accepted":
            assert by is None
        else:
            assert by == slot


def test_the_branch_on_trial() -> None:
    each = HAND.rounds[3]  # ↵ refused; Everyone: had refused, waited: patiently, for refused
    told = [False] * 8
    assert tree.trial(each, told) == (0, 2), "the eldest line first"
    told[0] = told[2] = True
    assert tree.trial(each, told) == (1, 3, 5)
    told[1] = told[3] = told[5] = True
    assert tree.trial(each, told) == (1, 4, 6)
    told[4] = told[6] = True
    assert tree.trial(each, told) == (1, 4, 7)
    assert tree.trial(each, [True] * 8) == (1, 4, 7), "all refused: the last of them"
    bonus = HAND.rounds[0]
    assert tree.trial(bonus, [True] * 4) == bonus.path
