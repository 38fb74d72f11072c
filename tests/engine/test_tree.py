"""The acceptance rule over trees of guesses: exact by enumeration, and a chain is one of them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.verification import ROOT, Verdict, residual, verify_chain, verify_tree
from tests.engine.enumeration import (
    VerifyTree,
    depth,
    draft_law,
    likeliest,
    line,
    one_hot_law,
    target_law,
    tree_distance,
    without_replacement,
)
from tests.engine.kit import random_law

SHAPES = {
    "one guess": (ROOT,),
    "two siblings": (ROOT, ROOT),
    "every token there is": (ROOT, ROOT, ROOT),
    "a chain": line(3),
    "a fork at the second guess": (ROOT, 0, 0),
    "two children with a child each": (ROOT, ROOT, 0, 1),
    "families one after the other": (ROOT, 0, ROOT, 2),
    "a younger sibling with children": (ROOT, ROOT, 1, 1),
}


@pytest.mark.parametrize("siblings", [without_replacement, likeliest])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_law_is_exactly_the_target_s(shape, siblings):
    law = random_law(5, 3)  # nothing impossible: siblings never run out of tokens
    assert tree_distance(verify_tree, shape, draft=law, siblings=siblings) < 1e-12


@settings(max_examples=25, deadline=None)
@given(data=st.data(), seed=st.integers(0, 10**6), vocab=st.integers(2, 4))
def test_the_law_is_the_target_s_for_random_laws_and_trees(data, seed, vocab):
    shape: list[int] = []
    for node in range(data.draw(st.integers(1, 4))):
        free = [p for p in range(ROOT, node) if shape.count(p) < vocab and depth([*shape, p]) < 4]
        shape.append(data.draw(st.sampled_from(free)))
    siblings = data.draw(st.sampled_from((without_replacement, likeliest)))
    target, draft = random_law(seed, vocab), random_law(seed + 1, vocab)
    assert tree_distance(verify_tree, shape, target, draft, siblings) < 1e-12


def test_greedy_takes_the_path_the_target_would_write():
    """Both one-hot or the target alone: whatever is proposed, its own choices come out."""
    for shape in SHAPES.values():
        greedy = one_hot_law(target_law)
        found = tree_distance(verify_tree, shape, greedy, random_law(5, 3), likeliest)
        assert found == 0.0


# --- broken twins: each must be caught by the very same enumeration ---------------------------


def twin(
    leftover=residual,
    judged=lambda target_probs, owed, parent: owed,
    claimed=lambda draft_probs, elder: draft_probs,
    order=list,
    row=lambda node: node + 1,
    emitted=lambda owed, first, start: owed,
) -> VerifyTree:
    """The rule written afresh, walking down from the root; one part may be broken."""

    def verify(target_probs, draft_probs, tokens, parents, draws, emit_draw):
        chances = [0.0] * len(tokens)

        def family(node):
            """Judge the children of `node`, and state the chances of all below it."""
            start = owed = target_probs[row(node) if node != ROOT else 0]
            first, passed, elder = owed, None, []
            for child in order([i for i, parent in enumerate(parents) if parent == node]):
                law = claimed(draft_probs[child], elder)
                test = judged(target_probs, owed, node)
                chances[child] = min(1.0, float(test[tokens[child]] / law[tokens[child]]))
                beneath = family(child)
                taken = draws[child] * float(law[tokens[child]]) < float(test[tokens[child]])
                if passed is None and taken:
                    passed = ([child, *beneath[0]], beneath[1])
                owed = leftover(owed, law)
                first = owed if not elder else first
                elder.append(tokens[child])
            return passed or ([], emitted(owed, first, start))

        path, law = family(ROOT)
        return Verdict(tuple(path), 0, "bonus", law, target_probs[:0], tuple(chances))

    return verify


def with_elder_again(law, elder):
    """The law a drafter has, not the one that its elder siblings leave."""
    again = law.clone()
    again[elder] = 0.3
    return again / again.sum()


BROKEN = {
    "siblings said to be drawn with the elder ones still there": twin(claimed=with_elder_again),
    "younger siblings tested against the whole law": twin(
        judged=lambda target_probs, owed, parent: target_probs[parent + 1]
    ),
    "siblings judged in another order": twin(order=lambda nodes: nodes[::-1]),
    "the token after refusals from the whole law": twin(emitted=lambda owed, first, start: start),
    "the token after refusals from the first residual": twin(
        emitted=lambda owed, first, start: first
    ),
    "a node judges its children with its own row": twin(row=lambda node: node),
    "residual not renormalised": twin(leftover=lambda t, d: (t - d).clamp(min=0)),
    "residual the wrong way round": twin(leftover=lambda t, d: residual(d, t)),
    "nothing is zeroed": twin(leftover=lambda t, d: t),
}
TELLING = (ROOT, ROOT, 0, 0)


def test_the_twin_without_a_fault_passes():
    for shape in SHAPES.values():
        assert tree_distance(twin(), shape, draft=random_law(5, 3)) < 1e-12


@pytest.mark.parametrize("fault", BROKEN)
def test_the_enumeration_catches(fault):
    assert tree_distance(BROKEN[fault], TELLING, draft=random_law(5, 3)) > 1e-3


def test_a_soft_law_claimed_for_the_likeliest_few_is_caught():
    """B12, for trees: guesses that are not drawn are one-hot, whatever the drafter believes."""

    def dishonest(target_probs, draft_probs, tokens, parents, draws, emit_draw):
        soft = torch.stack([random_law(5, 3)(())] * len(tokens))
        return verify_tree(target_probs, soft, tokens, parents, draws, emit_draw)

    found = tree_distance(dishonest, (ROOT, ROOT), draft=random_law(5, 3), siblings=likeliest)
    assert found > 1e-2


# --- a chain is a tree, and what is no tree is refused ----------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(0, 5),
    vocab=st.integers(2, 6),
    draws=st.lists(st.floats(0, 1, exclude_max=True), min_size=6, max_size=6),
)
def test_a_chain_is_the_tree_in_which_nobody_has_a_sibling(seed, k, vocab, draws):
    law, guess = random_law(seed, vocab), random_law(seed + 1, vocab)
    tokens = [(seed + i) % vocab for i in range(k)]
    target = torch.stack([law((i,)) for i in range(k + 1)])
    draft = torch.stack([guess((i,)) for i in range(k)]) if k else target[:0]
    chain = verify_chain(target, draft, tokens, draws[:k], draws[5])
    tree = verify_tree(target, draft, tokens, line(k), draws[:k], draws[5])
    assert (tree.path, tree.token, tree.kind) == (chain.path, chain.token, chain.kind)
    assert torch.equal(tree.tested, chain.tested)
    assert torch.equal(tree.emit_probs, chain.emit_probs)
    assert tree.accept_probs == chain.accept_probs


def test_siblings_worked_by_hand():
    """target (.5, .3, .2), draft (.2, .5, .3): guess 1, and then, without it, 2 from (.4, 0, .6).

    The first is accepted with .3/.5 and leaves (1, 0, 0); the second then never is, and takes
    .6 of what is owed nowhere: (1, 0, 0) - (.4, 0, .6) is token 0 again.
    """
    target = torch.tensor([[0.5, 0.3, 0.2]] * 3, dtype=torch.float64)
    draft = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.0, 0.6]], dtype=torch.float64)
    verdict = verify_tree(target, draft, [1, 2], [ROOT, ROOT], [0.7, 0.0], 0.99)
    assert verdict.accept_probs == pytest.approx((0.6, 0.0))
    assert (verdict.path, verdict.token, verdict.kind) == ((), 0, "recovered")
    verdict = verify_tree(target, draft, [1, 2], [ROOT, ROOT], [0.5, 0.0], 0.99)
    assert (verdict.path, verdict.token, verdict.kind) == ((0,), 2, "bonus")


def test_likeliest_siblings_worked_by_hand():
    """One-hot siblings 1 and 2 of (.5, .3, .2): chances .3, then .2 of the .7 that are left."""
    target = torch.tensor([[0.5, 0.3, 0.2]] * 3, dtype=torch.float64)
    draft = torch.eye(3, dtype=torch.float64)[1:]
    verdict = verify_tree(target, draft, [1, 2], [ROOT, ROOT], [0.31, 0.29], 0.5)
    assert verdict.accept_probs == pytest.approx((0.3, 2 / 7))
    assert verdict.emit_probs.tolist() == pytest.approx([1.0, 0.0, 0.0])
    accepted = verify_tree(target, draft, [1, 2], [ROOT, ROOT], [0.31, 0.28], 0.5)
    assert accepted.path == (1,)


@pytest.mark.parametrize(
    ("tokens", "parents", "words"),
    [
        ([0, 1], [ROOT, 1], "before the one it follows"),
        ([0, 1], [1, ROOT], "before the one it follows"),
        ([0, 1], [ROOT, -2], "before the one it follows"),
        ([1, 1], [ROOT, ROOT], "are the same"),
        ([0, 2], [ROOT, 0], "no probability"),
    ],
)
def test_what_is_no_tree_of_guesses_is_an_error(tokens, parents, words):
    law = torch.tensor([[0.5, 0.5, 0.0]] * 3)
    with pytest.raises(ValueError, match=words):
        verify_tree(law, law[:2], tokens, parents, [0.5, 0.5], 0.5)


def test_a_tree_of_no_guesses_is_the_target_s_own_token():
    verdict = verify_tree(torch.tensor([[0.25, 0.75]]), torch.zeros(0, 2), [], [], [], 0.3)
    assert (verdict.path, verdict.token, verdict.kind) == ((), 1, "bonus")


def test_the_law_is_the_target_s_where_some_tokens_are_impossible():
    assert tree_distance(verify_tree, (ROOT, ROOT, 0), draft=draft_law) < 1e-12
