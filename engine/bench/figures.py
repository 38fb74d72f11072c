"""What a sweep amounts to: a line of figures for each combination.

Every comparison with the target alone is made over the prompts that both have answered, so an
interrupted sweep is as fair as a whole one. The prediction beside the measurement is what the
formula expects of guesses that pass independently, each with the measured alpha, at the
measured costs; where it is off, acceptances were not independent.

Pure: knows tallies and arithmetic.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.bench.sweep import RivalTally, Sweep, Tally
from engine.bench.texts import Text
from engine.stats import Stats, expected_of_tree
from engine.trace import Round
from engine.wordkinds import KINDS, Kind, kinds


@dataclass(frozen=True, slots=True)
class Family:
    """What a combination did on the prompts of one family; `speedup` over the target alone."""

    prompts: int
    acceptance_rate: float | None
    mean_acceptance_length: float | None
    speedup: float | None


@dataclass(frozen=True, slots=True)
class OfKind:
    """How many guesses were judged where the text has a token of one kind, and how many passed."""

    judged: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Line:
    """One combination.

    `k` is "auto" where the engine chose. Milliseconds are means of a round: drafting, the
    target's pass, and everything else this program did (`host_ms`). `step_cost` of one draft
    step and `check_cost` of one pass are in median passes of the target alone. `memory` is what the
    drafter holds beside the target, bytes. `same_text` is None when sampling, where texts need not
    match.
    """

    drafter: str
    k: int | str
    quality: float
    temperature: float
    prompts: int
    rounds: int
    tokens: int
    acceptance_rate: float | None
    per_position: tuple[float, ...]
    mean_acceptance_length: float | None
    alpha: float | None
    draft_ms: float | None
    verify_ms: float | None
    host_ms: float | None
    step_cost: float | None
    check_cost: float | None
    tokens_per_second: float | None
    speedup: float | None
    predicted: float | None
    memory: int | None
    same_text: bool | None
    families: Mapping[str, Family]
    kinds: Mapping[Kind, OfKind]

    @property
    def name(self) -> str:
        if self.drafter == "none":
            return "the target alone"
        quality = "" if self.quality == 100 else f" at quality {self.quality:.0f} %"
        return f"{self.drafter}, K {self.k}{quality}"


@dataclass(frozen=True, slots=True)
class RivalLine:
    """Somebody else's engine: `what` it ran exactly, and its tokens a second, prompt apart.

    `ours` is how many times its rate our best greedy combination has on the clock on the wall,
    everything this program does included.
    """

    name: str
    what: str
    prompts: int
    tokens: int
    tokens_per_second: float | None
    ours: float | None
    same_text: bool | None


def lines_of(sweep: Sweep) -> list[Line]:
    """The target alone at each temperature, then the combinations, each where it has a reply."""
    by_heat = {tally.settings.temperature: tally for tally in sweep.alone}
    return [
        _line(tally, by_heat[tally.settings.temperature], sweep.texts)
        for tally in (*sweep.alone, *sweep.tallies)
        if tally.replies
    ]


def rival_lines(sweep: Sweep) -> list[RivalLine]:
    greedy = [tally for tally in sweep.tallies if tally.settings.temperature == 0]
    alone = next((tally for tally in sweep.alone if tally.settings.temperature == 0), None)
    return [_rival_line(each, greedy, alone) for each in sweep.rivals if each.replies]


def _line(tally: Tally, alone: Tally, texts: Sequence[Text]) -> Line:
    both = sorted(tally.replies.keys() & alone.replies.keys())
    rounds = _rounds(tally, tally.replies)
    stats = Stats.of(rounds)
    settings = tally.settings
    one_pass = _median(
        each.verify_seconds for each in _rounds(alone, alone.replies) if not each.cold
    )
    steps = (seconds for each in rounds for seconds in each.draft_step_seconds)
    host = sum(reply.seconds for reply in tally.replies.values()) - sum(r.seconds for r in rounds)
    return Line(
        drafter=settings.drafter,
        k="auto" if settings.auto_k else settings.k,
        quality=settings.quality,
        temperature=settings.temperature,
        prompts=len(tally.replies),
        rounds=stats.rounds,
        tokens=stats.committed,
        acceptance_rate=stats.acceptance_rate,
        per_position=stats.per_position,
        mean_acceptance_length=stats.mean_acceptance_length,
        alpha=stats.alpha,
        draft_ms=_per(1e3 * stats.draft_seconds, stats.timed_rounds),
        verify_ms=_per(1e3 * stats.verify_seconds, stats.timed_rounds),
        host_ms=_per(1e3 * host, len(rounds)),
        step_cost=_ratio(_median(steps), one_pass),
        check_cost=_ratio(_median(each.verify_seconds for each in rounds), one_pass),
        tokens_per_second=stats.tokens_per_second,
        speedup=_speedup(tally, alone, both),
        predicted=_ratio(_predicted(rounds, stats.alpha), one_pass and 1 / one_pass),
        memory=None if tally.weighed is None else tally.weighed.total,
        same_text=_same(tally, alone, both) if settings.temperature == 0 else None,
        families=_families(tally, alone, texts),
        kinds=of_kinds(_rounds(tally, [number]) for number in tally.replies),
    )


def _rounds(tally: Tally, numbers: Iterable[int]) -> list[Round]:
    return [each for number in numbers for each in tally.replies[number].rounds]


def _speedup(tally: Tally, alone: Tally, numbers: Sequence[int]) -> float | None:
    mine, base = Stats.of(_rounds(tally, numbers)), Stats.of(_rounds(alone, numbers))
    return _ratio(mine.tokens_per_second, base.tokens_per_second)


def _same(tally: Tally, alone: Tally, numbers: Iterable[int]) -> bool:
    return all(tally.replies[n].ids == alone.replies[n].ids for n in numbers)


def _predicted(rounds: Sequence[Round], alpha: float | None) -> float | None:
    """Tokens a second of independent guesses: as many of them a round as there really were."""
    if alpha is None:
        return None
    warm = [each for each in rounds if not each.cold]
    widths = [len(each.guesses) for each in warm]
    passes = _medians(zip(widths, (each.verify_seconds for each in warm), strict=True))
    drafting = _medians(zip(widths, (each.draft_seconds for each in warm), strict=True))
    seconds = sum(passes[width] + drafting[width] for width in widths)
    return _ratio(sum(expected_of_tree(alpha, each.parents) for each in warm), seconds)


def _families(tally: Tally, alone: Tally, texts: Sequence[Text]) -> dict[str, Family]:
    members: dict[str, list[int]] = defaultdict(list)
    for number in sorted(tally.replies):
        members[texts[number].family].append(number)
    found = {}
    for family, numbers in members.items():
        stats = Stats.of(_rounds(tally, numbers))
        found[family] = Family(
            prompts=len(numbers),
            acceptance_rate=stats.acceptance_rate,
            mean_acceptance_length=stats.mean_acceptance_length,
            speedup=_speedup(tally, alone, [n for n in numbers if n in alone.replies]),
        )
    return found


def of_kinds(replies: Iterable[Sequence[Round]]) -> dict[Kind, OfKind]:
    """Judged guesses by the kind of the token that the text has in their place.

    A guess that was refused counts under the kind of the target's own token: that is what was
    hard to guess.
    """
    judged, accepted = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    for rounds in replies:
        written = kinds([token.text for each in rounds for token in each.committed])
        at = 0
        for each in rounds:
            places = written[at : at + len(each.committed)]
            for guess, depth in zip(each.guesses, each.depths, strict=True):
                if guess.verdict != "discarded":
                    judged[places[depth - 1]] += 1
                    accepted[places[depth - 1]] += guess.verdict == "accepted"
            at += len(places)
    return {kind: OfKind(judged[kind], accepted[kind]) for kind in KINDS}


def _rival_line(rival: RivalTally, greedy: Sequence[Tally], alone: Tally | None) -> RivalLine:
    numbers = set(rival.replies)
    written = rival.replies.values()
    rate = _ratio(sum(each.timed_tokens for each in written), sum(each.seconds for each in written))
    ours = [_wall_rate(tally, numbers & tally.replies.keys()) for tally in greedy]
    best = max((each for each in ours if each is not None), default=None)
    shared = numbers & alone.replies.keys() if alone else set()
    return RivalLine(
        name=rival.name,
        what=rival.rival.what,
        prompts=len(numbers),
        tokens=sum(len(each.ids) for each in written),
        tokens_per_second=rate,
        ours=_ratio(best, rate),
        same_text=all(rival.replies[n].ids == alone.replies[n].ids for n in shared)
        if alone and shared
        else None,
    )


def _wall_rate(tally: Tally, numbers: Iterable[int]) -> float | None:
    replies = [tally.replies[number] for number in numbers]
    return _ratio(sum(len(each.ids) for each in replies), sum(each.seconds for each in replies))


def _medians(samples: Iterable[tuple[int, float]]) -> dict[int, float]:
    grouped: dict[int, list[float]] = defaultdict(list)
    for key, value in samples:
        grouped[key].append(value)
    return {key: statistics.median(values) for key, values in grouped.items()}


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return statistics.median(found) if found else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _per(total: float, count: int) -> float | None:
    return total / count if count else None
