"""Change any one line of the acceptance rule, and a proof fails: mutants of `verification`.

Each mutant is the module's own source with one piece replaced, run as a module of its own. A few
fast properties, enumerations for the most part, are asked of it; at least one must object.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from engine import verification
from engine.verification import ROOT
from tests.engine.enumeration import (
    ALMOST_ONE,
    as_tree,
    distance,
    draft_law,
    likeliest,
    line,
    one_hot_law,
    tree_distance,
    without_replacement,
)
from tests.engine.kit import random_law

SOURCE = Path(verification.__file__).read_text(encoding="utf-8")
Property = Callable[[ModuleType], None]


def module_of(source: str) -> ModuleType:
    """`source` as a module beside the real one."""
    module = ModuleType("mutant_of_verification")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(source, "mutant", "exec"), module.__dict__)
    return module


def doubles(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


# --- what is asked of a rule ------------------------------------------------------------------


def picks_follow_the_law(rule: ModuleType) -> None:
    law = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    assert [rule.pick(law, i / 8) for i in range(8)] == [1, 1, 3, 3, 3, 3, 4, 4]
    assert rule.pick(law, ALMOST_ONE) == 4
    assert rule.pick(law * 3, 0.3) == 3, "a law that does not sum to 1 is read in proportion"
    assert rule.pick(torch.full((4096,), 1.0), ALMOST_ONE) == 4095
    smallest = doubles((5e-324, 5e-324, 0.0))[0]  # so small that the draw's product rounds up
    assert rule.pick(smallest, ALMOST_ONE) == 1


def what_is_no_law_is_refused(rule: ModuleType) -> None:
    for weights in ((0.0, 0.0), (0.5, float("nan"))):
        with pytest.raises(ValueError, match="not finite"):
            rule.pick(torch.tensor(weights), 0.5)
    law = doubles((1.0, 0.0), (1.0, 0.0))
    for claimed in (law[:1], doubles((1.0, float("nan")))):
        with pytest.raises(ValueError, match="no probability"):
            rule.verify_chain(law, claimed, [1], [0.5], 0.5)
        with pytest.raises(ValueError, match="no probability"):
            rule.verify_tree(law, claimed, [1], [ROOT], [0.5], 0.5)


def what_is_no_tree_is_refused(rule: ModuleType) -> None:
    law = doubles((0.5, 0.5), (0.5, 0.5), (0.5, 0.5))
    for parents in ([ROOT, 1], [0, ROOT], [ROOT, -2]):
        with pytest.raises(ValueError, match="before the one"):
            rule.verify_tree(law, law[:2], [0, 1], parents, [0.5, 0.5], 0.5)
    with pytest.raises(ValueError, match="are the same"):
        rule.verify_tree(law, law[:2], [1, 1], [ROOT, ROOT], [0.5, 0.5], 0.5)


def what_is_left_is_normalised_or_nothing(rule: ModuleType) -> None:
    target, draft = doubles((0.5, 0.3, 0.2), (0.2, 0.5, 0.3))
    assert rule.residual(target, draft).tolist() == [1.0, 0.0, 0.0]
    a_little = draft + doubles((1e-6, -2e-6, 1e-6))[0]
    assert rule.residual(a_little, draft).tolist() == pytest.approx([0.5, 0.0, 0.5])
    rounding = draft + doubles((1e-16, -2e-16, 1e-16))[0]
    assert torch.equal(rule.residual(rounding, draft), rounding)
    assert rule.residual(target.float(), draft.float()).dtype == torch.float64


def a_chain_keeps_the_law(rule: ModuleType) -> None:
    for k in range(3):
        assert distance(rule.verify_chain, k) < 1e-12
    assert distance(rule.verify_chain, 1, draft=one_hot_law(draft_law), grain=8) < 1e-12


def a_chain_states_its_chances(rule: ModuleType) -> None:
    laws = random_law(1, 3), random_law(2, 3)
    assert tree_distance(as_tree(rule.verify_chain), line(2), *laws) < 1e-12
    equal = doubles((0.1, 0.9), (0.1, 0.9))
    for token, draw in ((0, ALMOST_ONE), (1, 0.0)):
        verdict = rule.verify_chain(equal, equal[:1], [token], [draw], 0.5)
        assert (verdict.path, verdict.kind, verdict.accept_probs) == ((0,), "bonus", (1.0,))
        assert verdict.token == 1
    refused = rule.verify_chain(doubles((0.0, 1.0), (1.0, 0.0)), equal[:1], [0], [0.0], 0.5)
    assert (refused.path, refused.kind, refused.token) == ((), "recovered", 1)


def a_tree_keeps_the_law_and_states_its_chances(rule: ModuleType) -> None:
    law = random_law(5, 3)
    for siblings in (without_replacement, likeliest):
        for shape in ((ROOT, ROOT, 0), (ROOT, ROOT, 1), (ROOT, 0, 0)):
            assert tree_distance(rule.verify_tree, shape, draft=law, siblings=siblings) < 1e-12


def a_tree_tells_which_token_and_why(rule: ModuleType) -> None:
    target = doubles(*[(0.5, 0.3, 0.2)] * 3)
    draft = doubles((0.2, 0.5, 0.3), (0.4, 0.0, 0.6))
    for draws, path, token, kind in (
        ([0.7, 0.0], (), 0, "recovered"),
        ([0.5, 0.0], (0,), 2, "bonus"),
    ):
        verdict = rule.verify_tree(target, draft, [1, 2], [ROOT, ROOT], draws, 0.99)
        assert (verdict.path, verdict.token, verdict.kind) == (path, token, kind)
        assert verdict.accept_probs == pytest.approx((0.6, 0.0))
        assert verdict.tested.tolist() == [[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]
        assert verdict.rows == [0, *(slot + 1 for slot in path)]


def guesses_with_parents_are_a_tree_and_others_a_chain(rule: ModuleType) -> None:
    target = doubles((0.5, 0.3, 0.2), (0.1, 0.1, 0.8), (0.2, 0.6, 0.2))
    draft = doubles((0.2, 0.5, 0.3), (0.4, 0.0, 0.6))
    for parents, path, tested in (
        (None, (0, 1), target[:2].tolist()),
        ([ROOT, ROOT], (0,), [[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]),
        ([ROOT, 0], (0, 1), target[:2].tolist()),
    ):
        verdict = rule.verify(target, draft, [1, 2], parents, [0.0, 0.0], 0.5)
        assert (verdict.path, verdict.tested.tolist()) == (path, tested)


PROPERTIES: tuple[Property, ...] = (
    picks_follow_the_law,
    what_is_no_law_is_refused,
    what_is_no_tree_is_refused,
    what_is_left_is_normalised_or_nothing,
    a_chain_states_its_chances,
    a_tree_tells_which_token_and_why,
    guesses_with_parents_are_a_tree_and_others_a_chain,
    a_chain_keeps_the_law,
    a_tree_keeps_the_law_and_states_its_chances,
)

# --- mutants ----------------------------------------------------------------------------------

MUTANTS = (
    # verify
    ("    if parents is None:\n", "    if parents is not None:\n"),
    ("return [0, *(slot + 1 for slot in self.path)]", "return [0, *self.path]"),
    # verify_chain
    ("_chances(target_probs[:k], draft_tokens)", "_chances(target_probs[1:], draft_tokens)"),
    ("_chances(target_probs[:k], draft_tokens)", "_chances(draft_probs, draft_tokens)"),
    ("[:k], draft_tokens), _chances(draft_probs,", "[:k], draft_tokens), _chances(target_probs,"),
    ("if not all(chance > 0 for chance in draft)", "if not all(chance >= 0 for chance in draft)"),
    ("if not all(chance > 0 for chance in draft)", "if any(chance <= 0 for chance in draft)"),
    ("    accepted = 0\n", "    accepted = 1\n"),
    ("while accepted < k and", "while accepted < k - 1 and"),
    ("accept_draws[accepted] * draft[accepted] <", "accept_draws[0] * draft[accepted] <"),
    ("accept_draws[accepted] * draft[accepted] <", "accept_draws[accepted] <"),
    ("* draft[accepted] < target[accepted]:", "* draft[accepted] <= target[accepted]:"),
    ("* draft[accepted] < target[accepted]:", "* draft[accepted] > target[accepted]:"),
    ("* draft[accepted] < target[accepted]:", "* target[accepted] < draft[accepted]:"),
    ("        accepted += 1\n", "        accepted += 2\n"),
    ("    if accepted == k:\n", "    if accepted >= k - 1:\n"),
    ("        emit_probs = target_probs[k]\n", "        emit_probs = target_probs[k - 1]\n"),
    ('kind: EmitKind = "bonus"\n', 'kind: EmitKind = "recovered"\n'),
    ('        kind = "recovered"\n', '        kind = "bonus"\n'),
    ("= residual(target_probs[accepted], draft_probs[accepted])", "= target_probs[accepted]"),
    ("= residual(target_probs[accepted], draft", "= residual(target_probs[0], draft"),
    ("target_probs[accepted], draft_probs[accepted])", "target_probs[accepted], draft_probs[0])"),
    ("tuple(min(1.0, wanted / said)", "tuple(min(1.0, said / wanted)"),
    ("tuple(min(1.0, wanted / said)", "tuple(max(1.0, wanted / said)"),
    ("tuple(min(1.0, wanted / said)", "tuple(min(1.0, wanted)"),
    ("range(accepted)), pick(emit_probs, emit_draw)", "range(accepted)), pick(emit_probs, 0)"),
    ("path, token = tuple(range(accepted))", "path, token = tuple(range(k))"),
    ("emit_probs, target_probs[:k], accept_probs)", "emit_probs, target_probs[1:], accept_probs)"),
    # verify_tree
    ("if any(not ROOT <= parent < node", "if any(not ROOT <= parent <= node"),
    ("if any(not ROOT <= parent < node", "if any(not parent < node"),
    ("strict=True))) < len(parents):", "strict=True))) < 0:"),
    ("_chances(tested, draft_tokens)", "_chances(target_probs[:-1], draft_tokens)"),
    ("(tested, draft_tokens), _chances(draft_probs", "(tested, draft_tokens), _chances(tested"),
    ("accept_draws[node] * draft[node] < target", "accept_draws[0] * draft[node] < target"),
    ("accept_draws[node] * draft[node] < target", "accept_draws[node] * draft[node] <= target"),
    ("accept_draws[node] * draft[node] < target", "accept_draws[node] < target"),
    ("[node] * draft[node] < target[node]", "[node] * target[node] < draft[node]"),
    ("        owed[parent + 1] = residual(owed[parent + 1],", "        residual(owed[parent + 1],"),
    ("        owed[parent + 1] = residual(", "        owed[node + 1] = residual("),
    ("residual(owed[parent + 1], draft_probs[node])", "residual(owed[parent + 1], draft_probs[0])"),
    ("    path = [ROOT]\n", "    path = [ROOT, 0]\n"),
    ("if parent == path[-1] and accept", "if accept"),
    ("and accept_draws[node] * draft[node] < target[node]:", ":"),
    ("if parent == path[-1] and accept", "if parent in path and accept"),
    ('"recovered" if path[-1] in parents else "bonus"', '"bonus"'),
    ("emit_probs = owed[path[-1] + 1]", "emit_probs = owed[path[-1]]"),
    ("emit_probs = owed[path[-1] + 1]", "emit_probs = target_probs[path[-1] + 1]"),
    ("Verdict(tuple(path[1:]), emitted", "Verdict(tuple(path), emitted"),
    ("emitted = pick(emit_probs, emit_draw)", "emitted = pick(emit_probs, 0.0)"),
    ("laws.append(owed[parent + 1])", "laws.append(target_probs[parent + 1].double())"),
    ("laws.append(owed[parent + 1])", "laws.append(owed[parent])"),
    # residual, pick and their precision
    ("(target - _float64(draft_probs)).clamp_(min=0)", "(target - _float64(draft_probs)).abs()"),
    ("(target - _float64(draft_probs)).clamp_(min=0)", "(_float64(draft_probs) - target).clamp(0)"),
    ("total = excess.sum()", "total = excess.max()"),
    ("where(total > 1e-12, excess.div_(total), target)", "where(total > 1e-12, excess, target)"),
    ("where(total > 1e-12, excess.div_(total)", "where(total > 1e-3, excess.div_(total)"),
    ("where(total > 1e-12, excess.div_(total)", "where(total > 0, excess.div_(total)"),
    ("> 1e-12, excess.div_(total), target)", "> 1e-12, excess.div_(total), excess)"),
    ("_float64(probs).cumsum(0)", "_float64(probs)"),
    ("mark = draw * cumulative[-1:]", "mark = draw * cumulative[:1]"),
    ("mark = draw * cumulative[-1:]", "mark = torch.tensor([draw], dtype=torch.float64)"),
    ("mark, right=True)", "mark, right=False)"),
    ("if index == len(probs):", "if index > len(probs):"),
    ("if not cumulative[-1] > 0:", "if cumulative[-1] < 0:"),
    ("int(probs.nonzero()[-1])", "len(probs) - 1"),
    ("int(probs.nonzero()[-1])", "int(probs.nonzero()[0])"),
    ("else probs).double()", "else probs).float()"),
)  # fmt: skip


def test_the_rule_itself_has_every_property():
    rule = module_of(SOURCE)
    for asked in PROPERTIES:
        asked(rule)


@pytest.mark.parametrize("number", range(len(MUTANTS)))
def test_a_mutant_is_caught(number):
    old, new = MUTANTS[number]
    assert SOURCE.count(old) == 1, f"{old!r} is no longer one place of the rule"
    rule = module_of(SOURCE.replace(old, new))
    assert any(objects(asked, rule) for asked in PROPERTIES), f"{old!r} became {new!r} unseen"


def objects(asked: Property, rule: ModuleType) -> bool:
    """Whether a property does not hold, or cannot even be computed."""
    try:
        asked(rule)
    except (Exception, pytest.fail.Exception):
        return True
    return False
