"""Actions change the view state purely, and every value stays within its range."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.trace import Settings
from visualizer import actions as act
from visualizer import state as state_of
from visualizer.stage.theme import THEMES
from visualizer.stage.view import PRESETS, Orbit
from visualizer.state import ViewState, reduce, within_range

ANY = st.floats(allow_nan=True, allow_infinity=True)
MOVES = st.one_of(
    st.builds(act.OrbitBy, st.floats(-10, 10), st.floats(-10, 10)),
    st.builds(act.PanBy, st.floats(-50, 50), st.floats(-50, 50)),
    st.builds(
        act.ZoomBy,
        st.floats(0.01, 100),
        st.tuples(st.floats(-20, 20), st.floats(-20, 20)),
    ),
)


@given(st.lists(MOVES, max_size=40))
def test_no_mouse_gesture_loses_the_scene(moves: list[act.ViewAction]) -> None:
    state = ViewState()
    for move in moves:
        state = reduce(state, move)
    orbit = state.orbit
    assert state_of.ZOOM_RANGE[0] <= orbit.zoom <= state_of.ZOOM_RANGE[1]
    assert abs(orbit.pitch) <= state_of.PITCH_LIMIT
    assert abs(orbit.yaw) <= math.pi + 1e-9
    assert all(abs(side) <= state_of.PAN_LIMIT for side in orbit.pan)


def test_zooming_keeps_the_point_under_the_cursor() -> None:
    """A point at offset a from the centre is seen at a ÷ distance; that must not change."""
    at, distance = (3.0, -1.5), 10.0
    orbit = reduce(ViewState(), act.ZoomBy(0.8, at)).orbit
    for offset, moved in zip(at, orbit.pan, strict=True):
        assert (offset - moved) / (distance * orbit.zoom) == pytest.approx(offset / distance)


def test_a_zoom_stopped_at_its_limit_does_not_drift() -> None:
    state = replace(ViewState(), orbit=Orbit(zoom=state_of.ZOOM_RANGE[0]))
    assert reduce(state, act.ZoomBy(0.5, (4.0, 4.0))).orbit == state.orbit


def test_a_preset_starts_without_the_old_orbit() -> None:
    turned = reduce(ViewState(), act.OrbitBy(1.0, 0.2))
    for preset in PRESETS:
        state = reduce(turned, act.ChoosePreset(preset))
        assert (state.preset, state.orbit) == (preset, Orbit())
    assert reduce(turned, act.ResetView()).orbit == Orbit()


@pytest.mark.parametrize(
    ("action", "field"),
    [
        (act.ToggleUi(), "ui_visible"),
        (act.ToggleHelp(), "help_visible"),
        (act.ToggleBlackout(), "blackout"),
        (act.ToggleReduceMotion(), "reduce_motion"),
    ],
)
def test_a_toggle_twice_changes_nothing(action: act.ViewAction, field: str) -> None:
    state = ViewState()
    once = reduce(state, action)
    assert getattr(once, field) is not getattr(state, field)
    assert reduce(once, action) == state


@given(st.integers(-100, 100), ANY, ANY, ANY)
def test_settings_are_always_ones_the_engine_takes(
    k: int, quality: float, temperature: float, top_p: float
) -> None:
    kept = within_range(Settings(k=k, quality=quality, temperature=temperature, top_p=top_p))
    assert 0 <= kept.k <= 16
    assert 0 <= kept.quality <= 100
    assert 0 <= kept.temperature <= 2
    assert 0 < kept.top_p <= 1


def test_typing_a_prompt_makes_it_ones_own() -> None:
    chosen = reduce(ViewState(), act.ChoosePrompt(2, "Count to ten.", True))
    assert chosen.prompt.curated == 2
    typed = reduce(chosen, act.EditPrompt("日本 é 👍", False)).prompt
    assert (typed.text, typed.chat, typed.curated) == ("日本 é 👍", False, None)


def test_a_pasted_book_is_cut() -> None:
    state = reduce(ViewState(), act.EditPrompt("x" * 1_000_000, True))
    assert len(state.prompt.text) == state_of.MAX_PROMPT


def test_themes_come_round() -> None:
    state, seen = ViewState(), []
    for _ in THEMES:
        seen.append(state.theme)
        state = reduce(state, act.NextTheme())
    assert set(seen) == set(THEMES)
    assert state.theme == seen[0]
