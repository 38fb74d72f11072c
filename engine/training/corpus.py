"""The target's own text on disk, and how it is split into training and held-out rows.

A row is one chat turn: the template's ids with the prompt, then the reply. Templates repeat
across topics, so a split by row would measure memory. `split` instead withholds whole
prompt families, whole templates and whole topics; a row touching any of them never trains.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.tokenizer import Tokenizer
from engine.training import prompts

Ids = npt.NDArray[np.uint16]

HELD_OUT_FAMILIES = frozenset({"dialogue", "math"})
HELD_OUT_TEMPLATES = frozenset(
    {
        "Give a simple definition of {}.",
        "Name four people, places or things connected to {}.",
        "Write an introduction for an essay on {}.",
        "Write a JavaScript function that {}.",
        "Rewrite this text and fix mistakes: {}",
    }
)
# Every 25th topic and every 10th programming task.
HELD_OUT_SUBJECTS = frozenset(prompts.TOPICS[12::25]) | frozenset(prompts.CODE_TASKS[5::10])


@dataclass(frozen=True)
class Corpus:
    """Chat turns end to end.

    `temperature` is nan where the sampling of a row is unknown.
    """

    ids: Ids  # (tokens,)
    starts: npt.NDArray[np.int64]  # (rows + 1,)
    prompt_lengths: npt.NDArray[np.int32]  # (rows,)
    temperature: npt.NDArray[np.float32]  # (rows,)
    family: npt.NDArray[np.str_]  # (rows,)

    def __len__(self) -> int:
        return len(self.prompt_lengths)

    def row(self, index: int) -> Ids:
        """All ids of one row, prompt first."""
        return self.ids[self.starts[index] : self.starts[index + 1]]

    def prompt(self, index: int) -> Ids:
        return self.row(index)[: self.prompt_lengths[index]]

    def reply(self, index: int) -> Ids:
        """What the target wrote in one row (ends with EOS where it stopped by itself)."""
        return self.row(index)[self.prompt_lengths[index] :]

    def reply_tokens(self, rows: Iterable[int]) -> int:
        return sum(len(self.reply(row)) for row in rows)


def load(*paths: Path) -> Corpus:
    """Read text files as `save` leaves them, one after the other into one corpus."""
    return join([_read(path) for path in paths])


def _read(path: Path) -> Corpus:
    with np.load(path) as arrays:
        return Corpus(
            ids=arrays["ids"],
            starts=np.concatenate(([0], np.cumsum(arrays["lengths"], dtype=np.int64))),
            prompt_lengths=arrays["prompt_lengths"],
            temperature=arrays["temperature"],
            family=arrays["family"],
        )


def join(parts: Sequence[Corpus]) -> Corpus:
    """Several corpora, one after the other, as one."""
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return Corpus(
        ids=np.concatenate([part.ids for part in parts]),
        starts=np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))),
        prompt_lengths=np.concatenate([part.prompt_lengths for part in parts]),
        temperature=np.concatenate([part.temperature for part in parts]),
        family=np.concatenate([part.family for part in parts]),
    )


def save(corpus: Corpus, path: Path) -> None:
    """Write the corpus so that a reader sees either the old file or the whole new one."""
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    with partial.open("wb") as file:
        np.savez_compressed(
            file,
            ids=corpus.ids,
            lengths=np.diff(corpus.starts).astype(np.int32),
            prompt_lengths=corpus.prompt_lengths,
            temperature=corpus.temperature,
            family=corpus.family,
        )
    os.replace(partial, path)


@dataclass(frozen=True)
class Split:
    """Row numbers: what trains, and what was withheld and for which reason.

    The three reasons are exclusive, the strongest first: a dialogue about a withheld topic
    counts as an unseen family.
    """

    train: tuple[int, ...]
    unseen_family: tuple[int, ...]
    unseen_template: tuple[int, ...]
    unseen_topic: tuple[int, ...]
    families: tuple[str, ...] = field(repr=False)  # of every row, read from its prompt

    def check(self, corpus: Corpus) -> None:
        """Raise ValueError where there is nothing to train on, or nothing to measure a card on."""
        held_out = corpus.temperature[list(self.held_out)]
        if not self.train:
            raise ValueError("the text holds no reply to train on: all of its prompts are held out")
        for temperature in (0.0, 0.7):
            if not np.isclose(held_out, temperature).any():
                raise ValueError(
                    "the text holds no reply to measure on, to a held-out prompt at temperature "
                    f"{temperature:g}: add some that was written without --teaching-only"
                )

    @property
    def by_reason(self) -> tuple[tuple[int, ...], ...]:
        """The withheld rows: unseen family, template, topic."""
        return self.unseen_family, self.unseen_template, self.unseen_topic

    @property
    def held_out(self) -> tuple[int, ...]:
        return tuple(sorted(row for rows in self.by_reason for row in rows))


def user_text(ids: Sequence[int] | Ids, tokenizer: Tokenizer) -> str:
    """What the user asked, read back from the ids of a row's prompt."""
    before, after = tokenizer.frame
    return tokenizer.decode(map(int, ids)).removeprefix(before).removesuffix(after)


def split(corpus: Corpus, tokenizer: Tokenizer) -> Split:
    """Withhold rows by family, template and topic; everything else trains."""
    groups: dict[str, list[int]] = {"train": [], "family": [], "template": [], "topic": []}
    families = []
    for row in range(len(corpus)):
        asked = prompts.identify(user_text(corpus.prompt(row), tokenizer))
        families.append(asked.family)
        groups[reason(asked)].append(row)
    return Split(
        train=tuple(groups["train"]),
        unseen_family=tuple(groups["family"]),
        unseen_template=tuple(groups["template"]),
        unseen_topic=tuple(groups["topic"]),
        families=tuple(families),
    )


def reason(asked: prompts.Prompt) -> str:
    """Why a prompt is held out: family, template or topic; ``train`` where it is not."""
    if asked.family in HELD_OUT_FAMILIES:
        return "family"
    if asked.template in HELD_OUT_TEMPLATES:
        return "template"
    if prompts.mentions(asked.text, HELD_OUT_SUBJECTS):
        return "topic"
    return "train"


def reduced_vocabulary(
    corpus: Corpus, rows: Iterable[int], low_ids: int, min_count: int, vocab_size: int
) -> npt.NDArray[np.int32]:
    """Sorted ids the drafter can propose: the first `low_ids`, and those often written.

    A small vocabulary keeps the drafter's head cheap; the tokens outside it are never
    guessed and simply cost an acceptance.
    """
    counts = np.bincount(np.concatenate([corpus.reply(row) for row in rows]), minlength=vocab_size)
    kept = counts >= min_count
    kept[:low_ids] = True
    return np.flatnonzero(kept).astype(np.int32)
