"""A sweep written down: tables for people, JSON and CSV for programs, and a sentence of advice.

Knows `figures` and how to print them; measures nothing.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from engine.bench.figures import Line, RivalLine
from engine.wordkinds import KINDS

UNKNOWN = "–"
PIPE_WIDTH = 160
"""Characters a line where no terminal says how wide it is."""

PAYS = 1.02
"""Below this speedup a drafter does not help: it is within what two measurements differ."""

_Cell = Callable[[Line], str]


def show(lines: Sequence[Line], rivals: Sequence[RivalLine], console: Console) -> None:
    """Print what is known, in tables that fit into 80 characters.

    Speed, what a round costs, acceptance, families where there are several, and rivals.
    """
    console.print(_table("Speed", lines, _SPEED))
    console.print(_table("What a round costs", lines, _COSTS))
    drafted = [line for line in lines if line.drafter != "none"]
    if drafted:
        console.print(_table("Guesses accepted", drafted, _ACCEPTANCE))
        console.print(_table("Judged guesses that passed, by what the text has", drafted, _KINDS))
    names = _families(lines)
    if len(names) > 1:
        columns = [("", _name), *((name.replace(" ", "\n"), _speedup_in(name)) for name in names)]
        console.print(_table("Speedup by family of prompts", drafted, columns))
    if rivals:
        console.print(_rivals(rivals))


def console_for(stream: Any) -> Console:
    """A console as wide as its terminal; a file or pipe gets lines that need no breaking."""
    if stream.isatty():
        return Console(file=stream, highlight=False)
    return Console(file=stream, highlight=False, width=PIPE_WIDTH)


def advice(lines: Sequence[Line]) -> str:
    """What to do, in one sentence: the best combination, where another is better, and where none.

    "hybrid, K 2: 1.24x on these prompts; n-gram, K 4: 2.10x on copying; nothing helps on poetry
    at T 1." Raises ValueError when nothing was compared.
    """
    compared = [line for line in lines if line.drafter != "none" and line.speedup is not None]
    if not compared:
        raise ValueError("no combination was measured beside the target alone")
    best = max(compared, key=_gain)
    if _gain(best) < PAYS:
        return f"Nothing here is faster than the target alone; closest is {_says(best)}."
    words = [f"{_says(best)} on these prompts"]
    several = len({line.temperature for line in compared}) > 1
    for family in _families(compared) if len(_families(compared)) > 1 else ():
        for heat in sorted({line.temperature for line in compared}):
            group = [line for line in compared if line.temperature == heat]
            there = max(group, key=lambda line: _gain_in(line, family))
            where = f"on {family} at T {heat:g}" if several else f"on {family}"
            if _gain_in(there, family) < PAYS:
                words.append(f"nothing helps {where}")
            elif _gain_in(there, family) > 1.15 * max(_gain_in(best, family), _gain(best)):
                words.append(f"{there.name}: {_gain_in(there, family):.2f}x {where}")
    return "; ".join(words) + "."


def as_json(
    about: dict[str, Any], lines: Sequence[Line], rivals: Sequence[RivalLine]
) -> dict[str, Any]:
    """Every figure, after what they are `about`."""
    return about | {
        "lines": [asdict(line) for line in lines],
        "rivals": [asdict(rival) for rival in rivals],
    }


def write_json(path: Path, body: dict[str, Any]) -> None:
    """Replace the file at once, so that there is always a whole one. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        fresh.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def write_csv(path: Path, lines: Sequence[Line]) -> None:
    """One row a combination; positions, families and kinds spread over columns."""
    rows = [_row(line) for line in lines]
    names = dict.fromkeys(name for row in rows for name in row)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(names))
        writer.writeheader()
        writer.writerows(rows)


def _row(line: Line) -> dict[str, Any]:
    nested = ("per_position", "families", "kinds")
    row = {each.name: getattr(line, each.name) for each in fields(line) if each.name not in nested}
    row |= {f"position_{n}": rate for n, rate in enumerate(line.per_position, 1)}
    row |= {f"accepted_{kind}": _of(line.kinds[kind]) for kind in KINDS}
    return row | {f"speedup_{name}": family.speedup for name, family in line.families.items()}


# --- cells ---------------------------------------------------------------------------------


def _number(form: str, field: str) -> _Cell:
    def cell(line: Line) -> str:
        value = getattr(line, field)
        return UNKNOWN if value is None else form.format(value)

    return cell


def _name(line: Line) -> str:
    heat = f", T {line.temperature:g}" if line.temperature else ""
    return line.name + heat


def _same(line: Line) -> str:
    return {None: UNKNOWN, True: "yes", False: "[bold red]NO[/]"}[line.same_text]


def _megabytes(line: Line) -> str:
    return UNKNOWN if line.memory is None else f"{line.memory / 1e6:.1f}"


def _positions(line: Line) -> str:
    return " ".join(f"{100 * rate:.0f}" for rate in line.per_position) or UNKNOWN


def _kind_cell(index: int) -> _Cell:
    def cell(line: Line) -> str:
        share = _of(line.kinds[KINDS[index]])
        return UNKNOWN if share is None else f"{share:.0%}"

    return cell


def _speedup_in(family: str) -> _Cell:
    def cell(line: Line) -> str:
        found = line.families.get(family)
        return UNKNOWN if found is None or found.speedup is None else f"{found.speedup:.2f}x"

    return cell


_SPEED: Sequence[tuple[str, _Cell]] = (
    ("", _name),
    ("tok/s", _number("{:.1f}", "tokens_per_second")),
    ("speedup", _number("{:.2f}x", "speedup")),
    ("formula", _number("{:.2f}x", "predicted")),
    ("tokens/\nround", _number("{:.2f}", "mean_acceptance_length")),
    ("same\ntext", _same),
)
_COSTS: Sequence[tuple[str, _Cell]] = (
    ("", _name),
    ("draft\nms", _number("{:.1f}", "draft_ms")),
    ("verify\nms", _number("{:.1f}", "verify_ms")),
    ("host\nms", _number("{:.1f}", "host_ms")),
    ("step,\npasses", _number("{:.3f}", "step_cost")),
    ("check,\npasses", _number("{:.2f}", "check_cost")),
    ("memory,\nMB", _megabytes),
)
_ACCEPTANCE: Sequence[tuple[str, _Cell]] = (
    ("", _name),
    ("of all\ndrafted", _number("{:.0%}", "acceptance_rate")),
    ("of those\njudged", _number("{:.0%}", "alpha")),
    ("by position,\nin %", _positions),
)
_KINDS: Sequence[tuple[str, _Cell]] = (
    ("", _name),
    *(
        (heading, _kind_cell(index))
        for index, heading in enumerate(
            ("glue\nwords", "content\nwords", "numbers", "punctu-\nation", "code")
        )
    ),
)


def _table(title: str, lines: Iterable[Line], columns: Sequence[tuple[str, _Cell]]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0))
    for number, (heading, _) in enumerate(columns):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for line in lines:
        table.add_row(*(cell(line) for _, cell in columns))
    return table


def _rivals(rivals: Sequence[RivalLine]) -> Table:
    table = Table(
        title="Others on the same weights", box=box.SIMPLE_HEAD, title_justify="left",
        padding=(0, 1, 0, 0),
    )  # fmt: skip
    for number, heading in enumerate(("", "tok/s", "our best is", "same\ntext", "what")):
        table.add_column(heading, justify="right" if 0 < number < 4 else "left")
    for each in rivals:
        same = {None: UNKNOWN, True: "yes", False: "no"}[each.same_text]
        rate = UNKNOWN if each.tokens_per_second is None else f"{each.tokens_per_second:.1f}"
        ours = UNKNOWN if each.ours is None else f"{each.ours:.2f}x that"
        table.add_row(each.name, rate, ours, same, each.what)
    return table


def _families(lines: Iterable[Line]) -> list[str]:
    return list(dict.fromkeys(name for line in lines for name in line.families))


def _gain(line: Line) -> float:
    return line.speedup or 0.0


def _gain_in(line: Line, family: str) -> float:
    found = line.families.get(family)
    return 0.0 if found is None else found.speedup or 0.0


def _says(line: Line) -> str:
    heat = f" at T {line.temperature:g}" if line.temperature else ""
    return f"{line.name}{heat}: {_gain(line):.2f}x"


def _of(found: Any) -> float | None:
    return found.accepted / found.judged if found.judged else None
