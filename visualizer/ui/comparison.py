"""The live comparison: a row a drafter, fastest first, that fills while the engine measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from imgui_bundle import imgui

from engine.comparison import ALONE, Compared
from engine.families import about
from engine.terminal import duration
from engine.trace import Settings
from visualizer import actions as act
from visualizer import gallery
from visualizer.gallery import GalleryView
from visualizer.ui import grammars, widgets
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE, faded, mixed

UNKNOWN = "–"
PAYS = 1.02
"""Below this speedup a drafter does not help: it is within what two measurements differ."""

ROW = (22.0, 32.0)  # least and most height of a row, design pixels
SCALE = 1.5  # a bar this long reaches across, if none is longer
_Cell = Callable[[Compared], str]


@dataclass(frozen=True, slots=True)
class Column:
    """A figure: its heading, what the heading means, its width in design pixels."""

    heading: str
    means: str
    width: float
    cell: _Cell


def _number(name: str, form: str) -> _Cell:
    def cell(row: Compared) -> str:
        value = getattr(row, name)
        return UNKNOWN if value is None else format(value, form)

    return cell


def memory(row: Compared) -> str:
    """Megabytes it holds beside the target."""
    if row.weight_bytes is None or row.cache_bytes is None:
        return UNKNOWN
    return f"{(row.weight_bytes + row.cache_bytes) / 1e6:,.1f} MB"


def speed(speedup: float | None) -> str:
    """A speedup in words: "1.34x", "0.72x, slower"."""
    if speedup is None:
        return UNKNOWN
    return f"{speedup:.2f}x" if speedup >= 1 / PAYS else f"{speedup:.2f}x, slower"


COLUMNS = (
    Column("tok/s", "Tokens a second, all in all", 66, _number("tokens_per_second", ".1f")),
    Column("accepted", "Guesses accepted, of all drafted", 78, _number("acceptance_rate", ".0%")),
    Column("tok/round", "Tokens a round, all told", 76, _number("tokens_per_round", ".2f")),
    Column("step c", "A draft step, in passes of the target", 62, _number("step_cost", ".3f")),
    Column("check", "A check of all guesses, in passes", 62, _number("check_cost", ".2f")),
    Column("memory", "Weights, tables and cache it holds beside the target", 86, memory),
)  # fmt: skip
"""In the order in which they are given up where there is no room: the last ones first."""

NAME, BAR = 250.0, 210.0  # least widths, design pixels


def draw(ui: Ui, model: UiModel, view: GalleryView, opening: bool) -> None:
    unit = ui.style.unit
    if not view.live:
        _nothing_live(ui)
        return
    _order(ui, model, view, opening)
    _progress(ui, view)
    room = imgui.get_content_region_avail()
    foot = imgui.get_frame_height() + 8 * unit
    with widgets.font(ui.style, SMALL_SIZE):
        head = imgui.get_text_line_height() * 1.5
    row = min(max((room.y - foot - head) / max(len(view.rows), 1), ROW[0] * unit), ROW[1] * unit)
    imgui.begin_child(
        "table", imgui.ImVec2(0, max(room.y - foot, row)), imgui.ChildFlags_.nav_flattened
    )
    _table(ui, model, view, head, row)
    imgui.end_child()
    _foot(ui, model, view)


def _nothing_live(ui: Ui) -> None:
    """A recording has nobody to measure: say where comparisons are made."""
    room, palette = imgui.get_content_region_avail(), ui.style.palette
    lines = (
        (20.0, True, palette.text, "Drafters are compared live"),
        (16.0, False, palette.dim, "A recording has no engine to measure with."),
        (16.0, False, palette.dim, "python main.py opens the window that has one."),
    )
    corner = imgui.get_cursor_pos()
    y = corner.y + room.y * 0.36
    for points, bold, color, words in lines:
        with widgets.font(ui.style, points, bold):
            x = corner.x + max((room.x - imgui.calc_text_size(words).x) / 2, 0.0)
            imgui.set_cursor_pos(imgui.ImVec2(x, y))
            widgets.text(words, color)
            y += imgui.get_text_line_height() * 1.5
    ui.mark("nothing-live")


def _order(ui: Ui, model: UiModel, view: GalleryView, opening: bool) -> None:
    """On which prompts, under which settings, and the button."""
    unit, palette, state = ui.style.unit, ui.style.palette, model.state
    left, room = imgui.get_cursor_pos_x(), imgui.get_content_region_avail().x
    button = min(190 * unit, room * 0.4)
    imgui.begin_disabled(view.going)
    own = state.gallery.own_prompt or not model.prompts
    chosen = widgets.segmented(
        ui.style, "on", ("Curated prompts", "My prompt"), int(own), min(330 * unit, room * 0.56)
    )
    ui.mark("compare-on")
    imgui.set_item_tooltip(
        f"The first curated prompt of each family, or the one in the box, {gallery.OWN_TURNS} times"
    )
    if chosen is not None and bool(chosen) != own:
        ui.emit(act.CompareOn(bool(chosen)))
    imgui.end_disabled()
    used = imgui.get_item_rect_size().x
    s = view.comparison.settings if view.going and view.comparison else state.settings
    words = f"{under(s)} · {gallery.TOKENS} tokens a reply"
    imgui.same_line(left + used + 16 * unit)
    with widgets.font(ui.style, SMALL_SIZE):
        imgui.align_text_to_frame_padding()
        space = room - used - button - 32 * unit
        widgets.text(widgets.elided(words, max(space, 0.0)), palette.dim)
    imgui.same_line(left + room - button)
    _button(ui, view, button)
    if opening and not view.going:
        imgui.set_item_default_focus()


def under(s: Settings) -> str:
    """What a comparison is made under: "K 4 · T 0.7 · quality 40 %"."""
    noise = f" · quality {s.quality:.0f} %" if s.quality < 100 else ""
    k = s.k_as_set if s.k or s.auto_k else str(Settings().k)
    return f"K {k} · T {s.temperature:g}{noise}"


def _button(ui: Ui, view: GalleryView, width: float) -> None:
    if view.going:
        if imgui.button("Stop##comparing", imgui.ImVec2(width, 0)):
            ui.emit(act.StopComparing())
        ui.mark("stop-comparing")
        return
    imgui.begin_disabled(not view.ready or not view.replies)
    imgui.push_style_color(imgui.Col_.button, imgui.ImVec4(*ui.style.role("committed")))
    imgui.push_style_color(imgui.Col_.text, imgui.ImVec4(1.0, 1.0, 1.0, 1.0))
    with widgets.font(ui.style, 16, bold=True):
        if imgui.button("Compare##comparing", imgui.ImVec2(width, 0)):
            ui.emit(act.StartComparing())
    imgui.pop_style_color(2)
    imgui.end_disabled()
    ui.mark("compare")


def _progress(ui: Ui, view: GalleryView) -> None:
    """One line: how far it has come, or what it would take, or what stands in its way."""
    palette, unit = ui.style.palette, ui.style.unit
    with widgets.font(ui.style, SMALL_SIZE):
        if view.going and view.comparison is not None:
            words, share = gallery.progress(view.comparison)
            height = imgui.get_text_line_height()
            corner, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
            width = min(230 * unit, room * 0.35)
            _bar(ui, Rect(corner.x, corner.y + height * 0.3, width, height * 0.4), share)
            imgui.set_cursor_screen_pos(imgui.ImVec2(corner.x + width + 14 * unit, corner.y))
            widgets.text(widgets.elided(words, room - width - 14 * unit), palette.text)
        else:
            words, warns = standing(view)
            color = ui.style.ink("warning") if warns else palette.dim
            widgets.text(widgets.elided(words, imgui.get_content_region_avail().x), color)
        ui.mark("standing")


def standing(view: GalleryView) -> tuple[str, bool]:
    """What is said while nothing is being measured, and whether it is a trouble."""
    if view.problem:
        return view.problem, True
    if not view.ready:
        return "The engine is getting ready.", False
    if not view.replies:
        return "Tick a drafter, and write a prompt.", False
    told = view.comparison
    if told is None or not any(row.measured for row in told.rows):
        about_it = f"About {duration(view.seconds)}: " if view.seconds else ""
        return f"{about_it}{view.replies} short replies, in turns, beside the run.", False
    done = "Stopped" if told.phase == "stopped" else "Measured"
    done += f", {under(told.settings)}"
    best = max(told.rows, key=lambda row: row.speedup or 0.0)
    prompts = f"{best.prompts} prompt{'s' * (best.prompts != 1)}"
    if (best.speedup or 0.0) < PAYS:
        return f"{done}: no drafter is faster than the target alone here, on {prompts}.", False
    return f"{done}: {best.drafter} is fastest, {speed(best.speedup)} on {prompts}.", False


# --- the table -----------------------------------------------------------------------------


def _table(ui: Ui, model: UiModel, view: GalleryView, head: float, row: float) -> None:
    unit, room = ui.style.unit, imgui.get_content_region_avail().x
    columns = shown(room / unit)
    taken, inset = sum(each.width for each in columns) * unit, 8 * unit
    name = min(NAME * unit, (room - taken) * 0.55)
    bar = room - taken - inset - name
    most = max([SCALE, *(each.speedup or 0.0 for each in view.rows)])
    corner = imgui.get_cursor_screen_pos()
    with widgets.font(ui.style, SMALL_SIZE):
        _heads(ui, columns, Rect(corner.x, corner.y, room, head), name, bar)
        for index, each in enumerate(view.rows):
            rect = Rect(corner.x, corner.y + head + index * row, room, row)
            _row(ui, model, view, each, rect)
            if imgui.is_rect_visible(
                imgui.ImVec2(rect.x, rect.y), imgui.ImVec2(rect.right, rect.bottom)
            ):
                _name(ui, model, each, Rect(rect.x, rect.y, name, row))
                _speed(ui, view, each, Rect(rect.x + name, rect.y, bar, row), most)
                _cells(ui, columns, each, Rect(rect.right - taken - inset, rect.y, taken, row))
    imgui.set_cursor_screen_pos(corner)
    imgui.dummy(imgui.ImVec2(1, head + row * len(view.rows)))


def shown(width: float) -> tuple[Column, ...]:
    """The columns there is room for, in a table of `width` design pixels."""
    columns = list(COLUMNS)
    while len(columns) > 1 and sum(each.width for each in columns) + NAME + BAR > width:
        columns.pop()
    return tuple(columns)


def _heads(ui: Ui, columns: Sequence[Column], rect: Rect, name: float, bar: float) -> None:
    canvas, dim = imgui.get_window_draw_list(), widgets.u32(ui.style.palette.dim)
    canvas.add_text(imgui.ImVec2(rect.x + name, rect.y), dim, "speedup over the target alone")
    x = rect.x + name + bar
    for each in columns:
        x += each.width * ui.style.unit
        size = imgui.calc_text_size(each.heading)
        canvas.add_text(imgui.ImVec2(x - size.x, rect.y), dim, each.heading)
        place = Rect(x - each.width * ui.style.unit, rect.y, each.width * ui.style.unit, size.y)
        widgets.explained(ui.style, each.heading, place, (each.means,))


def _row(ui: Ui, model: UiModel, view: GalleryView, each: Compared, rect: Rect) -> None:
    """The row to press: ticks it for the next comparison, or leaves it out."""
    palette, unit = ui.style.palette, ui.style.unit
    imgui.set_cursor_screen_pos(imgui.ImVec2(rect.x, rect.y))
    imgui.begin_disabled(view.going or each.drafter == ALONE)
    pressed = widgets.area(f"##row-{each.drafter}", rect.width, rect.height)
    imgui.end_disabled()
    ui.mark(f"row-{each.drafter}")
    lit = imgui.is_item_hovered() and not view.going and each.drafter != ALONE
    now = view.going and view.comparison is not None and view.comparison.now == each.drafter
    if lit or now or each.drafter == ALONE:
        share = 0.3 if now else 0.14 if lit else 0.0
        fill = mixed(palette.raised, ui.style.role("committed"), share)
        imgui.get_window_draw_list().add_rect_filled(
            imgui.ImVec2(rect.x, rect.y),
            imgui.ImVec2(rect.right, rect.bottom),
            widgets.u32(fill),
            4 * unit,
        )
    if pressed:
        left = each.drafter in model.state.gallery.left_out
        ui.emit(act.Tick((each.drafter,), left))
    if each.problem and imgui.is_item_hovered(imgui.HoveredFlags_.allow_when_disabled):
        widgets.explanation(ui.style, (each.problem,))


def _name(ui: Ui, model: UiModel, each: Compared, rect: Rect) -> None:
    unit, palette = ui.style.unit, ui.style.palette
    canvas = imgui.get_window_draw_list()
    left_out = each.drafter in model.state.gallery.left_out
    if each.drafter != ALONE:
        _tick(ui, rect.x + 13 * unit, rect.y + rect.height / 2, 6.5 * unit, not left_out)
    who = about(each.drafter)
    x = rect.x + 32 * unit
    size = min(26 * unit, rect.height * 0.86)
    if who is not None:
        grammars.draw(ui.style, who, x + size / 2, rect.y + rect.height / 2, size)
    x += size + 9 * unit
    y = rect.y + (rect.height - imgui.get_text_line_height()) / 2
    color = palette.dim if left_out and not each.measured else palette.text
    title = each.drafter if who is None or each.drafter != ALONE else who.title
    fitting = widgets.elided(title, rect.right - x - 6 * unit)
    canvas.add_text(imgui.ImVec2(x, y), widgets.u32(color), fitting)


def _tick(ui: Ui, x: float, y: float, r: float, on: bool) -> None:
    canvas, palette, unit = imgui.get_window_draw_list(), ui.style.palette, ui.style.unit
    low, high = imgui.ImVec2(x - r, y - r), imgui.ImVec2(x + r, y + r)
    canvas.add_rect(low, high, widgets.u32(palette.dim), 3 * unit, 1.3 * unit)
    if on:
        color = widgets.u32(palette.accent)
        foot = imgui.ImVec2(x - 0.15 * r, y + 0.5 * r)
        canvas.add_line(imgui.ImVec2(x - 0.55 * r, y), foot, color, 2 * unit)
        canvas.add_line(foot, imgui.ImVec2(x + 0.6 * r, y - 0.55 * r), color, 2 * unit)


def _speed(ui: Ui, view: GalleryView, each: Compared, rect: Rect, most: float) -> None:
    """The bar of its speedup beside a line at one, and the figure in words."""
    unit, palette, style = ui.style.unit, ui.style.palette, ui.style
    canvas = imgui.get_window_draw_list()
    words = "left out: it failed" if each.problem else _says(view, each)
    room = rect.width - imgui.calc_text_size("0.00x, slower").x - 24 * unit
    one = rect.x + max(room, 0.0) / most
    canvas.add_line(
        imgui.ImVec2(one, rect.y), imgui.ImVec2(one, rect.bottom), widgets.u32(palette.line), unit
    )
    x = rect.x
    y = rect.y + (rect.height - imgui.get_text_line_height()) / 2
    if each.speedup is not None and room > 0:
        x += room * each.speedup / most
        role = style.role("committed") if each.speedup >= PAYS else style.role("discarded")
        color = style.role("target") if each.drafter == ALONE else role
        canvas.add_rect_filled(
            imgui.ImVec2(rect.x, rect.y + rect.height * 0.24),
            imgui.ImVec2(x, rect.bottom - rect.height * 0.24),
            widgets.u32(faded(color, 0.9)),
            2 * unit,
        )
        x += 9 * unit
    bright = each.speedup is not None and each.speedup >= PAYS
    ink = style.ink("warning") if each.problem else palette.text if bright else palette.dim
    fitting = widgets.elided(words, rect.right - x)
    canvas.add_text(imgui.ImVec2(x, y), widgets.u32(ink), fitting)


def _says(view: GalleryView, each: Compared) -> str:
    told = view.comparison
    if view.going and told is not None and told.now == each.drafter and each.speedup is None:
        return "measuring…"
    return speed(each.speedup)


def _cells(ui: Ui, columns: Sequence[Column], each: Compared, rect: Rect) -> None:
    palette, canvas = ui.style.palette, imgui.get_window_draw_list()
    y = rect.y + (rect.height - imgui.get_text_line_height()) / 2
    color = widgets.u32(palette.text if each.measured else palette.dim)
    x = rect.x
    for column in columns:
        x += column.width * ui.style.unit
        words = column.cell(each)
        canvas.add_text(imgui.ImVec2(x - imgui.calc_text_size(words).x, y), color, words)


def _bar(ui: Ui, rect: Rect, share: float) -> None:
    canvas, palette = imgui.get_window_draw_list(), ui.style.palette
    for end, color in ((1.0, palette.line), (share, palette.accent)):
        canvas.add_rect_filled(
            imgui.ImVec2(rect.x, rect.y),
            imgui.ImVec2(rect.x + rect.width * end, rect.bottom),
            widgets.u32(color),
            rect.height / 2,
        )


# --- the foot ------------------------------------------------------------------------------


def _foot(ui: Ui, model: UiModel, view: GalleryView) -> None:
    """Everything or nothing ticked, the table to copy, and whether the texts were the target's."""
    unit, told = ui.style.unit, view.comparison
    imgui.dummy(imgui.ImVec2(0, 0))
    names = tuple(row.drafter for row in view.rows if row.drafter != ALONE)
    left = [name for name in names if name in model.state.gallery.left_out]
    imgui.begin_disabled(view.going or not names)
    if imgui.button(f"{'Tick all' if left else 'Tick none'}##ticks"):
        ui.emit(act.Tick(names, bool(left)))
    imgui.end_disabled()
    ui.mark("tick-all")
    there = told is not None and any(row.measured for row in told.rows)
    imgui.begin_disabled(not there)
    for name, words in (("tsv", "Copy as TSV"), ("json", "Copy as JSON")):
        imgui.same_line()
        if imgui.button(f"{words}##{name}") and told is not None:
            text = (
                gallery.as_tsv(view.rows)
                if name == "tsv"
                else gallery.as_json(told, view.rows, model.header)
            )
            ui.emit(act.CopyText(text, "The table is in the clipboard"))
        ui.mark(f"copy-{name}")
    imgui.end_disabled()
    imgui.same_line(0.0, 14 * unit)
    with widgets.font(ui.style, SMALL_SIZE):
        imgui.align_text_to_frame_padding()
        words = proof(view.rows)
        widgets.text(
            widgets.elided(words, imgui.get_content_region_avail().x), ui.style.palette.dim
        )


def proof(rows: Sequence[Compared]) -> str:
    """Whether every greedy text was the target's own; "" where nothing was compared so."""
    judged = [row for row in rows if row.same_text is not None and row.drafter != ALONE]
    wrong = [row.drafter for row in judged if row.same_text is False]
    if wrong:
        return f"Not the target's own text: {', '.join(wrong)}."
    return f"All {len(judged)} wrote the target's own text." if judged else ""
