"""The run as a strip: a bar for each round, as high and as blue as it was accepted; drag to go.

With more rounds than fit, neighbours share a bar and its height is their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from imgui_bundle import imgui

from visualizer import actions as act
from visualizer.stage.timeline import Timeline
from visualizer.ui import widgets
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE, Rgba, faded, mixed

NARROWEST = 4.0  # design pixels a bar takes at least
MOST_BARS = 240
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
        bars = bars_of(model.timeline, most)
        for bar in bars:
            _bar(ui, strip, bar, end, dim=bar.first > model.hud.round_index)
        _beats(ui, strip, model)
        _loop(ui, strip, model)
        _playhead(ui, strip, model.clock.t / end)
        if imgui.is_item_hovered():
            _tip(
                ui, strip, next((bar for bar in bars if bar.start <= there <= bar.end), None), model
            )


def _floor(ui: Ui, strip: Rect) -> None:
    canvas = imgui.get_window_draw_list()
    low = imgui.ImVec2(strip.x, strip.bottom - ui.style.unit)
    far = imgui.ImVec2(strip.right, strip.bottom)
    canvas.add_rect_filled(low, far, widgets.u32(ui.style.palette.line))


def _bar(ui: Ui, strip: Rect, bar: Bar, end: float, dim: bool) -> None:
    unit = ui.style.unit
    left = strip.x + strip.width * bar.start / end
    right = max(strip.x + strip.width * bar.end / end - unit, left + unit)
    room = strip.height - 8 * unit  # over the bars: the playhead's knob
    tall = 3 * unit + (room - 3 * unit) * (bar.share or 0.0)
    color = faded(_color(ui, bar), 0.45 if dim else 1.0)
    imgui.get_window_draw_list().add_rect_filled(
        imgui.ImVec2(left, strip.bottom - tall),
        imgui.ImVec2(right, strip.bottom),
        widgets.u32(color),
        min(unit, (right - left) / 3),
    )


def _color(ui: Ui, bar: Bar) -> Rgba:
    palette = ui.style.palette
    if bar.share is None:
        return mixed(palette.panel, ui.style.role("target"), 0.5)
    if bar.whole:
        return ui.style.role("bonus")
    if bar.share == 0.0:
        return ui.style.role("discarded")
    return mixed(palette.line, ui.style.role("committed"), 0.35 + 0.65 * bar.share)


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
