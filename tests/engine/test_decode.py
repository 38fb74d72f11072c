"""The decoding session: exact at every limit, whatever is proposed, changed or taken back."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import codec
from engine.decode import IDLE_SECONDS, DecodeError
from engine.drafters.model import ModelDrafter
from engine.llama import Runner
from engine.trace import Rewind, Settings, fold
from tests.engine import kit
from tests.engine.kit import EOS, TINY, TINY_D, TableModel, Words, alone, audit, header, session
from tests.engine.test_verification import chain_law

PROMPT = [3, 1, 4, 1, 5]
ORACLE = alone(TINY, PROMPT, 40)
HALVES = next(i for i in range(3, 30) if len(set(ORACLE[i : i + 3])) == 3)
GREEDY = Settings(drafter="script", k=4)


def oracle_script(wrong_every: int = 0, start: int = 0) -> kit.Script:
    """Proposes what the target will say; every `wrong_every`-th token of the text is wrong."""

    def guess(text: list[int]) -> int:
        at = len(text) - len(PROMPT)
        right = ORACLE[at] if at < len(ORACLE) else 0
        return (right + 1) % EOS if wrong_every and (at + start) % wrong_every == 0 else right

    return kit.Script(guess)


def chaos_script(seed: int) -> kit.Script:
    """Proposes right and wrong tokens, and sometimes nothing, at random."""
    chance = random.Random(seed)

    def guess(text: list[int]) -> int | None:
        roll = chance.random()
        if roll < 0.15:
            return None
        at = len(text) - len(PROMPT)
        return ORACLE[at] if roll < 0.7 and at < len(ORACLE) else chance.randrange(kit.TINY_VOCAB)

    return kit.Script(guess)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_greedy_text_is_the_target_s_own_whatever_is_drafted(seed):
    chance = random.Random(seed)
    run = session(Runner(TINY), chaos_script(seed), header(PROMPT, GREEDY))
    while run.finished is None:
        quality = chance.choice((100.0, 100.0, 40.0))
        changed = replace(GREEDY, k=chance.randrange(17), quality=quality)
        run.rewind(run.made, changed)
        run.advance()
    assert kit.committed(run) == ORACLE[:24]


@pytest.mark.parametrize("seed", range(12))
def test_target_and_drafter_caches_hold_the_committed_text_after_every_round(seed):
    chance = random.Random(seed)
    target, draft = Runner(TINY), Runner(TINY_D if seed % 3 else TINY)
    run = session(target, ModelDrafter("model", draft), header(PROMPT, GREEDY))
    while run.finished is None:
        run.rewind(run.made, replace(GREEDY, k=chance.randrange(7)))
        made = run.advance()
        assert len(made.guesses) <= made.settings.k
        audit(target, run.ids)
        assert target.length == len(run.ids) - 1
        audit_drafter(run._drafter, draft)
    assert kit.committed(run) == ORACLE[:24]


def audit_drafter(drafter, runner):
    if drafter is not None:
        assert runner.length == len(drafter._held)
        audit(runner, drafter._held)


@pytest.mark.parametrize("k", range(1, 7))
def test_a_copy_of_the_target_is_always_accepted_whole(k):
    """B01: after full acceptance the drafter has two tokens to catch up on, not one."""
    copy = ModelDrafter("copy", Runner(TINY))
    run = session(Runner(TINY), copy, header(PROMPT, replace(GREEDY, k=k), max_new_tokens=60))
    rounds = list(run.rounds())
    assert all(made.accepted == len(made.guesses) for made in rounds)
    assert all(len(made.guesses) == k for made in rounds[:-1])
    assert kit.committed(run) == alone(TINY, PROMPT, 60)


@pytest.mark.parametrize("rejected_at", range(5))
def test_a_rejection_at_each_index_leaves_both_caches_right(rejected_at):
    """B02: and a round never comes back without guesses."""
    target, draft = Runner(TINY), Runner(TINY)
    model = ModelDrafter("copy", draft)

    class Spoiled:
        name, context = "spoiled", None

        def propose(self, ids, request):
            proposal = model.propose(ids, request)
            tokens = list(proposal.tokens)
            if rejected_at < len(tokens):
                tokens[rejected_at] = (tokens[rejected_at] + 1) % EOS
            laws = tuple(request.certain(token) for token in tokens)
            return replace(proposal, tokens=tuple(tokens), laws=laws)

        def observe(self, ids):
            model.observe(ids)

    run = session(target, Spoiled(), header(PROMPT, GREEDY))
    for made in itertools.islice(run.rounds(), 4):
        assert len(made.guesses) == 4
        assert made.accepted == min(rejected_at, 4)
        audit(target, run.ids)
        audit(draft, model._held)


def test_always_wrong_costs_one_token_a_round_and_no_draft_reaches_the_text():
    run = session(Runner(TINY), oracle_script(wrong_every=1), header(PROMPT, GREEDY))
    rounds = list(run.rounds())
    assert [len(made.committed) for made in rounds] == [1] * 24
    assert kit.committed(run) == ORACLE[:24]


@pytest.mark.parametrize("count", range(13))
@pytest.mark.parametrize("k", range(1, 9))
def test_exactly_n_tokens(count, k):
    """B28: never one too many, and no guess that could not have been used."""
    run = session(
        Runner(TINY), oracle_script(), header(PROMPT, replace(GREEDY, k=k), max_new_tokens=count)
    )
    rounds = list(run.rounds())
    assert kit.committed(run) == ORACLE[:count]
    assert run.finished.reason == "length"
    assert all(made.emitted is not None for made in rounds)
    assert sum(len(made.committed) for made in rounds) == count


@pytest.mark.parametrize("at", range(10))
@pytest.mark.parametrize("eos_ids", [lambda t: (t,), lambda t: (999, t), lambda t: (t, 998)])
def test_the_text_ends_at_end_of_text_wherever_in_a_block_it_falls(at, eos_ids):
    """B27: at each index of a block, as an accepted guess, a correction or a bonus."""
    end = ORACLE[at]
    expected = ORACLE[: ORACLE.index(end) + 1]
    for wrong_every, k in itertools.product((0, 2, 3), (0, 1, 2, 4)):
        target = Runner(TINY)
        run = session(
            target,
            oracle_script(wrong_every),
            header(PROMPT, replace(GREEDY, k=k)),
            Words(eos_ids(end)),
        )
        rounds = list(run.rounds())
        assert kit.committed(run) == expected
        assert run.finished.reason == "eos"
        assert [t.id for made in rounds for t in made.committed] == expected
        assert target.length == len(run.ids) - 1
        audit(target, run.ids)
        check_verdicts(rounds)


def check_verdicts(rounds):
    """Verdicts form accepted*, at most one rejected, discarded*; draws are there iff judged."""
    for made in rounds:
        shape = "".join(guess.verdict[0] for guess in made.guesses)
        judged = shape.rstrip("d")
        assert judged.strip("a") in ("", "r")
        assert judged.find("r") in (-1, len(judged) - 1)
        for guess in made.guesses:
            assert (guess.draw is None) == (guess.verdict == "discarded")
        if made.emitted is None:
            assert "r" not in shape
        else:
            assert made.emitted.kind == ("bonus" if made.accepted == len(shape) else "recovered")


def test_an_end_of_text_cut_discards_later_guesses_and_emits_nothing():
    end = ORACLE[1]
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY), Words((end,)))
    made = run.advance()
    assert [guess.verdict for guess in made.guesses] == ["accepted"] * 2 + ["discarded"] * 2
    assert made.emitted is None


def test_a_stop_string_across_tokens_ends_the_text_at_the_token_that_completes_it():
    texts = {token: f"<{i}" for i, token in enumerate(dict.fromkeys(ORACLE))}
    words = Words(texts=texts)
    stop = "".join(texts[token] for token in ORACLE[2:4])[1:]
    for k in range(6):
        run = session(
            Runner(TINY),
            oracle_script(),
            header(PROMPT, replace(GREEDY, k=k), stop=("never", stop)),
            words,
        )
        rounds = list(run.rounds())
        text = fold([run.header, *rounds]).text
        assert run.finished.reason == "stop"
        assert stop in text
        before = fold([run.header, *rounds]).committed[:-1]
        assert stop not in "".join(token.text for token in before)


def test_a_character_split_over_rounds_reads_whole():
    rocket = "\U0001f680".encode()
    parts = [
        part.decode("utf-8", "surrogateescape") for part in (rocket[:1], rocket[1:3], rocket[3:])
    ]
    texts = dict(zip(ORACLE[HALVES : HALVES + 3], parts, strict=True))
    assert len(texts) == 3
    for k in range(6):
        run = session(
            Runner(TINY),
            oracle_script(),
            header(PROMPT, replace(GREEDY, k=k), max_new_tokens=HALVES + 3),
            Words(texts=texts),
        )  # fmt: skip
        rounds = list(run.rounds())
        assert fold([run.header, *rounds]).text.count("\U0001f680") == 1


def test_the_context_is_filled_to_its_end_and_never_past_it():
    for k, limit in itertools.product((0, 1, 4, 16), (6, 7, 9, 20)):
        target = Runner(TINY, context=limit)
        run = session(
            target, oracle_script(), header(PROMPT, replace(GREEDY, k=k), max_new_tokens=99)
        )
        list(run.rounds())
        assert run.finished.reason == "context"
        assert kit.committed(run) == ORACLE[: limit - len(PROMPT)]


def test_a_drafter_with_a_shorter_context_falls_silent_and_the_run_goes_on():
    run = session(
        Runner(TINY), ModelDrafter("short", Runner(TINY_D, context=12)), header(PROMPT, GREEDY)
    )
    rounds = list(run.rounds())
    assert kit.committed(run) == ORACLE[:24]
    assert all(made.guesses == () for made in rounds if made.position >= 12)
    assert any(made.guesses for made in rounds)


@pytest.mark.parametrize("prompt", [[], list(range(40)), list(range(41))])
def test_a_prompt_that_leaves_no_room_is_refused_in_one_sentence(prompt):
    with pytest.raises(DecodeError, match="prompt is"):
        session(Runner(TINY, context=40), oracle_script(), header(prompt))


def test_a_prompt_of_one_token_is_enough():
    run = session(Runner(TINY), kit.Script(lambda text: 0), header([9], GREEDY, max_new_tokens=5))
    list(run.rounds())
    assert kit.committed(run) == alone(TINY, [9], 5)


SAMPLED = Settings(drafter="model", k=3, temperature=0.9, top_k=40, top_p=0.95, quality=70.0)


def sampled_run(seed=5, **changes):
    model = ModelDrafter("model", Runner(TINY_D))
    return session(Runner(TINY), model, header(PROMPT, SAMPLED, seed=seed, **changes))


def essence(rounds):
    """What was drafted, decided and written, with probabilities but for their last bits."""
    return [
        [
            (g.token.id, g.verdict, g.draw, round(g.draft_prob, 9), round(g.target_prob, 9))
            for g in made.guesses
        ]
        + [made.emitted and (made.emitted.token.id, made.emitted.draw, made.emitted.kind)]
        for made in rounds
    ]


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    first, again, other = (list(sampled_run(seed).rounds()) for seed in (5, 5, 6))
    assert essence(first) == essence(again)
    assert essence(first) != essence(other)


@pytest.mark.parametrize("to_round", range(7))
def test_a_rewind_that_changes_nothing_repeats_the_same_run(to_round):
    straight = list(sampled_run().rounds())
    run = sampled_run()
    made = [run.advance() for _ in range(6)]
    run.rewind(to_round, SAMPLED)
    again = list(run.rounds())
    assert essence(made[:to_round] + again) == essence(straight)


def test_a_rewind_changes_settings_from_that_round_on_and_reopens_an_ended_run():
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY))
    rounds = list(run.rounds())
    assert run.finished is not None
    alone_now = replace(GREEDY, speculative=False)
    run.rewind(2, alone_now)
    assert run.finished is None
    rest = list(run.rounds())
    assert [made.index for made in rest] == list(range(2, 2 + len(rest)))
    assert all(made.settings == alone_now and made.guesses == () for made in rest)
    assert sum(len(r.committed) for r in (*rounds[:2], *rest)) == 24
    assert kit.committed(run) == ORACLE[:24]


def test_a_rewind_to_the_end_of_an_ended_run_leaves_it_ended():
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY))
    count = len(list(run.rounds()))
    run.rewind(count, replace(GREEDY, k=1))
    assert run.finished.reason == "length"
    with pytest.raises(DecodeError):
        run.advance()


@pytest.mark.parametrize("to_round", [-1, 1])
def test_a_rewind_to_a_round_that_is_not_there_is_an_error(to_round):
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY))
    with pytest.raises(ValueError, match="go back"):
        run.rewind(to_round, GREEDY)


def test_cancelling_ends_the_run():
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY))
    run.advance()
    run.cancel()
    assert run.finished.reason == "cancelled"
    assert list(run.rounds()) == []


class Choices:
    """Stands in for every draw of a run: follows a script of choices, then takes the first.

    `weight` is the exact chance of the run that the choices make; `untaken` are the scripts
    that branch off it. Walking them all enumerates every run there is.
    """

    def __init__(self, script):
        self._script = script
        self._taken = []
        self._accepts = []
        self.weight = 1.0
        self.untaken = []

    def uniform(self, stream, round_index, slot=0):
        if stream != "accept":
            return 0.5  # `pick` below chooses
        refuse = self._choose([0, 1])
        self._accepts.append(refuse)
        return 1 - 2**-53 if refuse else 0.0

    def pick(self, probs, draw):
        token = self._choose(probs.nonzero().squeeze(-1).tolist())
        self.weight *= float(probs[token] / probs.sum())
        return token

    def weigh(self, made):
        """Put in the chance of the accept draws of a round, now that it is known."""
        for guess, refuse in zip(made.guesses, self._accepts, strict=True):
            chance = 1.0 if guess.draw is None else guess.accept_prob
            self.weight *= 1 - chance if refuse else chance
        self._accepts.clear()

    def _choose(self, options):
        at = len(self._taken)
        if at < len(self._script):
            self._taken.append(self._script[at])
        else:
            self.untaken += [(*self._taken, other) for other in options[1:]]
            self._taken.append(options[0])
        return self._taken[-1]


def law_of_whole_runs(monkeypatch, target_law, draft_law, s, vocab, length):
    """The exact law of `length` tokens written by the session, every branch walked."""
    found = defaultdict(float)
    pending = [()]
    while pending:
        choices = Choices(pending.pop())
        monkeypatch.setattr("engine.verification.pick", choices.pick)
        monkeypatch.setattr("engine.drafters.proposal.pick", choices.pick)
        run = session(
            TableModel(target_law),
            kit.Script(lambda text: draft_law(tuple(text))),
            header([0], s, max_new_tokens=length),
            vocab=vocab,
        )
        run._draws = choices
        for made in run.rounds():
            choices.weigh(made)
        found[tuple(kit.committed(run))] += choices.weight
        pending.extend(choices.untaken)
    return found


@pytest.mark.parametrize(
    ("k", "quality", "temperature", "top_k", "top_p"),
    [
        (0, 100.0, 1.0, 0, 1.0),
        (1, 100.0, 1.0, 0, 1.0),
        (2, 100.0, 0.6, 2, 1.0),
        (2, 40.0, 1.3, 0, 0.8),
        (1, 0.0, 1.0, 0, 1.0),
        (2, 70.0, 0.0, 0, 1.0),
    ],
)
def test_the_law_of_whole_runs_is_the_target_s(monkeypatch, k, quality, temperature, top_k, top_p):
    """Drafting, dial, filters, verdicts and commits together; nothing is sampled."""
    vocab, length = 3, 3
    target_law, draft_law = kit.random_law(1, vocab), kit.random_law(2, vocab)
    s = Settings("script", k, quality, temperature, top_k, top_p)
    found = law_of_whole_runs(monkeypatch, target_law, draft_law, s, vocab, length)
    alone_law = chain_law(lambda prefix: kit.process_law(target_law((0, *prefix)), s), length)
    assert max(abs(found[text] - chance) for text, chance in alone_law.items()) < 1e-12
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)


def test_confidence_decides_nothing_about_acceptance():
    """B42: a guess its drafter is sure of passes with the target's own probability."""
    law = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    run = session(
        TableModel(lambda prefix: law), kit.Script(lambda text: 0),
        header([1], Settings("script", 1, temperature=1.0), max_new_tokens=2), vocab=3,
    )  # fmt: skip
    guess = run.advance().guesses[0]
    assert guess.draft_prob == 1.0
    assert guess.accept_prob == pytest.approx(0.2)


# --- evidence, time, faults ---------------------------------------------------------------


def test_evidence_holds_the_ten_likeliest_and_the_mass_of_the_rest():
    run = sampled_run()
    for made in run.rounds():
        for guess in made.guesses:
            for law, prob in (
                (guess.draft_law, guess.draft_prob),
                (guess.target_law, guess.target_prob),
            ):
                probs = [candidate.prob for candidate in law.top]
                assert len(probs) <= 10
                assert probs == sorted(probs, reverse=True)
                assert sum(probs) + law.rest == pytest.approx(1)
                named = {c.token.id: c.prob for c in law.top}
                assert named.get(guess.token.id, prob) == prob
            assert guess.accept_prob == min(1, guess.target_prob / guess.draft_prob)
            if guess.draw is not None:
                accepted = guess.draw * guess.draft_prob < guess.target_prob
                assert guess.verdict == ("accepted" if accepted else "rejected")
        if made.emitted is not None:
            assert made.emitted.prob > 0
            assert sum(c.prob for c in made.emitted.law.top) + made.emitted.law.rest == (
                pytest.approx(1)
            )
    check_verdicts([made])


def test_target_probabilities_are_those_of_the_text_before_each_guess():
    """B39: row i is conditioned on the guesses before it, as a plain pass would be."""
    run = sampled_run()
    for made in itertools.islice(run.rounds(), 4):
        text = list(run.ids[: made.position])
        for guess in made.guesses:
            logits = Runner(TINY).forward(text)[-1]
            law = kit.process(logits, SAMPLED.temperature, SAMPLED.top_k, SAMPLED.top_p)
            assert guess.target_prob == pytest.approx(float(law[guess.token.id]), abs=1e-9)
            text.append(guess.token.id)


class Clock:
    """A clock that only moves when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Timed(Runner):
    """A runner whose passes take 10 ms and 1 ms a position, and are counted."""

    def __init__(self, clock):
        super().__init__(TINY)
        self.clock, self.passes = clock, 0

    def forward(self, ids, last_only=False):
        self.clock.now += 0.010 + 0.001 * len(ids)
        self.passes += 1
        return super().forward(ids, last_only)


def test_measured_seconds_are_the_target_s_pass_and_nothing_else():
    clock = Clock()
    run = session(Timed(clock), oracle_script(), header(PROMPT, GREEDY), now=clock)
    assert run.header.prefill_seconds == pytest.approx(0.014)
    assert run.header.baseline is None
    measured = run.measure_baseline()
    assert measured.pass_seconds == pytest.approx(0.011)
    assert run.header.baseline == measured
    made = run.advance()
    assert made.verify_seconds == pytest.approx(0.015)
    assert run.ids[: len(PROMPT)] == tuple(PROMPT)


def test_measuring_the_baseline_changes_no_text():
    run = sampled_run()
    run.advance()
    run.measure_baseline()
    straight = sampled_run()
    straight.advance()
    assert essence(run.rounds()) == essence(straight.rounds())


def test_after_an_idle_pause_a_pass_is_thrown_away():
    clock = Clock()
    target = Timed(clock)
    run = session(target, oracle_script(), header(PROMPT, GREEDY), now=clock)
    run.advance()
    passes = target.passes
    clock.now += IDLE_SECONDS * 2
    made = run.advance()
    assert target.passes == passes + 2
    assert made.verify_seconds == pytest.approx(0.015)
    assert run.advance().verify_seconds == pytest.approx(0.015)
    assert target.passes == passes + 3
    assert kit.committed(run) == ORACLE[:15]


def test_the_first_round_of_a_drafter_is_marked_cold():
    run = session(Runner(TINY), oracle_script(), header(PROMPT, GREEDY))
    assert [run.advance().cold for _ in range(2)] == [True, False]
    run.rewind(2, replace(GREEDY, speculative=False))
    assert run.advance().cold is False
    run.rewind(3, GREEDY)
    assert run.advance().cold is True


def test_a_failing_drafter_is_named_in_one_sentence():
    """B48."""

    def fail(text):
        raise RuntimeError("its weights are gone")

    run = session(Runner(TINY), kit.Script(fail), header(PROMPT, GREEDY))
    with pytest.raises(DecodeError, match=r"drafter “script” failed: its weights are gone"):
        run.advance()
    run.rewind(0, replace(GREEDY, speculative=False))
    list(run.rounds())
    assert kit.committed(run) == ORACLE[:24]


def test_a_drafter_observes_the_committed_text_before_each_proposal():
    """B35: the very ids of the target, prompt included."""
    script = oracle_script(wrong_every=3)
    run = session(Runner(TINY), script, header(PROMPT, GREEDY))
    rounds = list(run.rounds())
    assert script.observed == [list(run.ids[: made.position]) for made in rounds]


def test_no_drafter_is_asked_for_when_the_target_decodes_alone():
    def none(name):
        raise AssertionError("nobody should draft")

    for s in (
        replace(GREEDY, k=0),
        replace(GREEDY, speculative=False),
        replace(GREEDY, drafter="none"),
    ):
        run = session(Runner(TINY), None, header(PROMPT, s))
        run._drafters = none
        rounds = list(run.rounds())
        assert kit.committed(run) == ORACLE[:24]
        assert {made.emitted.kind for made in rounds} == {"bonus"}


def test_wider_draft_laws_than_the_target_needs_are_refused_loudly():
    """B32: a drafter of another vocabulary must not be compared id by id."""
    wide = kit.Script(lambda text: torch.full((72,), 1 / 72, dtype=torch.float64))
    run = session(Runner(TINY), wide, header(PROMPT, replace(GREEDY, temperature=1.0)))
    with pytest.raises(DecodeError, match="vocabulary"):
        run.advance()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_events_fold_to_the_session_s_own_text_through_any_rewinds(seed):
    """What a picture or a run file sees is what the engine holds, after the trip as lines."""
    chance = random.Random(seed)
    run = sampled_run(seed)
    events = [run.header]
    for _ in range(12):
        if chance.random() < 0.3:
            to_round = chance.randrange(run.made + 1)
            s = replace(SAMPLED, k=chance.randrange(6), quality=chance.choice((100.0, 30.0)))
            run.rewind(to_round, s)
            events.append(Rewind(to_round, s))
        if run.finished is None:
            events.append(run.advance())
    seen = fold(codec.decode(codec.encode(event)) for event in events)
    assert [token.id for token in seen.committed] == kit.committed(run)
    assert seen.rounds == fold(events).rounds
    check_verdicts(seen.rounds)


def test_runs_of_two_sessions_do_not_touch_each_other():
    """B20: the draws of a run depend on its own seed and rounds only."""
    first, second = sampled_run(5), sampled_run(6)
    mixed = []
    while first.finished is None:
        mixed.append(first.advance())
        if second.finished is None:
            second.advance()
    assert essence(mixed) == essence(sampled_run(5).rounds())
