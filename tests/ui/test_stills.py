"""Panels that stand as they were drawn look and act, in every frame, like panels drawn anew."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import moderngl
import numpy as np
import pytest
from imgui_bundle import imgui
from numpy.typing import NDArray
from test_panels import RUN, model, told

from engine.stats import Stats
from engine.trace import Baseline, EngineState, RunProof, Settings
from visualizer.actions import Action
from visualizer.input import LEFT, Modifiers
from visualizer.render.imgui_pass import ImguiPass
from visualizer.stage.hud import Piece
from visualizer.ui import caption, dock, readouts, stills, textbar, transport
from visualizer.ui.model import EngineView, UiModel
from visualizer.ui.overlay import Overlay

SIZE = (1280, 720)
BASE = model()
STATE, CLOCK, HUD, ENGINE = BASE.state, BASE.clock, BASE.hud, BASE.engine
FASTER = Stats.of(RUN.rounds[:2], Baseline(0.05, 9))
STARTING = EngineState("loading", detail="weights")
CHANGES: tuple[dict[str, Any], ...] = (
    *({"state": replace(STATE, **change)} for change in (
        {"settings": replace(STATE.settings, k=7)},
        {"settings": replace(STATE.settings, auto_k=True, temperature=0.8, top_k=40)},
        {"settings": replace(STATE.settings, speculative=False)},
        {"prompt": replace(STATE.prompt, text="Another one", chat=False, curated=1)},
        {"theme": "light"}, {"ui_scale": 1.25}, {"preset": "top"}, {"painted": True},
        {"help_visible": True}, {"ui_visible": False}, {"blackout": True},
    )),
    *({"clock": replace(CLOCK, **change)} for change in (
        {"t": 17.3}, {"playing": not CLOCK.playing}, {"speed": 2.0}, {"loop": (1.0, 2.0)},
    )),
    *({"hud": told(**change)} for change in (
        {"stats": FASTER}, {"histogram": (1, 9)}, {"ghost": ()}, {"slowdown": 3.0}, {"shown": 3},
        {"settings": Settings(k=2)}, {"k_reason": "it pays"}, {"round_index": 5}, {"prompt": "Hm?"},
        {"proof": RunProof(True, None)}, {"pending": ()}, {"caption": (Piece("Now.", "text"),)},
        {"committed": (Piece("Grass is green", "committed"),)},
    )),
    *({"engine": replace(ENGINE, **change)} for change in (
        {"state": STARTING}, {"busy": STARTING}, {"starting": True}, {"fault": "gone"},
        {"problem": "none"}, {"notice": "slow"}, {"refusal": "too long"}, {"opened": True},
    )),
    {"engine": EngineView()}, {"badge": "RECORDED"}, {"message": "Saved it"}, {"header": None},
    {"prompts": BASE.prompts[:1]}, {"timeline": None}, {"profile": ("60 pictures", "2 ms", "all")},
    {"drawn": 1.0},
)  # fmt: skip
"""Everything that a panel tells, changed one by one."""

VERTEX = np.dtype([("place", "f4", 2), ("uv", "f4", 2), ("color", "u4")])
Seen = tuple[object, ...]


def every_change(overlay: Overlay) -> Iterator[Seen]:
    for change in CHANGES:
        yield from show(overlay, BASE, 3)
        yield from show(overlay, replace(BASE, **change), 3)


def a_hand(overlay: Overlay) -> Iterator[Seen]:
    """Points at, presses and leaves controls all over the panels, and types a chord."""
    port = overlay.port
    yield from show(overlay, BASE, 3)
    for mark in sorted(overlay.marks):
        rect = overlay.marks[mark]
        port.mouse_at((rect.x + rect.width / 2, rect.y + rect.height / 2))
        yield from show(overlay, BASE, 3)
        port.mouse_button(LEFT, True)
        yield from show(overlay, BASE, 2)
        port.mouse_button(LEFT, False)
        yield from show(overlay, BASE, 2)
        port.mouse_at((700.0, 300.0))
        yield from show(overlay, BASE, 3)
        port.mouse_button(LEFT, True)  # beside them all: a list that was opened shuts
        port.mouse_button(LEFT, False)
        yield from show(overlay, BASE, 4)
    port.modifiers(Modifiers(ctrl=True))
    port.key("return", True)
    yield from show(overlay, BASE, 2)
    port.key("return", False)
    port.modifiers(Modifiers())
    yield from show(overlay, BASE, 3)
    port.move_by_keys("dock")
    for key in ("tab", "tab", "down", "right"):
        port.key(key, True)
        yield from show(overlay, replace(BASE, state=replace(STATE, panel="dock")), 2)
        port.key(key, False)
    port.move_by_keys(None)
    yield from show(overlay, BASE, 3)


def show(overlay: Overlay, what: UiModel, frames: int) -> Iterator[Seen]:
    """What each of some frames looks like and says."""
    for _ in range(frames):
        actions: list[Action] = overlay.frame(what, SIZE, 1.0, 1 / 60)
        yield (*triangles(overlay.draw_data), tuple(actions), dict(overlay.marks))


def triangles(data: imgui.ImDrawData) -> Seen:
    found: list[object] = []
    for part in data.cmd_lists:
        points, order = part.vtx_buffer, part.idx_buffer
        raw = ctypes.string_at(points.data_address(), points.size() * imgui.VERTEX_SIZE)
        vertices = np.frombuffer(raw, VERTEX)
        found += [vertices["place"].tobytes(), vertices["color"].tobytes()]
        found.append(ctypes.string_at(order.data_address(), order.size() * imgui.INDEX_SIZE))
        found += [tuple(command.clip_rect) for command in part.cmd_buffer]
    return tuple(found)


def pictures(gl: moderngl.Context, made: list[int]) -> list[NDArray[np.uint8]]:
    """Panels that stand while other words fill one texture of letters after another (`made`)."""
    overlay = Overlay()
    panels = ImguiPass(gl)
    into = gl.simple_framebuffer(SIZE)
    found = []
    try:
        for first in range(0x21, 0x2FF, 0x40):
            words = "".join(
                chr(code) for code in range(first, first + 0x40) if chr(code).isprintable()
            )
            hud = told(caption=(Piece(words, "text"),))
            for _ in range(3):
                overlay.frame(replace(BASE, hud=hud), SIZE, 1.0, 1 / 60)
                into.clear()
                panels.render(overlay.draw_data, into)
                found.append(np.frombuffer(into.read(), np.uint8))
                made.append(imgui.get_io().fonts.tex_data.unique_id)
        return found
    finally:
        gl.detect_framebuffer(0).use()  # a framebuffer must not be released while bound
        into.release()
        panels.release()
        overlay.close()


def apart(some: list[NDArray[np.uint8]], others: list[NDArray[np.uint8]]) -> int:
    pairs = zip(some, others, strict=True)
    return max(int(np.abs(one.astype(int) - other).max()) for one, other in pairs)


def story(told_by: Callable[[Overlay], Iterator[Seen]]) -> list[Seen]:
    overlay = Overlay()
    try:
        return list(told_by(overlay))
    finally:
        overlay.close()


def anew(
    monkeypatch: pytest.MonkeyPatch, told_by: Callable[[Overlay], Iterator[Seen]]
) -> list[Seen]:
    """The same with every panel drawn in every frame."""
    with monkeypatch.context() as patch:
        patch.setattr(stills, "_stands", lambda name: False)
        return story(told_by)


@pytest.mark.parametrize("told_by", [every_change, a_hand])
def test_a_panel_that_stands_is_the_panel_drawn_anew(
    told_by: Callable[[Overlay], Iterator[Seen]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = anew(monkeypatch, told_by)
    standing = story(told_by)
    assert [
        i
        for i, pair in enumerate(zip(fresh, standing, strict=True))
        if len(set(map(repr, pair))) > 1
    ] == []


def test_most_panels_stand_while_nothing_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    for panel in (caption, dock, readouts, textbar, transport):
        draw = panel.draw
        name = panel.__name__
        monkeypatch.setattr(
            panel, "draw", lambda *all_, d=draw, n=name: (drawn.append(n), d(*all_))[1]
        )
    overlay = Overlay()
    try:
        list(show(overlay, BASE, 4))
        drawn.clear()
        list(show(overlay, replace(BASE, clock=replace(CLOCK, t=10.04)), 5))
        assert drawn == []
    finally:
        overlay.close()


@pytest.mark.parametrize("panel", [caption, dock, readouts, textbar, transport])
def test_a_panel_that_forgets_what_it_tells_is_found_out(
    panel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = anew(monkeypatch, every_change)
    monkeypatch.setattr(panel, "told", lambda what: ())
    assert story(every_change) != fresh


def test_a_panel_deaf_to_the_hand_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = anew(monkeypatch, a_hand)
    monkeypatch.setattr(stills, "_pointed", lambda rect: False)
    assert story(a_hand) != fresh


def test_letters_stay_when_their_texture_is_given_up(
    gl: moderngl.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    textures: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(stills, "_stands", lambda name: False)
        fresh = pictures(gl, textures)
    assert len(set(textures)) > 1
    assert apart(fresh, pictures(gl, [])) <= 2
    monkeypatch.setattr(stills, "_atlas", lambda: 0)  # who does not look is found out
    assert apart(fresh, pictures(gl, [])) > 64
