"""PARD in training: a pass over text and mask rows is what drafting does, and steps learn it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.training import loop, pard, teacher
from engine.training.pard import Pard
from engine.training.student import Student
from tests.engine.test_training import RECIPE as PLAIN
from tests.engine.test_training import made_up_corpus, tiny_target, tiny_trainer

RECIPE = replace(PLAIN, unroll=4, warmup_steps=1)


def learner() -> Pard:
    found = Pard(tiny_target(), 2, torch.arange(3, 80))
    found.begin(tiny_target(), [])
    torch.manual_seed(1)
    torch.nn.init.normal_(found.decoder.masks)
    return found


def one_round(student: Pard, ids: list[int], masks: int) -> torch.Tensor:
    """The plain reading: the text, then mask rows, causally; hidden states of the last token on."""
    embedded = student.embedding[ids]
    rows = torch.cat([embedded, student.decoder.masks[[min(n, 6) for n in range(masks)]]])
    plain = super(type(student.decoder), student.decoder).forward(rows, [len(rows)])
    return plain[len(ids) - 1 :]


@torch.no_grad()
def test_one_pass_at_training_is_the_drafting_pass_at_every_position() -> None:
    student, corpus = learner(), made_up_corpus()
    rows = [corpus.row(row) for row in (2, 6, 5)]
    ahead = student.ahead(rows, 4)
    assert len(ahead) == 4
    start = 0
    for row in rows:
        for last in range(len(row) - 3):
            guesses = one_round(student, row[: last + 1].astype(int).tolist(), 3)
            for place in range(4):
                found = ahead[place][start + last + place]
                torch.testing.assert_close(found, guesses[place], rtol=1e-4, atol=1e-4)
        start += len(row)


@torch.no_grad()
def test_the_pass_test_catches_mask_rows_that_see_the_text_they_guess(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = pard.sight

    def peeking(length: int, last: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        found = honest(length, last, place)
        found[length:, :length] = (last + place)[:, None] >= torch.arange(length)
        return found

    monkeypatch.setattr(pard, "sight", peeking)
    with pytest.raises(AssertionError):
        test_one_pass_at_training_is_the_drafting_pass_at_every_position()


@torch.no_grad()
def test_what_is_practised_is_a_part_of_all_cases_chosen_by_the_source_alone() -> None:
    student, corpus = learner(), made_up_corpus()
    numbers = list(range(8))
    rows = [corpus.row(row) for row in numbers]
    positions = teacher.predicting(corpus, numbers)
    whole = student.ahead(rows, 4)
    (text, every), (masked, at) = student.practice(rows, 4, positions, np.random.default_rng(3))
    torch.testing.assert_close(text, whole[0][positions])
    assert torch.equal(every, torch.arange(len(positions)))
    assert 0 < len(at) < 3 * len(positions)
    for hidden, place in zip(masked, at, strict=True):
        gaps = [float((each[positions[place]] - hidden).abs().max()) for each in whole[1:]]
        assert min(gaps) < 1e-4
    again = student.practice(rows, 4, positions, np.random.default_rng(3))[1][1]
    other = student.practice(rows, 4, positions, np.random.default_rng(4))[1][1]
    assert torch.equal(at, again)
    assert not torch.equal(at, other)


def test_no_mask_row_is_practised_without_those_before_it() -> None:
    """The conditional drop: a chain has no gaps, and none begins within the prompt."""
    student, corpus = learner(), made_up_corpus()
    seen: list[pard.Chains] = []
    plain = student.decoder.masked
    student.decoder.masked = lambda e, n, chains: (seen.extend(chains), plain(e, n, chains))[1]  # type: ignore[method-assign]
    numbers = list(range(12))
    student.practice(
        [corpus.row(row) for row in numbers], 6, teacher.predicting(corpus, numbers),
        np.random.default_rng(0),
    )  # fmt: skip
    lengths = []
    for last, place in seen:
        for root in set(last.tolist()):
            places = sorted(place[last == root].tolist())
            assert places == list(range(1, len(places) + 1))
            assert root >= 2  # prompts of three
            lengths.append(len(places))
    assert max(lengths) > 1


def test_it_begins_as_the_small_drafter_it_starts_from() -> None:
    target, corpus = tiny_target(), made_up_corpus()
    start = Student(target, 2, torch.arange(3, 80))
    torch.manual_seed(5)
    for weight in start.decoder.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    begun = Pard.grown(start, target, 2)
    rows = [corpus.row(3)]
    torch.testing.assert_close(begun.ahead(rows, 1)[0], start.ahead(rows, 1)[0])
    assert bool((begun.decoder.masks != 0).any())
    with pytest.raises(ValueError, match="cannot begin"):
        Student.grown(begun, target, 2)


def test_a_step_lowers_the_loss_and_moves_the_masks() -> None:
    trainer, lessons = tiny_trainer(RECIPE, "pard")
    before = trainer.student.decoder.masks.detach().clone()
    group = next(lessons.steps(0, [0], 0))
    losses = [trainer.step(lessons, group) for _ in range(8)]
    assert losses[-1] < losses[0]
    moved = (trainer.student.decoder.masks != before).any(1)
    assert moved.tolist() == [True] * 3 + [False] * 4  # four guesses: three mask rows


def test_an_interrupted_run_practises_the_same_cases() -> None:
    whole, lessons = tiny_trainer(RECIPE, "pard")
    losses = list(loop.train(whole, lessons))
    first, lessons = tiny_trainer(RECIPE, "pard")
    steps = loop.train(first, lessons)
    for _ in range(len(losses) // 2):
        next(steps)
    second, lessons = tiny_trainer(RECIPE, "pard")
    second.restore(first.state())
    assert list(loop.train(second, lessons)) == losses[len(losses) // 2 :]
