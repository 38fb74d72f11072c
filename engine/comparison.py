"""A comparison of drafters as it is told: who was measured, with what outcome, and who is next.

Every message is the whole table so far, so that whoever shows it keeps the latest. Never part of
a run file: a run tells of one text, a comparison of many short ones. The figures are those of
``main.py bench`` (see `engine.bench.figures`).

Knows nothing of models, pictures or JSON. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.trace import Settings

ALONE = "none"
"""The target alone: the row every speedup is measured against."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A prompt to compare on; `chat` False continues it."""

    prompt: str
    chat: bool = True


@dataclass(frozen=True, slots=True)
class Compared:
    """What one drafter did on the prompts it has answered; figures are None before the first.

    `step_cost` of one draft step and `check_cost` of one pass are in median passes of the target
    alone. Bytes are those it holds beside the target: weights (tables and indexes included), and
    rows of a cache. `same_text` tells whether a greedy text was the target's own; None when
    sampling. `problem` is why it was left out from then on.
    """

    drafter: str
    prompts: int = 0
    tokens: int = 0
    acceptance_rate: float | None = None
    tokens_per_round: float | None = None
    step_cost: float | None = None
    check_cost: float | None = None
    tokens_per_second: float | None = None
    speedup: float | None = None
    weight_bytes: int | None = None
    cache_bytes: int | None = None
    same_text: bool | None = None
    problem: str = ""

    @property
    def measured(self) -> bool:
        return self.tokens_per_second is not None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The table so far, in the order in which drafters were asked for, the target alone first.

    `now` is being measured, `place` of all of them in this turn, on prompt `prompt` (both from 1)
    of `prompts`. "refused" answers a request that could not be had, and leaves alone whatever
    goes on.
    """

    phase: Literal["measuring", "done", "stopped", "refused", "failed"]
    settings: Settings
    prompts: int
    tokens: int
    rows: tuple[Compared, ...] = ()
    now: str = ""
    place: int = 0
    prompt: int = 0
    detail: str = ""
