"""The run as a strip: a bar for each round, as high and as blue as it was accepted; drag to go.

With more rounds than fit, neighbours share a bar and its height is their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from imgui_bundle import imgui

from visualizer import actions as act
from visualizer.stage.theme import theme as theme_of
from visualizer.stage.timeline import Timeline
from visualizer.ui import widgets
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE, Rgba, faded, mixed, palette_of

NARROWEST = 4.0  # design pixels a bar takes at least
MOST_BARS = 240
ROUNDED = 8.0  # corners of a narrower bar are not seen, but cost eight times the triangles
BEAT_GAP = 5.0  # beats closer than this are not drawn


@dataclass(frozen=True, slots=True)
class Bar:
    """One or more rounds that follow each other: when, and how much of what was guessed passed.

    `share` is accepted over drafted; None where nobody guessed. `whole` marks bars of rounds
    in which every guess passed.
    """

    first: int
    last: int
    start: float
    end: float
    share: float | None
    whole: bool


@lru_cache(maxsize=4)
def bars_of(timeline: Timeline, most: int) -> tuple[Bar, ...]:
    """The run in at most `most` bars of equally many rounds each (the last may have fewer)."""
    each = -(-len(timeline.rounds) // max(most, 1))
    bars = []
    for first in range(0, len(timeline.rounds), max(each, 1)):
        rounds = timeline.rounds[first : first + each]
        drafted = sum(len(r.guesses) for r in rounds)
        accepted = sum(r.accepted for r in rounds)
        last = first + len(rounds) - 1
        bars.append(
            Bar(
                first,
                last,
                timeline.spans[first].start,
                timeline.spans[last].end,
                accepted / drafted if drafted else None,
                bool(drafted) and accepted == drafted,
            )
        )
    return tuple(bars)


def draw(ui: Ui, rect: Rect, model: UiModel) -> None:
    unit = ui.style.unit
    with widgets.panel("timeline", rect):
        pad = 14 * unit
        strip = Rect(rect.x + pad, rect.y + 3 * unit, rect.width - 2 * pad, rect.height - 4 * unit)
        if strip.width < 20 * unit:
            return
        imgui.set_cursor_screen_pos(imgui.ImVec2(strip.x, rect.y))
        widgets.area("##scrub", strip.width, rect.height)
        ui.mark("scrub")
        end = model.end
        _floor(ui, strip)
        if model.timeline is None or end <= 0:
            return
        at = (imgui.get_mouse_pos().x - strip.x) / strip.width
        there = min(max(at, 0.0), 1.0) * end
        if imgui.is_item_active():
            ui.emit(act.Seek(there))
        most = min(int(strip.width / (NARROWEST * unit)), MOST_BARS)
        _bars(ui, strip, model.timeline, most, model.hud.round_index)
        _beats(ui, strip, model)
        _loop(ui, strip, model)
        _playhead(ui, strip, model.clock.t / end)
        if imgui.is_item_hovered():
            imgui.set_mouse_cursor(imgui.MouseCursor_.hand)
            bars = bars_of(model.timeline, most)
            _tip(ui, strip, next((b for b in bars if b.start <= there <= b.end), None), model)


def _floor(ui: Ui, strip: Rect) -> None:
    canvas = imgui.get_window_draw_list()
    low = imgui.ImVec2(strip.x, strip.bottom - ui.style.unit)
    far = imgui.ImVec2(strip.right, strip.bottom)
    canvas.add_rect_filled(low, far, widgets.u32(ui.style.palette.line))


class Drawn(NamedTuple):
    """A bar as it is drawn: two corners, its colours when it has been and when it is to come."""

    low: imgui.ImVec2
    high: imgui.ImVec2
    color: int
    dim: int
    rounding: float
    first: int


def _bars(ui: Ui, strip: Rect, timeline: Timeline, most: int, now: int) -> None:
    draw_bar = imgui.get_window_draw_list().add_rect_filled
    drawn = _drawn(timeline, most, strip, ui.style.unit, ui.style.theme)
    for low, high, color, dim, rounding, first in drawn:
        draw_bar(low, high, dim if first > now else color, rounding)


@lru_cache(maxsize=4)
def _drawn(
    timeline: Timeline, most: int, strip: Rect, unit: float, theme: str
) -> tuple[Drawn, ...]:
    """The bars within `strip`, which only change when the run grows or the window does."""
    drawn = []
    end = timeline.duration
    room = strip.height - 8 * unit  # over the bars: the playhead's knob
    for bar in bars_of(timeline, most):
        left = strip.x + strip.width * bar.start / end
        right = max(strip.x + strip.width * bar.end / end - unit, left + unit)
        tall = 3 * unit + (room - 3 * unit) * (bar.share or 0.0)
        color = _color(theme, bar)
        drawn.append(
            Drawn(
                imgui.ImVec2(left, strip.bottom - tall),
                imgui.ImVec2(right, strip.bottom),
                widgets.u32(color),
                widgets.u32(faded(color, 0.45)),
                unit if right - left > ROUNDED * unit else 0.0,
                bar.first,
            )
        )
    return tuple(drawn)


def _color(theme: str, bar: Bar) -> Rgba:
    palette, role = palette_of(theme), theme_of(theme).srgb
    if bar.share is None:
        return mixed(palette.panel, (*role("target"), 1.0), 0.5)
    if bar.whole:
        return (*role("bonus"), 1.0)
    if bar.share == 0.0:
        return (*role("discarded"), 1.0)
    return mixed(palette.line, (*role("committed"), 1.0), 0.35 + 0.65 * bar.share)


def _beats(ui: Ui, strip: Rect, model: UiModel) -> None:
    """Where stepping stops in the present round, as dots over it."""
    line, now, unit = model.timeline, model.hud.round_index, ui.style.unit
    if line is None or not 0 <= now < len(line.spans):
        return
    places = [strip.x + strip.width * beat.time / model.end for beat in line.spans[now].beats]
    gaps = [after - before for before, after in pairwise(places)]
    if gaps and sum(gaps) / len(gaps) < BEAT_GAP * unit:
        return
    canvas, color = imgui.get_window_draw_list(), widgets.u32(ui.style.palette.text)
    for x in places:
        canvas.add_circle_filled(imgui.ImVec2(x, strip.bottom - 3 * unit), 1.5 * unit, color)


def _loop(ui: Ui, strip: Rect, model: UiModel) -> None:
    loop, unit = model.clock.loop, ui.style.unit
    if loop is None:
        return
    left, right = (strip.x + strip.width * t / model.end for t in loop)
    imgui.get_window_draw_list().add_rect(
        imgui.ImVec2(left - unit, strip.y + 2 * unit),
        imgui.ImVec2(right + unit, strip.bottom + unit),
        widgets.u32(ui.style.palette.accent),
        2 * unit,
        1.5 * unit,
    )


def _playhead(ui: Ui, strip: Rect, share: float) -> None:
    unit, canvas = ui.style.unit, imgui.get_window_draw_list()
    x = strip.x + strip.width * min(max(share, 0.0), 1.0)
    color = widgets.u32(ui.style.palette.text)
    canvas.add_line(imgui.ImVec2(x, strip.y), imgui.ImVec2(x, strip.bottom), color, 1.6 * unit)
    canvas.add_circle_filled(imgui.ImVec2(x, strip.y + 3 * unit), 4.5 * unit, color)


def _tip(ui: Ui, strip: Rect, bar: Bar | None, model: UiModel) -> None:
    if bar is None:
        return
    over = imgui.ImVec2(imgui.get_mouse_pos().x, strip.y - 6 * ui.style.unit)
    imgui.set_next_window_pos(over, imgui.Cond_.always, imgui.ImVec2(0.5, 1.0))
    if not imgui.begin_tooltip():
        return
    many = bar.last > bar.first
    name = f"Rounds {bar.first + 1} to {bar.last + 1}" if many else f"Round {bar.first + 1}"
    rounds = model.timeline.rounds[bar.first : bar.last + 1] if model.timeline else ()
    drafted = sum(len(each.guesses) for each in rounds)
    accepted = sum(each.accepted for each in rounds)
    what = f"{accepted} of {drafted} guesses accepted" if drafted else "nobody guessed"
    widgets.text(f"{name}: {what}", ui.style.palette.text)
    with widgets.font(ui.style, SMALL_SIZE):
        widgets.text("Drag to go anywhere; L loops a round", ui.style.palette.dim)
    imgui.end_tooltip()
