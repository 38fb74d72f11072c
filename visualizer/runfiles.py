"""Run files opened and saved by hand, and replies forgotten. What goes wrong is one sentence."""

from __future__ import annotations

from pathlib import Path

from engine import replies
from engine.codec import CodecError, iter_lines, read_run
from engine.trace import Trace
from visualizer.errors import VisualizerError


class RunFileError(VisualizerError):
    """A run file that could not be opened or saved; the message is for people."""


def read(path: Path) -> Trace:
    """The run of a file. Raises RunFileError."""
    try:
        return read_run(path)
    except OSError as error:
        reason = error.strerror or str(error)
    except CodecError as error:
        reason = str(error)
    raise RunFileError(f"{path.name} was not opened: {reason}.")


def forget_replies(folder: Path | None) -> str:
    """Remove the replies that are remembered; what came of it, in one sentence."""
    try:
        found = replies.forget(folder) if folder is not None else 0
    except OSError as error:
        return f"The replies could not be removed: {error.strerror or error}."
    return "The replies remembered are gone." if found else "No reply is remembered."


def save(run: Trace, path: Path) -> str:
    """Write a run, as far as it has come, to a file that is not there yet; say where it is.

    Raises RunFileError; no file is ever overwritten.
    """
    if run.header is None:
        raise RunFileError("There is no run to save yet.")
    end = () if run.end is None else (run.end,)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.writelines(iter_lines([run.header, *run.rounds, *end]))
    except FileExistsError as error:
        raise RunFileError(f"{path.name} exists already: choose another name.") from error
    except OSError as error:
        raise RunFileError(f"{path.name} was not saved: {error.strerror or error}.") from error
    return f"Saved {path}"
