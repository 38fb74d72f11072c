"""Rounds of trees: exact, cut by every limit as chains are, and their evidence true."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine import prove
from engine.decode import DecodeError, Session
from engine.drafters.model import LayerSkipDrafter, ModelDrafter
from engine.drafters.proposal import Proposal
from engine.llama import Runner
from engine.sampling import penalise
from engine.stats import Stats
from engine.trace import Settings, fold
from engine.verification import ROOT, residual, verify_tree
from tests.engine import kit
from tests.engine.enumeration import difference
from tests.engine.kit import TINY, TableModel, TreeScript, Words, audit, header, session
from tests.engine.runs import GREEDY, ORACLE, PROMPT
from tests.engine.test_decode import ENDS, penalised_oracle
from tests.engine.test_law import law_of_whole_runs
from tests.engine.test_llama import KeepsOldHidden, KeepsTheFirst, SeesSiblings, StandsBySlot
from tests.engine.trees import random_shape

# --- the law ----------------------------------------------------------------------------------


def distance_of_whole_runs(
    monkeypatch, s, shapes, certain=False, seed=1, vocab=3, length=2, kind=TreeScript
):
    """Largest difference between the law of whole runs and that of the target alone.

    Rounds propose trees of these `shapes`, around and around; None is a chain.
    """
    target_law, draft_law = kit.random_law(seed, vocab), kit.random_law(seed + 1, vocab)

    def shape(index, k):
        wanted = shapes[index % len(shapes)]
        return wanted if wanted is None else wanted[:k]

    def pair():
        script = kind(lambda text: draft_law(tuple(text)), shape, certain)
        return TableModel(target_law), script

    run = header([0], s, max_new_tokens=length + 6)
    found = law_of_whole_runs(monkeypatch, pair, run, vocab, length)

    def law(prefix):
        return kit.process_law(target_law((0, *prefix)), s, (0, *prefix))

    return difference(law, length, found)


SAMPLED = Settings("script", 4, temperature=1.0)
FORKS = ((ROOT, ROOT), (ROOT, ROOT, 0), (ROOT, ROOT, 1), (ROOT, 0, 0), (ROOT, 0, ROOT))


@pytest.mark.parametrize("certain", [False, True], ids=["drawn", "likeliest"])
@pytest.mark.parametrize("quality", [100.0, 60.0])
@pytest.mark.parametrize("shape", FORKS)
def test_the_law_of_whole_runs_is_the_target_s(monkeypatch, shape, quality, certain):
    s = replace(SAMPLED, quality=quality)
    assert distance_of_whole_runs(monkeypatch, s, [shape, (ROOT,)], certain) < 1e-12


@pytest.mark.parametrize(
    "s",
    [
        replace(SAMPLED, temperature=0.0),
        replace(SAMPLED, temperature=0.6, top_k=2),
        replace(SAMPLED, temperature=1.3, top_p=0.8, quality=50.0),
        replace(SAMPLED, repetition_penalty=1.8),
        replace(SAMPLED, temperature=0.8, repetition_penalty=0.6, quality=60.0, min_p=0.1),
    ],
)
def test_the_law_is_the_target_s_under_every_setting(monkeypatch, s):
    shapes = [(ROOT, ROOT, 0), (ROOT,)]
    assert distance_of_whole_runs(monkeypatch, s, shapes) < 1e-12


@pytest.mark.parametrize("second", [(ROOT, ROOT), None], ids=["another tree", "a chain"])
def test_the_law_is_the_target_s_after_more_rounds(monkeypatch, second):
    s = replace(SAMPLED, k=2, top_p=0.9, repetition_penalty=1.3)
    assert distance_of_whole_runs(monkeypatch, s, [(ROOT, ROOT), second], length=3) < 1e-12


def forgetful(target_probs, draft_probs, tokens, parents, draws, emit_draw):
    """Broken: younger siblings are tested against the target's whole law."""
    verdict = verify_tree(target_probs, draft_probs, tokens, parents, draws, emit_draw)
    whole = target_probs[[parent + 1 for parent in parents]]
    chances = tuple(
        min(1.0, float(whole[i, token] / draft_probs[i, token])) for i, token in enumerate(tokens)
    )
    path = [ROOT]
    for node, parent in enumerate(parents):
        passes = draws[node] * float(draft_probs[node, tokens[node]]) < float(
            whole[node, tokens[node]]
        )
        if parent == path[-1] and passes:
            path.append(node)
    law = target_probs[path[-1] + 1]
    for node, parent in enumerate(parents):
        law = residual(law, draft_probs[node]) if parent == path[-1] else law
    from engine import verification

    return replace(
        verdict, path=tuple(path[1:]), emit_probs=law, accept_probs=chances,
        token=verification.pick(law, emit_draw),
    )  # fmt: skip


@pytest.mark.parametrize("rule", [forgetful, prove.without_residual])
def test_a_rule_that_forgets_what_the_elder_siblings_took_is_caught(monkeypatch, rule):
    monkeypatch.setattr("engine.decode.verify", rule)
    assert distance_of_whole_runs(monkeypatch, SAMPLED, [(ROOT, ROOT), (ROOT,)]) > 1e-3


def test_elder_siblings_that_may_be_drawn_again_are_caught(monkeypatch):
    """A drafter that states the law it has, not the one that its elder siblings leave."""

    class Careless(TreeScript):
        def propose(self, ids, request):
            made = super().propose(ids, request)
            stated = tuple(
                request.law_of(request.scores(self._law(list(ids)).log(), ids)) for _ in made.laws
            )
            return replace(made, laws=stated)

    shapes = [(ROOT, ROOT), (ROOT,)]  # of four tokens: what is owed must be more than one of them
    assert distance_of_whole_runs(monkeypatch, SAMPLED, shapes, vocab=4) < 1e-12
    assert distance_of_whole_runs(monkeypatch, SAMPLED, shapes, vocab=4, kind=Careless) > 1e-3


# --- any run ----------------------------------------------------------------------------------


class Bush:
    """Proposes random trees around what the target will say; sometimes a chain, or nothing."""

    name, context = "script", None

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def propose(self, ids, request):
        roll = self._chance.random()
        if roll < 0.1:
            return kit.Script(lambda text: None).propose(ids, request)
        if roll < 0.3:
            return kit.Script(self._say).propose(ids, request)
        shape = random_shape(self._chance, request.k)
        return TreeScript(self._law, lambda index, k: shape).propose(ids, request)

    def observe(self, ids):
        """Nothing to learn."""

    def _say(self, text: list[int]) -> int:
        return int(self._law(text).argmax())

    def _law(self, text: list[int]) -> Tensor:
        """In favour of one token and then of another; either may be what comes next."""
        at, chance = len(text) - len(PROMPT), self._chance
        law = torch.full((kit.TINY_VOCAB,), 0.1 / kit.TINY_VOCAB, dtype=torch.float64)
        for weight in (0.5, 0.4):
            right = at < len(ORACLE) and chance.random() < 0.5
            law[ORACLE[at] if right else chance.randrange(kit.TINY_VOCAB)] += weight
        return law


def sampled_tokens(rounds):
    return [token.id for made in rounds for token in made.committed]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**9), penalty=st.sampled_from([1.0, 1.0, 1.3, 2.0, 0.7]))
def test_greedy_text_is_the_target_s_own_whatever_tree_is_drafted(seed, penalty):
    """K changes every round, between trees, chains and the target alone."""
    chance = random.Random(seed)
    start = replace(GREEDY, repetition_penalty=penalty)
    run = session(Runner(TINY), Bush(seed), header(PROMPT, start))
    while run.finished is None:
        quality = chance.choice((100.0, 100.0, 40.0))
        run.rewind(run.made, replace(start, k=chance.randrange(12), quality=quality))
        run.advance()
    assert kit.committed(run) == penalised_oracle(penalty)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.0, 0.7, 1.5]),
    penalty=st.sampled_from([1.0, 1.5]),
)
def test_the_cache_is_that_of_a_fresh_reading_after_every_round(seed, temperature, penalty):
    """AUDIT: keys, values and features; K, quality and the round gone back to change."""
    walk(Runner, seed, temperature, penalty)


@pytest.mark.parametrize("seed", range(30))
def test_the_evidence_is_that_of_fresh_passes_over_each_branch(seed):
    """B39: of every guess, under every setting; and its verdict follows from it."""
    temperature, penalty = ((0.0, 1.0), (0.7, 1.0), (1.5, 1.5))[seed % 3]
    walk(Runner, seed, temperature, penalty, check_round)


def walk(kind, seed, temperature=0.7, penalty=1.0, check=lambda run, made: None):
    chance = random.Random(seed)
    target = kind(TINY)
    s = Settings("script", 8, 100.0, temperature, repetition_penalty=penalty)
    run = session(target, Bush(seed), header(PROMPT, s, seed=seed, max_new_tokens=60))
    for _ in range(6):
        if run.finished is not None or chance.random() < 0.4:
            back = run.made - (run.made > 0 and chance.random() < 0.3)
            quality = chance.choice((100.0, 100.0, 30.0))
            run.rewind(back, replace(s, k=chance.randrange(12), quality=quality))
        if run.finished is None:
            check(run, run.advance())
        assert target.length == len(run.ids) - 1
        audit(target, run.ids)


def check_round(run, made):
    """What a round says of its guesses, against the rule told afresh over each guess's own text."""
    s = made.settings
    texts, owed = {ROOT: list(run.ids[: made.position])}, {}

    def law_after(node):
        logits = penalise(Runner(TINY).forward(texts[node])[-1:], texts[node], s.repetition_penalty)
        return kit.process(logits, s.temperature)[0]

    alive, path = {ROOT}, [ROOT]
    for slot, (guess, parent) in enumerate(zip(made.guesses, made.parents, strict=True)):
        law = owed[parent] if parent in owed else law_after(parent)
        assert guess.target_prob == pytest.approx(float(law[guess.token.id]), abs=1e-9)
        for candidate in guess.target_law.top:
            assert candidate.prob == pytest.approx(float(law[candidate.token.id]), abs=1e-9)
        assert guess.accept_prob == pytest.approx(min(1, guess.target_prob / guess.draft_prob))
        ended = made.emitted is None and made.path[-1] in path
        if parent in alive and not ended:
            passes = guess.draw * guess.draft_prob < guess.target_prob
            assert guess.verdict == ("accepted" if passes else "rejected")
            if passes:
                path.append(slot)
                alive = alive - {parent} | {slot}
        else:
            assert (guess.verdict, guess.draw) == ("discarded", None)
        texts[slot] = [*texts[parent], guess.token.id]
        owed[parent] = residual(law, run.checked.draft_probs[slot])
    assert made.path == tuple(path[1:])
    if made.emitted is not None:
        law = owed[path[-1]] if path[-1] in owed else law_after(path[-1])
        assert made.emitted.kind == ("recovered" if path[-1] in owed else "bonus")
        assert made.emitted.prob == pytest.approx(float(law[made.emitted.token.id]), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_trees_and_drafters_that_share_or_keep_caches_take_turns(seed):
    """The target's own first layers find its rows where a kept branch has put them."""
    chance = random.Random(seed)
    target, draft = Runner(TINY), Runner(kit.TINY_D)
    model = ModelDrafter("model", draft)
    made = {
        "tree": Bush(seed), "model": model, "skip": LayerSkipDrafter(1, target.first_layers(1)),
    }  # fmt: skip
    uniform = torch.full((kit.TINY_VOCAB,), 1 / kit.TINY_VOCAB, dtype=torch.float64)
    run = Session(target, Words(), made.__getitem__, uniform, header(PROMPT, GREEDY))
    while run.finished is None:
        name = chance.choice(("tree", "tree", "model", "skip"))
        back = run.made - (run.made > 2 and chance.random() < 0.2)
        run.rewind(back, replace(GREEDY, drafter=name, k=chance.randrange(8)))
        before = list(run.ids)
        if run.finished is not None:
            break
        made_round = run.advance()
        audit(target, run.ids)
        audit(draft, model._known)
        if name == "skip":
            for guess in made_round.guesses:
                wanted = Runner(TINY.first_layers(1)).forward(before)[-1].argmax()
                assert guess.token.id == int(wanted)
                before.append(guess.token.id)
    assert kit.committed(run) == ORACLE[:24]


@pytest.mark.parametrize("twin", [SeesSiblings, StandsBySlot, KeepsOldHidden, KeepsTheFirst])
def test_a_target_whose_trees_are_wrong_is_caught(twin):
    caught = 0
    for seed in range(6):
        try:
            walk(twin, seed, temperature=0.0)
        except AssertionError:
            caught += 1
    assert caught >= 4


# --- what ends a text, and what goes wrong --------------------------------------------------------


def oracle_tree(wrong_at: int = -1):
    """A tree whose younger branch is the target's own text, beside wrong guesses at each fork.

    At the guess `wrong_at` (counted over the text) nobody is right.
    """

    def propose(ids, request):
        tokens, parents, last = [], [], ROOT
        at = len(ids) - len(PROMPT)
        while len(tokens) < request.k:
            right = ORACLE[at % len(ORACLE)]
            wrong = (right + 1) % kit.TINY_VOCAB
            elder, younger = (wrong, (right + 2) % kit.TINY_VOCAB if at == wrong_at else right)
            for token in (elder, younger)[-(request.k - len(tokens)) :]:
                tokens.append(token)
                parents.append(last)
            last, at = len(tokens) - 1, at + 1
        laws = tuple(request.certain(token) for token in tokens)
        none = (None,) * len(tokens)
        return Proposal(tuple(tokens), laws, ("script",) * len(tokens), none, (), tuple(parents))

    class Fork:
        name, context = "script", None
        observe = staticmethod(lambda ids: None)

    Fork.propose = staticmethod(propose)
    return Fork()


@settings(max_examples=120, deadline=None)
@given(
    end=st.sampled_from(ENDS),
    at=st.integers(0, 14),
    ks=st.lists(st.integers(0, 8), min_size=1, max_size=3),
    wrong_at=st.integers(-1, 14),
)
def test_whatever_ends_a_text_cuts_a_path_where_it_ends(end, at, ks, wrong_at):
    """B27 for trees: at any node of a path, a correction or a bonus; nothing after it stays."""
    check_end(Runner(TINY), oracle_tree(wrong_at), end, at, ks)


@pytest.mark.parametrize("at", range(6))
def test_end_of_text_at_each_node_of_a_path(at):
    target = Runner(TINY)
    rounds = check_end(target, oracle_tree(), "eos", at, [8])
    assert len(rounds) == 1 + (ORACLE.index(ORACLE[at]) > 4)  # four levels and the target's token
    if at < 4:
        (made,) = rounds
        assert made.emitted is None
        verdicts = [guess.verdict[0] for guess in made.guesses]
        assert verdicts == ["r", "a"] * (at + 1) + ["d"] * (6 - 2 * at)


def check_end(target, drafter, end, at, ks):
    last = ORACLE[at]
    count = at + 1 if end in ("length", "context") else ORACLE.index(last) + 1
    words = Words((last,) if end == "eos" else (), {last: "<stop>"} if end == "stop" else None)
    run = session(
        target, drafter,
        header(PROMPT, GREEDY,
               stop=("stop>",) if end == "stop" else (),
               max_new_tokens=count if end == "length" else 99,
               context_limit=len(PROMPT) + count if end == "context" else 128),
        words,
    )  # fmt: skip
    rounds = []
    while run.finished is None:
        run.rewind(run.made, replace(GREEDY, k=ks[run.made % len(ks)]))
        rounds.append(run.advance())
        check_round(run, rounds[-1])
    assert run.finished.reason == end
    assert kit.committed(run) == ORACLE[:count]
    seen = fold([run.header, *rounds, run.finished])
    assert [token.id for token in seen.committed] == ORACLE[:count]
    assert len(run.choices) == Stats.of(rounds).committed == count
    for place, choice in enumerate(run.choices):
        assert choice.best[0].token.id == ORACLE[place]
    assert target.length == len(run.ids) - 1
    audit(target, run.ids)
    return rounds


@pytest.mark.parametrize(
    "fault",
    [
        ("engine.decode.Session._until_end", lambda self, tokens: (len(tokens), None)),
        ("engine.llama.Runner.keep", lambda self, rows: self.rollback(rows[-1] + 1)),
        ("engine.evidence._verdicts", lambda parents, path, ended: [
            "accepted" if slot in path else "rejected" for slot, _ in enumerate(parents)]),
        ("engine.verification.Verdict.rows", property(lambda self: [0, *self.path])),
    ],
    ids=["all is kept", "rows stay where they are", "all others were judged", "rows by slot"],
)  # fmt: skip
def test_a_path_cut_otherwise_is_caught(monkeypatch, fault):
    monkeypatch.setattr(*fault)
    caught = 0
    for end, at in itertools.product(ENDS, (1, 2, 3)):
        try:
            check_end(Runner(TINY), oracle_tree(), end, at, [8])
        except (AssertionError, ValueError):
            caught += 1
    assert caught


def test_a_cancelled_run_of_trees_stops_where_it_is():
    target = Runner(TINY)
    run = session(target, Bush(3), header(PROMPT, GREEDY))
    rounds = [run.advance(), run.advance()]
    run.cancel()
    assert run.finished.reason == "cancelled"
    assert sampled_tokens(rounds) == kit.committed(run) == ORACLE[: len(kit.committed(run))]
    audit(target, run.ids)


class Faltering(Runner):
    """A target that fails in the midst of a round, its rows already written."""

    fails = ()

    def forward(self, ids, last_only=False, parents=None):
        logits = super().forward(ids, last_only, parents)
        if "pass" in self.fails and parents is not None:
            raise torch.OutOfMemoryError("out of memory")
        return logits

    def keep(self, rows):
        if "keep" in self.fails:
            raise torch.OutOfMemoryError("out of memory")
        super().keep(rows)


@pytest.mark.parametrize("fails", ["pass", "keep"])
def test_a_round_that_fails_midway_leaves_no_trace(fails):
    target = Faltering(TINY)
    run = session(target, oracle_tree(), header(PROMPT, GREEDY))
    run.advance()
    before = run.ids, run.made
    target.fails = (fails,)
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            run.advance()
    assert (run.ids, run.made) == before
    target.fails = ()
    list(run.rounds())
    assert kit.committed(run) == ORACLE[:24]
    audit(target, run.ids)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parents": (0, ROOT)}, "comes before the one it follows"),
        ({"tokens": (7, 7), "parents": (ROOT, ROOT)}, "are the same"),
        ({"k": 3}, "3 guesses where 2 were wanted"),
    ],
)
def test_a_drafter_that_makes_no_tree_is_named(change, words):
    class Crooked(TreeScript):
        def propose(self, ids, request):
            asked = replace(request, k=change.get("k", request.k))
            shown = {name: each for name, each in change.items() if name != "k"}
            return replace(super().propose(ids, asked), **shown)

    law = torch.full((kit.TINY_VOCAB,), 1 / kit.TINY_VOCAB, dtype=torch.float64)
    drafter = Crooked(lambda text: law, lambda index, k: (ROOT,) * k)
    run = session(Runner(TINY), drafter, header(PROMPT, replace(GREEDY, k=2, temperature=1.0)))
    with pytest.raises(DecodeError, match=words):
        run.advance()


def test_a_tree_may_be_as_wide_as_the_room_that_is_left():
    """No row past the context, no guess of no use."""
    for k in range(9):
        run = session(
            Runner(TINY, len(PROMPT) + 4), oracle_tree(), header(PROMPT, replace(GREEDY, k=k))
        )
        widths = [len(made.guesses) for made in run.rounds()]
        assert widths[0] == min(k, 3)
        assert run.finished.reason == "context"
        assert kit.committed(run) == ORACLE[:4]


# --- evidence -------------------------------------------------------------------------------------


def test_a_round_of_siblings_says_what_each_was_tested_against():
    """One-hot siblings 1 and 2 of (.5, .3, .2): .3 of all, then .2 of the .7 that are left."""
    law = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    order = torch.tensor([0.1, 0.5, 0.4], dtype=torch.float64)
    drafter = TreeScript(lambda text: order, lambda index, k: (ROOT, ROOT, 0, 1)[:k], certain=True)
    s = Settings("script", 4, temperature=1.0)
    run = session(TableModel(lambda text: law), drafter, header([0], s), vocab=3)

    class Fixed:
        def uniform(self, stream, index, slot=0):
            return (0.31, 0.28, 0.9, 0.9)[slot] if stream == "accept" else 0.99

    run._draws = Fixed()
    made = run.advance()
    assert [guess.verdict for guess in made.guesses] == [
        "rejected", "accepted", "discarded", "rejected"
    ]  # fmt: skip
    assert [guess.parent for guess in made.guesses] == [ROOT, ROOT, 0, 1] == list(made.parents)
    assert [guess.draw for guess in made.guesses] == [0.31, 0.28, None, 0.9]
    assert [guess.accept_prob for guess in made.guesses] == pytest.approx([0.3, 2 / 7, 0.3, 0.3])
    assert [guess.target_prob for guess in made.guesses] == pytest.approx([0.3, 2 / 7, 0.3, 0.3])
    assert [(c.token.id, c.prob) for c in made.guesses[1].target_law.top] == [
        (0, pytest.approx(5 / 7)), (2, pytest.approx(2 / 7))
    ]  # fmt: skip
    assert (made.path, made.accepted, made.emitted.kind) == ((1,), 1, "recovered")
    assert [c.prob for c in made.emitted.law.top] == pytest.approx([5 / 7, 2 / 7])
    assert [c.prob for c in made.emitted.target_law.top] == pytest.approx([0.5, 0.3, 0.2])
    assert [token.id for token in made.committed] == [2, 2]


def test_the_same_seed_repeats_the_same_trees_after_a_rewind():
    s = replace(GREEDY, k=6, temperature=0.8)
    law = kit.random_law(3, kit.TINY_VOCAB)
    drafter = TreeScript(lambda text: law(tuple(text[-2:])), lambda index, k: random_shape(
        random.Random(index), k))  # fmt: skip
    run = session(Runner(TINY), drafter, header(PROMPT, s, seed=4))
    first = list(run.rounds())
    run.rewind(2, s)
    again = [*first[:2], *run.rounds()]
    timeless = [replace(m, verify_seconds=0, evidence_seconds=0, cold=False) for m in first]
    assert timeless == [replace(m, verify_seconds=0, evidence_seconds=0, cold=False) for m in again]


def test_the_proof_of_a_law_holds_for_trees_and_its_control_is_caught():
    target_law, draft_law = kit.random_law(1, 4), kit.random_law(2, 4)

    def begin(s):
        drafter = TreeScript(lambda text: draft_law(tuple(text)), lambda i, k: (ROOT, ROOT, 0)[:k])
        target = TableModel(lambda text: target_law(text[-2:]))
        return session(target, drafter, header([0], s, max_new_tokens=4), vocab=4)

    s = Settings("script", 3, temperature=1.0)
    proof = prove.sampled(begin, s, 300)
    assert proof.holds
    assert proof.pull.places > 300
    assert prove.control(begin, s, 300).p_value < 1e-4
