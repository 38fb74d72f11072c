"""Passes and rounds on one device, looked at from within: right, exact, read once, and how fast.

    python tests/device/rounds.py --out FILE.json [--device cuda] [--target FOLDER] [--quick]

Without a target its weights are made up, in the shape of the default one: guesses come from a
script here, so that nothing depends on what a model has learned. ``--quick`` makes them few. On
a CPU the same passes are made, unrecorded, and what needs CUDA says so.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import EllipsisType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from engine import devices, kernels  # noqa: E402
from engine.decode import Session  # noqa: E402
from engine.desk import Desk  # noqa: E402
from engine.drafters.model import ModelDrafter  # noqa: E402
from engine.drafters.proposal import Drafter  # noqa: E402
from engine.graphs import ROWS, GraphKernel, eager  # noqa: E402
from engine.kernels import Kernels  # noqa: E402
from engine.llama import LlamaConfig, Runner, Weights  # noqa: E402
from engine.trace import Round, Settings  # noqa: E402
from tests.engine import kit  # noqa: E402
from tests.engine.trees import by_paths, random_shape, rows_of  # noqa: E402

NEEDS_CUDA = "not looked at: this needs CUDA"
CONTEXT = 2048
PROMPT = [11, 7, 23, 5, 42, 3, 19, 8]
NEW_TOKENS = 96
TEXTS = 6
CHAIN = tuple(range(-1, ROWS))
KINDS: dict[str, dict[str, float]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.8},
    "greedy, worse": {"temperature": 0.0, "quality": 40.0},
    "top-k": {"temperature": 0.8, "top_k": 20},
    "top-p and min-p": {"temperature": 0.8, "top_p": 0.9, "min_p": 0.02},
    "penalty, worse": {"temperature": 0.8, "repetition_penalty": 1.3, "quality": 70.0},
}

DEFAULT = LlamaConfig(
    vocab_size=49152, hidden_size=576, mlp_size=1536, layers=30, heads=9, kv_heads=3, head_dim=64,
    rope_theta=100000.0, norm_eps=1e-5, context=8192,
)  # fmt: skip
QUICK = replace(
    DEFAULT, vocab_size=512, hidden_size=96, mlp_size=128, layers=3, heads=3, kv_heads=1
)


class Rounds:
    """One device and precision, and everything looked at there."""

    def __init__(self, options: argparse.Namespace, dtype: torch.dtype) -> None:
        self.device = options.device
        self.dtype = dtype
        self.on_cuda = options.device == "cuda"
        self.chosen = (
            kernels.choose("cuda", dtype, 1)
            if self.on_cuda
            else Kernels("passes of fixed shape, unrecorded", record=eager)
        )
        self.weights = (
            Weights.load(options.target, dtype, options.device)
            if options.target
            else made_up(QUICK if options.quick else DEFAULT, dtype, options.device)
        )
        began = time.perf_counter()
        self.target = self.chosen.runner(self.weights, CONTEXT, same_bits=True)
        self.recorded_in = time.perf_counter() - began
        self.unigram = torch.full(
            (self.weights.config.vocab_size,), 1 / self.weights.config.vocab_size
        ).to(options.device)
        began = time.perf_counter()
        self.desk = self.chosen.desk(self.weights, self.unigram)
        self.desk_in = time.perf_counter() - began

    def all(self) -> dict[str, Any]:
        kernel = self.target.kernel
        assert isinstance(kernel, GraphKernel)
        return {
            "kernel": self.chosen.name_of(self.target, self.desk),
            "seconds to record": round(self.recorded_in, 2),
            "seconds to record a round's work": round(self.desk_in, 2),
            "smoke, off the CPU by": self.smoke(),
            "same bits": self.same_bits(),
            "branches": self.branches(),
            "exact trees": self.exact_trees(),
            "rounds on a desk": self.on_a_desk(),
            "recorded against eager": self.against_eager(),
            "waits of a round": self.waits(),
            "milliseconds of a pass": self.passes(),
            "drafting": self.drafting(),
            "memory, MB": round(torch.cuda.max_memory_allocated() / 1e6) if self.on_cuda else None,
        }

    def smoke(self) -> float:
        found = devices.smoke_logits(self.device, self.dtype, self.chosen.runner).float().cpu()
        return float((found - devices.smoke_logits("cpu", torch.float32)).abs().max())

    def same_bits(self) -> dict[str, Any]:
        """Whether a row's logits depend on its place, on what follows it, on width or window."""
        ids = some_ids(64, self.weights)
        one = by_width(self.target, ids, 1)
        widths = {
            width: far(one, by_width(self.target, ids, width)) for width in range(2, ROWS + 1)
        }
        narrow = self.chosen.runner(self.weights, CONTEXT)  # its passes over one row are one wide
        kernel = self.target.kernel
        assert isinstance(kernel, GraphKernel)
        windows, found = kernel._windows, {}
        for window in windows[1:]:
            kernel._windows = tuple(each for each in windows if each >= window)
            found[window] = far(one, by_width(self.target, ids, ROWS))
        kernel._windows = windows
        return {
            "by guesses in a pass": widths,
            "in a pass one row wide": far(one, by_width(narrow, ids, 1)),
            "by window": found,
            "all equal": not any((*widths.values(), *found.values())),
        }

    def branches(self) -> dict[str, float]:
        """How far rows of trees are off the same rows in chains, by these passes and by plain ones.

        0 is the same bits, which rows of trees are promised only where a chain would put them.
        """
        ids, chance = some_ids(300 + ROWS, self.weights), random.Random(0)
        plain = Runner(self.weights, CONTEXT)
        found = {"off chains by": 0.0, "off plain passes by": 0.0, "replays": 0.0}
        found["off chains by, where a chain would stand"] = 0.0
        kernel = self.target.kernel
        assert isinstance(kernel, GraphKernel)
        for start in (5, 60, 300):
            shape = random_shape(chance, ROWS - 1)
            guesses = ids[start + 1 : start + ROWS]
            chains = []
            for runner in (self.target, plain):
                runner.rollback(0)
                runner.forward(ids[:start], last_only=True)
                chains.append(by_paths(runner, ids[start], guesses, shape)[0])
            before = kernel.replays
            tree = self.target.forward(ids[start : start + ROWS], parents=rows_of(shape, start))
            found["replays"] += kernel.replays - before
            for name, chain in zip(found, chains, strict=False):
                found[name] = max(found[name], far(tree, chain))
            straight = [0, *(n + 1 for n in range(len(shape)) if shape[: n + 1] == CHAIN[: n + 1])]
            name = "off chains by, where a chain would stand"
            found[name] = max(found[name], far(tree[straight], chains[0][straight]))
        return found

    def exact_trees(self) -> dict[str, Any]:
        """Greedy texts by rounds of trees against the target alone, to the last token.

        Where that is promised (float32), and where it is not, how often they part.
        """
        alone = self.session(self.target, None)
        words = [token.id for made in alone.rounds() for token in made.committed]
        equal, again, rounds = 0, 0, 0
        for seed in range(TEXTS):
            run = self.session(
                self.target, bushes(words, seed, len(self.unigram)), replace(Settings(), k=ROWS - 1)
            )
            said = []
            while run.finished is None:
                said += [token.id for token in run.advance().committed]
                again += run.checked is not None and run.checked.straight
            equal += said == words
            rounds += run.made
        return {
            "promised": self.target.chains_only,
            "texts equal": f"{equal} of {TEXTS}",
            "rounds": rounds,
            "looked at again": again,
        }

    def on_a_desk(self) -> Any:
        """Rounds whose work is replayed, launched, and done without a desk: the same tokens.

        Under every kind of setting, K from 0 to 16, and with no buffer moved.
        """
        if self.desk is None:
            return NEEDS_CUDA
        before = self.desk.addresses
        launched = Desk(self.unigram, self.desk.dtype)
        found: dict[str, Any] = {}
        for name, changes in KINDS.items():
            told = []
            for desk in (self.desk, launched, None):
                settings = replace(Settings(), **changes)
                run = self.session(self.target, self.drafter(), settings, 32, desk)
                told.append([])
                while run.finished is None:
                    run.rewind(run.made, replace(settings, k=(5 * run.made + 3) % ROWS))
                    made = run.advance()
                    told[-1] += [guess.token.id for guess in made.guesses]
                    told[-1] += [token.id for token in made.committed]
            found[name] = {
                "replayed as launched": told[0] == told[1],
                "as without a desk": told[0] == told[2],
            }
        found["buffers stayed"] = self.desk.addresses == before
        found["recorded"] = self.desk.trouble or True
        return found

    def against_eager(self) -> dict[str, Any]:
        """One greedy text by plain passes, alone and in rounds, and the same by recorded ones.

        K goes from 1 to 6 and round again, with guesses refused at any place.
        """
        plain = Runner(self.weights, CONTEXT)
        expected = list(self.session(plain, None, desk=None).rounds())
        words = [token.id for made in expected for token in made.committed]
        texts = {"plain, alone": words}
        kernel = self.target.kernel
        assert isinstance(kernel, GraphKernel)
        replays = {}
        for name, runner in (("plain", plain), ("recorded", self.target)):
            before = kernel.replays
            desk = self.desk if runner is self.target else None
            run = self.session(runner, scripted(words), desk=desk)
            texts[f"{name}, in rounds"] = list(cycling(run))
            replays[name] = {"rounds": run.made, "replays": kernel.replays - before}
        alone = self.session(self.target, None)
        texts["recorded, alone"] = [t.id for made in alone.rounds() for t in made.committed]
        return {
            "texts equal": {name: text == words for name, text in texts.items()},
            "recorded texts equal each other": (
                texts["recorded, in rounds"] == texts["recorded, alone"]
            ),
            "replays": replays["recorded"],  # the prompt and passes after pauses are replays too
        }

    def waits(self) -> Any:
        """How often the host waits for the device in a round's measured part."""
        if not self.on_cuda:
            return NEEDS_CUDA
        found = {}
        for name, changes in KINDS.items():
            run = self.session(self.target, self.drafter(), replace(Settings(), **changes))
            run.advance()
            run._begin_round()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                torch.cuda.set_sync_debug_mode("warn")
                run._check(run._propose(run.made, run._settings)[1], run.made)
                torch.cuda.set_sync_debug_mode("default")
            found[name] = [str(each.message)[:120] for each in caught]
        return {name: len(each) for name, each in found.items()} | {"which": found}

    def passes(self) -> dict[str, Any]:
        """Recorded and plain passes at a few lengths; a wide one costs what any k costs."""
        plain = Runner(self.weights, CONTEXT)
        narrow = self.chosen.runner(self.weights, CONTEXT)
        table: dict[str, Any] = {}
        for length in (each for each in (60, 400, 1500) if each + ROWS <= plain.context):
            ids = some_ids(length + ROWS, self.weights)
            for runner in (self.target, narrow, plain):
                runner.rollback(0)
                runner.forward(ids[:length], last_only=True)
            for name, runner, count in (
                ("recorded, 1 wide", narrow, 1),
                (f"recorded, {ROWS} wide", self.target, ROWS),
                ("plain, 1", plain, 1),
                ("plain, 5", plain, 5),
            ):
                work = feeding(runner, ids[length : length + count], length)
                table[f"{name}, after {length}"] = self.milliseconds(work)
        return table

    def drafting(self) -> dict[str, Any]:
        """A drafter of the first two layers, K 4: read guess by guess, and left on the device."""
        table = {}
        desks: dict[str, Desk | None] = {"read guess by guess": None}
        if self.desk is not None:
            desks["left on the device, launched"] = Desk(self.unigram, self.desk.dtype)
            desks["left on the device, replayed"] = self.desk
        for name, desk in desks.items():
            run = self.session(self.target, self.drafter(), Settings(k=4), NEW_TOKENS * 2, desk)
            made = [each for each in run.rounds() if not each.cold and len(each.guesses) == 4]
            steps = [seconds for each in made for seconds in each.draft_step_seconds]
            whole = [each.draft_seconds + each.verify_seconds for each in made]
            table[name] = {
                "draft step ms": middle(1e3 * seconds for seconds in steps),
                "verify ms": middle(1e3 * each.verify_seconds for each in made),
                "round ms": middle(1e3 * seconds for seconds in whole),
                "evidence ms": middle(1e3 * each.evidence_seconds for each in made),
            }
        return table

    def drafter(self) -> Drafter:
        return ModelDrafter("first", self.chosen.runner(self.weights.first_layers(2), CONTEXT))

    def session(
        self,
        target: Runner,
        drafter: Drafter | None,
        settings: Settings | None = None,
        tokens: int = NEW_TOKENS,
        desk: Desk | EllipsisType | None = ...,
    ) -> Session:
        """A run; on the desk that runs have here, unless another or none is named."""
        wanted = replace(settings or Settings(), drafter="script", speculative=drafter is not None)
        about = kit.header(PROMPT, wanted, max_new_tokens=tokens, context_limit=CONTEXT)
        return Session(
            target, kit.Words(), lambda name: drafter, self.unigram, about,
            desk=self.desk if isinstance(desk, EllipsisType) else desk,
        )  # fmt: skip

    def milliseconds(self, work: Callable[[], object], repeats: int = 20) -> float:
        def once() -> float:
            self.finish()
            began = time.perf_counter()
            work()
            self.finish()
            return 1e3 * (time.perf_counter() - began)

        return middle([once() for _ in range(3 + repeats)][3:])

    def finish(self) -> None:
        if self.on_cuda:
            torch.cuda.synchronize()


def made_up(config: LlamaConfig, dtype: torch.dtype, device: str) -> Weights:
    """Random weights, sharp enough that the likeliest token is clear."""
    generator = torch.Generator().manual_seed(0)

    def made(*shape: int, scale: float = 1.0) -> torch.Tensor:
        values = torch.randn(shape, generator=generator) * scale * shape[-1] ** -0.5
        return values.to(device=device, dtype=dtype)

    def ones(*shape: int) -> torch.Tensor:
        return torch.ones(shape, device=device, dtype=dtype)

    c = config
    return Weights(
        config=c,
        embedding=made(c.vocab_size, c.hidden_size, scale=6),
        attention_norm=ones(c.layers, c.hidden_size),
        qkv=made(c.layers, c.qkv_size, c.hidden_size),
        output=made(c.layers, c.hidden_size, c.heads * c.head_dim),
        mlp_norm=ones(c.layers, c.hidden_size),
        gate_up=made(c.layers, 2 * c.mlp_size, c.hidden_size),
        down=made(c.layers, c.hidden_size, c.mlp_size),
        norm=ones(c.hidden_size),
        head=made(c.vocab_size, c.hidden_size, scale=3),
    )


def some_ids(count: int, weights: Weights) -> list[int]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(weights.config.vocab_size, (count,), generator=generator).tolist()


def by_width(runner: Runner, ids: list[int], width: int) -> torch.Tensor:
    """Logits of every id, fed so many at a time."""
    runner.rollback(0)
    return torch.cat([runner.forward(ids[at : at + width]) for at in range(0, len(ids), width)])


def far(first: torch.Tensor, second: torch.Tensor) -> float:
    """The largest difference; 0.0 means the same bits."""
    return float((first - second).abs().max())


def scripted(words: list[int]) -> Drafter:
    """Guesses what comes, and at random something else."""
    chance = random.Random(0)

    def guess(text: list[int]) -> int:
        at = len(text) - len(PROMPT)
        right = words[at] if at < len(words) else 0
        return right if chance.random() < 0.75 else (right + 1) % 100

    return kit.Script(guess)


def bushes(words: list[int], seed: int, vocab: int) -> Drafter:
    """Trees of every shape around what comes."""
    chance = random.Random(seed)

    def law(text: list[int]) -> torch.Tensor:
        at = len(text) - len(PROMPT)
        law = torch.full((vocab,), 1e-6, dtype=torch.float64)
        for weight in (0.5, 0.4):
            right = at < len(words) and chance.random() < 0.6
            law[words[at] if right else chance.randrange(100)] += weight
        return law

    return kit.TreeScript(law, lambda index, k: random_shape(chance, k))


def cycling(run: Session) -> Iterator[int]:
    """The ids of a run whose K goes from 1 to 6 and round again."""
    while run.finished is None:
        run.rewind(run.made, replace(run.header.settings, k=run.made % 6 + 1))
        made: Round = run.advance()
        yield from (token.id for token in made.committed)


def feeding(runner: Runner, ids: list[int], length: int) -> Callable[[], object]:
    def work() -> object:
        runner.rollback(length)
        return runner.forward(ids)

    return work


def middle(values: Any) -> float:
    found = list(values)
    return round(statistics.median(found), 4) if found else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--target", type=Path, help="a model folder in place of made-up weights")
    parser.add_argument("--quick", action="store_true", help="a very small model")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("There is no CUDA device here: try --device cpu.")
    found: dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        found[str(dtype).removeprefix("torch.")] = Rounds(options, dtype).all()
        options.out.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
