"""The microscope's drawer: why this token, what that pass cost, the whole check as a table."""

from __future__ import annotations

from imgui_bundle import imgui

from engine.trace import Candidate, Emitted, Guess
from visualizer import actions as act
from visualizer import microscope as facts
from visualizer.microscope import Specimen, prob
from visualizer.stage import pick, tree
from visualizer.stage.layout import closing_role
from visualizer.stage.text import visible
from visualizer.stage.theme import EMBLEMS
from visualizer.ui import laws, widgets
from visualizer.ui.laws import Column
from visualizer.ui.layout import Rect
from visualizer.ui.model import Outline, UiModel
from visualizer.ui.panel import Ui
from visualizer.ui.style import SMALL_SIZE, faded

_RESIDUAL = "Residual: max(0, target − draft), made to sum to 1."
_GLYPHS = {"accepted": "✔", "rejected": "✘", "discarded": "–"}


def draw(ui: Ui, rect: Rect, model: UiModel) -> None:
    """Fill `rect`; nothing while the drawer is shut."""
    what = model.specimen
    if what is None:
        return
    ui.marks["microscope"] = rect
    with widgets.panel("microscope", rect, scrolls=True):
        _head(ui, what)
        if what.known == "nothing":
            widgets.wrapped(facts.verdict(what), ui.style.palette.dim)
        elif what.guess is not None:
            _guess(ui, what, what.guess)
        elif what.emitted is not None:
            _emitted(ui, what, what.emitted)
        elif what.slot == pick.CHECK:
            _check(ui, what)
        elif what.slot == pick.PASS:
            _pass(ui, what)
        else:
            _steps(ui, what)


def _head(ui: Ui, what: Specimen) -> None:
    unit, palette = ui.style.unit, ui.style.palette
    size = 26 * unit
    start = imgui.get_cursor_pos()
    room = imgui.get_content_region_avail().x
    with widgets.font(ui.style, 18, bold=True):
        widgets.text(widgets.elided(facts.name(what), room - 3 * size), palette.text)
    below = imgui.get_cursor_pos()
    imgui.set_cursor_pos(imgui.ImVec2(start.x + room - 3 * size, start.y - 3 * unit))
    if widgets.icon_button(ui.style, "up", size, "One before (↑)"):
        ui.emit(act.InspectNext(-1))
    imgui.same_line(0, 0)
    if widgets.icon_button(ui.style, "down", size, "Next (↓)"):
        ui.emit(act.InspectNext(1))
    ui.mark("microscope-next")
    imgui.same_line(0, 0)
    if widgets.icon_button(ui.style, "close", size, "Close (Esc)"):
        ui.emit(act.Select(0))
    ui.mark("microscope-close")
    imgui.set_cursor_pos(below)
    with widgets.font(ui.style, SMALL_SIZE):
        where = f"round {what.round.index + 1}"
        if facts.token_of(what) is not None:
            where += f" · position {what.position} in the text"
        widgets.text(where, palette.dim)
    _space(ui, 2)


# --- a token -------------------------------------------------------------------------------


def _guess(ui: Ui, what: Specimen, guess: Guess) -> None:
    _chip(ui, what)
    widgets.wrapped(facts.verdict(what), ui.style.ink(what.role))
    if facts.kinship(what):
        _note(ui, facts.kinship(what))
    weighed = what.known in ("weighed", "judged")
    elder = tree.elder(what.round, what.slot)
    wanted = "still owed" if elder else "target"
    if weighed:
        _space(ui, 2)
        laws.number_line(ui, guess.accept_prob, guess.draw if what.known == "judged" else None)
        _note(ui, facts.rule(guess, wanted))
    _section(ui, "What each thought of it")
    drafted = Candidate(guess.token, guess.draft_prob)
    title = f"draft law {prob(guess.draft_prob)}"
    columns = [Column(title, guess.draft_law, "guess", drafted)]
    if weighed:
        title = f"{wanted if elder else 'target law'} {prob(guess.target_prob)}"
        asked = Candidate(guess.token, guess.target_prob)
        columns.append(Column(title, guess.target_law, "target", asked))
    laws.side_by_side(ui, tuple(columns), {guess.token.id: what.role})
    if what.round.settings.temperature == 0:
        _note(ui, "At temperature 0 a law is one token: the likeliest one.")
    if facts.confidence(what):
        _note(ui, facts.confidence(what))
    if weighed and elder:
        _elders(ui, what, guess, elder)
    if guess.verdict == "rejected" and what.known == "judged":
        _residual(ui, what)
    _section(ui, "Where it came from")
    _origin(ui, what, guess)
    if weighed:
        _note(ui, facts.milliseconds(what))


def _elders(ui: Ui, what: Specimen, guess: Guess, elder: tuple[int, ...]) -> None:
    """What the target wanted at first, and what the refusal of elder siblings leaves of it."""
    _section(ui, "What elder siblings leave of it")
    others = [what.round.guesses[slot] for slot in elder]
    laws.side_by_side(
        ui,
        (
            Column("target law", others[0].target_law, "target"),
            Column("still owed", guess.target_law, "target"),
        ),
        {**{each.token.id: "rejected" for each in others}, guess.token.id: what.role},
    )
    _note(ui, "Each refusal takes a draft law off it; the rest is made to sum to 1.")


def _residual(ui: Ui, what: Specimen) -> None:
    """The law of the token that takes a rejected one's place, and which it was once it landed."""
    emitted, last = what.round.emitted, (tree.ROOT, *what.round.path)[-1]
    if emitted is None or emitted.kind != "recovered" or what.round.parents[what.slot] != last:
        return
    _section(ui, "What took its place" if what.landed else "What will take its place")
    drawn = Candidate(emitted.token, emitted.prob) if what.landed else None
    column = Column("residual law", emitted.law, "correction", drawn)
    laws.side_by_side(ui, (column,), {emitted.token.id: "correction"} if what.landed else {})
    _note(ui, _RESIDUAL)


def _origin(ui: Ui, what: Specimen, guess: Guess) -> None:
    _note(ui, facts.source(what, guess))
    if guess.origin is None:
        return
    quoted = facts.quotation(what.timeline, guess.origin)
    if quoted is None:
        return
    with widgets.font(ui.style, SMALL_SIZE):
        words = (
            ("“…" + _flat(quoted.before), ui.style.palette.dim),
            (f"[{quoted.token}]", ui.style.ink("guess")),
            (_flat(quoted.after) + "…”", ui.style.palette.dim),
        )
        corner, room = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
        _flow(words)
        below = imgui.get_cursor_screen_pos()
    there = facts.written_at(what.timeline, guess.origin)
    if not there:
        return  # quoted from the prompt, which was not written by anybody here
    imgui.set_cursor_screen_pos(corner)
    if widgets.area("##quoted", room, max(below.y - corner.y, 1.0)):
        ui.emit(act.Select(there))
    if imgui.is_item_hovered():
        imgui.set_mouse_cursor(imgui.MouseCursor_.hand)
        imgui.set_item_tooltip("Look at this word")
    ui.mark("quoted")
    imgui.set_cursor_screen_pos(below)


def _emitted(ui: Ui, what: Specimen, emitted: Emitted) -> None:
    _chip(ui, what)
    widgets.wrapped(facts.verdict(what), ui.style.palette.text)
    if emitted.prob < 1.0:
        _note(ui, f"Its probability {prob(emitted.prob)}, chosen by the draw {emitted.draw:.3f}")
    marks = {emitted.token.id: what.role}
    drawn = Candidate(emitted.token, emitted.prob)
    recovered = emitted.kind == "recovered"
    columns = [Column("target law", emitted.target_law, "target", None if recovered else drawn)]
    if recovered:
        columns.insert(0, Column("residual law", emitted.law, "correction", drawn))
    _section(ui, "What it was drawn from")
    laws.side_by_side(ui, tuple(columns), marks)
    if recovered:
        _note(ui, _RESIDUAL)
    _section(ui, "Cost")
    _note(ui, facts.milliseconds(what))


def _chip(ui: Ui, what: Specimen) -> None:
    """The token on its block, as on stage."""
    token = facts.token_of(what)
    if token is None:
        return
    unit = ui.style.unit
    solid = what.role in ("committed", "correction", "bonus", "target", "rejected")
    color = ui.style.role("committed" if what.role == "target" else what.role)
    canvas = imgui.get_window_draw_list()
    corner = imgui.get_cursor_screen_pos()
    room = imgui.get_content_region_avail().x
    emblem = EMBLEMS.get(what.role, "")
    with widgets.font(ui.style, 22, bold=True):
        words = widgets.legible(visible(token.text)) + (f"  {emblem}" if emblem else "")
        words = widgets.elided(words, room - 24 * unit)
        size = imgui.calc_text_size(words)
        far = imgui.ImVec2(corner.x + size.x + 24 * unit, corner.y + size.y + 12 * unit)
        fill = color if solid else faded(color, 0.25)
        canvas.add_rect_filled(corner, far, widgets.u32(fill), 5 * unit)
        canvas.add_rect(corner, far, widgets.u32(color), 5 * unit, 1.5 * unit)
        ink = ui.style.role("engraved") if solid else ui.style.palette.text
        place = imgui.ImVec2(corner.x + 12 * unit, corner.y + 6 * unit)
        canvas.add_text(place, widgets.u32(ink), words)
    with widgets.font(ui.style, SMALL_SIZE):
        number = f"id {token.id}"
        wide = imgui.calc_text_size(number).x
        if far.x + wide + 10 * unit < corner.x + room:
            place = imgui.ImVec2(corner.x + room - wide, corner.y + 10 * unit)
            canvas.add_text(place, widgets.u32(ui.style.palette.dim), number)
    imgui.dummy(imgui.ImVec2(room, size.y + 16 * unit))


# --- a check, a pass, a proposal -----------------------------------------------------------


def _check(ui: Ui, what: Specimen) -> None:
    each, branched = what.round, tree.branched(what.round)
    flags = imgui.TableFlags_.row_bg | imgui.TableFlags_.sizing_stretch_prop
    with widgets.font(ui.style, SMALL_SIZE):
        if imgui.begin_table("check", 6, flags):
            imgui.table_setup_column("guess", imgui.TableColumnFlags_.width_stretch, 1.8)
            for title in ("draft", "target", "accept", "draw"):
                imgui.table_setup_column(title, imgui.TableColumnFlags_.width_stretch, 1.2)
            imgui.table_setup_column("", imgui.TableColumnFlags_.width_stretch, 0.5)
            imgui.table_headers_row()
            deep = tree.depths(each.parents) if branched else (0,) * len(each.guesses)
            for slot in tree.walk(each.parents):
                _check_row(ui, what, slot, deep[slot])
            imgui.end_table()
    ui.mark("check")
    if each.emitted is not None and what.landed:
        role = closing_role(each)
        word = widgets.legible(visible(each.emitted.token.text))
        kind = "Correction" if role == "correction" else "Bonus"
        widgets.wrapped(f"{kind} {EMBLEMS.get(role, '')} “{word}”", ui.style.ink(role))
    tried = (
        "siblings are tried from the top, for what elder ones leave"
        if branched
        else ("after the first rejection nothing is judged")
    )
    _note(ui, f"Accepted when draw × draft < target; {tried}.")
    if what.known == "judged":
        _note(ui, facts.milliseconds(what))


def _check_row(ui: Ui, what: Specimen, slot: int, deep: int) -> None:
    """One guess; in a tree it stands under the one it follows, `deep` steps in."""
    guess, known = what.round.guesses[slot], what.guesses_known[slot]
    weighed, judged = known in ("weighed", "judged"), known == "judged"
    imgui.table_next_row()
    imgui.table_next_column()
    word = widgets.legible(visible(guess.token.text)) if known != "nothing" else "…"
    flags = imgui.SelectableFlags_.span_all_columns
    if imgui.selectable(f"{'    ' * deep}{word}##{slot}", False, flags)[0]:
        ui.emit(act.Select(pick.encode(what.round.index, slot)))
    draw = f"{guess.draw:.3f}" if judged and guess.draw is not None else "–"
    cells = (
        prob(guess.draft_prob) if known != "nothing" else "",
        prob(guess.target_prob) if weighed else "",
        prob(guess.accept_prob) if weighed else "",
        draw if judged else "",
    )
    for cell in cells:
        imgui.table_next_column()
        widgets.text(cell, ui.style.palette.text)
    imgui.table_next_column()
    role = {"accepted": "committed"}.get(guess.verdict, guess.verdict)
    widgets.text(_GLYPHS[guess.verdict] if judged else "", ui.style.ink(role))


def _pass(ui: Ui, what: Specimen) -> None:
    each, header = what.round, what.header
    baseline = header.baseline if header is not None else None
    if what.known != "judged":
        widgets.wrapped("The pass is running.", ui.style.palette.text)
        return
    positions = len(each.guesses) + 1
    many = f"{positions} positions" if positions > 1 else "1 position"
    rows = [(f"this pass, {many}", each.verify_seconds, "target")]
    if baseline is not None:
        alone = f"alone, 1 position (median of {baseline.passes})"
        rows.append((alone, baseline.pass_seconds, "prompt"))
    if each.guesses:
        rows.append(("drafting, this round", each.draft_seconds, "drafter"))
    laws.measured_bars(ui, tuple(rows))
    tokens = len(each.committed)
    words = f"{tokens} token{'s' * (tokens != 1)} from one pass"
    if tokens:
        words += f": {1e3 * each.seconds / tokens:.1f} ms a token with the drafting"
    if baseline is not None:
        words += f", {1e3 * baseline.pass_seconds:.1f} ms alone"
    widgets.wrapped(words + ".", ui.style.palette.text)
    if baseline is not None and each.guesses:
        ratio = each.verify_seconds / baseline.pass_seconds
        _note(ui, f"{many} cost {ratio:.2f} times one: the weights are read once for all.")
    if each.cold:
        _note(ui, "The drafter's first round: left out of every rate of time.")
    _history(ui, what)


def _history(ui: Ui, what: Specimen) -> None:
    """The passes so far as a row of thin bars; this one stands out."""
    rounds = what.timeline.rounds[max(what.round.index - 59, 0) : what.round.index + 1]
    if len(rounds) < 2:
        return
    unit = ui.style.unit
    _section(ui, f"The last {len(rounds)} passes")
    corner, width = imgui.get_cursor_screen_pos(), imgui.get_content_region_avail().x
    height = 56 * unit
    longest = max(each.verify_seconds for each in rounds)
    step = min(width / len(rounds), 14 * unit)
    canvas = imgui.get_window_draw_list()
    for index, each in enumerate(rounds):
        tall = height * each.verify_seconds / longest if longest > 0 else 0.0
        last = index == len(rounds) - 1
        color = ui.style.role("target") if last else faded(ui.style.palette.dim, 0.6)
        canvas.add_rect_filled(
            imgui.ImVec2(corner.x + index * step, corner.y + height - tall),
            imgui.ImVec2(corner.x + (index + 1) * step - unit, corner.y + height),
            widgets.u32(color),
        )
    imgui.dummy(imgui.ImVec2(width, height))
    _note(ui, f"longest {1e3 * longest:.1f} ms")


def _steps(ui: Ui, what: Specimen) -> None:
    each, kind = what.round, facts.drafter(what)
    if kind is not None:
        widgets.wrapped(kind.title, ui.style.ink("drafter"))
        _note(ui, kind.blurb)
        _space(ui, 2)
    if not each.guesses:
        widgets.wrapped("The drafter looked and found nothing to guess.", ui.style.palette.text)
    steps = each.draft_step_seconds
    names = [visible(guess.token.text) for guess in each.guesses]
    own = len(steps) == len(names)
    known = [
        (names[index] if own else f"{facts.at_once(each)} for all", seconds, "drafter")
        for index, seconds in enumerate(steps)
        if not own or what.guesses_known[index] != "nothing"
    ]
    laws.measured_bars(ui, tuple(known))
    header = what.header
    if each.guesses:
        _origin(ui, what, each.guesses[0])
    if what.known == "judged" and header is not None and header.baseline is not None and steps:
        share = each.draft_seconds / header.baseline.pass_seconds
        _note(ui, f"In all {1e3 * each.draft_seconds:.2f} ms: {share:.2f} of a target pass alone.")


# --- on the stage --------------------------------------------------------------------------


def outline(ui: Ui, around: Outline, strong: bool) -> None:
    """Corners around something on the stage."""
    unit = ui.style.unit
    color = widgets.u32(faded(ui.style.palette.text, 1.0 if strong else 0.55))
    left, top, right, bottom = around
    pad = 6 * unit
    left, top, right, bottom = left - pad, top - pad, right + pad, bottom + pad
    arm = min(14 * unit, (right - left) / 3, (bottom - top) / 3)
    canvas = imgui.get_background_draw_list()
    thick = (2.5 if strong else 1.5) * unit
    for x, across in ((left, arm), (right, -arm)):
        for y, down in ((top, arm), (bottom, -arm)):
            canvas.add_line(imgui.ImVec2(x, y), imgui.ImVec2(x + across, y), color, thick)
            canvas.add_line(imgui.ImVec2(x, y), imgui.ImVec2(x, y + down), color, thick)


def tip(ui: Ui, what: Specimen) -> None:
    """What the pointer rests on, in two lines beside it."""
    token = facts.token_of(what)
    word = f"“{widgets.legible(visible(token.text))}”  " if token is not None else ""
    if imgui.begin_tooltip():
        title = f"{word}{facts.name(what)} · round {what.round.index + 1}"
        widgets.text(title, ui.style.palette.text)
        with widgets.font(ui.style, SMALL_SIZE):
            said = facts.verdict(what)
            if said:
                widgets.text(said, ui.style.palette.dim)
            if sure := facts.confidence(what):
                widgets.text(sure, ui.style.palette.dim)
            widgets.text("Click: the microscope", ui.style.palette.dim)
        imgui.end_tooltip()


# --- rows ----------------------------------------------------------------------------------


def _section(ui: Ui, title: str) -> None:
    _space(ui, 5)
    with widgets.font(ui.style, SMALL_SIZE):
        widgets.text(title, ui.style.palette.dim)
    low = imgui.get_item_rect_max()
    right = imgui.get_window_pos().x + imgui.get_window_width() - 14 * ui.style.unit
    y = low.y - imgui.get_text_line_height() / 2 + 2 * ui.style.unit
    start = imgui.ImVec2(low.x + 8 * ui.style.unit, y)
    canvas = imgui.get_window_draw_list()
    canvas.add_line(start, imgui.ImVec2(right, y), widgets.u32(ui.style.palette.line), 1.0)


def _note(ui: Ui, words: str) -> None:
    with widgets.font(ui.style, SMALL_SIZE):
        widgets.wrapped(words, ui.style.palette.dim)


def _flow(pieces: tuple[tuple[str, tuple[float, float, float, float]], ...]) -> None:
    """Words of several colours, broken between words to the width of the panel."""
    right = imgui.get_cursor_screen_pos().x + imgui.get_content_region_avail().x
    first = True
    for words, color in pieces:
        for word in words.replace("\n", " ↵ ").split(" "):
            shown = widgets.legible(word)
            end = imgui.get_item_rect_max().x + imgui.calc_text_size(f" {shown}").x
            if not first and end < right:
                imgui.same_line(0, imgui.calc_text_size(" ").x)
            widgets.text(shown, color)
            first = False


def _flat(words: str) -> str:
    return words.strip()


def _space(ui: Ui, height: float) -> None:
    imgui.dummy(imgui.ImVec2(0, height * ui.style.unit))
