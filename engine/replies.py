"""What the target wrote for this user before: one small SQLite file for each target.

Only replies lie in it, as token ids; no prompts, no times. An identical reply is kept once, the
oldest go when there are more than `MOST_TOKENS`, and `forget` removes everything. SQLite keeps
several programs apart and a crash from leaving half a reply. Whatever goes wrong costs the
memory, never a run: `notice` then says so, in one sentence. From a place where nothing can be
written what lies there is read still.

Knows nothing of models or of what replies are good for. Standard library only.
"""

from __future__ import annotations

import hashlib
import sqlite3
import uuid
from array import array
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

MOST_TOKENS = 4_000_000
ENDING = ".replies"
PATIENCE = 1.0  # seconds to wait for another program that writes
_VERSION = 1
_TABLES = (
    "CREATE TABLE store (mark TEXT NOT NULL)",
    "CREATE TABLE replies (number INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB UNIQUE NOT NULL,"
    " tokens INTEGER NOT NULL, ids BLOB NOT NULL)",
)


@dataclass(frozen=True, slots=True)
class Kept:
    """Replies in the order they came, each its ids as 32-bit numbers (little-endian).

    `mark` is the file's own: another one means that everything before was forgotten. `number` is
    that of the last reply.
    """

    mark: str = ""
    number: int = 0
    texts: tuple[bytes, ...] = ()


class _NotOursError(Exception):
    """A file that a newer program wrote."""


class Replies:
    """The file at `path`; it and its folder are made when the first reply is kept."""

    def __init__(self, path: Path, most_tokens: int = MOST_TOKENS) -> None:
        self.path = path
        self.notice = ""
        self._most = most_tokens
        self._said = ""  # why the last reply could not be kept: once is enough

    def add(self, ids: Sequence[int]) -> None:
        """Keep one reply."""
        body = _packed(ids)

        def write(db: sqlite3.Connection) -> None:
            digest = hashlib.sha256(body).digest()[:16]
            db.execute(
                "INSERT OR IGNORE INTO replies (digest, tokens, ids) VALUES (?, ?, ?)",
                (digest, len(ids), body),
            )
            (total,) = db.execute("SELECT TOTAL(tokens) FROM replies").fetchone()
            oldest = db.execute("SELECT number, tokens FROM replies ORDER BY number")
            while total > self._most:
                number, tokens = oldest.fetchone()
                db.execute("DELETE FROM replies WHERE number = ?", (number,))
                total -= tokens

        self.notice = ""
        self._on_file(write, "This reply is not remembered")
        said, self._said = self._said, self.notice
        if self.notice == said:
            self.notice = ""

    def after(self, known: Kept) -> Kept:
        """What has been kept since `known`; all of it under another `mark`."""

        def read(db: sqlite3.Connection) -> Kept:
            (mark,) = db.execute("SELECT mark FROM store").fetchone()
            number = known.number if mark == known.mark else 0
            rows = db.execute(
                "SELECT number, ids FROM replies WHERE number > ? ORDER BY number", (number,)
            ).fetchall()
            return Kept(mark, rows[-1][0] if rows else number, tuple(ids for _, ids in rows))

        self.notice = ""
        without = "Earlier replies are not looked up"
        try:
            if not self.path.exists():
                return Kept()
        except OSError as error:  # nobody may look, or no folder can have such a name
            self.notice = f"{without}: {error.strerror or error}."
            return Kept()
        return self._on_file(read, without, may_write=False) or Kept()

    def _on_file(
        self, deal: Callable[[sqlite3.Connection], T], without: str, may_write: bool = True
    ) -> T | None:
        """What `deal` makes of the open file; None where it cannot be had, and `notice` says so.

        What need not write (`may_write` False) does with a file that can only be read.
        """
        for attempt in range(2):
            try:
                try:
                    return self._once(deal)
                except (sqlite3.OperationalError, OSError):
                    if may_write:
                        raise
                    return self._once(deal, read_only=True)
            except sqlite3.OperationalError as error:
                reason = str(error)
                if may_write and "readonly" in reason:
                    self.notice = (
                        f"Earlier replies are looked up, but new ones are not remembered: "
                        f"{self.path.parent} can only be read."
                    )
                    return None
            except sqlite3.DatabaseError:
                if attempt == 0 and self._set_aside():
                    continue
                reason = "their file is damaged"
            except _NotOursError:
                reason = "a newer version of this program keeps them"
            except OSError as error:
                reason = error.strerror or str(error)
            self.notice = f"{without}: {reason}."
            return None
        return None

    def _once(self, deal: Callable[[sqlite3.Connection], T], read_only: bool = False) -> T:
        place: str | Path = self.path
        if read_only:
            place = f"{self.path.absolute().as_uri()}?mode=ro"
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(
            sqlite3.connect(place, timeout=PATIENCE, isolation_level=None, uri=read_only)
        ) as db:
            db.execute("PRAGMA secure_delete = ON")
            db.execute("BEGIN" if read_only else "BEGIN IMMEDIATE")
            try:
                _prepare(db)
                made = deal(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        return made

    def _set_aside(self) -> bool:
        """Give a damaged file another name; whether that worked."""
        names = (f"{self.path.name}.damaged{f'-{n}' if n else ''}" for n in range(1000))
        aside = next(each for each in map(self.path.with_name, names) if not each.exists())
        try:
            self.path.rename(aside)
        except OSError:
            return False
        self.notice = f"The remembered replies were damaged: they now lie in {aside.name}."
        return True


def forget(folder: Path) -> int:
    """Remove every reply of every target; returns how many files there were. Raises OSError."""
    files = [path for path in sorted(folder.glob(f"*{ENDING}*")) if path.is_file()]
    for path in files:
        path.unlink(missing_ok=True)
    return len(files)


def _prepare(db: sqlite3.Connection) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == _VERSION:
        tables = db.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('store', 'replies')")
        if tables.fetchone() != (2,) or db.execute("SELECT mark FROM store").fetchone() is None:
            raise sqlite3.DatabaseError("not as it was made")
        return
    if version:
        raise _NotOursError
    for table in _TABLES:
        db.execute(table)
    db.execute("INSERT INTO store VALUES (?)", (uuid.uuid4().hex,))
    db.execute(f"PRAGMA user_version = {_VERSION}")


def _packed(ids: Sequence[int]) -> bytes:
    numbers = array("I", ids)
    if numbers.itemsize != 4:  # pragma: no cover  no platform we run on
        raise ValueError("numbers of four bytes are needed")
    return numbers.tobytes()
