"""Auto K: it finds the best K of a world whose acceptance and costs are known, and keeps it.

A world is made of chances and costs; its rounds are real `Round`s with random verdicts and
noisy times. The best K is found by enumeration from the world's own numbers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import adapt
from engine.adapt import MOST, START, Choice, Learned, Mean
from engine.trace import Baseline, Candidate, Emitted, Guess, Law, Round, Settings, Token, Verdict

AUTO = Settings(drafter="small", auto_k=True)
WORD = Token(7, "x")
LAW = Law((Candidate(WORD, 1.0),), 0.0)
EMITTED = Emitted(WORD, "bonus", 1.0, 0.5, LAW, LAW)
GUESSES: dict[Verdict, Guess] = {
    verdict: Guess(
        WORD, 1.0, 1.0, 1.0, None if verdict == "discarded" else 0.5, verdict, LAW, LAW, "model"
    )
    for verdict in ("accepted", "rejected", "discarded")
}


@dataclass(frozen=True)
class World:
    """Chances and costs of one drafter on one machine; seconds in passes of the target alone."""

    alpha: float
    step: float
    slope: float  # what a further position adds to a pass
    offer: float = 1.0  # how often a drafter that may be silent has something to say
    noise: float = 0.1
    scale: float = 0.02  # seconds of a pass

    def rate(self, k: int) -> float:
        """Tokens a pass of the target alone, in the long run."""
        tokens = 1 + self.offer * sum(self.alpha**i for i in range(1, k + 1))
        return tokens / (1 + k * self.step + self.offer * k * self.slope)

    @property
    def best(self) -> int:
        return max(range(MOST + 1), key=self.rate)

    def round(self, index: int, chosen: Settings, chance: random.Random) -> Round:
        """What asking for so many guesses gives this time."""
        asked = chosen.effective_k
        offered = asked if chance.random() < self.offer else 0
        accepted = 0
        while accepted < offered and chance.random() < self.alpha:
            accepted += 1
        verdicts: list[Verdict] = ["accepted"] * accepted
        if accepted < offered:
            verdicts += ["rejected", *["discarded"] * (offered - accepted - 1)]  # type: ignore[list-item]

        def seconds(passes: float) -> float:
            return passes * self.scale * chance.lognormvariate(0.0, self.noise)

        return Round(
            index=index,
            position=index,
            settings=chosen,
            guesses=tuple(GUESSES[verdict] for verdict in verdicts),
            emitted=EMITTED,
            draft_step_seconds=tuple(seconds(self.step) for _ in range(asked)),
            verify_seconds=seconds(1 + offered * self.slope),
            cold=index == 0,
        )


def live(worlds: list[World], seed: int, wanted: Settings = AUTO) -> list[Round]:
    """One run, round by round, each in the world whose turn it is."""
    chance = random.Random(seed)
    known = Learned.of((), Baseline(worlds[0].scale, 9))
    rounds: list[Round] = []
    for index, world in enumerate(worlds):
        choice = known.choose(wanted)
        made = world.round(index, replace(wanted, k=choice.k), chance)
        rounds.append(replace(made, k_reason=choice.reason))
        known = known.after(rounds[-1])
    return rounds


def worth(world: World, rounds: list[Round]) -> float:
    """Share of the best possible speed that the choices in these rounds have in the long run."""
    tokens = seconds = 0.0
    for each in rounds:
        k = each.settings.k
        cost = 1 + k * world.step + world.offer * k * world.slope
        tokens += world.rate(k) * cost
        seconds += cost
    return tokens / seconds / world.rate(world.best)


WORLDS = st.builds(
    World,
    alpha=st.floats(0.02, 0.98),
    step=st.sampled_from([0.001, 0.03, 0.13, 0.5, 1.0]),
    slope=st.sampled_from([0.0, 0.05, 0.15, 0.5]),
    offer=st.sampled_from([0.2, 1.0, 1.0]),
    noise=st.sampled_from([0.0, 0.05, 0.2]),
)


@settings(max_examples=40, deadline=None)
@given(world=WORLDS, seed=st.integers(0, 2**16))
def test_it_comes_near_the_best_k_whatever_the_world(world: World, seed: int) -> None:
    rounds = live([world] * 200, seed)
    assert worth(world, rounds[40:]) > 0.75, (world.best, [each.settings.k for each in rounds])


GRID = [
    World(alpha, step, 0.06, noise=0.15)
    for alpha in (0.05, 0.2, 0.4, 0.6, 0.8, 0.97)
    for step in (0.001, 0.13, 0.5, 1.2)
]


def mean_worth() -> float:
    """Over the grid: the long run, with what exploring and probing costs."""
    found = [worth(world, live([world] * 160, seed)[40:]) for seed, world in enumerate(GRID)]
    return sum(found) / len(found)


def test_on_average_it_is_within_a_few_percent_of_the_best_k() -> None:
    assert mean_worth() > 0.96


def test_blind_to_costs_it_would_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Learned, "costs", lambda self, most: [1.0] * (most + 1))
    assert mean_worth() < 0.9


def test_blind_to_acceptance_it_would_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Learned, "survival", lambda self, most: [0.8**k for k in range(1, most + 1)]
    )
    assert mean_worth() < 0.9


def test_a_drafter_dearer_than_the_target_is_asked_for_nothing_but_seldom_probes() -> None:
    asked = [each.settings.k for each in live([World(0.3, 1.2, 0.06)] * 300, seed=3)]
    assert asked[:2] == [START, START], "what it costs is not known before it was tried"
    assert set(asked[40:]) == {0, 1}
    assert sum(asked[40:]) < 0.06 * 260


def test_it_comes_back_from_nothing_when_guesses_begin_to_pass() -> None:
    dull, bright = World(0.02, 0.2, 0.06), World(0.95, 0.2, 0.06)
    asked = [each.settings.k for each in live([dull] * 120 + [bright] * 140, seed=5)]
    assert asked[118] == 0
    assert min(asked[-20:]) >= 3


@pytest.mark.parametrize("seed", range(3))
def test_it_comes_back_from_nothing_when_guesses_become_cheap(seed: int) -> None:
    dear, cheap = World(0.9, 1.0, 0.3), World(0.9, 0.1, 0.06)
    asked = [each.settings.k for each in live([dear] * 60 + [cheap] * 140, seed)]
    assert max(asked[20:60]) <= 1
    assert min(asked[-20:]) >= 2


@pytest.mark.parametrize("seed", range(3))
def test_a_machine_that_was_busy_for_a_while_changes_little(seed: int) -> None:
    quiet = World(0.7, 0.1, 0.06)
    busy = replace(quiet, scale=2.5 * quiet.scale)
    rounds = live([quiet] * 60 + [busy] * 40 + [quiet] * 80, seed)
    assert worth(quiet, rounds[110:]) > 0.85


def test_it_stops_when_guesses_cease_to_pass() -> None:
    bright, dull = World(0.95, 0.2, 0.06), World(0.02, 0.2, 0.06)
    asked = [each.settings.k for each in live([bright] * 80 + [dull] * 60, seed=5)]
    assert asked[70] >= 3
    assert asked[-1] == 0


def changes(rounds: list[Round]) -> int:
    """How often another K took over, exploring apart."""
    known, standing = Learned.of((), Baseline(0.02, 9)), []
    for each in rounds:
        known = known.after(each)
        standing.append(known.standing)
    return sum(a != b for a, b in pairwise(standing[40:]))


def test_noise_does_not_make_it_flutter(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [live([World(0.6, 0.05, 0.06, noise=0.3)] * 200, seed) for seed in range(5)]
    calm = sum(map(changes, runs))
    monkeypatch.setattr(adapt, "MARGIN", 1 + 1e-9)
    nervous = sum(map(changes, runs))
    assert calm < 5 * 10, "less than once in sixteen rounds"
    assert nervous > 2 * calm


def test_taking_rounds_back_is_folding_fewer_of_them() -> None:
    """The same rounds give the same choice, however they came about."""
    rounds = live([World(0.7, 0.1, 0.06)] * 60, seed=1)
    baseline = Baseline(0.02, 9)
    for kept in (0, 1, 2, 7, 33, 59):
        choice = Learned.of(rounds[:kept], baseline).choose(AUTO)
        assert choice == Choice(rounds[kept].settings.k, rounds[kept].k_reason)


def test_what_was_learnt_of_one_drafter_is_not_believed_of_another() -> None:
    known = Learned.of(live([World(0.95, 0.01, 0.06)] * 40, seed=1))
    other = known.under(replace(AUTO, drafter="copy-8"))
    assert known.choose(AUTO).k > START
    assert other.choose(replace(AUTO, drafter="copy-8")).k == START
    assert other.passes == known.passes, "the target is the same"


def test_warmer_text_has_an_acceptance_of_its_own_at_the_same_cost() -> None:
    known = Learned.of(live([World(0.95, 0.01, 0.06)] * 40, seed=1))
    warm = known.under(replace(AUTO, temperature=1.0))
    assert warm.accepted == Learned().accepted
    assert (warm.drafting, warm.passes) == (known.drafting, known.passes)


def test_rounds_with_k_set_by_hand_teach_too() -> None:
    by_hand = replace(AUTO, auto_k=False, k=4)
    chance, world = random.Random(2), World(0.9, 0.02, 0.06)
    rounds = [world.round(index, by_hand, chance) for index in range(20)]
    assert Learned.of(rounds).choose(AUTO).k >= 6


def test_rounds_of_the_target_alone_only_teach_what_a_pass_costs() -> None:
    alone = replace(AUTO, speculative=False)
    chance, world = random.Random(2), World(0.9, 0.02, 0.06)
    known = Learned.of(world.round(index, alone, chance) for index in range(1, 30))
    assert known.passes[0].count > 1
    assert (known.silent, known.ready) == (0, False)


def test_an_end_of_text_judges_no_guess_after_it() -> None:
    made = World(1.0, 0.1, 0.0).round(1, replace(AUTO, k=3), random.Random(0))
    cut = replace(made, emitted=None, guesses=(made.guesses[0], *[GUESSES["discarded"]] * 2))
    known = Learned.of([cut])
    assert [share.tries for share in known.accepted[:3]] == [1.0, 0.0, 0.0]


def test_a_hiccup_of_the_machine_hardly_counts() -> None:
    mean = Mean()
    for _ in range(20):
        mean = mean.after(0.020)
    assert mean.after(2.0).value < 0.0206


def test_a_wider_pass_is_never_thought_cheaper() -> None:
    measured = dict.fromkeys(range(MOST + 1), Mean())
    measured |= {0: Mean(1.0, 9), 1: Mean(1.4, 1), 2: Mean(1.1, 3), 4: Mean(1.3, 5)}
    passes = Learned(passes=tuple(measured.values())).pass_seconds(6)
    assert passes == pytest.approx([1.0, 1.175, 1.175, 1.2375, 1.3, 1.3625])


@pytest.mark.parametrize(
    ("k", "says"),
    [
        (0, "K 0: a guess would survive "),
        (1, "K 1: a 2nd guess would survive "),
        (3, "K 3: a 4th guess would survive "),
        (7, "K 7: an 8th guess would survive "),
        (MOST, "K 16: a 16th guess survives "),
    ],
)
def test_the_choice_is_explained(k: int, says: str) -> None:
    known = Learned.of(live([World(0.7, 0.1, 0.06)] * 30, seed=1))
    words = replace(known, standing=k).reason()
    assert words.startswith(says)
    assert words.endswith(" ms")
    assert " % of the time and costs " in words


# --- trees ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comb(World):
    """Two guesses at each fork, and children of the elder. `younger` is the other's chance."""

    younger: float = 0.5

    def chances(self) -> list[float]:
        """Of each node: that it is accepted."""
        found = []
        for level in range(MOST // 2):
            here = self.alpha**level
            found += [here * self.alpha, here * (1 - self.alpha) * self.younger]
        return found

    def rate(self, k: int) -> float:
        tokens = 1 + sum(self.chances()[:k])
        return tokens / (1 + k * (self.step + self.slope))

    def round(self, index: int, chosen: Settings, chance: random.Random) -> Round:
        plain = super().round(index, chosen, chance)
        asked = chosen.effective_k
        verdicts: list[Verdict] = ["discarded"] * asked
        for elder in range(0, asked, 2):
            verdicts[elder] = "accepted" if chance.random() < self.alpha else "rejected"
            if verdicts[elder] == "rejected":
                if elder + 1 < asked:
                    passes = chance.random() < self.younger
                    verdicts[elder + 1] = "accepted" if passes else "rejected"
                break
        guesses = tuple(
            replace(GUESSES[verdict], parent=slot - 2 - slot % 2 if slot > 1 else -1)
            for slot, verdict in enumerate(verdicts)
        )
        return replace(plain, guesses=guesses)


COMBS = [(0.6, 0.5, 0.05), (0.3, 0.2, 0.05), (0.85, 0.7, 0.02), (0.2, 0.8, 0.1), (0.05, 0.05, 0.3)]


def comb_worths(alpha: float, younger: float, slope: float) -> list[float]:
    world = Comb(alpha=alpha, step=0.001, slope=slope, younger=younger)
    return [worth(world, live([world] * 300, seed)[150:]) for seed in range(6)]


@pytest.mark.parametrize("comb", COMBS)
def test_a_tree_gets_as_many_nodes_as_pay(comb: tuple[float, float, float]) -> None:
    """Though every other node seldom passes, which says nothing of those after it."""
    assert min(comb_worths(*comb)) > 0.85


def test_taking_a_tree_for_a_chain_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Round, "is_tree", False)
    assert min(min(comb_worths(*comb)) for comb in COMBS) < 0.7


def test_a_node_counts_by_itself_in_a_tree():
    world = Comb(alpha=0.6, step=0.001, slope=0.05)
    known = Learned.of(live([world] * 400, 1))
    assert known.tree
    right = [sum(world.chances()[: k + 1]) for k in range(4)]
    found = known.survival(4)
    assert [sum(found[: k + 1]) for k in range(4)] == pytest.approx(right, abs=0.25)
