"""A sweep beside a run that may be going on: a round at a time, telling the table as it fills.

Drafters take turns prompt by prompt in a rotating order, as in every sweep, so that ratios hold on
a machine that does other things meanwhile; each is warmed up before its first turn. Between turns
whoever drives this may do something else. A drafter that fails is left out, with the reason.

Knows the verbs of a sweep; nothing of pipes, pictures or models.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.bench import figures, sweep
from engine.bench.texts import Text
from engine.comparison import ALONE, Compared, Comparison
from engine.requests import Compare, Start
from engine.terminal import device_lost, sentence
from engine.trace import Baseline

if TYPE_CHECKING:
    from engine.decode import Session
    from engine.footprint import Footprint


class Aside:
    """An engine's second place to run: `begin` a session there, and weigh its drafters."""

    def __init__(
        self, begin: Callable[[Start], Session], footprint: Callable[[str], Footprint]
    ) -> None:
        self._begin = begin
        self.footprint = footprint

    def begin(self, start: Start, baseline: Baseline | None = None) -> Session:
        """Start a run. Only a K that is chosen by costs needs the baseline."""
        session = self._begin(start)
        if baseline is not None:
            session.header = replace(session.header, baseline=baseline)
        elif start.settings.chooses_k and session.finished is None:
            session.measure_baseline()
        return session


class Comparing:
    """A comparison in the making. `told` is the table so far."""

    def __init__(self, aside: Aside, request: Compare) -> None:
        self._tokens = request.tokens
        wanted = [name for name in dict.fromkeys(request.drafters) if name != ALONE]
        asked = replace(request.settings, k=request.settings.k or 1, speculative=True)
        texts = [Text(each.prompt, each.chat) for each in request.samples]
        settings = [replace(asked, drafter=name) for name in wanted]
        self._sweep = sweep.plan(aside, texts, settings)
        if not settings or not texts:
            raise ValueError("There is nothing to compare: choose drafters and a prompt.")
        self._problems: dict[str, str] = {}
        self._turns = self._in_turns()
        self.at_rest = True
        self.told = Comparison(
            "measuring", asked, len(texts), request.tokens,
            tuple(Compared(name) for name in (ALONE, *wanted)),
        )  # fmt: skip

    def advance(self) -> Comparison | None:
        """Make a round. Returns the table where there is news: a turn to begin, or the end.

        Raises when the device is lost.
        """
        told = next(self._turns)
        self.at_rest = told is not None
        if told is not None:
            self.told = told
        return told

    def stop(self) -> Comparison:
        """End it; returns the table as it stands."""
        self._turns.close()
        return replace(self.told, phase="stopped", rows=self._rows(), now="")

    def _in_turns(self) -> Generator[Comparison | None, None, None]:
        everyone = [*self._sweep.alone, *self._sweep.tallies]
        warm: set[str] = set()
        for number, text in enumerate(self._sweep.texts):
            for place, tally in enumerate(sweep.in_turn(everyone, number), 1):
                name = tally.settings.drafter
                if name in self._problems:
                    continue
                yield replace(
                    self.told, rows=self._rows(), now=name, place=place, prompt=number + 1
                )
                try:
                    if name not in warm:
                        yield from tally.warming_up(text)
                        warm.add(name)
                    yield from tally.taking(number, text, self._tokens)
                except Exception as error:
                    if device_lost(error) or name == ALONE:
                        raise
                    traceback.print_exc()
                    self._problems[name] = sentence(error)
        yield replace(self.told, phase="done", rows=self._rows(), now="")

    def _rows(self) -> tuple[Compared, ...]:
        lines = {line.drafter: line for line in figures.lines_of(self._sweep)}
        return tuple(self._row(each.drafter, lines.get(each.drafter)) for each in self.told.rows)

    def _row(self, name: str, line: figures.Line | None) -> Compared:
        problem = self._problems.get(name, "")
        weighed = next((t.weighed for t in self._sweep.tallies if t.settings.drafter == name), None)
        if line is None:
            return Compared(name, problem=problem)
        return Compared(
            drafter=name,
            prompts=line.prompts,
            tokens=line.tokens,
            acceptance_rate=line.acceptance_rate,
            tokens_per_round=line.mean_acceptance_length,
            step_cost=line.step_cost,
            check_cost=line.check_cost,
            tokens_per_second=line.tokens_per_second,
            speedup=line.speedup,
            weight_bytes=weighed.weights if weighed else None,
            cache_bytes=weighed.cache if weighed else None,
            same_text=line.same_text,
            problem=problem,
        )
