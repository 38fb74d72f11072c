"""PARD: one pass for all guesses, no mask row ever stays, each guess verified by its own law."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.drafters.model import CATCH_UP
from engine.drafters.pard import MaskRunner, PardDrafter
from engine.drafters.proposal import DraftRequest, Proposal
from engine.llama import ContextFullError, Runner, TorchKernel
from engine.sampling import Draws
from engine.trace import Settings
from tests.engine import kit
from tests.engine.kit import TINY, TINY_D, TINY_VOCAB, audit, header, session
from tests.engine.runs import GREEDY, ORACLE, PROMPT, essence

CONTEXT = 128
HIDDEN = TINY_D.config.hidden_size
MASKS = torch.randn(3, HIDDEN, generator=torch.Generator().manual_seed(2)).double()
UNIFORM = torch.full((TINY_VOCAB,), 1 / TINY_VOCAB, dtype=torch.float64)


def masked(make: Callable[..., MaskRunner] = MaskRunner, context: int = CONTEXT) -> MaskRunner:
    return make(TINY_D, MASKS, context, TorchKernel(TINY_D, context))


def request(k: int = 4, **changes: object) -> DraftRequest:
    return DraftRequest(k, Settings(**changes), UNIFORM, Draws(0), 0)


def fresh_logits(ids: Sequence[int], k: int) -> Tensor:
    """The oracle (k, V): the text and the mask rows read at once by an empty model."""
    kernel, runner = TorchKernel(TINY_D, CONTEXT), Runner(TINY_D, CONTEXT)
    behind = MASKS[[min(n, len(MASKS) - 1) for n in range(k - 1)]]
    rows = torch.cat([TINY_D.embedding[list(ids)], behind])
    return runner.score(kernel.hidden_of(rows, 0, runner.cache)[len(ids) - 1 :])


class Told(MaskRunner):
    """Reads as any other, but where `right` says so it likes the target's next token best."""

    right: Callable[[int], bool] = staticmethod(lambda at: True)

    def ahead(self, ids: Sequence[int], count: int) -> Tensor:
        logits = super().ahead(ids, count).clone()
        first = self.length - len(PROMPT)
        for slot, row in enumerate(logits):
            if 0 <= first + slot < len(ORACLE) and self.right(first + slot):
                row[ORACLE[first + slot]] = row.max() + 50
        return logits


def told(right: Callable[[int], bool] = lambda at: True, context: int = CONTEXT) -> Told:
    runner = masked(Told, context)
    assert isinstance(runner, Told)
    runner.right = right
    return runner


class KeepsMasks(PardDrafter):
    """The broken twin: the row that stood for a guess stays as if it were that token's."""

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        proposal = super().propose(ids, request)
        self._held.extend(proposal.tokens[:-1])
        self._runner.length += len(proposal.tokens) - 1  # type: ignore[misc]
        return proposal


# --- what is read, and what stays -----------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_it_drafts_from_the_text_it_is_given_however_that_changed(seed):
    chance = random.Random(seed)
    runner = masked()
    drafter = PardDrafter("pard", runner)
    text = [chance.randrange(TINY_VOCAB)]
    for _ in range(6):
        text = text[: chance.randrange(1, len(text) + 1)]
        text += [chance.randrange(TINY_VOCAB) for _ in range(chance.choice((0, 1, 2, 5, 40)))]
        text = text[:90]
        k = chance.randrange(1, 17)
        drafter.observe(text)
        proposal = drafter.propose(text, request(k))
        assert list(proposal.tokens) == fresh_logits(text, k).argmax(-1).tolist()
        assert runner.length == len(text)
        audit(runner, text)


def test_a_round_is_one_step_and_only_the_first_guess_is_the_model_s_own():
    proposal = PardDrafter("pard", masked()).propose(PROMPT, request(5))
    assert proposal.sources == ("model", "mask", "mask", "mask", "mask")
    assert len(proposal.step_seconds) == 1
    assert proposal.origins == (None,) * 5


def rows_after_each_round(drafter: PardDrafter, runner: MaskRunner, k: int) -> list[int]:
    """Run; after each proposal audit the rows. Returns how many were accepted, by round."""
    target = Runner(TINY)
    run = session(target, drafter, header(PROMPT, replace(GREEDY, k=k), max_new_tokens=34))
    accepted = []
    while run.finished is None:
        before_round = list(run.ids)
        made = run.advance()
        if made.guesses:
            assert runner.length == len(before_round)
            audit(runner, before_round)
        accepted.append(made.accepted)
    assert kit.committed(run) == ORACLE[:34]
    return accepted


@pytest.mark.parametrize("k", range(1, 17))
def test_mask_rows_never_stay_though_every_guess_was_right(k):
    runner = told()
    accepted = rows_after_each_round(PardDrafter("pard", runner), runner, k)
    assert set(accepted[:-1]) == {k}


def test_the_audit_catches_mask_rows_that_stay():
    runner = told()
    with pytest.raises(AssertionError):
        rows_after_each_round(KeepsMasks("pard", runner), runner, 4)


def test_a_long_text_is_read_before_it_drafts():
    runner = masked()
    drafter = PardDrafter("pard", runner)
    drafter.observe([1] * (CATCH_UP + 1))
    assert runner.length == 0
    drafter.observe([1] * (CATCH_UP + 2))
    assert runner.length == CATCH_UP + 1


# --- limits ---------------------------------------------------------------------------------


def test_rows_that_do_not_fit_change_nothing():
    runner = masked(context=10)
    runner.ahead([1, 2, 3], 4)
    with pytest.raises(ContextFullError):
        runner.ahead([4, 5, 6], 6)
    assert runner.length == 3
    assert runner.ahead([4, 5, 6], 5).shape == (5, TINY_VOCAB)


@pytest.mark.parametrize("k", [1, 4, 16])
def test_a_text_goes_on_past_the_drafter_s_context(k):
    target = Runner(TINY)
    drafter = PardDrafter("pard", told(context=len(PROMPT) + 14))
    run = session(target, drafter, header(PROMPT, replace(GREEDY, k=k), max_new_tokens=34))
    drafted = [len(made.guesses) for made in run.rounds()]
    assert drafted[0] > 0
    assert drafted[-1] == 0
    assert kit.committed(run) == ORACLE[:34]


# --- the text -------------------------------------------------------------------------------


@pytest.mark.parametrize("quality", [100.0, 60.0, 0.0])
def test_greedy_text_is_the_target_s_own_while_k_changes_and_rounds_are_taken_back(quality):
    chance = random.Random(int(quality))
    drafter = PardDrafter("pard", told(lambda at: at % 3 != 1))
    run = session(Runner(TINY), drafter, header(PROMPT, GREEDY, max_new_tokens=36))
    drafted = 0
    for _ in range(9):
        if run.finished is None:
            drafted += len(run.advance().guesses)
        to_round = max(0, run.made - chance.randrange(3))
        run.rewind(to_round, replace(GREEDY, k=chance.randrange(0, 17), quality=quality))
    for made in run.rounds():
        drafted += len(made.guesses)
    assert drafted > 0
    assert kit.committed(run)[:36] == ORACLE[:36]


def test_a_rewind_that_changes_nothing_repeats_the_sampled_run():
    warm = Settings(drafter="pard", k=3, temperature=0.9, top_k=40, quality=80.0)

    def run():
        return session(Runner(TINY), PardDrafter("pard", told()), header(PROMPT, warm, seed=4))

    straight = list(run().rounds())
    taken_back = run()
    made = [taken_back.advance() for _ in range(5)]
    taken_back.rewind(2, warm)
    assert essence(made[:2] + list(taken_back.rounds())) == essence(straight)


# --- the laws -------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("quality", [100.0, 40.0, 0.0])
@pytest.mark.parametrize("k", [1, 5, 16])
def test_a_proposal_comes_with_the_laws_of_its_rows(temperature, quality, k):
    """B13: a guess is drawn from its row's law, whatever the guesses before it came out as."""
    asked = request(k, temperature=temperature, quality=quality, top_k=9)
    proposal = PardDrafter("pard", masked()).propose(PROMPT, asked)
    logits = fresh_logits(PROMPT, k)
    assert len(proposal.tokens) == len(proposal.laws) == k
    for slot, (token, law) in enumerate(zip(proposal.tokens, proposal.laws, strict=True)):
        assert torch.allclose(law, asked.law_of(asked.scores(logits[slot], PROMPT)), atol=1e-9)
        assert asked.draw(slot, law) == token


def test_a_penalty_sees_the_guesses_before():
    asked = request(3, repetition_penalty=5.0, temperature=1.0)
    proposal = PardDrafter("pard", masked()).propose(PROMPT, asked)
    logits = fresh_logits(PROMPT, 3)
    for slot, law in enumerate(proposal.laws):
        text = [*PROMPT, *proposal.tokens[:slot]]
        assert torch.allclose(law, asked.law_of(asked.scores(logits[slot], text)), atol=1e-9)
