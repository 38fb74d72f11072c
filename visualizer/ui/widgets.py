"""Small drawing verbs the panels share: fixed windows, texts, pills."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from imgui_bundle import imgui

from visualizer.ui.icons import DRAWN, Icon
from visualizer.ui.layout import Rect
from visualizer.ui.style import BASE_SIZE, SMALL_SIZE, FontSize, Rgba, Style, faded, mixed

_FIXED = (
    imgui.WindowFlags_.no_decoration
    | imgui.WindowFlags_.no_move
    | imgui.WindowFlags_.no_saved_settings
    | imgui.WindowFlags_.no_bring_to_front_on_focus
)


class panel:
    """A fixed window that fills `rect`. `clear` leaves its background out.

    One that may come to the `front` does when it has the focus; the others stay where they are.
    (A class, as `font` is: entered dozens of times a frame, a generator would cost thrice that.)
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        rect: Rect,
        scrolls: bool = False,
        clear: bool = False,
        front: bool = False,
    ) -> None:
        imgui.set_next_window_pos(imgui.ImVec2(rect.x, rect.y))
        imgui.set_next_window_size(imgui.ImVec2(max(rect.width, 1), max(rect.height, 1)))
        imgui.begin(name, None, _flags(scrolls, clear, front))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *fault: object) -> None:
        imgui.end()


@lru_cache(maxsize=8)
def _flags(scrolls: bool, clear: bool, front: bool) -> int:
    flags = int(_FIXED)
    if front:
        flags &= ~int(imgui.WindowFlags_.no_bring_to_front_on_focus)
    if scrolls:
        flags &= ~int(imgui.WindowFlags_.no_scrollbar)
    else:
        flags |= int(imgui.WindowFlags_.no_scroll_with_mouse)
    if clear:
        flags |= int(imgui.WindowFlags_.no_background)
    return flags


class font:
    """Text of `size` design pixels."""

    __slots__ = ()

    def __init__(self, style: Style, size: float, bold: bool = False) -> None:
        style.push(size, bold)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *fault: object) -> None:
        imgui.pop_font()


def area(name: str, width: float, height: float) -> bool:
    """An area to press, by mouse or by keyboard; whatever it looks like is drawn by others."""
    size = imgui.ImVec2(width, height)
    return bool(imgui.invisible_button(name, size, imgui.ButtonFlags_.enable_nav))


def esc_closes() -> None:
    """Called within an open list: Esc shuts it."""
    if imgui.is_key_pressed(imgui.Key.escape):
        imgui.close_current_popup()


def explained(
    style: Style, name: str, rect: Rect, lines: tuple[str, ...] | Callable[[], tuple[str, ...]]
) -> None:
    """Whoever points at `rect`, or comes there by keyboard, is told these lines.

    They may be given as what makes them: nobody points at most of what could be explained. The
    window's cursor stays where it was.
    """
    before = imgui.get_cursor_screen_pos()
    imgui.set_cursor_screen_pos(imgui.ImVec2(rect.x, rect.y))
    area(f"##why-{name}", max(rect.width, 1.0), max(rect.height, 1.0))
    if lines and imgui.is_item_hovered(imgui.HoveredFlags_.allow_when_disabled):
        told = lines() if callable(lines) else lines
        if told:
            explanation(style, told)
    imgui.set_cursor_screen_pos(before)


def explanation(style: Style, lines: tuple[str, ...]) -> None:
    """A tooltip: the first line is the sum, the others what is in it."""
    if imgui.begin_tooltip():
        text(lines[0], style.palette.text)
        with font(style, SMALL_SIZE):
            for line in lines[1:]:
                text(line, style.palette.dim)
        imgui.end_tooltip()


def text(words: str, color: Rgba) -> None:
    imgui.push_style_color(imgui.Col_.text, imgui.ImVec4(*color))
    imgui.text_unformatted(words)
    imgui.pop_style_color()


def wrapped(words: str, color: Rgba) -> None:
    """Text broken to the width of the panel."""
    imgui.push_style_color(imgui.Col_.text, imgui.ImVec4(*color))
    imgui.push_text_wrap_pos(0.0)
    imgui.text_unformatted(words)
    imgui.pop_text_wrap_pos()
    imgui.pop_style_color()


def elided(words: str, width: float) -> str:
    """`words`, cut with an ellipsis to fit `width` in the current font."""
    if imgui.calc_text_size(words).x <= width:
        return words
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if imgui.calc_text_size(words[:middle].rstrip() + "…").x <= width:
            low = middle
        else:
            high = middle - 1
    return words[:low].rstrip() + "…" if low else ""


def legible(words: str) -> str:
    """`words` with every character the current font lacks in its visible form, ⟨U+4E2D⟩."""
    if words.isascii():
        return words
    font = imgui.get_font()
    return "".join(
        char if ord(char) < 128 or font.is_glyph_in_font(ord(char)) else f"⟨U+{ord(char):04X}⟩"
        for char in words
    )


@lru_cache(maxsize=1024)
def u32(color: Rgba) -> int:
    """A colour as draw lists want it; asked for hundreds of times a frame, of a few colours."""
    return int(imgui.color_convert_float4_to_u32(imgui.ImVec4(*color)))


def icon_button(style: Style, icon: Icon, size: float, tip: str, active: bool = False) -> bool:
    """A square button with a drawn icon; `size` in window units."""
    palette = style.palette
    corner = imgui.get_cursor_screen_pos()
    pressed = area(f"##{icon}", size, size)
    hovered = imgui.is_item_hovered()
    if hovered:
        imgui.set_mouse_cursor(imgui.MouseCursor_.hand)
        imgui.set_item_tooltip(tip)
    canvas = imgui.get_window_draw_list()
    if hovered or active:
        fill = palette.raised if not imgui.is_item_active() else palette.line
        far = imgui.ImVec2(corner.x + size, corner.y + size)
        canvas.add_rect_filled(corner, far, u32(fill), 5 * style.unit)
    color = u32(palette.accent if active else palette.text)
    DRAWN[icon](canvas, corner.x + size / 2, corner.y + size / 2, size * 0.26, color)
    return pressed


def slider(
    style: Style, name: str, value: float | None, low: float, high: float, step: float
) -> float | None:
    """A thin line with a knob across the panel; returns the new value while it is dragged.

    Values are multiples of `step` above `low`; a value outside shows at the nearer end, and None
    as no knob at all.
    """
    unit, palette = style.unit, style.palette
    corner = imgui.get_cursor_screen_pos()
    width, height = imgui.get_content_region_avail().x, 22 * unit
    area(f"##{name}", width, height)
    knob = 8 * unit
    room = width - 2 * knob
    chosen = None
    if imgui.is_item_active():
        wanted = _pointed(corner.x + knob, room, low, high, step)
        chosen = wanted if value is None or abs(wanted - value) > step / 2 else None
    elif imgui.get_io().nav_active and imgui.is_item_focused():
        chosen = _stepped(value, low, high, step)
    lit = imgui.is_item_active() or imgui.is_item_hovered()
    shown = value if chosen is None else chosen
    share = 0.0 if shown is None else min(max((shown - low) / (high - low), 0.0), 1.0)
    x = corner.x + knob + room * share
    y = corner.y + height / 2
    strength = imgui.get_style().alpha  # follows begin_disabled
    _track(style, corner.x, x if shown is not None else corner.x, corner.x + width, y, strength)
    count = round((high - low) / step)
    if count <= 12:
        _ticks(style, corner.x + knob, room, y + 8 * unit, count, strength)
    if shown is None:
        return chosen
    ring = mixed(palette.accent, palette.text, 0.6 if lit else 0.0)
    canvas = imgui.get_window_draw_list()
    canvas.add_circle_filled(imgui.ImVec2(x, y), knob, u32(faded(ring, strength)))
    return chosen


def range_slider(
    style: Style, name: str, values: tuple[int, int], low: int, high: int
) -> tuple[int, int] | None:
    """A slider with two knobs, whole numbers: the one nearer to where it is pressed is moved.

    Arrow keys move the right knob, and with Shift the left one.
    """
    unit, palette = style.unit, style.palette
    corner = imgui.get_cursor_screen_pos()
    width, height = imgui.get_content_region_avail().x, 22 * unit
    area(f"##{name}", width, height)
    knob = 8 * unit
    room = width - 2 * knob
    first, last = values
    chosen = values
    if imgui.is_item_active():
        wanted = round(_pointed(corner.x + knob, room, low, high, 1))
        held, kept = imgui.get_id(name), imgui.get_state_storage()
        if imgui.is_item_activated():
            nearer = abs(wanted - first) < abs(wanted - last) or wanted < first
            kept.set_bool(held, nearer)
        left = kept.get_bool(held)
        chosen = (min(wanted, last), last) if left else (first, max(wanted, first))
    elif imgui.get_io().nav_active and imgui.is_item_focused():
        if imgui.get_io().key_shift:
            chosen = (round(_stepped(first, low, last, 1) or first), last)
        else:
            chosen = (first, round(_stepped(last, first, high, 1) or last))
    lit = imgui.is_item_active() or imgui.is_item_hovered()
    xs = [corner.x + knob + room * (each - low) / (high - low) for each in chosen]
    y = corner.y + height / 2
    strength = imgui.get_style().alpha  # follows begin_disabled
    _track(style, corner.x, corner.x, corner.x + width, y, strength)
    _track(style, xs[0], xs[1], xs[1], y, strength)
    _ticks(style, corner.x + knob, room, y + 8 * unit, high - low, strength)
    ring = u32(faded(mixed(palette.accent, palette.text, 0.6 if lit else 0.0), strength))
    for x in xs:
        imgui.get_window_draw_list().add_circle_filled(imgui.ImVec2(x, y), knob, ring)
    return chosen if chosen != values else None


def _pointed(left: float, room: float, low: float, high: float, step: float) -> float:
    """The value under the pointer, of a slider from `left` on."""
    share = (imgui.get_mouse_pos().x - left) / max(room, 1.0)
    return low + round(min(max(share, 0.0), 1.0) * (high - low) / step) * step


def _stepped(value: float | None, low: float, high: float, step: float) -> float | None:
    """The value an arrow key leads to, for whoever came to the slider by keyboard.

    Without a value it is the highest one.
    """
    imgui.set_item_key_owner(imgui.Key.left_arrow)
    imgui.set_item_key_owner(imgui.Key.right_arrow)
    steps = int(imgui.is_key_pressed(imgui.Key.right_arrow))
    steps -= int(imgui.is_key_pressed(imgui.Key.left_arrow))
    if value is None:
        return high if steps else None
    wanted = min(max(value + steps * step, low), high)
    return wanted if steps and wanted != value else None


def _track(style: Style, left: float, at: float, right: float, y: float, strength: float) -> None:
    canvas, half = imgui.get_window_draw_list(), 2 * style.unit
    for end, color in ((right, style.palette.line), (at, style.palette.accent)):
        canvas.add_rect_filled(
            imgui.ImVec2(left, y - half),
            imgui.ImVec2(end, y + half),
            u32(faded(color, strength)),
            half,
        )


def _ticks(style: Style, left: float, room: float, y: float, count: int, strength: float) -> None:
    canvas, color = imgui.get_window_draw_list(), u32(faded(style.palette.dim, 0.6 * strength))
    for index in range(count + 1):
        canvas.add_circle_filled(
            imgui.ImVec2(left + room * index / count, y), 1.2 * style.unit, color
        )


def segmented(
    style: Style,
    name: str,
    labels: tuple[str, ...],
    chosen: int,
    width: float = 0.0,
    small: bool = False,
) -> int | None:
    """Joined buttons of which one is chosen; returns the index pressed, or None.

    `width` in window units, 0 for all that is left. The chosen one is also set in bold. They are
    equally wide, unless one needs more room than that.
    """
    palette = style.palette
    full = width or imgui.get_content_region_avail().x
    text_size = SMALL_SIZE if small else BASE_SIZE
    height = 21 * style.unit if small else imgui.get_frame_height()
    widths = _shared(style, style.unit, labels, full, text_size)
    corner = imgui.get_cursor_screen_pos()
    canvas = imgui.get_window_draw_list()
    far = imgui.ImVec2(corner.x + full, corner.y + height)
    canvas.add_rect_filled(corner, far, u32(palette.raised), 5 * style.unit)
    imgui.begin_group()
    pressed, x = None, corner.x
    for index, (label, each) in enumerate(zip(labels, widths, strict=True)):
        at = imgui.ImVec2(x, corner.y)
        x += each
        imgui.set_cursor_screen_pos(at)
        if area(f"##{name}{index}", each, height):
            pressed = index
        hovered = imgui.is_item_hovered()
        if hovered:
            imgui.set_mouse_cursor(imgui.MouseCursor_.hand)
        if index == chosen or hovered:
            share = 0.55 if index == chosen else 0.15
            fill = mixed(palette.raised, style.role("committed"), share)
            end = imgui.ImVec2(at.x + each, at.y + height)
            canvas.add_rect_filled(at, end, u32(fill), 5 * style.unit)
        with font(style, text_size, bold=index == chosen):
            shown = elided(label, each - 4)
            size = imgui.calc_text_size(shown)
            place = imgui.ImVec2(at.x + (each - size.x) / 2, at.y + (height - size.y) / 2)
            canvas.add_text(place, u32(palette.text if index == chosen else palette.dim), shown)
    imgui.end_group()
    return pressed


@lru_cache(maxsize=64)
def _shared(
    style: Style, unit: float, labels: tuple[str, ...], full: float, size: float
) -> tuple[float, ...]:
    """`full` dealt out in equal parts; by the words where an equal part is too little.

    `unit` is the style's, by which its fonts are sized.
    """
    each = full / len(labels)
    with font(style, size, bold=True):
        wanted = [imgui.calc_text_size(label).x + 6 for label in labels]
    if max(wanted) <= each:
        return (each,) * len(labels)
    return tuple(full * one / sum(wanted) for one in wanted)


def fitted(words: str, width: float, lines: int) -> str:
    """`words` broken into at most `lines` lines of `width`, the rest cut with an ellipsis.

    In the regular font, at its present size.
    """
    density = imgui.get_io().display_framebuffer_scale.x
    return _fitted(words, width, lines, (imgui.get_font_size(), density))


@lru_cache(maxsize=64)
def _fitted(words: str, width: float, lines: int, size: FontSize) -> str:
    """`size` is that of the font it is measured in."""
    rows: list[str] = []
    for word in words.split(" "):
        longer = f"{rows[-1]} {word}" if rows else word
        if rows and imgui.calc_text_size(longer).x <= width:
            rows[-1] = longer
        elif len(rows) < lines:
            rows.append(word)
        else:
            rows[-1] = elided(rows[-1].rstrip(" ,;:.") + "… ", width).rstrip()
            break
    return "\n".join(rows)


def pill(style: Style, right: float, y: float, words: str, color: Rgba, dot: bool) -> Rect:
    """A badge whose right edge is at `right`; returns the rectangle it fills."""
    canvas = imgui.get_window_draw_list()
    unit = style.unit
    with font(style, 15, bold=True):
        size = imgui.calc_text_size(words)
        lead = 18 * unit if dot else 0.0
        width, height = size.x + lead + 20 * unit, size.y + 8 * unit
        x = right - width
        low, high = imgui.ImVec2(x, y), imgui.ImVec2(right, y + height)
        canvas.add_rect_filled(low, high, u32((*style.palette.panel[:3], 0.9)), height / 2)
        canvas.add_rect(low, high, u32(color), height / 2, 1.5 * unit)
        if dot:
            middle = imgui.ImVec2(x + 16 * unit, y + height / 2)
            canvas.add_circle_filled(middle, 4.5 * unit, u32(color))
        canvas.add_text(imgui.ImVec2(x + 10 * unit + lead, y + 4 * unit), u32(color), words)
    return Rect(x, y, width, height)
