"""Whether samples come of the law they should: three tests, each with the chance of its finding.

Two samples of whole continuations are compared by their distance, against random splits of the
two pooled, and by a chi-square test. `Pull` looks at one sample from nearer: wherever a guess was
judged, the laws are known, so it counts how often the text there took a token that the drafter
overrates. Faulty rules lean to the drafter, and one number sees that long before a histogram does.

Knows nothing of sessions or prompts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SMALLEST_BIN = 10
PERMUTATIONS = 2000


@dataclass(frozen=True, slots=True)
class Likeness:
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


@dataclass(frozen=True, slots=True)
class Pull:
    """How often judged places went to a token that the drafter overrates, against the target's law.

    At each of `places` the target gives these tokens some chance, whatever came before: the
    chances sum to `expected`, and `found` differs from it as a sum of independent coins with
    `variance` would (a martingale: later laws may depend on earlier tokens).
    """

    places: int = 0
    found: int = 0
    expected: float = 0.0
    variance: float = 0.0

    def after(self, target_probs: Tensor, draft_probs: Tensor, token: int) -> Pull:
        """Count one more place, of laws (V,), that went to `token`."""
        overrated = draft_probs > target_probs
        chance = float(target_probs.double()[overrated].sum())
        return Pull(
            self.places + 1,
            self.found + bool(overrated[token]),
            self.expected + chance,
            self.variance + chance * (1 - chance),
        )

    @property
    def p_value(self) -> float:
        """Chance that the target's own text is at least as far from what is expected."""
        far = abs(self.found - self.expected)
        if self.variance < 1e-6:  # nothing was left to chance
            return 1.0 if far < 1e-3 else 0.0
        return math.erfc(far / math.sqrt(2 * self.variance))


def compare(first: Sequence[Hashable], second: Sequence[Hashable]) -> Likeness:
    """Compare two samples of equal size."""
    counts = Counter(first), Counter(second)
    kinds = sorted(counts[0] | counts[1], key=lambda kind: -(counts[0][kind] + counts[1][kind]))
    table = np.array([[count[kind] for kind in kinds] for count in counts], dtype=np.int64)
    distance = _total_variation(table, len(first))
    by_chance = _permuted_distances(table, len(first))
    chi_square, degrees = _chi_square(_pool_rare(table))
    return Likeness(
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
