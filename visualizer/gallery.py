"""The drafters side by side, as the gallery tells of them: what each is, and how it did.

A comparison is asked for here and its table put in order; it is made by the engine.

Knows cards, settings and what was measured; draws nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.comparison import ALONE, Compared, Comparison, Sample
from engine.families import SHOWN, About, Vllm, about, in_order
from engine.prompts import Prompt
from engine.requests import Compare
from engine.trace import RunHeader, Settings
from visualizer.feed import Feed
from visualizer.ledger import Figures, drafter_of
from visualizer.state import Gallery, ViewState

CARDS = Path(__file__).resolve().parents[1] / "assets" / "drafters"
TOKENS = 48
"""New tokens a drafter writes to each prompt of a comparison."""

OWN_TURNS = 3
"""How often one's own prompt is written: a single time would measure what the machine did then."""


# --- cards ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Card:
    """What a drafter's own card says, on prompts it never saw: greedy at K 4, alpha at T 0.7.

    `target` is whom it was made for; of another one the figures say nothing.
    """

    tokens_per_round: float | None = None
    match: float | None = None
    alpha: float | None = None
    step_cost: float | None = None
    visits: int | None = None
    target: str = ""


@lru_cache(maxsize=8)
def cards(folder: Path = CARDS) -> dict[str, Card]:
    """The cards of the drafters that ship, by name; one that cannot be read is not there."""
    found = {}
    for path in sorted(folder.glob("*/card.json")):
        try:
            found[path.parent.name] = card_of(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, AttributeError):
            continue
    return found


def card_of(body: Any) -> Card:
    """The figures of a ``card.json`` that the gallery shows; those it lacks are None."""
    greedy = body.get("held_out", {}).get("temperature_0", {})
    warm = body.get("held_out", {}).get("temperature_0.7", {})
    positions = greedy.get("match_by_position") or [greedy.get("match")]
    return Card(
        tokens_per_round=_number(greedy.get("tokens_per_round", {}).get("4")),
        match=_number(positions[0]),
        alpha=_number(warm.get("alpha")),
        step_cost=_number(body.get("cost", {}).get("step")),
        visits=int(visits) if (visits := _number(body.get("visits"))) else None,
        target=str(body.get("target", "")),
    )


def _number(value: Any) -> float | None:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain else None


# --- what is shown -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A drafter on show. `in_use`: the settings name it. `offered`: this engine has it, as it has
    layer skip with any number of layers."""

    about: About
    offered: bool
    in_use: bool
    card: Card | None
    measured: Figures | None

    @property
    def name(self) -> str:
        return self.about.name


@dataclass(frozen=True, slots=True)
class GalleryView:
    """Everything the gallery shows. `live`: there is an engine to switch and to measure with.

    `rows` is the table in order, a row for every drafter there would be. `going` while it is being
    measured; `problem` is why it is not. `replies` are those a comparison would have written.
    """

    exhibits: tuple[Exhibit, ...]
    chosen: Exhibit
    live: bool
    ready: bool
    k: int
    sampled: bool  # at a temperature above 0
    rows: tuple[Compared, ...]
    comparison: Comparison | None
    going: bool
    problem: str
    replies: int
    seconds: float | None  # that they would take the target alone


def view(
    state: ViewState,
    feed: Feed,
    prompts: Sequence[Prompt],
    drafters: Path | None = None,
) -> GalleryView | None:
    """What the open gallery shows now; None while it is closed. `drafters` as `ShowOptions`."""
    if not state.gallery.open:
        return None
    offered, header = feed.offered, feed.trace.header
    if not feed.has_engine and header is not None:  # then its settings are those on show
        state = replace(state, settings=replace(header.settings, drafter=header.drafter))
    known = {
        name: card
        for name, card in cards(drafters or CARDS).items()
        if header is None or not feed.has_engine or card.target == header.target
    }
    wall = exhibits(state, offered, header, feed.measured, known)
    asked = request_of(state, prompts, offered)
    replies = (len(asked.drafters) + 1) * len(asked.samples) if asked is not None else 0
    base = header.baseline if header is not None else None
    ready = feed.engine is not None and feed.engine.phase == "ready" and feed.fault is None
    return GalleryView(
        exhibits=wall,
        chosen=chosen_of(state.gallery, wall),
        live=feed.has_engine,
        ready=ready,
        k=state.settings.k,
        sampled=state.settings.temperature > 0,
        rows=rows_of(feed.comparison, offered),
        comparison=feed.comparison,
        going=feed.comparing,
        problem=feed.fault or feed.comparison_problem,
        replies=replies,
        seconds=replies * TOKENS * base.pass_seconds if base is not None else None,
    )


def exhibits(
    state: ViewState,
    offered: Sequence[str],
    header: RunHeader | None,
    measured: dict[str, Figures],
    known: dict[str, Card],
) -> tuple[Exhibit, ...]:
    """What hangs on the wall: what the engine offers, or all that is known where there is none."""
    there = {name for name in offered if name != "auto"}
    now = drafter_of(state.settings, header)
    names = (there or {*SHOWN, *known}) | {*measured}
    if now is not None:
        names |= {now}
    return tuple(
        Exhibit(
            about=(told := about(name) or _stranger(name)),
            offered=name in there or (bool(there) and told.family == "layer-skip"),
            in_use=name == now and state.settings.speculative,
            card=known.get(name),
            measured=measured.get(name),
        )
        for name in in_order(names)
    )


def _stranger(name: str) -> About:
    """A drafter of another program, or of a later one."""
    nothing = Vllm(None, "Nothing is known of it here.")
    return About(name, "model", name, "This program does not know this drafter.", "chain", nothing)


def chosen_of(gallery: Gallery, wall: Sequence[Exhibit]) -> Exhibit:
    """The exhibit looked at: the chosen one, else the one in use, else the first."""
    named = (each for each in wall if each.name == gallery.chosen)
    in_use = (each for each in wall if each.in_use)
    return next(named, None) or next(in_use, None) or wall[0]


# --- comparing -----------------------------------------------------------------------------


def request_of(
    state: ViewState, prompts: Sequence[Prompt], offered: Iterable[str]
) -> Compare | None:
    """The comparison the gallery would ask for; None where nothing is ticked or nothing to read."""
    wanted = [name for name in contenders(offered) if name not in state.gallery.left_out]
    samples = samples_of(state, prompts)
    if not wanted or not samples:
        return None
    plain = Settings()
    settings = replace(state.settings, k=state.settings.k or plain.k, speculative=True)
    return Compare(tuple(wanted), samples, settings, TOKENS)


def contenders(offered: Iterable[str]) -> tuple[str, ...]:
    """The drafters that can be compared: the target alone always is, and "auto" is one of them."""
    return tuple(name for name in in_order(offered) if name not in ("auto", ALONE))


def samples_of(state: ViewState, prompts: Sequence[Prompt]) -> tuple[Sample, ...]:
    """The prompts of a comparison: the first of each family, or one's own a few times over."""
    draft = state.prompt
    if state.gallery.own_prompt or not prompts:
        return (Sample(draft.text, draft.chat),) * OWN_TURNS if draft.text.strip() else ()
    first = {each.family: each for each in reversed(prompts)}
    return tuple(Sample(each.text, each.chat) for each in prompts if first[each.family] is each)


def rows_of(comparison: Comparison | None, offered: Iterable[str]) -> tuple[Compared, ...]:
    """The table, fastest first; below, those not measured yet, and those that could be."""
    told = {} if comparison is None else {row.drafter: row for row in comparison.rows}
    names = in_order({ALONE, *contenders(offered), *told})
    rows = [told.get(name, Compared(name)) for name in names]
    return tuple(sorted(rows, key=lambda row: -(row.speedup or 0.0)))


_COLUMNS = (
    "drafter", "speedup", "tokens_per_second", "acceptance_rate", "tokens_per_round", "step_cost",
    "check_cost", "weight_bytes", "cache_bytes", "prompts", "tokens", "same_text", "problem",
)  # fmt: skip


def as_tsv(rows: Iterable[Compared]) -> str:
    """The measured rows for a spreadsheet: full figures, nothing where nothing is known."""
    lines = ["\t".join(_COLUMNS)]
    for row in rows:
        if row.measured:
            cells = (getattr(row, name) for name in _COLUMNS)
            lines.append("\t".join("" if cell is None else str(cell) for cell in cells))
    return "\n".join(lines) + "\n"


def as_json(comparison: Comparison, rows: Iterable[Compared], header: RunHeader | None) -> str:
    """The same with what it was measured under: settings, and target and machine if known."""
    about_it: dict[str, Any] = {"settings": _plain(comparison.settings)}
    about_it |= {"prompts": comparison.prompts, "tokens": comparison.tokens}
    if header is not None:
        about_it |= {
            name: getattr(header, name) for name in ("target", "device", "dtype", "kernel")
        }
    measured = [_plain(row) for row in rows if row.measured]
    return json.dumps({**about_it, "rows": measured}, indent=2) + "\n"


def _plain(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def progress(told: Comparison) -> tuple[str, float]:
    """Where it stands, in words and as a share: "measuring eagle, 3 of 12 · prompt 1 of 6"."""
    count = max(len(told.rows), 1)
    done = (max(told.prompt, 1) - 1) * count + max(told.place, 1) - 1
    prompt = f" · prompt {told.prompt} of {told.prompts}" if told.prompts > 1 else ""
    now = "the target alone" if told.now in ("", ALONE) else told.now
    words = f"measuring {now}, {max(told.place, 1)} of {count}{prompt}"
    return words, done / (count * max(told.prompts, 1))
