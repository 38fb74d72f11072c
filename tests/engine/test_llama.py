"""The lean Llama is the Llama, whatever its cache has been through."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from engine.drafters.model import ModelDrafter
from engine.llama import (
    Branches,
    ContextFullError,
    LlamaConfig,
    ModelError,
    Runner,
    TorchKernel,
    Weights,
)
from engine.trace import Settings
from tests.engine.kit import header, session
from tests.engine.trees import grow, rows_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IDS = torch.randint(0, 64, (40,), generator=torch.Generator().manual_seed(1)).tolist()


def hugging_face(config: LlamaConfig) -> dict[str, object]:
    return {
        "model_type": "llama", "vocab_size": config.vocab_size, "hidden_size": config.hidden_size,
        "intermediate_size": config.mlp_size, "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads, "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim, "rms_norm_eps": config.norm_eps,
        "max_position_embeddings": config.context, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
    }  # fmt: skip


def transformers_model(config: LlamaConfig) -> PreTrainedModel:
    """Their model in float64. Its norm always computes in float32, so it is exchanged for torch's,
    which does not.
    """
    from transformers import LlamaConfig as TheirConfig
    from transformers import LlamaForCausalLM
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    model = LlamaForCausalLM(TheirConfig(**hugging_face(config))).double().eval()
    for name, module in list(model.named_modules()):
        if isinstance(module, LlamaRMSNorm):
            norm = torch.nn.RMSNorm(config.hidden_size, config.norm_eps, dtype=torch.float64)
            model.set_submodule(name, norm)
    model.load_state_dict(tiny.tensors(config))
    return model


def oracle(config: LlamaConfig, ids: list[int]) -> Tensor:
    """Transformers' logits, no cache."""
    with torch.inference_mode():
        return transformers_model(config)(torch.tensor([ids])).logits[0]


@pytest.fixture(scope="module", params=[tiny.CONFIG, tiny.LANED], ids=["small", "laned"])
def config(request: pytest.FixtureRequest) -> LlamaConfig:
    return request.param


@pytest.fixture(scope="module")
def expected(config: LlamaConfig) -> Tensor:
    return oracle(config, IDS)


def close(mine: Tensor, theirs: Tensor) -> bool:
    return bool((mine - theirs).abs().max() < 1e-10)


def test_logits_are_those_of_transformers(config: LlamaConfig, expected: Tensor) -> None:
    weights = tiny.weights(config)
    assert close(Runner(weights).forward(IDS), expected)
    assert close(Runner(weights).forward(IDS, last_only=True), expected[-1:])


def test_a_token_at_a_time_or_in_chunks_is_the_same(config: LlamaConfig, expected: Tensor) -> None:
    for size in (1, 3, 7):
        runner = Runner(tiny.weights(config))
        parts = [runner.forward(IDS[at : at + size]) for at in range(0, len(IDS), size)]
        assert close(torch.cat(parts), expected)


@pytest.mark.parametrize("penalty", [1.0, 1.3, 0.8])
def test_greedy_text_is_the_one_that_transformers_generates(penalty: float) -> None:
    """Their loop, their penalty, their place for it; ours with guesses of another model."""
    prompt = IDS[:6]
    theirs = transformers_model(tiny.CONFIG).generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, 6), do_sample=False,
        repetition_penalty=penalty, max_new_tokens=40, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    drafter = ModelDrafter("model", Runner(tiny.weights(tiny.CONFIG, seed=1)))
    s = Settings("model", 4, quality=60.0, repetition_penalty=penalty)
    run = session(Runner(tiny.weights(tiny.CONFIG)), drafter, header(prompt, s, max_new_tokens=40))
    list(run.rounds())
    assert list(run.ids) == theirs[0].tolist()


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.booleans()), max_size=12))
def test_rollbacks_leave_no_trace(steps: list[tuple[int, int, bool]]) -> None:
    """Feed right or wrong tokens, roll back, again and again: the rows left are fresh ones."""
    runner = Runner(WEIGHTS, 64)
    held: list[int] = []
    for count, back, right in steps:
        at = len(held)
        fed = IDS[at : at + count] if right else [63 - id_ for id_ in IDS[at : at + count]]
        if not fed:
            break
        runner.forward(fed)
        held += fed
        held = held[: max(0, len(held) - back)]
        runner.rollback(len(held))
    audit(runner, held)


WEIGHTS = tiny.weights()


def audit(runner: Runner, ids: list[int]) -> None:
    """Every cached row below the length equals that of a fresh prefill of the same ids."""
    assert runner.length == len(ids)
    fresh = Runner(runner.weights, runner.context)
    if ids:
        fresh.forward(ids)
    for mine, theirs in (
        (runner.cache.keys, fresh.cache.keys),
        (runner.cache.values, fresh.cache.values),
    ):
        assert torch.allclose(mine[:, :, : len(ids)], theirs[:, :, : len(ids)], atol=1e-12, rtol=0)


def test_the_audit_catches_a_wrong_row() -> None:
    runner = Runner(WEIGHTS)
    runner.forward(IDS[:9])
    runner.cache.keys[1, 0, 4, 3] += 1e-6
    with pytest.raises(AssertionError):
        audit(runner, IDS[:9])


def test_rolling_back_moves_the_length_and_only_it() -> None:
    runner = Runner(WEIGHTS)
    runner.forward(IDS[:8])
    before = runner.cache.keys.clone()
    for length in (8, 7, 3, 0, 0):
        runner.rollback(length)
        assert runner.length == length
        assert runner.cache.keys.equal(before)
    for wrong in (1, -1):
        with pytest.raises(ValueError, match="cannot roll back"):
            runner.rollback(wrong)


def test_the_cache_stays_where_it_is() -> None:
    runner = Runner(WEIGHTS)
    places = runner.cache.keys.data_ptr(), runner.cache.values.data_ptr()
    for at in range(20):
        if at % 2:
            runner.forward(IDS[at : at + 3], parents=[at - 1, at, at])
            runner.keep([at, at + 2])
        else:
            runner.forward(IDS[at : at + 3])
        runner.rollback(at + 1)
    assert places == (runner.cache.keys.data_ptr(), runner.cache.values.data_ptr())


def test_a_full_context_is_an_error_that_changes_nothing() -> None:
    runner = Runner(WEIGHTS, context=10)
    runner.forward(IDS[:8])
    before = runner.cache.keys.clone()
    with pytest.raises(ContextFullError, match="8 tokens held and 3 more exceed the context of 10"):
        runner.forward(IDS[8:11])
    assert runner.length == 8
    assert runner.cache.keys.equal(before)
    runner.forward(IDS[8:10])
    assert runner.length == runner.context == 10


def test_the_context_is_never_longer_than_the_models() -> None:
    assert Runner(WEIGHTS, context=10**6).context == tiny.CONFIG.context


def test_feeding_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Runner(WEIGHTS).forward([])


def test_hidden_states_give_the_logits() -> None:
    runner = Runner(WEIGHTS)
    logits = runner.forward(IDS[:5], last_only=True)
    assert close(runner.hidden[4:5] @ WEIGHTS.head.T, logits)


def test_rows_in_the_place_of_embeddings_are_those_embeddings() -> None:
    by_id, by_row = Runner(WEIGHTS), Runner(WEIGHTS)
    expected = by_id.forward(IDS[:5])
    rows = WEIGHTS.embedding[IDS[:5]]
    assert close(by_row.kernel.hidden_of(rows, 0, by_row.cache) @ WEIGHTS.head.T, expected)


# --- branches -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_a_branch_is_what_it_would_be_as_the_text(seed: int) -> None:
    runner, straight = Runner(WEIGHTS), Runner(WEIGHTS)
    held = grow(runner, straight, 6, seed, close)
    audit(runner, held)


class SeesSiblings(Runner):
    """Broken: a row sees every row before it in the cache."""

    def _new(self, branches: Branches | None) -> Branches | None:
        new = super()._new(branches)
        if new is None:
            return None
        lines = [tuple(range(seen, line[-1] + 1)) for seen, line in zip(
            new.straight, new.lines, strict=True)]  # fmt: skip
        return replace(new, lines=tuple(lines))


class StandsBySlot(Runner):
    """Broken: a row stands at the position of its cache row."""

    class Slots(Branches):
        @property
        def positions(self) -> list[int]:
            return [line[-1] for line in self.lines]

    def _new(self, branches: Branches | None) -> Branches | None:
        new = super()._new(branches)
        return new and self.Slots(new.base, new.straight, new.lines)


class KeepsOldHidden(Runner):
    """Broken: keys and values are gathered, hidden states are not."""

    def keep(self, rows: Sequence[int]) -> None:
        before = self.hidden.clone()
        super().keep(rows)
        self.hidden.copy_(before)


class KeepsTheFirst(Runner):
    """Broken: as many rows stay as are to be kept, whichever they are."""

    def keep(self, rows: Sequence[int]) -> None:
        self.rollback(rows[0] + len(rows))
        self._branches = None


@pytest.mark.parametrize("twin", [SeesSiblings, StandsBySlot, KeepsOldHidden, KeepsTheFirst])
def test_a_broken_tree_pass_is_caught(twin: type[Runner]) -> None:
    caught = 0
    for seed in range(8):
        try:
            grow(twin(WEIGHTS), Runner(WEIGHTS), 6, seed, close)
        except AssertionError:
            caught += 1
    assert caught >= 6  # two of these seeds keep only what lies in its place


def test_rows_may_branch_off_anywhere_and_go_on_by_themselves() -> None:
    """From the empty text, from the midst of the straight rows, and without naming a parent."""
    runner = Runner(WEIGHTS)
    first = runner.forward(IDS[:2], parents=[-1, -1])
    assert close(first[1:], Runner(WEIGHTS).forward(IDS[1:2]))
    runner.rollback(0)
    runner.forward(IDS[:6])
    runner.forward([7, 8], parents=[2, 6])
    after = runner.forward([9, 10])
    assert close(after, Runner(WEIGHTS).forward([*IDS[:3], 7, 8, 9, 10])[-2:])
    runner.rollback(8)
    assert close(runner.forward([11]), Runner(WEIGHTS).forward([*IDS[:3], 7, 8, 11])[-1:])
    runner.rollback(6)
    assert close(runner.forward([12]), Runner(WEIGHTS).forward([*IDS[:6], 12])[-1:])


def test_a_chain_named_by_its_parents_is_a_plain_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    plain = TorchKernel.hidden_of
    monkeypatch.setattr(
        TorchKernel,
        "hidden_of",
        lambda self, x, start, cache, branches: (
            given.append(branches) or plain(self, x, start, cache, branches)
        ),
    )
    runner = Runner(WEIGHTS)
    runner.forward(IDS[:4])
    runner.forward(IDS[4:7], parents=[3, 4, 5])
    runner.keep([4, 5])
    runner.forward(IDS[6:8])
    assert given == [None] * 3
    audit(runner, IDS[:8])


def test_what_is_no_branch_is_an_error_that_changes_nothing() -> None:
    runner = Runner(WEIGHTS, context=12)
    runner.forward(IDS[:4])
    for parents, words in (([4], "cannot follow"), ([-2], "cannot follow"), ([3, 3], "1 tokens")):
        with pytest.raises(ValueError, match=words):
            runner.forward([1], parents=parents)
    with pytest.raises(ContextFullError):
        runner.forward(IDS[:9], parents=rows_of([0] * 8, 4))
    assert runner.length == 4
    runner.forward([1, 2, 3, 4], parents=[3, 3, 4, 1])
    for rows in ([5, 6], [6], [4, 5], [4, 6, 7], [7], [4, 8], [3]):
        with pytest.raises(ValueError, match="do not follow"):
            runner.keep(rows)
    assert runner.length == 8
    runner.keep([4, 6])
    audit(runner, [*IDS[:4], 1, 3])
    runner.keep([])
    with pytest.raises(ValueError, match="do not follow"):
        runner.keep([6])


def test_a_branch_that_is_kept_serves_the_layers_that_share_its_rows() -> None:
    owner = Runner(WEIGHTS)
    cut = owner.first_layers(1)
    owner.forward(IDS[:4])
    owner.forward([5, 6, 7, 8], parents=rows_of([-1, -1, 1], 4))
    owner.keep([4, 6, 7])
    cut.adopt(7)
    text = [*IDS[:4], 5, 7, 8, 9]
    assert close(cut.forward([9]), Runner(WEIGHTS.first_layers(1)).forward(text)[-1:])


# --- parts of a model -----------------------------------------------------------------------


def test_all_layers_skipped_to_is_the_model_itself() -> None:
    whole = Runner(WEIGHTS)
    cut = whole.first_layers(tiny.CONFIG.layers)
    assert close(cut.forward(IDS[:6]), Runner(WEIGHTS).forward(IDS[:6]))


def test_first_layers_share_the_owners_rows() -> None:
    owner = Runner(WEIGHTS)
    owner.forward(IDS[:10])
    cut = owner.first_layers(1)
    cut.adopt(10)
    alone = Runner(WEIGHTS.first_layers(1))
    alone.forward(IDS[:10])
    assert close(cut.forward(IDS[10:13]), alone.forward(IDS[10:13]))
    owner.forward(IDS[10:13])
    audit(owner, IDS[:13])
    with pytest.raises(ValueError, match="layers must be 1 to 2"):
        owner.first_layers(3)


def test_a_reduced_head_scores_its_ids_and_nothing_else() -> None:
    ids = torch.tensor([5, 2, 60])
    tensors = tiny.tensors(tiny.CONFIG)
    whole = Weights.from_tensors(tiny.CONFIG, tensors, torch.float64)
    del tensors["lm_head.weight"], tensors["model.embed_tokens.weight"]
    reduced = Weights.from_tensors(
        tiny.CONFIG, tensors | {"vocab_ids": ids}, torch.float64, embedding=whole.embedding
    )
    assert reduced.embedding is whole.embedding
    tied = Runner(replace(whole, head=whole.embedding)).forward(IDS[:4])
    logits = Runner(reduced).forward(IDS[:4])
    assert logits.shape == (4, 64)
    assert close(logits[:, ids], tied[:, ids])
    others = torch.ones(64, dtype=torch.bool)
    others[ids] = False
    assert (logits[:, others] == -torch.inf).all()


# --- folders --------------------------------------------------------------------------------


def save(folder: Path, tensors: dict[str, Tensor], **changes: object) -> Path:
    (folder / "config.json").write_text(json.dumps(hugging_face(tiny.CONFIG) | changes))
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_a_folder_loads_in_the_precision_asked_for(tmp_path: Path) -> None:
    named = {name: each.bfloat16() for name, each in tiny.tensors(tiny.CONFIG).items()}
    weights = Weights.load(save(tmp_path, named))
    assert asdict(weights.config) == asdict(tiny.CONFIG)
    assert {weights.qkv.dtype, weights.embedding.dtype} == {torch.float32}
    assert Weights.load(tmp_path, torch.float64).norm.dtype == torch.float64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mamba"}, "'mamba' is not supported"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "scaled rotary"),
        ({"attention_bias": True}, "bias"),
        ({"sliding_window": 8}, "taken back"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "taken back"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "taken back"),
        ({"hidden_size": None}, "config.json lacks"),
        ({"num_key_value_heads": 4}, "qkv has shape"),
    ],
)
def test_a_config_that_is_not_ours_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        Weights.load(save(tmp_path, tiny.tensors(tiny.CONFIG), **change))


def test_a_config_that_names_its_layers_full_is_ours(tmp_path: Path) -> None:
    kinds = {"layer_types": ["full_attention"] * 2, "sliding_window": None}
    Weights.load(save(tmp_path, tiny.tensors(tiny.CONFIG), **kinds))


def test_weights_that_could_run_code_are_not_opened(tmp_path: Path) -> None:
    save(tmp_path, tiny.tensors(tiny.CONFIG))
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"no \.safetensors"):
        Weights.load(tmp_path)


def test_missing_and_cut_weights_are_named(tmp_path: Path) -> None:
    named = tiny.tensors(tiny.CONFIG)
    del named["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(ModelError, match=r"lack layers\.1\.mlp\.up_proj"):
        Weights.load(save(tmp_path, named))
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-10])
    with pytest.raises(ModelError, match="not a whole safetensors"):
        Weights.load(tmp_path)
    with pytest.raises(ModelError, match=r"no readable config\.json"):
        Weights.load(tmp_path / "nowhere")


def test_the_real_target_is_what_transformers_makes_of_it(target_folder: Path) -> None:
    from transformers import LlamaForCausalLM

    ids = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511]
    model = LlamaForCausalLM.from_pretrained(target_folder, dtype=torch.float32)
    with torch.inference_mode():
        theirs = model(torch.tensor([ids])).logits[0]
    mine = Runner(Weights.load(target_folder), 64).forward(ids)
    assert (mine - theirs).abs().max() < 1e-3
    assert mine.argmax(-1).equal(theirs.argmax(-1))
