"""Events to JSON lines and back, and run files.

One event is one line, ``{"event": "Round", …fields…}``. The first line of a run file is the
header and carries ``"format"`` and ``"version"``. Unknown fields are ignored, so that an
older program reads a newer minor version; an unknown event or a newer version is refused.

Knows the dataclasses of `trace` and `comparison` only through their annotations. Standard library
only.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, cast

from engine import trace
from engine.comparison import Comparison
from engine.trace import EngineState, RunEvent, RunHeader, Trace

Message = RunEvent | EngineState | Comparison
_T = TypeVar("_T")

_EVENTS: dict[str, type[Any]] = {cls.__name__: cls for cls in typing.get_args(Message)}


class CodecError(ValueError):
    """A line or file that is not a run of this format; the message is one clear sentence."""


def encode(event: Message) -> str:
    """Return `event` as one JSON line without its newline."""
    body: dict[str, Any] = {"event": type(event).__name__}
    if isinstance(event, RunHeader):
        body |= {"format": trace.FORMAT, "version": trace.VERSION}
    body |= to_plain(event)
    return json.dumps(body, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def decode(line: str) -> Message:
    """Return the event of one line. Raises CodecError when it is not one."""
    try:
        body = json.loads(line, parse_constant=_refuse_constant)
    except ValueError as error:
        raise CodecError(f"this line is not JSON: {line[:80]!r}") from error
    if not isinstance(body, dict) or str(body.get("event")) not in _EVENTS:
        raise CodecError(f"this line is no event of a run: {line[:80]!r}")
    if body["event"] == "RunHeader":
        _check_format(body)
    return cast(Message, from_plain(_EVENTS[body["event"]], body))


def _refuse_constant(name: str) -> NoReturn:
    """JSON has no ``NaN`` nor ``Infinity``, and a run no such number."""
    raise ValueError(f"{name} is no number")


def _check_format(body: dict[str, Any]) -> None:
    if body.get("format") != trace.FORMAT:
        raise CodecError(f"format is {body.get('format')!r}, not {trace.FORMAT!r}")
    version = body.get("version")
    if type(version) is not int or version < 1:
        raise CodecError(f"run file version {version!r} is no version there ever was")
    if version > trace.VERSION:
        raise CodecError(f"run file version {version} is newer than this program reads")


def read_run(path: Path) -> Trace:
    """Read a run file. Raises CodecError (not a run, cut line, wrong order) or OSError.

    A last line cut short by a crash is dropped: what was whole is kept.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    run = Trace()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            run = run.extend(cast(RunEvent, decode(line)))
        except ValueError as error:
            if number == len(lines) and run.header is not None:
                break
            raise CodecError(f"{path.name}, line {number}: {error}") from error
    if run.header is None:
        raise CodecError(f"{path.name} holds no run: the first line must be its header")
    return run


def iter_lines(events: Iterable[Message]) -> Iterator[str]:
    return (encode(event) + "\n" for event in events)


def to_plain(value: Any) -> Any:
    """Turn a tree of dataclasses and tuples into dicts and lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value


def from_plain(cls: type[_T], body: dict[str, Any]) -> _T:
    """Build dataclass `cls` from a dict, checking every field's type against its annotation."""
    hints = _hints(cast(Any, cls))
    values = {}
    for name, hint in hints.items():
        if name in body:
            values[name] = _build(hint, body[name], f"{cls.__name__}.{name}")
    try:
        return cls(**values)
    except TypeError as error:
        raise CodecError(f"{cls.__name__}: {error}") from error


@cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _build(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is types.UnionType or origin is typing.Union:
        inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return None if value is None else _build(inner[0], value, where)
    if origin is Literal:
        if value in typing.get_args(hint):
            return value
    elif origin is tuple:
        if isinstance(value, list):
            item = typing.get_args(hint)[0]
            return tuple(_build(item, each, where) for each in value)
    elif is_dataclass(hint):
        if isinstance(value, dict):
            return from_plain(cast(type[Any], hint), value)
    elif hint is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    elif isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise CodecError(f"{where} cannot be {value!r:.60}")
