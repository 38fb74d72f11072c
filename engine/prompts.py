"""The curated prompts: each was read with the default target's reply and found sane.

Standard library only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from engine.codec import CodecError, from_plain

CURATED = Path(__file__).resolve().parent.parent / "assets" / "prompts.json"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt and what it is good for.

    `chat` False continues the text itself. `family` is what it is an example of; `shows` says
    which acceptance behaviour to look for. `reply` is the gist of what the default target
    greedily answers within `max_new_tokens`, as read by a person.
    """

    title: str
    text: str
    chat: bool
    shows: str
    reply: str
    max_new_tokens: int
    family: str = "open"


def load(path: Path) -> tuple[Prompt, ...]:
    """Read ``prompts.json``. Raises CodecError (what is wrong where) or OSError."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CodecError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(body, list) or not all(isinstance(item, dict) for item in body):
        raise CodecError(f"{path.name} must be a list of prompts")
    return tuple(from_plain(Prompt, item) for item in body)
