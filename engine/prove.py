"""``main.py prove``: on the real pair, that speculation changes nothing.

At temperature 0 the two texts must be equal, token for token. With a temperature they need
not be (the draws differ), but their *law* must be: many short continuations are sampled both
ways, and the two samples compared. A permutation test says how far apart two samples of one
law of this size would lie by chance.

The acceptance rule itself is proven without sampling, by enumeration, in the tests.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from engine.config import settings_of
from engine.decode import Session
from engine.drafters.proposal import common_prefix
from engine.requests import Start
from engine.stats import Stats
from engine.trace import RunProof, Scored, Settings

PROMPTS = (
    "Explain why the sky is blue.",
    "Write a short story about a lighthouse keeper.",
    "List five ways to save water at home.",
    "Repeat this sentence three times: the quick brown fox jumps over the lazy dog.",
    "What is 12 times 12?",
)
SAMPLED_PROMPT = "One, two, three, four,"
"""Open enough to test a law, narrow enough that a few hundred samples repeat themselves."""

SAMPLES = 300
SAMPLED_TOKENS = 3
"""Long enough that a round's guesses, corrections and bonus tokens all reach the sample."""

SMALLEST_BIN = 10
PERMUTATIONS = 2000
DOUBT = 1e-3
"""A p-value below this would be seen once in a thousand proofs of a sound program."""


class Engine(Protocol):
    """What a proof needs of an engine."""

    def begin(self, start: Start) -> Session: ...


@dataclass(frozen=True, slots=True)
class GreedyProof:
    """Two texts compared, and what the second one took."""

    run: RunProof
    stats: Stats

    @property
    def holds(self) -> bool:
        return self.run.holds


@dataclass(frozen=True, slots=True)
class LawProof:
    """Two samples compared: distance, and how likely chance alone gives as much.

    `total_variation` is half the summed difference of shares over whole continuations;
    `by_chance` its mean over random splits of the pooled samples, and `p_distance` the share of
    splits at least as far apart. The chi-square test pools continuations seen fewer than
    `SMALLEST_BIN` times.
    """

    samples: int
    distinct: int
    total_variation: float
    by_chance: float
    p_distance: float
    chi_square: float
    degrees: int
    p_chi_square: float

    @property
    def holds(self) -> bool:
        return min(self.p_distance, self.p_chi_square) >= DOUBT


def greedy(begin: Callable[[Settings], Session], settings: Settings) -> GreedyProof:
    """Write one text both ways at temperature 0 and compare them."""
    cold = replace(settings, temperature=0.0)
    alone = begin(replace(cold, speculative=False))
    list(alone.rounds())
    together = begin(cold)
    stats = Stats.of(together.rounds())
    prompt, tokens = len(together.header.prompt_tokens), len(together.choices)
    if alone.ids == together.ids:
        return GreedyProof(RunProof(tokens), stats)
    shared = common_prefix(alone.ids, together.ids) - prompt
    return GreedyProof(
        RunProof(tokens, shared, _best(together, shared), _best(alone, shared)), stats
    )


def _best(run: Session, place: int) -> tuple[Scored, ...]:
    """The two likeliest tokens of the pass that chose a new token; none where the text ended."""
    choice = run.choices[place] if place < len(run.choices) else None
    return () if choice is None else choice.best


def sampled(
    begin: Callable[[Settings], Session], settings: Settings, samples: int, seed: int = 0
) -> LawProof:
    """Sample `samples` continuations both ways and compare their laws."""
    alone = list(continuations(begin(replace(settings, speculative=False)), samples, seed))
    together = list(continuations(begin(settings), samples, seed + samples))
    return compare(alone, together)


def continuations(session: Session, samples: int, seed: int) -> Iterator[tuple[int, ...]]:
    """The ids of one short continuation after another, each from a seed of its own."""
    prompt = len(session.header.prompt_tokens)
    for offset in range(samples):
        session.restart(seed + offset)
        for _ in session.rounds():
            pass
        yield session.ids[prompt:]


def compare(first: Sequence[Hashable], second: Sequence[Hashable]) -> LawProof:
    """Compare two samples of equal size."""
    counts = Counter(first), Counter(second)
    kinds = sorted(counts[0] | counts[1], key=lambda kind: -(counts[0][kind] + counts[1][kind]))
    table = np.array([[count[kind] for kind in kinds] for count in counts], dtype=np.int64)
    distance = _total_variation(table, len(first))
    by_chance = _permuted_distances(table, len(first))
    chi_square, degrees = _chi_square(_pool_rare(table))
    return LawProof(
        samples=len(first),
        distinct=len(kinds),
        total_variation=distance,
        by_chance=float(by_chance.mean()),
        p_distance=float((1 + (by_chance >= distance - 1e-12).sum()) / (1 + len(by_chance))),
        chi_square=chi_square,
        degrees=degrees,
        p_chi_square=_chi_square_tail(chi_square, degrees),
    )


def _total_variation(table: NDArray[np.int64], samples: int) -> float:
    return float(np.abs(table[0] - table[1]).sum() / (2 * samples))


def _permuted_distances(table: NDArray[np.int64], samples: int) -> NDArray[np.float64]:
    """Distances between random halves of the pooled samples."""
    pooled = table.sum(0)
    draw = np.random.default_rng(0).multivariate_hypergeometric
    halves = draw(pooled, samples, size=PERMUTATIONS)  # (permutations, kinds)
    distances: NDArray[np.float64] = np.abs(2 * halves - pooled).sum(1) / (2 * samples)
    return distances


def _pool_rare(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Columns seen often enough for a chi-square test; the rare ones as one."""
    common = table.sum(0) >= SMALLEST_BIN
    rare = table[:, ~common].sum(1, keepdims=True)
    return np.concatenate((table[:, common], rare), 1) if rare.any() else table[:, common]


def _chi_square(table: NDArray[np.int64]) -> tuple[float, int]:
    """Two-sample chi-square and its degrees of freedom, for samples of equal size."""
    pooled = table.sum(0)
    difference = (table[0] - table[1]).astype(np.float64)
    return float((difference**2 / pooled).sum()), table.shape[1] - 1


def _chi_square_tail(chi_square: float, degrees: int) -> float:
    """Chance that a chi-square with these degrees of freedom is at least as large."""
    if degrees == 0:
        return 1.0
    half = torch.tensor((degrees / 2, chi_square / 2), dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


# --- the command ------------------------------------------------------------------------------


def main(engine: Engine, args: argparse.Namespace) -> int:
    """Run the proof the options ask for and print it. Returns the exit code."""
    settings = settings_of(args)
    if settings.effective_k == 0:
        raise ValueError("Choose a drafter and a k above 0: there is nothing to prove otherwise.")
    holds = (
        _prove_law(engine, args, settings)
        if args.samples or args.temperature > 0
        else (_prove_greedy(engine, args, settings))
    )
    return 0 if holds else 1


def _prove_greedy(engine: Engine, args: argparse.Namespace, settings: Settings) -> bool:
    """Compare the texts of one prompt, or of a few of ours."""
    proofs = []
    for prompt in (args.prompt,) if args.prompt else PROMPTS:
        proof = greedy(_beginner(engine, args, prompt, args.max_new_tokens), settings)
        print(f"{_greedy_lines(proof)}  {prompt[:60]!r}", flush=True)
        proofs.append(proof)
    good = sum(proof.holds for proof in proofs)
    print(
        f"{good} of {len(proofs)} texts are the target's own, token for token "
        f"({sum(proof.run.tokens for proof in proofs)} tokens, drafter {settings.drafter}, "
        f"k {settings.k_as_set}, quality {settings.quality:g} %)."
    )
    return good == len(proofs)


def _greedy_lines(proof: GreedyProof) -> str:
    length = proof.stats.mean_acceptance_length or 1.0
    if proof.holds:
        return f"equal   {proof.run.tokens:4} tokens, {length:.2f} a round"
    return "\n".join(
        (
            f"DIFFERS at new token {(proof.run.first_difference or 0) + 1}, where the target's two "
            "likeliest are",
            f"    alone     {scored_words(proof.run.alone)}",
            f"    together  {scored_words(proof.run.together)}",
            "    for",
        )
    )


def scored_words(best: Sequence[Scored]) -> str:
    """Tokens with their logits, and how far apart these are."""
    words = [f"{each.token.text!r} {each.logit:.6f}" for each in best]
    if len(best) == 2:
        words.append(f"gap {best[0].logit - best[1].logit:.2g}")
    return ", ".join(words) or "none: the text had ended"


def _prove_law(engine: Engine, args: argparse.Namespace, settings: Settings) -> bool:
    """Compare the laws of short continuations of one prompt."""
    prompt, raw = (args.prompt, args.raw) if args.prompt else (SAMPLED_PROMPT, True)
    samples = args.samples or SAMPLES
    begin = _beginner(engine, argparse.Namespace(raw=raw), prompt, SAMPLED_TOKENS)
    print(f"Sampling {samples} continuations of {SAMPLED_TOKENS} tokens each way: {prompt!r}")
    proof = sampled(begin, settings, samples, args.seed)
    print(
        f"distinct continuations   {proof.distinct}\n"
        f"total variation          {proof.total_variation:.4f} "
        f"(by chance alone {proof.by_chance:.4f}; p {proof.p_distance:.3f})\n"
        f"chi-square               {proof.chi_square:.1f} at {proof.degrees} degrees of freedom "
        f"(p {proof.p_chi_square:.3f})\n"
        + (
            "The two samples are as alike as two samples of one law."
            if proof.holds
            else "The two samples are further apart than chance allows."
        )
    )
    return proof.holds


def _beginner(
    engine: Engine, args: Any, prompt: str, max_new_tokens: int
) -> Callable[[Settings], Session]:
    """Runs of one prompt, by settings."""
    return lambda settings: engine.begin(
        Start(prompt, not args.raw, settings, max_new_tokens=max_new_tokens)
    )
