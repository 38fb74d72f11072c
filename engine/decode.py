"""A run of speculative decoding, round by round.

`Session` owns one text and the target's cache. Each `advance` asks the drafter for a proposal,
checks it in one target pass, keeps what `verify` says, and returns the round with all its
evidence. Before every round the target's cache holds the whole text but its last token: that
token is fed together with the guesses, so a round is one pass whatever was accepted before.
Guesses may be a tree: each then sees its own branch only, and the branch that is accepted is
kept as the text.

What is measured is drafting and verification. Reading a drawn token on the host ends each
measured span and waits for the device. Evidence is timed apart. After an idle pause one pass is
made and thrown away, so that no rate contains a processor waking up. On a CUDA device a round lies
on a `desk`: the host reads once, and what it reads ends the round's one span (`device_round`); only
a tree, which grows by what was drawn, is read as it grows.

Knows no model by name, no text encoding beyond `Vocabulary`, and no pictures.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from torch import OutOfMemoryError, Tensor, inference_mode

from engine import evidence
from engine.adapt import Learned
from engine.desk import Desk
from engine.device_round import Drawn
from engine.drafters.proposal import Drafter, DraftRequest, Proposal
from engine.drafters.suffix_index import Store
from engine.evidence import Check, Choice, Vocabulary
from engine.sampling import COLDEST, Draws, penalise, process
from engine.trace import (
    Baseline,
    FinishReason,
    Round,
    RunFinished,
    RunHeader,
    Settings,
    join_text,
)
from engine.verification import Verdict, check_tree, verify

IDLE_SECONDS = 0.25
"""A pause this long may let clocks sink and caches cool."""

WARM_UP_PASSES, BASELINE_PASSES = 2, 9

READ_AT_ONCE = 256
"""Tokens of a prompt read before saying how far it has come."""


class DecodeError(RuntimeError):
    """A run that cannot begin or go on; the message is one clear sentence."""


def check_prompt(tokens: int, context: int) -> None:
    """Raise DecodeError unless a prompt of so many tokens leaves room in the context."""
    if tokens == 0:
        raise DecodeError("The prompt is empty: write something to continue.")
    if tokens >= context:
        raise DecodeError(
            f"The prompt is {tokens} tokens long; with room for a reply this model reads at most "
            f"{context - 1}."
        )


class Target(Protocol):
    """The model whose distribution is kept (see `engine.llama.Runner`).

    `forward` feeds ids after the `length` rows held, each following the row before it or the one
    that `parents` names, and returns their logits (n, V), or (1, V) of the last; `keep` makes one
    branch of such rows the text and `rollback` forgets rows; `context` is the most it can hold.
    `hidden` (context, hidden) has the final hidden state of every row held. `chains_only`: a row
    has the bits it has alone if it was fed in a chain, but not if it was fed in a tree.
    """

    @property
    def length(self) -> int: ...
    @property
    def context(self) -> int: ...
    @property
    def hidden(self) -> Tensor: ...
    @property
    def chains_only(self) -> bool: ...
    def forward(
        self,
        ids: Sequence[int] | Tensor,
        last_only: bool = False,
        parents: Sequence[int] | None = None,
    ) -> Tensor: ...
    def keep(self, rows: Sequence[int]) -> None: ...
    def rollback(self, length: int) -> None: ...


Rule = Callable[
    [Tensor, Tensor, Sequence[int], Sequence[int] | None, Sequence[float], float], Verdict
]
"""An acceptance rule (see `engine.verification.verify`)."""


class Session:
    """One run, as its header configures it: prompt, settings, seed and limits.

    `drafters` gives a drafter by name and is asked when one comes into use; `unigram` (V,) is
    the law of the quality dial. Reading the prompt happens here; of a long one `reading` hears
    the tokens read and those in all. Raises DecodeError when the prompt is empty or leaves no
    room in the context.

    With a `desk` rounds stay on the device until they are decided. `rule` judges every round; only
    a proof's control puts another in its place. `checked` is what the last round rested on, until
    another pass is made.
    """

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        drafters: Callable[[str], Drafter],
        unigram: Tensor,
        header: RunHeader,
        now: Callable[[], float] = time.perf_counter,
        reading: Callable[[int, int], None] = lambda done, total: None,
        desk: Desk | None = None,
    ) -> None:
        self._target = target
        self._vocabulary = vocabulary
        self._drafters = drafters
        self._unigram = unigram
        self._vocab_size = len(unigram)
        self._desk = desk
        self._now = now
        self._draws = Draws(header.seed)
        self._context = min(header.context_limit, target.context)
        self._settings = header.settings
        self._prompt_length = len(header.prompt_tokens)
        self._ids = [token.id for token in header.prompt_tokens]
        self._starts: list[int] = []  # length of the text before each round
        self._learned: list[Learned] = []  # after each round
        self._choices: list[Choice | None] = []  # of each new token; None: it was sampled
        self._drafter: Drafter | None = None
        self._busy_until = now()
        self.rule: Rule = verify if desk is None else desk.judge
        self.checked: Check | None = None
        self.memory: Store | None = None  # earlier replies, the same ones for the whole run
        self.finished: RunFinished | None = None
        self.header = replace(header, prefill_seconds=self._read_prompt(reading))
        self._finish_at_limits()

    def rounds(self) -> Iterator[Round]:
        """Advance until the run is finished."""
        while self.finished is None:
            yield self.advance()

    def advance(self) -> Round:
        """Make the next round. Raises DecodeError after the end, or when the drafter fails.

        A lack of memory is raised as it is, and numbers that are not finite as ValueError.
        """
        if self.finished is not None:
            raise DecodeError("this run has ended")
        self._wake()
        index, position = len(self._starts), len(self._ids)
        settings, k_reason = self._next_settings()
        drafter_is_new, proposal = self._propose(index, settings)
        check = self._check(proposal, index)
        self._busy_until = self._now()
        self.checked = check
        kept, ended = self._commit(check)
        made = Round(
            index=index,
            position=position,
            settings=settings,
            guesses=evidence.guesses(check, kept, ended, self._vocabulary),
            emitted=None if ended else evidence.emitted(check, self._vocabulary),
            draft_step_seconds=tuple(proposal.step_seconds),
            verify_seconds=check.seconds,
            evidence_seconds=self._now() - self._busy_until,
            cold=drafter_is_new,
            k_reason=k_reason,
        )
        self._learned.append(self._known.after(made))
        self._choices += evidence.choices(check, len(made.committed), settings, self._vocabulary)
        self._busy_until = self._now()
        return made

    def rewind(self, to_round: int, settings: Settings) -> None:
        """Take back the rounds from `to_round` on and use `settings` from there.

        A finished run whose last round stays is finished still. Raises ValueError when there
        are not so many rounds.
        """
        if not 0 <= to_round <= len(self._starts):
            raise ValueError(f"cannot go back to round {to_round}: there are {len(self._starts)}")
        self._settings = settings
        if to_round == len(self._starts):
            return
        del self._ids[self._starts[to_round] :]
        del self._starts[to_round:]
        del self._learned[to_round:]
        del self._choices[len(self._ids) - self._prompt_length :]
        self._settle()
        self.finished = None
        self._finish_at_limits()

    def restart(self, seed: int) -> None:
        """Take back every round and begin again from the prompt with another seed."""
        self.rewind(0, self.header.settings)
        self._draws = Draws(seed)
        self.header = replace(self.header, seed=seed)

    def cancel(self) -> None:
        """End the run where it is."""
        self._finish("cancelled")

    def measure_baseline(self) -> Baseline:
        """Measure the target alone, one token a pass, by the very code that verifies.

        The median of single-token passes at the present text, after some to warm up; the text
        does not change. The header carries it from now on.
        """
        seconds = [self._alone() for _ in range(WARM_UP_PASSES + BASELINE_PASSES)]
        measured = Baseline(statistics.median(seconds[WARM_UP_PASSES:]), BASELINE_PASSES)
        self.header = replace(self.header, baseline=measured)
        self._busy_until = self._now()
        return measured

    @property
    def ids(self) -> tuple[int, ...]:
        """Prompt and everything committed so far."""
        return tuple(self._ids)

    @property
    def choices(self) -> tuple[Choice | None, ...]:
        """How each new token was chosen by the target; None for one that was sampled."""
        return tuple(self._choices)

    def _read_prompt(self, reading: Callable[[int, int], None]) -> float:
        """Feed the prompt but its last token. Returns the seconds it took."""
        check_prompt(len(self._ids), self._context)
        started = self._now()
        self._target.rollback(0)
        ids = self._ids[:-1]
        for done in range(0, len(ids), READ_AT_ONCE):
            if len(ids) > READ_AT_ONCE:
                reading(done, len(ids))
            self._target.forward(ids[done : done + READ_AT_ONCE], last_only=True)[0, 0].item()
        return self._now() - started

    def _wake(self) -> None:
        if self._now() - self._busy_until > IDLE_SECONDS:
            self._alone()

    def _alone(self) -> float:
        """Make one pass of the target alone and forget it; the seconds it took."""
        self._begin_round()
        check = self._check(Proposal(), 0)
        self._settle()
        return check.seconds

    def _begin_round(self) -> None:
        if self._desk is not None:
            self._desk.begin(self._settings, self._ids)

    @property
    def _known(self) -> Learned:
        """What the rounds so far have taught about asking for guesses."""
        if self._learned:
            return self._learned[-1]
        return Learned.of((), self.header.baseline, self.header.settings.k)

    def _next_settings(self) -> tuple[Settings, str]:
        """Settings of the next round, with the K it asks for, and why where K is ours to choose."""
        settings = self._settings
        if not settings.chooses_k:
            return settings, ""
        choice = self._known.choose(settings)
        return replace(settings, k=choice.k), choice.reason

    def _propose(self, index: int, settings: Settings) -> tuple[bool, Proposal]:
        """The round's proposal, and whether its drafter has just come into use."""
        self._begin_round()
        if settings.effective_k == 0:  # it falls behind from here on, and observes when it is back
            if not settings.chooses_k:
                self._drafter = None
            return False, Proposal()
        try:
            wanted = self._drafters(settings.drafter)
            is_new = wanted is not self._drafter
            self._drafter = wanted
            wanted.observe(self._ids)
            width = self._width(wanted, settings.k)
            features = self._target.hidden[: len(self._ids) - 1]
            request = DraftRequest(
                width, settings, self._unigram, self._draws, index, self._desk, features,
                self.memory,
            )  # fmt: skip
            proposal = wanted.propose(self._ids, request) if request.k else Proposal()
            self._look_over(proposal, width)
            return is_new, proposal
        except (MemoryError, OutOfMemoryError):  # no fault of the drafter's
            self._drafter = None
            raise
        except Exception as error:
            self._drafter = None
            raise DecodeError(
                f"The drafter “{settings.drafter}” failed: {error or type(error).__name__}"
            ) from error

    def _look_over(self, proposal: Proposal, width: int) -> None:
        """Raise ValueError for guesses that no target pass should see."""
        if any(len(law) != self._vocab_size for law in proposal.laws):
            raise ValueError("its vocabulary is not the target's")
        if len(proposal.tokens) > width:
            raise ValueError(f"it made {len(proposal.tokens)} guesses where {width} were wanted")
        if proposal.parents is not None:
            check_tree(proposal.tokens, proposal.parents)

    def _width(self, drafter: Drafter, k: int) -> int:
        """Guesses of use, up to `k`: the limits leave room for them and the target's own token.

        A tree of so many guesses is no deeper, and has as many cache rows as a chain.
        """
        room = self._room - 1
        if drafter.context is not None:
            room = min(room, drafter.context - len(self._ids))
        return max(0, min(k, room))

    @property
    def made(self) -> int:
        """Rounds made and not taken back."""
        return len(self._starts)

    @property
    def _room(self) -> int:
        """Tokens the run may still commit."""
        written = len(self._ids) - self._prompt_length
        return min(self.header.max_new_tokens - written, self._context - len(self._ids))

    def _check(self, proposal: Proposal, index: int) -> Check:
        """One target pass over the last token and the proposal, and its verdict.

        The target then holds every guess; `_settle` forgets those that do not stay.
        """
        desk = self._desk
        self._settle()  # a pass that failed may have left rows
        started = self._now()
        guesses, parents = proposal.tokens, proposal.parents
        fed: Sequence[int] | Tensor = (
            [self._ids[-1], *guesses] if desk is None else desk.to_feed(self._ids[-1], proposal)
        )
        if parents is None:
            logits = self._target.forward(fed)  # (n + 1, V)
        else:
            first = len(self._ids)  # row of the first guess; the last token's is the one before
            rows = [first - 2, *(first + parent for parent in parents)]
            logits = self._target.forward(fed, parents=rows)
        laws = self._laws(logits, proposal) if desk is None else desk.weigh(logits, parents)
        uniform, slots = self._draws.uniform, range(len(guesses))
        draws = tuple(uniform("accept", index, slot) for slot in slots), uniform("emit", index)
        verdict = self.rule(*laws[1:], guesses, parents, *draws)
        check = Check(proposal, *laws, *draws, verdict, seconds=0.0)
        if parents is not None and self._target.chains_only:
            check = self._looked_at_again(check)
        if isinstance(guesses, Drawn):
            started = guesses.drawn_at
        return replace(check, seconds=self._now() - started)

    @inference_mode()
    def _looked_at_again(self, check: Check) -> Check:
        """The check of a greedy tree, its path decided by the numbers that chains give.

        Rows of the path that stand where a chain's would are a chain's. Any others are fed again,
        as the chain they are, and judged anew, until what passes was fed so: nearly always once.
        A sampled path needs no such care: of its law nothing is promised beyond rounding.
        """
        s, tokens, parents = self._settings, check.proposal.tokens, check.proposal.parents
        straight = tuple(range(len(tokens)))  # slots whose rows are a chain's, as far as they go
        while s.temperature <= COLDEST and (path := check.verdict.path) != straight[: len(path)]:
            straight = path
            self._settle()
            chain = [tokens[slot] for slot in path]
            logits = self._target.forward([self._ids[-1], *chain])
            scores = penalise(logits, self._ids, s.repetition_penalty, chain)
            rows = check.verdict.rows
            check.scores[rows] = scores
            check.target_probs[rows] = process(scores, s.temperature)
            laws, draws = (check.target_probs, check.draft_probs), check.accept_draws
            verdict = self.rule(*laws, tokens, parents, draws, check.emit_draw)
            check = replace(check, verdict=verdict, straight=True)
        return check

    def _laws(self, logits: Tensor, proposal: Proposal) -> tuple[Tensor, Tensor, Tensor]:
        """The target's scores and laws (n + 1, V), and the laws (n, V) guesses were drawn from."""
        s, guesses = self._settings, proposal.tokens
        scores = penalise(logits, self._ids, s.repetition_penalty, guesses, proposal.parents)
        target_probs = process(scores, s.temperature, s.top_k, s.top_p, s.min_p)
        return scores, target_probs, proposal.draft_probs(target_probs)

    def _commit(self, check: Check) -> tuple[int, bool]:
        """Add the round's tokens to the text, up to the first that ends it.

        Returns how many guesses were added, and whether one of them ended the text, so that
        the target's own token is not wanted.
        """
        proposal, verdict = check.proposal, check.verdict
        accepted = len(verdict.path)
        tokens = [*(proposal.tokens[slot] for slot in verdict.path), verdict.token]
        added, reason = self._until_end(tokens)
        if proposal.parents is not None and not check.straight:
            last = len(self._ids) - 1
            self._target.keep([last + row for row in verdict.rows[:added]])
        self._starts.append(len(self._ids))
        self._ids.extend(tokens[:added])
        self._settle()
        if reason is not None:
            self._finish(reason)
        else:
            self._finish_at_limits()
        return min(added, accepted), added <= accepted

    def _until_end(self, tokens: list[int]) -> tuple[int, FinishReason | None]:
        """How many of `tokens` the text takes, and why it ends there if it does."""
        stops = [stop for stop in self.header.stop if stop]
        written = list(
            map(self._vocabulary.token, self._ids[self._prompt_length :] if stops else ())
        )
        for count, token in enumerate(tokens, 1):
            if token in self._vocabulary.eos_ids:
                return count, "eos"
            written.append(self._vocabulary.token(token))
            if stops and any(stop in join_text(written) for stop in stops):
                return count, "stop"
        return len(tokens), None

    def _settle(self) -> None:
        """Bring the target's cache to its state between rounds: all of the text but its end."""
        self._target.rollback(len(self._ids) - 1)

    def _finish_at_limits(self) -> None:
        if self._room <= 0:
            spent = len(self._ids) - self._prompt_length >= self.header.max_new_tokens
            self._finish("length" if spent else "context")

    def _finish(self, reason: FinishReason) -> None:
        self.finished = self.finished or RunFinished(reason)
