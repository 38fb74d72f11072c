"""Training a drafter that reads features: where it begins, and what it learns ahead."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from engine.requests import Start
from engine.training import corpus as text
from engine.training import cost, distil, kinds, loop, prompts, rounds, ship, student, teacher
from engine.training.eagle import Eagle, delayed, look
from engine.training.model import rotary
from engine.training.recipe import Recipe
from tests.engine.test_stats import made
from tests.engine.test_training import (
    SHAPE,
    corpus_of_prompts,
    flags,
    made_up_corpus,
    target_folder,
    tiny_target,
    tiny_trainer,
    weights,
)

torch.set_num_threads(1)  # as in kit: tiny products gain nothing from threads

RECIPE = Recipe(layers=1, visits=400, step_tokens=20, warmup_steps=2, unroll=3, plain_visits=100)


def tiny_eagle(rows: int = 12) -> tuple[Eagle, text.Corpus]:
    target, corpus = tiny_target(), made_up_corpus()
    learner = Eagle(target, 1, torch.arange(3, 80))
    learner.begin(target, [corpus.row(row) for row in range(rows)])
    return learner, corpus


def test_features_move_to_the_token_after_and_never_across_sequences() -> None:
    features = torch.arange(1.0, 6.0)[:, None]
    assert delayed(features, [2, 3])[:, 0].tolist() == [0, 1, 0, 3, 4]


def test_a_pass_sees_what_the_guess_it_stands_for_would_see() -> None:
    """Position 3 as third guess: true rows 0 and 1, the second pass's row 2, its own."""
    values = torch.eye(15).reshape(3, 5, 1, 15)  # each row of each pass in a column of its own
    level = torch.zeros(5, 1, 15)
    (true, *later) = [(level, value) for value in values]
    third = look(level, true, later).reshape(5, 3, 5)
    assert (third[3] * 4).tolist() == [[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]]
    assert third[0].nonzero().tolist() == [[2, 0]], "nothing stands before a first row"
    first = look(level, true, []).reshape(5, 3, 5)[:, 0]
    assert torch.equal(first > 0, torch.ones(5, 5, dtype=torch.bool).tril())


def test_ahead_is_what_one_row_after_another_would_make() -> None:
    """Every guess of every depth, read as drafting reads: true rows, then its own feature."""
    learner, corpus = tiny_eagle()
    row = corpus.row(0)
    ids, lengths = student.packed([row])
    embedded, features = learner.embedding[ids], learner.features([row])
    (layer,), decoder = learner.decoder.layers, learner.decoder
    found = decoder.ahead(embedded, features, lengths, 3)
    for at in range(4, len(row)):
        known = at - 2  # tokens up to here are the text, the two after it guesses
        fed = delayed(features, lengths)[: known + 1]
        for depth in range(3):
            x = decoder.fuse(embedded[: known + depth + 1], fed)
            n = len(x)
            out = decoder.norm(layer(x, rotary(decoder.shape, [n]), [n]))
            assert torch.allclose(out[-1], found[depth][known + depth], atol=1e-5), (at, depth)
            fed = torch.cat([fed, out[-1:]])


def test_practice_leaves_out_only_what_no_answer_needs() -> None:
    learner, corpus = tiny_eagle()
    numbers = [0, 1, 2]
    rows = [corpus.row(row) for row in numbers]
    positions = teacher.predicting(corpus, numbers)
    source = np.random.default_rng(0)
    for depth in (1, 3, 4):
        made = [hidden for hidden, _ in learner.practice(rows, depth, positions, source)]
        for hidden, whole in zip(made, learner.ahead(rows, depth), strict=True):
            torch.testing.assert_close(hidden, whole[positions])


def test_the_fusion_begins_as_the_least_squares_answer() -> None:
    """No small change of it comes nearer to what the target feeds its last layer."""
    learner, corpus = tiny_eagle()
    target, rows = tiny_target(), [corpus.row(row) for row in range(12)]
    given, wanted = [], []
    for row in rows:
        ids, lengths = student.packed([row])
        features = delayed(target.hidden([row]), lengths)
        given.append(learner.decoder.inputs(learner.embedding[ids], features)[1:])
        wanted.append(target.decoder.stream(learner.embedding[ids], lengths, 2)[1:])
    x, y = torch.cat(given), torch.cat(wanted)
    fusion = learner.decoder.fusion.weight.detach()

    def error(weight: torch.Tensor) -> float:
        return float(((x @ weight.T - y) ** 2).mean())

    torch.manual_seed(0)
    nudges = [0.02 * torch.randn_like(fusion) for _ in range(20)]
    assert all(error(fusion + nudge) > error(fusion) for nudge in nudges)
    assert error(fusion) < 0.7 * float((y**2).mean())


def test_steps_train_one_guess_ahead_and_then_several() -> None:
    assert [RECIPE.depth(visits) for visits in (0, 99, 100, 500)] == [1, 1, 3, 3]
    trainer, lessons = tiny_trainer(replace(RECIPE, warmup_steps=1, plain_visits=0), "eagle")
    group = next(lessons.steps(0, [0], 0))
    losses = [trainer.step(lessons, group) for _ in range(8)]
    assert losses[-1] < losses[0]


def test_plain_training_of_eagle_is_mtp() -> None:
    """They part where --unroll sets in, and not before."""
    states = []
    for kind in ("eagle", "mtp"):
        trainer, lessons = tiny_trainer(RECIPE, kind)
        steps = loop.train(trainer, lessons)
        while trainer.progress.visits < RECIPE.plain_visits:
            next(steps)
        states.append(weights(trainer))
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())


def test_an_interrupted_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole, lessons = tiny_trainer(RECIPE, "eagle")
    losses = list(loop.train(whole, lessons))
    first, lessons = tiny_trainer(RECIPE, "eagle")
    list(islice(loop.train(first, lessons), len(losses) // 2))
    loop.write_checkpoint(first.state(), tmp_path / "checkpoint.pt")
    second, lessons = tiny_trainer(RECIPE, "eagle")
    second.restore(torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    rest = list(loop.train(second, lessons))
    assert losses[-len(rest) :] == rest
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(second)[name]), name


def test_a_checkpoint_of_another_kind_is_refused() -> None:
    trainer, _ = tiny_trainer(RECIPE, "eagle")
    other, _ = tiny_trainer(RECIPE, "mtp")
    with pytest.raises(ValueError, match="of kind mtp"):
        trainer.restore(other.state())


def test_a_remembering_target_runs_each_row_once_and_says_the_same() -> None:
    plain, corpus = tiny_target(), made_up_corpus()
    remembering = teacher.RememberingTarget(plain.decoder, plain.embedding, plain.shape)
    rows = [corpus.row(row) for row in (3, 1, 3, 2)]
    assert torch.allclose(remembering.hidden(rows), plain.hidden(rows), atol=2e-3, rtol=1e-3)
    ran = []
    plain.decoder.register_forward_hook(lambda *_: ran.append(1))
    remembering.hidden(rows[::-1])
    assert not ran
    remembering.hidden([corpus.row(0)])
    assert ran


def test_rounds_use_the_line_of_each_guess() -> None:
    """Right as a first guess everywhere, as a second nowhere: one accepted a round."""
    hits = np.stack([flags("xxxx"), flags("----")])
    assert rounds.histogram([hits], 3) == [0, 2, 0, 0]
    assert rounds.match_by_position([hits], 3) == [1.0, 0.0, 0.0]
    assert rounds.histogram([np.stack([flags("xxxx")] * 2)], 3) == rounds.histogram(
        [flags("xxxx")], 3
    )


def test_one_command_trains_ships_and_keeps_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = [prompt.text for prompt in islice(prompts.stream(4), 60)]
    corpus = corpus_of_prompts(drawn)
    sampled = np.resize(np.array([0.0, 0.7], dtype=np.float32), len(corpus))
    text.save(replace(corpus, temperature=sampled), tmp_path / "text.npz")
    target = target_folder(tmp_path / "target")
    line = (
        f"distil --drafter eagle --layers 1 --target {target} --text {tmp_path / 'text.npz'} "
        f"--work {tmp_path / 'work'} --out {tmp_path / 'eagle'} --visits 120 --every 2 "
        "--step-tokens 20 --unroll 2 --plain-visits 40 --keep 40"
    )
    monkeypatch.setattr(sys, "argv", line.split())
    distil.main(threading.Event())
    facts = json.loads((tmp_path / "eagle" / "card.json").read_text())
    held = facts["held_out"]
    assert len(held["temperature_0.7"]["alpha_by_guess"]) == Eagle.depth
    assert {"all", "guess 2", "guess 4"} <= facts["curve"][-1].keys()
    assert "--drafter eagle" in facts["command"]
    assert "--unroll 2 --plain-visits 40" in facts["command"]
    card = (tmp_path / "eagle" / "card.md").read_text()
    assert "trained on 2 guesses ahead" in card
    config = json.loads((tmp_path / "eagle" / "config.json").read_text())
    assert config["kind"] == "eagle"
    shape = kinds.load(tmp_path / "eagle", tiny_target()).decoder.fusion.weight.shape
    assert shape == (SHAPE.hidden, 2 * SHAPE.hidden)

    line = (
        f"ship --target {target} --text {tmp_path / 'text.npz'} --work {tmp_path / 'work'} "
        f"--checkpoint checkpoint-40.pt --out {tmp_path / 'early'} --replies 3"
    )
    monkeypatch.setattr(sys, "argv", line.split())
    ship.main()
    early = json.loads((tmp_path / "early" / "card.json").read_text())
    assert 40 <= early["visits"] < facts["visits"]
    assert not early["finished"]
    assert early["held_out"]["temperature_0"]["replies"] == 3


def test_a_training_given_minutes_ends_by_itself_and_says_how_to_repeat_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = corpus_of_prompts([prompt.text for prompt in islice(prompts.stream(4), 60)])
    sampled = np.resize(np.array([0.0, 0.7], dtype=np.float32), len(corpus))
    text.save(replace(corpus, temperature=sampled), tmp_path / "text.npz")
    line = (
        f"distil --drafter eagle --layers 1 --target {target_folder(tmp_path / 'target')} "
        f"--text {tmp_path / 'text.npz'} --work {tmp_path / 'work'} --out {tmp_path / 'eagle'} "
        "--minutes 0.02 --step-tokens 20 --others 10"
    )
    monkeypatch.setattr(sys, "argv", line.split())
    stopped = threading.Event()
    stopped.set()
    distil.main(stopped)
    planned = torch.load(tmp_path / "work" / "checkpoint.pt", weights_only=True)["recipe"]["visits"]
    for _ in range(2):  # it ends where it was to end, and once there trains no further
        distil.main(threading.Event())
        facts = json.loads((tmp_path / "eagle" / "card.json").read_text())
        assert facts["finished"]
        assert facts["recipe"]["visits"] == planned
        assert planned <= facts["visits"] < planned + 100
    assert f"--visits {planned}" in facts["command"]
    assert facts["recipe"]["visits"] < 10**6
    assert "--others 10" in facts["command"]
    assert "and 10 others for all the rest" in (tmp_path / "eagle" / "card.md").read_text()


class Timed:
    """An engine whose runs take the times it is told; the odd ones were disturbed."""

    machine = SimpleNamespace(device="cpu", kernel="rows", dtype="float32")

    def begin(self, start: Start) -> SimpleNamespace:
        drafter = start.settings.drafter
        steps = {"eagle": (0.2, 0.1, 0.1, 0.1), "pard": (0.6,)}.get(drafter, ())
        guessed = made(0, 4 if steps else 0)
        plain = replace(guessed, draft_step_seconds=steps, verify_seconds=1.0 if not steps else 3.0)
        busy = replace(plain, draft_step_seconds=(9.0,) * len(steps), verify_seconds=7.0)
        cold = replace(plain, draft_step_seconds=(0.0,) * len(steps), cold=True)
        return SimpleNamespace(rounds=lambda: [cold, plain, busy])


def test_a_step_s_cost_is_that_of_the_shortest_times() -> None:
    found = cost.measure(Timed(), "eagle")  # type: ignore[arg-type]
    assert found["step"] == pytest.approx((0.2 + 0.3) / 4)
    assert found["rounds"] == 2 * cost.TURNS


def test_a_round_that_is_one_step_is_shared_among_its_guesses() -> None:
    found = cost.measure(Timed(), "pard")  # type: ignore[arg-type]
    assert found["step"] == pytest.approx(0.6 / 4)


def test_rounds_of_a_tree_count_with_the_steps_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds of three steps, one of two: each by the shortest of its own kind."""

    def rounds(engine: object, name: str) -> list[object]:
        if name == "none":
            return [replace(made(0, 0), verify_seconds=seconds) for seconds in (1.0, 5.0)]
        steps = (0.3, 0.2, 0.1), (0.4, 0.1, 0.2), (0.2, 0.2)
        return [replace(made(0, 4), draft_step_seconds=each) for each in steps]

    monkeypatch.setattr(cost, "_rounds", rounds)
    found = cost.measure(Timed(), "eagle-tree")  # type: ignore[arg-type]
    assert found["step"] == pytest.approx((2 * 0.5 + 0.4) / 3 / 4, abs=1e-4)
    assert found["rounds"] == 3 * cost.TURNS
    monkeypatch.setattr(cost, "_rounds", lambda engine, name: [made(0, 2)])
    with pytest.raises(ValueError, match="no round of 4 guesses"):
        cost.measure(Timed(), "medusa-tree")  # type: ignore[arg-type]


def test_the_cost_of_a_tree_s_guess_stands_beside_that_of_a_chain_s(tmp_path: Path) -> None:
    shipped = Path(cost.DRAFTERS) / cost.TREES["eagle-tree"]
    facts = json.loads((shipped / "card.json").read_text())
    (tmp_path / "card.json").write_text(json.dumps(facts))
    measured = cost.measure(Timed(), "eagle")  # type: ignore[arg-type]
    cost.write(tmp_path, measured | {"step": 0.5}, tree=True)
    after = json.loads((tmp_path / "card.json").read_text())
    assert after == facts | {"tree_cost": measured | {"step": 0.5}}
    card = (tmp_path / "card.md").read_text()
    assert "A guess of a tree costs **0.500** of a one-token pass" in card
    assert f"A guess costs **{facts['cost']['step']:.3f}**" in card
    cost.write(tmp_path, measured)
    assert "A guess of a tree costs **0.500**" in (tmp_path / "card.md").read_text()
    assert set(cost.TREES.values()) <= {each.name for each in Path(cost.DRAFTERS).iterdir()}


def test_a_measured_cost_is_put_on_the_card(tmp_path: Path) -> None:
    shipped = Path(cost.DRAFTERS) / "small"
    (tmp_path / "card.json").write_text((shipped / "card.json").read_text())
    cost.write(tmp_path, cost.measure(Timed(), "eagle"))  # type: ignore[arg-type]
    assert "costs **0.125** of a one-token pass" in (tmp_path / "card.md").read_text()


@pytest.mark.parametrize("kind", ["small", "eagle"])
def test_a_step_stays_on_the_device_of_its_tensors(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made on the meta device, which refuses to meet another's tensors, it runs to its last
    line, where the loss is read."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    trainer, lessons = tiny_trainer(replace(RECIPE, layers=2 if kind == "small" else 1), kind)
    laws = lessons._laws(0)
    monkeypatch.setattr(teacher, "compute", lambda *_: laws)
    with torch.device("meta"):
        learner = kinds.KINDS[kind](tiny_target(), trainer.recipe.layers, torch.arange(3, 80))
        elsewhere = loop.Trainer(learner, trainer.recipe, torch.float32)
        elsewhere.progress.visits = RECIPE.plain_visits
        with pytest.raises(RuntimeError, match=r"item\(\) cannot be called on meta"):
            elsewhere.step(lessons, [0, 1, 2])
    assert elsewhere.progress.step == 1
