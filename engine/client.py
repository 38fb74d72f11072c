"""Starts the engine process and talks with it: requests out, events in, nothing blocks.

The child is spawned (never forked) with the interpreter's safe-path flag and the explicit
path of this very checkout, so that no stray ``engine`` folder is picked up. Three daemon
threads serve its pipes; `poll` and `send` only touch queues, so a window may call them
between frames. Only the process started here is ever ended, by its handle.

Knows nothing of torch, pictures or files. Standard library only.
"""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from engine import codec, requests
from engine.codec import CodecError, Message
from engine.requests import Quit, Request
from engine.trace import EngineState

ROOT = Path(__file__).resolve().parent.parent

# The child's first words: our own checkout before anything else on its path.
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from engine.__main__ import main; sys.exit(main())"
)

Listener = Callable[[str, Message], None]
"""Called on the reading thread with each event's own line and the event."""


def engine_command(arguments: Sequence[str] = ()) -> tuple[str, ...]:
    """The command that is ``python -m engine`` with these arguments, whatever the folder."""
    return (sys.executable, "-P", "-c", _BOOT, str(ROOT), *arguments)


class EngineClient:
    """One engine process at a time; `restart` replaces a dead one.

    `command` starts it (see `engine_command`). `verbose` passes the child's stderr on.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        listener: Listener | None = None,
        verbose: bool = False,
    ) -> None:
        self._command = tuple(command)
        self._listener = listener
        self._verbose = verbose
        self._child: _Child | None = None

    def start(self) -> None:
        """Start the process. Raises OSError when the interpreter cannot be run."""
        if self._child is not None:
            raise RuntimeError("the engine has been started already")
        self._child = _Child(self._command, self._listener, self._verbose)

    def poll(self) -> list[Message]:
        """Return the events that have arrived since the last call, at once."""
        return [] if self._child is None else self._child.take()

    def send(self, request: Request) -> None:
        """Queue a request; one to a dead process is dropped (`fault` tells of the death)."""
        if self._child is not None:
            self._child.outbox.put(requests.encode(request) + "\n")

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.process.pid

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.process.poll() is None

    @property
    def fault(self) -> str | None:
        """Why the process has ended, as one sentence; None while it lives or before its start."""
        if self._child is None or self.alive:
            return None
        return self._child.reason()

    def restart(self) -> None:
        """End what is left of the process and start a fresh one."""
        self.close()
        self.start()

    def close(self, patience: float = 2.0) -> None:
        """End the process: ask, then terminate, then kill, `patience` seconds in all."""
        child, self._child = self._child, None
        if child is not None:
            child.end(patience)


class _Child:
    """A running engine with the threads that serve its three pipes."""

    def __init__(self, command: tuple[str, ...], listener: Listener | None, verbose: bool) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self.outbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._complaints: deque[str] = deque(maxlen=40)
        self._failure = ""
        stdin, stdout, stderr = self.process.stdin, self.process.stdout, self.process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        self._readers = [
            _spawn(self._read_events, stdout, listener),
            _spawn(self._read_complaints, stderr, verbose),
        ]
        _spawn(self._write_requests, stdin)

    def take(self) -> list[Message]:
        messages = []
        while not self._inbox.empty():  # this thread is the only taker
            messages.append(self._inbox.get())
        return messages

    def reason(self) -> str:
        """One sentence on how the process ended; call only once it has."""
        for reader in self._readers:  # its last words may still be in the pipe
            reader.join(0.5)
        if self._failure:
            return self._failure
        code = self.process.returncode
        if code < 0 and code != -signal.SIGABRT:  # it could not speak: older words mislead
            return f"The engine process was ended by {_signal_name(-code)}."
        cause = "was ended by SIGABRT" if code < 0 else f"ended with code {code}"
        words = next((line for line in reversed(self._complaints) if line.strip()), "")
        return f"The engine process {cause}" + (f": {words.strip()}" if words else ".")

    def end(self, patience: float) -> None:
        self.outbox.put(requests.encode(Quit()) + "\n")
        self.outbox.put(None)
        for step in (None, self.process.terminate, self.process.kill):
            if step is not None:
                step()
            try:
                self.process.wait(patience / 3)
                return
            except subprocess.TimeoutExpired:
                continue
        self.process.wait()  # killed: only the system's own bookkeeping is left

    def _read_events(self, stdout: IO[str], listener: Listener | None) -> None:
        for line in stdout:
            try:
                message = codec.decode(line)
            except CodecError as error:
                self._complaints.append(str(error))
                continue
            if isinstance(message, EngineState):
                self._failure = message.detail if message.phase == "failed" else ""
            if listener is not None:
                listener(line, message)
            self._inbox.put(message)

    def _read_complaints(self, stderr: IO[str], verbose: bool) -> None:
        for line in stderr:
            self._complaints.append(line)
            if verbose and sys.stderr is not None:
                sys.stderr.write(line)

    def _write_requests(self, stdin: IO[str]) -> None:
        try:
            with stdin:
                while (line := self.outbox.get()) is not None:
                    stdin.write(line)
                    stdin.flush()
        except OSError:
            pass  # the process is gone; `fault` says so


def _spawn(work: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
