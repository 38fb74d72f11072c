"""The line along the top: measured numbers, the badge, and how much time is stretched.

Every number is read from the measured statistics; what is not known yet is a dash.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

from imgui_bundle import imgui

from engine.stats import Stats
from engine.trace import Baseline, RunProof
from visualizer.config import Badge
from visualizer.ui import explain, widgets
from visualizer.ui.layout import Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import FIGURE_SIZE, SMALL_SIZE, FontSize, Rgba, Style

UNKNOWN = "–"
LABEL_SIZE = 15.0
GAP = 14.0
SMALLEST = 0.7  # of their size: narrower columns are left out
FORGONE = ("Draft step", "Target pass", "TOKENS/ROUND")
"""In the order in which they are left out."""
SPEEDUP_WEIGHT = 8.0  # its remark is a sentence


@dataclass(frozen=True, slots=True)
class Readout:
    """One column: its name above, the figure with a small unit, and a remark below.

    `widest` is the longest figure to expect: columns stay where they are while figures change.
    `why` is what it is made of, told to whoever points at it.
    Of the width that no figure needs, each column has its `weight` for its remark.
    """

    name: str
    figure: str
    remark: str = ""
    unit: str = ""
    widest: str = "000.0"
    weight: float = 1.0
    warns: bool = False
    why: explain.Lines = ()


def told(model: UiModel) -> tuple[object, ...]:
    """All that the panel tells (see `stills`)."""
    hud = model.hud
    return (hud.stats, hud.proof, hud.slowdown, model.clock.speed, model.header, model.badge)


def draw(ui: Ui, rect: Rect, model: UiModel) -> None:
    """The readouts from the left, badge and slow-down at the right."""
    with widgets.panel("readouts", rect):
        unit = ui.style.unit
        room = _badge(ui, rect.right - 14 * unit, rect.y + 12 * unit, model)
        columns = readouts_of(model)
        left = rect.x + 18 * unit
        width = rect.right - 24 * unit - room - left
        least = _widths(ui.style, ui.style.size, columns)
        for name in FORGONE:  # rather fewer figures than ones that nobody can read
            if sum(least) * SMALLEST <= width:
                break
            index = next(i for i, column in enumerate(columns) if column.name == name)
            columns = columns[:index] + columns[index + 1 :]
            least = least[:index] + least[index + 1 :]
        scale = min(0.98 * width / sum(least), 1.0)
        share = max(width - sum(least), 0.0) / sum(each.weight for each in columns)
        for column, needed in zip(columns, least, strict=True):
            whole = needed * scale + share * column.weight
            _column(ui, column, left, rect.y + 8 * unit, whole - GAP * unit * scale, scale)
            room_of = Rect(left, rect.y + 4 * unit, whole - 4 * unit, rect.height - 8 * unit)
            widgets.explained(ui.style, column.name, room_of, column.why)
            ui.mark(column.name)
            left += whole


def draw_badge_alone(ui: Ui, width: float, model: UiModel) -> None:
    """With the UI hidden: the badge and the slow-down stay on the canvas."""
    unit = ui.style.unit
    with widgets.panel("badge", Rect(width - 260 * unit, 0, 260 * unit, 80 * unit), clear=True):
        _badge(ui, width - 14 * unit, 12 * unit, model)


def badge(ui: Ui, right: float, y: float, which: Badge) -> Rect:
    """The badge alone, up to a right edge; returns the rectangle it fills."""
    live = which == "LIVE"
    rect = widgets.pill(
        ui.style, right, y, which, ui.style.ink("bonus" if live else "warning"), dot=live
    )
    ui.marks["badge"] = rect
    return rect


def _badge(ui: Ui, right: float, y: float, model: UiModel) -> float:
    """Returns the width used."""
    style, unit = ui.style, ui.style.unit
    rect = badge(ui, right, y, model.badge)
    words = slowdown(model.hud.slowdown / model.clock.speed)
    with widgets.font(style, SMALL_SIZE):
        size = imgui.calc_text_size(words)
        place = imgui.ImVec2(right - size.x, rect.bottom + 5 * unit)
        imgui.get_window_draw_list().add_text(place, widgets.u32(style.palette.text), words)
    baseline = model.header.baseline if model.header is not None else None
    why = partial(explain.slowdown, model.hud.slowdown, model.clock.speed, baseline)
    widgets.explained(style, "slowdown", Rect(place.x, place.y, size.x, size.y), why)
    widgets.explained(style, "badge", rect, explain.badge(model.badge))
    return max(rect.width, size.x)


@lru_cache(maxsize=4)
def _widths(style: Style, size: FontSize, columns: tuple[Readout, ...]) -> list[float]:
    """Width that each column's name and figure need at this size, with the gap after it."""
    return [_least(style, column) for column in columns]


def _least(style: Style, readout: Readout) -> float:
    with widgets.font(style, LABEL_SIZE):
        name = imgui.calc_text_size(readout.name).x
        unit = imgui.calc_text_size(readout.unit).x + 4 * style.unit if readout.unit else 0.0
    with widgets.font(style, FIGURE_SIZE, bold=True):
        figure = imgui.calc_text_size(readout.widest).x + unit
    return float(max(name, figure)) + (GAP + 1) * style.unit


def _column(ui: Ui, readout: Readout, x: float, y: float, width: float, scale: float) -> None:
    """Draw a column; in a narrow window everything in it is smaller by `scale`."""
    style = ui.style
    palette = style.palette
    tone = style.ink("warning") if readout.warns else palette.text
    with widgets.font(style, LABEL_SIZE * scale):
        y = _line(readout.name, x, y, width, palette.dim)
        lead = imgui.get_text_line_height()
    with widgets.font(style, FIGURE_SIZE * scale, bold=True):
        beside = x + imgui.calc_text_size(readout.figure).x + 4 * style.unit
        below = _line(readout.figure, x, y, width, tone)
    with widgets.font(style, LABEL_SIZE * scale):
        if readout.unit:
            _line(readout.unit, beside, below - lead * 1.3, width, palette.dim)
        _line(readout.remark, x, below, width, tone if readout.warns else palette.dim)


def _line(words: str, x: float, y: float, width: float, color: Rgba) -> float:
    """Draw one line cut to `width`; return the y below it."""
    shown = widgets.elided(words, width)
    canvas = imgui.get_window_draw_list()
    canvas.add_text(imgui.ImVec2(x, y), widgets.u32(color), shown)
    return y + float(imgui.get_text_line_height())


def readouts_of(model: UiModel) -> tuple[Readout, ...]:
    """The columns of this moment."""
    baseline = model.header.baseline if model.header is not None else None
    return _readouts(model.hud.stats, baseline, model.hud.proof)


@lru_cache(maxsize=4)
def _readouts(
    stats: Stats, baseline: Baseline | None, proof: RunProof | None
) -> tuple[Readout, ...]:
    """They change when a round has landed, not from frame to frame."""
    alone = "" if baseline is None else f"alone {baseline.tokens_per_second:.1f}"
    drafted = f"{stats.accepted} of {stats.drafted}" if stats.drafted else ""
    rounds = f"{stats.rounds} round{'' if stats.rounds == 1 else 's'}"
    return (
        Readout(
            "TOK/S",
            _figure(stats.tokens_per_second, "{:.1f}"),
            alone,
            why=explain.tokens_per_second(stats),
        ),
        Readout(
            "ACCEPT",
            _figure(stats.acceptance_rate, "{:.0%}"),
            drafted,
            why=explain.acceptance(stats),
        ),
        _speedup(stats, proof),
        Readout(
            "TOKENS/ROUND",
            _figure(stats.mean_acceptance_length, "{:.2f}"),
            rounds,
            why=explain.tokens_per_round(stats),
        ),
        _milliseconds("Draft step", stats.draft_step_seconds, explain.draft_step(stats)),
        _milliseconds("Target pass", stats.pass_seconds, explain.target_pass(stats)),
    )


def _speedup(stats: Stats, proof: RunProof | None) -> Readout:
    value = stats.speedup
    if value is None:
        return Readout(
            "SPEEDUP",
            UNKNOWN,
            widest="0.00x slower",
            weight=SPEEDUP_WEIGHT,
            why=explain.speedup(stats),
        )
    slower = value < 1.0 and stats.drafted > 0
    remark = "over the target alone" if stats.drafted else "nobody guesses"
    if slower:
        remark = stats.slowness or "than the target alone"
    if proof is not None:
        remark = f"{remark}; {proof.words}" if slower else proof.words
    return Readout(
        "SPEEDUP",
        f"{value:.2f}x slower" if slower else f"{value:.2f}x",
        remark,
        widest="0.00x slower",
        weight=SPEEDUP_WEIGHT,
        warns=slower or (proof is not None and not proof.holds),
        why=explain.speedup(stats) + explain.proof(proof),
    )


def _milliseconds(name: str, seconds: float | None, why: explain.Lines) -> Readout:
    figure = _figure(None if seconds is None else seconds * 1e3, "{:.1f}")
    return Readout(name, figure, "mean" if seconds is not None else "", unit="ms", why=why)


def _figure(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else form.format(value)


def slowdown(factor: float) -> str:
    """How many seconds of the show one measured second takes, in words."""
    if factor <= 0:
        return ""
    if 0.95 < factor < 1.05:
        return "real speed"
    word, times = ("slowed", factor) if factor > 1 else ("sped up", 1 / factor)
    return f"{word} {times:.0f}x" if times >= 9.5 else f"{word} {times:.1f}x"
