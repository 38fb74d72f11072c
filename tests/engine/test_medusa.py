"""Medusa: all guesses of a round from the one right feature, each from its own honest law."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.arguments import MAX_K
from engine.drafters.medusa import Heads, MedusaDrafter
from engine.drafters.proposal import DraftRequest
from engine.llama import Runner
from engine.sampling import Draws
from engine.trace import Settings
from engine.training import corpus as text
from engine.training import distil, kinds, prompts, rounds
from engine.training.medusa import HEADS, Medusa
from engine.training.teacher import Target
from tests.engine import kit
from tests.engine.kit import TINY, TINY_VOCAB, header, session
from tests.engine.runs import GREEDY, ORACLE, PROMPT, essence
from tests.engine.test_training import (
    corpus_of_prompts,
    made_up_corpus,
    target_folder,
    tiny_target,
)

HIDDEN = TINY.config.hidden_size
UNIFORM = torch.full((TINY_VOCAB,), 1 / TINY_VOCAB, dtype=torch.float64)


def heads(seed: int = 0) -> Heads:
    generator = torch.Generator().manual_seed(seed)

    def random() -> Tensor:
        return torch.randn(HEADS, HIDDEN, HIDDEN, generator=generator).double() * HIDDEN**-0.5

    return Heads(random(), random(), lambda hidden: hidden @ TINY.head.T)


def features_of(ids: Sequence[int]) -> Tensor:
    target = Runner(TINY)
    if len(ids) > 1:
        target.forward(ids[:-1])
    return target.hidden[: len(ids) - 1]


def request(features: Tensor | None, k: int = 4, **changes: object) -> DraftRequest:
    return DraftRequest(k, Settings(**changes), UNIFORM, Draws(0), 0, features=features)


# --- what is read ---------------------------------------------------------------------------


def read_by(drafter: MedusaDrafter, count: int) -> list[float]:
    """Which feature a round over a text of `count` tokens reads: each says its position."""
    read = []

    def score(hidden: Tensor) -> Tensor:
        read.extend(hidden[:, 0].tolist())
        return hidden @ TINY.head.T

    identity = torch.eye(HIDDEN, dtype=torch.float64).expand(HEADS, HIDDEN, HIDDEN)
    drafter._heads = Heads(identity, torch.zeros_like(identity), score)
    markers = torch.arange(100.0).double()[:, None].expand(100, HIDDEN)
    drafter.propose(list(range(count)), request(markers))
    return read


@pytest.mark.parametrize("count", [2, 3, 17])
def test_every_head_reads_the_feature_of_the_last_token_but_one(count):
    """The target has not read the last: its feature comes with the verification."""
    assert read_by(MedusaDrafter(heads()), count) == [count - 2] * HEADS


class ReadsStale(MedusaDrafter):
    """The broken twin: one feature too old."""

    def propose(self, ids, request):
        return super().propose(ids, replace(request, features=request.features.roll(1, 0)))


def test_the_reading_test_catches_a_stale_feature():
    assert read_by(ReadsStale(heads()), 17) != [15] * HEADS


def test_without_features_it_says_so_and_before_any_it_is_silent():
    drafter = MedusaDrafter(heads())
    with pytest.raises(ValueError, match="features"):
        drafter.propose(PROMPT, request(None))
    assert drafter.propose(PROMPT[:1], request(features_of(PROMPT[:1]))).tokens == ()


# --- what is proposed -----------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("quality", [100.0, 40.0])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_each_guess_comes_with_its_own_head_s_law(temperature, quality, k):
    """B13, B23: drawn position by position, from the very laws that verification is given."""
    features = features_of(PROMPT)
    asked = request(features, k, temperature=temperature, quality=quality, top_k=9)
    proposal = MedusaDrafter(heads()).propose(PROMPT, asked)
    assert len(proposal.tokens) == len(proposal.laws) == min(k, HEADS)
    logits = heads().logits(features[-1])
    for slot, (token, law) in enumerate(zip(proposal.tokens, proposal.laws, strict=True)):
        assert torch.allclose(law, asked.law_of(asked.scores(logits[slot], PROMPT)))
        assert asked.draw(slot, law) == token


@pytest.mark.parametrize("quality", [100.0, 30.0])
def test_greedy_text_is_the_target_s_own_while_k_changes_and_rounds_are_taken_back(quality):
    run = session(Runner(TINY), MedusaDrafter(heads()), header(PROMPT, GREEDY, max_new_tokens=30))
    drafted = 0
    for k in (4, 0, 7, 1, 2):
        drafted += len(run.advance().guesses)
        run.rewind(max(0, run.made - k % 2), replace(GREEDY, k=k, quality=quality))
    drafted += sum(len(made.guesses) for made in run.rounds())
    assert drafted > 0
    assert kit.committed(run) == ORACLE[:30]


def test_a_sampled_run_repeats():
    warm = Settings(drafter="medusa", k=3, temperature=0.9, quality=80.0)

    def rounds():
        run = session(Runner(TINY), MedusaDrafter(heads()), header(PROMPT, warm, seed=4))
        return essence(list(run.rounds()))

    assert rounds() == rounds()


# --- training -------------------------------------------------------------------------------


def learner(target: Target) -> Medusa:
    torch.set_num_threads(1)
    return Medusa(target, 1, torch.arange(3, 80))


def test_training_guesses_are_those_of_a_round() -> None:
    """The n-th entry at a position is what head n makes of the feature n places before."""
    target, corpus = tiny_target(), made_up_corpus()
    student = learner(target)
    student.begin(target, [corpus.row(row) for row in range(8)])
    state = {name: tensor.detach() for name, tensor in student.decoder.state_dict().items()}
    seen: list[Tensor] = []
    drafting = Heads.from_tensors(state, target.embedding, lambda hidden: seen.append(hidden))
    row = corpus.row(4)
    features = target.hidden([row])
    with torch.no_grad():
        ahead = student.ahead([row], HEADS)
    for at in range(HEADS, len(row)):
        for number in range(HEADS):
            drafting.logits(features[at - number - 1])
            assert torch.allclose(seen.pop()[number], ahead[number][at], atol=1e-4)


def test_where_features_move_linearly_the_solution_is_that_motion() -> None:
    """Planted: each feature is a rotation of the one before. Head n is n rotations."""
    target = tiny_target()
    student = learner(target)
    hidden = target.shape.hidden
    source = torch.Generator().manual_seed(1)
    turn = torch.linalg.qr(torch.randn(hidden, hidden, generator=source)).Q

    def features(rows: Sequence[np.ndarray]) -> Tensor:
        states = [torch.randn(hidden, generator=source)]
        while len(states) < len(rows[0]):
            states.append(turn @ states[-1])
        return torch.stack(states)

    student.features = features
    student.begin(target, [np.zeros(9, np.uint16)] * 60)
    for number, head in enumerate(student._heads, 1):
        expected = torch.linalg.matrix_power(turn, number)
        assert torch.allclose(head.map.weight, expected, atol=0.02)


def test_one_command_solves_and_ships_without_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = corpus_of_prompts([prompt.text for prompt in islice(prompts.stream(4), 40)])
    sampled = np.resize(np.array([0.0, 0.7], dtype=np.float32), len(corpus))
    text.save(replace(corpus, temperature=sampled), tmp_path / "text.npz")
    line = (
        f"distil --drafter medusa --layers 1 --target {target_folder(tmp_path / 'target')} "
        f"--text {tmp_path / 'text.npz'} --work {tmp_path} --out {tmp_path / 'medusa'} "
        "--visits 0 --fitting-rows 9"
    )
    monkeypatch.setattr(sys, "argv", line.split())
    distil.main(threading.Event())
    card = (tmp_path / "medusa" / "card.md").read_text()
    assert "over 9 rows" in card
    assert "not one step of training" in card
    assert "--fitting-rows 9" in card
    assert "How it learned" not in card
    assert "16 nodes" in card
    tree = json.loads((tmp_path / "medusa" / "config.json").read_text())["tree"]
    assert len(tree) == MAX_K
    for place, path in enumerate(tree):  # after its parent and its elder siblings
        assert len(path) == 1 or path[:-1] in tree[:place]
        assert path[-1] == 0 or [*path[:-1], path[-1] - 1] in tree[:place]
    loaded = kinds.load(tmp_path / "medusa", tiny_target())
    assert len(loaded.decoder.state_dict()) == 2 * HEADS


# --- its tree -------------------------------------------------------------------------------


def made_up_ranks(seed: int) -> list[np.ndarray]:
    """Ranks of replies under two heads; how often the second is right depends on the first."""
    source = np.random.default_rng(seed)
    replies = []
    for length in (90, 140, 40):
        first = source.choice(4, size=length, p=[0.5, 0.3, 0.15, 0.05])
        unsure = source.choice([0, 1, 2, -1], size=length, p=[0.4, 0.2, 0.1, 0.3])
        second = np.where(np.roll(first, 1) == 1, 0, unsure)
        replies.append(np.stack([first, second]))
    return replies


def every_tree(nodes: int) -> list[frozenset[rounds.Path]]:
    """All trees of two levels with so many nodes: each with its parent and its elder siblings."""
    trees = {frozenset({(0,)})}
    for _ in range(nodes - 1):
        trees = {
            tree | {(*parent, sum(path[:-1] == parent for path in tree))}
            for tree in trees
            for parent in [(), *(path for path in tree if len(path) == 1)]
        }
    return list(trees)


def accepted_from_everywhere(replies: Sequence[np.ndarray], tree: frozenset[rounds.Path]) -> int:
    """Guesses accepted by a round from every position, counted the long way."""
    total = 0
    for ranks in replies:
        length = ranks.shape[1]
        for at in range(length):
            path = (int(ranks[0, at]),)
            if path in tree:
                total += 1
                total += at + 1 < length and (*path, int(ranks[1, at + 1])) in tree
    return total


@pytest.mark.parametrize("seed", range(6))
def test_every_beginning_of_the_tree_found_is_the_best_of_its_size(seed: int) -> None:
    """Against all trees there are, where no younger sibling is right more often."""
    replies = made_up_ranks(seed)
    found = rounds.best_tree(replies, 5)
    for nodes in range(1, 6):
        mine = accepted_from_everywhere(replies, frozenset(found[:nodes]))
        best = max(accepted_from_everywhere(replies, tree) for tree in every_tree(nodes))
        assert mine == best


def test_the_search_catches_a_tree_that_only_grows_wide() -> None:
    """The broken twin: the first head's guesses one after another."""
    replies = made_up_ranks(1)
    wide = frozenset((rank,) for rank in range(5))
    best = max(accepted_from_everywhere(replies, tree) for tree in every_tree(5))
    assert accepted_from_everywhere(replies, wide) < best


def test_rounds_with_a_tree_are_counted_as_decoding_would() -> None:
    """By hand: from 0 two accepted, from 3 none, from 4 one and the reply is over."""
    ranks = np.array([[0, 9, 9, 2, 1, 0], [9, 1, 9, 9, 9, 0]])
    tree: list[rounds.Path] = [(0,), (0, 1), (1,)]
    assert rounds.tree_histogram([ranks], tree) == [1, 1, 1]
    assert rounds.tree_histogram([ranks], tree[:1]) == [3, 2]


def test_ranks_are_places_in_each_head_s_order() -> None:
    target, corpus = tiny_target(), made_up_corpus()
    student = learner(target)
    student.begin(target, [corpus.row(row) for row in range(8)])
    (ranks,) = student.ranks(corpus, [3])
    reply, start = corpus.reply(3).tolist(), int(corpus.prompt_lengths[3])
    with torch.no_grad():
        ahead = student.ahead([corpus.row(3)], HEADS)
    for head, hidden in enumerate(ahead):
        for at, token in enumerate(reply):
            logits = student.logits(hidden[start - 1 + at])
            order = student.vocab_ids[logits.argsort(descending=True)].tolist()
            assert ranks[head, at] == (order.index(token) if token in order else -1)
