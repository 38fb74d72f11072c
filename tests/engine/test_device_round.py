"""Rounds decided on the device: the same verdicts, the same texts, and one read by the host."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from engine import device_round, sampling
from engine.arguments import MAX_K
from engine.decode import Session
from engine.desk import Desk
from engine.device_round import Drawn, Laps
from engine.drafters.eagle import EagleDrafter, EagleTreeDrafter
from engine.drafters.medusa import MedusaDrafter, MedusaTreeDrafter
from engine.drafters.model import LayerSkipDrafter, ModelDrafter
from engine.drafters.ngram import NGramDrafter
from engine.drafters.pard import PardDrafter
from engine.drafters.retrieval import HybridDrafter, RetrievalDrafter
from engine.graphs import GraphKernel, Recorder
from engine.llama import Runner
from engine.trace import Round, Settings
from engine.verification import Verdict, pick, verify
from tests.engine import kit
from tests.engine.kit import TINY, TINY_D, audit, header, session
from tests.engine.runs import GREEDY, ORACLE, PROMPT
from tests.engine.test_drafters import store
from tests.engine.test_eagle import audit as audit_features
from tests.engine.test_eagle import fused
from tests.engine.test_graphs import Tape, ticking
from tests.engine.test_medusa import heads
from tests.engine.test_pard import masked

CPU = torch.device("cpu")
FOUND = 3 * MAX_K + 2  # numbers that a verdict brings
NEAR_ONE = 1 - 2.0**-53
WARM = Settings(drafter="script", temperature=0.8)


# --- the rule ---------------------------------------------------------------------------------


def law(chance: random.Random, vocab: int, dtype: torch.dtype) -> Tensor:
    """A law with impossible tokens, or certain of one; sometimes a copy of a common one."""
    kind = chance.random()
    if kind < 0.2:
        return torch.eye(vocab, dtype=dtype)[chance.randrange(vocab)]
    weights = [0.0 if chance.random() < 0.3 else chance.random() ** 2 for _ in range(vocab)]
    weights[chance.randrange(vocab)] = 1.0 if kind < 0.9 else 1e-6
    values = torch.tensor(weights, dtype=dtype)
    return values / values.sum()


def table(
    seed: int, vocab: int = 0, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor, list[int], list[float], float]:
    """Arguments of one verification."""
    chance = random.Random(seed)
    k, vocab = chance.randrange(6), vocab or chance.randrange(3, 9)
    dtype = dtype or chance.choice((torch.float32, torch.float64))
    target = torch.stack([law(chance, vocab, dtype) for _ in range(k + 1)])
    draft = [target[i] if chance.random() < 0.2 else law(chance, vocab, dtype) for i in range(k)]
    tokens = [pick(each, chance.random()) for each in draft]
    draws = [chance.choice((0.0, NEAR_ONE, chance.random(), chance.random())) for _ in range(k + 1)]
    drafts = torch.stack(draft) if draft else target.new_zeros(0, vocab)
    return target, drafts, tokens, draws[:k], draws[k]


def same(first: Verdict, second: Verdict) -> bool:
    return (
        (
            (first.path, first.token, first.kind, first.accept_probs)
            == (second.path, second.token, second.kind, second.accept_probs)
        )
        and torch.equal(first.emit_probs.double(), second.emit_probs.double())
        and torch.equal(first.tested, second.tested)
    )


def judge(
    target_probs: Tensor, draft_probs: Tensor, *rest: object, record: Recorder | None = None
) -> Verdict:
    """A verdict found on a desk of its own."""
    vocab, dtype = target_probs.shape[-1], target_probs.dtype
    return Desk(torch.ones(vocab) / vocab, dtype, record).judge(target_probs, draft_probs, *rest)


def as_drawn(tokens: list[int]) -> Drawn:
    return Drawn(torch.tensor(tokens, dtype=torch.long), Laps(CPU))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_desk_used_again_and_again_judges_each_chain_as_the_rule_does(dtype):
    """Recorded once, and what longer chains left behind counts for nothing."""
    desk = Desk(torch.ones(6, dtype=dtype) / 6, dtype, Tape)
    for seed in range(300):
        target, draft, tokens, draws, emit = table(seed, 6, dtype)
        expected = verify(target, draft, tokens, None, draws, emit)
        assert same(desk.judge(target, draft, tokens, None, draws, emit), expected), seed
    assert not desk.trouble


class FrozenCount(Desk):
    """The broken twin: how many guesses there are is a Python number, not a buffer."""

    def judge(self, *args):
        self.k = len(args[2])
        return super().judge(*args)

    def _judge(self):
        self._count.fill_(self.k)
        return super()._judge()


def test_a_verdict_on_as_many_guesses_as_were_recorded_is_caught():
    """B08: unrecorded it is right, so only a replay can show the fault."""
    chains = [table(seed, 6, torch.float64) for seed in range(40)]
    for record, fault in ((None, False), (Tape, True)):
        desk = FrozenCount(torch.ones(6) / 6, torch.float64, record)
        right = [
            same(desk.judge(*c[:3], None, *c[3:]), verify(*c[:3], None, *c[3:])) for c in chains
        ]
        assert (not all(right)) == fault


def test_the_verdict_is_that_of_the_rule_whatever_the_laws_and_draws():
    for seed in range(1500):
        target, draft, tokens, draws, emit = table(seed)
        expected = verify(target, draft, tokens, None, draws, emit)
        assert same(judge(target, draft, tokens, None, draws, emit), expected), seed
        drawn = as_drawn(tokens)
        assert same(judge(target, draft, drawn, None, draws, emit), expected), seed
        assert list(drawn) == tokens


@pytest.mark.parametrize(
    "broken",
    [
        lambda t, d, x, p, a, e: judge(t.roll(1, 0), d, x, p, a, e),
        lambda t, d, x, p, a, e: judge(t, d, x, p, [1 - each for each in a], e),
        lambda t, d, x, p, a, e: replace(judge(t, d, x, p, a, e), token=pick(t[-1], e)),
    ],
    ids=["a row too far", "draws upside down", "no residual"],
)
def test_a_broken_verdict_is_noticed(broken):
    chains = [(*made[:3], None, *made[3:]) for made in map(table, range(200))]
    assert not all(same(broken(*chain), verify(*chain)) for chain in chains)


@pytest.mark.parametrize("fault", ["nan law", "no mass", "impossible guess"])
def test_what_the_rule_refuses_is_refused_with_the_same_words(fault):
    target, draft = torch.full((2, 4), 0.25), torch.full((1, 4), 0.25)
    if fault == "impossible guess":
        draft[0, 1] = 0.0
    else:
        target[:] = torch.nan if fault == "nan law" else 0.0
    words = []
    for rule in (judge, verify):
        with pytest.raises(ValueError) as refused:
            rule(target, draft, [1], None, [0.5], 0.5)
        words.append(str(refused.value))
    assert words[0] == words[1]


def test_a_guess_drawn_from_no_law_is_refused_when_it_is_read():
    laws = torch.full((2, 4), 0.25)
    nothing = device_round.pick(laws[0] * torch.nan, torch.tensor([0.5], dtype=torch.float64))
    assert nothing.tolist() == [-1]
    with pytest.raises(ValueError, match="not finite"):
        judge(laws, laws[:1], Drawn(nothing, Laps(CPU)), None, [0.5], 0.5)


def test_a_token_is_picked_as_the_rule_picks_it():
    chance = random.Random(0)
    for number in range(1500):
        probs = law(chance, 7, (torch.float32, torch.float64)[number % 2]) * chance.uniform(0.5, 2)
        for draw in (0.0, NEAR_ONE, chance.random()):
            found = device_round.pick(probs, torch.tensor([draw], dtype=torch.float64))
            assert int(found) == pick(probs, draw)
    uneven = torch.rand(5000, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.1
    for count in range(1, 5000, 7):  # totals of every size: the last draw finds the last token
        last = device_round.pick(uneven[:count], torch.tensor([NEAR_ONE], dtype=torch.float64))
        assert int(last) == count - 1


@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 0.99])
def test_a_nucleus_found_by_sorting_is_the_nucleus(top_p):
    for seed in range(50):
        logits = torch.randn(200, generator=torch.Generator().manual_seed(seed)).double()
        probs = (2 * logits).round().softmax(-1)  # many equals
        expected = sampling.nucleus(probs, top_p)
        assert sampling.sorted_nucleus(probs, 1.0 - top_p).equal(expected)


# --- whole runs -------------------------------------------------------------------------------


def recorded(weights=TINY, context=128, same_bits=False) -> Runner:
    kernel = GraphKernel(weights, context, Tape, same_bits)
    return Runner(weights, context, kernel, kernel.new_cache())


DRAFTERS = {
    "another model": lambda target: ModelDrafter("model", Runner(TINY_D)),
    "a recorded copy": lambda target: ModelDrafter("copy", recorded()),
    "layer skip": lambda target: LayerSkipDrafter(1, target.first_layers(1)),
    "n-gram": lambda target: NGramDrafter(),
    "EAGLE": lambda target: EagleDrafter("eagle", fused()),
    "Medusa": lambda target: MedusaDrafter(heads()),
    "PARD": lambda target: PardDrafter("pard", masked()),
}


TREES = {
    "EAGLE's tree": lambda target: EagleTreeDrafter("eagle-tree", fused()),
    "Medusa's tree": lambda target: MedusaTreeDrafter(heads(), [(0,), (1,), (0, 0), (2,), (1, 1)]),
}
"""Their shape depends on what was drawn, so these are read while they are drafted."""


def run_of(settings: Settings, drafter: str, on_device: bool, record: bool = False) -> Session:
    target = recorded(same_bits=True) if record else Runner(TINY)
    run = session(target, (DRAFTERS | TREES)[drafter](target), header(PROMPT, settings))
    if on_device:
        stay_on_device(run)
    return run


def stay_on_device(run: Session) -> None:
    """Do on this CPU what is done on CUDA."""
    record = getattr(run._target.kernel, "_record", None)
    run._desk = Desk(run._unigram, torch.double, record)
    run.rule = run._desk.judge


def story(rounds: Iterator[Round]) -> list[object]:
    """All of the rounds but their times, numbers to nine places."""

    def told(value: object) -> object:
        if isinstance(value, float):
            return round(value, 9)
        if hasattr(value, "__slots__"):
            return tuple(told(getattr(value, name)) for name in value.__slots__)
        return tuple(map(told, value)) if isinstance(value, tuple) else value

    still = {"draft_step_seconds": (), "verify_seconds": 0.0, "evidence_seconds": 0.0}
    return [told(replace(made, **still)) for made in rounds]


@pytest.mark.parametrize("drafter", DRAFTERS | TREES)
@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 0.0},
        {},
        {"quality": 60.0},
        {"temperature": 0.0, "quality": 30.0, "k": 6},
        {"top_k": 5, "top_p": 0.8, "k": 2},
        {"repetition_penalty": 1.3, "k": 1},
        {"repetition_penalty": 1.8, "k": 4},
        {"repetition_penalty": 0.6, "temperature": 0.0, "quality": 70.0},
    ],
    ids=str,
)
def test_a_run_is_the_same_wherever_it_is_decided(drafter, changes):
    settings = replace(WARM, **changes)
    expected = run_of(settings, drafter, on_device=False)
    told = story(expected.rounds())
    for record in (False, True):
        run = run_of(settings, drafter, on_device=True, record=record)
        assert story(run.rounds()) == told
        assert run.ids == expected.ids


@pytest.mark.parametrize("seed", range(6))
def test_caches_are_right_after_every_round_though_nobody_knew_the_guesses(seed):
    chance = random.Random(seed)
    target, draft = Runner(TINY), Runner(TINY_D if seed % 2 else TINY)
    drafter = ModelDrafter("model", draft)
    run = session(target, drafter, header(PROMPT, GREEDY))
    stay_on_device(run)
    while run.finished is None:
        back = run.made - (run.made > 2 and chance.random() < 0.2)
        run.rewind(back, replace(GREEDY, k=chance.randrange(7)))
        if run.finished is None:
            run.advance()
        audit(target, run.ids)
        audit(draft, drafter._known)
        assert draft.length == len(drafter._known)
    assert kit.committed(run) == ORACLE[:24]


def test_numbers_that_are_not_finite_are_one_sentence_and_no_token():
    spoiled = replace(TINY_D, head=TINY_D.head * torch.nan)
    run = session(Runner(TINY), ModelDrafter("model", Runner(spoiled)), header(PROMPT, WARM))
    stay_on_device(run)
    with pytest.raises(ValueError, match="not finite"):
        run.advance()
    assert kit.committed(run) == []


# --- reads and times --------------------------------------------------------------------------


class NoReads(TorchDispatchMode):
    """Notices what would make a host wait for its device."""

    WAITS = frozenset(
        (
            torch.ops.aten._local_scalar_dense.default,
            torch.ops.aten.nonzero.default,
            torch.ops.aten.masked_select.default,
            torch.ops.aten.equal.default,
        )
    )

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        masks = func is torch.ops.aten.index.Tensor and any(
            each is not None and each.dtype == torch.bool for each in args[1]
        )
        if func in self.WAITS or masks:
            self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many values each read brought to the host."""
    reads: list[int] = []
    real = device_round.read
    monkeypatch.setattr(
        device_round, "read", lambda values: reads.append(len(values)) or real(values)
    )
    yield reads


def decide(run: Session) -> None:
    """Everything a round's clock runs for."""
    _, proposal = run._propose(run.made, run._settings)
    run.checked = run._check(proposal, run.made)


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize(
    "changes",
    [{}, {"temperature": 0.0}, {"quality": 50.0}, {"top_k": 3}, {"repetition_penalty": 1.5}],
    ids=str,
)
def test_the_host_reads_once_a_round(monkeypatch, drafter, changes):
    run = run_of(replace(WARM, **changes), drafter, on_device=True, record=True)
    for _ in range(4):
        with counted(monkeypatch) as reads, NoReads() as waits:
            decide(run)
        assert reads == [FOUND]
        assert waits.seen == []
        run._commit(run.checked)


@pytest.mark.parametrize("changes", [{}, {"repetition_penalty": 1.4}, {"quality": 50.0}], ids=str)
def test_a_hybrid_copies_what_it_knows_or_leaves_its_model_s_guesses_unread(monkeypatch, changes):
    """With the dial turned it is decided guess by guess, as elsewhere: a copy may be another."""
    settings = replace(GREEDY, k=6, **changes)
    alone = session(Runner(TINY), None, header(PROMPT, replace(settings, k=0)))
    list(alone.rounds())
    written = kit.committed(alone)
    memory = RetrievalDrafter(store(*[[*written[:8], 0], [*written[9:14], 0, 63]] * 2))
    target, layer = recorded(same_bits=True), fused()
    model = EagleDrafter("eagle", layer)
    run = session(target, HybridDrafter(memory, model), header(PROMPT, settings), now=ticking())
    stay_on_device(run)
    rounds = []
    while run.finished is None:
        with counted(monkeypatch) as reads:
            rounds.append(run.advance())
        assert settings.quality < 100 or reads == [FOUND]
        audit(target, run.ids)
        audit_features(layer, run.ids[: len(model._held)])
    assert kit.committed(run) == written
    sources = [[guess.source for guess in made.guesses] for made in rounds]
    assert settings.quality < 100 or ["model"] * 6 in sources
    assert any("store" in each for each in sources)
    for made in rounds:
        assert len(made.draft_step_seconds) == len(made.guesses)
        assert all(seconds > 0 for seconds in made.draft_step_seconds)


def test_a_round_that_reads_more_is_noticed():
    run = run_of(WARM, "another model", on_device=False)
    with NoReads() as waits:
        decide(run)
    assert waits.seen


def test_times_are_those_of_the_work_and_add_up():
    run = run_of(replace(WARM, k=4), "another model", on_device=True)
    run.advance()
    began = run._now()
    made = run.advance()
    took = run._now() - began
    assert len(made.draft_step_seconds) == len(made.guesses) == 4
    assert all(seconds > 0 for seconds in (*made.draft_step_seconds, made.verify_seconds))
    whole = sum(made.draft_step_seconds) + made.verify_seconds
    assert whole + made.evidence_seconds <= took
    assert run.measure_baseline().pass_seconds > 0


def test_laps_end_where_they_are_marked(monkeypatch):
    ticks = itertools.count(10.0, 0.5)
    monkeypatch.setattr(device_round.time, "perf_counter", lambda: next(ticks))
    laps = Laps(CPU)
    laps.mark()
    laps.mark()
    assert (laps.began, tuple(laps), len(laps)) == (10.0, (0.5, 0.5), 2)
    assert (laps[0], laps[:1]) == (0.5, (0.5,))
    assert Drawn(torch.tensor([1]), laps).drawn_at == 11.0
    after = Laps(CPU, ahead=0.25)  # at 12
    after.mark()
    assert (tuple(after), len(after)) == ((0.75,), 1)
    assert Drawn(torch.tensor([1]), after).drawn_at == 12.0 + 0.5
