"""EAGLE: each row is read with the right feature, guessed features never stay, text is exact."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.drafters.eagle import EagleDrafter, FusedRunner, before
from engine.drafters.model import CATCH_UP
from engine.drafters.proposal import Drafter, DraftRequest, Proposal
from engine.llama import Runner, TorchKernel, Weights
from engine.sampling import Draws
from engine.trace import Settings
from engine.training.eagle import EagleDecoder
from engine.training.model import Shape
from tests.engine import kit
from tests.engine.kit import TINY, TINY_VOCAB, header, session
from tests.engine.runs import GREEDY, ORACLE, PROMPT, essence

CONTEXT = 128
LAYER = replace(kit.tiny_weights(7, layers=1), embedding=TINY.embedding)
HIDDEN = LAYER.config.hidden_size
FUSION = torch.randn(HIDDEN, 2 * HIDDEN, generator=torch.Generator().manual_seed(3)).double() / 8
UNIFORM = torch.full((TINY_VOCAB,), 1 / TINY_VOCAB, dtype=torch.float64)


def fused(make: Callable[..., FusedRunner] = FusedRunner) -> FusedRunner:
    return make(LAYER, FUSION, CONTEXT, TorchKernel(LAYER, CONTEXT))


def features_of(ids: Sequence[int]) -> Tensor:
    """The target's features of a text but its last token, from a fresh pass."""
    target = Runner(TINY)
    if len(ids) > 1:
        target.forward(ids[:-1])
    return target.hidden[: len(ids) - 1]


def request(features: Tensor | None, k: int = 4, **changes: object) -> DraftRequest:
    return DraftRequest(k, Settings(**changes), UNIFORM, Draws(0), 0, features=features)


def fresh_guesses(ids: Sequence[int], k: int) -> list[int]:
    """The oracle: every true row in one pass, then greedy guesses on its own features."""
    runner = fused()
    logits = runner.read(ids, before(features_of(ids), 0, len(ids)))
    guesses = [int(logits.argmax())]
    while len(guesses) < k:
        guesses.append(int(runner.read(guesses[-1:], runner.last).argmax()))
    return guesses


def audit(runner: FusedRunner, ids: Sequence[int]) -> None:
    """Rows of the text are those of a fresh reading with the target's own features."""
    fresh = fused()
    fresh.read(ids, before(features_of(ids), 0, len(ids)))
    for mine, theirs in (
        (runner.cache.keys, fresh.cache.keys),
        (runner.cache.values, fresh.cache.values),
    ):
        assert torch.allclose(mine[:, :, : len(ids)], theirs[:, :, : len(ids)], atol=1e-9)


class Told(FusedRunner):
    """Reads as any other, but where `right` says so it likes the target's next token best."""

    right: Callable[[int], bool] = staticmethod(lambda at: True)

    def read(self, ids: Sequence[int], features: Tensor) -> Tensor:
        logits = super().read(ids, features).clone()
        at = self.length - len(PROMPT)
        if 0 <= at < len(ORACLE) and self.right(at):
            logits[ORACLE[at]] = logits.max() + 50
        return logits


def told(right: Callable[[int], bool] = lambda at: True) -> Told:
    runner = fused(Told)
    assert isinstance(runner, Told)
    runner.right = right
    return runner


class KeepsGuesses(EagleDrafter):
    """The broken twin: what it read for its guesses stays if they turn out right."""

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        proposal = super().propose(ids, request)
        self._held.extend(proposal.tokens[:-1])
        return proposal


# --- which feature goes with which token ----------------------------------------------------


def markers(count: int) -> Tensor:
    """A feature for each position that says which one it is."""
    return torch.arange(1.0, count + 1).double()[:, None].expand(count, HIDDEN)


class Pairs(FusedRunner):
    """Notes the marker each token is read with."""

    def read(self, ids: Sequence[int], features: Tensor) -> Tensor:
        self.pairs = [*getattr(self, "pairs", []), *zip(ids, features[:, 0].tolist(), strict=True)]
        return super().read(ids, features)


def pairs_of(texts: Sequence[list[int]]) -> list[tuple[int, float]]:
    runner = fused(Pairs)
    drafter = EagleDrafter("eagle", runner)
    for text in texts:
        drafter.propose(text, request(markers(len(text) - 1), k=1))
    assert isinstance(runner, Pairs)
    return runner.pairs


@pytest.mark.parametrize("cut", [1, 2, 5, CATCH_UP + 3])
def test_each_token_is_read_with_the_feature_of_the_token_before_it(cut):
    """B10: marker i is the feature of token i; token i + 1 is the one read with it."""
    text = list(range(40, 40 + 20)) + list(range(1, 40))
    expected = [(token, float(at)) for at, token in enumerate(text)]  # nothing is before the first
    assert pairs_of([text[:cut], text]) == expected


def test_the_pairing_test_catches_a_feature_shifted_by_one(monkeypatch):
    monkeypatch.setattr(
        "engine.drafters.eagle.before", lambda features, first, count: markers(60)[first:][:count]
    )
    text = list(range(1, 40))
    assert pairs_of([text]) != [(token, float(at)) for at, token in enumerate(text)]


def test_without_features_it_says_what_it_lacks():
    with pytest.raises(ValueError, match="features"):
        EagleDrafter("eagle", fused()).propose(PROMPT, request(None))


# --- what is kept ---------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_it_drafts_from_the_text_it_is_given_however_that_changed(seed):
    chance = random.Random(seed)
    runner = fused()
    drafter = EagleDrafter("eagle", runner)
    text = [chance.randrange(TINY_VOCAB)]
    for _ in range(6):
        text = text[: chance.randrange(1, len(text) + 1)]
        text += [chance.randrange(TINY_VOCAB) for _ in range(chance.choice((0, 1, 2, 5, 40)))]
        text = text[:90]
        k = chance.randrange(1, 6)
        drafter.observe(text)
        proposal = drafter.propose(text, request(features_of(text), k))
        assert list(proposal.tokens) == fresh_guesses(text, k)
        audit(runner, text)


def rows_after_each_round(drafter: EagleDrafter, runner: FusedRunner, k: int) -> list[int]:
    """Run with acceptance; after each proposal audit the rows. Returns how many were accepted."""
    target = Runner(TINY)
    run = session(target, drafter, header(PROMPT, replace(GREEDY, k=k), max_new_tokens=30))
    accepted = []
    while run.finished is None:
        before_round = list(run.ids)
        made = run.advance()
        if made.guesses:
            audit(runner, before_round)
        accepted.append(sum(guess.verdict == "accepted" for guess in made.guesses))
    assert kit.committed(run) == ORACLE[:30]
    return accepted


@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_accepted_rows_are_read_again_with_true_features(k):
    """B10: audited before every round, all guesses accepted."""
    runner = told()
    accepted = rows_after_each_round(EagleDrafter("eagle", runner), runner, k)
    assert set(accepted[:-1]) == {k}


def test_the_audit_catches_rows_that_keep_guessed_features():
    runner = told()
    with pytest.raises(AssertionError):
        rows_after_each_round(KeepsGuesses("eagle", runner), runner, 4)


# --- the text -------------------------------------------------------------------------------


def stays_the_target_s(drafter: Drafter, quality: float) -> None:
    """A greedy run whose K changes and whose rounds are taken back writes the target's text."""
    chance = random.Random(int(quality))
    run = session(Runner(TINY), drafter, header(PROMPT, GREEDY, max_new_tokens=36))
    drafted = 0
    for _ in range(9):
        if run.finished is None:
            drafted += len(run.advance().guesses)
        to_round = max(0, run.made - chance.randrange(3))
        run.rewind(to_round, replace(GREEDY, k=chance.randrange(0, 7), quality=quality))
    for made in run.rounds():
        drafted += len(made.guesses)
    assert drafted > 0
    assert kit.committed(run)[:36] == ORACLE[:36]


@pytest.mark.parametrize("quality", [100.0, 60.0, 0.0])
def test_greedy_text_is_the_target_s_own_while_k_changes_and_rounds_are_taken_back(quality):
    stays_the_target_s(EagleDrafter("eagle", told(lambda at: at % 3 != 1)), quality)


def test_a_rewind_that_changes_nothing_repeats_the_sampled_run():
    warm = Settings(drafter="eagle", k=3, temperature=0.9, top_k=40, quality=80.0)

    def run():
        return session(Runner(TINY), EagleDrafter("eagle", told()), header(PROMPT, warm, seed=4))

    straight = list(run().rounds())
    taken_back = run()
    made = [taken_back.advance() for _ in range(5)]
    taken_back.rewind(2, warm)
    assert essence(made[:2] + list(taken_back.rounds())) == essence(straight)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("quality", [100.0, 40.0])
def test_a_proposal_comes_with_the_laws_it_was_drawn_from(temperature, quality):
    """B13."""
    asked = request(features_of(PROMPT), 5, temperature=temperature, quality=quality, top_k=9)
    proposal = EagleDrafter("eagle", fused()).propose(PROMPT, asked)
    assert len(proposal.tokens) == len(proposal.laws) == len(proposal.step_seconds) == 5
    for slot, (token, law) in enumerate(zip(proposal.tokens, proposal.laws, strict=True)):
        assert float(law.sum()) == pytest.approx(1, abs=1e-6)
        assert asked.draw(slot, law) == token


# --- training and drafting agree ------------------------------------------------------------


def trained_twin(weights: Weights) -> EagleDecoder:
    """The same layer and fusion as the training code holds them."""
    c = weights.config
    decoder = EagleDecoder(
        Shape(c.layers, c.hidden_size, c.mlp_size, c.heads, c.kv_heads, c.rope_theta, c.norm_eps,
              c.vocab_size, c.context)
    )  # fmt: skip
    q_size, kv_size = c.heads * c.head_dim, c.kv_heads * c.head_dim
    query, key, value = weights.qkv[0].split([q_size, kv_size, kv_size])
    gate, up = weights.gate_up[0].chunk(2)
    decoder.load_state_dict(
        {
            "fusion.weight": FUSION,
            "layers.0.input_layernorm.weight": weights.attention_norm[0],
            "layers.0.self_attn.q_proj.weight": query,
            "layers.0.self_attn.k_proj.weight": key,
            "layers.0.self_attn.v_proj.weight": value,
            "layers.0.self_attn.o_proj.weight": weights.output[0],
            "layers.0.post_attention_layernorm.weight": weights.mlp_norm[0],
            "layers.0.mlp.gate_proj.weight": gate,
            "layers.0.mlp.up_proj.weight": up,
            "layers.0.mlp.down_proj.weight": weights.down[0],
            "norm.weight": weights.norm,
        }
    )
    return decoder


def test_training_passes_are_the_guesses_of_a_round():
    """The n-th training pass at a position is what drafting makes there as its n-th guess."""
    ids = [*PROMPT, 9, 2, 6, 5, 3, 5, 8, 9]
    features = features_of([*ids, 0])
    decoder = trained_twin(LAYER)
    with torch.no_grad():
        passes = decoder.ahead(TINY.embedding[ids].float(), features.float(), [len(ids)], 4)
    for last_true in (0, 3, 7):
        runner = fused()
        runner.read(ids[: last_true + 1], before(features, 0, last_true + 1))
        for number in range(4):
            at = last_true + number
            if number:
                runner.read([ids[at]], runner.last)
            assert torch.allclose(runner.last[0].float(), passes[number][at], atol=1e-4)
