"""From the target's own text to a shipped drafter, in one command.

    python -m engine.training.distil --drafter small --target FOLDER --text TEXT.npz \
        --work FOLDER --out assets/drafters/small

The target's laws are computed once (`teacher`), the student is trained against them with its
held-out figures as it goes (`loop`, `evaluate.Watch`), exported, measured on all prompts it
never saw and given its card (`ship`). Interrupted, each stage continues where it stopped.

Where the laws come from another process (`teacher`), `--laws-at-hand` learns from those that
are there, more each epoch; when they came then matters to the weights.
"""

from __future__ import annotations

import argparse
import json
import threading
from pathlib import Path
from typing import Any

import torch

from engine.arguments import number
from engine.training import evaluate, inputs, machine, teacher
from engine.training.kinds import KINDS, load
from engine.training.loop import (
    Lessons,
    Trainer,
    fit,
    read_checkpoint,
    run,
    stop_on_signals,
    write_checkpoint,
)
from engine.training.recipe import Recipe
from engine.training.ship import card, ship


def prepare(kind: str, plan: teacher.Plan, recipe: Recipe, start: Path | None) -> Trainer:
    """A trainer that continues from the checkpoint in the work folder if there is one.

    Else it begins with the drafter in `start`, or without it with weights of the target's.
    Raises ValueError if that drafter is of a kind that this one cannot begin with, if the target
    has fewer layers, or the checkpoint cannot be read or is of another make.
    """
    most = plan.target.shape.layers
    if recipe.layers > most:
        raise ValueError(
            f"this target has {most} layers: a drafter of {recipe.layers} has too many"
        )
    vocab_ids = torch.tensor(plan.vocabulary).long()
    checkpoint = plan.work / "checkpoint.pt"
    if start is None:
        student = KINDS[kind](plan.target, recipe.layers, vocab_ids)
        if not checkpoint.exists():
            rows = [plan.corpus.row(int(row)) for row in plan.order[: recipe.fitting_rows]]
            student.begin(plan.target, rows)
    else:
        student = KINDS[kind].grown(load(start, plan.target), plan.target, recipe.layers)
    trainer = Trainer(student, recipe, machine.working_dtype())
    trainer.start = origin(start)
    if checkpoint.exists():
        trainer.restore(read_checkpoint(checkpoint))
        print(f"continuing from {trainer.progress.visits:,} visits", flush=True)
    else:  # what was solved for need not be solved again
        write_checkpoint(trainer.state(), checkpoint)
    return trainer


def origin(start: Path | None) -> dict[str, Any]:
    """What a card says of the drafter a training began with."""
    if start is None:
        return {}
    facts = json.loads((start / "card.json").read_text())
    return {"name": start.name, **{key: facts[key] for key in ("visits", "recipe")}}


def main(stop: threading.Event) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    defaults = Recipe()
    parser.add_argument("--drafter", choices=sorted(KINDS), default="small")
    parser.add_argument("--target", type=inputs.target, required=True, help="folder of the target")
    parser.add_argument(
        "--text", type=inputs.text, nargs="+", required=True, help="the target's own text, .npz"
    )
    parser.add_argument("--work", type=inputs.folder, required=True, help="laws and checkpoints")
    parser.add_argument("--out", type=inputs.folder, required=True, help="folder of the drafter")
    parser.add_argument(
        "--laws", type=inputs.folder, help="folder of the laws, where several students share them"
    )
    parser.add_argument(
        "--start",
        type=inputs.drafter,
        help="begin with this exported drafter's weights; layers it lacks are added silent, "
        "layers too many are left out",
    )
    parser.add_argument("--visits", type=number(int, 0), default=defaults.visits)
    parser.add_argument(
        "--minutes",
        type=number(float, 0, above=True),
        help="train for about so long: as many --visits as its first steps' pace fits in; laws "
        "still to be made come on top. Started again, it comes to the visits set the first time",
    )
    parser.add_argument(
        "--cooldown",
        type=number(float, 0, 1),
        default=defaults.cooldown,
        help="last share of the visits, in which the rate falls to zero",
    )
    parser.add_argument("--step-tokens", type=number(int, 1), default=defaults.step_tokens)
    parser.add_argument(
        "--layers", type=number(int, 1), help="as usual for the drafter, if not said"
    )
    parser.add_argument(
        "--peak-rate", type=number(float, 0, above=True), default=defaults.peak_rate
    )
    parser.add_argument(
        "--unroll",
        type=number(int, 1),
        help="guesses ahead trained on; as usual for the drafter, if not said",
    )
    parser.add_argument(
        "--plain-visits",
        type=number(int, 0),
        default=defaults.plain_visits,
        help="visits that train on one guess ahead only, before --unroll sets in",
    )
    parser.add_argument(
        "--others",
        type=number(int, 0),
        default=defaults.others,
        help="score a step on the tokens its laws find likely and so many others, drawn to stand "
        "for the rest of the vocabulary: on a CPU 1500 take a third off a step's time; 0: on all",
    )
    parser.add_argument(
        "--fitting-rows",
        type=number(int, 1),
        default=defaults.fitting_rows,
        help="rows of text to fit first weights on",
    )
    parser.add_argument(
        "--frozen-layers",
        type=number(int, 0),
        default=defaults.frozen_layers,
        help="first layers that stay as they began: those added to a drafter then learn alone",
    )
    parser.add_argument(
        "--keep",
        type=number(int, 1),
        nargs="*",
        default=(),
        help="visits after which to keep a checkpoint",
    )
    parser.add_argument("--seed", type=number(int, 0), default=defaults.seed)
    parser.add_argument(
        "--laws-at-hand",
        action="store_true",
        help="compute no laws; each epoch learns from the shards there when it begins",
    )
    parser.add_argument(
        "--shards",
        type=number(int, 1),
        help="learn from the first so many shards only: where features are computed on the way, a "
        "row's first visit costs several times any later one",
    )
    parser.add_argument(
        "--every", type=number(int, 1), default=500, help="steps between checkpoints"
    )
    machine.add_options(parser)
    options = parser.parse_args()
    machine.use(options)
    for folder in (options.work, options.laws or options.work):
        folder.mkdir(parents=True, exist_ok=True)
    usual = KINDS[options.drafter].usual
    recipe = Recipe(
        layers=options.layers or usual.layers,
        seed=options.seed,
        visits=options.visits,
        step_tokens=options.step_tokens,
        cooldown=options.cooldown,
        peak_rate=options.peak_rate,
        unroll=options.unroll or usual.unroll,
        others=options.others,
        plain_visits=options.plain_visits,
        fitting_rows=options.fitting_rows,
        frozen_layers=options.frozen_layers,
    )
    plan = teacher.Plan.make(
        options.target, options.text, options.work, recipe.seed, options.start, options.laws
    )
    shards = list(range(min(options.shards or plan.shard_count, plan.shard_count)))
    available = plan.finished if options.laws_at_hand else lambda: shards
    lessons = Lessons(plan.corpus, plan.order, plan.laws, available, recipe)
    trainer = prepare(options.drafter, plan, recipe, options.start)
    watch = evaluate.Watch.load(plan, options.seed)
    every = options.every
    if options.minutes is not None:
        every = fit(trainer, lessons, watch, 60 * options.minutes)
    if not run(trainer, lessons, watch, options.work, every, stop, options.keep):
        print(f"stopped at {trainer.progress.visits:,} visits; the same line goes on from there")
        return
    target = teacher.RememberingTarget.load(options.target)
    made = ship(options.work / "checkpoint.pt", plan, target, options.text, options.out)
    print(card(made))


if __name__ == "__main__":
    inputs.told(lambda: main(stop_on_signals()))
