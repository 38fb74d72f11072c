"""What a guess costs, in one-token passes of the target, measured here and put on the card.

    python -m engine.training.cost eagle small --threads 1

Short runs with the drafter and of the target alone take turns in one process, and the shortest
time of each counts: whatever else the machine was doing can only have made it longer.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from engine.assembly import DRAFTERS, Engine, open_engine
from engine.config import EngineConfig
from engine.requests import Start
from engine.trace import Round, Settings
from engine.training.ship import Facts, card

PROMPT = "Explain how a bicycle stays upright when it moves."
K = 4
NEW_TOKENS = 40
TURNS = 5


def measure(engine: Engine, name: str) -> Facts:
    """Cost of a guess of this drafter, the mean over a round of `K`.

    Where a round is one step, as of a drafter that makes all its guesses at one go, it is shared
    among them.
    """
    drafting: list[tuple[float, ...]] = []
    passes: list[float] = []
    for _ in range(TURNS):
        rounds = _rounds(engine, name)
        drafting += [r.draft_step_seconds for r in rounds if len(r.guesses) == K]
        passes += [r.verify_seconds for r in _rounds(engine, "none")]
    shortest = [min(place) for place in zip(*drafting, strict=True)]
    machine = engine.machine
    return {
        "step": round(sum(shortest) / K / min(passes), 4),
        "device": machine.device,
        "kernel": machine.kernel,
        "dtype": machine.dtype,
        "rounds": len(drafting),
    }


def _rounds(engine: Engine, name: str) -> list[Round]:
    settings = Settings(drafter=name, k=K)
    session = engine.begin(Start(PROMPT, settings=settings, max_new_tokens=NEW_TOKENS))
    return [made for made in session.rounds() if not made.cold]


def write(folder: Path, cost: Facts) -> None:
    """Put a measured cost on the card in `folder`."""
    facts = json.loads((folder / "card.json").read_text()) | {"cost": cost}
    (folder / "card.json").write_text(json.dumps(facts, indent=2) + "\n")
    (folder / "card.md").write_text(card(facts))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("drafters", nargs="+", help="names of shipped, trained drafters")
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    engine = open_engine(
        EngineConfig(device="cpu", threads=options.threads),
        lambda state: print(state.detail, file=sys.stderr),
    )
    for name in options.drafters:
        cost = measure(engine, name)
        write(DRAFTERS / name, cost)
        print(f"{name}: {cost['step']:.3f} of a pass ({cost['kernel']})")


if __name__ == "__main__":
    main()
