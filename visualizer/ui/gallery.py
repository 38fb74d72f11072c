"""The drafter gallery, over everything until G or Esc: a card a drafter, and how they compare."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import imgui

from engine.families import VLLM_VERSION
from visualizer import actions as act
from visualizer.gallery import Exhibit, GalleryView
from visualizer.keymap import keys_of
from visualizer.ui import comparison, grammars, readouts, widgets
from visualizer.ui.layout import Layout, Rect
from visualizer.ui.model import UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE, mixed

WIDTH, HEIGHT = 1340.0, 790.0  # most, design pixels
DETAIL = 392.0  # width of the card that is open
CARD = (204.0, 74.0)  # least width and height of a card
TALLEST = 98.0
GAP = 8.0
WIDE = 760.0  # a gallery less wide has the open card below the others
TABS: tuple[tuple[act.Tab, str], ...] = (("cards", "Gallery"), ("compare", "Live comparison"))
UNKNOWN = "–"


def draw(ui: Ui, layout: Layout, model: UiModel, view: GalleryView) -> None:
    unit = ui.style.unit
    width, height = min(WIDTH * unit, layout.width * 0.96), min(HEIGHT * unit, layout.height * 0.95)
    rect = Rect((layout.width - width) / 2, (layout.height - height) / 2, width, height)
    ui.marks["gallery"] = rect
    imgui.push_style_color(imgui.Col_.window_bg, imgui.ImVec4(*ui.style.palette.panel))
    imgui.push_style_var(imgui.StyleVar_.window_rounding, 10 * unit)
    imgui.push_style_var(imgui.StyleVar_.window_padding, imgui.ImVec2(20 * unit, 14 * unit))
    imgui.push_style_var(imgui.StyleVar_.window_border_size, max(unit, 1.0))
    with widgets.panel("gallery", rect, front=True):
        opening = imgui.is_window_appearing()
        if opening:
            imgui.set_window_focus()
        _head(ui, model, opening)
        if model.state.gallery.tab == "compare":
            comparison.draw(ui, model, view, opening)
        else:
            _cards(ui, model, view, opening)
        low, high = imgui.ImVec2(rect.x, rect.y), imgui.ImVec2(rect.right, rect.bottom)
        beside = not imgui.is_mouse_hovering_rect(low, high, False)
        if beside and imgui.is_mouse_clicked(imgui.MouseButton_.left) and not opening:
            ui.emit(act.ToggleGallery())
    imgui.pop_style_var(3)
    imgui.pop_style_color()


def _head(ui: Ui, model: UiModel, opening: bool) -> None:
    unit, palette, tab = ui.style.unit, ui.style.palette, model.state.gallery.tab
    left, room = imgui.get_cursor_pos_x(), imgui.get_content_region_avail().x
    button, top = imgui.get_frame_height(), imgui.get_cursor_screen_pos().y
    imgui.align_text_to_frame_padding()
    with widgets.font(ui.style, 20, bold=True):
        widgets.text("Drafters", palette.text)
        title = imgui.get_item_rect_size().x
    tabs = min(330 * unit, room - title - button - 170 * unit)
    imgui.same_line(left + title + 22 * unit)
    names = [each for each, _ in TABS]
    pressed = widgets.segmented(
        ui.style, "tab", tuple(title for _, title in TABS), names.index(tab), tabs
    )
    ui.mark("tabs")
    if pressed is not None and names[pressed] != tab:
        ui.emit(act.OpenGallery(names[pressed]))
    right = imgui.get_window_pos().x + left + room - button - 14 * unit
    readouts.badge(ui, right, top, model.badge)
    imgui.same_line(left + room - button)
    if widgets.icon_button(ui.style, "close", button, f"{keys_of(act.ToggleGallery())} or Esc"):
        ui.emit(act.ToggleGallery())
    ui.mark("close-gallery")
    if imgui.is_key_pressed(imgui.Key.g, False) and not opening:
        ui.emit(act.ToggleGallery())
    imgui.dummy(imgui.ImVec2(0, 2 * unit))


def _cards(ui: Ui, model: UiModel, view: GalleryView, opening: bool) -> None:
    unit, room = ui.style.unit, imgui.get_content_region_avail()
    wide = room.x >= WIDE * unit
    if wide:
        wall = imgui.ImVec2(room.x - (DETAIL + 2 * GAP) * unit, room.y)
        detail = imgui.ImVec2(0, room.y)
    else:
        wall = imgui.ImVec2(room.x, max(room.y * 0.45, min(CARD[1] * unit, room.y)))
        detail = imgui.ImVec2(room.x, 0)
    imgui.begin_child("wall", wall, imgui.ChildFlags_.nav_flattened)
    _wall(ui, model, view, opening)
    imgui.end_child()
    if wide:
        imgui.same_line(0.0, 2 * GAP * unit)
    imgui.push_style_var(imgui.StyleVar_.window_padding, imgui.ImVec2(18 * unit, 14 * unit))
    flags = imgui.ChildFlags_.nav_flattened | imgui.ChildFlags_.borders
    imgui.begin_child("open-card", detail, flags)
    _open_card(ui, model, view)
    imgui.end_child()
    imgui.pop_style_var()


# --- the wall ------------------------------------------------------------------------------


def _wall(ui: Ui, model: UiModel, view: GalleryView, opening: bool) -> None:
    unit = ui.style.unit
    room = imgui.get_content_region_avail().x
    gap = GAP * unit
    columns = max(int((room + gap) / (CARD[0] * unit + gap)), 1)
    rows = -(-len(view.exhibits) // columns)
    share = (imgui.get_content_region_avail().y + gap) / rows - gap
    height = min(max(share, CARD[1] * unit), TALLEST * unit)
    width = (room - gap * (columns - 1)) / columns
    corner = imgui.get_cursor_screen_pos()
    for index, each in enumerate(view.exhibits):
        row, column = divmod(index, columns)
        x, y = corner.x + column * (width + gap), corner.y + row * (height + gap)
        _card(ui, model, view, each, Rect(x, y, width, height), opening)
    imgui.set_cursor_screen_pos(corner)
    imgui.dummy(imgui.ImVec2(1, rows * (height + gap) - gap))


def _card(
    ui: Ui, model: UiModel, view: GalleryView, each: Exhibit, rect: Rect, opening: bool
) -> None:
    imgui.set_cursor_screen_pos(imgui.ImVec2(rect.x, rect.y))
    pressed = widgets.area(f"##card-{each.name}", rect.width, rect.height)
    ui.mark(f"card-{each.name}")
    chosen = each is view.chosen
    if chosen and opening:
        imgui.set_item_default_focus()
    lit = imgui.is_item_hovered()
    by_mouse = lit and imgui.is_mouse_double_clicked(imgui.MouseButton_.left)
    by_key = pressed and not imgui.is_mouse_released(imgui.MouseButton_.left)
    if by_mouse or by_key:
        _use(ui, model, view, each)
    elif not chosen and (pressed or (imgui.is_item_focused() and not opening)):
        ui.emit(act.ChooseCard(each.name))
    if imgui.is_item_visible():
        _face(ui, each, rect, chosen, lit)


def _use(ui: Ui, model: UiModel, view: GalleryView, each: Exhibit) -> None:
    """Draft with it from the next round not yet shown, and show that."""
    if view.live and each.offered:
        settings = replace(model.state.settings, drafter=each.name, speculative=True)
        ui.emit(act.ChangeSettings(settings))
        ui.emit(act.ToggleGallery())


def _face(ui: Ui, each: Exhibit, rect: Rect, chosen: bool, lit: bool) -> None:
    style, unit, palette = ui.style, ui.style.unit, ui.style.palette
    canvas = imgui.get_window_draw_list()
    low, high = imgui.ImVec2(rect.x, rect.y), imgui.ImVec2(rect.right, rect.bottom)
    share = 0.34 if chosen else 0.12 if lit else 0.0
    fill = mixed(palette.raised, style.role("committed"), share)
    canvas.add_rect_filled(low, high, widgets.u32(fill), 7 * unit)
    if each.in_use or chosen:
        edge = palette.accent if each.in_use else palette.dim
        canvas.add_rect(low, high, widgets.u32(edge), 7 * unit, 1.6 * unit)
    size = 40 * unit
    grammars.draw(style, each.about, rect.x + 14 * unit + size / 2, rect.y + rect.height / 2, size)
    x, room = rect.x + 28 * unit + size, rect.width - 36 * unit - size
    quiet = palette.text if chosen else palette.dim
    lines = (
        (each.about.title, 16.0, True, palette.text),
        (f"{each.name} · in use" if each.in_use else each.name, SMALL_SIZE, False,
         style.ink("guess") if each.in_use and not chosen else quiet),
        (told(each), SMALL_SIZE, False, palette.text if each.measured else quiet),
    )  # fmt: skip
    y = rect.y + rect.height / 2 - 29 * unit
    for words, points, bold, color in lines:
        with widgets.font(style, points, bold):
            canvas.add_text(imgui.ImVec2(x, y), widgets.u32(color), widgets.elided(words, room))
            y += imgui.get_text_line_height() * 1.17


def told(each: Exhibit) -> str:
    """The figures on a card's face: measured in this show, else those of its own card."""
    done, card = each.measured, each.card
    if done is not None and done.acceptance_rate is not None:
        return f"{done.acceptance_rate:.0%} · {done.tokens_per_round:.2f} a round"
    if card is not None and card.tokens_per_round is not None:
        return f"card: {card.tokens_per_round:.2f} a round"
    return "" if each.about.family == "none" else "not used yet"


# --- the open card -------------------------------------------------------------------------


def _open_card(ui: Ui, model: UiModel, view: GalleryView) -> None:
    each, unit, palette = view.chosen, ui.style.unit, ui.style.palette
    size = 52 * unit
    corner = imgui.get_cursor_screen_pos()
    middle = corner.x + imgui.get_content_region_avail().x - size / 2
    grammars.draw(ui.style, each.about, middle, corner.y + size / 2, size)
    with widgets.font(ui.style, 20, bold=True):
        widgets.text(widgets.elided(each.about.title, middle - corner.x - size * 0.6), palette.text)
    with widgets.font(ui.style, SMALL_SIZE):
        widgets.text(each.name, ui.style.ink("guess"))
    imgui.dummy(imgui.ImVec2(0, 2 * unit))
    _use_button(ui, model, view, each)
    with widgets.font(ui.style, SMALL_SIZE):
        imgui.dummy(imgui.ImVec2(0, 1 * unit))
        widgets.wrapped(each.about.blurb, palette.text)
    with widgets.font(ui.style, SMALL_SIZE):
        _section(ui, "Measured in this show")
        _rows(ui, measured_rows(each, view), "Nothing yet: let it guess for a few rounds.")
        if each.about.family != "none":
            _section(ui, "On its card, prompts it never saw")
            untrained = "It has no card: nothing of it was trained."
            none = "It has no card of its own." if each.about.trained else untrained
            _rows(ui, card_rows(each), none)
        _section(ui, f"vLLM {VLLM_VERSION}: speculative-config")
        _vllm(ui, each, view)


def _use_button(ui: Ui, model: UiModel, view: GalleryView, each: Exhibit) -> None:
    if not view.live:
        with widgets.font(ui.style, SMALL_SIZE):
            widgets.wrapped("A recording has no engine to switch.", ui.style.palette.dim)
        return
    label = "In use" if each.in_use else "Use this drafter"
    imgui.begin_disabled(each.in_use or not each.offered)
    imgui.push_style_color(imgui.Col_.button, imgui.ImVec4(*ui.style.role("committed")))
    imgui.push_style_color(imgui.Col_.text, imgui.ImVec4(1.0, 1.0, 1.0, 1.0))
    with widgets.font(ui.style, 16, bold=True):
        if imgui.button(f"{label}##use", imgui.ImVec2(-1, 0)):
            _use(ui, model, view, each)
    imgui.pop_style_color(2)
    imgui.end_disabled()
    ui.mark("use")
    if not each.in_use:
        imgui.set_item_tooltip("From the next round that is not on screen yet.\nEnter on its card")


def measured_rows(each: Exhibit, view: GalleryView) -> tuple[tuple[str, str], ...]:
    """What this show has measured with it: in its runs, then in the comparison."""
    rows: list[tuple[str, str]] = []
    done = each.measured
    if done is not None and done.rounds:
        rows += [
            ("guesses accepted", _share(done.acceptance_rate)),
            ("tokens a round", _plain(done.tokens_per_round, ".2f")),
            ("a step, in passes", _plain(done.step_cost, ".3f")),
            ("rounds", f"{done.rounds:,}"),
        ]
    row = next((row for row in view.rows if row.drafter == each.name and row.measured), None)
    if row is not None and view.comparison is not None:
        rows.append(("compared: tokens a second", _plain(row.tokens_per_second, ".1f")))
        rows.append(("compared: speedup", comparison.speed(row.speedup)))
    return tuple(rows)


def card_rows(each: Exhibit) -> tuple[tuple[str, str], ...]:
    card = each.card
    if card is None:
        return ()
    rows = (
        ("tokens a round, K 4", _plain(card.tokens_per_round, ".2f")),
        ("first guess right", _share(card.match)),
        ("accepted at T 0.7", _share(card.alpha)),
        ("a step, in passes", _plain(card.step_cost, ".3f")),
        ("token visits in training", f"{card.visits:,}" if card.visits else UNKNOWN),
    )
    return tuple(row for row in rows if row[1] != UNKNOWN)


def _section(ui: Ui, title: str) -> None:
    imgui.dummy(imgui.ImVec2(0, 5 * ui.style.unit))
    with widgets.font(ui.style, SMALL_SIZE, bold=True):
        widgets.text(title, ui.style.palette.text)


def _rows(ui: Ui, rows: tuple[tuple[str, str], ...], none: str) -> None:
    palette, room = ui.style.palette, imgui.get_content_region_avail().x
    left = imgui.get_cursor_pos_x()
    if not rows:
        widgets.wrapped(none, palette.dim)
    for label, value in rows:
        widgets.text(widgets.elided(label, room * 0.74), palette.dim)
        imgui.same_line(left + room - imgui.calc_text_size(value).x)
        widgets.text(value, palette.text)


def _vllm(ui: Ui, each: Exhibit, view: GalleryView) -> None:
    palette, unit = ui.style.palette, ui.style.unit
    line = each.about.vllm.line(view.k, view.sampled)
    if line is not None:
        imgui.push_style_color(imgui.Col_.child_bg, imgui.ImVec4(*palette.raised))
        imgui.push_style_var(imgui.StyleVar_.window_padding, imgui.ImVec2(10 * unit, 7 * unit))
        flags = imgui.ChildFlags_.auto_resize_y | imgui.ChildFlags_.always_use_window_padding
        imgui.begin_child("vllm-line", imgui.ImVec2(0, 0), flags)
        room = imgui.get_content_region_avail().x
        widgets.text(widgets.fitted(line, room, 6), palette.text)  # broken between words alone
        imgui.end_child()
        imgui.pop_style_var()
        imgui.pop_style_color()
        if imgui.button("Copy the line##vllm"):
            ui.emit(act.CopyText(line, f"The line for vLLM {VLLM_VERSION} is in the clipboard"))
        ui.mark("copy-vllm")
    widgets.wrapped(each.about.vllm.note, palette.dim)


def _plain(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"
