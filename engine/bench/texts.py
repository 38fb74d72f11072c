"""The prompts of a sweep, from files, each in a family.

Three forms: ``prompts.json`` as `engine.prompts` reads it; ``.jsonl``, one object a line with
``prompt`` (or ``text``), and if wanted ``chat`` and ``family``; any other file is text, one chat
turn a line, where a line ``# poetry`` names the family of those below it. Without a name the
family is that of the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import prompts


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt of the sweep; `chat` False continues it. `family` is what it is an example of."""

    prompt: str
    chat: bool
    family: str = ""


def load(paths: Sequence[Path]) -> list[Text]:
    """Prompts of all files; the curated ones when there are none.

    Raises ValueError, one clear sentence, for a file that is no such list, or OSError.
    """
    found: list[Text] = []
    for path in paths or [prompts.CURATED]:
        texts = list(_read(path))
        if not texts:
            raise ValueError(f"{path} holds no prompt")
        found += texts
    return found


def _read(path: Path) -> Iterator[Text]:
    if path.suffix == ".json":
        return (Text(each.text, each.chat, each.family) for each in prompts.load(path))
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8") from error
    if path.suffix == ".jsonl":
        return (_entry(path, number, line) for number, line in enumerate(lines, 1) if line.strip())
    return _plain(path, lines)


def _plain(path: Path, lines: Sequence[str]) -> Iterator[Text]:
    family = path.stem
    for line in map(str.strip, lines):
        if line.startswith("# "):
            family = line[2:].strip()
        elif line:
            yield Text(line, True, family)


def _entry(path: Path, number: int, line: str) -> Text:
    where = f"{path}, line {number}"
    try:
        body: Any = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{where} is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ValueError(f"{where} must be an object with a prompt")
    prompt, chat = body.get("prompt", body.get("text")), body.get("chat", True)
    family = body.get("family", path.stem)
    if not (isinstance(prompt, str) and prompt.strip()):
        raise ValueError(f"{where} has no prompt")
    if not (isinstance(chat, bool) and isinstance(family, str)):
        raise ValueError(f"{where}: chat must be true or false, and family a text")
    return Text(prompt, chat, family)
