"""``python -m engine``: the engine process. Requests on stdin, events on stdout.

The real stdout carries events and nothing else: file descriptor 1 and `sys.stdout` are
pointed at stderr before any library is imported. When stdin ends (its parent is gone, or
asks) the process ends at once, even inside a long pass. SIGINT is left to the parent.

Imports nothing heavy until the request reader is running.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from typing import IO, NoReturn, TextIO

from engine import codec, config, requests, terminal
from engine.codec import CodecError, Message
from engine.config import EngineConfig
from engine.requests import Quit
from engine.worker import Emit, Engine, Inbox, serve

# Read by libraries when they are imported. No fork happens here, nor any network access
# but the first fetch, which is ours.
_ENVIRONMENT = {
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}


def main(argv: Sequence[str] | None = None) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    options = config.from_arguments(argv)
    stream = claim_stdout()
    inbox: Inbox = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin, inbox), daemon=True).start()
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)

    def emit(message: Message) -> None:
        try:
            stream.write(codec.encode(message) + "\n")
            stream.flush()
        except OSError:  # nobody reads any more
            os._exit(1)

    code = serve(lambda report: open_engine(options, report), inbox, emit)
    os._exit(code)  # the reader may be blocked on stdin, where a tidy exit would hang


def open_engine(options: EngineConfig, report: Emit) -> Engine:
    from engine import assembly  # torch is first imported here

    return assembly.open_engine(options, report, beside_window=True)


def claim_stdout() -> IO[str]:
    """Return the real stdout as a line stream; let every other print go to stderr.

    Works without a console too, where Python's own streams are None.
    """
    terminal.prepare_streams()
    sys.stdout.flush()
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", newline="\n")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = sys.stderr
    return events


def _listen(stdin: TextIO | None, inbox: Inbox) -> NoReturn:
    """Pass requests on until stdin ends, then end the process, whatever it is doing."""
    try:
        for line in stdin or ():
            try:
                request: requests.Request | CodecError = requests.decode(line)
            except CodecError as error:
                request = error
            if isinstance(request, Quit):
                break
            inbox.put(request)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
