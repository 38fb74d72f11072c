"""No full collection of garbage in the middle of a show, and one at each run's end."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from visualizer.garbage import Garbage


@contextmanager
def full_collections() -> Iterator[list[int]]:
    """Counts them, while it lasts, by how much each has found."""
    found: list[int] = []

    def told(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            found.append(info["collected"])

    gc.callbacks.append(told)
    try:
        yield found
    finally:
        gc.callbacks.remove(told)


@pytest.fixture
def garbage() -> Iterator[Garbage]:
    made = Garbage()
    yield made
    made.close()


class Loop:
    """Garbage that counting references does not find."""

    def __init__(self) -> None:
        self.itself = self


def rounds_arrive() -> None:
    kept = [[[number] for number in range(900)] for _ in range(400)]
    assert kept


def test_a_show_is_never_interrupted(garbage: Garbage) -> None:
    with full_collections() as found:
        rounds_arrive()
        garbage.picture(finished=False)
    assert found == []


def test_without_it_the_same_show_is(garbage: Garbage) -> None:
    garbage.close()
    with full_collections() as found:
        rounds_arrive()
    assert found


def test_old_garbage_goes_once_as_a_run_ends(garbage: Garbage) -> None:
    gone = weakref.ref(Loop())
    gc.collect(0)
    with full_collections() as found:
        garbage.picture(finished=False)
        for _ in range(3):
            garbage.picture(finished=True)
        assert len(found) == 1
        assert gone() is None
        garbage.picture(finished=False)
        garbage.picture(finished=True)
    assert len(found) == 2


def test_what_was_set_before_comes_back() -> None:
    before = gc.get_threshold()
    made = Garbage()
    assert gc.get_threshold() != before
    made.close()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
