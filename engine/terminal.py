"""One run as text in a terminal: the words as they come, then what they cost.

On a terminal the target's own words stand out: a correction in amber, a bonus in green
(`NO_COLOR` is obeyed); accepted guesses are plain. Into a file or pipe goes bare text.

Knows events and streams, nothing of how rounds are made. Standard library only.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import time
from collections.abc import Sequence
from typing import IO, TextIO

from engine.stats import Stats
from engine.trace import Emitted, EngineState, Guess, Round, RunHeader, Token

_COLORS = {"recovered": "\x1b[33m", "bonus": "\x1b[32m"}
_PLAIN = "\x1b[0m"


def prepare_streams() -> None:
    """Let any text be printed anywhere: what is written has more scripts than some encodings.

    Without a console Python's own streams are None, and libraries trip over that.
    """
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 lives for ever
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 lives for ever
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")


class Writer:
    """Writes committed tokens to `stream`, holding back bytes until they make a character."""

    def __init__(self, stream: IO[str], hidden: frozenset[int]) -> None:
        """`hidden` are the ids not shown: those that end a text."""
        self._stream = stream
        self._hidden = hidden
        self._color = stream.isatty() and not os.environ.get("NO_COLOR")
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, made: Round) -> None:
        """Write what one round adds. Raises OSError when the stream is gone or full."""
        for slot in made.path:
            self._stream.write(self._text(made.guesses[slot].token))
        if made.emitted is not None:
            text = self._text(made.emitted.token)
            self._stream.write(self._marked(text, made.emitted) if self._color else text)
        self._stream.flush()

    def close(self) -> None:
        """Write what is left of a cut character, and end the line."""
        self._stream.write(self._decoder.decode(b"", True) + "\n")
        self._stream.flush()

    def _text(self, token: Token) -> str:
        if token.id in self._hidden:
            return ""
        return self._decoder.decode(token.text.encode("utf-8", "surrogateescape"))

    def _marked(self, text: str, emitted: Emitted) -> str:
        return f"{_COLORS[emitted.kind]}{text}{_PLAIN}" if text else ""


def closing_line(header: RunHeader, rounds: Sequence[Round]) -> str:
    """What a run cost, in one line."""
    stats = Stats.of(rounds, header.baseline)
    words = [f"{stats.committed} tokens in {stats.rounds} rounds", f"drafter {header.drafter}"]
    if stats.acceptance_rate is not None:
        words.append(f"accepted {stats.acceptance_rate:.0%}")
    if stats.mean_acceptance_length is not None:
        words.append(f"{stats.mean_acceptance_length:.2f} tokens/round")
    if copied := sum(each.source == "memory" for made in rounds for each in _kept(made)):
        words.append(f"{copied} tokens copied from earlier replies to you")
    if stats.tokens_per_second is not None:
        words.append(f"{stats.tokens_per_second:.1f} tok/s")
    if stats.speedup is not None and header.baseline is not None:
        alone = f"the target alone ({header.baseline.tokens_per_second:.1f} tok/s)"
        slower = f", slower: {stats.slowness}" if stats.slowness else ""
        words.append(f"{stats.speedup:.2f}x {alone}{slower}")
    return " · ".join(words)


def _kept(made: Round) -> list[Guess]:
    """The guesses of a round that joined the text."""
    return [made.guesses[slot] for slot in made.path]


class Progress:
    """What is being done, on stderr: one line, rewritten on a terminal; else a line a second."""

    def __init__(self) -> None:
        self._topic = ""
        self._last = 0.0
        self._open = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        """Wipe the line that was being rewritten."""
        if self._open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._open = False

    def engine(self, state: EngineState) -> None:
        """Say what the engine is doing until it is ready."""
        if state.phase not in ("ready", "notice", "failed"):
            self.say(state.phase + state.detail, describe(state))

    def frames(self, done: int, total: int) -> None:
        self.say("frames", f"{done} of {total} frames")

    def say(self, topic: str, line: str) -> None:
        """Show `line`: at once when the topic is new, else as often as suits the stream."""
        on_terminal, now = sys.stderr.isatty(), time.monotonic()
        if topic == self._topic and now - self._last < (0.1 if on_terminal else 1.0):
            return
        self._topic, self._last = topic, now
        if on_terminal:
            sys.stderr.write(f"\r\x1b[K{line}")
            self._open = True
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


def describe(state: EngineState) -> str:
    """One line on what the engine is doing."""
    words = state.detail or state.phase
    if not state.total:
        return words
    if state.phase == "reading":
        return f"{words}  {state.done} of {state.total} tokens"
    line = f"{words}  {state.done / 1e6:.1f} of {state.total / 1e6:.1f} MB"
    if state.rate > 0:
        line += f"  {state.rate / 1e6:.1f} MB/s"
        line += f"  {duration((state.total - state.done) / state.rate)} left"
    return line


def duration(seconds: float) -> str:
    """Seconds for people: 42 s, 3 min, 2 h."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def sentence(error: BaseException) -> str:
    """Say in one line what went wrong, in words a reader of the screen can use."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "There was not enough memory for this run: close other programs or use the CPU."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}." if error.filename else f"{error.strerror}."
    ours = type(error).__module__.startswith(("engine.", "visualizer."))
    if ours or isinstance(error, ValueError):
        return text if text.endswith((".", "!", "?")) else text + "."
    return f"Something unexpected went wrong ({type(error).__name__}: {text[:200]})."


def device_lost(error: BaseException) -> bool:
    """Whether every later call on the device would fail too."""
    return "CUDA error" in str(error)


def silence(stream: TextIO) -> None:
    """Throw away what `stream` could not deliver, so that leaving the program stays quiet."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
