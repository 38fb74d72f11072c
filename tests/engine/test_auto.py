"""What auto means: the fastest drafter with the K it has, from medians, remembered by machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest

from engine.adapt import START, Learned
from engine.drafters import auto
from engine.drafters.auto import ASKED, ASKED_MORE, MOST, Measured
from engine.llama import Runner
from engine.trace import Round, Settings
from tests.engine.kit import TINY, header, session
from tests.engine.runs import oracle_script
from tests.engine.test_stats import made as a_round

PROMPT = [3, 1, 4, 1, 5]
FOUR, AUTO = Settings(), Settings(auto_k=True)


class Rates:
    """Stands in for measuring: seconds of a pass ("none") and of a proposal, by drafter.

    Every drafter is right about everything; counts what it measured.
    """

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self.measured: list[str] = []

    def begin(self, prompt: str, s: Settings, max_new_tokens: int):
        self.measured.append(s.drafter)
        drafting, a_pass = self.seconds[s.drafter], self.seconds["none"]
        script, clock = oracle_script(), iter(range(10**6))
        guess = script.propose
        script.propose = lambda *asked: replace(guess(*asked), step_seconds=(drafting,))
        return session(
            Runner(TINY),
            script,
            header(PROMPT, s, max_new_tokens=max_new_tokens),
            now=lambda: next(clock) * a_pass,
        )


def found(rounds: dict[str, Sequence[Round]]) -> dict[str, tuple[float, ...]]:
    return auto.rates_of(rounds)


# --- from rounds to rates --------------------------------------------------------------------


def test_silent_rounds_of_a_lookup_do_not_make_its_checks_cheap():
    """Seven silent rounds, three that checked four guesses; one moment of each was disturbed."""
    silent = [
        replace(a_round(0, 0, verify=seconds), settings=Settings("n-gram", 4))
        for seconds in [0.02] * 6 + [0.9]
    ]
    checked = [a_round(4, 4, draft=0.0, verify=seconds) for seconds in [0.03] * 2 + [0.9]]
    rate = found({"n-gram": [*silent, *checked]})["n-gram"][3]
    assert rate == pytest.approx((7 * 1 + 3 * 5) / (7 * 0.02 + 3 * 0.03))


def test_a_machine_busy_during_one_drafter_s_turn_favours_no_other():
    """The same text by two silent lookups, one of them disturbed, is the same rate."""
    quiet = [a_round(0, 0, verify=0.02)] * 6
    disturbed = [a_round(0, 0, verify=0.05)] * 5
    rates = found({"none": disturbed, "n-gram": quiet})
    assert rates["none"] == pytest.approx(rates["n-gram"])


def test_a_round_with_fewer_guesses_is_the_same_round_cut_off():
    """By hand: of eight guesses five pass. Passes cost 10 ms and 1 ms a guess, a step 2 ms."""
    alone = [a_round(0, 0, verify=0.010)] * 3
    eight = [a_round(5, 8, verify=0.018)] * 3
    rates = found({"none": alone, "small": eight})["small"]
    for k, tokens in zip(range(1, MOST + 1), (2, 3, 4, 5, 6, 6, 6, 6), strict=True):
        assert rates[k - 1] == pytest.approx(tokens / (0.010 + k * 0.001 + k * 0.002))


def test_rounds_that_asked_for_fewer_tell_nothing_of_more():
    four, eight = [a_round(4, 4, verify=0.02)] * 9, [a_round(0, 8, verify=0.02)] * 3
    rates = found({"small": [*four, *eight]})["small"]
    assert rates[4] == pytest.approx(1 / (0.02 + 5 * 0.002)), "at five only those of eight count"
    assert rates[3] > rates[4]


def test_what_was_copied_does_not_pay_for_what_was_asked():
    """One round of three asks a model for its two guesses, 4 ms each; the others copy theirs."""
    asked = a_round(2, 2, draft=0.004, verify=0.02)
    copies = tuple(replace(each, source="store") for each in asked.guesses)
    copied = replace(asked, guesses=copies, draft_step_seconds=(0.0001, 0.0001))
    rates = found({"hybrid": [asked, copied, copied]})["hybrid"]
    assert rates[1] == pytest.approx(9 / (3 * 0.02 + 2 * 0.004 + 4 * 0.0001))


def test_a_drafter_that_guesses_all_at_once_pays_its_step_at_any_k():
    at_once = [replace(a_round(2, 8, verify=0.02), draft_step_seconds=(0.004,))] * 3
    rates = found({"pard": at_once})["pard"]
    assert rates[0] == pytest.approx(2 / 0.024)
    assert rates[7] == pytest.approx(3 / 0.024)


def test_a_tree_counts_only_as_it_was_measured():
    def branching(accepted: int, k: int) -> Round:
        plain = a_round(accepted, k)
        guesses = tuple(replace(each, parent=n - 1) for n, each in enumerate(plain.guesses))
        return replace(plain, guesses=guesses)

    rates = found({"eagle-tree": [branching(2, 4)] * 3 + [branching(3, 8)] * 3})["eagle-tree"]
    assert [k for k, rate in enumerate(rates, 1) if rate > 0] == [4, 8]


def test_the_first_round_tells_what_is_accepted_but_not_what_it_costs():
    cold = replace(a_round(4, 4, verify=9.0, draft=9.0), cold=True)
    rates = found({"small": [cold, a_round(0, 4, verify=0.02, draft=0.0)]})["small"]
    assert rates[3] == pytest.approx(6 / 0.04)


# --- what is chosen --------------------------------------------------------------------------

CROSSING = Measured(
    {
        "none": (40.0,) * MOST,
        "copy-8": (30.0, 50.0, 60.0, 70.0, 75.0, 76.0, 74.0, 70.0),
        "hybrid": (60.0, 65.0, 64.0, 60.0, 50.0, 40.0, 30.0, 20.0),
        "eagle-tree": (0.0, 0.0, 0.0, 55.0, 0.0, 0.0, 0.0, 58.0),
    },
    "2026-03-04",
)


@pytest.mark.parametrize(
    ("settings", "drafter", "k"),
    [
        (Settings(k=1), "hybrid", 1),
        (Settings(k=2), "hybrid", 2),
        (FOUR, "copy-8", 4),
        (Settings(k=16), "copy-8", 8),
        (Settings(k=0), "copy-8", 4),
        (AUTO, "copy-8", 6),
        (Settings(k=1, auto_k=True), "copy-8", 6),
    ],
)
def test_the_fastest_with_the_k_that_is_set_or_at_its_own_best_where_k_is_free(
    settings, drafter, k
):
    chosen = CROSSING.choice(settings)
    assert (chosen.drafter, chosen.k) == (drafter, k)
    assert chosen.reason.startswith(f"{drafter}, K {k}: ")
    said = "here against 40 alone, measured 2026-03-04"
    if settings.k > MOST:
        said += "; more than 8 guesses were not measured"
    if k not in (4, 8) and not settings.auto_k:
        said += "; eagle-tree was measured with 4 and 8 guesses only"
    assert chosen.reason.endswith(said)


def test_more_guesses_than_eight_are_ranked_where_they_were_measured():
    wide = {name: (*rates, *(2.0 * n for n in range(8))) for name, rates in CROSSING.rates.items()}
    wide["n-gram"] = (1.0,) * 11 + (99.0,) * 5
    wide["eagle-tree"] = (0.0,) * 11 + (90.0, 0.0, 0.0, 0.0, 95.0)
    known = Measured(wide, "2026-03-04")
    chosen = known.choice(Settings(k=12))
    assert (chosen.drafter, chosen.k) == ("n-gram", 12)
    assert chosen.reason.endswith("measured 2026-03-04")
    chosen = known.choice(Settings(k=11))
    assert (chosen.drafter, chosen.k) == ("copy-8", 11)
    assert chosen.reason.endswith("; eagle-tree was measured with 12 and 16 guesses only")
    assert known.choice(Settings(k=16)).k == 16


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        (Settings(k=8), ASKED), (Settings(k=9), ASKED_MORE), (Settings(k=16), ASKED_MORE),
        (Settings(k=16, auto_k=True), ASKED), (Settings(k=0), ASKED),
    ],
)  # fmt: skip
def test_whoever_sets_many_guesses_has_many_measured(settings, asked, tmp_path):
    assert auto.asked_for(settings) == asked
    rates = Rates({"none": 0.02, "copy-8": 0.001})
    known = auto.choose(rates.begin, ("copy-8",), "here", tmp_path / "a", asked=asked)
    assert [len(each) for each in known.rates.values()] == [max(asked)] * 2
    chosen = known.choice(settings)
    assert chosen.k == (max(asked) if settings.auto_k else settings.k or START)
    assert known.rates["copy-8"][chosen.k - 1] > 0


def test_what_was_measured_with_few_is_no_answer_about_many_and_stays(tmp_path):
    rates = Rates({"none": 0.02, "copy-8": 0.001})
    few = auto.choose(rates.begin, ("copy-8",), "here", tmp_path / "a")
    many = auto.choose(rates.begin, ("copy-8",), "here", tmp_path / "a", asked=ASKED_MORE)
    before = len(rates.measured)
    assert auto.choose(rates.begin, ("copy-8",), "here", tmp_path / "a") == few
    assert auto.choose(rates.begin, ("copy-8",), "here", tmp_path / "a", asked=ASKED_MORE) == many
    assert rates.measured[before:] == ["none", "none"], "only how busy the machine was"


def test_one_ranking_for_every_k_would_choose_wrongly():
    """The broken twin: the order at four guesses, whatever is asked for."""
    at_four = max(("copy-8", "hybrid"), key=lambda name: CROSSING.rates[name][3])
    assert at_four != CROSSING.choice(Settings(k=1)).drafter


def test_auto_admits_that_nothing_pays():
    slow = Measured({"none": (33.0,) * MOST, "n-gram": (31.4,) * MOST}, "2026-03-04")
    assert slow.choice(FOUR).reason == (
        "n-gram, K 4: 31 tok/s here against 33 alone, measured 2026-03-04; no drafter here is "
        "faster than the target alone"
    )


def test_a_free_k_begins_where_it_is_best():
    assert Learned.of((), None, 6).choose(AUTO).k == 6
    assert Learned.of((), None, 0).choose(AUTO).k == START, "and never at no guesses at all"


# --- measuring, and remembering --------------------------------------------------------------


def test_each_candidate_asks_for_many_and_few_in_the_same_texts(tmp_path, monkeypatch):
    """Else the one text's nature would pass for what a number of guesses is worth."""
    told: list[dict[str, list[Round]]] = []
    rates_of = auto.rates_of
    monkeypatch.setattr(
        auto, "rates_of", lambda rounds, most: told.append(rounds) or rates_of(rounds, most)
    )
    rates = Rates({"none": 0.02, "copy-8": 0.001, "n-gram": 0.015})
    known = auto.choose(rates.begin, ("n-gram", "copy-8", "layer-skip-20"), "here", tmp_path / "a")
    assert set(rates.measured) == {"none", "copy-8", "n-gram"}, "others are no candidates"
    made = told[0]["copy-8"]
    begun = [number for number, each in enumerate(made) if each.index == 0]
    assert len(begun) == len(auto.PROMPTS)
    for each in made:
        assert each.settings.k == ASKED[each.index % 2]
    chosen = known.choice(FOUR)
    assert chosen.drafter == "copy-8"
    assert chosen.reason.endswith(f" alone, measured {date.today().isoformat()}")
    assert known.choice(AUTO).k == MOST, "all guesses are right, and a pass costs the same"


def test_auto_measures_once_for_each_machine(tmp_path):
    memory = tmp_path / "cache" / "auto.json"
    rates = Rates({"none": 0.02, "copy-8": 0.001})
    first = auto.choose(rates.begin, ("copy-8",), "here", memory)
    assert rates.measured.count("copy-8") == len(auto.PROMPTS)
    assert auto.choose(rates.begin, ("copy-8",), "here", memory) == first
    assert rates.measured.count("copy-8") == len(auto.PROMPTS)
    auto.choose(rates.begin, ("copy-8",), "elsewhere", memory)
    assert rates.measured.count("copy-8") == 2 * len(auto.PROMPTS)


@pytest.mark.parametrize(
    "body", ["{broken", "[]", json.dumps({"here": {"rates": {"none": 40.0}, "day": "x"}}),
             json.dumps({"here": {"rates": {"none": [40.0] * 3}, "day": "x"}})]
)  # fmt: skip
def test_a_memory_of_another_form_is_measured_anew(tmp_path, body):
    memory = tmp_path / "auto.json"
    memory.write_text(body)
    rates = Rates({"none": 0.02, "copy-8": 0.001})
    assert auto.choose(rates.begin, ("copy-8",), "here", memory).rates["copy-8"][3] > 0
    assert rates.measured.count("copy-8") == len(auto.PROMPTS)


def test_auto_measures_again_when_there_is_a_new_drafter(tmp_path):
    rates = Rates({"none": 0.02, "copy-8": 0.001, "n-gram": 0.1})
    auto.choose(rates.begin, ("copy-8",), "here", tmp_path / "a")
    rates.measured.clear()
    auto.choose(rates.begin, ("copy-8", "n-gram"), "here", tmp_path / "a")
    assert set(rates.measured) == {"none", "copy-8", "n-gram"}


@pytest.mark.parametrize(("pace", "again"), [(1.0, False), (3.0, False), (0.5, True)])
def test_auto_measures_again_when_the_machine_was_busy_then(tmp_path, pace, again):
    rates = Rates({"none": 0.02, "n-gram": 0.015})
    auto.choose(rates.begin, ("n-gram",), "here", tmp_path / "a")
    rates.measured.clear()
    rates.seconds = {name: seconds * pace for name, seconds in rates.seconds.items()}
    auto.choose(rates.begin, ("n-gram",), "here", tmp_path / "a")
    assert ("n-gram" in rates.measured) == again


def test_auto_goes_without_a_drafter_that_fails(tmp_path):
    rates = Rates({"none": 0.02, "n-gram": 0.015})  # of copy-8 it knows nothing: KeyError
    steps: list[str] = []
    known = auto.choose(rates.begin, ("copy-8", "n-gram"), "here", tmp_path / "a", steps.append)
    assert known.choice(AUTO).drafter == "n-gram"
    assert steps[0] == f"none, 1 of {3 * len(auto.PROMPTS)}"
    rates.measured.clear()
    assert auto.choose(rates.begin, ("copy-8", "n-gram"), "here", tmp_path / "a") == known
    assert "copy-8" not in rates.measured, "and does not try it again at every start"


def test_auto_fails_only_with_the_target(tmp_path):
    with pytest.raises(KeyError):
        auto.choose(Rates({"n-gram": 0.015}).begin, ("n-gram",), "here", tmp_path / "a")
