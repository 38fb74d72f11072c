"""How many guesses to ask for next: the K that writes most tokens a second, as measured.

`Learned` is a fold over the rounds made so far: running rates of acceptance by position, and
running costs of a draft step and of a pass by width, the latest rounds weighing most. The K
that stands changes only when another promises clearly more, so that noise does not make it
flutter. Now and then one guess more than usual is asked for, to learn what it would bring;
when nothing pays K is 0, and a short probe every while finds out whether it pays again.

The same rounds always give the same choice: taking rounds back is folding fewer of them. Which
K a round gets changes no law, only how fast the text comes. But costs are measured, so two runs
of one seed may ask for different K, and when sampling they then write different texts.

The design is the simple end of what servers do: a controller on measured acceptance by
position and cost by width that may choose 0 (ollama #16791), with the running mean and the
hysteresis of SGLang's adaptive mode. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from operator import mul
from typing import TypeVar

from engine.trace import Baseline, Round, Settings

T = TypeVar("T")

START = 4
"""K while nothing is known yet."""

MOST = 16
MARGIN = 1.04
"""How much faster another K must promise to be before it takes over."""

MEMORY = 20.0
"""Rounds that count: an older one weighs less and less."""

DOUBT = 3.0
"""Rounds that must be seen at a position before its own rate outweighs its predecessor's."""

HOPE = 0.75
"""Chance of a first guess before any was seen: high, for asking teaches and silence does not."""

FADING = 0.8
"""The same of a tree's further node, in chances of the one before it: the best come first."""

EXPLORE_AFTER = 12
PROBE_AFTER, PROBE_SELDOM = 16, 64
"""Rounds without guesses before a probe; after each one in vain twice as many, up to that."""

AGED = 2.0
"""What a cost counts, in samples, that was measured before a silence."""

OUTLIER = 1.5
"""A sample this many times off counts as so far off and no more: machines hiccup."""

GUESSED_SLOPE = 0.06
"""What a further position adds to a pass, in passes, while only one width was measured."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The K of a round, and why, in one sentence for people."""

    k: int
    reason: str


@dataclass(frozen=True, slots=True)
class Mean:
    """A running mean of `count` samples, those beyond `MEMORY` forgotten."""

    value: float = 0.0
    count: float = 0.0

    def after(self, sample: float) -> Mean:
        if not self.count:
            return Mean(sample, 1.0)
        near = min(max(sample, self.value / OUTLIER), self.value * OUTLIER)
        count = min(self.count + 1, MEMORY)
        return Mean(self.value + (near - self.value) / count, count)

    def aged(self) -> Mean:
        """The same value, which the next samples may soon correct."""
        return replace(self, count=min(self.count, AGED))


@dataclass(frozen=True, slots=True)
class Share:
    """How often something happened, older cases fading."""

    hits: float = 0.0
    tries: float = 0.0

    def after(self, hit: bool) -> Share:
        kept = 1 - 1 / MEMORY
        return Share(self.hits * kept + hit, self.tries * kept + 1)

    def rate(self, prior: float) -> float:
        return (self.hits + prior * DOUBT) / (self.tries + DOUBT)


@dataclass(frozen=True, slots=True)
class Learned:
    """What the rounds so far have taught. `passes[n]` is the cost of a pass over n + 1 positions.

    `offered[i]` and `accepted[i]` are about guess i + 1: whether the drafter had so many to
    offer when asked, and whether it was accepted where all before it were (not being offered
    counts as not). In a `tree` guess i + 1 is a node, of those that a smaller K would have too,
    and `accepted[i]` whether it was on the path that was kept: siblings do not wait for each
    other. `drafting` is the cost of a guess asked for. `standing` is the K that holds,
    `usual` the rounds since something else was tried. `silent` counts rounds without guesses,
    `asking` rounds with them, each since the other; `retreats` is how often one followed the
    other since K 0 stands, and `full` whether the last guesses were all accepted.
    """

    basis: Settings | None = None
    passes: tuple[Mean, ...] = (Mean(),) * (MOST + 1)
    offered: tuple[Share, ...] = (Share(),) * MOST
    accepted: tuple[Share, ...] = (Share(),) * MOST
    drafting: Mean = field(default_factory=Mean)
    standing: int = START
    usual: int = 0
    silent: int = 0
    asking: int = 0
    retreats: int = 0
    full: bool = False
    tree: bool = False

    @classmethod
    def of(
        cls, rounds: Iterable[Round], baseline: Baseline | None = None, start: int = START
    ) -> Learned:
        """Fold `rounds`; `baseline` is what a pass over one position was measured to cost.

        `start` is the K that stands until they have taught better.
        """
        known = cls(standing=start or START)
        if baseline is not None:
            known = replace(known, passes=_put(known.passes, 0, Mean(baseline.pass_seconds, 3.0)))
        for each in rounds:
            known = known.after(each)
        return known

    def choose(self, settings: Settings) -> Choice:
        """The K of the next round under these settings."""
        known = self.under(settings)
        standing = known.standing
        if not known.ready:
            return Choice(standing, f"K {standing}: nothing is measured in this run yet")
        if standing == 0 and known.probes:
            why = f"{known.silent} rounds went without" if known.silent else "it goes on"
            return Choice(1, f"K 1: a probe whether guesses pay by now; {why}")
        if 0 < standing < MOST and known.usual >= EXPLORE_AFTER:
            return Choice(standing + 1, f"K {standing + 1}: one more than usual, to measure it")
        return Choice(standing, known.reason())

    def reason(self) -> str:
        """Why `standing` guesses and not one more."""
        k = self.standing
        further = min(k + 1, MOST)
        survives = self.survival(further)[-1]
        less, more = self.costs(further)[-2:]
        which = "a guess" if further == 1 else f"{_article(further)} {_ordinal(further)} guess"
        would = "would survive" if further > k else "survives"
        often = f"{100 * survives:.0f} % of the time"
        return f"K {k}: {which} {would} {often} and costs {1e3 * (more - less):.1f} ms"

    # --- what is learnt ------------------------------------------------------------------

    def under(self, settings: Settings) -> Learned:
        """What of this still holds under `settings`: acceptance belongs to the very settings."""
        basis = settings.apart_from_k
        if self.basis in (None, basis):
            return self if self.basis else replace(self, basis=basis)
        known = Learned(basis=basis, passes=self.passes)
        same = self.basis is not None and self.basis.drafter == basis.drafter
        return replace(known, drafting=self.drafting) if same else known

    def after(self, made: Round) -> Learned:
        """What is known after one more round. Rounds of a K set by hand teach as well."""
        width = len(made.guesses)
        passes = self.passes
        if not made.cold and width <= MOST:
            passes = _put(passes, width, passes[width].after(made.verify_seconds))
        if made.settings.effective_k == 0:
            return replace(self, passes=passes)._without_guesses(made.settings.chooses_k)
        known = replace(self.under(made.settings), passes=passes)
        if self.silent:
            known = known._aged()
        return known._with_guesses(made)._settled()

    def _without_guesses(self, by_choice: bool) -> Learned:
        if not by_choice:
            return self
        retreats = self.retreats + (self.asking > 0)
        return replace(self, silent=self.silent + 1, asking=0, retreats=retreats)._settled()

    def _aged(self) -> Learned:
        """After a silence: what guesses cost before it counts no more than a few samples."""
        alone, *wider = self.passes
        return replace(
            self,
            drafting=self.drafting.aged(),
            passes=(alone, *(each.aged() for each in wider)),
        )

    def _with_guesses(self, made: Round) -> Learned:
        k = min(made.settings.effective_k, MOST)
        known = self._judged(made, k)
        steady = not made.cold and self.silent == 0  # else it caught up with the text first
        return replace(
            known,
            drafting=known.drafting.after(made.draft_seconds / k) if steady else known.drafting,
            usual=self.usual + 1 if k == self.standing else 0,
            silent=0,
            asking=self.asking + 1,
            full=made.accepted >= k,
        )

    def _judged(self, made: Round, k: int) -> Learned:
        offered, accepted = self.offered, self.accepted
        for slot in range(k):
            offered = _put(offered, slot, offered[slot].after(slot < len(made.guesses)))
        tree = self.tree or made.is_tree
        judged = made.accepted + (made.emitted is not None)  # an end of text judged no further
        for slot in range(k if tree else min(judged, k)):
            accepted = _put(accepted, slot, accepted[slot].after(slot in made.path))
        return replace(self, offered=offered, accepted=accepted, tree=tree)

    def _settled(self) -> Learned:
        """The same with the K that stands from here on."""
        if not self.ready:
            return self
        promised = self.tokens_per_second(max(self.reach, self.standing))
        best = max(range(self.reach + 1), key=promised.__getitem__)
        if promised[best] < MARGIN * promised[self.standing]:
            return self
        return replace(self, standing=best, usual=0, retreats=0)

    # --- what it says --------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether drafting and some pass were measured."""
        return self.drafting.count > 0 and any(each.count for each in self.passes)

    @property
    def reach(self) -> int:
        """The most that may be chosen: no further than twice what was tried."""
        tried = sum(each.tries > 0 for each in self.offered)
        return min(MOST, max(START, 2 * tried))

    @property
    def probes(self) -> bool:
        """Whether it is time, at K 0, to ask for a guess: two rounds each, and while it works."""
        if self.asking:
            return self.asking < 2 or self.full
        patience: float = min(PROBE_AFTER * 2 ** (self.retreats - 1), PROBE_SELDOM)
        return self.silent >= patience

    def survival(self, most: int) -> list[float]:
        """Chance that guess 1, 2, … `most` joins the text: in a chain, that all up to it do."""
        if self.tree:
            return _chained(self.accepted[:most], HOPE, FADING)
        return list(accumulate(_chained(self.accepted[:most], HOPE), mul))

    def costs(self, most: int) -> list[float]:
        """Seconds of a round that asks for 0, 1, … `most` guesses.

        One whose drafter offers fewer has a cheaper pass.
        """
        passes = self.pass_seconds(most + 1)
        further = [more - less for less, more in pairwise(passes)]
        offers = _chained(self.offered[:most], 1.0)
        added = (
            self.drafting.value + offer * more for offer, more in zip(offers, further, strict=True)
        )
        return list(accumulate(added, initial=passes[0]))

    def tokens_per_second(self, most: int) -> list[float]:
        """What asking for 0, 1, … `most` guesses promises."""
        tokens = accumulate(self.survival(most), initial=1.0)
        return [n / seconds for n, seconds in zip(tokens, self.costs(most), strict=True)]

    def pass_seconds(self, most: int) -> list[float]:
        """A pass over 1, 2, … `most` positions: measured, or on the line through its neighbours.

        A wider pass is not cheaper: where measurements say so, they are taken together.
        """
        known = _rising([(n + 1, each) for n, each in enumerate(self.passes) if each.count])
        if len(known) == 1:
            at, value = known[0]
            one = value / (1 + GUESSED_SLOPE * (at - 1))
            return [one * (1 + GUESSED_SLOPE * n) for n in range(most)]
        return [_on_line(known, width) for width in range(1, most + 1)]


def _chained(shares: tuple[Share, ...], first: float, fading: float = 1.0) -> list[float]:
    """The rate at each position, for which the one before it stands in while little is seen.

    `fading` is what there is left to hope for from one position to the next.
    """
    rates = list(
        accumulate(shares, lambda before, share: share.rate(fading * before), initial=first)
    )
    return rates[1:]


def _rising(points: Sequence[tuple[int, Mean]]) -> list[tuple[int, float]]:
    """The closest values that never fall (isotonic regression by pooling adjacent violators)."""
    pools: list[tuple[list[int], Mean]] = []
    for at, mean in points:
        places = [at]
        while pools and pools[-1][1].value > mean.value:
            before, other = pools.pop()
            places, count = before + places, other.count + mean.count
            mean = Mean((other.value * other.count + mean.value * mean.count) / count, count)
        pools.append((places, mean))
    return [(at, mean.value) for places, mean in pools for at in places]


def _on_line(points: Sequence[tuple[int, float]], at: int) -> float:
    """The value at `at` on the line through the two points around it, or the nearest two."""
    right = next((i for i, (x, _) in enumerate(points) if x >= at), len(points) - 1)
    (left_x, left_y), (right_x, right_y) = points[max(right, 1) - 1], points[max(right, 1)]
    return left_y + (right_y - left_y) * (at - left_x) / (right_x - left_x)


def _put(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _article(number: int) -> str:
    return "an" if number in (8, 11) else "a"


def _ordinal(number: int) -> str:
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number, 'th')}"
