"""Writes down a round: everything a verdict rests on, as the events of `trace`.

Works outside the compute clock, and is timed itself. Knows laws and verdicts; decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from engine.drafters.proposal import Proposal
from engine.trace import Candidate, Emitted, Guess, Law, Token
from engine.verification import Verdict

SHOWN = 10
"""Candidates of a law that are written down by name."""


class Vocabulary(Protocol):
    """Ids to tokens (see `engine.tokenizer.Tokenizer`)."""

    @property
    def eos_ids(self) -> tuple[int, ...]: ...
    def token(self, token_id: int, /) -> Token: ...


def guesses(
    proposal: Proposal,
    draft_probs: Tensor,
    target_probs: Tensor,
    verdict: Verdict,
    accept_draws: Sequence[float],
    kept: int,
    ended: bool,
    vocabulary: Vocabulary,
) -> tuple[Guess, ...]:
    """Every guess with its laws, draw and verdict.

    `kept` is how many of the accepted ones the text keeps; when it `ended` with the last of
    them, what follows is discarded, since its verdict no longer matters.
    """
    count = len(proposal.tokens)
    if count == 0:
        return ()
    judged = kept if ended else min(kept + 1, count)
    draft_laws = laws(draft_probs, vocabulary)
    target_laws = laws(target_probs[:count], vocabulary)
    written = []
    for i, token in enumerate(proposal.tokens):
        written.append(
            Guess(
                token=vocabulary.token(token),
                draft_prob=float(draft_probs[i, token]),
                target_prob=float(target_probs[i, token]),
                accept_prob=verdict.accept_probs[i],
                draw=accept_draws[i] if i < judged else None,
                verdict="accepted" if i < kept else "rejected" if i < judged else "discarded",
                draft_law=draft_laws[i],
                target_law=target_laws[i],
                source=proposal.sources[i],
                origin=proposal.origins[i],
            )
        )
    return tuple(written)


def emitted(target_probs: Tensor, verdict: Verdict, draw: float, vocabulary: Vocabulary) -> Emitted:
    """The target's own token, with the law it was drawn from and the target's at that place."""
    target_row = target_probs[verdict.accepted]
    drawn_from, target_law = (
        laws(row[None], vocabulary)[0] for row in (verdict.emit_probs, target_row)
    )
    return Emitted(
        token=vocabulary.token(verdict.token),
        kind=verdict.kind,
        prob=float(verdict.emit_probs[verdict.token]),
        draw=draw,
        law=drawn_from,
        target_law=target_law,
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
