"""Every trained drafter from nothing, in so many minutes: text, store, laws, students, cards.

    python -m engine.training.everything --target FOLDER --work FOLDER --minutes 10 --device cuda

The stages of this package one after another, each with its share of the time left. How many
visits a training makes follows from its first steps here, so that its rate falls in time whatever
the machine. What is done is not done again: the same line goes on where it stopped, with all its
minutes for what is left, and a training that was under way comes to the visits it set out for.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine import fetch
from engine.arguments import number
from engine.bench import texts as prompts
from engine.tokenizer import Tokenizer
from engine.training import corpus as text
from engine.training import evaluate, inputs, loop, machine, ship, store, unigram, write
from engine.training.distil import prepare
from engine.training.kinds import KINDS
from engine.training.teacher import Plan, RememberingTarget

WRITING, TEACHING = 0.3, 0.1
"""Shares of all minutes for the target's text and its laws. The students share what is left."""

SHIPPING = 0.1
"""Part of a student's time that a card is measured in."""

OTHERS = 1500
"""What a step scores besides likely tokens (see `Recipe`), where a whole head is dear."""

FEWEST_REPLIES = 200
"""Written whatever the time: less cannot be split into what trains and what is held out."""

REPLIES = 60
"""Held-out replies of a card."""

STOPPED = "stopped; the same line goes on from there"
CARD = "card.json"


@dataclass(frozen=True, slots=True)
class Pupil:
    """A drafter to train: what it begins with, how, and its weight in the sharing of time.

    `kept` are stages on its way that are shipped, too, each by name and share of the visits.
    """

    name: str
    kind: str
    weight: float
    layers: int | None = None  # None: as usual for its kind
    start: str | None = None
    peak_rate: float = 1e-3
    kept: tuple[tuple[str, float], ...] = ()


EAGLE_STAGES = ("eagle-early", 0.05), ("eagle-middle", 0.3)

PUPILS = (
    Pupil("small", "small", 3),
    Pupil("small-1", "small", 1, layers=1, start="small", peak_rate=5e-4),
    Pupil("small-4", "small", 2, layers=4, start="small", peak_rate=5e-4),
    Pupil("pard", "pard", 2, start="small", peak_rate=7e-4),
    Pupil("eagle", "eagle", 4, peak_rate=6e-4, kept=EAGLE_STAGES),
    Pupil("mtp", "mtp", 1, peak_rate=6e-4),
    Pupil("medusa", "medusa", 1),
)


def wanted(names: Sequence[str] | None) -> list[Pupil]:
    """The pupils of these names, or all, with those that they start from."""
    chosen = {pupil.name for pupil in PUPILS} if names is None else {*names}
    chosen |= {pupil.start for pupil in PUPILS if pupil.start and pupil.name in chosen}
    return [pupil for pupil in PUPILS if pupil.name in chosen]


def write_text(
    writer: write.Writer, slots: int, seconds: float, out: Path, stop: threading.Event
) -> None:
    """Let the target write for so long, and at any rate `FEWEST_REPLIES`; leave it in `out`.

    What is there when it stops, or every two minutes, lies beside it, and it goes on from there
    on prompts of another seed.
    """
    part = out.with_suffix(".part.npz")
    earlier = [text.load(part)] if part.exists() else []
    there = sum(len(corpus) for corpus in earlier)
    writer.seed += there
    writer.check()

    def save(path: Path) -> None:
        text.save(text.join([*earlier, write.gather(writer.done)]), path)

    end = time.monotonic() + seconds
    saved = time.monotonic()
    for _ in writer.run(slots):
        now = time.monotonic()
        if stop.is_set() or now > saved + write.SAVE_SECONDS:
            saved = now
            if writer.done:
                save(part)
        if stop.is_set():
            return
        if now > end and there + len(writer.done) >= FEWEST_REPLIES:
            break
    save(out)
    part.unlink(missing_ok=True)


def compute_laws(plan: Plan, seconds: float, stop: threading.Event) -> None:
    """The target's laws of one shard after another for so long; at least of the first."""
    end = time.monotonic() + seconds
    for shard in range(plan.shard_count):
        plan.laws(shard)
        if time.monotonic() > end or stop.is_set():
            return


def keep_text(plan: Plan, out: Path) -> None:
    """The text as a store to copy from, but for answers to prompts that are shown."""
    tokenizer = Tokenizer.from_folder(plan.target_folder)
    corpus = store.without(plan.corpus, {each.prompt for each in prompts.load([])}, tokenizer)
    split = text.split(corpus, tokenizer)
    family, template, topic = (rows[: 5 * REPLIES] for rows in split.by_reason)
    split = text.Split(split.train, family, template, topic, split.families)
    line = "python -m engine.training.everything --target FOLDER --work FOLDER"
    store.make(corpus, split, out, fetch.title(plan.target_folder), line)


def train(pupil: Pupil, plan: Plan, out: Path, seconds: float, stop: threading.Event) -> int:
    """Train for about so long, on the laws at hand. Returns the visits at the end, 0 if stopped."""
    usual = KINDS[pupil.kind].usual
    recipe = replace(
        usual, layers=pupil.layers or usual.layers, peak_rate=pupil.peak_rate,
        cooldown=0.6, others=OTHERS if machine.device().type == "cpu" else 0,
    )  # fmt: skip
    trainer = prepare(pupil.kind, plan, recipe, out / pupil.start if pupil.start else None)
    lessons = loop.Lessons(plan.corpus, plan.order, plan.laws, plan.finished, recipe)
    watch = evaluate.Watch.load(plan, recipe.seed)
    every = loop.fit(trainer, lessons, watch, seconds)
    visits = trainer.recipe.visits
    marks = [int(share * visits) for _, share in pupil.kept]
    return visits if loop.run(trainer, lessons, watch, plan.work, every, stop, marks) else 0


def main(stop: threading.Event) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", type=inputs.target, required=True, help="folder of the target")
    parser.add_argument("--work", type=inputs.folder, required=True, help="text, laws, checkpoints")
    parser.add_argument(
        "--out", type=inputs.folder, help="folder of the drafters; else one in --work"
    )
    parser.add_argument("--minutes", type=number(float, 0), default=10.0)
    parser.add_argument(
        "--text", type=inputs.text, nargs="+", help="text there is; none is written then"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[pupil.name for pupil in PUPILS],
        help="these drafters, and those that they start from",
    )
    write.add_options(parser, slots=256)
    machine.add_options(parser)
    options = parser.parse_args()
    machine.use(options)
    began = time.monotonic()
    seconds = 60 * options.minutes
    out = options.out or options.work / "drafters"
    laws = options.work / "laws"
    for folder in (out, laws):
        folder.mkdir(parents=True, exist_ok=True)

    whole = RememberingTarget.load(options.target)
    texts = options.text or [options.work / "text.npz"]
    if not texts[0].exists():
        tokenizer, longest = Tokenizer.from_folder(options.target), options.max_new_tokens
        writer = write.Writer(whole, tokenizer, options.seed, 2**62, longest, options.context)
        write_text(writer, options.slots, WRITING * seconds, texts[0], stop)
        if not texts[0].exists():
            print(STOPPED)
            return
    plan = Plan.make(options.target, texts, options.work, seed=0, laws=laws)
    print(f"{len(plan.corpus):,} replies at {time.monotonic() - began:.0f} s", flush=True)
    np.savez_compressed(out / "unigram.npz", probs=unigram.law(plan.corpus, whole.shape.vocab_size))
    if not (out / "retrieval" / CARD).exists():
        keep_text(plan, out / "retrieval")
    compute_laws(plan, TEACHING * seconds, stop)
    print(f"{len(plan.finished())} shards at {time.monotonic() - began:.0f} s", flush=True)

    waiting = [each for each in wanted(options.only) if not (out / each.name / CARD).exists()]
    for place, pupil in enumerate(waiting):
        left = max(0.0, began + seconds - time.monotonic())
        share = left * pupil.weight / sum(each.weight for each in waiting[place:])
        own = plan.of(options.work / pupil.name)
        print(f"{pupil.name}: {share:.0f} s", flush=True)
        own_seconds = (1 - SHIPPING * (1 + len(pupil.kept))) * share
        visits = 0 if stop.is_set() else train(pupil, own, out, own_seconds, stop)
        if not visits:
            print(STOPPED)
            return
        stages = [(name, f"checkpoint-{int(part * visits)}.pt") for name, part in pupil.kept]
        for name, file in (*stages, (pupil.name, "checkpoint.pt")):
            if (own.work / file).exists():  # a stage is left out that was over at once
                ship.ship(own.work / file, own, whole, texts, out / name, replies=REPLIES)
    print(f"{out}: all there after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    inputs.told(lambda: main(loop.stop_on_signals()))
