"""Trees of guesses: laws that were drawn from, the best shape, rows read right, an exact text."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.drafters.eagle import EagleDrafter, EagleTreeDrafter, FusedRunner, before
from engine.drafters.medusa import Heads, MedusaDrafter, MedusaTreeDrafter
from engine.drafters.proposal import Drafter, DraftRequest, Proposal
from engine.drafters.tree import HOPE, Tree, grow
from engine.evidence import confidences
from engine.llama import Runner, TorchKernel
from engine.sampling import Draws, penalise
from engine.trace import Settings
from engine.verification import ROOT, check_tree, verify_tree
from tests.engine import kit
from tests.engine.enumeration import Chances, Text, difference, extend, near
from tests.engine.kit import TINY, TINY_VOCAB, header, session
from tests.engine.runs import GREEDY, ORACLE, PROMPT, essence
from tests.engine.test_eagle import FUSION, LAYER, audit, features_of, fused
from tests.engine.test_medusa import heads

LETTERS = 3
UNIGRAM = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
FLAT = torch.full((TINY_VOCAB,), 1 / TINY_VOCAB, dtype=torch.float64)
SHAPE = [(0,), (0, 0), (1,), (1, 0), (0, 1), (0, 0, 0), (2,), (1, 0, 0), (1, 0, 0, 0)]


@cache
def scores_after(text: Text) -> Tensor:
    """Logits of a made-up drafter over three letters."""
    key = hash((17, *text)) % 2**31
    return torch.randn(LETTERS, generator=torch.Generator().manual_seed(key)).double() * 1.5


def grown(request: DraftRequest, grower: Callable[..., object] = grow) -> Proposal:
    """The tree that `grow` draws with that drafter after an empty text."""
    tree = Tree((), request)
    grower(tree, request.k, lambda node: scores_after(tuple(tree._text(node))))
    return tree.proposal("model", [])


def texts_of(proposal: Proposal) -> list[Text]:
    """What each node reads from the root down."""
    texts: list[Text] = []
    assert proposal.parents is not None
    for token, parent in zip(proposal.tokens, proposal.parents, strict=True):
        texts.append((*(texts[parent] if parent != ROOT else ()), token))
    return texts


# --- laws -----------------------------------------------------------------------------------


class Undecided(Exception):
    """A guess is to be drawn from this law, and nobody said how it shall come out."""


@dataclass(frozen=True, slots=True)
class Forced(DraftRequest):
    """Has its guesses come out as `tokens`, one after another."""

    tokens: tuple[int, ...] = ()

    def draw(self, slot: int, law: Tensor) -> int:
        if slot == len(self.tokens):
            raise Undecided(law)
        return self.tokens[slot]


Propose = Callable[[DraftRequest], Proposal]


def outcomes(propose: Propose, request: Forced) -> Iterator[tuple[Proposal, float]]:
    """Every tree that can be drawn and its chance, by the laws that guesses really come from."""
    pending = [(request.tokens, 1.0)]
    while pending:
        tokens, chance = pending.pop()
        try:
            yield propose(replace(request, tokens=tokens)), chance
        except Undecided as undecided:
            (law,) = undecided.args
            pending += [
                ((*tokens, token), chance * float(law[token]))
                for token in law.nonzero().squeeze(-1).tolist()
            ]


target_law = kit.random_law(11, LETTERS)


def error(propose: Propose, k: int, **changes: object) -> float:
    """How far what a round and the target after it write is from the target's own law.

    Every token of every law is drawn, every guess passes and fails; nothing is sampled. The laws
    the verification is given are those the proposal states.
    """
    out: Chances = defaultdict(float)
    for proposal, chance in outcomes(propose, Forced(k, Settings(**changes), UNIGRAM, Draws(0), 0)):
        texts, parents, tokens = texts_of(proposal), proposal.parents or (), proposal.tokens
        target_rows = torch.stack([target_law(()), *map(target_law, texts)])
        laws = proposal.draft_probs(target_rows)
        stated = verify_tree(target_rows, laws, tokens, parents, [0.0] * len(tokens), 0.5)
        for passing in itertools.product((True, False), repeat=len(tokens)):
            weight, draws = chance, []
            for passes, accept in zip(passing, stated.accept_probs, strict=True):
                weight *= accept if passes else 1 - accept
                draws.append(near(accept, passes))
            if weight > 0:
                verdict = verify_tree(target_rows, laws, tokens, parents, draws, 0.5)
                kept = texts[verdict.path[-1]] if verdict.path else ()
                for token, emit in enumerate(verdict.emit_probs.tolist()):
                    out[(*kept, token)] += weight * emit
    return difference(target_law, k + 1, extend(out, target_law, k + 1))


LAWS = list(itertools.product((0.0, 0.7), (100.0, 40.0, 0.0)))


@pytest.mark.parametrize(("temperature", "quality"), LAWS)
@pytest.mark.parametrize("k", [1, 2, 4])
def test_whatever_tree_is_grown_the_text_has_the_target_s_law(temperature, quality, k):
    assert error(grown, k, temperature=temperature, quality=quality) < 1e-6


@pytest.mark.parametrize(
    "shaped", [{"top_k": 1}, {"top_p": 0.5}, {"min_p": 0.6}, {"repetition_penalty": 3.0}], ids=str
)
def test_whatever_filters_shape_the_laws_of_siblings(shaped):
    """A sibling's law is filtered among what its elder ones left, and stated so."""
    for quality in (100.0, 40.0):
        assert error(grown, 3, temperature=0.9, quality=quality, **shaped) < 1e-6


def letter_heads() -> Heads:
    generator = torch.Generator().manual_seed(5)
    maps = torch.randn(2, LETTERS, LETTERS, generator=generator).double() * 2
    return Heads(maps, torch.zeros_like(maps), lambda hidden: hidden)


@pytest.mark.parametrize(("temperature", "quality"), LAWS)
def test_whatever_tree_heads_draw_the_text_has_the_target_s_law(temperature, quality):
    drafter = MedusaTreeDrafter(letter_heads(), [path for path in SHAPE if len(path) < 3])
    features = torch.ones(1, LETTERS, dtype=torch.float64)

    def propose(request: DraftRequest) -> Proposal:
        return drafter.propose([0, 0], replace(request, features=features))

    assert error(propose, 4, temperature=temperature, quality=quality) < 1e-6


def siblings(tree: Tree, count: int, read: Callable[[int], Tensor]) -> None:
    """So many guesses after the text."""
    scores = read(ROOT)
    for _ in range(count):
        law = tree.law(ROOT, scores)
        assert law is not None
        tree.add(ROOT, law, scores)


def keeps_the_better(tree: Tree, k: int, read: Callable[[int], Tensor]) -> None:
    """The broken twin: draws one guess too many, and drops the one that looks worse."""
    siblings(tree, k + 1, read)
    worst = min(range(k + 1), key=lambda node: float(read(ROOT)[tree.tokens[node]]))
    for each in (tree.tokens, tree.parents, tree._laws, tree._scores):
        del each[worst]


def states_the_whole_law(tree: Tree, k: int, read: Callable[[int], Tensor]) -> None:
    """The broken twin: siblings are drawn without the elder ones, and said to be from the whole."""
    siblings(tree, k, read)
    tree._laws[1:] = tree._laws[:1] * (k - 1)


@pytest.mark.parametrize(("k", "grower"), [(1, keeps_the_better), (2, states_the_whole_law)])
def test_the_enumeration_catches_laws_that_are_not_those_drawn_from(k, grower):
    assert error(lambda request: grown(request, siblings), k, temperature=0.7) < 1e-6
    assert error(lambda request: grown(request, grower), k, temperature=0.7) > 1e-3


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("quality", [100.0, 40.0])
def test_each_guess_is_drawn_with_the_uniform_of_its_slot(temperature, quality):
    features = features_of(PROMPT)
    chosen = Settings(temperature=temperature, quality=quality, top_k=9, repetition_penalty=1.2)
    request = DraftRequest(7, chosen, FLAT, Draws(0), 0, features=features)
    drafters: list[Drafter] = [
        EagleTreeDrafter("eagle-tree", fused()), MedusaTreeDrafter(heads(), SHAPE)
    ]  # fmt: skip
    for drafter in drafters:
        proposal = drafter.propose(PROMPT, request)
        assert len(proposal.tokens) == 7
        for slot, (token, law) in enumerate(zip(proposal.tokens, proposal.laws, strict=True)):
            assert float(law.sum()) == pytest.approx(1, abs=1e-6)
            assert request.draw(slot, law) == token


@pytest.mark.parametrize("penalty", [1.0, 1.4])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_tree_tells_how_sure_its_drafter_was_of_each_guess(temperature, penalty):
    """What made it grow there, whatever was drawn: at temperature 0 no law shows it."""
    chosen = Settings(temperature=temperature, repetition_penalty=penalty)
    request = DraftRequest(7, chosen, UNIGRAM, Draws(0), 0)
    proposal = grown(request)
    texts = texts_of(proposal)
    sure = confidences(proposal)
    for text, chance in zip(texts, sure, strict=True):
        scores = penalise(scores_after(text[:-1])[None], text[:-1], penalty)[0]
        assert chance == pytest.approx(float(scores.softmax(-1)[text[-1]]), abs=1e-9)
    drafter = MedusaTreeDrafter(heads(), SHAPE)
    told = drafter.propose(PROMPT, replace(request, unigram=FLAT, features=features_of(PROMPT)))
    assert all(0.0 < chance < 1.0 for chance in confidences(told))
    said = heads().logits(features_of(PROMPT)[len(PROMPT) - 2]).softmax(-1)
    if penalty == 1.0:
        own = [float(said[len(t) - 1][t[-1]]) for t in texts_of(told)]
        assert confidences(told) == pytest.approx(own, abs=1e-9)


def test_a_confidence_read_from_the_law_drawn_from_is_found():
    """The broken twin: at temperature 0 every guess would be certain."""
    proposal = grown(DraftRequest(7, Settings(), UNIGRAM, Draws(0), 0))
    laws = replace(proposal, scores=tuple(law.log() for law in proposal.laws))
    assert confidences(laws) == [1.0] * 7
    assert max(chance for chance in confidences(proposal) if chance is not None) < 1.0


# --- shape ----------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [1.0, 1.4])
@pytest.mark.parametrize("k", [1, 2, 5, 9, 16])
def test_the_tree_grown_holds_the_likeliest_texts_of_all(k, penalty):
    """The oracle: every text of up to eight letters, sorted by what the drafter gives it."""
    worth: dict[Text, float] = {(): 1.0}
    for length in range(8):
        for text in itertools.product(range(LETTERS), repeat=length):
            scores = penalise(scores_after(text)[None], text, penalty)[0]
            for letter, chance in enumerate(scores.softmax(-1).tolist()):
                worth[(*text, letter)] = worth[text] * chance
    best = sorted(worth, key=lambda text: -worth[text])[1 : k + 1]
    assert max(map(len, best)) < 8  # longer ones could not be among them
    request = DraftRequest(k, Settings(repetition_penalty=penalty), UNIGRAM, Draws(0), 0)
    assert texts_of(grown(request, partial(grow, hope=1.0))) == best


def level_by_level(tree: Tree, k: int, read: Callable[[int], Tensor]) -> None:
    """The broken twin: two children for everyone, in order."""
    for node in itertools.chain([ROOT], itertools.count()):
        scores = tree.scores(node, read(node))
        for _ in range(min(2, k - len(tree))):
            law = tree.law(node, scores)
            assert law is not None
            tree.add(node, law, scores)
        if len(tree) == k:
            return


def test_the_oracle_of_shapes_catches_a_tree_grown_level_by_level():
    request = DraftRequest(9, Settings(), UNIGRAM, Draws(0), 0)
    best = grown(request, partial(grow, hope=1.0))
    assert set(texts_of(grown(request, level_by_level))) != set(texts_of(best))


def test_less_hope_saves_steps_and_loses_little_of_the_best_tree():
    """Over made-up drafts: fewer reads, and nearly the chances of the best tree's nodes."""

    def made(first: int, hope: float) -> tuple[int, float]:
        tree = Tree((first,), DraftRequest(8, Settings(), UNIGRAM, Draws(0), 0))
        chances = {ROOT: 1.0}

        def read(node: int) -> Tensor:
            return scores_after(tuple(tree._text(node)))

        steps = grow(tree, 8, read, hope)
        for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
            chances[node] = chances[parent] * float(read(parent).softmax(-1)[token])
        return len(steps), sum(chances.values())

    found = {hope: [made(first, hope) for first in range(100, 130)] for hope in (1.0, HOPE)}
    (most, best), (steps, worth) = (
        tuple(map(sum, zip(*each, strict=True))) for each in found.values()
    )
    assert steps < 0.8 * most
    assert 0.95 * best < worth <= best


@settings(max_examples=60, deadline=None)
@given(
    k=st.integers(1, 16),
    seed=st.integers(0, 99),
    temperature=st.sampled_from([0.0, 0.7, 1.3]),
    quality=st.sampled_from([100.0, 40.0, 0.0]),
)
def test_it_is_a_tree_of_at_most_k_and_a_smaller_one_is_how_it_began(k, seed, temperature, quality):
    chosen = Settings(temperature=temperature, quality=quality)
    reads = []

    def made(count: int) -> Proposal:
        request = DraftRequest(count, chosen, UNIGRAM, Draws(seed), 0)
        tree = Tree((), request)

        def read(node: int) -> Tensor:
            reads.append(node)
            return scores_after(tuple(tree._text(node)))

        steps = grow(tree, count, read)
        assert len(steps) == len(reads) <= count
        reads.clear()
        return tree.proposal("model", steps)

    whole = made(k)
    check_tree(whole.tokens, whole.parents or ())
    assert len(whole.tokens) == k
    fewer = made(max(1, k - 1))
    assert fewer.tokens == whole.tokens[: max(1, k - 1)]
    assert fewer.parents == (whole.parents or ())[: max(1, k - 1)]


def test_where_the_vocabulary_is_used_up_the_tree_stays_smaller():
    """A drafter that knows one token: one child for each node, and a chain it is."""
    only = torch.tensor([-torch.inf, 2.0, -torch.inf]).double()
    tree = Tree((), DraftRequest(4, Settings(), UNIGRAM, Draws(0), 0))
    grow(tree, 4, lambda node: only)
    assert tree.parents == [-1, 0, 1, 2]
    silent = MedusaTreeDrafter(
        replace(letter_heads(), score=lambda hidden: only.expand(2, 3)), SHAPE[:5]
    )
    request = DraftRequest(9, Settings(), UNIGRAM, Draws(0), 0, features=torch.ones(1, 3).double())
    proposal = silent.propose([0, 0], request)
    assert (proposal.tokens, proposal.parents) == ((1, 1), (-1, 0))


# --- Medusa's tree --------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3, 6, 9, 16])
def test_heads_draw_the_first_nodes_of_their_shape_each_from_the_head_of_its_depth(k):
    features = features_of(PROMPT)
    request = DraftRequest(k, Settings(), FLAT, Draws(0), 0, features=features)
    proposal = MedusaTreeDrafter(heads(), SHAPE).propose(PROMPT, request)
    order = heads().logits(features[-1]).argsort(-1, descending=True)
    expected = [
        tuple(int(order[place, rank]) for place, rank in enumerate(path)) for path in SHAPE[:k]
    ]
    assert texts_of(proposal) == expected
    assert len(proposal.step_seconds) == 1
    assert set(proposal.sources) == {"head"}


@pytest.mark.parametrize("chain_and_tree", [
    (MedusaDrafter(heads()), MedusaTreeDrafter(heads(), SHAPE)),
    (EagleDrafter("eagle", fused()), EagleTreeDrafter("eagle-tree", fused())),
])  # fmt: skip
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_tree_of_one_is_the_chain_s_first_guess(chain_and_tree, temperature):
    request = DraftRequest(
        1, Settings(temperature=temperature), FLAT, Draws(3), 0, features=features_of(PROMPT)
    )
    first, only = (drafter.propose(PROMPT, request) for drafter in chain_and_tree)
    assert first.tokens == only.tokens
    assert torch.equal(first.laws[0], only.laws[0])
    assert only.parents == (-1,)


# --- EAGLE's rows ---------------------------------------------------------------------------


def request_for(ids: Sequence[int], k: int, **changes: object) -> DraftRequest:
    return DraftRequest(k, Settings(**changes), FLAT, Draws(0), 0, features=features_of(ids))


def fresh_tree(ids: Sequence[int], k: int) -> Proposal:
    """The oracle: for every node a fresh runner that reads the text and the node's line alone."""
    tree = Tree(ids, request_for(ids, k))

    def read(node: int) -> Tensor:
        runner = fused()
        logits = runner.read(ids, before(features_of(ids), 0, len(ids)))
        for token in tree._text(node)[len(ids) :]:
            logits = runner.read([token], runner.last)
        return logits

    grow(tree, k, read)
    return tree.proposal("model", [])


def same_tree(mine: Proposal, theirs: Proposal) -> bool:
    return (mine.tokens, mine.parents) == (theirs.tokens, theirs.parents)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_it_draws_the_tree_of_the_text_it_is_given_however_that_changed(seed):
    chance = random.Random(seed)
    runner = fused()
    drafter = EagleTreeDrafter("eagle-tree", runner)
    text = [chance.randrange(TINY_VOCAB)]
    for _ in range(5):
        text = text[: chance.randrange(1, len(text) + 1)]
        text += [chance.randrange(TINY_VOCAB) for _ in range(chance.choice((0, 1, 2, 5, 40)))]
        text = text[:90]
        k = chance.randrange(1, 12)
        drafter.observe(text)
        assert same_tree(drafter.propose(text, request_for(text, k)), fresh_tree(text, k))
        audit(runner, text)


class ReadsInARow(FusedRunner):
    """The broken twin: every guess is read as if it followed the one read before it."""

    def read(self, ids, features, parents=None):
        return super().read(ids, features)


def test_the_oracle_catches_rows_that_follow_the_wrong_one():
    drafter = EagleTreeDrafter("eagle-tree", fused(ReadsInARow))
    assert not same_tree(drafter.propose(PROMPT, request_for(PROMPT, 11)), fresh_tree(PROMPT, 11))


class Told(FusedRunner):
    """Where `right` says so, what follows the target's own text is the target's next token."""

    right: Callable[[int], bool] = staticmethod(lambda at: True)

    def read(self, ids, features, parents=None):
        start = self.length
        logits = super().read(ids, features, parents).clone()
        places = self.__dict__.setdefault("places", {})
        at = start + len(ids) if parents is None else places[parents[0]] + 1
        places[self.length - 1] = at
        written = at - len(PROMPT)
        if 0 <= written < len(ORACLE) and self.right(written):
            logits[ORACLE[written]] = logits.max() + 3
        return logits


def told(right: Callable[[int], bool] = lambda at: True) -> Told:
    runner = fused(Told)
    assert isinstance(runner, Told)
    runner.right = right
    return runner


class KeepsGuesses(EagleTreeDrafter):
    """The broken twin: a guess's row stays if the guess turns out right."""

    def propose(self, ids, request):
        proposal = super().propose(ids, request)
        self._held.append(proposal.tokens[0])
        return proposal


def rows_after_each_round(drafter: EagleTreeDrafter, k: int) -> list[int]:
    """Run; after each proposal audit the rows. Returns how many were accepted."""
    run = session(Runner(TINY), drafter, header(PROMPT, replace(GREEDY, k=k), max_new_tokens=30))
    accepted = []
    while run.finished is None:
        text = list(run.ids)
        made = run.advance()
        if made.guesses:
            assert made.is_tree
            audit(drafter._runner, text)
        accepted.append(made.accepted)
    assert kit.committed(run) == ORACLE[:30]
    return accepted


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_after_a_round_rows_are_read_again_with_true_features(k):
    """Audited before every round; paths of several nodes were accepted."""
    accepted = rows_after_each_round(EagleTreeDrafter("eagle-tree", told()), k)
    assert max(accepted) >= min(k, 3)


def test_the_audit_catches_rows_that_keep_guessed_features():
    with pytest.raises(AssertionError):
        rows_after_each_round(KeepsGuesses("eagle-tree", told()), 5)


# --- the text -------------------------------------------------------------------------------


def drafters() -> list[Drafter]:
    return [
        EagleTreeDrafter("eagle-tree", told(lambda at: at % 3 != 1)),
        MedusaTreeDrafter(heads(), SHAPE),
    ]


@pytest.mark.parametrize("quality", [100.0, 60.0, 0.0])
@pytest.mark.parametrize("which", [0, 1])
def test_greedy_text_is_the_target_s_own_while_k_changes_and_rounds_are_taken_back(quality, which):
    chance = random.Random(int(quality))
    run = session(Runner(TINY), drafters()[which], header(PROMPT, GREEDY, max_new_tokens=36))
    drafted = 0
    for _ in range(9):
        if run.finished is None:
            drafted += len(run.advance().guesses)
        to_round = max(0, run.made - chance.randrange(3))
        run.rewind(to_round, replace(GREEDY, k=chance.randrange(0, 12), quality=quality))
    drafted += sum(len(made.guesses) for made in run.rounds())
    assert drafted > 0
    assert kit.committed(run)[:36] == ORACLE[:36]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_exactly_n_tokens_and_no_guess_of_no_use(which, k):
    """B28 for trees, whose nodes might all be of one branch."""
    for count in range(9):
        s = replace(GREEDY, k=k)
        run = session(Runner(TINY), drafters()[which], header(PROMPT, s, max_new_tokens=count))
        room = count
        for made in run.rounds():
            assert len(made.guesses) <= min(k, room - 1)
            room -= len(made.committed)
        assert room == 0
        assert kit.committed(run) == ORACLE[:count]


@pytest.mark.parametrize("which", [0, 1])
def test_an_identical_run_later_is_drafted_alike(which):
    """B11: whatever a drafter has kept of the run before."""
    target, drafter, runs = Runner(TINY), drafters()[which], []
    for text in (PROMPT, [7, *PROMPT], PROMPT):
        run = session(target, drafter, header(text, replace(GREEDY, k=5), max_new_tokens=16))
        runs.append([[g.token.id for g in made.guesses] for made in run.rounds()])
    assert runs[0] == runs[2] != runs[1]


@pytest.mark.parametrize("k", [1, 5, 16])
def test_a_text_goes_on_past_the_drafter_s_context(k):
    room = len(PROMPT) + 12
    runner = Told(LAYER, FUSION, room, TorchKernel(LAYER, room))
    drafter = EagleTreeDrafter("eagle-tree", runner)
    run = session(Runner(TINY), drafter, header(PROMPT, replace(GREEDY, k=k), max_new_tokens=30))
    nodes = [len(made.guesses) for made in run.rounds()]
    assert nodes[0] > 0
    assert nodes[-1] == 0
    assert kit.committed(run) == ORACLE[:30]
    run.rewind(0, replace(GREEDY, k=3))
    assert len(run.advance().guesses) == 3
    assert runner.length <= room


@pytest.mark.parametrize("which", [0, 1])
def test_a_rewind_that_changes_nothing_repeats_the_sampled_run(which):
    warm = Settings(drafter="tree", k=5, temperature=0.9, top_k=40, quality=80.0)

    def run():
        return session(Runner(TINY), drafters()[which], header(PROMPT, warm, seed=4))

    straight = list(run().rounds())
    taken_back = run()
    made = [taken_back.advance() for _ in range(5)]
    taken_back.rewind(2, warm)
    assert essence(made[:2] + list(taken_back.rounds())) == essence(straight)


@pytest.mark.parametrize("which", [0, 1])
def test_without_features_it_says_so(which):
    with pytest.raises(ValueError, match="features"):
        drafters()[which].propose(PROMPT, DraftRequest(4, Settings(), FLAT, Draws(0), 0))
