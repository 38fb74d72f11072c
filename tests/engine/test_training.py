"""Training, on a tiny random model and a small corpus made up here: no weights, no network."""

from __future__ import annotations

import copy
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer as Rules
from tokenizers import decoders, models, pre_tokenizers

from engine import lowbit
from engine.drafters.suffix_index import SEPARATOR, SuffixIndex
from engine.llama import LlamaConfig, Runner, Weights
from engine.lowbit import Width
from engine.tokenizer import Tokenizer
from engine.training import corpus as text
from engine.training import (
    distil,
    evaluate,
    kinds,
    loop,
    prompts,
    rounds,
    ship,
    store,
    student,
    teacher,
    write,
)
from engine.training.model import Decoder, Shape
from engine.training.recipe import Recipe


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny products gain nothing from threads, and lose much where the cores are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


SHAPE = Shape(
    layers=3,
    hidden=24,
    intermediate=40,
    heads=4,
    kv_heads=2,
    rope_theta=10_000.0,
    norm_eps=1e-5,
    vocab_size=128,
    context=512,
)


def tiny_target() -> teacher.Target:
    torch.manual_seed(3)
    decoder = Decoder(SHAPE).requires_grad_(False)
    return teacher.Target(decoder, torch.randn(SHAPE.vocab_size, SHAPE.hidden), SHAPE)


def made_up_corpus(rows: int = 24) -> text.Corpus:
    """Rows of random ids: prompts of 3 and replies of 5 to 11 ids, temperatures in turn."""
    source = np.random.default_rng(5)
    lengths = 8 + np.arange(rows) % 7
    return text.Corpus(
        ids=source.integers(3, SHAPE.vocab_size, lengths.sum()).astype(np.uint16),
        starts=np.concatenate(([0], np.cumsum(lengths))),
        prompt_lengths=np.full(rows, 3, dtype=np.int32),
        temperature=np.resize(np.array([0.0, 0.7], dtype=np.float32), rows),
        family=np.full(rows, "explain"),
    )


def tiny_trainer(recipe: Recipe, kind: str = "small") -> tuple[loop.Trainer, loop.Lessons]:
    target, corpus = tiny_target(), made_up_corpus()
    vocab_ids = torch.arange(3, 80)
    order = np.random.default_rng(recipe.seed).permutation(len(corpus)).astype(np.int32)

    def laws(shard: int) -> teacher.Laws:
        rows = order[shard * teacher.SHARD_ROWS : (shard + 1) * teacher.SHARD_ROWS]
        return teacher.compute(target, corpus, rows, vocab_ids)

    lessons = loop.Lessons(corpus, order, laws, lambda: [0], recipe)
    learner = kinds.KINDS[kind](target, recipe.layers, vocab_ids)
    learner.begin(target, [corpus.row(row) for row in range(12)])
    return loop.Trainer(learner, recipe, torch.float32), lessons


def weights(trainer: loop.Trainer) -> dict[str, torch.Tensor]:
    return {name: t.clone() for name, t in trainer.student.decoder.state_dict().items()}


RECIPE = Recipe(layers=2, visits=600, step_tokens=20, warmup_steps=2)


def test_a_step_lowers_the_loss_on_its_own_rows() -> None:
    trainer, lessons = tiny_trainer(replace(RECIPE, warmup_steps=1))
    group = next(lessons.steps(0, [0], 0))
    losses = [trainer.step(lessons, group) for _ in range(6)]
    assert losses[1] < losses[0]
    assert losses[-1] < losses[1]


def test_the_closed_form_gradient_is_the_gradient() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(5, 8, dtype=torch.float32, requires_grad=True)
    head = torch.randn(11, 8)
    places = torch.stack([torch.randperm(11)[:4] for _ in range(5)])
    probs = torch.softmax(torch.randn(5, 4), -1)
    student.SoftCrossEntropy.apply(hidden, head, torch.zeros(11), places, probs).backward()
    found = hidden.grad
    plain = hidden.detach().clone().requires_grad_()
    logits = plain @ head.T
    loss = -(probs * logits.log_softmax(-1).gather(-1, places)).sum(-1).mean()
    loss.backward()
    torch.testing.assert_close(found, plain.grad)


def laws_and_head() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hidden states, a head of 40 tokens, and laws of five entries, some below `LIKELY`."""
    torch.manual_seed(1)
    places = torch.stack([torch.randperm(40)[:5] for _ in range(3)])
    probs = torch.softmax(torch.tensor([4.0, 3.0, 2.0, -2.0, -2.0]).expand(3, 5), -1)
    return 0.3 * torch.randn(3, 8), torch.randn(40, 8), places, probs


def test_some_tokens_stand_for_all_of_them_on_average() -> None:
    """Over many draws the sums that make the gradient are those over the whole vocabulary."""
    hidden, head, places, probs = laws_and_head()
    whole = (hidden @ head.T).exp()
    wanted = torch.cat(
        [whole.sum(-1, keepdim=True), whole @ head, (probs[..., None] * head[places]).sum(1)], -1
    )

    def found(weighed: bool) -> torch.Tensor:
        """How many standard errors the mean of 2,000 draws is off, at worst."""
        source = np.random.default_rng(0)
        sums = []
        for _ in range(2000):
            asked = student.Asked.some(head, places, probs, 10, source)
            offset = asked.offset if weighed else torch.zeros_like(asked.offset)
            chances = (hidden @ asked.head.T + offset).exp()
            laws = (asked.probs[..., None] * asked.head[asked.places]).sum(1)
            sums.append(torch.cat([chances.sum(-1, keepdim=True), chances @ asked.head, laws], -1))
        assert len(asked.head) < 25
        drawn = torch.stack(sums)
        return ((drawn.mean(0) - wanted).abs() / (drawn.std(0) / len(sums) ** 0.5 + 1e-6)).max()

    assert found(weighed=True) < 5
    assert found(weighed=False) > 50


def test_what_the_laws_find_likely_is_always_asked_for_itself() -> None:
    _, head, places, probs = laws_and_head()
    asked = student.Asked.some(head, places, probs, 4, np.random.default_rng(0))
    likely = probs > student.LIKELY
    assert torch.equal(asked.head[asked.places[likely]], head[places[likely]])
    assert torch.equal(asked.probs[likely], probs[likely])
    assert asked.offset.count_nonzero() == 4
    every = student.Asked.some(head, places, probs, 0, np.random.default_rng(0))
    assert every.head is head
    assert every.places is places


def test_the_gradient_of_a_step_on_some_tokens_is_its_loss_s() -> None:
    hidden, head, places, probs = laws_and_head()
    asked = student.Asked.some(head, places, probs, 6, np.random.default_rng(3))
    hidden.requires_grad_()
    four = (asked.head, asked.offset, asked.places, asked.probs)
    loss = student.SoftCrossEntropy.apply(hidden, *four)
    loss.backward()
    plain = hidden.detach().clone().requires_grad_()
    logits = plain @ asked.head.T
    normaliser = (logits + asked.offset).logsumexp(-1, keepdim=True)
    wanted = -(asked.probs * (logits.gather(-1, asked.places) - normaliser)).sum() / 3
    wanted.backward()
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(hidden.grad, plain.grad)


def test_packed_sequences_do_not_see_each_other() -> None:
    target, corpus = tiny_target(), made_up_corpus()
    together = target.hidden([corpus.row(0), corpus.row(1)])
    alone = target.hidden([corpus.row(1)])
    torch.testing.assert_close(together[len(corpus.row(0)) :], alone)


def test_the_packed_decoder_equals_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=SHAPE.vocab_size,
        hidden_size=SHAPE.hidden,
        intermediate_size=SHAPE.intermediate,
        num_hidden_layers=SHAPE.layers,
        num_attention_heads=SHAPE.heads,
        num_key_value_heads=SHAPE.kv_heads,
        rope_theta=SHAPE.rope_theta,
        rms_norm_eps=SHAPE.norm_eps,
    )
    target = tiny_target()
    reference = transformers.LlamaModel(config).eval()
    named = {**target.decoder.state_dict(), "embed_tokens.weight": target.embedding}
    reference.load_state_dict(named)
    ids = made_up_corpus().row(4)
    with torch.no_grad():
        expected = reference(torch.tensor(ids.astype(np.int64))[None]).last_hidden_state[0]
    torch.testing.assert_close(target.hidden([ids]), expected, rtol=1e-4, atol=1e-4)


def test_an_interrupted_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole, lessons = tiny_trainer(RECIPE)
    losses = list(loop.train(whole, lessons))
    assert whole.progress.epoch > 1, "the run must cross epochs to mean anything"

    first, lessons = tiny_trainer(RECIPE)
    list(islice(loop.train(first, lessons), len(losses) // 2))
    loop.write_checkpoint(first.state(), tmp_path / "checkpoint.pt")
    second, lessons = tiny_trainer(RECIPE)
    second.restore(torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    rest = list(loop.train(second, lessons))

    assert losses[-len(rest) :] == rest
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(second)[name]), name


def test_a_longer_run_is_the_same_until_the_rate_falls() -> None:
    short, lessons = tiny_trainer(RECIPE)
    losses = list(islice(loop.train(short, lessons), 10))
    long, lessons = tiny_trainer(replace(RECIPE, visits=2 * RECIPE.visits))
    assert list(islice(loop.train(long, lessons), 10)) == losses


def test_a_text_shorter_than_a_step_is_refused() -> None:
    trainer, lessons = tiny_trainer(replace(RECIPE, step_tokens=10_000))
    with pytest.raises(ValueError, match="fewer reply tokens"):
        next(loop.train(trainer, lessons))


def test_a_checkpoint_of_another_vocabulary_is_refused() -> None:
    trainer, _ = tiny_trainer(RECIPE)
    state = trainer.state()
    state["vocab_ids"] = torch.arange(4, 81)
    with pytest.raises(ValueError, match="vocabulary"):
        trainer.restore(state)


def test_a_grown_drafter_says_what_it_grew_from_and_can_learn_in_its_new_layers() -> None:
    trainer, lessons = tiny_trainer(replace(RECIPE, layers=1, warmup_steps=1))
    group = next(lessons.steps(0, [0], 0))
    for _ in range(3):
        trainer.step(lessons, group)
    start, rows = trainer.student, [lessons.corpus.row(row) for row in (3, 5)]
    grown = student.Student.grown(start, tiny_target(), 3)
    assert grown.shape.layers == 3
    assert torch.equal(grown.ahead(rows, 1)[0], start.ahead(rows, 1)[0])
    learner = loop.Trainer(grown, replace(trainer.recipe, layers=3), torch.float32)
    before = weights(learner)
    for _ in range(2):  # the first step opens the ways out, the second trains what lies before
        learner.step(lessons, group)
    assert not any(torch.equal(tensor, before[name]) for name, tensor in weights(learner).items())


def test_the_growth_test_catches_a_layer_that_is_not_silent() -> None:
    start = student.Student(tiny_target(), 1, torch.arange(3, 80))
    start.begin(tiny_target(), [])
    loud = student.Student(tiny_target(), 3, torch.arange(3, 80))
    loud.begin(tiny_target(), [])
    rows = [made_up_corpus().row(3)]
    assert not torch.allclose(loud.ahead(rows, 1)[0], start.ahead(rows, 1)[0], atol=1e-3)


def test_frozen_layers_stay_as_they_began_while_those_after_them_learn() -> None:
    trainer, lessons = tiny_trainer(replace(RECIPE, layers=3, frozen_layers=2, warmup_steps=1))
    before = weights(trainer)
    trainer.step(lessons, next(lessons.steps(0, [0], 0)))
    for name, tensor in weights(trainer).items():
        frozen = name.startswith(("layers.0.", "layers.1."))
        assert torch.equal(tensor, before[name]) == frozen, name


def test_a_drafter_of_fewer_layers_begins_with_the_first_of_another() -> None:
    start = student.Student(tiny_target(), 3, torch.arange(3, 80))
    short = student.Student.grown(start, tiny_target(), 1)
    for name, tensor in short.decoder.state_dict().items():
        assert torch.equal(tensor, start.decoder.state_dict()[name]), name


def test_an_exported_drafter_loads_as_it_was(tmp_path: Path) -> None:
    trainer, _ = tiny_trainer(RECIPE)
    student.export(trainer.student, tmp_path, "tiny")
    loaded = kinds.load(tmp_path, tiny_target())
    assert json.loads((tmp_path / "config.json").read_text())["reads_target_embedding"] is True
    assert torch.equal(loaded.vocab_ids, trainer.student.vocab_ids)
    for name, tensor in loaded.decoder.state_dict().items():
        whole = weights(trainer)[name]
        step = whole.abs().amax(-1, keepdim=True) / 127 if whole.dim() == 2 else 2e-3
        assert bool(((tensor - whole).abs() <= 0.51 * torch.as_tensor(step)).all()), name


def test_laws_are_the_targets_own_renormalised() -> None:
    target, corpus = tiny_target(), made_up_corpus()
    vocab_ids = torch.arange(3, 13)  # fewer than TOP: nothing is cut
    laws = teacher.compute(target, corpus, np.array([2, 6], dtype=np.int32), vocab_ids)
    hidden = target.hidden([corpus.row(6)])
    expected = (hidden[2:-1] @ target.embedding[3:13].T).softmax(-1)
    found = torch.zeros_like(expected)
    places = torch.from_numpy(laws.places[laws.offsets[1] :].astype(np.int64))
    found.scatter_(1, places, torch.from_numpy(laws.probs[laws.offsets[1] :].astype(np.float32)))
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=1e-4)


# The held-out split ------------------------------------------------------------------------


TEMPLATE = "{% for turn in messages %}{{ 'Asked: ' + turn['content'] }}{% endfor %} Answer: "


def character_rules() -> str:
    """Rules by which ids are the code points of ASCII, written in GPT-2's alphabet."""
    alphabet = [chr(n) if 32 < n < 127 else chr(256 + n) for n in range(127)]
    rules = Rules(models.BPE(vocab={char: n for n, char in enumerate(alphabet)}, merges=[]))
    rules.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rules.decoder = decoders.ByteLevel()
    return str(rules.to_str())


def character_tokenizer() -> Tokenizer:
    return Tokenizer(character_rules(), {"chat_template": TEMPLATE}, eos_ids=(2,))


def corpus_of_prompts(texts: list[str]) -> text.Corpus:
    turns, tokenizer = [], character_tokenizer()
    for asked in texts:
        prompt = tokenizer.chat(asked)
        turns.append(write.Turn("", 0.0, len(prompt), [*prompt, 88, 89]))
    return write.gather(turns)


def test_no_training_row_touches_what_is_held_out() -> None:
    drawn = list(islice(prompts.stream(11), 600))
    corpus = corpus_of_prompts([prompt.text for prompt in drawn])
    split = text.split(corpus, character_tokenizer())
    assert sorted(split.train + split.held_out) == list(range(len(drawn)))
    for row in split.train:
        assert drawn[row].family not in text.HELD_OUT_FAMILIES
        assert drawn[row].template not in text.HELD_OUT_TEMPLATES
        assert not any(subject in drawn[row].text for subject in text.HELD_OUT_SUBJECTS)
    assert split.unseen_family
    assert split.unseen_template
    assert split.unseen_topic
    for row in split.unseen_topic:
        assert drawn[row].family not in text.HELD_OUT_FAMILIES


def test_what_is_held_out_exists() -> None:
    templates = {template for group in prompts.FAMILIES.values() for template in group}
    assert set(prompts.FAMILIES) > text.HELD_OUT_FAMILIES
    assert templates > text.HELD_OUT_TEMPLATES
    assert set(prompts.TOPICS) | set(prompts.CODE_TASKS) > text.HELD_OUT_SUBJECTS


def test_every_drawn_prompt_is_identified() -> None:
    for prompt in islice(prompts.stream(2), 400):
        assert prompts.identify(prompt.text) == prompt
    assert prompts.identify("Sing.").family == "other"


def test_the_reduced_vocabulary_keeps_low_ids_and_often_written_ones() -> None:
    corpus = corpus_of_prompts(["a", "b", "c"])
    kept = text.reduced_vocabulary(corpus, [0, 1, 2], low_ids=4, min_count=3, vocab_size=128)
    assert kept.tolist() == [0, 1, 2, 3, 88, 89]


def test_corpora_are_saved_and_joined(tmp_path: Path) -> None:
    corpus = made_up_corpus()
    text.save(corpus, tmp_path / "text.npz")
    joined = text.load(tmp_path / "text.npz", tmp_path / "text.npz")
    assert len(joined) == 2 * len(corpus)
    for row in range(len(corpus)):
        assert np.array_equal(joined.row(row + len(corpus)), corpus.row(row))
        assert np.array_equal(joined.reply(row), corpus.reply(row))


# Rounds ------------------------------------------------------------------------------------


def flags(pattern: str) -> rounds.Hits:
    return np.array([c == "x" for c in pattern])


def test_rounds_are_counted_as_decoding_would() -> None:
    # k 2: [xx].[x.] [..]: rounds accept 2 (position 2 is the bonus), 1, 0, 0.
    assert rounds.histogram([flags("xx-x---")], 2) == [2, 1, 1]
    assert rounds.mean_acceptance_length([2, 1, 1]) == 1 + 3 / 4
    assert rounds.mean_acceptance_length([39, 1, 0, 3]) == pytest.approx(1.23256, abs=1e-5)


def test_match_by_position_is_conditional_on_the_guesses_before() -> None:
    # Chains begin at every position; of the three first hits, two can be followed, one is.
    assert rounds.match_by_position([flags("xx-x")], 2) == [3 / 4, 1 / 2]


def test_a_copy_is_measured_as_the_drafter_that_runs() -> None:
    target, width = tiny_target(), Width(3, 8)
    tensors = target.decoder.state_dict() | {"embed_tokens.weight": target.embedding}
    config = LlamaConfig(
        SHAPE.vocab_size, SHAPE.hidden, SHAPE.intermediate, SHAPE.layers, SHAPE.heads,
        SHAPE.kv_heads, SHAPE.head_size, SHAPE.rope_theta, SHAPE.norm_eps, SHAPE.context,
    )  # fmt: skip
    ids = np.array([3, 90, 41, 7, 66], dtype=np.uint16)
    runner = Runner(lowbit.copy_of(Weights.from_tensors(config, tensors), width))
    wanted = runner.forward(ids.astype(int).tolist())
    copy = evaluate.rounded(target, width)
    torch.testing.assert_close(copy.logits(copy.ahead([ids], 1)[0]), wanted, rtol=1e-4, atol=1e-4)
    finer = evaluate.rounded(target, Width(4, 8))
    assert not torch.allclose(finer.logits(finer.ahead([ids], 1)[0]), wanted, rtol=1e-2, atol=1e-2)


# Writing, store and shipping ---------------------------------------------------------------


def test_written_greedy_replies_are_the_targets_own_choices() -> None:
    target = tiny_target()
    writer = write.Writer(target, character_tokenizer(), 0, wanted=0, max_new=6, context=20)
    waiting = [write.Turn("", 0.0, n, list(range(5, 5 + n))) for n in (3, 5, 4, 2)]
    writer.turns = lambda: iter(waiting)  # type: ignore[method-assign]
    for _ in writer.run(2):
        pass
    assert len(writer.done) == 4
    assert writer.written == sum(len(t.ids) - t.prompt_length for t in writer.done)
    for turn in writer.done:
        corpus = write.gather([turn])
        assert evaluate.target_best(target, corpus, [0]).tolist() == corpus.reply(0).tolist()


def test_a_slot_reads_what_two_prompts_begin_with_once() -> None:
    """And the second reply is what it would have been: the prefix is not read again."""
    target = tiny_target()
    fed = []

    class Counting(write.Slots):
        def forward(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            fed.append(int(positions[0]))
            return super().forward(ids, positions)

    prompts_ = [[5, 6, 7, 8], [5, 6, 7, 9, 10], [5, 6, 7, 9]]
    waiting = [write.Turn("", 0.0, len(ids), list(ids)) for ids in prompts_]
    writer = write.Writer(target, character_tokenizer(), 0, wanted=0, max_new=3, context=20)
    writer.turns = lambda: iter(waiting)  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "Slots", Counting)
        for _ in writer.run(1):
            pass
    assert [at for at, before in zip(fed[1:], fed, strict=False) if at != before + 1] == [3, 3]
    for turn in writer.done:
        corpus = write.gather([turn])
        assert evaluate.target_best(target, corpus, [0]).tolist() == corpus.reply(0).tolist()


def test_a_draw_follows_the_softmax_at_its_temperature() -> None:
    logits = torch.tensor([1.0, 0.0, -torch.inf, 2.0])
    source = torch.Generator().manual_seed(0)
    temperatures = torch.tensor([0.0, 0.7]).repeat(20000)
    drawn = write.choose(logits.expand(40000, -1).clone(), temperatures, source)
    assert (drawn[::2] == 3).all()
    found = torch.bincount(drawn[1::2], minlength=4) / 20000
    torch.testing.assert_close(found, torch.softmax(logits / 0.7, 0), atol=0.015, rtol=0)
    assert found[2] == 0


def test_a_writer_in_bfloat16_writes_nearly_what_the_target_would() -> None:
    target = tiny_target()
    half = replace(target, decoder=copy.deepcopy(target.decoder).to(torch.bfloat16))
    ids = torch.tensor([5, 6])
    both = [write.Slots(each, 2, 8).forward(ids, torch.tensor([0, 0])) for each in (target, half)]
    torch.testing.assert_close(both[1].float(), both[0], rtol=0.05, atol=0.05)


def test_teaching_only_leaves_out_what_is_held_out() -> None:
    tokenizer = character_tokenizer()
    for only in (False, True):
        writer = write.Writer(tiny_target(), tokenizer, 3, 10, 6, 2000, teaching_only=only)
        families = {turn.family for turn in islice(writer.turns(), 200)}
        assert families.isdisjoint(text.HELD_OUT_FAMILIES) == only


def test_a_store_is_the_text_and_looks_up_its_replies_alone(tmp_path: Path) -> None:
    corpus = made_up_corpus()
    text.save(corpus, tmp_path / "store.npz")
    again, index = text.load(tmp_path / "store.npz"), SuffixIndex.load(tmp_path / "store.npz")
    parts = [part for row in range(len(corpus)) for part in (again.reply(row), [SEPARATOR])]
    assert index.ids.tolist() == np.concatenate(parts).tolist()
    assert index.ids.tolist() == store.build(corpus, range(len(corpus))).tolist()


@pytest.mark.parametrize("kind", ["of old", "cut off", "empty", "none"])
def test_what_is_no_store_is_refused_in_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "store.npz"
    if kind in ("of old", "cut off"):
        np.savez(path, ids=np.arange(9, dtype=np.uint16))
    if kind == "cut off":
        path.write_bytes(path.read_bytes()[:60])
    if kind == "empty":
        path.touch()
    with pytest.raises(ValueError, match=r"store\.npz is no store of replies"):
        SuffixIndex.load(path)


def test_what_answers_a_prompt_that_is_shown_can_be_left_out() -> None:
    asked = ["What is tea?", "What is chess?", "What is tea?"]
    corpus = corpus_of_prompts(asked)
    rest = store.without(corpus, {"What is tea?"}, character_tokenizer())
    assert len(rest) == 1
    assert rest.row(0).tolist() == corpus.row(1).tolist()
    assert store.without(corpus, set(), character_tokenizer()).ids.tolist() == corpus.ids.tolist()


def test_the_store_continues_replies_and_never_crosses_them() -> None:
    corpus = made_up_corpus()
    ids = store.build(corpus, range(len(corpus)))
    assert (ids == SEPARATOR).sum() == len(corpus)
    index = SuffixIndex(ids)
    reply = corpus.reply(3).tolist()
    length, (following, _) = index.continuations(reply[:4])
    assert length == 4
    assert reply[4] in following
    length, _ = index.continuations(reply[-6:], min_len=5)
    assert length == 0


def target_folder(folder: Path) -> Path:
    """The tiny target on disk, as a Hugging Face folder with the character tokenizer."""
    target = tiny_target()
    tensors = {f"model.{name}": tensor for name, tensor in target.decoder.state_dict().items()}
    tensors["model.embed_tokens.weight"] = target.embedding
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    config = {
        "model_type": "llama",
        "eos_token_id": 2,
        "num_hidden_layers": SHAPE.layers,
        "hidden_size": SHAPE.hidden,
        "intermediate_size": SHAPE.intermediate,
        "num_attention_heads": SHAPE.heads,
        "num_key_value_heads": SHAPE.kv_heads,
        "rope_theta": SHAPE.rope_theta,
        "rms_norm_eps": SHAPE.norm_eps,
        "vocab_size": SHAPE.vocab_size,
        "max_position_embeddings": SHAPE.context,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(character_rules())
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return folder


def test_one_command_goes_from_text_to_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = [prompt.text for prompt in islice(prompts.stream(4), 60)]
    corpus = corpus_of_prompts(drawn)
    sampled = np.resize(np.array([0.0, 0.7], dtype=np.float32), len(corpus))
    text.save(replace(corpus, temperature=sampled), tmp_path / "text.npz")
    target = target_folder(tmp_path / "target")
    out = tmp_path / "small"
    line = (
        f"distil --target {target} --text {tmp_path / 'text.npz'} --work {tmp_path / 'work'} "
        f"--out {out} --visits 300 --every 1 --step-tokens 20"
    )
    monkeypatch.setattr(sys, "argv", line.split())
    monkeypatch.setattr(teacher, "SHARD_ROWS", 16)
    stopped = threading.Event()
    stopped.set()
    distil.main(stopped)
    assert "stopped at" in capsys.readouterr().out
    assert (tmp_path / "work" / "checkpoint.pt").exists()
    assert not out.exists()

    distil.main(threading.Event())
    progress = capsys.readouterr().out
    assert "continuing from" in progress
    assert "held out: all " in progress
    facts = json.loads((out / "card.json").read_text())
    assert facts["finished"]
    assert facts["visits"] >= 300
    assert facts["unique_tokens"] == 2 * (len(corpus) - facts["held_out_replies"])
    assert facts["bytes"] == (out / "model.safetensors").stat().st_size
    assert 0 < facts["held_out"]["temperature_0.7"]["alpha"] < 1
    assert "# small: a distilled drafter" in (out / "card.md").read_text()

    further = f"distil --target {target} --text {tmp_path / 'text.npz'} --work {tmp_path / 'more'}"
    further += f" --out {tmp_path / 'next'} --start {out} --visits 40 --every 1 --step-tokens 20"
    monkeypatch.setattr(sys, "argv", further.split())
    distil.main(threading.Event())
    begun = kinds.load(out, tiny_target()).decoder.state_dict()
    ended = kinds.load(tmp_path / "next", tiny_target())
    moved = {
        name: float((tensor - begun[name]).abs().max())
        for name, tensor in ended.decoder.state_dict().items()
    }
    assert max(moved.values()) < 0.02, f"not from where it began: {moved}"
    assert any(moved.values()), "two steps teach something, though fp16 may not show it everywhere"


CURVE = [{"visits": 100.0 * 2**n, "all": 0.1 * n} for n in range(10)]


def test_the_gain_per_doubling_is_read_off_the_constant_rate_alone() -> None:
    falling = {"visits": 10**6, "all": 5.0}  # after the rate has begun to fall
    recipe = {"visits": 10**6, "cooldown": 0.3}
    assert ship.gain_per_doubling([*CURVE, falling], recipe) == pytest.approx(0.1)
    assert ship.gain_per_doubling(CURVE[:3], recipe) is None
