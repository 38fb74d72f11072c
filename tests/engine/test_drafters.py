"""Drafters: what they propose, with which law, and that nothing stale is ever drafted from."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from engine.decode import Session
from engine.drafters.catalogue import Catalogue, Makers, unigram
from engine.drafters.eagle import EagleDrafter
from engine.drafters.model import CATCH_UP, LayerSkipDrafter, ModelDrafter
from engine.drafters.ngram import NGramDrafter, latest_continuation
from engine.drafters.proposal import DraftRequest, Proposal, common_prefix
from engine.drafters.retrieval import HybridDrafter, RetrievalDrafter
from engine.drafters.suffix_index import SuffixIndex
from engine.llama import Runner
from engine.lowbit import LADDER
from engine.sampling import Draws
from engine.trace import Settings
from tests.engine import kit
from tests.engine.kit import TINY, TINY_D, alone, audit, header, session
from tests.engine.test_eagle import fused

VOCAB = kit.TINY_VOCAB
UNIFORM = torch.full((VOCAB,), 1 / VOCAB, dtype=torch.float64)
PROMPT = [3, 1, 4, 1, 5]


def request(k: int = 4, index: int = 0, **changes: object) -> DraftRequest:
    return DraftRequest(k, Settings(**changes), UNIFORM, Draws(0), index)


def store(*texts: list[int]) -> SuffixIndex:
    return SuffixIndex(np.array([token for text in texts for token in text], dtype=np.uint16))


# --- every drafter, one contract -------------------------------------------------------------


def drafters() -> dict[str, object]:
    target = Runner(TINY)
    target.forward(PROMPT * 3)
    memory = RetrievalDrafter(store([9, 8, 7, 6, 5, 4, 3, 2, 1] * 2))
    return {
        "model": ModelDrafter("model", Runner(TINY_D)),
        "layer-skip": LayerSkipDrafter(1, target.first_layers(1)),
        "n-gram": NGramDrafter(),
        "retrieval": memory,
    }


@pytest.mark.parametrize("name", drafters())
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("quality", [100.0, 40.0, 0.0])
@pytest.mark.parametrize("k", [1, 4, 16])
def test_a_proposal_comes_with_the_laws_it_was_drawn_from(name, temperature, quality, k):
    """B13: and those laws are laws."""
    drafter = drafters()[name]
    wanted = request(k, temperature=temperature, quality=quality, top_k=9)
    drafter.observe(PROMPT * 3)
    proposal = drafter.propose(PROMPT * 3, wanted)
    count = len(proposal.tokens)
    assert 0 < count <= k
    assert len(proposal.laws) == len(proposal.sources) == len(proposal.origins) == count
    for slot, (token, law) in enumerate(zip(proposal.tokens, proposal.laws, strict=True)):
        assert law.shape == (VOCAB,)
        assert float(law.sum()) == pytest.approx(1, abs=1e-6)
        assert float(law[token]) > 0
        assert wanted.draw(slot, law) == token
        if quality == 0:
            assert torch.allclose(law, UNIFORM)
    assert all(seconds >= 0 for seconds in proposal.step_seconds)
    assert proposal.draft_probs(torch.empty(1, VOCAB)).shape == (count, VOCAB)


@pytest.mark.parametrize("name", drafters())
def test_a_penalty_shapes_a_model_s_law_and_leaves_a_lookup_certain(name):
    """A guess that is not drawn from a law is no law's to penalise."""
    text = PROMPT * 3
    laws = []
    for penalty in (1.0, 3.0):
        drafter = drafters()[name]
        drafter.observe(text)
        wanted = request(1, temperature=1.0, repetition_penalty=penalty)
        laws.append(drafter.propose(text, wanted).laws[0])
    if name in ("model", "layer-skip"):
        assert not torch.allclose(laws[0], laws[1])
        seen = sorted(set(text))
        assert float(laws[1][seen].sum()) < float(laws[0][seen].sum())
    else:
        assert torch.equal(laws[0], laws[1])
        assert float(laws[0].max()) == 1.0


@pytest.mark.parametrize("name", drafters())
@pytest.mark.parametrize("quality", [100.0, 40.0])
def test_text_is_the_target_s_own_with_every_drafter(name, quality):
    target = Runner(TINY)
    made = drafters()
    made["layer-skip"] = LayerSkipDrafter(1, target.first_layers(1))
    s = Settings(name, 4, quality)
    run = session(target, made[name], header(PROMPT, s, max_new_tokens=40))
    drafted = sum(len(each.guesses) for each in run.rounds())
    assert drafted > 0
    assert kit.committed(run) == alone(TINY, PROMPT, 40)


@pytest.mark.parametrize("name", drafters())
def test_the_same_text_again_is_drafted_the_same(name):
    """B11: a second identical run drafts and accepts as the first did."""
    target = Runner(TINY)
    made = drafters()
    made["layer-skip"] = LayerSkipDrafter(1, target.first_layers(1))
    runs = []
    for _ in range(2):
        run = session(target, made[name], header(PROMPT, Settings(name, 3)))
        runs.append([[g.token.id for g in each.guesses] for each in run.rounds()])
    assert runs[0] == runs[1]


def test_empty_proposal_has_the_width_of_the_target():
    assert Proposal().draft_probs(torch.empty(3, 7)).shape == (0, 7)


def test_common_prefix():
    assert common_prefix([1, 2, 3], [1, 2, 4, 5]) == 2
    assert common_prefix([1, 2], [1, 2, 4, 5]) == 2
    assert common_prefix([], [1]) == 0


# --- models ----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_model_drafts_from_the_text_it_is_given_however_that_changed(seed):
    """Any jump between texts: longer, shorter, another. Its guesses are those of a fresh model."""
    chance = random.Random(seed)
    runner = Runner(TINY_D)
    drafter = ModelDrafter("model", runner)
    text = [chance.randrange(VOCAB)]
    for _ in range(6):
        text = text[: chance.randrange(1, len(text) + 1)]
        text += [chance.randrange(VOCAB) for _ in range(chance.choice((0, 1, 2, 5, 40)))]
        text = text[:100]
        drafter.observe(text)
        k = chance.randrange(1, 6)
        proposal = drafter.propose(text, request(k))
        assert list(proposal.tokens) == alone(TINY_D, text, k)
        audit(runner, [*text, *proposal.tokens])


def test_each_step_of_a_model_is_timed_and_only_the_last_tokens_are_fed():
    fed = []

    class Counting(Runner):
        def forward(self, ids, last_only=False):
            fed.append(len(ids))
            return super().forward(ids, last_only)

    drafter = ModelDrafter("model", Counting(TINY_D))
    text = PROMPT * 8
    drafter.observe(text)
    assert fed == [len(text) - 1]
    fed.clear()
    proposal = drafter.propose(text, request(3))
    assert fed == [1, 1, 1]
    assert len(proposal.step_seconds) == 3
    fed.clear()
    accepted_all = [*text, *proposal.tokens, 7]
    drafter.observe(accepted_all)
    drafter.propose(accepted_all, request(2))
    assert fed == [2, 1]


def test_catching_up_on_a_few_tokens_is_drafting_and_on_many_is_preparation():
    runner = Runner(TINY_D)
    drafter = ModelDrafter("model", runner)
    drafter.observe([1] * (CATCH_UP + 1))
    assert runner.length == 0
    drafter.observe([1] * (CATCH_UP + 2))
    assert runner.length == CATCH_UP + 1


@pytest.mark.parametrize("layers", [1, 2])
def test_layer_skip_drafts_from_the_target_s_rows_and_leaves_them_right(layers):
    """B47: all layers accept everything; one layer loses nothing."""
    target = Runner(TINY)
    run = session(
        target,
        LayerSkipDrafter(layers, target.first_layers(layers)),
        header(PROMPT, Settings("layer-skip", 3)),
    )
    for made in run.rounds():
        audit(target, run.ids)
        if layers == 2:
            assert made.accepted == len(made.guesses)
    assert kit.committed(run) == alone(TINY, PROMPT, 24)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_any_mix_of_drafters_and_rewinds_leaves_every_cache_right(seed):
    """Drafters share runners and rows; each takes over from any other, anywhere in the text."""
    chance = random.Random(seed)
    target, draft = Runner(TINY), Runner(TINY_D)
    model = ModelDrafter("model", draft)
    right = alone(TINY, PROMPT, 40)
    memory = RetrievalDrafter(store([*right[:13], 63, *right[9:]]))
    every = {
        "model": model,
        "hybrid": HybridDrafter(memory, EagleDrafter("eagle", fused())),
        "retrieval": memory,
        "n-gram": NGramDrafter(),
        "layer-skip": LayerSkipDrafter(1, target.first_layers(1)),
    }
    run = Session(
        target, kit.Words(), every.__getitem__, UNIFORM, header(PROMPT, Settings("model"))
    )
    for _ in range(14):
        back = run.made if chance.random() < 0.7 else chance.randrange(run.made + 1)
        speculative = chance.random() < 0.9
        run.rewind(back, Settings(chance.choice(list(every)), chance.randrange(1, 6),
                                  speculative=speculative))  # fmt: skip
        if run.finished is not None:
            continue
        made = run.advance()
        text = list(run.ids[: made.position])
        for guess in made.guesses:
            if guess.source == "model" and made.settings.drafter != "hybrid":
                drawn_by = TINY.first_layers(1) if made.settings.drafter == "layer-skip" else TINY_D
                assert guess.token.id == alone(drawn_by, text, 1)[0]
            text.append(guess.token.id)
        audit(target, run.ids)
        audit(draft, model._held)
    assert kit.committed(run) == right[: len(kit.committed(run))]


# --- lookup ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "start"),
    [
        ([1, 2, 3, 9, 1, 2], 2),  # the pair (1, 2) went on with 3
        ([1, 2, 3, 1, 2, 4, 1, 2], 5),  # the most recent occurrence
        ([7, 1, 2, 3, 5, 1, 2, 4, 7, 1, 2], 3),  # the longer match beats the more recent
        ([1, 2, 3, 4], None),
        ([1, 1], None),  # a single token is no match
        ([1, 1, 1], 2),  # overlapping, yet not the end itself
        ([5], None),
        ([], None),
    ],
)
def test_n_gram_takes_the_longest_and_then_the_latest_match(ids, start):
    assert latest_continuation(np.asarray(ids, dtype=np.int64), 5, 2) == start


def slow_lookup(ids, longest, shortest):
    for length in range(longest, shortest - 1, -1):
        for start in range(len(ids) - length - 1, -1, -1):
            if ids[start : start + length] == ids[len(ids) - length :]:
                return start + length
    return None


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 8), st.integers(0, 7))
def test_n_gram_lookup_is_the_plain_search(ids, shortest, more):
    found = latest_continuation(np.asarray(ids, dtype=np.int64), shortest + more, shortest)
    assert found == slow_lookup(ids, shortest + more, shortest)


def test_n_gram_looks_up_as_many_tokens_as_it_is_told():
    """Four tokens match at the start, the last two again later, and the last one alone."""
    text = [1, 2, 3, 4, 10, 3, 4, 11, 4, 12, 1, 2, 3, 4]
    for lengths, token in (((2, 5), 10), ((2, 3), 10), ((2, 2), 11), ((1, 1), 12)):
        wanted = request(1, shortest_match=lengths[0], longest_match=lengths[1])
        assert NGramDrafter().propose(text, wanted).tokens == (token,)
    assert NGramDrafter().propose(text, request(1, shortest_match=5)).tokens == ()


def test_n_gram_copies_with_origin_and_goes_on_through_its_own_guesses():
    proposal = NGramDrafter().propose([1, 2, 3, 1, 2], request(6))
    assert proposal.tokens == (3, 1, 2, 3, 1, 2)
    assert proposal.origins == (2, 3, 4, 5, 6, 7)
    assert set(proposal.sources) == {"n-gram"}
    assert len(proposal.step_seconds) == 1


def test_n_gram_without_a_match_is_silent_and_the_run_goes_on():
    """B37: and drafting nothing is not an acceptance rate of 0."""
    assert NGramDrafter().propose([1, 2, 3], request(4)).tokens == ()
    run = session(Runner(TINY), NGramDrafter(), header([9, 8], Settings("n-gram", 4)))
    rounds = list(run.rounds())
    assert rounds[0].guesses == ()
    assert len(rounds[0].draft_step_seconds) == 1
    assert kit.committed(run) == alone(TINY, [9, 8], 24)


def test_retrieval_reads_this_text_and_the_store():
    memory = RetrievalDrafter(store([5, 6, 40, 41, 42, 0]))
    proposal = memory.propose([5, 6, 7, 30, 5, 6], request(1))
    assert (proposal.tokens, proposal.sources, proposal.origins) == ((7,), ("n-gram",), (2,))
    memory = RetrievalDrafter(store([5, 6, 40, 41, 42, 0] * 2))
    proposal = memory.propose([30, 5, 6], request(3))
    assert (proposal.tokens, proposal.sources) == ((40, 41, 42), ("store",) * 3)
    assert proposal.origins == (None,) * 3


# --- the catalogue ---------------------------------------------------------------------------


def makers(made: list[object], bits: int = 32) -> Makers:
    """Makers that note what they are asked for."""

    def note(kind):
        def make(*args):
            made.append((kind, *args))
            return Runner(TINY_D)

        return make

    kinds = ("copy", "layers", "distilled", "fused", "heads", "masked")
    return Makers(*map(note, kinds), layers=30, bits=bits)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "retrieval").mkdir()
    ids, one = np.array([9, 1, 2, 3], dtype=np.uint16), np.array([1], dtype=np.int32)
    np.savez(tmp_path / "retrieval" / "store.npz", ids=ids, lengths=4 * one, prompt_lengths=one)
    for name in ("small-1", "small", "small-4", "pard", "eagle", "mtp", "medusa"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text('{"tree": [[0], [1]]}')
        save_file({"norm": torch.ones(4)}, tmp_path / name / "model.safetensors")
    np.savez(tmp_path / "unigram.npz", probs=np.full(VOCAB, 1 / VOCAB, dtype=np.float32))
    return tmp_path


def test_every_name_makes_a_drafter_of_that_name_once(folder):
    asked: list[object] = []
    catalogue = Catalogue(makers(asked), folder)
    assert catalogue.names == (
        *LADDER, "small-1", "small", "small-4", "pard", "eagle", "mtp", "eagle-tree", "medusa",
        "medusa-tree", "n-gram", "retrieval", "hybrid", "layer-skip-20",
    )  # fmt: skip
    for name in (*catalogue.names, "layer-skip-7"):
        assert catalogue(name).name == name
        assert catalogue(name) is catalogue(name)
    assert asked == [
        *(("copy", width) for width in LADDER.values()),
        *(("distilled", folder / name) for name in ("small-1", "small", "small-4")),
        ("masked", folder / "pard"),
        *(("fused", folder / name) for name in ("eagle", "mtp", "eagle")),
        *[("heads", folder / "medusa")] * 2, ("layers", 20), ("layers", 7),
    ]  # fmt: skip


def test_heads_for_which_no_tree_was_found_draft_no_tree(folder):
    (folder / "medusa" / "config.json").write_text("{}")
    names = Catalogue(makers([]), folder).names
    assert "medusa" in names
    assert "medusa-tree" not in names


HURT = {
    "medusa/config.json": {"medusa-tree"},
    "medusa/model.safetensors": {"medusa", "medusa-tree"},
    "eagle/model.safetensors": {"eagle", "eagle-tree", "hybrid"},
    "small/config.json": {"small"},
    "pard/model.safetensors": {"pard"},
    "retrieval/store.npz": {"retrieval", "hybrid"},
}
"""Files, and whom each of them costs when it is damaged."""


@pytest.mark.parametrize("kept", [0, 1, -1], ids=["empty", "one byte", "cut short"])
@pytest.mark.parametrize("file", HURT)
def test_a_damaged_file_costs_only_whoever_needs_it(folder, file, kept):
    everybody = Catalogue(makers([]), folder).names
    path = folder / file
    path.write_bytes(path.read_bytes()[:kept])
    catalogue = Catalogue(makers([]), folder)
    assert catalogue.names == everybody
    for name in everybody:
        if name in HURT[file]:
            with pytest.raises(ValueError, match=rf"^{name} cannot be had: \S+{file} is missing, "):
                catalogue(name)
        else:
            assert catalogue(name).name == name


def test_a_drafter_without_its_weights_says_which_file_is_missing(folder):
    (folder / "mtp" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"mtp/model\.safetensors is missing, damaged or cut"):
        Catalogue(makers([]), folder)("mtp")


def test_what_was_made_of_one_target_s_text_is_not_offered_to_another():
    assert Catalogue(makers([]), None).names == (*LADDER, "n-gram", "layer-skip-20")


def test_a_copy_is_a_drafter_only_below_the_target_s_own_bits():
    assert Catalogue(makers([], bits=4), None).names[:3] == tuple(LADDER)[3:]


@pytest.mark.parametrize(
    "name", ["copy-9", "copy-4g63", "layer-skip-0", "layer-skip-31", "", "x", "models/another"]
)
def test_a_drafter_that_is_not_there_is_refused_with_the_choices(name):
    with pytest.raises(ValueError, match="choose auto, none, copy-8"):
        Catalogue(makers([]), None)(name)


def test_the_dial_s_law_is_the_shipped_one_or_flat(folder):
    assert unigram(folder, VOCAB).sum() == pytest.approx(1)
    assert unigram(folder, 10).tolist() == pytest.approx([0.1] * 10)
    assert unigram(None, 4).tolist() == [0.25] * 4
