"""Every drafter by name: the law of whole runs is the target's, whatever it guessed and how.

Target and drafters are real ones, made tiny: three tokens, so that every branch of a run can be
walked. What a round leaves behind, at any refusal and at the end of a text, is looked at with more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from torch import Tensor

from engine.decode import DecodeError, Session
from engine.drafters.eagle import EagleDrafter, EagleTreeDrafter, FusedRunner
from engine.drafters.medusa import Heads, MedusaDrafter, MedusaTreeDrafter
from engine.drafters.model import LayerSkipDrafter, ModelDrafter
from engine.drafters.ngram import NGramDrafter
from engine.drafters.pard import MaskRunner, PardDrafter
from engine.drafters.proposal import Drafter, DraftRequest, Proposal, Step
from engine.drafters.retrieval import HybridDrafter, RetrievalDrafter
from engine.llama import LlamaConfig, Runner, TorchKernel
from engine.lowbit import Width, copy_of
from engine.sampling import penalise, process
from engine.trace import Round, Settings
from tests.engine import kit, tiny
from tests.engine.enumeration import difference
from tests.engine.kit import Words, audit, header, session
from tests.engine.test_drafters import store
from tests.engine.test_eagle import KeepsGuesses
from tests.engine.test_law import law_of_whole_runs
from tests.engine.test_pard import KeepsMasks
from tests.engine.test_tree_drafters import KeepsGuesses as KeepsGuessesOfTrees

CONFIG = LlamaConfig(
    vocab_size=3, hidden_size=8, mlp_size=8, layers=2, heads=2, kv_heads=1, head_dim=4,
    rope_theta=10000.0, norm_eps=1e-5, context=64,
)  # fmt: skip
THREE = tiny.weights(CONFIG, seed=3)
SAID = [0, 1, 2, 1, 0, 1]
"""The prompt of three tokens: its last two were there before, so that it can be copied."""

NAMES = (
    "model", "copy", "layer-skip", "pard", "eagle", "eagle-tree", "medusa", "medusa-tree",
    "n-gram", "retrieval", "hybrid",
)  # fmt: skip
"""A small model, low-bit copies and MTP are of the classes of `model`, `copy` and `eagle`."""

TREE = [(0,), (1,), (0, 0), (0, 1), (0, 0, 0), (0, 0, 0, 0)]


# --- the drafters -----------------------------------------------------------------------------


def random(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64) * shape[-1] ** -0.5


def drafter(name: str, target: Runner) -> Drafter:
    """A drafter of this name for a target, with weights made up for it."""
    w = target.weights
    hidden, context = w.config.hidden_size, w.config.context
    other = replace(tiny.weights(w.config, seed=8), embedding=w.embedding)
    layer = other.first_layers(1)
    # As small models do, it knows no more than some of the tokens: here, all but the last.
    known = torch.arange(w.config.vocab_size - 1)
    reduced = replace(layer, head=layer.head[known], vocab_ids=known)

    def fused() -> FusedRunner:
        fusion = random(5, hidden, 2 * hidden)
        return FusedRunner(layer, fusion, context, TorchKernel(layer, context))

    def heads() -> Heads:
        blocks = random(6, 4, hidden, hidden)
        return Heads(random(7, 4, hidden, hidden), blocks, lambda made: made @ w.head.T)

    def masked() -> MaskRunner:
        return MaskRunner(other, random(9, 2, hidden), context, TorchKernel(other, context))

    lookup = RetrievalDrafter(store([0, 1, 0, 2, 2, 1, 1, 0, 0, 1, 2, 0, 2, 1]))
    makers: dict[str, Callable[[], Drafter]] = {
        "model": lambda: ModelDrafter(name, Runner(reduced)),
        "copy": lambda: ModelDrafter(name, Runner(copy_of(w, Width(3)))),
        "layer-skip": lambda: LayerSkipDrafter(1, target.first_layers(1)),
        "pard": lambda: PardDrafter(name, masked()),
        "eagle": lambda: EagleDrafter(name, fused()),
        "eagle-tree": lambda: EagleTreeDrafter(name, fused()),
        "medusa": lambda: MedusaDrafter(heads()),
        "medusa-tree": lambda: MedusaTreeDrafter(heads(), TREE),
        "n-gram": NGramDrafter,
        "retrieval": lambda: lookup,
        "hybrid": lambda: HybridDrafter(lookup, EagleDrafter("eagle", fused())),
    }
    return makers[name]()


# --- the law of whole runs --------------------------------------------------------------------

LENGTH = 3


@cache
def alone(text: tuple[int, ...]) -> Tensor:
    """The target's own logits after a text, freshly read."""
    return Runner(THREE).forward([*SAID, *text])[-1]


def distance(
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Runner], Drafter],
    s: Settings,
    ks: Sequence[int] = (),
    end: int | None = None,
    length: int = LENGTH,
) -> float:
    """Largest difference between the law of whole runs and that of the target alone.

    Target and drafter go from run to run, and with them whatever they keep. After its `end`
    a text is taken to say nothing else.
    """
    target = Runner(THREE)
    made = make(target)
    run = header(SAID, s, max_new_tokens=max(length, s.k + 1))
    words = Words(() if end is None else (end,))
    found = law_of_whole_runs(monkeypatch, lambda: (target, made), run, 3, length, ks, words)
    padded = {(*text, *[end] * (length - len(text))): chance for text, chance in found.items()}

    def law(text: tuple[int, ...]) -> Tensor:
        if end in text:
            return torch.eye(3, dtype=torch.float64)[end]
        scores = penalise(alone(text)[None], (*SAID, *text), s.repetition_penalty)[0]
        return process(scores, s.temperature, s.top_k, s.top_p)

    return difference(law, length, padded)


WARM = Settings(k=2, temperature=1.0)
CASES = {
    "sampled": (WARM, (), None),
    "ends": (WARM, (), 0),
    "k changes": (replace(WARM, temperature=0.7, quality=50.0, top_p=0.9), (2, 0, 1), None),
    "penalty": (replace(WARM, repetition_penalty=1.8, top_k=2), (), None),
    "greedy": (replace(WARM, temperature=0.0), (2, 1), None),
    "greedy, less sure": (
        replace(WARM, temperature=0.0, quality=60.0, repetition_penalty=1.5), (), None
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", NAMES)
def test_the_law_of_whole_runs_is_the_target_s(monkeypatch, name, case):
    """B13, B23, B27: drafting, verdicts, caches, ends and what is kept from run to run."""
    assert distance(monkeypatch, partial(drafter, name), *CASES[case]) < 1e-12


@pytest.mark.parametrize("name", ["eagle-tree", "medusa-tree"])
def test_the_law_is_the_target_s_with_trees_that_branch_and_go_deeper(monkeypatch, name):
    make = partial(drafter, name)
    assert distance(monkeypatch, make, replace(WARM, k=3), end=0, length=2) < 1e-12


class Twin:
    """Stands around a drafter and does as it does, but for what its kind is named after."""

    def __init__(self, inner: Drafter) -> None:
        self.inner, self.name, self.context = inner, inner.name, inner.context

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        return self.inner.propose(ids, request)

    def observe(self, ids: Sequence[int]) -> None:
        self.inner.observe(ids)


class TellsAnother(Twin):
    """States other laws than its guesses were drawn from."""

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        made = super().propose(ids, request)
        return replace(made, laws=tuple((law + request.unigram) / 2 for law in made.laws))


class Peeks(Twin):
    """Looks at the draw that decides about its first guess, and keeps back one that may fail."""

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        likely = request.draws.uniform("accept", request.round_index) < 0.5
        return super().propose(ids, request) if likely else Proposal()


@pytest.mark.parametrize("twin", [TellsAnother, Peeks])
@pytest.mark.parametrize("name", NAMES)
def test_a_drafter_that_is_not_honest_is_caught(monkeypatch, name, twin):
    made = distance(monkeypatch, lambda target: twin(drafter(name, target)), WARM, length=2)
    assert made > 1e-3


class DrawsFirst(EagleDrafter):
    """Within a hybrid: it lets the memory speak where it dislikes what it drew."""

    def step(self, text: Sequence[int], slot: int, request: DraftRequest) -> Step:
        said = super().step(text, slot, request)
        liked = request.draw(slot, said.law) == 0
        return replace(said, scores=None if liked else said.scores)


class LeavesARow(LayerSkipDrafter):
    """Leaves the row of a guess in the place of the last one the target has read."""

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        made = super().propose(ids, request)
        self._runner.adopt(len(ids) - 2)
        self._runner.forward(made.tokens[:1])
        return made


def test_a_hybrid_in_which_a_draw_decides_who_speaks_is_caught(monkeypatch):
    def make(target: Runner) -> Drafter:
        hybrid = drafter("hybrid", target)
        hybrid._model.__class__ = DrawsFirst
        return hybrid

    assert distance(monkeypatch, make, WARM, length=2) > 1e-3


def test_a_layer_skip_that_leaves_a_row_of_a_guess_in_the_text_is_caught(monkeypatch):
    def make(target: Runner) -> Drafter:
        return LeavesARow(1, target.first_layers(1))

    assert distance(monkeypatch, make, WARM, length=2) > 1e-3


def test_a_text_that_goes_on_past_its_end_within_the_guesses_is_caught(monkeypatch):
    """The broken twin of the session: it looks for the end in its own token only."""
    monkeypatch.setattr(Session, "_until_end", only_the_last(Session._until_end))
    assert distance(monkeypatch, partial(drafter, "model"), *CASES["ends"]) > 1e-3


def only_the_last(until_end):
    def until(self, tokens):
        return len(tokens), until_end(self, tokens[-1:])[1]

    return until


# --- what a round leaves behind ---------------------------------------------------------------

NINE = tiny.weights(replace(CONFIG, vocab_size=9), seed=3)
K = 4
OFTEN = replace(WARM, k=K)


class Obliging(Runner):
    """A target that likes the first guess after anything, but so deep down: there, another token.

    It likes none where nobody guessed.
    """

    refuses = K

    def forward(
        self, ids: Sequence[int], last_only: bool = False, parents: Sequence[int] | None = None
    ) -> Tensor:
        logits = super().forward(ids, last_only, parents).clone()
        if last_only:
            return logits
        start = self.length - len(ids)
        after = range(start - 1, self.length - 1) if parents is None else parents
        loud = logits.max() + 50
        depths, guessed = {start: 0}, defaultdict(list)
        for row, parent in enumerate(after[1:], start + 1):
            depths[row] = depths[parent] + 1
            guessed[parent].append(ids[row - start])
        for row, tokens in guessed.items():
            others = (token for token in range(logits.shape[-1]) if token not in tokens)
            liked = next(others) if depths[row] == self.refuses else tokens[0]
            logits[row - start, liked] = loud
        return logits


class Watched(Twin):
    """Its guesses are those of a drafter that was made now and has read this text alone."""

    def __init__(self, name: str, inner: Drafter) -> None:
        super().__init__(inner)
        self._name = name

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        reader = Runner(NINE)
        reader.forward(ids[:-1])
        alike = replace(request, features=reader.hidden[: len(ids) - 1])
        fresh = drafter(self._name, reader).propose(ids, alike)
        made = super().propose(ids, request)
        assert (made.tokens, made.parents) == (fresh.tokens, fresh.parents)
        for mine, theirs in zip(made.laws, fresh.laws, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-9)
        return made


def first_branch(made: Round) -> list[int]:
    """The slots of the first guess, the first one after it, and so on."""
    slots: list[int] = []
    for slot, guess in enumerate(made.guesses):
        parent = slot - 1 if guess.parent is None else guess.parent
        if parent == (slots[-1] if slots else -1):
            slots.append(slot)
    return slots


def refused_at(depth: int, name: str, twin: type | None = None) -> list[int]:
    """Run with a refusal that deep in each round, and look at all that is kept.

    Returns how many guesses were accepted. `twin` is what the drafter is made, in its place.
    """
    target = Obliging(NINE)
    target.refuses = depth
    made = drafter(name, target)
    made.__class__ = twin or made.__class__
    run = session(target, Watched(name, made), header(SAID, OFTEN, max_new_tokens=12), vocab=9)
    accepted = []
    while run.finished is None:
        text = run.ids
        decided = run.advance()
        branch = first_branch(decided)
        accepted.append(decided.accepted)
        if run.finished is None:
            assert decided.accepted == min(depth, len(branch))
        kept = [decided.guesses[slot].token.id for slot in branch[: decided.accepted]]
        assert run.ids == (*text, *kept, decided.emitted.token.id)
        assert target.length == len(run.ids) - 1
        audit(target, run.ids)
    return accepted


@pytest.mark.parametrize("depth", range(K + 1))
@pytest.mark.parametrize("name", NAMES)
def test_after_a_refusal_at_each_index_guesses_are_those_of_a_fresh_reading(name, depth):
    """B02, B10: rows of refused guesses, and of accepted ones with guessed features, are gone."""
    accepted = refused_at(depth, name)
    if not name.endswith("-tree"):  # which need not grow so deep
        assert depth in accepted


class GoesByLength(ModelDrafter):
    """Takes what it has read for the text, as far as that goes."""

    def _keep(self, length: int) -> None:
        super()._keep(len(self._held))


BROKEN = {
    "model": GoesByLength,
    "layer-skip": LeavesARow,
    "pard": KeepsMasks,
    "eagle": KeepsGuesses,
    "eagle-tree": KeepsGuessesOfTrees,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_drafter_that_keeps_what_it_read_for_its_guesses_is_caught(name):
    with pytest.raises((AssertionError, DecodeError)):
        refused_at(2, name, BROKEN[name])


def ended_within_guesses(name: str) -> int:
    """End a text at each token in turn that is first said by a guess; how often others followed."""

    def run(*ends: int) -> Session:
        target = Obliging(NINE)
        kind = header(SAID, OFTEN, max_new_tokens=12)
        return session(target, drafter(name, target), kind, Words(ends), vocab=9)

    whole, followed = run(), 0
    for made in whole.rounds():
        text = kit.committed(whole)
        for guess in made.guesses:
            end = guess.token.id
            at = text.index(end) if end in text else len(text)
            before = len(text) - len(made.committed)
            if guess.verdict != "accepted" or at < before:
                continue
            cut = run(end)
            *_, last = cut.rounds()
            kept = [each.token.id for each in last.guesses if each.verdict == "accepted"]
            assert kit.committed(cut) == text[: at + 1]
            assert [token.id for token in last.committed] == kept == text[before : at + 1]
            assert (cut.finished.reason, last.emitted) == ("eos", None)
            assert {each.verdict for each in last.guesses} <= {"accepted", "discarded"}
            assert cut._target.length == len(cut.ids) - 1
            audit(cut._target, cut.ids)
            followed += len(kept) < made.accepted
    return followed


@pytest.mark.parametrize("name", NAMES)
def test_an_end_within_the_guesses_ends_the_text_there(name):
    """B27."""
    assert ended_within_guesses(name)


@pytest.mark.parametrize("name", NAMES)
def test_an_end_within_the_guesses_that_is_passed_over_is_caught(monkeypatch, name):
    monkeypatch.setattr(Session, "_until_end", only_the_last(Session._until_end))
    with pytest.raises(AssertionError):
        ended_within_guesses(name)
