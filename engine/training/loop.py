"""The training loop every drafter shares: lessons in, updates out, stopped and resumed at will.

`Lessons` serves the target's laws as steps of whole rows; `Trainer` is a student, its optimiser
and its progress as one; `run` steps, measures on held-out rows, and saves. The same recipe, text
and processor give the same weights, interrupted or not.
Knows nothing of what a drafter reads or how it guesses ahead: that is the student's.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.training import corpus as text
from engine.training import evaluate, machine, teacher
from engine.training.recipe import Recipe
from engine.training.student import Asked, SoftCrossEntropy, Student
from engine.training.teacher import Laws

PACE_STEPS = 20
LOOKS = 6
"""Steps a pace is taken from, and looks at a student on its way, where minutes are given."""


@dataclass
class Progress:
    """How far training is; travels inside the checkpoint."""

    step: int = 0
    epoch: int = 0
    row: int = 0  # rows already used in this epoch
    shards: list[int] = field(default_factory=list)  # what this epoch goes through
    visits: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)  # held-out figures so far


class Lessons:
    """The target's laws, served as steps of whole rows.

    An epoch goes through given shards. The first takes its rows in shard order, so that
    training can begin with the first shard while the others are still to be computed; each
    later epoch has an order of its own.
    """

    def __init__(
        self,
        corpus: text.Corpus,
        order: npt.NDArray[np.int32],
        laws: Callable[[int], Laws],
        available: Callable[[], list[int]],
        recipe: Recipe,
    ) -> None:
        self.corpus = corpus
        self.available = available  # the shards an epoch that begins now goes through
        self.rows = order  # corpus rows; position n lies in shard n // SHARD_ROWS
        self.recipe = recipe
        self._laws = laws
        self._shards: dict[int, Laws] = {}

    def order(self, epoch: int, shards: Sequence[int]) -> npt.NDArray[np.int64]:
        """Positions in `rows` of these shards, in the order this epoch takes them."""
        size = teacher.SHARD_ROWS
        ends = [(shard * size, min(len(self.rows), (shard + 1) * size)) for shard in shards]
        positions = np.concatenate([np.arange(first, end) for first, end in ends])
        if epoch == 0:
            return positions
        return np.random.default_rng((self.recipe.seed, epoch)).permutation(positions)

    def steps(self, epoch: int, shards: Sequence[int], first: int) -> Iterator[list[int]]:
        """Groups of positions of one epoch, from the `first` on; its short rest is left out."""
        group: list[int] = []
        tokens = 0
        for position in self.order(epoch, shards)[first:].tolist():
            group.append(position)
            tokens += len(self.corpus.reply(self.rows[position]))
            if tokens >= self.recipe.step_tokens:
                yield group
                group, tokens = [], 0

    def batch(self, group: Sequence[int]) -> tuple[list[int], Tensor, Tensor]:
        """Corpus rows of a group with their laws: places (N, top) int64, probs (N, top)."""
        places, probs = [], []
        for position in group:
            shard, index = divmod(position, teacher.SHARD_ROWS)
            laws = self._shard(shard)
            span = slice(laws.offsets[index], laws.offsets[index + 1])
            places.append(laws.places[span])
            probs.append(laws.probs[span])
        return (
            [int(self.rows[position]) for position in group],
            torch.tensor(np.concatenate(places).astype(np.int64)),
            torch.tensor(np.concatenate(probs).astype(np.float32)),
        )

    def _shard(self, index: int) -> Laws:
        if index not in self._shards:
            self._shards[index] = self._laws(index)
        return self._shards[index]


class Trainer:
    """A student, its optimiser and its progress: stepped, saved and resumed as one."""

    def __init__(self, student: Student, recipe: Recipe, dtype: torch.dtype) -> None:
        self.student = student
        self.recipe = recipe
        self.dtype = dtype
        self.head = student.head.to(dtype)
        self.progress = Progress()
        self.start: dict[str, Any] = {}  # the drafter it began with, as its card is to say
        self.planned = 0  # visits that a training it goes on from was to come to
        for layer in getattr(student.decoder, "layers", [])[: recipe.frozen_layers]:
            layer.requires_grad_(False)
        self.optimiser = torch.optim.AdamW(
            student.parameters(), lr=recipe.peak_rate, betas=(0.9, 0.95), weight_decay=0.0
        )

    def step(self, lessons: Lessons, group: Sequence[int]) -> float:
        """One update on the rows of a group; returns the loss in nats a token."""
        progress = self.progress
        rows, places, probs = lessons.batch(group)
        for parameters in self.optimiser.param_groups:
            parameters["lr"] = self.recipe.rate(progress.step, progress.visits)
        given = [lessons.corpus.row(row) for row in rows]
        mixed = self.dtype != torch.float32
        positions = teacher.predicting(lessons.corpus, rows)
        source = np.random.default_rng((self.recipe.seed, progress.step))
        with torch.autocast(self.head.device.type, self.dtype, enabled=mixed):
            depth = self.recipe.depth(progress.visits)
            practised = self.student.practice(given, depth, positions, source)
        asked = Asked.some(self.head, places, probs, self.recipe.others, source)
        losses: list[Tensor] = [
            SoftCrossEntropy.apply(  # type: ignore[no-untyped-call]
                hidden, asked.head, asked.offset, asked.places[at], asked.probs[at]
            )
            * len(at)
            for hidden, at in practised
            if len(at)
        ]
        loss = torch.stack(losses).sum() / sum(len(at) for _, at in practised)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.student.parameters(), self.recipe.clip)
        self.optimiser.step()
        progress.step += 1
        progress.row += len(group)
        progress.visits += len(places)
        return float(loss.detach())

    def state(self) -> dict[str, Any]:
        return {
            "kind": self.student.kind,
            "student": self.student.decoder.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "vocab_ids": self.student.vocab_ids,
            "recipe": asdict(self.recipe),
            "start": self.start,
            "progress": asdict(self.progress),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`; raises ValueError if it is of another make or vocabulary."""
        if state["kind"] != self.student.kind:
            raise ValueError(f"the checkpoint is of a drafter of kind {state['kind']}")
        if state["recipe"]["layers"] != self.recipe.layers:
            raise ValueError(
                f"the checkpoint is of a drafter of {state['recipe']['layers']} layers"
            )
        if not torch.equal(state["vocab_ids"], self.student.vocab_ids):
            raise ValueError("the checkpoint was trained on another vocabulary or text")
        self.student.decoder.load_state_dict(state["student"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.start = state["start"]
        self.progress = Progress(**state["progress"])
        self.planned = state["recipe"]["visits"] if self.progress.step else 0


def train(trainer: Trainer, lessons: Lessons) -> Iterator[float]:
    """Step until the recipe's visits are reached, yielding each loss.

    Raises ValueError if the shards of an epoch hold less than one step.
    """
    progress, visits = trainer.progress, trainer.recipe.visits
    while progress.visits < visits:
        if progress.row == 0:
            progress.shards = lessons.available()
            if next(lessons.steps(progress.epoch, progress.shards, 0), None) is None:
                raise ValueError("the text holds fewer reply tokens than one step takes")
        for group in lessons.steps(progress.epoch, progress.shards, progress.row):
            yield trainer.step(lessons, group)
            if progress.visits >= visits:
                return
        progress.epoch += 1
        progress.row = 0


def fit(trainer: Trainer, lessons: Lessons, watch: evaluate.Watch, seconds: float) -> int:
    """Set the visits that fit into so many seconds, from the pace of a few steps, taken here.

    Nothing in a training depends on its visits before the rate falls, so they can be set late. A
    training that goes on comes to those that were set when it began, or its rate would rise anew.
    Returns after how many steps each to look, for `LOOKS` of them.
    """
    progress = trainer.progress
    if trainer.planned:
        trainer.recipe = replace(trainer.recipe, visits=trainer.planned)
        return max(1, trainer.planned * progress.step // (progress.visits * LOOKS))
    trainer.recipe = replace(trainer.recipe, visits=2**62)
    began = time.monotonic()
    watch.match(trainer.student, lessons.corpus)
    looked = time.monotonic()
    steps = train(trainer, lessons)
    next(steps)  # not timed: laws may have to be made for it, a whole shard of them
    started = time.monotonic()
    for _ in islice(steps, PACE_STEPS - 1):
        pass
    a_step = (time.monotonic() - started) / (PACE_STEPS - 1)
    progress.seconds = time.monotonic() - looked
    left = seconds - (time.monotonic() - began) - LOOKS * (looked - began)
    count = max(1, int(left / a_step))
    visits = progress.visits + count * progress.visits // PACE_STEPS
    trainer.recipe = replace(trainer.recipe, visits=visits)
    return max(1, count // LOOKS)


def write_checkpoint(state: dict[str, Any], path: Path) -> None:
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A trainer's state, on the device in use. Raises ValueError where none can be read."""
    try:
        state: dict[str, Any] = torch.load(path, machine.device(), weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"{path} is no checkpoint that can be read: delete it to begin anew"
        ) from error
    return state


def run(
    trainer: Trainer,
    lessons: Lessons,
    watch: evaluate.Watch,
    work: Path,
    every: int,
    stop: threading.Event,
    keep: Sequence[int] = (),
) -> bool:
    """Train to the end; every so many steps measure, report and save.

    After each number of visits in `keep` a checkpoint is put aside that later ones leave be.
    When `stop` is set, saves after the step under way and leaves. Returns whether the end
    was reached.
    """
    progress = trainer.progress
    began = time.perf_counter() - progress.seconds
    losses: list[float] = []
    visits = progress.visits
    for loss in train(trainer, lessons):
        losses.append(loss)
        progress.seconds = time.perf_counter() - began
        if progress.step % every == 0 or progress.visits >= trainer.recipe.visits:
            matches = watch.match(trainer.student, lessons.corpus)
            point = {"visits": progress.visits, "loss": float(np.mean(losses)), **matches}
            progress.curve.append(point)
            losses.clear()
            write_checkpoint(trainer.state(), work / "checkpoint.pt")
            print(report(progress, point), flush=True)
        elif stop.is_set():
            write_checkpoint(trainer.state(), work / "checkpoint.pt")
        for mark in keep:
            if visits < mark <= progress.visits:
                write_checkpoint(trainer.state(), work / f"checkpoint-{mark}.pt")
        visits = progress.visits
        if stop.is_set():
            break
    return progress.visits >= trainer.recipe.visits


def report(progress: Progress, point: dict[str, float]) -> str:
    """One line of how training stands."""
    matches = ", ".join(
        f"{name} {share:.4f}" for name, share in point.items() if name not in ("visits", "loss")
    )
    return (
        f"step {progress.step} epoch {progress.epoch} of {len(progress.shards)} shards "
        f"visits {progress.visits:,} loss {point['loss']:.3f} {progress.seconds:.0f} s "
        f"· held out: {matches}"
    )


def stop_on_signals() -> threading.Event:
    """An event that Ctrl+C or a request to terminate sets, instead of breaking off a step."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
