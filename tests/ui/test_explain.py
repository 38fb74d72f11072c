"""Every number can say what it is made of: its own numerator and denominator."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from show import hand_run

from engine.stats import Stats
from engine.trace import Baseline
from visualizer.opening import nothing_to_tell
from visualizer.stage.hud import Hud
from visualizer.ui import explain

RUN = hand_run()
STATS = Stats.of(RUN.rounds, Baseline(0.02, 9))
EMPTY = Stats.of(())


def shown(line: str) -> tuple[float, float, float]:
    """The two numbers and the result of a quotient written in words; a sum before it is taken."""
    left, right = line.split(" ÷ ")
    numbers = [float(n) for n in re.findall(r"[\d.]+", left)]
    below, result = (float(n) for n in re.findall(r"[\d.]+", right)[:2])
    return sum(numbers), below, result


@pytest.mark.parametrize(
    ("told", "scale"),
    [
        (explain.tokens_per_second(STATS), 1.0),
        (explain.acceptance(STATS), 100.0),
        (explain.speedup(STATS), 1.0),
        (explain.draft_step(STATS), 1.0),
        (explain.target_pass(STATS), 1.0),
    ],
)
def test_the_sum_in_words_adds_up(told: explain.Lines, scale: float) -> None:
    above, below, result = shown(told[0])
    assert scale * above / below == pytest.approx(result, rel=0.02)


def test_tokens_a_round_are_one_more_than_accepted_over_rounds() -> None:
    line = explain.tokens_per_round(STATS)[0]
    one, accepted, rounds, result = (float(n) for n in re.findall(r"[\d.]+", line))
    assert one + accepted / rounds == pytest.approx(result, abs=0.006)


@pytest.mark.parametrize(
    "tell",
    [
        explain.tokens_per_second,
        explain.acceptance,
        explain.speedup,
        explain.tokens_per_round,
        explain.draft_step,
        explain.target_pass,
    ],
)
def test_what_is_not_known_yet_says_so_and_names_no_number(tell: object) -> None:
    first, second, *_ = tell(EMPTY)  # type: ignore[operator]
    assert not re.search(r"\d{2}|\d\.", first)
    assert re.search(r"yet|No ", second)


def hud() -> Hud:
    return replace(nothing_to_tell(), stats=STATS, histogram=STATS.histogram, ghost=(1, 2, 5))


def test_bars_count_rounds_out_of_all() -> None:
    counts = [explain.histogram_bar(hud(), j)[0] for j in range(len(STATS.histogram))]
    assert [int(line.split()[0]) for line in counts] == list(STATS.histogram)
    for index in range(1, len(STATS.histogram)):
        passed, rounds = re.findall(r"\d+", explain.position(STATS, index)[0])[1:3]
        assert int(passed) / int(rounds) == pytest.approx(STATS.per_position[index - 1])
        assert int(rounds) == STATS.asked[index - 1]


def test_the_stretch_of_time_names_the_pass_it_comes_from() -> None:
    lines = explain.slowdown(37.5, 2.0, Baseline(0.02, 9))
    assert "37.5" in lines[0]
    assert "20.0 ms" in lines[1]


def test_dials_say_what_they_do_with_their_value() -> None:
    k = explain.guesses(STATS, 4)
    assert f"{STATS.drafted} guesses ÷ {STATS.asked[0]} rounds" in k[1]
    assert "0.25 × draft law + 0.75 × unigram" in explain.quality(25.0)[0]
    assert "÷ 0.70" in explain.temperature(0.7)[0]
    assert "likeliest" in explain.temperature(0.0)[0]
    assert "alone" in explain.guesses(EMPTY, 0)[1]
