"""The nouns of the whole program: what one run of speculative decoding is made of.

A run is a header followed by events, in order. Live, they arrive over a pipe; recorded,
the same lines lie in a file. `Trace` folds them into the current run: a `Rewind` takes
back the rounds nobody has seen yet, so the event stream only ever grows.

Knows nothing of models, pictures, files or JSON (see `codec`). Standard library only.

Conventions: seconds are measured on the compute clock (device-synchronised, evidence
excluded); probabilities are the processed ones (penalty, temperature, top-k, top-p, min-p applied)
that were really drawn from and tested; positions count tokens from the start of the prompt.
Token text is decoded with ``surrogateescape``, so that a token holding half a character
still joins with its neighbours into the right text (see `join_text`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

FORMAT = "verifybox-run"
VERSION = 1

Verdict = Literal["accepted", "rejected", "discarded"]
EmitKind = Literal["recovered", "bonus"]
FinishReason = Literal["eos", "stop", "length", "context", "cancelled"]


@dataclass(frozen=True, slots=True)
class Token:
    """One vocabulary entry: its id and its own text (surrogates stand for partial bytes)."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token and its probability under one law."""

    token: Token
    prob: float


@dataclass(frozen=True, slots=True)
class Law:
    """A distribution as shown to people: its likeliest entries, and the mass of all others."""

    top: tuple[Candidate, ...]
    rest: float


@dataclass(frozen=True, slots=True)
class Guess:
    """One draft token with everything its verdict rests on.

    `draw` is None when the token was discarded (never judged). `origin` is the position
    of the text it was copied from, when the drafter copies. `source` names the part of the
    drafter that proposed it ("n-gram", "store", "memory", "model", "head", "mask"). In a tree
    `parent` is the slot of the guess it follows, -1 for the text itself; None in a chain, where it
    follows the one before.

    `target_law` and `target_prob` are what the guess is tested against: the target's own law at
    its place or, for a younger sibling, what its elder ones leave of it when they are refused.
    `accept_prob` is its chance of passing when it is judged. `confidence` is the chance that the
    model behind the drafter gave the token, before temperature, filters and the quality dial shaped
    the law it was drawn from, elder siblings left in; None where no model spoke, or none kept it.
    No verdict rests on it.
    """

    token: Token
    draft_prob: float
    target_prob: float
    accept_prob: float
    draw: float | None
    verdict: Verdict
    draft_law: Law
    target_law: Law
    source: str
    origin: int | None = None
    parent: int | None = None
    confidence: float | None = None

    @property
    def copied(self) -> bool:
        """Whether it was looked up, in this text or in earlier replies, and not computed."""
        return self.origin is not None or self.source in ("store", "memory")


@dataclass(frozen=True, slots=True)
class Emitted:
    """The target's own token that ends a round: a correction ("recovered") or a bonus.

    `law` is what it was drawn from: the residual after a rejection, the target's own
    distribution one past the last guess for a bonus (and in a round with no guesses).
    """

    token: Token
    kind: EmitKind
    prob: float
    draw: float
    law: Law
    target_law: Law


@dataclass(frozen=True, slots=True)
class Settings:
    """What may change while a run goes on. `speculative` False means the target alone.

    With `auto_k` the engine chooses K anew for every round (see `engine.adapt`); a round's own
    settings then hold the K that it was made with. `longest_match` and `shortest_match` are how
    many tokens the drafter n-gram looks up, from the most down to the fewest.
    """

    drafter: str = "auto"
    k: int = 4
    quality: float = 100.0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    speculative: bool = True
    repetition_penalty: float = 1.0
    auto_k: bool = False
    min_p: float = 0.0
    longest_match: int = 5
    shortest_match: int = 2

    @property
    def drafts(self) -> bool:
        """Whether anybody may be asked for guesses."""
        return self.speculative and self.drafter != "none"

    @property
    def chooses_k(self) -> bool:
        """Whether the engine chooses K for each round."""
        return self.auto_k and self.drafts

    @property
    def k_as_set(self) -> str:
        """K in the words of whoever set it."""
        return "auto" if self.auto_k else str(self.k)

    @property
    def apart_from_k(self) -> Settings:
        """Everything but the number of guesses."""
        return replace(self, k=0, auto_k=False)

    @property
    def as_set(self) -> Settings:
        """What people have set: a K that the engine chose is no setting of theirs."""
        return replace(self, k=0) if self.auto_k else self

    @property
    def effective_k(self) -> int:
        """Guesses asked for per round under these settings."""
        return self.k if self.drafts else 0


@dataclass(frozen=True, slots=True)
class Round:
    """One proposal and its verification.

    `emitted` is None only when an accepted guess already ended the run (end of text, a
    stop string). `position` is the index of the first guess in the sequence.
    `draft_step_seconds` has one entry per draft step (one per guess for a model; a single
    entry for a lookup). `cold` marks the first round after a drafter came into use, when its
    weights and code are touched anew: it is left out of every rate of time.
    `evidence_seconds` is the time spent writing this event. `k_reason` says why the engine
    asked for so many guesses, where it was left to choose.
    """

    index: int
    position: int
    settings: Settings
    guesses: tuple[Guess, ...]
    emitted: Emitted | None
    draft_step_seconds: tuple[float, ...]
    verify_seconds: float
    evidence_seconds: float = 0.0
    cold: bool = False
    k_reason: str = ""

    @property
    def accepted(self) -> int:
        """Length of the accepted prefix; in a tree, of the accepted path."""
        return len(self.path)

    @property
    def path(self) -> tuple[int, ...]:
        """Slots of the accepted guesses, in the order in which they joined the text."""
        return tuple(i for i, guess in enumerate(self.guesses) if guess.verdict == "accepted")

    @property
    def is_tree(self) -> bool:
        """Whether any guess may have siblings."""
        return any(guess.parent is not None for guess in self.guesses)

    @property
    def parents(self) -> tuple[int, ...]:
        """Of each guess, the slot of the one it follows; -1 for the text itself."""
        return tuple(
            slot - 1 if guess.parent is None else guess.parent
            for slot, guess in enumerate(self.guesses)
        )

    @property
    def depths(self) -> tuple[int, ...]:
        """Which guess after the text each one is on its branch, from 1."""
        depths = [0]
        for parent in self.parents:
            depths.append(depths[parent + 1] + 1)
        return tuple(depths[1:])

    @property
    def draft_seconds(self) -> float:
        return sum(self.draft_step_seconds)

    @property
    def seconds(self) -> float:
        """Compute time of the round: drafting plus the target pass."""
        return self.draft_seconds + self.verify_seconds

    @property
    def committed(self) -> tuple[Token, ...]:
        """The tokens this round adds to the text, in order."""
        kept = tuple(self.guesses[slot].token for slot in self.path)
        return kept if self.emitted is None else (*kept, self.emitted.token)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The same target alone, one token per pass, measured in this session (medians)."""

    pass_seconds: float
    passes: int

    @property
    def tokens_per_second(self) -> float:
        return 1.0 / self.pass_seconds


@dataclass(frozen=True, slots=True)
class RunHeader:
    """First line of every run: the full configuration and the prompt as tokens.

    `chat` says whether the template wrapped the prompt. `drafter` of `settings` may be
    "auto"; `drafter` here is what that meant on this machine and `drafter_reason` why.
    `remembered` is how many tokens of the user's earlier replies lookups could copy from,
    `target_layers` how deep the target is (0 where the run does not say).
    """

    run_id: str
    created: str
    target: str
    device: str
    dtype: str
    kernel: str
    drafter: str
    drafter_reason: str
    settings: Settings
    prompt: str
    chat: bool
    prompt_tokens: tuple[Token, ...]
    vocab_size: int
    context_limit: int
    max_new_tokens: int
    stop: tuple[str, ...]
    seed: int
    baseline: Baseline | None
    prefill_seconds: float
    remembered: int = 0
    target_layers: int = 0


@dataclass(frozen=True, slots=True)
class Rewind:
    """Rounds from `to_round` on were never shown and are taken back; `settings` act from there."""

    to_round: int
    settings: Settings


@dataclass(frozen=True, slots=True)
class RunFinished:
    reason: FinishReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RunFailed:
    message: str


@dataclass(frozen=True, slots=True)
class Scored:
    """A token and the logit the target gives it."""

    token: Token
    logit: float


@dataclass(frozen=True, slots=True)
class RunProof:
    """A finished greedy run against the target alone on the same prompt, which was run after it.

    `tokens` new tokens were compared, up to the first that differs: `first_difference` counts
    the equal ones before it. There `together` are the two likeliest tokens in the pass that
    verified the run, and `alone` those of the target alone.
    """

    tokens: int
    first_difference: int | None = None
    together: tuple[Scored, ...] = ()
    alone: tuple[Scored, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the text is the target's own, token for token."""
        return self.first_difference is None

    @property
    def words(self) -> str:
        """The finding, in one line."""
        if self.first_difference is None:
            return f"lossless: {self.tokens} of {self.tokens} tokens equal the target alone"
        return (
            f"differs from the target alone at token {self.first_difference + 1} of {self.tokens}"
        )


RunEvent = RunHeader | Round | Rewind | RunFinished | RunFailed | RunProof


BUSY = ("measuring", "reading")
"""Phases of a ready engine that prepares the run it was asked for."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the engine process is doing between runs; never part of a run file.

    `done` and `total` are bytes while fetching, tokens while reading a prompt, else 0.
    `drafters` lists what can be chosen once the engine is ready. "refused" answers a request
    for a run that cannot be had while another goes on, which it leaves alone. "notice" answers
    nothing: its detail is a sentence people should see although all goes on.
    """

    phase: Literal[
        "fetching", "loading", "ready", "measuring", "reading", "refused", "notice", "failed"
    ]
    detail: str = ""
    done: int = 0
    total: int = 0
    rate: float = 0.0
    drafters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """The current run: a fold over the events so far. Immutable; `extend` returns a new one."""

    header: RunHeader | None = None
    rounds: tuple[Round, ...] = ()
    end: RunFinished | RunFailed | None = None
    proof: RunProof | None = None

    def extend(self, event: RunEvent) -> Trace:
        """Return the trace after one more event.

        Raises ValueError on an event that cannot follow: a second header, a round before
        the header, a round whose index skips, a rewind past the end, a proof before it.
        """
        if isinstance(event, RunHeader):
            if self.header is not None:
                raise ValueError("a run has one header, and this is its second")
            return replace(self, header=event)
        if self.header is None and not isinstance(event, RunFailed):
            raise ValueError(f"{type(event).__name__} before the run's header")
        if isinstance(event, Round):
            if event.index != len(self.rounds):
                raise ValueError(f"round {event.index} where round {len(self.rounds)} is due")
            return replace(self, rounds=(*self.rounds, event))
        if isinstance(event, Rewind):
            if not 0 <= event.to_round <= len(self.rounds):
                raise ValueError(f"rewind to round {event.to_round} of {len(self.rounds)}")
            return replace(self, rounds=self.rounds[: event.to_round], end=None, proof=None)
        if isinstance(event, RunProof):
            if not isinstance(self.end, RunFinished):
                raise ValueError("the proof of a run that has not finished")
            return replace(self, proof=event)
        return replace(self, end=event)

    def __getitem__(self, rounds: slice) -> Trace:
        """The run as it stood after those first rounds: ``trace[:n]``."""
        if rounds.start not in (None, 0) or rounds.step is not None:
            raise ValueError("a trace is only cut from its start: trace[:n]")
        kept = self.rounds[rounds]
        if len(kept) == len(self.rounds):
            return self
        return replace(self, rounds=kept, end=None, proof=None)

    @property
    def committed(self) -> tuple[Token, ...]:
        """Every token after the prompt, in order."""
        return tuple(token for each in self.rounds for token in each.committed)

    @property
    def text(self) -> str:
        """What the run has written so far; the token that ended the text is not part of it."""
        ended = isinstance(self.end, RunFinished) and self.end.reason == "eos"
        return join_text(self.committed[:-1] if ended else self.committed)


def fold(events: Iterable[RunEvent]) -> Trace:
    """Fold events into the run they describe."""
    trace = Trace()
    for event in events:
        trace = trace.extend(event)
    return trace


def join_text(tokens: Iterable[Token]) -> str:
    """Join token texts into readable text; bytes that never became a character read as U+FFFD."""
    return readable("".join(token.text for token in tokens))


def readable(joined: str) -> str:
    """Text whose bytes that never became a character (surrogates) read as U+FFFD."""
    return joined.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
