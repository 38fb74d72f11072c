"""Every trained drafter from nothing, in a given number of minutes: text, laws, students, cards.

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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from engine.training import corpus as text
from engine.training import evaluate, inputs, loop, machine, ship, unigram, write
from engine.training.distil import prepare
from engine.training.recipe import Recipe
from engine.training.teacher import Plan, RememberingTarget

WRITING, TEACHING = 0.3, 0.1
"""Shares of all minutes for the target's text and its laws. The students share what is left."""

SHIPPING = 0.1
"""Part of a student's time that its card is measured in."""

OTHERS = 1500
"""What a step scores besides likely tokens (see `Recipe`), where a whole head is dear."""

FEWEST_REPLIES = 200
"""Written whatever the time: less cannot be split into what trains and what is held out."""

REPLIES = 60
"""Held-out replies of a card."""


@dataclass(frozen=True, slots=True)
class Pupil:
    """A drafter to train: what it begins with, how, and its weight in the sharing of time."""

    name: str
    kind: str
    layers: int
    weight: float
    start: str | None = None
    unroll: int = 1
    peak_rate: float = 1e-3


PUPILS = (
    Pupil("small", "small", 2, 3),
    Pupil("small-1", "small", 1, 1, start="small", peak_rate=5e-4),
    Pupil("small-4", "small", 4, 2, start="small", peak_rate=5e-4),
    Pupil("pard", "pard", 2, 2, start="small", unroll=8, peak_rate=7e-4),
    Pupil("eagle", "eagle", 1, 3, unroll=3, peak_rate=6e-4),
    Pupil("mtp", "mtp", 1, 1, peak_rate=6e-4),
    Pupil("medusa", "medusa", 1, 1, unroll=4),
)


def write_text(writer: write.Writer, slots: int, seconds: float) -> text.Corpus:
    """Let the target write for so long, and at any rate `FEWEST_REPLIES`."""
    end = time.monotonic() + seconds
    for _ in writer.run(slots):
        if time.monotonic() > end and len(writer.done) >= FEWEST_REPLIES:
            break
    return write.gather(writer.done)


def compute_laws(plan: Plan, seconds: float) -> None:
    """The target's laws of one shard after another for so long; at least of the first."""
    end = time.monotonic() + seconds
    for shard in range(plan.shard_count):
        plan.laws(shard)
        if time.monotonic() > end:
            return


def train(pupil: Pupil, plan: Plan, out: Path, seconds: float, stop: threading.Event) -> bool:
    """Train for about so long, on the laws at hand. Returns whether it came to its end."""
    recipe = Recipe(
        layers=pupil.layers, unroll=pupil.unroll, peak_rate=pupil.peak_rate,
        cooldown=0.6, others=OTHERS if machine.device().type == "cpu" else 0,
    )  # fmt: skip
    trainer = prepare(pupil.kind, plan, recipe, out / pupil.start if pupil.start else None)
    lessons = loop.Lessons(plan.corpus, plan.order, plan.laws, plan.finished, recipe)
    watch = evaluate.Watch.load(plan, recipe.seed)
    every = loop.fit(trainer, lessons, watch, seconds)
    return loop.run(trainer, lessons, watch, plan.work, every, stop)


def main(stop: threading.Event) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", type=inputs.target, required=True, help="folder of the target")
    parser.add_argument("--work", type=Path, required=True, help="text, laws and checkpoints")
    parser.add_argument("--out", type=Path, help="folder of the drafters; else one in --work")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--text", type=inputs.text, nargs="+", help="text there is; none is written then"
    )
    parser.add_argument("--only", nargs="+", choices=[pupil.name for pupil in PUPILS])
    parser.add_argument("--seed", type=int, default=0, help="of the text that is written")
    parser.add_argument("--slots", type=int, default=256, help="replies written side by side")
    parser.add_argument("--max-new-tokens", type=int, default=256, help="of one reply")
    parser.add_argument("--context", type=int, default=384, help="of one reply and its prompt")
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
        tokenizer = Tokenizer.from_file(str(options.target / "tokenizer.json"))
        longest = options.max_new_tokens
        writer = write.Writer(whole, tokenizer, options.seed, 2**62, longest, options.context)
        text.save(write_text(writer, options.slots, WRITING * seconds), texts[0])
    plan = Plan.make(options.target, texts, options.work, seed=0, laws=laws)
    print(f"{len(plan.corpus):,} replies at {time.monotonic() - began:.0f} s", flush=True)
    np.savez_compressed(out / "unigram.npz", probs=unigram.law(plan.corpus, whole.shape.vocab_size))
    compute_laws(plan, TEACHING * seconds)
    print(f"{len(plan.finished())} shards at {time.monotonic() - began:.0f} s", flush=True)

    wanted = [pupil for pupil in PUPILS if pupil.name in (options.only or [pupil.name])]
    waiting = [pupil for pupil in wanted if not (out / pupil.name / "card.json").exists()]
    for number, pupil in enumerate(waiting):
        left = max(0.0, began + seconds - time.monotonic())
        share = left * pupil.weight / sum(each.weight for each in waiting[number:])
        own = plan.of(options.work / pupil.name)
        print(f"{pupil.name}: {share:.0f} s", flush=True)
        if not train(pupil, own, out, (1 - SHIPPING) * share, stop):
            print("stopped; the same line goes on from there")
            return
        checkpoint = own.work / "checkpoint.pt"
        ship.ship(checkpoint, own, whole, texts, out / pupil.name, replies=REPLIES)
    print(f"{out}: all there after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(loop.stop_on_signals())
