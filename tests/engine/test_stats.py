"""Statistics against published vectors, and formulas against published tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.stats import Stats, best_k, expected_gain, expected_of_tree, expected_tokens
from engine.trace import (
    Baseline,
    Candidate,
    Emitted,
    Guess,
    Law,
    Round,
    Settings,
    Token,
    Verdict,
)

WORD = Token(7, "x")
LAW = Law((Candidate(WORD, 1.0),), 0.0)
EMITTED = Emitted(WORD, "bonus", 1.0, 0.5, LAW, LAW)


def guess(verdict: Verdict) -> Guess:
    draw = None if verdict == "discarded" else 0.5
    return Guess(WORD, 1.0, 1.0, 1.0, draw, verdict, LAW, LAW, "model")


def made(accepted: int, k: int, draft: float = 0.002, verify: float = 0.015, **changes) -> Round:
    """A round of k guesses, of which `accepted` passed."""
    verdicts = ["accepted"] * accepted
    if accepted < k:
        verdicts += ["rejected"] + ["discarded"] * (k - accepted - 1)
    settings = Settings(drafter="small", k=k)
    plain = Round(0, 0, settings, tuple(map(guess, verdicts)), EMITTED, (draft,) * k, verify)
    return replace(plain, **changes)


def of_histogram(histogram: list[int], k: int) -> Stats:
    return Stats.of(made(j, k) for j, count in enumerate(histogram) for _ in range(count))


def test_vllm_vector():
    stats = of_histogram([39, 1, 0, 3], 3)
    assert (stats.rounds, stats.drafted, stats.accepted) == (43, 129, 10)
    assert stats.histogram == (39, 1, 0, 3)
    assert stats.acceptance_rate == pytest.approx(0.07752, abs=5e-6)
    assert stats.mean_acceptance_length == pytest.approx(1.23256, abs=5e-6)


def test_llama_cpp_vector():
    """87 drafts, positions 1, 2, 3 accepted 70, 55, 42 times; its last rounds drafted 2 short."""
    rounds = [made(j, 3) for j, count in enumerate([17, 15, 13, 42]) for _ in range(count)]
    rounds[0] = replace(rounds[0], guesses=rounds[0].guesses[:1])
    stats = Stats.of(rounds)
    assert (stats.rounds, stats.drafted, stats.accepted) == (87, 259, 167)
    assert stats.acceptance_rate == pytest.approx(0.64479, abs=5e-6)
    assert stats.mean_acceptance_length == pytest.approx(2.92, abs=5e-3)
    assert stats.per_position == pytest.approx((70 / 87, 55 / 87, 42 / 87))
    assert sum(stats.per_position) * 87 == pytest.approx(167)


def test_acceptance_stops_at_the_first_rejection():
    """Flags 1, 0, 1, 1 of a naive comparison are one accepted guess, not three."""
    verdicts = ("accepted", "rejected", "discarded", "discarded")
    stats = Stats.of([made(1, 4)])
    assert tuple(g.verdict for g in made(1, 4).guesses) == verdicts
    assert (stats.accepted, stats.rejected, stats.drafted) == (1, 1, 4)
    assert stats.alpha == 0.5
    assert stats.acceptance_rate == 0.25


def test_what_an_end_of_text_cut_off_is_drafted_and_not_accepted():
    cut = made(4, 4)
    cut = replace(
        cut,
        emitted=None,
        guesses=(*cut.guesses[:2], *(replace(g, verdict="discarded") for g in cut.guesses[2:])),
    )
    stats = Stats.of([cut])
    assert (stats.drafted, stats.accepted, stats.committed) == (4, 2, 2)
    assert stats.alpha == 1.0


def test_nothing_drafted_is_undefined_and_not_zero():
    silent = replace(made(0, 4), guesses=(), draft_step_seconds=(0.0001,))
    stats = Stats.of([silent, silent])
    assert stats.acceptance_rate is None
    assert stats.alpha is None
    assert stats.histogram == (2, 0, 0, 0, 0)
    assert stats.mean_acceptance_length == 1.0
    empty = Stats.of([])
    assert empty.mean_acceptance_length is None
    assert empty.tokens_per_second is None
    assert empty.pass_seconds is None
    assert empty.per_position == ()


def test_rounds_without_a_drafter_have_no_histogram():
    alone = made(0, 4, guesses=(), settings=Settings(speculative=False), draft_step_seconds=())
    assert Stats.of([alone]).histogram == ()
    assert Stats.of([alone, made(2, 4)]).histogram == (0, 0, 1, 0, 0)
    assert Stats.of([alone]).draft_step_seconds is None


def test_cold_rounds_count_as_rounds_but_not_in_rates_of_time():
    warm, cold = made(1, 2), made(1, 2, verify=9.0, cold=True)
    stats = Stats.of([cold, warm])
    assert stats.rounds == 2
    assert stats.tokens_per_second == pytest.approx(2 / 0.019)
    assert stats.pass_seconds == pytest.approx(0.015)
    assert Stats.of([cold]).tokens_per_second is None


def test_slower_is_said_in_words():
    """alpha .5, K 4: 1.9375 tokens in 23 ms where the target alone takes 19.4."""
    histogram = [16, 8, 4, 2, 2]
    rounds = [made(j, 4) for j, count in enumerate(histogram) for _ in range(count)]
    stats = Stats.of(rounds, Baseline(0.010, 9))
    expected = expected_tokens(0.5, 4) * 10 / 23
    assert expected == pytest.approx(0.842, abs=5e-4)
    assert stats.speedup == pytest.approx(expected, abs=1e-9)
    assert stats.slowness == "drafting costs 0.8 passes a round, for 1.9 tokens"
    dear_check = Stats.of([made(1, 4, draft=0.0, verify=0.03)], Baseline(0.010, 9))
    assert dear_check.slowness == "checking costs 3.0 passes a round, for 2.0 tokens"
    bad = Stats.of([made(0, 4, draft=0.001, verify=0.012)], Baseline(0.010, 9))
    assert bad.slowness == "few guesses pass: 1.0 tokens a round, for 1.2 passes"


def test_faster_or_unknown_has_no_excuse():
    assert Stats.of([made(4, 4)], Baseline(0.010, 9)).slowness is None
    assert Stats.of([made(0, 4)]).speedup is None
    assert Stats.of([made(0, 4)]).slowness is None


def test_a_position_is_judged_by_the_rounds_that_asked_for_it():
    stats = Stats.of([made(1, 1), made(3, 3), made(0, 3), made(1, 1)])
    assert stats.asked == (4, 2, 2)
    assert stats.per_position == (0.75, 0.5, 0.5)


@pytest.mark.parametrize(
    ("alpha", "k", "tokens"),
    [(0.5, 1, 1.5), (0.5, 4, 1.9375), (0.7, 5, 2.9412), (0.8, 4, 3.3616), (0.95, 5, 5.2982),
     (1.0, 4, 5.0), (0.0, 4, 1.0), (0.3, 0, 1.0)],
)  # fmt: skip
def test_expected_tokens(alpha, k, tokens):
    assert expected_tokens(alpha, k) == pytest.approx(tokens, abs=5e-5)


@pytest.mark.parametrize(
    ("alpha", "k", "cost", "gain"),
    [(0.8, 4, 0.1, 2.4011), (0.7, 5, 0.05, 2.3529), (0.5, 4, 0.2, 1.0764), (0.3, 5, 0.2, 0.7138),
     (0.9, 10, 0.0, 6.862), (0.1, 5, 0.1, 0.7407)],
)  # fmt: skip
def test_expected_gain(alpha, k, cost, gain):
    assert expected_gain(alpha, k, cost) == pytest.approx(gain, abs=5e-4)


@pytest.mark.parametrize(
    ("alpha", "cost", "best"),
    [(0.5, 0.05, 3), (0.8, 0.1, 6), (0.9, 0.02, 19), (0.95, 0.01, 40), (0.5, 0.2, 1)],
)
def test_best_k_is_the_table_s(alpha, cost, best):
    assert best_k(alpha, cost, [1.0] * 60) == best


def test_best_k_is_zero_when_nothing_pays():
    assert best_k(0.05, 0.3, [1.0, 1.1, 1.2, 1.3]) == 0


def test_stats_of_parts_add_up_to_those_of_the_whole():
    rounds = [made(j, k) for k in (0, 2, 4) for j in range(k + 1)]
    whole = sum((Stats.of((each,)) for each in rounds), Stats.of(()))
    assert whole == Stats.of(rounds)


# --- trees ------------------------------------------------------------------------------------


def tree(verdicts: str, parents: tuple[int, ...], k: int = 0) -> Round:
    """A round of guesses that follow `parents`, each accepted, rejected or discarded by letter."""
    names: dict[str, Verdict] = {"a": "accepted", "r": "rejected", "d": "discarded"}
    guesses = (
        replace(guess(names[letter]), parent=parent)
        for letter, parent in zip(verdicts, parents, strict=True)
    )
    return replace(made(0, k or len(parents)), guesses=tuple(guesses))


FORKS = tree("rardda", (-1, -1, 1, 0, 0, 1))


def test_a_tree_s_nodes_are_drafted_and_its_positions_are_depths():
    assert FORKS.depths == (1, 1, 2, 2, 2, 2)
    assert FORKS.path == (1, 5)
    stats = Stats.of([FORKS, tree("rr", (-1, -1)), tree("ad", (-1, 0), k=6)])
    assert (stats.drafted, stats.accepted, stats.rejected) == (10, 3, 4)
    assert stats.alpha == pytest.approx(3 / 7)
    assert stats.histogram == (1, 1, 1)
    assert stats.asked == (3, 2)
    assert stats.per_position == pytest.approx((2 / 3, 1 / 2))
    assert stats.mean_acceptance_length == 2.0
    assert made(2, 4).depths == (1, 2, 3, 4)


def test_a_round_without_guesses_does_not_say_how_deep_a_tree_would_have_been():
    silent = replace(made(0, 16), guesses=())
    for rounds in ([FORKS, silent], [silent, FORKS]):
        whole = sum((Stats.of((each,)) for each in rounds), Stats.of(()))
        assert whole == Stats.of(rounds)
        assert whole.histogram == (1, 0, 1)
        assert whole.per_position == (0.5, 0.5)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_a_chain_is_expected_to_bring_what_the_formula_says(alpha):
    for k in range(5):
        assert expected_of_tree(alpha, range(-1, k - 1)) == expected_tokens(alpha, k)


def test_expected_tokens_of_a_tree_by_hand():
    """.5 for the elder, .25 for the younger, and half of each again for their children."""
    assert expected_of_tree(0.5, (-1, -1, 0, 1)) == 1 + 0.5 + 0.25 + 0.25 + 0.125
