"""What a run's rounds amount to, in the words of the field, and what a formula would expect.

Definitions (as vLLM's, with one name each): acceptance rate is accepted over drafted, where
discarded guesses count as drafted; mean acceptance length is 1 + accepted over rounds; the
per-position rate is unconditional; alpha is the chance of one *judged* guess. A guess that an
end of text cut off counts as drafted, not as accepted. A round whose drafter had nothing to
say is a round that accepted 0. Rates of time leave out rounds marked cold. What is undefined
is None, never 0.

Of a tree every node is drafted, siblings are judged one after another, so that a round may
refuse several, and a position is a depth: as far as the deepest branch reaches.

Formulas assume independent acceptances, which real ones are not: they are drawn beside what
is measured and never stand for it. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from engine.trace import Baseline, Round


@dataclass(frozen=True, slots=True)
class Stats:
    """Sums over rounds; everything else is derived from them.

    `accepting[j]` counts the rounds that asked for guesses and accepted exactly j, `asking[i]`
    those that asked for more than i in a row; `reach` is the most a round with guesses asked for,
    or 0. See `histogram` and `asked`.
    """

    rounds: int
    drafted: int
    accepted: int
    rejected: int
    committed: int
    accepting: tuple[int, ...]
    asking: tuple[int, ...]
    reach: int
    timed_tokens: int
    timed_rounds: int
    timed_steps: int
    draft_seconds: float
    verify_seconds: float
    baseline: Baseline | None = None

    @classmethod
    def of(cls, rounds: Iterable[Round], baseline: Baseline | None = None) -> Stats:
        """Add up `rounds`."""
        rounds = tuple(rounds)
        asked = [each for each in rounds if each.settings.effective_k > 0]
        reaches = [_reach(each) for each in asked]
        width = max(reaches, default=0)
        accepting = [0] * (width + 1) if asked else []
        for each in asked:
            accepting[each.accepted] += 1
        verdicts = [guess.verdict for each in rounds for guess in each.guesses]
        timed = [each for each in rounds if not each.cold]
        return cls(
            rounds=len(rounds),
            drafted=len(verdicts),
            accepted=verdicts.count("accepted"),
            rejected=verdicts.count("rejected"),
            committed=sum(len(each.committed) for each in rounds),
            accepting=tuple(accepting),
            asking=tuple(sum(reach > slot for reach in reaches) for slot in range(width)),
            reach=max((_reach(each) for each in asked if each.guesses), default=0),
            timed_tokens=sum(len(each.committed) for each in timed),
            timed_rounds=len(timed),
            timed_steps=sum(len(each.draft_step_seconds) for each in timed),
            draft_seconds=sum((each.draft_seconds for each in timed), 0.0),
            verify_seconds=sum((each.verify_seconds for each in timed), 0.0),
            baseline=baseline,
        )

    def __add__(self, other: Stats) -> Stats:
        """The stats of these rounds and then `other`'s."""
        return Stats(
            rounds=self.rounds + other.rounds,
            drafted=self.drafted + other.drafted,
            accepted=self.accepted + other.accepted,
            rejected=self.rejected + other.rejected,
            committed=self.committed + other.committed,
            accepting=_added(self.accepting, other.accepting),
            asking=_added(self.asking, other.asking),
            reach=max(self.reach, other.reach),
            timed_tokens=self.timed_tokens + other.timed_tokens,
            timed_rounds=self.timed_rounds + other.timed_rounds,
            timed_steps=self.timed_steps + other.timed_steps,
            draft_seconds=self.draft_seconds + other.draft_seconds,
            verify_seconds=self.verify_seconds + other.verify_seconds,
            baseline=self.baseline or other.baseline,
        )

    @property
    def histogram(self) -> tuple[int, ...]:
        """histogram[j]: rounds that asked for guesses and accepted exactly j.

        A round without guesses does not say how deep they would have gone: others do.
        """
        return self.accepting[: self.reach + 1] if self.reach else self.accepting

    @property
    def asked(self) -> tuple[int, ...]:
        """asked[i]: rounds that asked for more than i guesses in a row."""
        return self.asking[: self.reach] if self.reach else self.asking

    @property
    def acceptance_rate(self) -> float | None:
        """ACCEPT: accepted over drafted."""
        return _ratio(self.accepted, self.drafted)

    @property
    def mean_acceptance_length(self) -> float | None:
        """TOKENS/ROUND: 1 + accepted over rounds."""
        return 1 + self.accepted / self.rounds if self.rounds else None

    @property
    def per_position(self) -> tuple[float, ...]:
        """Share of the rounds that asked for an i-th guess which accepted it, unconditional."""
        return tuple(
            sum(self.histogram[position:]) / asked for position, asked in enumerate(self.asked, 1)
        )

    @property
    def alpha(self) -> float | None:
        """Chance that one judged guess is accepted."""
        return _ratio(self.accepted, self.accepted + self.rejected)

    @property
    def tokens_per_second(self) -> float | None:
        """TOK/S on the compute clock."""
        return _ratio(self.timed_tokens, self.draft_seconds + self.verify_seconds)

    @property
    def speedup(self) -> float | None:
        """SPEEDUP: tokens per second over those of the same target alone, in this session."""
        rate = self.tokens_per_second
        if rate is None or self.baseline is None:
            return None
        return rate / self.baseline.tokens_per_second

    @property
    def draft_step_seconds(self) -> float | None:
        """Mean measured seconds of one draft step."""
        return _ratio(self.draft_seconds, self.timed_steps)

    @property
    def pass_seconds(self) -> float | None:
        """Mean measured seconds of one target pass, at the widths that were verified."""
        return _ratio(self.verify_seconds, self.timed_rounds)

    @property
    def slowness(self) -> str | None:
        """Why speculation loses here, in words; None while it does not, or nobody knows."""
        if self.speedup is None or self.speedup >= 1 or self.baseline is None or not self.drafted:
            return None
        alone = self.baseline.pass_seconds * self.timed_rounds
        passes, drafting = self.verify_seconds / alone, self.draft_seconds / alone
        length = self.timed_tokens / self.timed_rounds
        if length >= passes:  # free guesses would have paid
            return f"drafting costs {drafting:.1f} passes a round, for {length:.1f} tokens"
        if passes >= 1.5 and length >= 1.5:
            return f"checking costs {passes:.1f} passes a round, for {length:.1f} tokens"
        return f"few guesses pass: {length:.1f} tokens a round, for {passes:.1f} passes"


def expected_tokens(alpha: float, k: int) -> float:
    """Tokens a round if every guess passed with chance `alpha`: (1 - alpha^(k+1)) / (1 - alpha)."""
    return float(sum(alpha**i for i in range(k + 1)))


def expected_of_tree(alpha: float, parents: Sequence[int]) -> float:
    """As `expected_tokens` for a tree, whose siblings are tried in order until one passes.

    `parents` has the slot of the guess that each follows, -1 for the text: see `trace.Round`.
    """
    passed = [1.0]  # chance that each node is accepted; first the text itself
    elders = [0] * (len(parents) + 1)
    for parent in parents:
        passed.append(passed[parent + 1] * (1 - alpha) ** elders[parent + 1] * alpha)
        elders[parent + 1] += 1
    return sum(passed)


def expected_gain(alpha: float, k: int, step_cost: float, verify_cost: float = 1.0) -> float:
    """Speedup the formula expects; costs in single-token target passes (Leviathan: verify 1)."""
    return expected_tokens(alpha, k) / (k * step_cost + verify_cost)


def best_k(alpha: float, step_cost: float, verify_costs: Sequence[float]) -> int:
    """The k the formula likes best; `verify_costs[k]` is the measured cost at k + 1 positions."""
    return max(
        range(len(verify_costs)),
        key=lambda k: expected_gain(alpha, k, step_cost, verify_costs[k]),
    )


def _reach(each: Round) -> int:
    """The most guesses in a row that a round asked for: K, or as deep as its tree is."""
    return max(each.depths) if each.is_tree else each.settings.effective_k


def _added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Counts added up, the shorter ones filled up with none."""
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
