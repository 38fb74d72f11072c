"""What a guess costs, in one-token passes of the target, measured here and put on the card.

    python -m engine.training.cost eagle small eagle-tree --threads 1

Short runs with the drafter and of the target alone take turns in one process, and the shortest
time of each counts: whatever else the machine was doing can only have made it longer. What a guess
of a tree costs stands on the card of the drafter whose weights draw it, under a name of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from engine.arguments import number
from engine.assembly import DRAFTERS, Engine, open_engine
from engine.config import EngineConfig
from engine.requests import Start
from engine.trace import Round, Settings
from engine.training import inputs, ship, store
from engine.training.ship import Facts

PROMPT = "Explain how a bicycle stays upright when it moves."
K = 4
NEW_TOKENS = 40
TURNS = 5

TREES = {"eagle-tree": "eagle", "medusa-tree": "medusa"}
"""Drafters of trees, and those whose weights, and card, they share."""


def measure(engine: Engine, name: str) -> Facts:
    """Cost of a guess of this drafter, the mean over a round of `K`.

    Where a round is one step, as of a drafter that makes all its guesses at one go, it is shared
    among them. Rounds of a tree differ in their number of steps: each counts with the shortest
    times of those that have as many. Raises ValueError when no round had `K` guesses.
    """
    drafting: dict[int, list[tuple[float, ...]]] = {}  # by number of steps
    passes: list[float] = []
    for _ in range(TURNS):
        for made in _rounds(engine, name):
            if len(made.guesses) == K:
                drafting.setdefault(len(made.draft_step_seconds), []).append(
                    tuple(made.draft_step_seconds)
                )
        passes += [made.verify_seconds for made in _rounds(engine, "none")]
    count = sum(map(len, drafting.values()))
    if not count:
        raise ValueError(f"{name} made no round of {K} guesses: there is nothing to measure.")
    spent = sum(
        len(rounds) * sum(map(min, zip(*rounds, strict=True))) for rounds in drafting.values()
    )
    machine = engine.machine
    return {
        "step": round(spent / count / K / min(passes), 4),
        "device": machine.device,
        "kernel": machine.kernel,
        "dtype": machine.dtype,
        "rounds": count,
    }


def _rounds(engine: Engine, name: str) -> list[Round]:
    settings = Settings(drafter=name, k=K)
    session = engine.begin(Start(PROMPT, settings=settings, max_new_tokens=NEW_TOKENS))
    return [made for made in session.rounds() if not made.cold]


def check(name: str) -> None:
    """Raise ValueError for a drafter without a card that its cost could be put on."""
    if not (DRAFTERS / TREES.get(name, name) / "card.json").exists():
        raise ValueError(f"{name} has no card: only drafters that are shipped in files have one")


def write(folder: Path, cost: Facts, tree: bool = False) -> None:
    """Put a measured cost on the card in `folder`: that of a guess of a chain, or of a `tree`."""
    place = "tree_cost" if tree else "cost"
    facts = json.loads((folder / "card.json").read_text()) | {place: cost}
    (folder / "card.json").write_text(json.dumps(facts, indent=2) + "\n")
    written = ship.card(facts) if "recipe" in facts else store.card(facts)
    (folder / "card.md").write_text(written)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "drafters", nargs="+", help="names of drafters that ship in files; of trees, too"
    )
    parser.add_argument("--threads", type=number(int, 1), default=None)
    options = parser.parse_args()
    for name in options.drafters:
        check(name)
    engine = open_engine(
        EngineConfig(device="cpu", threads=options.threads),
        lambda state: print(state.detail, file=sys.stderr),
    )
    for name in options.drafters:
        cost = measure(engine, name)
        write(DRAFTERS / TREES.get(name, name), cost, tree=name in TREES)
        print(f"{name}: {cost['step']:.3f} of a pass ({cost['kernel']})")


if __name__ == "__main__":
    inputs.told(main)
