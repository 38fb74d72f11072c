"""Rates of change start at 0, end at 1, and do not jump."""

from collections.abc import Callable

import numpy as np
import pytest

from visualizer.stage.easing import ease, ease_in, ease_out, settle, swell
from visualizer.stage.timeline import Span


@pytest.mark.parametrize("rate", [ease, ease_in, ease_out, settle])
def test_rates_go_from_nothing_to_everything(rate: Callable[[float], float]) -> None:
    assert rate(0.0) == pytest.approx(0.0)
    assert rate(1.0) == pytest.approx(1.0)
    steps = np.array([rate(x) for x in np.linspace(0, 1, 400)])
    assert np.abs(np.diff(steps)).max() < 0.02


@pytest.mark.parametrize("rate", [ease, ease_in, ease_out])
def test_rates_without_overshoot_only_rise(rate: Callable[[float], float]) -> None:
    assert (np.diff([rate(x) for x in np.linspace(0, 1, 100)]) >= 0).all()


def test_a_landing_goes_four_percent_too_far() -> None:
    assert max(settle(x) for x in np.linspace(0, 1, 500)) == pytest.approx(1.04, abs=0.005)


def test_a_swell_rises_once_holds_and_falls() -> None:
    times = np.linspace(-0.5, 2.0, 500)
    level = np.array([swell(t, 1.0 - t, 0.25, 0.3) for t in times])
    assert level.max() == 1.0
    assert level[times <= 0].max() == 0.0
    assert level[times >= 1.3].max() == 0.0
    assert (level[(times > 0.25) & (times < 1.0)] == 1.0).all()
    turns = np.count_nonzero(np.diff(np.sign(np.diff(level)[np.diff(level) != 0])))
    assert turns == 1


def test_a_pass_shorter_than_the_rise_stays_below_a_full_swell() -> None:
    times = np.linspace(0, 1, 500)
    assert max(swell(t, 0.05 - t, 0.25, 0.3) for t in times) < 1.0


def test_an_empty_span_is_over_when_it_starts() -> None:
    span = Span(2.0, 0.0)
    assert span.progress(1.9) == 0.0
    assert span.progress(2.0) == 1.0
    assert not span.holds(2.0)
