"""What the command palette offers for what was typed: everything one can do, or run files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.prompts import Prompt
from engine.trace import Settings
from visualizer import actions as act
from visualizer import dial
from visualizer.actions import Action
from visualizer.clock import SPEEDS
from visualizer.keymap import COMMANDS, keys_of
from visualizer.stage.theme import THEMES
from visualizer.stage.view import QUALITIES
from visualizer.state import MAX_K, SHOT_SIDES

SHOWN = 200
"""Entries kept of a long list; nobody scrolls further than typing a letter more."""

_SCALES = (0.75, 1.0, 1.25, 1.5, 2.0, 2.5)
_ENDING = ".jsonl"

SHOT_SIZES = ((1920, 1080), (3840, 2160), (7680, 4320))
"""Offered for screenshots; any other can be typed."""

_KNOWN = {(3840, 2160): ", 4K", (7680, 4320): ", 8K"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the palette: what it does, and its keys or another remark."""

    title: str
    hint: str
    action: Action


def commands(
    settings: Settings, prompts: Sequence[Prompt] = (), drafters: Sequence[str] = ()
) -> tuple[Entry, ...]:
    """Every action there is. `drafters` and `prompts` are empty where there is no engine."""
    named = [Entry(each.title, keys_of(each.action), each.action) for each in COMMANDS]
    looks = [Entry(f"Theme: {name}", "", act.ChooseTheme(name)) for name in THEMES]
    looks += [Entry(f"Quality: {name}", "", act.ChooseQuality(name)) for name in QUALITIES]
    looks.append(Entry("Quality: by this machine", "", act.ChooseQuality(None)))
    looks += [Entry(f"Panel size {scale:.0%}", "", act.SetUiScale(scale)) for scale in _SCALES]
    looks += [_shot_size(size) for size in (None, *SHOT_SIZES)]
    looks += [Entry(f"Speed {speed:g}x", "", act.SetSpeed(speed)) for speed in SPEEDS]
    if not drafters:
        return (*named, *looks)
    runs = [
        Entry(f"Prompt: {each.title}", each.shows, act.ChoosePrompt(index, each.text, each.chat))
        for index, each in enumerate(prompts)
    ]
    changes = [(f"Drafter: {name}", replace(settings, drafter=name)) for name in drafters]
    changes += [
        (f"K: {k} guess{'' if k == 1 else 'es'}", replace(settings, k=k, auto_k=False))
        for k in range(MAX_K + 1)
    ]
    changes.append(("K: auto, as many guesses as pay", replace(settings, auto_k=True)))
    changes += [
        (f"Draft quality {share} %", replace(settings, quality=float(share)))
        for share in range(0, 101, 25)
    ]
    changes += [
        (f"Temperature {tenths / 10:g}", replace(settings, temperature=tenths / 10))
        for tenths in range(16)
    ]
    dials = [
        Entry(
            f"Draft quality through {each}: {dial.MEANS[each]}", "",
            act.ChooseDial(each, dial.entered(each, settings, drafters)),
        )
        for each in dial.offered(drafters)
    ]  # fmt: skip
    other = "Target only" if settings.speculative else "Speculative decoding"
    changes.append((other, replace(settings, speculative=not settings.speculative)))
    chosen = (Entry(title, "", act.ChangeSettings(made)) for title, made in changes)
    return (*named, *looks, *runs, *chosen, *dials)


def _shot_size(size: tuple[int, int] | None) -> Entry:
    shown = "as the window" if size is None else "{}x{}{}".format(*size, _KNOWN.get(size, ""))
    return Entry(f"Screenshot size: {shown}", "", act.ChooseShotSize(size))


def typed_size(query: str) -> tuple[Entry, ...]:
    """A screenshot's size that was typed ("2000x3000"), if it can be had."""
    found = re.fullmatch(r"\D*?(\d{2,5})\s*[x×*]\s*(\d{2,5})\s*", query)
    size = (int(found[1]), int(found[2])) if found else None
    low, high = SHOT_SIDES
    if size is None or size in SHOT_SIZES or not low <= min(size) <= max(size) <= high:
        return ()
    return (_shot_size(size),)


def matching(query: str, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries that hold every word of `query`, letters in order; the closest first."""
    words = query.lower().split()
    scored = []
    for place, entry in enumerate(entries):
        fits = [closeness(word, entry.title.lower()) for word in words]
        if None not in fits:
            scored.append((-sum(fit or 0.0 for fit in fits), place, entry))
    return tuple(entry for _, _, entry in sorted(scored, key=lambda each: each[:2])[:SHOWN])


def closeness(word: str, title: str) -> float | None:
    """How well `title` holds the letters of `word` in order; None when it does not.

    A letter at the start of a word counts most, then one right after the letter before it.
    """
    whole = title.find(word)
    if whole >= 0:
        return 4.0 * len(word) + (2.0 if whole == 0 or not title[whole - 1].isalnum() else 0.0)
    score, at = 0.0, -1
    for letter in word:
        found = title.find(letter, at + 1)
        if found < 0:
            return None
        starts = found == 0 or not title[found - 1].isalnum()
        score += 2.0 if starts else 1.0 if found == at + 1 else 0.1
        score -= 0.01 * (found - at - 1) if at >= 0 else 0.0  # letters that lie far apart
        at = found
    return score


def run_files(query: str, folders: Iterable[Path]) -> tuple[Entry, ...]:
    """Run files to open: those of `folders`, the newest first, or what a typed path leads to.

    A folder that cannot be read has nothing in it.
    """
    if looks_like_a_path(query):
        return _along(Path(query).expanduser(), query)
    found = [path for folder in dict.fromkeys(folders) for path in _listed(folder)]
    files = sorted({path for path in found if path.suffix == _ENDING}, key=_age)
    entries = [Entry(path.name, _short(path.parent), act.OpenRun(path)) for path in files]
    return matching(query, entries)


def looks_like_a_path(query: str) -> bool:
    return query.startswith(("~", ".")) or os.sep in query or "/" in query


def _along(path: Path, query: str) -> tuple[Entry, ...]:
    """What a path that is being typed may go on to; itself first, when it is a file."""
    folder, start = (path, "") if query.endswith(("/", os.sep)) else (path.parent, path.name)
    entries = []
    for each in _listed(folder):
        hidden = each.name.startswith(".") and not start.startswith(".")
        if hidden or not each.name.lower().startswith(start.lower()):
            continue
        if each.is_dir():
            entries.append(Entry(f"{each.name}{os.sep}", "folder", act.Query(f"{each}{os.sep}")))
        elif each.suffix == _ENDING:
            entries.append(Entry(each.name, _short(folder), act.OpenRun(each)))
    if not entries:
        entries = [Entry(f"Open {query}", "", act.OpenRun(path))]
    return tuple(entries[:SHOWN])


def copy_of(query: str) -> tuple[Entry, ...]:
    """Where a copy of the run would go."""
    path = Path(query.strip()).expanduser()
    if not query.strip() or query.endswith(("/", os.sep)) or path.is_dir():
        return ()
    if path.suffix != _ENDING:
        path = path.with_name(path.name + _ENDING)
    return (Entry(f"Save as {path.name}", _short(path.parent), act.SaveRun(path)),)


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir(), key=lambda path: path.name.lower())
    except OSError:
        return []


def _age(path: Path) -> tuple[float, str]:
    try:
        return (-path.stat().st_mtime, path.name)
    except OSError:
        return (0.0, path.name)


def _short(folder: Path) -> str:
    """A folder's name as people know it."""
    try:
        return f"~/{folder.resolve().relative_to(Path.home()).as_posix()}"
    except (ValueError, OSError, RuntimeError):
        return str(folder)
