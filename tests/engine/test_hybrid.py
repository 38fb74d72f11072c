"""Hybrid: who is likelier to be right speaks, the model's rows stay true, its laws are honest."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.drafters.eagle import EagleDrafter, FusedRunner
from engine.drafters.model import CATCH_UP
from engine.drafters.proposal import DraftRequest, Step, common_prefix
from engine.drafters.retrieval import (
    ASKING,
    SURE,
    WORTH,
    Copy,
    HybridDrafter,
    RetrievalDrafter,
    in_stores,
    in_text,
)
from engine.llama import Runner
from engine.trace import Round, Settings
from engine.training import store as card_store
from engine.training.corpus import Corpus
from tests.engine import kit
from tests.engine.kit import TINY, TINY_VOCAB, header, session
from tests.engine.runs import GREEDY, ORACLE, PROMPT, check_verdicts, essence
from tests.engine.test_drafters import store
from tests.engine.test_eagle import (
    KeepsGuesses,
    audit,
    features_of,
    fused,
    request,
    stays_the_target_s,
    told,
)  # fmt: skip

NOTHING = store([0, 0, 0])


# --- how likely a copy is ---------------------------------------------------------------------


def test_a_copy_is_the_likelier_the_longer_its_match_and_the_more_agree():
    """Check values: (count - discount · .8 ^ (length - 2)) / total."""
    once = [1, 2, 9, 50, 1, 2]
    assert in_text(once) == Copy(9, "n-gram", 2, pytest.approx(0.55))
    assert in_text([7, *once[:4], 7, *once[4:]]) == Copy(9, "n-gram", 3, pytest.approx(0.64))
    assert in_text([1, 2, 9, *once]) == Copy(9, "n-gram", 5, pytest.approx((2 - 0.45) / 2))
    assert in_text([1, 2, 8, *once]) == Copy(9, "n-gram", 5, pytest.approx((1 - 0.45) / 2))
    assert in_text([1, 2, 3]) is None

    stored = [4, 1, 2, 40, 60, 1, 2, 41, 60, 1, 2, 41, 60]
    assert in_stores([1, 2], {"store": store(stored)}) == Copy(
        41, "store", None, pytest.approx((2 - 0.9) / 3)
    )
    assert in_stores([4, 1, 2], {"store": store(stored)}) == Copy(
        40, "store", None, pytest.approx(1 - 0.72)
    )
    both = {"store": store(stored), "memory": store([1, 2, 42, 60] * 3)}
    assert in_stores([1, 2], both) == Copy(42, "memory", None, pytest.approx((3 - 0.9) / 6))
    assert in_stores([8, 8], both) is None


def test_the_likelier_of_text_and_stores_is_copied():
    memory = RetrievalDrafter(store([3, 4, 1, 2, 40, 0], [1, 2, 40, 0], [1, 2, 40, 0]))
    text = [1, 2, 9, 50, 1, 2]
    assert memory.propose(text, request(None, 1)).tokens == (40,)  # thrice there, once here
    assert memory.propose([1, 2, 9, *text], request(None, 1)).tokens == (9,)


def test_copying_ends_where_a_guess_would_hardly_be_kept():
    """After one match among others no more than a few; the text's own words, to the end."""
    doubtful = RetrievalDrafter(store([1, 2, 20, 30, 31, 32, 33, 34, 35, 63]))
    few = doubtful.propose([50, 1, 2], request(None, 8))
    kept = 1.0
    for count in range(len(few.tokens) + 1):
        copy = doubtful.likeliest([50, 1, 2, *few.tokens[:count]], request(None, 8))
        kept *= copy.chance if copy else 0.0
        assert (kept >= WORTH) == (count < len(few.tokens))
    assert 1 <= len(few.tokens) < 8
    line = list(range(10, 30))
    sure = RetrievalDrafter(NOTHING).propose([*line, *line[:6]], request(None, 8))
    assert list(sure.tokens) == line[6:14]


def test_a_card_counts_rounds_as_they_are_made():
    """The rounds of a whole greedy reply, counted from one look at each of its positions."""
    chance = random.Random(2)
    phrases = [[chance.randrange(9) for _ in range(4)] for _ in range(5)]

    def some(count: int) -> list[int]:
        return [token for _ in range(count) for token in chance.choice(phrases)]

    reply, index = some(30), store([*some(40), 63])
    ids = [20, 21, *reply]
    corpus = Corpus(
        np.array(ids), np.array([0, len(ids)]), np.array([2]), np.array([0.0]), np.array([0])
    )
    memory = RetrievalDrafter(index)
    for k in (1, 3, 8):
        made = [0] * (k + 1)
        at = 2
        while at < len(ids):
            guesses = memory.propose(ids[:at], request(None, k)).tokens
            accepted = common_prefix(guesses, ids[at:])
            made[accepted] += 1
            at += accepted + 1
        assert card_store.histogram([card_store.copies(corpus, 0, index)], k) == made
        assert sum(made[1:]) > 0


# --- who speaks -------------------------------------------------------------------------------


@dataclass
class Speaker:
    """Stands in for EAGLE: a law (V,) after each text; notes what it was asked."""

    law: object
    context: int = 64

    def __post_init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []

    def prepare(self, ids: list[int], wanted: DraftRequest) -> None:
        self.asked.clear()

    def held(self, ids: list[int]) -> int:
        return 0

    def step(self, text: list[int], slot: int, wanted: DraftRequest) -> Step:
        assert slot == len(self.asked)
        self.asked.append(tuple(text))
        return wanted.said(self.law(tuple(text)).log(), text, "model")

    def observe(self, ids: list[int]) -> None:
        """Nothing to learn."""


def sure_of(token: int, chance: float) -> Tensor:
    law = torch.full((TINY_VOCAB,), (1 - chance) / (TINY_VOCAB - 1), dtype=torch.float64)
    law[token] = chance
    return law


ONCE = [1, 2, 9, 50, 1, 2]
"""After which 9 is copied with .55, then 50 with .64, 1 with .71 …"""


@pytest.mark.parametrize(
    ("text", "chance", "sources", "asked"),
    [
        (ONCE, 0.5, "cccc", 1),  # the copy is likelier, and then nobody asks again
        (ONCE, 0.6, "mm", 2),  # the model is, twice, with nothing to copy after its guess
        ([7, 50, 60], 0.9, "mmmm", 4),
        ([7, 50, 60], 0.3, "m", 1),  # what comes after it is not worth a step
        ([1, 2, 9, *ONCE], 0.99, "cccc", 0),  # who is sure is not doubted
    ],
)
def test_the_likelier_speaks_and_a_model_is_asked_while_that_pays(text, chance, sources, asked):
    model = Speaker(lambda text: sure_of(33, chance))
    hybrid = HybridDrafter(RetrievalDrafter(NOTHING), model)
    proposal = hybrid.propose(list(text), request(None, 4))
    spoke = ["c" if source == "n-gram" else "m" for source in proposal.sources]
    assert "".join(spoke) == sources
    assert len(model.asked) == asked
    assert len(proposal.step_seconds) == len(proposal.tokens)
    assert 0.5 < SURE < 0.72  # what these cases rest on
    assert 0.3 < ASKING <= 0.6


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("text", [ONCE, [7, 50, 60]])
def test_numbers_of_the_model_s_that_are_none_are_refused(text, temperature):
    model = Speaker(lambda text: torch.full((TINY_VOCAB,), torch.nan))
    hybrid = HybridDrafter(RetrievalDrafter(NOTHING), model)
    wanted = request(None, 4)
    wanted = replace(wanted, settings=replace(wanted.settings, temperature=temperature))
    with pytest.raises(ValueError, match="not finite"):
        hybrid.propose(list(text), wanted)


def test_a_copy_goes_on_where_the_model_led():
    """The model says 9, which this text knows how to continue."""
    model = Speaker(lambda text: sure_of(9, 0.95 if text[-1] == 2 else 0.3))
    hybrid = HybridDrafter(RetrievalDrafter(NOTHING), model)
    proposal = hybrid.propose([1, 2, 9, 50, 51, 60, 2], request(None, 4))
    assert proposal.tokens[:3] == (9, 50, 51)
    assert proposal.sources[:3] == ("model", "n-gram", "n-gram")
    assert proposal.origins[:3] == (None, 3, 4)


@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_fewer_guesses_are_the_same_round_cut_off(k):
    """As `auto` and `adapt` take it to be: no decision knows how many are wanted."""
    line = list(range(10, 30))
    model = Speaker(lambda text: sure_of((text[-1] + 7) % 60, 0.8))
    hybrid = HybridDrafter(RetrievalDrafter(store([17, 24, 40, 41, 42, 43])), model)
    for text in (line, [*line, 10], [*line, 10, 11, 12]):
        assert (
            hybrid.propose(text, request(None, k)).tokens
            == (hybrid.propose(text, request(None, 16)).tokens[:k])
        )


# --- the laws ---------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("quality", [100.0, 40.0, 0.0])
@pytest.mark.parametrize("text", [PROMPT, [*PROMPT, *PROMPT[:3]]])
def test_a_proposal_comes_with_the_laws_it_was_drawn_from(temperature, quality, text):
    """B13: a copied guess is certain but for the dial, a model's has the model's law."""
    wanted = request(features_of(text), 5, temperature=temperature, quality=quality, top_k=9)
    hybrid = HybridDrafter(RetrievalDrafter(NOTHING), EagleDrafter("eagle", fused()))
    proposal = hybrid.propose(text, wanted)
    assert 0 < len(proposal.tokens) == len(proposal.laws) == len(proposal.step_seconds) <= 5
    for slot, (token, law) in enumerate(zip(proposal.tokens, proposal.laws, strict=True)):
        assert float(law.sum()) == pytest.approx(1, abs=1e-6)
        assert wanted.draw(slot, law) == token
        if quality == 100 and proposal.sources[slot] == "n-gram":
            assert float(law[token]) == 1.0


# --- whole sessions ---------------------------------------------------------------------------


def memory_of_some() -> RetrievalDrafter:
    """It knows some phrases of what the target will say, each with another end than the true."""
    return RetrievalDrafter(store(*[[*ORACLE[2:12], 63, 63], [*ORACLE[16:28], 0, 63]] * 2))


def sources(rounds: list[Round]) -> set[tuple[str, ...]]:
    return {tuple(guess.source for guess in made.guesses) for made in rounds}


def audited_run(model: EagleDrafter, runner, **changes) -> list[Round]:
    """A run whose rows of the model are looked at before every round is decided."""
    hybrid = HybridDrafter(memory_of_some(), model)
    settings = replace(GREEDY, **changes)
    run = session(Runner(TINY), hybrid, header(PROMPT, settings, max_new_tokens=36))
    rounds = []
    while run.finished is None:
        rounds.append(run.advance())
        audit(runner, run.ids[: len(model._held)])
    assert kit.committed(run) == ORACLE[:36]
    return rounds


@pytest.mark.parametrize("k", [1, 2, 4, 6])
@pytest.mark.parametrize("wrong_every", [2, 3, 5])
def test_rows_are_read_with_true_features_whoever_guessed_and_wherever_it_was_refused(
    k, wrong_every
):
    """B10: copied guesses leave no rows, the model's own are read anew."""
    runner = told(lambda at: at % wrong_every != wrong_every - 1)
    rounds = audited_run(EagleDrafter("eagle", runner), runner, k=k)
    check_verdicts(rounds)
    found = sources(rounds)
    assert any("store" in each for each in found)
    assert any("model" in each for each in found)
    assert all("model" not in each[each.index("store") :] for each in found if "store" in each)


def test_the_audit_catches_a_model_whose_guessed_rows_stay():
    class Stays(KeepsGuesses):
        def step(self, text, slot, wanted):
            said = super().step(text, slot, wanted)
            if slot:
                self._held.append(text[-1])
            return said

    runner = told()
    with pytest.raises(AssertionError):
        audited_run(Stays("eagle", runner), runner, k=4)


@pytest.mark.parametrize("quality", [100.0, 60.0, 0.0])
def test_greedy_text_is_the_target_s_own_while_k_changes_and_rounds_are_taken_back(quality):
    model = EagleDrafter("eagle", told(lambda at: at % 3 != 1))
    stays_the_target_s(HybridDrafter(memory_of_some(), model), quality)


def test_a_rewind_that_changes_nothing_repeats_the_sampled_run():
    warm = Settings("hybrid", 3, quality=80.0, temperature=0.9, top_k=40)

    def run():
        hybrid = HybridDrafter(memory_of_some(), EagleDrafter("eagle", told()))
        return session(Runner(TINY), hybrid, header(PROMPT, warm, seed=4))

    straight = list(run().rounds())
    taken_back = run()
    made = [taken_back.advance() for _ in range(4)]
    taken_back.rewind(1, warm)
    assert essence(made[:1] + list(taken_back.rounds())) == essence(straight)


def test_what_a_model_was_not_asked_for_it_reads_when_it_is():
    """Two rounds of copies, and then a guess: that of a model which read all the time."""
    runner = fused()
    hybrid = HybridDrafter(RetrievalDrafter(NOTHING), EagleDrafter("eagle", runner))
    line = list(range(10, 24))
    text = [*line, 40, *line[:5]]
    assert set(hybrid.propose(text, request(features_of(text), 4)).sources) == {"n-gram"}
    assert runner.length == 0
    text = [*text, *line[5:9], 41]
    proposal = hybrid.propose(text, request(features_of(text), 4))
    assert proposal.sources[0] == "model"
    whole = EagleDrafter("eagle", fused()).propose(text, request(features_of(text), 1))
    assert proposal.tokens[0] == whole.tokens[0]
    audit(runner, text)


def test_what_was_not_read_while_it_copied_is_on_the_clock_when_it_is_read(monkeypatch):
    """A second for each row: reading a prompt is preparation, reading on after copies is not."""
    clock = [0.0]
    monkeypatch.setattr("engine.drafters.proposal.time.perf_counter", lambda: clock[0])

    class Slow(FusedRunner):
        def read(self, ids, features):
            clock[0] += len(ids)
            return super().read(ids, features)

    line = [*range(10, 22), 40]
    text = [*line, *line[:5]]
    model = EagleDrafter("eagle", fused(Slow))
    hybrid = HybridDrafter(RetrievalDrafter(NOTHING), model)
    for _ in range(8):
        proposal = hybrid.propose(text, request(features_of(text), 4))
        assert set(proposal.sources) == {"n-gram"}
        text = [*text, *proposal.tokens, line[(len(text) + 4) % len(line)]]
    text = [*text[:-1], 62]
    assert len(text) > CATCH_UP
    proposal = hybrid.propose(text, request(features_of(text), 1))
    assert (proposal.sources, proposal.step_seconds) == (("model",), (float(len(text)),))
    other = [*range(30, 55), *range(24, 5, -1)]
    model.propose(other, request(features_of(other), 1))  # another run's text, in its place
    text = [*text, 63]
    assert hybrid.propose(text, request(features_of(text), 1)).step_seconds == (1.0,)
    fresh = HybridDrafter(RetrievalDrafter(NOTHING), EagleDrafter("eagle", fused(Slow)))
    assert fresh.propose(text, request(features_of(text), 1)).step_seconds == (1.0,)
