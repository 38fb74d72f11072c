"""From a checkpoint to what is shipped: weights, configuration and an honest card.

    python -m engine.training.ship --work FOLDER --target FOLDER --text TEXT.npz \\
        --out assets/drafters/small

May be run while training goes on: it reads the latest checkpoint and disturbs nothing. Every
figure on the card is measured here or was measured during training; the one sentence that
is not is marked as an extrapolation.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from engine import fetch
from engine.arguments import number
from engine.training import evaluate, inputs, machine
from engine.training.kinds import KINDS, load
from engine.training.loop import read_checkpoint
from engine.training.student import Student, export
from engine.training.teacher import Plan, RememberingTarget, Target

Facts = dict[str, Any]
Point = dict[str, float]

SETTLING_ROWS = 100  # of training text, on which a configuration is settled


def ship(
    checkpoint: Path,
    plan: Plan,
    target: Target,
    texts: Sequence[Path],
    out: Path,
    note: str = "",
    replies: int | None = None,
) -> Facts:
    """Export a checkpoint and write card.json and card.md beside it.

    `target` is the plan's in full precision. `note` is what else a reader of the card must know
    about this training; `replies` limits the held-out ones it is measured on.
    """
    state = read_checkpoint(checkpoint)
    corpus = plan.corpus
    student = KINDS[state["kind"]](target, state["recipe"]["layers"], state["vocab_ids"])
    student.decoder.load_state_dict(state["student"])
    target_name = fetch.title(plan.target_folder)
    export(student, out, target_name)
    student = load(out, target)  # what is measured is what is shipped
    held_out = evaluate.greedy_rows(corpus, plan.split, replies)
    settled, figures = student.settle(corpus, plan.order[:SETTLING_ROWS].tolist(), held_out)
    config = json.loads((out / "config.json").read_text()) | settled
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    seen = corpus.reply_tokens(
        row for shard in state["progress"]["shards"] for row in plan.rows(shard)
    )
    facts = {
        "name": out.name,
        "kind": state["kind"],
        "target": target_name,
        "recipe": state["recipe"],
        "start": state.get("start", {}),
        "note": note,
        "command": command(out.name, state, texts),
        "unique_tokens": min(state["progress"]["visits"], seen),
        "held_out_replies": len(plan.split.held_out),
        "visits": state["progress"]["visits"],
        "steps": state["progress"]["step"],
        "finished": state["progress"]["visits"] >= state["recipe"]["visits"],
        "parameters": sum(parameter.numel() for parameter in student.parameters()),
        "reduced_vocabulary": len(student.vocab_ids),
        "bytes": (out / "model.safetensors").stat().st_size,
        "held_out": evaluate.measure(student, target, corpus, plan.split, replies) | figures,
        "curve": state["progress"]["curve"],
    }
    (out / "card.json").write_text(json.dumps(facts, indent=2) + "\n")
    (out / "card.md").write_text(card(facts))
    return facts


def command(name: str, state: Facts, texts: Sequence[Path]) -> str:
    """The line that repeats this training."""
    kind, recipe, start = state["kind"], state["recipe"], state.get("start")
    begin = f"--start assets/drafters/{start['name']} " if start else ""
    names = " ".join(path.name for path in texts)
    standard = asdict(KINDS[kind].usual)
    changed = " ".join(
        f"--{name.replace('_', '-')} {value}"
        for name, value in recipe.items()
        if value != standard[name]
    )
    return (
        f"python -m engine.training.distil --drafter {kind} --target FOLDER --text {names} "
        f"--work FOLDER --out assets/drafters/{name} {begin}{changed}".rstrip()
    )


def gain_per_doubling(curve: Sequence[Point], recipe: Facts) -> float | None:
    """Slope of the held-out match against log2(visits), before the rate's final fall.

    Over the later half of that part of the curve; None while that is fewer than three points.
    """
    cooled = (1 - recipe["cooldown"]) * recipe["visits"]
    constant = [point for point in curve if point["visits"] <= cooled]
    late = constant[len(constant) // 2 :]
    if len(late) < 3:
        return None
    doublings = np.log2([point["visits"] for point in late])
    return float(np.polyfit(doublings, [point["all"] for point in late], 1)[0])


def card(facts: Facts) -> str:
    """The card for people, from the same facts as card.json."""
    held, recipe = facts["held_out"], facts["recipe"]
    lines = [
        f"# {facts['name']}: a distilled drafter for {facts['target']}",
        "",
        f"{KINDS[facts.get('kind', Student.kind)].origin} It reads the target's embedding and "
        f"writes through {facts['reduced_vocabulary']:,} rows of it, so neither is in the file "
        f"({facts['parameters'] / 1e6:.1f} M parameters, {facts['bytes'] / 1e6:.1f} MB); "
        "guesses are limited to those ids.",
        "",
        "## Recipe",
        "",
        _recipe(facts),
        "",
        f"    {facts['command']}",
        "",
        *([facts["note"], ""] if facts["note"] else []),
        "## Measured on prompts it never saw",
        "",
        "Held out are whole families, whole templates and whole topics "
        "(`engine/training/corpus.py`). *Match n* is the share of greedy guesses that are the "
        "target's, at the n-th guess of a round, given that those before it were right; tokens "
        "a round are counted on the same replies.",
        "",
        "| temperature 0 | replies | match 1 | 2 | 3 | 4 | tokens a round, K 1 | 2 | 3 | 4 |",
        "|---|---|---|---|---|---|---|---|---|---|",
        _row("all", held["temperature_0"]),
        *(_row(name, figures) for name, figures in held["by_reason"].items()),
        *(_row(name, figures) for name, figures in held["by_family"].items()),
        "",
        f"At temperature 0.7 the chance that a sampled guess is accepted (alpha) is "
        f"**{held['temperature_0.7']['alpha']:.3f}** over "
        f"{held['temperature_0.7']['positions']:,} positions: "
        + ", ".join(f"{k} {v:.2f}" for k, v in held["temperature_0.7"]["by_family"].items())
        + "."
        + _further(held["temperature_0.7"]),
        "",
        *_tree(held),
        *cost_lines(facts),
        f"The reduced vocabulary holds {held['vocabulary_coverage']:.1%} of the held-out tokens.",
        "",
        *_learning(facts["curve"], recipe),
    ]
    return "\n".join(lines)


def _recipe(facts: Facts) -> str:
    """How the weights came about, in one paragraph."""
    recipe = facts["recipe"]
    if not facts["steps"]:
        return (
            f"The least-squares answers alone, over {recipe['fitting_rows']:,} rows of text the "
            "target wrote itself: not one step of training yet."
        )
    state = "" if facts["finished"] else " **Training had not finished when this was written.**"
    return (
        f"{_begun(facts)}Cross-entropy to the target's law, renormalised on the reduced "
        f"vocabulary (its 64 likeliest tokens{_scored(recipe)}), at reply positions of text the "
        "target wrote itself. "
        f"{facts['unique_tokens']:,} unique tokens, {facts['visits']:,} token visits in "
        f"{facts['steps']:,} steps of at least {recipe['step_tokens']} tokens; AdamW (0.9, 0.95), "
        f"rate {recipe['peak_rate']:g}, {recipe['warmup_steps']} warm-up steps, constant"
        f"{_falling(recipe)}; clip {recipe['clip']:g}; {_calmed(facts)}seed {recipe['seed']}."
        f"{_unrolled(recipe)}{state}"
    )


def _begun(facts: Facts) -> str:
    """Which drafter the training went on from."""
    start, layers = facts.get("start"), facts["recipe"]["layers"]
    if not start:
        return ""
    had = start["recipe"]["layers"]
    change = (
        f", cut to {layers}" if layers < had else f", grown to {layers}" if layers > had else ""
    )
    return (
        f"Began as `{start['name']}` after its {start['visits']:,} visits ({had} "
        f"layer{'s' * (had > 1)}{change}{_frozen(facts)}); what follows is what it learned since. "
    )


def _frozen(facts: Facts) -> str:
    count = facts["recipe"].get("frozen_layers", 0)
    return f", the first {count} left as they were" if count else ""


def _calmed(facts: Facts) -> str:
    if facts.get("start"):
        return ""
    scale = KINDS[facts.get("kind", Student.kind)].norm_scale
    return "" if scale == 1 else f"final norm scaled by {scale:g} at the start; "


def _scored(recipe: Facts) -> str:
    others = recipe.get("others", 0)
    return f"; a step scores likely ones and {others:,} others for all the rest" if others else ""


def _falling(recipe: Facts) -> str:
    if not recipe["cooldown"]:
        return ""
    return f", then linear to zero over the last {recipe['cooldown']:.0%}"


def _unrolled(recipe: Facts) -> str:
    """How far ahead it was trained, where that is more than one guess."""
    depth, plain = recipe.get("unroll", 1), recipe.get("plain_visits", 0)
    if depth == 1:
        return ""
    after = f" After {plain:,} visits of plain training," if plain else " All along"
    return f"{after} trained on {depth} guesses ahead."


def _further(sampled: Facts) -> str:
    """Alpha of the guesses after the first, where they differ from it."""
    later = sampled.get("alpha_by_guess", [])[1:]
    if not later:
        return ""
    return (
        " Of the guesses after it, the ones before being right: "
        + ", ".join(f"{alpha:.3f}" for alpha in later)
        + "."
    )


def _tree(held: Facts) -> list[str]:
    """What the drafter's tree accepts, where it has one of a fixed shape."""
    if "tree_tokens_per_round" not in held:
        return []
    lengths = held["tree_tokens_per_round"].items()
    return [
        "As a tree, the one that accepts most on training text, tokens a round at temperature 0: "
        + ", ".join(f"{length:.2f} with {k} node{'s' * (k != '1')}" for k, length in lengths)
        + ".",
        "",
    ]


def cost_lines(facts: Facts) -> list[str]:
    """What a guess costs, of a chain and of a tree, once `cost` has measured it."""
    lines: list[str] = []
    for place, which in (("cost", "A guess"), ("tree_cost", "A guess of a tree")):
        if place in facts:
            cost = facts[place]
            lines += [
                f"{which} costs **{cost['step']:.3f}** of a one-token pass of the target, the mean "
                f"over a round of 4 ({cost['kernel']}, {cost['dtype']}; shortest of "
                f"{cost['rounds']} rounds each, in turns).",
                "",
            ]
    return lines


def _row(name: str, figures: Facts) -> str:
    match = " | ".join(f"{share:.3f}" for share in figures["match_by_position"])
    lengths = " | ".join(f"{length:.2f}" for length in figures["tokens_per_round"].values())
    return f"| {name} | {figures['replies']} | {match} | {lengths} |"


def _learning(curve: Sequence[Point], recipe: Facts) -> list[str]:
    if not curve:
        return []
    columns = [name for name in curve[-1] if name not in ("visits", "loss")]
    lines = [
        "## How it learned",
        "",
        "Greedy match on 120 of the held-out replies, of every temperature, as it trained:",
        "",
        f"| visits | loss | {' | '.join(columns)} |",
        "|---" * (2 + len(columns)) + "|",
    ]
    # About ten points, evenly on the logarithmic scale learning follows, and the last.
    marks = np.geomspace(1, max(1, len(curve)), 10).round().astype(int) - 1
    for place in sorted(set(marks.tolist())):
        point = curve[place]
        shares = " | ".join(f"{point[name]:.3f}" for name in columns)
        lines.append(f"| {int(point['visits']):,} | {point['loss']:.3f} | {shares} |")
    gain = gain_per_doubling(curve, recipe)
    if gain is not None:
        lines += [
            "",
            f"Before the final fall of the rate, each doubling of visits added {gain:+.3f} to the "
            "match. *Extrapolation, not measured:* one more doubling on this text should "
            "add no more than that; more text of the target's own is the surer way up.",
        ]
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", type=inputs.target, required=True, help="folder of the target")
    parser.add_argument("--text", type=inputs.text, nargs="+", required=True, help="as in training")
    parser.add_argument(
        "--work", type=inputs.folder, required=True, help="folder of the checkpoint"
    )
    parser.add_argument(
        "--out",
        type=inputs.folder,
        nargs="+",
        required=True,
        help="folder of the drafter; one for each checkpoint",
    )
    parser.add_argument("--note", default="", help="a sentence for the card")
    parser.add_argument(
        "--checkpoint", nargs="+", default=["checkpoint.pt"], help="files of the work folder"
    )
    parser.add_argument(
        "--replies",
        type=number(int, 1),
        help="measure on so many held-out replies of each sort only",
    )
    machine.add_options(parser)
    options = parser.parse_args()
    machine.use(options)
    if len(options.checkpoint) != len(options.out):
        parser.error("as many --out folders are wanted as there are --checkpoint files")
    target = RememberingTarget.load(options.target)
    for name, out in zip(options.checkpoint, options.out, strict=True):
        path = options.work / name
        seed = read_checkpoint(path)["recipe"]["seed"]
        plan = Plan.make(options.target, options.text, options.work, seed)
        print(card(ship(path, plan, target, options.text, out, options.note, options.replies)))


if __name__ == "__main__":
    inputs.told(main)
