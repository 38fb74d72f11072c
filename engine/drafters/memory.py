"""Earlier replies of this very target to this very user, to be looked up.

A run is given what was there when it began, and sees nothing that comes later: within a run the
same text is always continued alike. A reply joins when its run is over; the big part of the index
is not sorted anew for it (see `suffix_index.Layers`).

Knows the file (`engine.replies`) and the index; not what is proposed from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.drafters.suffix_index import SEPARATOR, Layers
from engine.replies import ENDING, Kept, Replies

SHORTEST = 3
"""Tokens of a reply worth keeping: two to match, and what followed them."""

_SAMPLE = 1 << 20  # bytes read at either end of a file of weights


class Memory:
    """Replies of one target. `notice` is one sentence on what went wrong the last time, or ""."""

    def __init__(self, replies: Replies, vocab_size: int) -> None:
        self._replies = replies
        self._vocab_size = vocab_size
        self._nothing = Layers(16 if vocab_size <= SEPARATOR else 32)
        self._known, self._upto = self._nothing, Kept()

    @property
    def notice(self) -> str:
        return self._replies.notice

    def recall(self) -> Layers:
        """Every reply there is now, as an index that never changes."""
        fresh = self._replies.after(self._upto)
        whole = (text for text in fresh.texts if text and len(text) % 4 == 0)
        texts = [np.frombuffer(text, "<u4") for text in whole]
        before = self._known if fresh.mark == self._upto.mark else self._nothing
        self._known = before.grown([text for text in texts if text.max() < self._vocab_size])
        self._upto = Kept(fresh.mark, fresh.number)
        return self._known

    def keep(self, ids: Sequence[int]) -> None:
        """A run is over: its reply can be looked up from the next one on."""
        if len(ids) >= SHORTEST:
            self._replies.add(ids)


def memory_of(folder: Path, target: Path, form: str, vocab_size: int) -> Memory:
    """The memory in `folder` of the model in folder `target` with weights in this form."""
    return Memory(Replies(folder / f"{fingerprint(target, form)}{ENDING}"), vocab_size)


def fingerprint(target: Path, form: str) -> str:
    """Changes with the tokenizer, the shape, or the weights, of which both ends are looked at."""
    digest = hashlib.sha256(form.encode())
    for name in ("config.json", "tokenizer.json"):
        path = target / name
        digest.update(path.read_bytes() if path.is_file() else b"-")
    for path in sorted(target.glob("*.safetensors")):
        size = path.stat().st_size
        with path.open("rb") as file:
            digest.update(size.to_bytes(8, "big") + file.read(_SAMPLE))
            file.seek(max(size - _SAMPLE, 0))
            digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:16]
