"""Shows on the shared GL context, closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import moderngl
import pytest
from show import ScriptedSource, Stage


@pytest.fixture
def stage_of(gl: moderngl.Context) -> Iterator[Callable[..., Stage]]:
    """Makes one stage; imgui has one context at a time."""
    made: list[Stage] = []

    def make(source: ScriptedSource, **options: Any) -> Stage:
        made.append(Stage(gl, source, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
