"""Whether speculation pays, on this machine and these prompts: a measured sweep.

Every combination of drafter, k and quality decodes every prompt, and so does the target
alone. They take turns, prompt by prompt and in a rotating order, so that a machine that warms
up or is disturbed treats them alike; each part is warmed up first. Speedups are ratios inside
this one sweep.

At temperature 0 every text is compared with the target's own: a sweep that was fast because
it was wrong must not pass.

Knows how to count and to print; decoding is the engine's.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import prompts
from engine.requests import Start
from engine.stats import Stats
from engine.terminal import Progress
from engine.trace import Round, Settings

if TYPE_CHECKING:
    from engine.assembly import Engine

WARM_UP_TOKENS = 12


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt of the sweep."""

    prompt: str
    chat: bool


@dataclass(slots=True)
class Tally:
    """What one combination has done so far. `texts` are its replies, as ids, by prompt."""

    settings: Settings
    rounds: list[Round] = field(default_factory=list)
    texts: list[tuple[int, ...]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table.

    Costs are in passes of the target alone: `step_cost` of one draft step, `check_cost` of
    one verification. `same_text` is None when sampling, where texts need not match.
    """

    drafter: str
    k: int
    quality: float
    rounds: int
    acceptance_rate: float | None
    alpha: float | None
    mean_acceptance_length: float | None
    tokens_per_second: float | None
    speedup: float | None
    step_cost: float | None
    check_cost: float | None
    same_text: bool | None


def main(engine: Engine, args: argparse.Namespace) -> int:
    """Sweep as the command line asks, print the table, write the files."""
    texts = load_texts(args.prompts)
    drafters = args.drafter or [name for name in engine.drafters if name not in ("auto", "none")]
    sweep = [
        Settings(drafter=drafter, k=k, quality=quality, temperature=args.temperature)
        for drafter in drafters
        for k in args.k
        for quality in args.quality
    ]
    for settings in sweep:
        engine.check(settings)
    lines = measure(engine, texts, sweep, args.max_new_tokens)
    print(table(lines))
    best = max(lines, key=lambda line: line.speedup or 0.0)
    print(f"best: {best.drafter}, k {best.k}, {best.speedup:.2f}x the target alone")
    if args.json:
        args.json.write_text(json.dumps(report(engine, texts, lines), indent=2) + "\n")
    if args.csv:
        write_csv(args.csv, lines)
    return 1 if any(line.same_text is False for line in lines) else 0


def load_texts(path: Path | None) -> list[Text]:
    """Prompts of a file: JSON as `engine.prompts` reads it, else one chat turn a line."""
    if path is None:
        path = prompts.CURATED
    if path.suffix == ".json":
        return [Text(each.text, each.chat) for each in prompts.load(path)]
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    texts = [Text(line, chat=True) for line in lines if line]
    if not texts:
        raise ValueError(f"{path} holds no prompt")
    return texts


def measure(
    engine: Engine, texts: Sequence[Text], sweep: Sequence[Settings], tokens: int
) -> list[Line]:
    """Decode every text under every setting, and alone. The first line is the target alone."""
    alone = Settings(drafter="none", k=0, temperature=sweep[0].temperature, speculative=False)
    tallies = [Tally(settings) for settings in (alone, *sweep)]
    with Progress() as progress:
        for tally in tallies:
            progress.say("warm", f"warming up {tally.settings.drafter}")
            _decode(engine, texts[0], tally.settings, WARM_UP_TOKENS)
        for number, text in enumerate(texts):
            turn = number % len(tallies)
            for tally in tallies[turn:] + tallies[:turn]:
                settings = tally.settings
                progress.say("sweep", f"prompt {number + 1} of {len(texts)}: {settings.drafter}")
                rounds = _decode(engine, text, settings, tokens)
                tally.rounds += rounds
                tally.texts.append(tuple(token.id for each in rounds for token in each.committed))
    return [_line(tally, tallies[0]) for tally in tallies]


def _decode(engine: Engine, text: Text, settings: Settings, tokens: int) -> list[Round]:
    start = Start(text.prompt, text.chat, settings, max_new_tokens=tokens)
    return list(engine.begin(start).rounds())


def _line(tally: Tally, alone: Tally) -> Line:
    stats, base = Stats.of(tally.rounds), Stats.of(alone.rounds)
    settings = tally.settings
    pass_seconds = _median(each.verify_seconds for each in alone.rounds)
    steps = (seconds for each in tally.rounds for seconds in each.draft_step_seconds)
    greedy = settings.temperature == 0
    return Line(
        drafter=settings.drafter,
        k=settings.k,
        quality=settings.quality,
        rounds=stats.rounds,
        acceptance_rate=stats.acceptance_rate,
        alpha=stats.alpha,
        mean_acceptance_length=stats.mean_acceptance_length,
        tokens_per_second=stats.tokens_per_second,
        speedup=_ratio(stats.tokens_per_second, base.tokens_per_second),
        step_cost=_ratio(_median(steps), pass_seconds),
        check_cost=_ratio(_median(each.verify_seconds for each in tally.rounds), pass_seconds),
        same_text=_same(tally, alone) if greedy else None,
    )


def _same(tally: Tally, alone: Tally) -> bool:
    return tally.texts == alone.texts


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return statistics.median(found) if found else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


_COLUMNS = (
    ("drafter", "{}", "drafter"),
    ("k", "{}", "k"),
    ("quality", "{:.0f}", "quality"),
    ("accept", "{:.0%}", "acceptance_rate"),
    ("tokens/round", "{:.2f}", "mean_acceptance_length"),
    ("tok/s", "{:.1f}", "tokens_per_second"),
    ("speedup", "{:.2f}x", "speedup"),
    ("step cost", "{:.3f}", "step_cost"),
    ("check cost", "{:.2f}", "check_cost"),
    ("same text", "{}", "same_text"),
)


def table(lines: Sequence[Line]) -> str:
    """The lines as text in columns; what is not known is a dash."""
    rows = [[title for title, _, _ in _COLUMNS]]
    for line in lines:
        values = asdict(line)
        rows.append([_cell(template, values[name]) for _, template, name in _COLUMNS])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    )


def _cell(template: str, value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return template.format(value)


def report(engine: Engine, texts: Sequence[Text], lines: Sequence[Line]) -> dict[str, Any]:
    """Every figure of the sweep, and what it was measured on."""
    return {
        "target": engine.name,
        "machine": asdict(engine.machine),
        "prompts": [asdict(text) for text in texts],
        "lines": [asdict(line) for line in lines],
    }


def write_csv(path: Path, lines: Sequence[Line]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [name for _, _, name in _COLUMNS] + ["rounds", "alpha"])
        writer.writeheader()
        writer.writerows(asdict(line) for line in lines)
