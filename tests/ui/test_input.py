"""Who owns a press, what a key means, and what happens when the window loses the focus."""

from __future__ import annotations

from pathlib import Path

import pytest

from visualizer import actions as act
from visualizer.actions import Action
from visualizer.input import (
    FRAMES_TO_OPEN,
    FRAMES_TO_SETTLE,
    LEFT,
    MIDDLE,
    RIGHT,
    Input,
    Modifiers,
    shortcut,
)

NONE = Modifiers()
SHIFT = Modifiers(shift=True)
CTRL = Modifiers(ctrl=True)


class FakeUi:
    """A panel over x < 100; records what reaches it."""

    def __init__(self) -> None:
        self.wants_text = False
        self.wants_keys = False
        self.wants_escape = False
        self.buttons: dict[int, bool] = {}
        self.keys: dict[str, bool] = {}
        self.position: tuple[float, float] | None = None
        self.held = NONE
        self.typed = ""
        self.focused = True
        self.wheels: list[tuple[float, float]] = []

    def wants_mouse(self, x: float, y: float) -> bool:
        return x < 100

    def mouse_at(self, position: tuple[float, float] | None) -> None:
        self.position = position

    def mouse_button(self, button: int, down: bool) -> None:
        self.buttons[button] = down

    def wheel(self, x: float, y: float) -> None:
        self.wheels.append((x, y))

    def key(self, name: str, down: bool) -> None:
        self.keys[name] = down

    def modifiers(self, held: Modifiers) -> None:
        self.held = held

    def text(self, characters: str) -> None:
        self.typed += characters

    def focus(self, focused: bool) -> None:
        self.focused = focused


class FakeProjection:
    def world_per_pixel(self) -> float:
        return 0.01

    def offset_at(self, x: float, y: float) -> tuple[float, float]:
        return (x * 0.01, y * 0.01)


class Bench:
    def __init__(self) -> None:
        self.ui = FakeUi()
        self.actions: list[Action] = []
        self.time = 0.0
        self.input = Input(self.ui, FakeProjection(), self.actions.append, lambda: self.time)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_left_drag_orbits_and_right_drag_pans(bench: Bench) -> None:
    bench.input.mouse_pressed(500, 300, LEFT, NONE)
    bench.input.mouse_dragged(510, 300, 10, 0)
    bench.input.mouse_released(510, 300, LEFT, NONE)
    bench.input.mouse_pressed(500, 300, RIGHT, NONE)
    bench.input.mouse_dragged(510, 295, 10, -5)
    first, second = bench.actions
    assert isinstance(first, act.OrbitBy)
    assert first.yaw < 0
    assert second == act.PanBy(-0.1, -0.05)


@pytest.mark.parametrize(("button", "held"), [(MIDDLE, NONE), (LEFT, SHIFT)])
def test_middle_and_shift_drag_pan(bench: Bench, button: int, held: Modifiers) -> None:
    bench.input.mouse_pressed(500, 300, button, held)
    bench.input.mouse_dragged(510, 300, 10, 0)
    assert isinstance(bench.actions[-1], act.PanBy)


def test_a_drag_that_began_on_a_panel_never_moves_the_camera(bench: Bench) -> None:
    bench.input.mouse_pressed(50, 300, LEFT, NONE)
    bench.input.mouse_dragged(500, 300, 450, 0)
    bench.input.mouse_released(500, 300, LEFT, NONE)
    assert bench.actions == []


def test_a_drag_that_began_on_the_scene_stays_there_over_a_panel(bench: Bench) -> None:
    bench.input.mouse_pressed(500, 300, LEFT, NONE)
    bench.input.mouse_dragged(50, 300, -450, 0)
    assert isinstance(bench.actions[-1], act.OrbitBy)


def test_no_button_stays_down_after_mixed_drags(bench: Bench) -> None:
    """Cases G02: drag events never press anything, unknown buttons do nothing."""
    bench.input.mouse_pressed(500, 300, RIGHT, NONE)
    bench.input.mouse_pressed(500, 300, MIDDLE, NONE)
    bench.input.mouse_dragged(520, 300, 20, 0)
    bench.input.mouse_released(520, 300, RIGHT, NONE)
    bench.input.mouse_released(520, 300, MIDDLE, NONE)
    bench.input.mouse_pressed(500, 300, -1, NONE)
    bench.input.mouse_released(500, 300, -1, NONE)
    assert bench.ui.buttons == {RIGHT: False, MIDDLE: False}


def test_losing_the_focus_releases_everything(bench: Bench) -> None:
    """Cases G03: the release events go to another window."""
    bench.input.key_pressed("a", CTRL)
    bench.input.mouse_pressed(500, 300, LEFT, CTRL)
    bench.input.focus_lost()
    assert bench.ui.buttons == {LEFT: False}
    assert bench.ui.keys == {"a": False}
    assert bench.ui.held == NONE
    assert not bench.ui.focused
    bench.input.mouse_dragged(600, 300, 100, 0)
    assert not any(isinstance(each, act.OrbitBy) for each in bench.actions)


def test_a_pointer_that_left_hovers_nothing(bench: Bench) -> None:
    bench.input.mouse_moved(500, 50)
    assert bench.actions == [act.PointAt((500, 50))]
    bench.input.mouse_left()
    assert bench.actions[-1] == act.PointAt(None)
    assert bench.ui.position is None


def test_wheel_zooms_to_the_cursor_or_scrolls_a_panel(bench: Bench) -> None:
    bench.input.mouse_scrolled(500, 300, 0, 1)
    assert bench.actions == [act.ZoomBy(0.9, (5.0, 3.0))]
    bench.input.mouse_scrolled(50, 300, 0, 1)
    assert bench.ui.wheels == [(0, 1)]
    assert len(bench.actions) == 1


def test_double_click_recentres_and_two_slow_clicks_do_not(bench: Bench) -> None:
    for when in (0.0, 0.2):
        bench.time = when
        bench.input.mouse_pressed(500, 300, LEFT, NONE)
        bench.input.mouse_released(500, 300, LEFT, NONE)
    click = act.ClickAt((500, 300))
    assert bench.actions == [click, act.PanBy(5.0, 3.0), click]
    bench.actions.clear()
    for when in (5.0, 6.0):
        bench.time = when
        bench.input.mouse_pressed(500, 300, LEFT, NONE)
        bench.input.mouse_released(500, 300, LEFT, NONE)
    assert bench.actions == [click, click]


def test_a_press_that_trembles_is_a_click_and_a_drag_is_none(bench: Bench) -> None:
    bench.input.mouse_pressed(500, 300, LEFT, NONE)
    bench.input.mouse_dragged(502, 301, 2, 1)
    bench.input.mouse_released(502, 301, LEFT, NONE)
    assert bench.actions == [act.ClickAt((500, 300))]
    bench.actions.clear()
    bench.input.mouse_pressed(500, 300, LEFT, NONE)
    bench.input.mouse_dragged(530, 300, 30, 0)
    bench.input.mouse_dragged(500, 300, -30, 0)
    bench.input.mouse_released(500, 300, LEFT, NONE)
    assert not any(isinstance(each, act.ClickAt) for each in bench.actions)


def test_the_pointer_over_a_panel_points_at_nothing_on_stage(bench: Bench) -> None:
    bench.input.mouse_moved(50, 50)
    bench.input.mouse_pressed(50, 50, LEFT, NONE)
    bench.input.mouse_released(50, 50, LEFT, NONE)
    assert bench.actions == [act.PointAt(None)]


def test_while_the_panels_have_the_keyboard_only_the_way_out_acts(bench: Bench) -> None:
    bench.ui.wants_keys = True
    for name in ("space", "right", "down", "tab", "r"):
        bench.input.key_pressed(name, NONE)
    assert bench.actions == []
    for name in ("escape", "f6"):
        bench.input.key_pressed(name, NONE)
    assert bench.actions == [act.Leave(), act.NextPanel()]
    bench.ui.wants_escape = True
    bench.input.key_pressed("escape", NONE)
    assert len(bench.actions) == 2, "an open list is shut first"


def test_letters_typed_into_a_box_are_no_shortcuts(bench: Bench) -> None:
    """Cases G04: while a text box has the focus only keys that type nothing act."""
    bench.ui.wants_text = True
    for name in ("r", "b", "p", "space", "tab", "right", "1"):
        bench.input.key_pressed(name, NONE)
    assert bench.actions == []
    bench.input.key_pressed("f11", NONE)
    assert bench.actions == [act.ToggleFullScreen()]


def test_what_is_typed_right_after_a_click_into_a_box_is_no_shortcut(bench: Bench) -> None:
    """Frames may be slow: click and letters arrive before the box can report its focus."""
    bench.input.mouse_pressed(50, 300, LEFT, NONE)
    bench.input.mouse_released(50, 300, LEFT, NONE)
    for name in ("r", "space"):
        bench.input.key_pressed(name, NONE)
        bench.input.text(name[0])
    for _ in range(FRAMES_TO_SETTLE - 1):
        bench.input.frame_done()
    bench.ui.wants_text = True
    bench.input.frame_done()
    assert bench.actions == []
    assert bench.ui.typed == "rs"


def test_a_key_after_a_click_on_a_button_acts_a_little_later(bench: Bench) -> None:
    bench.input.mouse_pressed(50, 300, LEFT, NONE)
    bench.input.key_pressed("space", NONE)
    assert bench.actions == []
    for _ in range(FRAMES_TO_SETTLE):
        bench.input.frame_done()
    assert bench.actions == [act.TogglePlay()]


def test_what_is_typed_before_the_palette_is_there_goes_into_it(bench: Bench) -> None:
    """A frame may take a second: a palette opened by key gets all that was typed after it."""
    bench.input.key_pressed("/", NONE)
    bench.input.text("/")
    for letter in "bp":
        bench.input.key_pressed(letter, NONE)
        bench.input.text(letter)
        bench.input.key_released(letter, NONE)
    bench.input.frame_done()
    assert bench.actions == [act.OpenPalette()]
    bench.ui.wants_text = True
    bench.input.frame_done()
    assert bench.actions == [act.OpenPalette()]
    assert bench.ui.typed == "bp"
    assert bench.ui.keys == {"/": True, "b": False, "p": False}


def test_a_palette_that_never_comes_swallows_no_keys(bench: Bench) -> None:
    bench.input.key_pressed("k", CTRL)
    bench.input.key_pressed("space", NONE)
    for _ in range(FRAMES_TO_OPEN):
        bench.input.frame_done()
    assert bench.actions == [act.OpenPalette(), act.TogglePlay()]


def test_text_comes_only_from_text_events_and_whole(bench: Bench) -> None:
    bench.input.key_pressed("a", NONE)
    for characters in ("é", "ß", "日本", "👍", "\x08", "\r"):
        bench.input.text(characters)
    assert bench.ui.typed == "éß日本👍"


@pytest.mark.parametrize(
    ("name", "held", "action"),
    [
        ("space", NONE, act.TogglePlay()),
        ("right", NONE, act.NextBeat()),
        ("page_down", NONE, act.NextBeat()),
        ("left", NONE, act.PreviousBeat()),
        ("page_up", NONE, act.PreviousBeat()),
        ("right", SHIFT, act.NextRound()),
        ("[", NONE, act.ShiftSpeed(-1)),
        ("]", NONE, act.ShiftSpeed(1)),
        ("1", NONE, act.ChoosePreset("default")),
        ("2", NONE, act.ChoosePreset("side")),
        ("3", NONE, act.ChoosePreset("top")),
        ("r", NONE, act.ResetView()),
        ("r", CTRL, act.ToggleCapture()),
        ("tab", NONE, act.ToggleUi()),
        ("p", NONE, act.Screenshot()),
        ("p", SHIFT, act.Screenshot(panels=True)),
        ("k", CTRL, act.OpenPalette()),
        ("/", SHIFT, act.OpenPalette()),
        ("escape", NONE, act.Leave()),
        ("l", NONE, act.ToggleLoop()),
        ("i", NONE, act.Inspect()),
        ("down", NONE, act.InspectNext(1)),
        ("b", NONE, act.ToggleBlackout()),
        (".", NONE, act.ToggleBlackout()),
        ("f11", NONE, act.ToggleFullScreen()),
        ("h", NONE, act.ToggleHelp()),
        ("f1", NONE, act.ToggleHelp()),
        ("x", NONE, None),
        ("r", Modifiers(alt=True), None),
    ],
)
def test_the_key_map(name: str, held: Modifiers, action: Action | None) -> None:
    assert shortcut(name, held) == action


def test_of_dropped_files_the_run_is_opened(bench: Bench) -> None:
    bench.input.dropped([Path("notes.txt"), Path("a b/run.jsonl"), Path("other.jsonl")])
    bench.input.dropped([Path("picture.png")])
    bench.input.dropped([])
    assert bench.actions == [act.OpenRun(Path("a b/run.jsonl")), act.OpenRun(Path("picture.png"))]
