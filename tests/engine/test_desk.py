"""The desk of a round: nothing on it moves, is recorded twice, or is lost while it counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from engine import device_round, prove
from engine.arguments import MAX_K
from engine.decode import Session
from engine.desk import Desk, Kind
from engine.device_round import Drawn
from engine.drafters.model import ModelDrafter
from engine.drafters.proposal import Drafter, DraftRequest
from engine.kernels import Kernels
from engine.llama import Runner
from engine.sampling import Draws, penalise, process
from engine.trace import Round, Settings
from tests.engine import kit
from tests.engine.kit import TINY, TINY_D, audit, header
from tests.engine.runs import PROMPT
from tests.engine.test_device_round import DRAFTERS, TREES, NoReads, story
from tests.engine.test_graphs import Tape, ticking

KINDS: tuple[dict[str, float], ...] = (
    {"temperature": 0.0},
    {},
    {"quality": 60.0},
    {"temperature": 0.0, "quality": 30.0},
    {"top_k": 5},
    {"top_p": 0.8, "min_p": 0.05},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 1.8, "temperature": 0.0, "quality": 80.0},
    {"temperature": 0.3, "top_k": 9, "top_p": 0.95, "repetition_penalty": 0.7},
)
WARM = Settings(drafter="another model", temperature=0.8)


def desk_of(record: Callable | None = None, kind: type[Desk] = Desk) -> Desk:
    uniform = torch.full((kit.TINY_VOCAB,), 1 / kit.TINY_VOCAB, dtype=torch.float64)
    return kind(uniform, torch.float64, record)


def run_on(desk: Desk | None, settings: Settings = WARM, **changes: int) -> Session:
    """A run of every drafter by its name."""
    target = Runner(TINY)
    made: dict[str, Drafter] = {}

    def drafter(name: str) -> Drafter:
        if name not in made:
            made[name] = (DRAFTERS | TREES)[name](target)
        return made[name]

    unigram = desk_of()._unigram
    about = header(PROMPT, settings, **({"max_new_tokens": 100} | changes))
    return Session(target, kit.Words(), drafter, unigram, about, now=ticking(), desk=desk)


def wandering(run: Session, seed: int, most: int = MAX_K) -> Iterator[Round]:
    """Rounds with another drafter, K and kind of settings each, K 0 and rewinds included."""
    chance = random.Random(seed)
    while run.finished is None:
        back = run.made - (run.made > 2 and chance.random() < 0.2)
        name = chance.choice((*DRAFTERS, *TREES))
        changes = chance.choice(KINDS) | {"k": chance.randrange(most + 1), "drafter": name}
        run.rewind(back, replace(WARM, **changes))
        if run.finished is None:
            yield run.advance()


@pytest.mark.parametrize("record", [None, Tape])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_changes_from_round_to_round_rounds_are_those_made_without_a_desk(record, seed):
    desk = desk_of(record)
    run, plain = run_on(desk), run_on(None)
    assert story(wandering(run, seed)) == story(wandering(plain, seed))
    assert run.ids == plain.ids
    assert not desk.trouble


def resting_on(run: Session) -> set[int]:
    """Where the last round's values lie, of the device."""
    check = run.checked
    assert check is not None
    parts = [check.scores, check.target_probs, check.draft_probs]
    if check.proposal.parents is None:
        parts += [check.verdict.emit_probs, check.verdict.tested]
    if isinstance(check.proposal.tokens, Drawn):
        parts += [check.proposal.tokens.tensor, check.proposal.laws[0]]
    return {part.data_ptr() for part in parts if part.numel()}


@pytest.mark.parametrize("record", [None, Tape])
def test_a_round_s_values_lie_where_those_of_every_round_lie(record):
    """B08: with K from 0 to 16, all drafters and all kinds of settings."""
    desk = desk_of(record)
    before = desk.addresses
    run = run_on(desk)
    for _ in wandering(run, 5):
        assert desk.addresses == before
        assert resting_on(run) <= set(before.values())
    assert len(set(before.values())) == len(before), "no buffer is another one"


def test_laws_made_anew_in_each_round_are_noticed():
    desk = desk_of()
    run = run_on(None)
    made = [resting_on(run) <= set(desk.addresses.values()) for _ in wandering(run, 5)]
    assert not all(made)


def test_each_kind_of_work_is_recorded_once_and_none_within_a_round():
    recorded: list[object] = []

    def counting(work):
        recorded.append(work)
        return Tape(work)

    desk = desk_of(counting)
    run = run_on(desk)
    list(wandering(run, 1))
    list(wandering(run_on(desk), 2))
    kinds = {Kind.of(replace(WARM, **changes)) for changes in KINDS}
    assert len(recorded) == 2 * len(kinds) + 1

    for changes in KINDS:  # other numbers of the same kinds
        other = replace(WARM, **changes, k=7)
        if other.temperature:
            other = replace(other, temperature=other.temperature + 0.5)
        run = run_on(desk, other)
        run.advance()
    assert len(recorded) == 2 * len(kinds) + 1


def test_a_round_waits_once_whatever_is_set_after_recording():
    desk = desk_of(Tape)
    for changes in KINDS:
        run = run_on(desk, replace(WARM, k=5, **changes))
        run.advance()
        run._begin_round()
        with NoReads() as waits:
            run._check(run._propose(run.made, run._settings)[1], run.made)
        assert waits.seen == []


def test_a_rule_of_one_s_own_judges_what_lies_on_a_desk_as_anywhere():
    """A proof's control puts a broken one there, which reads guesses before it judges them."""
    run, plain = run_on(desk_of(Tape), max_new_tokens=30), run_on(None, max_new_tokens=30)
    run.rule = plain.rule = prove.without_residual
    assert story(run.rounds()) == story(plain.rounds())


# --- settings ---------------------------------------------------------------------------------

SETTINGS = st.builds(
    Settings,
    drafter=st.just("script"),
    quality=st.sampled_from([100.0, 100.0, 70.0, 0.0]),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_k=st.sampled_from([0, 0, 1, 3]),
    top_p=st.sampled_from([1.0, 0.3, 0.9]),
    min_p=st.sampled_from([0.0, 0.05, 0.6]),
    repetition_penalty=st.sampled_from([1.0, 0.5, 1.4]),
)
VOCAB, LAST, TEXT = 7, 2, [3, 5, 5, 2]


class FrozenDials(Desk):
    """The broken twin: temperature is a Python number, not a buffer."""

    def _law(self, scores, kind):
        return super()._law(scores, kind) if kind.greedy else (scores / self._set[0]).softmax(-1)


def laws_of(desk: Desk, s: Settings, seed: int) -> tuple[float, bool]:
    """How far laws on the desk are off those made one by one, and whether guesses are the same."""
    generator = torch.Generator().manual_seed(seed)
    said = torch.randn(4, VOCAB, generator=generator, dtype=torch.float64) * 2
    wanted = torch.randn(4, VOCAB, generator=generator, dtype=torch.float64) * 2
    request = DraftRequest(3, s, desk._unigram, Draws(seed), 0, desk)
    desk.begin(s, TEXT)
    steps = iter(said)
    proposal = device_round.chain(lambda fed: next(steps), TEXT[-1:], request)
    desk.to_feed(LAST, proposal)
    scores, target_probs, draft_probs = desk.weigh(wanted)
    gaps, text, alike = [0.0], list(TEXT), True
    for slot, law in enumerate(draft_probs):
        expected = request.law_of(request.scores(said[slot], text))
        alike &= int(proposal.tokens[slot]) == request.draw(slot, expected)
        text.append(int(proposal.tokens[slot]))
        gaps.append(float((law - expected).abs().max()))
    for row, (law, score) in enumerate(zip(target_probs, scores, strict=True)):
        before = text[: len(TEXT) + row]
        expected = penalise(wanted[row : row + 1], before, s.repetition_penalty)[0]
        gaps.append(float((score - expected).abs().max()))
        law_there = process(expected, s.temperature, s.top_k, s.top_p, s.min_p)
        gaps.append(float((law - law_there).abs().max()))
    return max(gaps), alike


@given(every=st.lists(SETTINGS, min_size=2, max_size=5), seed=st.integers(0, 999))
@limits(max_examples=60, deadline=None)
def test_what_was_recorded_under_one_setting_makes_the_laws_of_any(every, seed):
    """B08, B14: every number a setting has is a buffer, or there is a recording for it."""
    desk = Desk(torch.arange(1.0, VOCAB + 1, dtype=torch.float64) / 28, torch.float64, Tape)
    for number, s in enumerate(every):
        assert laws_of(desk, s, seed + number) == (pytest.approx(0.0, abs=1e-12), True)
    assert not desk.trouble


def test_a_setting_kept_from_when_its_kind_was_recorded_is_caught():
    desk = FrozenDials(torch.ones(VOCAB, dtype=torch.float64) / VOCAB, torch.float64, Tape)
    first, then = Settings("script", temperature=0.3), Settings("script", temperature=2.5)
    assert laws_of(desk, first, 1)[0] < 1e-12
    assert laws_of(desk, then, 1)[0] > 1e-3


# --- what may go wrong ------------------------------------------------------------------------


class Shared(Desk):
    """The broken twin: the drafter's laws lie where the target's do."""

    def __init__(self, *args):
        super().__init__(*args)
        self._draft_probs = self._target_probs[:MAX_K]


def test_buffers_that_lie_in_one_place_are_caught():
    for kind, fault in ((Desk, False), (Shared, True)):
        desk = desk_of(kind=kind)
        run, plain = run_on(desk), run_on(None)
        try:
            equal = story(run.rounds()) == story(plain.rounds())
        except ValueError:
            equal = False
        assert equal != fault
        assert (len(set(desk.addresses.values())) < len(desk.addresses)) == fault


class Forgets(Desk):
    """The broken twin: guesses nobody has read are gone when the next round begins."""

    def begin(self, settings, text):
        self._lent = None
        super().begin(settings, text)


@pytest.mark.parametrize(("kind", "fault"), [(Desk, False), (Forgets, True)])
def test_guesses_of_a_round_that_failed_are_known_still_when_their_drafter_is_back(kind, fault):
    """Its cache holds them: read late from a buffer used since, they would be other tokens."""
    first, second = Runner(TINY_D), Runner(TINY)
    drafters = {"first": ModelDrafter("first", first), "second": ModelDrafter("second", second)}
    target = Runner(TINY)
    settings = replace(WARM, drafter="first", k=5)
    desk = desk_of(kind=kind)
    run = Session(
        target, kit.Words(), drafters.__getitem__, desk._unigram, header(PROMPT, settings),
        now=ticking(), desk=desk,
    )  # fmt: skip
    run.advance()
    forward = target.forward
    target.forward = failing
    with pytest.raises(torch.OutOfMemoryError):
        run.advance()
    target.forward = forward
    run.rewind(run.made, replace(settings, drafter="second"))
    run.advance()
    held = drafters["first"]._known
    try:
        audit(first, held)
        wrong = False
    except AssertionError:
        wrong = True
    assert wrong == fault


def failing(*args: object, **more: object) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory.")


class Late(Session):
    """The broken twin: a round's evidence is written when the next one has been made."""

    def advance(self):
        before = self.checked
        made = super().advance()
        if before is not None:
            late = self.checked
            self.checked = before
            guesses = self._evidence(before)
            self.checked = late
            made = replace(made, guesses=guesses)
        return made

    def _evidence(self, check):
        from engine import evidence

        return evidence.guesses(check, len(check.verdict.path), False, kit.Words())


def test_evidence_of_values_that_were_written_over_is_caught():
    """What `checked` holds is a round's until the next one: then it is another's."""
    told = {}
    for desk in (None, desk_of()):
        target = Runner(TINY)
        model = ModelDrafter("model", Runner(TINY_D))
        run = Late(
            target, kit.Words(), lambda name, model=model: model, desk_of()._unigram,
            header(PROMPT, replace(WARM, k=5)), now=ticking(), desk=desk,
        )  # fmt: skip
        told[desk is None] = story(run.rounds())
    assert told[True] != told[False]


def test_where_nothing_can_be_recorded_rounds_are_the_same_and_the_name_says_why():
    desk = desk_of(broken_recorder)
    run, plain = run_on(desk), run_on(None)
    assert story(run.rounds()) == story(plain.rounds())
    assert desk.trouble == "CUDA out of memory."
    chosen = Kernels("CUDA graphs, fast", record=Tape)
    said = "CUDA graphs, fast (but rounds cannot be recorded: CUDA out of memory.)"
    assert chosen.name_of(Runner(TINY), desk) == said
    assert chosen.name_of(Runner(TINY), desk_of(Tape)) == "CUDA graphs, fast"


def broken_recorder(work: Callable[[], object]) -> Callable[[], object]:
    work()
    failing()
    return work


def test_a_desk_is_made_ready_where_passes_are_recorded_and_nowhere_else():
    uniform = torch.full((kit.TINY_VOCAB,), 1 / kit.TINY_VOCAB)
    assert Kernels("torch").desk(TINY, uniform) is None
    desk = Kernels("", record=Tape).desk(TINY, uniform)
    assert desk is not None
    assert len(desk._recorded) == 3
