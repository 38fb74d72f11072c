"""Writes down a round: everything a verdict rests on, as the events of `trace`.

Works outside the compute clock, and is timed itself. Knows laws and verdicts; decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.drafters.proposal import Proposal
from engine.sampling import COLDEST
from engine.trace import Candidate, Emitted, Guess, Law, Scored, Settings, Token
from engine.verification import Verdict

SHOWN = 10
"""Candidates of a law that are written down by name."""


class Vocabulary(Protocol):
    """Ids to tokens (see `engine.tokenizer.Tokenizer`)."""

    @property
    def eos_ids(self) -> tuple[int, ...]: ...
    def token(self, token_id: int, /) -> Token: ...


@dataclass(frozen=True, slots=True)
class Check:
    """A proposal of n guesses after its target pass, and what drafting and verdict rest on.

    `scores` (n + 1, V) are the target's logits with the penalty applied, `target_probs`
    (n + 1, V) and `draft_probs` (n, V) the laws tested; `seconds` is what the pass and the
    verdict took.
    """

    proposal: Proposal
    scores: Tensor
    target_probs: Tensor
    draft_probs: Tensor
    accept_draws: tuple[float, ...]
    emit_draw: float
    verdict: Verdict
    seconds: float


@dataclass(frozen=True, slots=True)
class Choice:
    """How a token of a greedy text was chosen: under which penalty, from which two likeliest."""

    penalty: float
    best: tuple[Scored, ...]


def choices(
    check: Check, count: int, settings: Settings, vocabulary: Vocabulary
) -> tuple[Choice | None, ...]:
    """How the first `count` tokens that came of a check were chosen."""
    if settings.temperature > COLDEST:
        return (None,) * count
    penalty = settings.repetition_penalty
    return tuple(Choice(penalty, best_two(row, vocabulary)) for row in check.scores[:count])


def best_two(scores: Tensor, vocabulary: Vocabulary) -> tuple[Scored, ...]:
    """The two highest of logits (V,)."""
    top = scores.topk(min(2, len(scores)))
    pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
    return tuple(Scored(vocabulary.token(token), logit) for token, logit in pairs)


def guesses(check: Check, kept: int, ended: bool, vocabulary: Vocabulary) -> tuple[Guess, ...]:
    """Every guess with its laws, draw and verdict.

    `kept` is how many of the accepted ones the text keeps; when it `ended` with the last of
    them, what follows is discarded, since its verdict no longer matters.
    """
    proposal, count = check.proposal, len(check.proposal.tokens)
    if count == 0:
        return ()
    judged = kept if ended else min(kept + 1, count)
    draft_laws = laws(check.draft_probs, vocabulary)
    target_laws = laws(check.target_probs[:count], vocabulary)
    return tuple(
        Guess(
            token=vocabulary.token(token),
            draft_prob=float(check.draft_probs[i, token]),
            target_prob=float(check.target_probs[i, token]),
            accept_prob=check.verdict.accept_probs[i],
            draw=check.accept_draws[i] if i < judged else None,
            verdict="accepted" if i < kept else "rejected" if i < judged else "discarded",
            draft_law=draft_laws[i],
            target_law=target_laws[i],
            source=proposal.sources[i],
            origin=proposal.origins[i],
        )
        for i, token in enumerate(proposal.tokens)
    )


def emitted(check: Check, vocabulary: Vocabulary) -> Emitted:
    """The target's own token, with the law it was drawn from and the target's at that place."""
    verdict = check.verdict
    return Emitted(
        token=vocabulary.token(verdict.token),
        kind=verdict.kind,
        prob=float(verdict.emit_probs[verdict.token]),
        draw=check.emit_draw,
        law=laws(verdict.emit_probs[None], vocabulary)[0],
        target_law=laws(check.target_probs[verdict.accepted, None], vocabulary)[0],
    )


def laws(probs: Tensor, vocabulary: Vocabulary) -> list[Law]:
    """The likeliest entries of each row (n, V), and the mass of the others."""
    top = torch.topk(probs, min(SHOWN, probs.shape[-1]), dim=-1)
    return [
        _law(row_probs, row_ids, vocabulary)
        for row_probs, row_ids in zip(top.values.tolist(), top.indices.tolist(), strict=True)
    ]


def _law(probs: list[float], ids: list[int], vocabulary: Vocabulary) -> Law:
    shown = tuple(
        Candidate(vocabulary.token(token), prob)
        for token, prob in zip(ids, probs, strict=True)
        if prob > 0
    )
    everything = len(shown) < SHOWN  # no eleventh token can have any mass
    return Law(shown, 0.0 if everything else max(0.0, 1.0 - sum(each.prob for each in shown)))
