"""What the picture may ask of the engine process, and its form as JSON lines.

One request is one line, ``{"request": "Start", …fields…}``, written to the engine's stdin;
the answers are the events of `trace` and `comparison`, read from its stdout.

Every `Change` is answered exactly once: by a `Rewind`, or by an `EngineState` whose `detail`
says why nothing changed. Until that answer has come, whoever sent it must not begin to show a
round it has not yet reported with `Shown`; so no shown round is ever taken back.

Knows nothing of pipes or models. Standard library only.
"""

from __future__ import annotations

import json
import typing
from dataclasses import dataclass, field
from typing import Any, cast

from engine.codec import CodecError, from_plain, to_plain
from engine.comparison import Sample
from engine.trace import Settings


@dataclass(frozen=True, slots=True)
class Start:
    """Begin a new run; one that is still going is cancelled first.

    With `remember` it may look up earlier replies, and its own is kept once it is over.
    """

    prompt: str
    chat: bool = True
    settings: Settings = field(default_factory=Settings)
    seed: int = 0
    max_new_tokens: int = 200
    stop: tuple[str, ...] = ()
    remember: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """The picture has begun to show the first `rounds` rounds: these are never taken back."""

    rounds: int


@dataclass(frozen=True, slots=True)
class Change:
    """Use these settings from the next round that has not been shown."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run where it is."""


@dataclass(frozen=True, slots=True)
class Compare:
    """Measure these drafters against each other and the target alone, beside any run.

    Answered by `Comparison` messages. Everything but the drafter is taken from `settings`.
    """

    drafters: tuple[str, ...]
    samples: tuple[Sample, ...]
    settings: Settings = field(default_factory=Settings)
    tokens: int = 48


@dataclass(frozen=True, slots=True)
class StopComparing:
    """End the comparison with what has been measured."""


@dataclass(frozen=True, slots=True)
class Quit:
    """End the engine process."""


Request = Start | Shown | Change | Stop | Compare | StopComparing | Quit

_REQUESTS: dict[str, type[Any]] = {cls.__name__: cls for cls in typing.get_args(Request)}


def encode(request: Request) -> str:
    """Return `request` as one JSON line without its newline."""
    body = {"request": type(request).__name__} | to_plain(request)
    return json.dumps(body, ensure_ascii=True, separators=(",", ":"))


def decode(line: str) -> Request:
    """Return the request of one line. Raises CodecError when it is not one."""
    try:
        body = json.loads(line)
    except ValueError as error:
        raise CodecError(f"this line is not JSON: {line[:80]!r}") from error
    if not isinstance(body, dict) or body.get("request") not in _REQUESTS:
        raise CodecError(f"this line is no request: {line[:80]!r}")
    return cast(Request, from_plain(_REQUESTS[body["request"]], body))
