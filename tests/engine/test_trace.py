"""The fold over events, and every number of the hand-worked run against the rules."""

from __future__ import annotations

import math

import pytest

from engine.trace import (
    Law,
    Rewind,
    Round,
    RunFailed,
    RunFinished,
    RunHeader,
    RunProof,
    Settings,
    Token,
    Trace,
    fold,
    join_text,
)
from tests.data import write_hand as hand

RUN = fold(hand.EVENTS)


def ids(run: Trace) -> list[int]:
    assert run.header is not None
    return [token.id for token in (*run.header.prompt_tokens, *run.committed)]


def test_rewind_takes_back_what_was_never_shown():
    assert [each.index for each in RUN.rounds] == list(range(8))
    assert hand.NEVER_SHOWN not in RUN.rounds
    assert RUN.rounds[4] is hand.LOOKED_UP


def test_the_text_joins_half_characters_and_leaves_out_end_of_text():
    assert RUN.text == (
        " because of bad weather, the crew waited for a rocket launch window \U0001f680!"
    )
    assert RUN[:6].text.endswith("window ")


def test_half_a_character_alone_reads_as_a_replacement():
    assert join_text([Token(36, hand.LEAD)]) == "\ufffd"
    assert join_text([Token(36, hand.LEAD), Token(37, hand.TAIL)]) == "\U0001f680"


@pytest.mark.parametrize("index", range(8))
def test_positions_count_committed_tokens(index):
    assert RUN.rounds[index].position == len(ids(RUN[:index]))


@pytest.mark.parametrize("event", [e for e in hand.EVENTS if isinstance(e, Round)])
def test_verdicts_follow_the_rule(event):
    judged = True
    for guess in event.guesses:
        assert guess.accept_prob == min(1.0, guess.target_prob / guess.draft_prob)
        if guess.draw is None:
            assert guess.verdict == "discarded"
            judged = False
            continue
        assert judged, "a guess was judged after the first rejection"
        accepted = guess.draw * guess.draft_prob < guess.target_prob
        assert guess.verdict == ("accepted" if accepted else "rejected")
        judged = accepted
    if event.emitted is not None:
        everything_kept = event.accepted == len(event.guesses)
        assert event.emitted.kind == ("bonus" if everything_kept else "recovered")


WHOLE_LAWS = [
    e for e in hand.EVENTS if isinstance(e, Round) and e.emitted and e.emitted.law.rest == 0
]


@pytest.mark.parametrize("event", WHOLE_LAWS)
def test_the_emitted_token_is_the_draw_read_off_the_law_in_id_order(event):
    law = event.emitted.law
    cumulative = 0.0
    for candidate in sorted(law.top, key=lambda each: each.token.id):
        cumulative += candidate.prob
        if event.emitted.draw < cumulative:
            break
    assert candidate.token == event.emitted.token
    assert candidate.prob == event.emitted.prob


def laws(event: Round) -> list[Law]:
    guessed = [law for guess in event.guesses for law in (guess.draft_law, guess.target_law)]
    return guessed if event.emitted is None else [*guessed, event.emitted.law]


@pytest.mark.parametrize("event", [e for e in hand.EVENTS if isinstance(e, Round)])
def test_laws_have_mass_one_and_fall(event):
    for law in laws(event):
        probs = [candidate.prob for candidate in law.top]
        assert math.isclose(sum(probs) + law.rest, 1.0, abs_tol=1e-9)
        assert probs == sorted(probs, reverse=True)


def test_a_recovered_token_comes_from_the_residual():
    event = hand.REJECTED_SECOND
    assert [(c.token.text, c.prob) for c in event.emitted.law.top] == [
        (" crew", 0.8),
        (" rocket", 0.2),
    ]


def test_a_round_cut_by_end_of_text_emits_nothing_more():
    assert hand.ENDS_INSIDE.emitted is None
    assert hand.ENDS_INSIDE.committed[-1].text == hand.EOS
    assert hand.ENDS_INSIDE.guesses[2].verdict == "discarded"


def test_cutting_a_run_is_the_run_as_it_stood():
    for count in range(9):
        rounds = RUN.rounds[:count]
        assert RUN[:count].rounds == rounds
        assert RUN[:count].end == (RUN.end if count == 8 else None)


def test_events_that_cannot_follow_are_refused():
    started = Trace().extend(hand.HEADER)
    for run, event in (
        (Trace(), hand.ALL_ACCEPTED),
        (Trace(), RunFinished("eos")),
        (started, hand.HEADER),
        (started, hand.REJECTED_FIRST),
        (started, Rewind(1, Settings())),
        (started, Rewind(-1, Settings())),
        (started, RunProof(3)),
        (started.extend(RunFailed("no memory")), RunProof(3)),
    ):
        with pytest.raises(ValueError):
            run.extend(event)
    with pytest.raises(ValueError):
        RUN[2:]


def test_a_proof_belongs_to_the_whole_run_and_goes_with_a_rewind():
    proven = RUN.extend(RunProof(17))
    assert proven.proof == RunProof(17)
    assert proven[:8] == proven
    assert proven[:7].proof is None
    assert proven.extend(Rewind(7, Settings())).proof is None


def test_a_proof_in_words():
    assert RunProof(200).words == "lossless: 200 of 200 tokens equal the target alone"
    differs = RunProof(200, 6)
    assert differs.words == "differs from the target alone at token 7 of 200"
    assert (RunProof(200).holds, differs.holds) == (True, False)


def test_a_run_may_fail_before_its_header_and_a_rewind_reopens_a_finished_one():
    assert Trace().extend(RunFailed("no model")).end == RunFailed("no model")
    assert RUN.extend(Rewind(3, Settings())).end is None


def test_effective_k_is_zero_without_a_drafter():
    assert Settings(k=5).effective_k == 5
    assert Settings(k=5, speculative=False).effective_k == 0
    assert Settings(k=5, drafter="none").effective_k == 0


def test_round_sums():
    event = hand.ALL_ACCEPTED
    assert event.draft_seconds == pytest.approx(0.007)
    assert event.seconds == pytest.approx(0.031)
    assert isinstance(hand.HEADER, RunHeader)
    assert hand.HEADER.baseline.tokens_per_second == pytest.approx(50.0)
