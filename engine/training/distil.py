"""From the target's own text to a shipped drafter, in one command.

    python -m engine.training.distil --target FOLDER --text TEXT.npz --work FOLDER \\
        --out assets/drafters/small

The target's laws are computed once (`teacher`), the student is trained against them with its
held-out figures as it goes (`evaluate.Watch`), exported, measured on all prompts it never saw
and given its card (`ship`). Interrupted, each stage continues where it stopped. The
same seed, text and processor give the same weights, interrupted or not.

Where the laws come from another process (`teacher`), `--laws-at-hand` learns from those that
are there, more each epoch; when they came then matters to the weights.

The learning rate is constant after a short warm-up and falls linearly to zero over the last
part of the visits. Before that fall nothing depends on `--visits`, so a run can be lengthened.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.training import corpus as text
from engine.training import evaluate, teacher
from engine.training.ship import card, ship
from engine.training.student import SoftCrossEntropy, Student, load, packed
from engine.training.teacher import Laws, Target


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that shapes the weights, besides text and target."""

    layers: int = 2
    seed: int = 0
    visits: int = 4_000_000  # reply tokens trained on, repeats counted
    step_tokens: int = 330  # reply tokens a step, at least; 1,300 learned much worse early
    peak_rate: float = 1e-3
    warmup_steps: int = 20
    cooldown: float = 0.3  # last share of the visits, in which the rate falls to zero
    clip: float = 1.0

    def rate(self, step: int, visits: int) -> float:
        """Learning rate of a step that begins after `visits` tokens."""
        warm = min(1.0, (step + 1) / self.warmup_steps)
        left = max(0.0, 1 - visits / self.visits)
        return self.peak_rate * warm * min(1.0, left / self.cooldown)


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
            torch.from_numpy(np.concatenate(places).astype(np.int64)),
            torch.from_numpy(np.concatenate(probs).astype(np.float32)),
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
        self.optimiser = torch.optim.AdamW(
            student.parameters(), lr=recipe.peak_rate, betas=(0.9, 0.95), weight_decay=0.0
        )

    def step(self, lessons: Lessons, group: Sequence[int]) -> float:
        """One update on the rows of a group; returns the loss in nats a token."""
        progress = self.progress
        rows, places, probs = lessons.batch(group)
        for parameters in self.optimiser.param_groups:
            parameters["lr"] = self.recipe.rate(progress.step, progress.visits)
        ids, lengths = packed([lessons.corpus.row(row) for row in rows])
        mixed = self.dtype != torch.float32
        with torch.autocast("cpu", self.dtype, enabled=mixed):
            hidden = self.student.hidden(ids, lengths)
        positions = teacher.predicting(lessons.corpus, rows)
        loss: Tensor = SoftCrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden[positions], self.head, places, probs
        )
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
            "student": self.student.decoder.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "vocab_ids": self.student.vocab_ids,
            "recipe": asdict(self.recipe),
            "progress": asdict(self.progress),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`; raises ValueError if it belongs to another vocabulary."""
        if not torch.equal(state["vocab_ids"], self.student.vocab_ids):
            raise ValueError("the checkpoint was trained on another vocabulary or text")
        self.student.decoder.load_state_dict(state["student"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.progress = Progress(**state["progress"])


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


def write_checkpoint(state: dict[str, Any], path: Path) -> None:
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)


def run(
    trainer: Trainer,
    lessons: Lessons,
    watch: evaluate.Watch,
    work: Path,
    every: int,
    stop: threading.Event,
) -> bool:
    """Train to the end; every so many steps measure, report and save.

    When `stop` is set, saves after the step under way and leaves. Returns whether the end
    was reached.
    """
    progress = trainer.progress
    began = time.perf_counter() - progress.seconds
    losses: list[float] = []
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
        if stop.is_set():
            break
    return progress.visits >= trainer.recipe.visits


def report(progress: Progress, point: dict[str, float]) -> str:
    """One line of how training stands."""
    matches = ", ".join(f"{name} {point[name]:.4f}" for name in ("all", *evaluate.REASONS))
    return (
        f"step {progress.step} epoch {progress.epoch} of {len(progress.shards)} shards "
        f"visits {progress.visits:,} loss {point['loss']:.3f} {progress.seconds:.0f} s "
        f"· held out: {matches}"
    )


def prepare(plan: teacher.Plan, recipe: Recipe, start: Path | None) -> Trainer:
    """A trainer that continues from the checkpoint in the work folder if there is one.

    Else it begins with the drafter in `start`, or without it with the target's first layers.
    Raises ValueError if that drafter has another number of layers.
    """
    vocab_ids = torch.from_numpy(plan.vocabulary).long()
    target = Target.load(plan.target_folder)
    if start is None:
        student = Student.from_target(target, recipe.layers, vocab_ids)
    else:
        student = load(start, target.embedding)
        if student.shape.layers != recipe.layers:
            raise ValueError(f"{start} has {student.shape.layers} layers, not {recipe.layers}")
    trainer = Trainer(student, recipe, teacher.working_dtype())
    checkpoint = plan.work / "checkpoint.pt"
    if checkpoint.exists():
        trainer.restore(torch.load(checkpoint, weights_only=True))
        print(f"continuing from {trainer.progress.visits:,} visits", flush=True)
    return trainer


def stop_on_signals() -> threading.Event:
    """An event that Ctrl+C or a request to terminate sets, instead of breaking off a step."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def main(stop: threading.Event) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    defaults = Recipe()
    parser.add_argument("--target", type=Path, required=True, help="folder of the target")
    parser.add_argument(
        "--text", type=Path, nargs="+", required=True, help="the target's own text, .npz"
    )
    parser.add_argument("--work", type=Path, required=True, help="laws and checkpoints")
    parser.add_argument("--out", type=Path, required=True, help="folder of the drafter")
    parser.add_argument("--start", type=Path, help="begin with this exported drafter's weights")
    parser.add_argument("--visits", type=int, default=defaults.visits)
    parser.add_argument(
        "--cooldown",
        type=float,
        default=defaults.cooldown,
        help="last share of the visits, in which the rate falls to zero",
    )
    parser.add_argument("--step-tokens", type=int, default=defaults.step_tokens)
    parser.add_argument("--layers", type=int, default=defaults.layers)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument(
        "--laws-at-hand",
        action="store_true",
        help="compute no laws; each epoch learns from the shards there when it begins",
    )
    parser.add_argument("--every", type=int, default=500, help="steps between checkpoints")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    recipe = Recipe(
        layers=options.layers,
        seed=options.seed,
        visits=options.visits,
        step_tokens=options.step_tokens,
        cooldown=options.cooldown,
    )
    plan = teacher.Plan.make(options.target, options.text, options.work, recipe.seed, options.start)
    available = plan.finished if options.laws_at_hand else lambda: list(range(plan.shard_count))
    lessons = Lessons(plan.corpus, plan.order, plan.laws, available, recipe)
    trainer = prepare(plan, recipe, options.start)
    watch = evaluate.Watch.load(plan, options.seed)
    if not run(trainer, lessons, watch, options.work, options.every, stop):
        print(f"stopped at {trainer.progress.visits:,} visits; the same line goes on from there")
        return
    print(card(ship(options.work, options.target, options.text, options.out)))


if __name__ == "__main__":
    main(stop_on_signals())
