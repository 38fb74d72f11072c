"""The decoding session: exact at every limit, whatever is proposed."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import evidence
from engine.decode import DecodeError, Session
from engine.drafters.model import ModelDrafter
from engine.llama import Runner
from engine.sampling import penalise
from engine.stats import Stats
from engine.trace import Settings, fold, join_text
from tests.engine import kit
from tests.engine.kit import TINY, TINY_D, Words, alone, audit, header, session
from tests.engine.runs import (
    GREEDY,
    ORACLE,
    PROMPT,
    check_verdicts,
    oracle_script,
)

HALVES = next(i for i in range(3, 30) if len(set(ORACLE[i : i + 3])) == 3)


def chaos_script(seed: int) -> kit.Script:
    """Proposes right and wrong tokens, and sometimes nothing, at random."""
    chance = random.Random(seed)

    def guess(text: list[int]) -> int | None:
        roll = chance.random()
        if roll < 0.15:
            return None
        at = len(text) - len(PROMPT)
        return ORACLE[at] if roll < 0.7 and at < len(ORACLE) else chance.randrange(kit.TINY_VOCAB)

    return kit.Script(guess)


@cache
def penalised_oracle(penalty: float) -> list[int]:
    """The cache-free loop, the whole text penalised anew for each token."""
    ids = list(PROMPT)
    for _ in range(24):
        logits = Runner(TINY).forward(ids, last_only=True)
        ids.append(int(penalise(logits, ids, penalty)[-1].argmax()))
    return ids[len(PROMPT) :]


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**9), penalty=st.sampled_from([1.0, 1.0, 1.3, 2.0, 0.7]))
def test_greedy_text_is_the_target_s_own_whatever_is_drafted(seed, penalty):
    chance = random.Random(seed)
    start = replace(GREEDY, repetition_penalty=penalty)
    run = session(Runner(TINY), chaos_script(seed), header(PROMPT, start))
    while run.finished is None:
        quality = chance.choice((100.0, 100.0, 40.0))
        run.rewind(run.made, replace(start, k=chance.randrange(17), quality=quality))
        run.advance()
    assert kit.committed(run) == penalised_oracle(penalty)


def test_penalties_make_other_texts():
    """Else the test above would prove nothing about them."""
    assert penalised_oracle(1.0) == ORACLE[:24]
    assert len({tuple(penalised_oracle(penalty)) for penalty in (0.7, 1.0, 1.3, 2.0)}) == 4


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.0, 0.7, 1.5]),
    top_k=st.sampled_from([0, 5]),
    top_p=st.sampled_from([1.0, 0.8]),
    penalty=st.sampled_from([1.0, 1.5]),
    copy=st.booleans(),
)
def test_caches_are_those_of_a_fresh_reading_after_every_round_of_any_run(
    seed, temperature, top_k, top_p, penalty, copy
):
    """AUDIT: K, quality and the round gone back to change all the time."""
    chance = random.Random(seed)
    target, draft = Runner(TINY), Runner(TINY if copy else TINY_D)
    s = Settings("model", 4, 100.0, temperature, top_k, top_p, repetition_penalty=penalty)
    run = session(target, ModelDrafter("model", draft), header(PROMPT, s, seed=seed))
    for _ in range(8):
        if run.finished is None or chance.random() < 0.3:
            back = run.made - (run.made > 0 and chance.random() < 0.3)
            quality = chance.choice((100.0, 100.0, 30.0))
            run.rewind(back, replace(s, k=chance.randrange(7), quality=quality))
        if run.finished is not None:
            break
        run.advance()
        assert target.length == len(run.ids) - 1
        audit(target, run.ids)
        audit_drafter(run._drafter, draft)


@pytest.mark.parametrize("seed", range(12))
def test_target_and_drafter_caches_hold_the_committed_text_after_every_round(seed):
    chance = random.Random(seed)
    target, draft = Runner(TINY), Runner(TINY_D if seed % 3 else TINY)
    run = session(target, ModelDrafter("model", draft), header(PROMPT, GREEDY))
    while run.finished is None:
        run.rewind(run.made, replace(GREEDY, k=chance.randrange(7)))
        made = run.advance()
        assert len(made.guesses) <= made.settings.k
        audit(target, run.ids)
        assert target.length == len(run.ids) - 1
        audit_drafter(run._drafter, draft)
    assert kit.committed(run) == ORACLE[:24]


def audit_drafter(drafter, runner):
    if drafter is not None:
        assert runner.length == len(drafter._held)
        audit(runner, drafter._held)


@pytest.mark.parametrize("k", range(1, 7))
def test_a_copy_of_the_target_is_always_accepted_whole(k):
    """B01: after full acceptance the drafter has two tokens to catch up on, not one."""
    copy = ModelDrafter("copy", Runner(TINY))
    run = session(Runner(TINY), copy, header(PROMPT, replace(GREEDY, k=k), max_new_tokens=60))
    rounds = list(run.rounds())
    assert all(made.accepted == len(made.guesses) for made in rounds)
    assert all(len(made.guesses) == k for made in rounds[:-1])
    assert kit.committed(run) == alone(TINY, PROMPT, 60)


def test_always_wrong_costs_one_token_a_round_and_no_draft_reaches_the_text():
    run = session(Runner(TINY), oracle_script(wrong_every=1), header(PROMPT, GREEDY))
    rounds = list(run.rounds())
    assert [len(made.committed) for made in rounds] == [1] * 24
    assert kit.committed(run) == ORACLE[:24]


def test_every_token_is_fed_at_its_own_place_in_the_text():
    """B05: whatever was accepted before, 0, all or some."""
    fed: dict[int, int] = {}

    class Watched(Runner):
        def forward(self, ids, last_only=False):
            fed.update(enumerate(ids, self.length))
            return super().forward(ids, last_only)

    run = session(Watched(TINY), oracle_script(wrong_every=4), header(PROMPT, GREEDY))
    accepted = set()
    while run.finished is None:
        made = run.advance()
        accepted.add(made.accepted)
        held = len(run.ids) - 1
        assert [fed[place] for place in range(held)] == list(run.ids[:held])
    assert {0, 2, 3} <= accepted


@pytest.mark.parametrize("count", range(13))
@pytest.mark.parametrize("k", range(1, 9))
def test_exactly_n_tokens(count, k):
    """B28: never one too many, and no guess that could not have been used."""
    run = session(
        Runner(TINY), oracle_script(), header(PROMPT, replace(GREEDY, k=k), max_new_tokens=count)
    )
    rounds = list(run.rounds())
    assert kit.committed(run) == ORACLE[:count]
    assert run.finished.reason == "length"
    assert all(made.emitted is not None for made in rounds)
    assert sum(len(made.committed) for made in rounds) == count


@pytest.mark.parametrize("at", range(10))
@pytest.mark.parametrize("eos_ids", [lambda t: (t,), lambda t: (999, t), lambda t: (t, 998)])
def test_the_text_ends_at_end_of_text_wherever_in_a_block_it_falls(at, eos_ids):
    """B27: at each index of a block, as an accepted guess, a correction or a bonus."""
    end = ORACLE[at]
    expected = ORACLE[: ORACLE.index(end) + 1]
    for wrong_every, k in itertools.product((0, 2, 3), (0, 1, 2, 4)):
        target = Runner(TINY)
        run = session(
            target,
            oracle_script(wrong_every),
            header(PROMPT, replace(GREEDY, k=k)),
            Words(eos_ids(end)),
        )
        rounds = list(run.rounds())
        assert kit.committed(run) == expected
        assert run.finished.reason == "eos"
        assert [t.id for made in rounds for t in made.committed] == expected
        assert target.length == len(run.ids) - 1
        audit(target, run.ids)
        check_verdicts(rounds)


def test_an_end_of_text_cut_discards_later_guesses_and_emits_nothing():
    end = ORACLE[1]
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY), Words((end,)))
    made = run.advance()
    assert [guess.verdict for guess in made.guesses] == ["accepted"] * 2 + ["discarded"] * 2
    assert made.emitted is None


ENDS = ("eos", "stop", "length", "context")


@settings(max_examples=120, deadline=None)
@given(
    end=st.sampled_from(ENDS),
    at=st.integers(0, 14),
    ks=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    wrong_every=st.sampled_from([0, 2, 3]),
)
def test_whatever_ends_a_text_cuts_ids_words_cache_events_and_statistics_alike(
    end, at, ks, wrong_every
):
    """B27: at any place of a block, accepted, corrected or bonus; nothing after it is anywhere."""
    check_end(end, at, ks, wrong_every)


def check_end(end, at, ks, wrong_every):
    last = ORACLE[at]
    count = at + 1 if end in ("length", "context") else ORACLE.index(last) + 1
    words = Words((last,) if end == "eos" else (), {last: "<stop>"} if end == "stop" else None)
    target = Runner(TINY)
    run = session(
        target, oracle_script(wrong_every),
        header(PROMPT, GREEDY,
               stop=("stop>",) if end == "stop" else (),
               max_new_tokens=count if end == "length" else 99,
               context_limit=len(PROMPT) + count if end == "context" else 128),
        words,
    )  # fmt: skip
    rounds = []
    while run.finished is None:
        run.rewind(run.made, replace(GREEDY, k=ks[run.made % len(ks)]))
        rounds.append(run.advance())
    assert run.finished.reason == end
    assert kit.committed(run) == ORACLE[:count]
    seen = fold([run.header, *rounds, run.finished])
    assert [token.id for token in seen.committed] == ORACLE[:count]
    spoken = ORACLE[: count - 1] if end == "eos" else ORACLE[:count]
    assert seen.text == join_text(map(words.token, spoken))
    assert len(run.choices) == Stats.of(rounds).committed == count
    assert target.length == len(run.ids) - 1
    audit(target, run.ids)
    check_verdicts(rounds)
    for made in rounds:
        kept = [guess.token.id for guess in made.guesses if guess.verdict == "accepted"]
        assert kept == [token.id for token in made.committed][: len(kept)]


until_end, evidence_of = Session._until_end, evidence.guesses


def one_token_short(self, tokens):
    count, reason = until_end(self, tokens)
    return count - (reason is not None), reason


FAULTS = {
    "the whole block is kept": (
        "engine.decode.Session._until_end",
        lambda self, tokens: (len(tokens), until_end(self, tokens)[1]),
    ),
    "the ending token is cut off": ("engine.decode.Session._until_end", one_token_short),
    "rows of refused guesses stay": ("engine.decode.Session._settle", lambda self: None),
    "what comes after the end is shown as accepted": (
        "engine.evidence.guesses",
        lambda check, kept, ended, words: evidence_of(check, len(check.verdict.path), False, words),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_end_that_cuts_one_of_them_otherwise_is_caught(monkeypatch, fault):
    monkeypatch.setattr(*FAULTS[fault])
    caught = 0
    for end, at in itertools.product(ENDS, (1, 2, 3)):
        try:
            check_end(end, at, [4], 3)
        except (AssertionError, ValueError):
            caught += 1
    assert caught


def test_a_stop_string_across_tokens_ends_the_text_at_the_token_that_completes_it():
    texts = {token: f"<{i}" for i, token in enumerate(dict.fromkeys(ORACLE))}
    words = Words(texts=texts)
    stop = "".join(texts[token] for token in ORACLE[2:4])[1:]
    for k in range(6):
        run = session(
            Runner(TINY),
            oracle_script(),
            header(PROMPT, replace(GREEDY, k=k), stop=("never", stop)),
            words,
        )
        rounds = list(run.rounds())
        text = fold([run.header, *rounds]).text
        assert run.finished.reason == "stop"
        assert stop in text
        before = fold([run.header, *rounds]).committed[:-1]
        assert stop not in "".join(token.text for token in before)


def test_a_stop_string_of_nothing_stops_nothing():
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY, stop=("",)))
    list(run.rounds())
    assert run.finished.reason == "length"


def test_a_character_split_over_rounds_reads_whole():
    rocket = "\U0001f680".encode()
    parts = [
        part.decode("utf-8", "surrogateescape") for part in (rocket[:1], rocket[1:3], rocket[3:])
    ]
    texts = dict(zip(ORACLE[HALVES : HALVES + 3], parts, strict=True))
    assert len(texts) == 3
    for k in range(6):
        run = session(
            Runner(TINY),
            oracle_script(),
            header(PROMPT, replace(GREEDY, k=k), max_new_tokens=HALVES + 3),
            Words(texts=texts),
        )  # fmt: skip
        rounds = list(run.rounds())
        assert fold([run.header, *rounds]).text.count("\U0001f680") == 1


def test_the_context_is_filled_to_its_end_and_never_past_it():
    for k, limit in itertools.product((0, 1, 4, 16), (6, 7, 9, 20)):
        target = Runner(TINY, context=limit)
        run = session(
            target, oracle_script(), header(PROMPT, replace(GREEDY, k=k), max_new_tokens=99)
        )
        list(run.rounds())
        assert run.finished.reason == "context"
        assert kit.committed(run) == ORACLE[: limit - len(PROMPT)]


def test_a_drafter_with_a_shorter_context_falls_silent_and_the_run_goes_on():
    run = session(
        Runner(TINY), ModelDrafter("short", Runner(TINY_D, context=12)), header(PROMPT, GREEDY)
    )
    rounds = list(run.rounds())
    assert kit.committed(run) == ORACLE[:24]
    assert all(made.guesses == () for made in rounds if made.position >= 12)
    assert any(made.guesses for made in rounds)


@pytest.mark.parametrize("prompt", [PROMPT, PROMPT * 12])
def test_a_text_far_past_a_drafter_s_context_goes_on_without_it(prompt):
    short = ModelDrafter("short", Runner(TINY_D, context=20))
    run = session(Runner(TINY), short, header(prompt, GREEDY, max_new_tokens=60))
    rounds = list(run.rounds())
    assert kit.committed(run) == alone(TINY, prompt, 60)
    assert all(made.guesses == () for made in rounds if made.position >= 20)


@pytest.mark.parametrize("prompt", [[], list(range(40)), list(range(41))])
def test_a_prompt_that_leaves_no_room_is_refused_in_one_sentence(prompt):
    with pytest.raises(DecodeError, match="prompt is"):
        session(Runner(TINY, context=40), oracle_script(), header(prompt))


def test_a_prompt_of_one_token_is_enough():
    run = session(Runner(TINY), kit.Script(lambda text: 0), header([9], GREEDY, max_new_tokens=5))
    list(run.rounds())
    assert kit.committed(run) == alone(TINY, [9], 5)


def test_cancelling_ends_the_run():
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY))
    run.advance()
    run.cancel()
    assert run.finished.reason == "cancelled"
    assert list(run.rounds()) == []


def test_a_long_prompt_is_read_in_parts_and_says_how_far(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[int, int]] = []
    plain = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY))
    list(plain.rounds())
    monkeypatch.setattr("engine.decode.READ_AT_ONCE", 2)
    run = session(
        Runner(TINY), oracle_script(), header(PROMPT, GREEDY),
        reading=lambda done, total: heard.append((done, total)),
    )  # fmt: skip
    assert heard == [(done, len(PROMPT) - 1) for done in range(0, len(PROMPT) - 1, 2)]
    list(run.rounds())
    assert run.ids == plain.ids
