"""Repeating, rewinding and interleaving runs: the same keys give the same text."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import codec
from engine.adapt import Choice, Learned
from engine.decode import DecodeError
from engine.llama import Runner
from engine.trace import Rewind, fold
from tests.engine import kit
from tests.engine.kit import TINY, header, session
from tests.engine.runs import (
    GREEDY,
    ORACLE,
    PROMPT,
    SAMPLED,
    check_verdicts,
    essence,
    oracle_script,
    sampled_run,
)


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    first, again, other = (list(sampled_run(seed).rounds()) for seed in (5, 5, 6))
    assert essence(first) == essence(again)
    assert essence(first) != essence(other)


@pytest.mark.parametrize("to_round", range(7))
def test_a_rewind_that_changes_nothing_repeats_the_same_run(to_round):
    straight = list(sampled_run().rounds())
    run = sampled_run()
    made = [run.advance() for _ in range(6)]
    run.rewind(to_round, SAMPLED)
    again = list(run.rounds())
    assert essence(made[:to_round] + again) == essence(straight)


def test_a_rewind_changes_settings_from_that_round_on_and_reopens_an_ended_run():
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY))
    rounds = list(run.rounds())
    assert run.finished is not None
    alone_now = replace(GREEDY, speculative=False)
    run.rewind(2, alone_now)
    assert run.finished is None
    rest = list(run.rounds())
    assert [made.index for made in rest] == list(range(2, 2 + len(rest)))
    assert all(made.settings == alone_now and made.guesses == () for made in rest)
    assert sum(len(r.committed) for r in (*rounds[:2], *rest)) == 24
    assert kit.committed(run) == ORACLE[:24]


def test_a_rewind_to_the_end_of_an_ended_run_leaves_it_ended():
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY))
    count = len(list(run.rounds()))
    run.rewind(count, replace(GREEDY, k=1))
    assert run.finished.reason == "length"
    with pytest.raises(DecodeError):
        run.advance()


@pytest.mark.parametrize("to_round", [-1, 1])
def test_a_rewind_to_a_round_that_is_not_there_is_an_error(to_round):
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY))
    with pytest.raises(ValueError, match="go back"):
        run.rewind(to_round, GREEDY)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_events_fold_to_the_session_s_own_text_through_any_rewinds(seed):
    """What a picture or a run file sees is what the engine holds, after the trip as lines."""
    chance = random.Random(seed)
    run = sampled_run(seed)
    events = [run.header]
    for _ in range(12):
        if chance.random() < 0.3:
            to_round = chance.randrange(run.made + 1)
            s = replace(SAMPLED, k=chance.randrange(6), quality=chance.choice((100.0, 30.0)))
            run.rewind(to_round, s)
            events.append(Rewind(to_round, s))
        if run.finished is None:
            events.append(run.advance())
    seen = fold(codec.decode(codec.encode(event)) for event in events)
    assert [token.id for token in seen.committed] == kit.committed(run)
    assert seen.rounds == fold(events).rounds
    check_verdicts(seen.rounds)


def test_runs_of_two_sessions_do_not_touch_each_other():
    """B20: the draws of a run depend on its own seed and rounds only."""
    first, second = sampled_run(5), sampled_run(6)
    mixed = []
    while first.finished is None:
        mixed.append(first.advance())
        if second.finished is None:
            second.advance()
    assert essence(mixed) == essence(sampled_run(5).rounds())


def test_auto_k_changes_how_the_text_comes_and_not_the_text():
    run = session(Runner(TINY), oracle_script(3), header(PROMPT, replace(GREEDY, auto_k=True)))
    rounds = list(run.rounds())
    assert kit.committed(run) == ORACLE[:24]
    assert all(made.settings.auto_k and made.k_reason.startswith("K ") for made in rounds)
    assert all(len(made.guesses) <= made.settings.k for made in rounds)
    check_verdicts(rounds)


@pytest.mark.parametrize("to_round", range(6))
def test_after_a_rewind_auto_k_knows_what_the_rounds_that_stay_have_taught(to_round):
    run = session(Runner(TINY), oracle_script(2), header(PROMPT, replace(GREEDY, auto_k=True)))
    made = [run.advance() for _ in range(6)]
    run.rewind(to_round, replace(GREEDY, auto_k=True))
    known = Learned.of(made[:to_round])
    assert run.advance().k_reason == known.choose(replace(GREEDY, auto_k=True)).reason


def test_a_drafter_left_silent_by_auto_k_stays_in_use(monkeypatch):
    """Its probes are work like any other: no round of theirs is left out as a cold one."""
    wanted = iter([2, 0, 0, 1])
    monkeypatch.setattr(Learned, "choose", lambda self, settings: Choice(next(wanted), "so"))
    run = session(Runner(TINY), oracle_script(1), header(PROMPT, replace(GREEDY, auto_k=True)))
    rounds = [run.advance() for _ in range(4)]
    assert [len(made.guesses) for made in rounds] == [2, 0, 0, 1]
    assert [made.cold for made in rounds] == [True, False, False, False]
