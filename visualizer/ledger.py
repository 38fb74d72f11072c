"""What each drafter has done in this show: sums over the rounds of its runs.

They are counted from the rounds themselves, run by run, so that rounds taken back never count and
a run that comes back to the stage counts once.

Pure: knows runs and arithmetic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from engine.trace import Round, RunHeader, Settings, Trace


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over rounds with full draft quality. Steps are in passes of the target alone."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    steps: int = 0
    step_passes: float = 0.0

    def plus(self, other: Figures) -> Figures:
        return Figures(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Figures)))

    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_round(self) -> float | None:
        return 1 + self.accepted / self.rounds if self.rounds else None

    @property
    def step_cost(self) -> float | None:
        return self.step_passes / self.steps if self.steps else None


class Ledger:
    """What each drafter has done in this show, run by run."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, Figures]] = {}
        self._last: Trace | None = None

    def note(self, run: Trace) -> None:
        """Take the run as it stands now; it may come again, longer or with rounds taken back."""
        if run is not self._last and run.header is not None:
            self._last = run
            self._runs[run.header.run_id] = figures_of(run.header, run.rounds)

    @property
    def total(self) -> dict[str, Figures]:
        found: dict[str, Figures] = {}
        for run in self._runs.values():
            for name, each in run.items():
                found[name] = found.get(name, Figures()).plus(each)
        return found


def figures_of(header: RunHeader, rounds: Iterable[Round]) -> dict[str, Figures]:
    """Sums by drafter, of rounds that asked for guesses without noise mixed in."""
    groups: dict[str, list[Round]] = defaultdict(list)
    for each in rounds:
        name = drafter_of(each.settings, header)
        if name is not None and each.settings.effective_k and each.settings.quality >= 100:
            groups[name].append(each)
    pass_seconds = header.baseline.pass_seconds if header.baseline is not None else 0.0
    return {name: _sum(group, pass_seconds) for name, group in groups.items()}


def _sum(rounds: Sequence[Round], pass_seconds: float) -> Figures:
    timed = [] if not pass_seconds else [each for each in rounds if not each.cold]
    return Figures(
        rounds=len(rounds),
        drafted=sum(len(each.guesses) for each in rounds),
        accepted=sum(each.accepted for each in rounds),
        steps=sum(len(each.draft_step_seconds) for each in timed),
        step_passes=sum(each.draft_seconds for each in timed) / (pass_seconds or 1.0),
    )


def drafter_of(settings: Settings, header: RunHeader | None) -> str | None:
    """The drafter these settings mean; None where only the engine knows what "auto" is."""
    if settings.drafter != "auto":
        return settings.drafter
    return header.drafter if header is not None and header.settings.drafter == "auto" else None
