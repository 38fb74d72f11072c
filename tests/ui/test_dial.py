"""The draft-quality dial: noise, or ladders of drafters that are there."""

from __future__ import annotations

import pytest

from engine.drafters.catalogue import DISTILLED, FUSED
from engine.lowbit import LADDER
from engine.trace import Settings
from visualizer import actions as act
from visualizer import dial
from visualizer.palette import commands, matching
from visualizer.preferences import Preferences, parse, text_of
from visualizer.state import ViewState, reduce

EVERY = ("auto", "none", *LADDER, *DISTILLED, *FUSED, "n-gram", "retrieval")


def test_every_stop_is_a_drafter_of_the_engine_s_catalogue() -> None:
    for each in dial.DIALS:
        assert {stop.drafter for stop in dial.stops(each, EVERY)} <= set(EVERY)
    assert dial.offered(EVERY) == dial.DIALS
    bits = [stop.drafter for stop in dial.stops("bits", EVERY)]
    assert bits == list(reversed(LADDER)), "every width there is, from the fewest bits up"


@pytest.mark.parametrize(
    ("there", "offered"),
    [
        ((), ("noise",)),
        (("copy-8", "small", "eagle"), ("noise",)),
        (("small", "small-4"), ("noise", "size")),
        (("eagle", "eagle-early", "copy-8", "copy-4"), ("noise", "training", "bits")),
    ],
)
def test_only_ladders_with_something_to_choose_are_offered(
    there: tuple[str, ...], offered: tuple[str, ...]
) -> None:
    assert dial.offered(there) == offered
    stops = dial.stops("training", there)
    assert [stop.drafter for stop in stops] == [n for n in reversed(FUSED) if n in there] * (
        "training" in offered
    )


def test_a_ladder_begins_where_the_drafter_is_or_at_its_best() -> None:
    noisy = Settings(drafter="small-1", quality=30.0)
    assert dial.entered("size", noisy, EVERY) == Settings(drafter="small-1")
    assert dial.entered("bits", noisy, EVERY) == Settings(drafter="copy-8")
    assert dial.entered("noise", noisy, EVERY) == noisy
    assert dial.entered("bits", noisy, ("copy-8",)) == noisy, "a ladder that is not there"


def test_a_stop_means_a_drafter_without_noise() -> None:
    ladder = dial.stops("training", EVERY)
    for number, stop in enumerate(ladder):
        moved = dial.at(Settings(quality=20.0, k=7), stop)
        assert moved == Settings(drafter=stop.drafter, k=7)
        assert dial.place(moved, ladder) == number
    assert dial.place(Settings(drafter="auto"), ladder) is None


def test_noise_that_is_asked_for_elsewhere_leaves_the_ladder() -> None:
    """So that no guess is mixed with noise while the slider says bits."""
    on = reduce(ViewState(), act.ChooseDial("bits", Settings(drafter="copy-8")))
    assert on.dial == "bits"
    other = reduce(on, act.ChangeSettings(Settings(drafter="copy-4")))
    assert other.dial == "bits"
    assert reduce(other, act.ChangeSettings(Settings(quality=50.0))).dial == "noise"


def test_the_palette_reaches_every_dial() -> None:
    found = matching("quality through", commands(Settings(quality=40.0), (), EVERY))
    actions = [entry.action for entry in found]
    assert actions == [
        act.ChooseDial("noise", Settings(quality=40.0)),
        act.ChooseDial("training", Settings(drafter="eagle")),
        act.ChooseDial("size", Settings(drafter="small-4")),
        act.ChooseDial("bits", Settings(drafter="copy-8")),
    ]


def test_the_dial_is_remembered_and_nonsense_is_not() -> None:
    kept = Preferences(dial="bits", remember=False)
    assert parse(text_of(kept)) == kept
    assert parse(text_of(kept).replace('"bits"', '"luck"')).dial == "noise"
    assert parse(text_of(kept).replace('"bits"', "[]")).dial == "noise"
