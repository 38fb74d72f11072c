"""Where a picture's events come from: a live engine, or a run file. Both look the same.

Also keeps every live run: each goes to a file of its own, named by time and run id, as the
very lines the engine wrote, and no file is ever overwritten.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol

from engine import codec
from engine.client import EngineClient, engine_command
from engine.codec import Message
from engine.comparison import Comparison
from engine.requests import Change, Request, Start
from engine.trace import BUSY, EngineState, Rewind, RunEvent, RunFailed, RunHeader


class EventSource(Protocol):
    """What a window needs of an engine, or of a recording. No call blocks or raises."""

    @property
    def live(self) -> bool:
        """Whether these events are being measured now (badge LIVE) or were (RECORDED)."""

    @property
    def fault(self) -> str | None:
        """One sentence on why the engine process is gone; None while all is well."""

    @property
    def notice(self) -> str | None:
        """One sentence people should see although the run goes on; else None."""

    @property
    def changing(self) -> bool:
        """A `Change` awaits its answer: begin no further round until it has come."""

    def poll(self) -> list[Message]:
        """Events that arrived since the last call. A `RunHeader` begins a new run."""

    def send(self, request: Request) -> None:
        """Pass a request on; a recording ignores it."""

    def restart(self) -> None:
        """Start a fresh engine process in place of a dead one."""

    def close(self) -> None:
        """Let go of the process and files."""


class RunWriter:
    """Writes each run to its own new file in `folder`.

    A full disk or a forbidden folder ends the writing of that run, never the run itself:
    `notice` then says so.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[str] | None = None
        self.path: Path | None = None
        self.notice: str | None = None

    def write(self, line: str, message: Message) -> None:
        """Take one event, as its line and as itself."""
        if isinstance(message, (EngineState, Comparison)):
            return
        try:
            if isinstance(message, RunHeader):
                self.close()
                self._open(message)
            if self._file is not None:
                self._file.write(line if line.endswith("\n") else line + "\n")
                self._file.flush()
        except OSError as error:
            self.notice = f"This run is not being saved: {error.strerror or error}."
            self._abandon()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _abandon(self) -> None:
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except OSError:
            pass  # what could not be flushed is what `notice` is about

    def _open(self, header: RunHeader) -> None:
        self.notice = self.path = None
        self._folder.mkdir(parents=True, exist_ok=True)
        stamp = "".join(c for c in header.created if c.isdigit())[:14]
        name = f"{stamp}-{header.run_id}"
        for attempt in range(1000):
            path = self._folder / (f"{name}-{attempt}.jsonl" if attempt else f"{name}.jsonl")
            try:
                self._file = path.open("x", encoding="utf-8", newline="\n")
            except FileExistsError:
                continue
            self.path = path
            return
        raise FileExistsError(17, "too many runs of one name", str(self._folder))


class LiveSource:
    """An engine process, its runs kept in `folder` (None: not kept). The process starts here."""

    live = True

    def __init__(
        self, arguments: tuple[str, ...] = (), folder: Path | None = None, verbose: bool = False
    ) -> None:
        self._writer = None if folder is None else RunWriter(folder)
        listener = None if self._writer is None else self._writer.write
        self._client = EngineClient(engine_command(arguments), listener=listener, verbose=verbose)
        self._changing = False
        self._start_fault: str | None = None
        self._start(self._client.start)

    @property
    def fault(self) -> str | None:
        return self._start_fault or self._client.fault

    @property
    def notice(self) -> str | None:
        return None if self._writer is None else self._writer.notice

    @property
    def changing(self) -> bool:
        return self._changing and self.fault is None

    def poll(self) -> list[Message]:
        messages = self._client.poll()
        if any(map(_answers, messages)):
            self._changing = False
        return messages

    def send(self, request: Request) -> None:
        if isinstance(request, Change):
            self._changing = True
        elif isinstance(request, Start):
            self._changing = False
        self._client.send(request)

    def restart(self) -> None:
        self._changing = False
        self._start(self._client.restart)

    def close(self) -> None:
        self._client.close()
        if self._writer is not None:
            self._writer.close()

    def _start(self, start: Callable[[], None]) -> None:
        self._start_fault = None
        try:
            start()
        except OSError as error:
            self._start_fault = f"The engine process did not start: {error.strerror or error}."


def _answers(message: Message) -> bool:
    """Whether no answer to a `Change` sent before `message` is to come after it."""
    if isinstance(message, EngineState):
        return message.phase not in (*BUSY, "notice")
    return isinstance(message, (Rewind, RunHeader, RunFailed))


class ReplaySource:
    """A run file. All of its events come with the first poll. Raises as `codec.read_run`."""

    live = False
    fault: str | None = None
    notice: str | None = None
    changing = False

    def __init__(self, path: Path) -> None:
        self._events: list[Message] = list(events_of(path))

    def poll(self) -> list[Message]:
        events, self._events = self._events, []
        return events

    def send(self, request: Request) -> None:
        pass

    def restart(self) -> None:
        pass

    def close(self) -> None:
        pass


def events_of(path: Path) -> list[RunEvent]:
    """The run of a file as it finally stood: header, rounds, end, proof. Raises as `read_run`."""
    run = codec.read_run(path)
    assert run.header is not None  # read_run has seen to it
    last = (event for event in (run.end, run.proof) if event is not None)
    return [run.header, *run.rounds, *last]
