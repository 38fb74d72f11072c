"""Which drafter is fastest here: measured on this machine once, then remembered.

Each candidate writes a few short texts at temperature 0 with the default settings; the one
with the most tokens a second is taken. What was measured lies in the user's cache, under the
machine, target, kernel and program it was measured with.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.decode import Session
from engine.trace import Round, Settings

CANDIDATES = ("copy-8", "copy-4g64", "small", "hybrid", "retrieval", "n-gram")
PROMPTS = (
    "Explain how a bicycle stays upright when it moves.",
    "Write a polite note asking a neighbour to water the plants.",
)
NEW_TOKENS = 28


@dataclass(frozen=True, slots=True)
class Choice:
    """The drafter "auto" means here, and why, in one sentence."""

    drafter: str
    reason: str


def choose(
    begin: Callable[[str, Settings, int], Session],
    names: Sequence[str],
    key: str,
    memory: Path,
    progress: Callable[[str], None] = lambda name: None,
) -> Choice:
    """Return the fastest of `names`, measuring unless `memory` knows it under `key`.

    `begin(prompt, settings, max_new_tokens)` starts a run; `progress` hears of each candidate
    before it is measured.
    """
    candidates = ["none", *(name for name in CANDIDATES if name in names)]
    known = _recall(memory).get(key, {})
    if not set(candidates) <= set(known):
        known = measure(begin, candidates, progress)
        _remember(memory, key, known)
    return explain({name: known[name] for name in candidates[1:]}, known["none"])


def measure(
    begin: Callable[[str, Settings, int], Session],
    names: Sequence[str],
    progress: Callable[[str], None],
) -> dict[str, float]:
    """Tokens a second of each drafter; "none" is the target alone.

    All write one text before any writes the next, and a round counts with its median time: a
    moment in which the machine was busy elsewhere should not decide.
    """
    rounds: dict[str, list[Round]] = {name: [] for name in names}
    for prompt in PROMPTS:
        for name in names:
            progress(name)
            made = begin(prompt, Settings(drafter=name), NEW_TOKENS).rounds()
            rounds[name] += [each for each in made if not each.cold]
    return {name: _rate(made) for name, made in rounds.items()}


def _rate(rounds: Sequence[Round]) -> float:
    if not rounds:
        return 0.0
    tokens = statistics.mean(len(each.committed) for each in rounds)
    return tokens / statistics.median(each.seconds for each in rounds)


def explain(rates: dict[str, float], alone: float) -> Choice:
    """The fastest of `rates` (tokens a second by name), and the sentence that says so."""
    best = max(rates, key=lambda name: rates[name])
    figures = f"{best}: {rates[best]:.0f} tok/s here against {alone:.0f} alone"
    if rates[best] >= alone:
        return Choice(best, figures)
    return Choice(best, f"{figures}, and no drafter here is faster than the target alone")


def _recall(memory: Path) -> dict[str, dict[str, float]]:
    """What was measured before; nothing when the file is missing or not ours."""
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
        return {
            str(key): {str(name): float(rate) for name, rate in rates.items()}
            for key, rates in known.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _remember(memory: Path, key: str, rates: dict[str, float]) -> None:
    """Write it down for next time; a cache that cannot be written costs only time."""
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        fresh = memory.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(_recall(memory) | {key: rates}, indent=1), encoding="utf-8")
        fresh.replace(memory)
    except OSError:
        return
