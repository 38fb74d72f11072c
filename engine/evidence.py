"""Writes down a round: everything a verdict rests on, as the events of `trace`.

Works outside the compute clock, and is timed itself. Knows laws and verdicts; decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from engine import trace
from engine.drafters.proposal import Proposal
from engine.sampling import COLDEST
from engine.trace import Candidate, Emitted, Guess, Law, Scored, Settings, Token
from engine.verification import ROOT, Verdict

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
    (n + 1, V) its laws after the text and after each guess, `draft_probs` (n, V) those that the
    guesses were drawn from; `seconds` is what the pass and the verdict took. `straight`: the path
    was fed again as a chain, whose rows the target now holds.
    """

    proposal: Proposal
    scores: Tensor
    target_probs: Tensor
    draft_probs: Tensor
    accept_draws: tuple[float, ...]
    emit_draw: float
    verdict: Verdict
    seconds: float
    straight: bool = False

    @property
    def parents(self) -> Sequence[int]:
        """Of each guess the slot of the one it follows, -1 for the text."""
        named = self.proposal.parents
        return range(ROOT, len(self.proposal.tokens) - 1) if named is None else named


@dataclass(frozen=True, slots=True)
class Choice:
    """How a token of a greedy text was chosen: under which penalty, from which two likeliest."""

    penalty: float
    best: tuple[Scored, ...]


def choices(
    check: Check, count: int, settings: Settings, vocabulary: Vocabulary
) -> tuple[Choice | None, ...]:
    """How the `count` tokens that came of a check were chosen."""
    if settings.temperature > COLDEST:
        return (None,) * count
    penalty, scores = settings.repetition_penalty, check.scores[check.verdict.rows[:count]]
    return tuple(Choice(penalty, best) for best in _best_two(scores, vocabulary))


def best_two(scores: Tensor, vocabulary: Vocabulary) -> tuple[Scored, ...]:
    """The two highest of logits (V,)."""
    return _best_two(scores[None], vocabulary)[0]


def _best_two(scores: Tensor, vocabulary: Vocabulary) -> list[tuple[Scored, ...]]:
    """The two highest of each row of logits (n, V)."""
    top = scores.topk(min(2, scores.shape[-1]), dim=-1)
    logits, ids = _brought(top.values, top.indices)
    rows = (zip(*row, strict=True) for row in zip(ids, logits, strict=True))
    return [
        tuple(Scored(vocabulary.token(int(token)), logit) for token, logit in row) for row in rows
    ]


def guesses(check: Check, kept: int, ended: bool, vocabulary: Vocabulary) -> tuple[Guess, ...]:
    """Every guess with its laws, draw and verdict.

    The target's law is the one the guess was tested against: for a younger sibling what its elder
    ones leave. `kept` is how many of the accepted guesses the text keeps; when it `ended` with the
    last of them, what follows is discarded, since its verdict no longer matters.
    """
    proposal, count = check.proposal, len(check.proposal.tokens)
    if count == 0:
        return ()
    verdicts = _verdicts(check.parents, check.verdict.path[:kept], ended)
    laws = check.draft_probs, check.verdict.tested
    sure = confidences(proposal)
    (draft_chances, draft_laws), (target_chances, target_laws) = _read(
        laws, proposal.tokens, vocabulary
    )
    return tuple(
        Guess(
            token=vocabulary.token(token),
            draft_prob=draft_chances[i],
            target_prob=target_chances[i],
            accept_prob=check.verdict.accept_probs[i],
            draw=None if verdicts[i] == "discarded" else check.accept_draws[i],
            verdict=verdicts[i],
            draft_law=draft_laws[i],
            target_law=target_laws[i],
            source=proposal.sources[i],
            origin=proposal.origins[i],
            parent=None if proposal.parents is None else proposal.parents[i],
            confidence=sure[i],
        )
        for i, token in enumerate(proposal.tokens)
    )


def confidences(proposal: Proposal) -> list[float | None]:
    """The chance that the model behind each guess gave it; None where its scores were not kept."""
    found: list[float | None] = [None] * len(proposal.tokens)
    kept = {slot: said for slot, said in enumerate(proposal.scores) if said is not None}
    if kept:
        # Siblings share what was said before them: it is made a law once.
        once = {id(said): said.log_softmax(-1) for said in kept.values()}
        chances = [once[id(said)][proposal.tokens[slot]] for slot, said in kept.items()]
        (told,) = _brought(torch.stack(chances).exp())
        found = [told.pop(0) if slot in kept else None for slot in range(len(found))]
    return found


def _verdicts(parents: Sequence[int], path: Sequence[int], ended: bool) -> list[trace.Verdict]:
    """What became of each guess, when those of `path` were kept and the text perhaps `ended` there.

    A guess is judged when the one it follows was accepted and none of its elder siblings was.
    """
    judging = [ROOT, *path][: len(path) if ended else None]  # after these a guess was looked for
    found: list[trace.Verdict] = []
    for slot, parent in enumerate(parents):
        if slot in path:
            found.append("accepted")
            judging.remove(parent)
        else:
            found.append("rejected" if parent in judging else "discarded")
    return found


def emitted(check: Check, vocabulary: Vocabulary) -> Emitted:
    """The target's own token, with the law it was drawn from and the target's at that place."""
    verdict = check.verdict
    laws = verdict.emit_probs[None], check.target_probs[verdict.rows[-1], None]
    (chances, emit_laws), (_, target_laws) = _read(laws, [verdict.token], vocabulary)
    return Emitted(
        token=vocabulary.token(verdict.token),
        kind=verdict.kind,
        prob=chances[0],
        draw=check.emit_draw,
        law=emit_laws[0],
        target_law=target_laws[0],
    )


def _read(
    laws: Sequence[Tensor], tokens: Sequence[int], vocabulary: Vocabulary
) -> list[tuple[list[float], list[Law]]]:
    """Of each of `laws` (n, V): its chances of `tokens` (n), and what is written down of it."""
    at = torch.tensor([*tokens])[:, None]
    wanted: list[Tensor] = []
    for each in laws:
        top = torch.topk(each, min(SHOWN, each.shape[-1]), dim=-1)
        wanted += [each.gather(1, at.to(each.device))[:, 0], top.values, top.indices]
    numbers = iter(_brought(*wanted))
    return [
        (chances, [_law(*row, vocabulary) for row in zip(probs, ids, strict=True)])
        for chances, probs, ids in zip(numbers, numbers, numbers, strict=True)
    ]


def _brought(*tensors: Tensor) -> list[Any]:
    """Tensors as nested lists of numbers: brought from the device together, for each read waits."""
    wide = (each.cpu() if each.device.type == "mps" else each for each in tensors)
    flat = torch.cat([each.double().flatten() for each in wide]).cpu()
    parts = torch.split(flat, [each.numel() for each in tensors])
    return [part.view(each.shape).tolist() for part, each in zip(parts, tensors, strict=True)]


def _law(probs: list[float], ids: list[float], vocabulary: Vocabulary) -> Law:
    """What is written down of a law: its likeliest entries, and the mass of the others."""
    shown = tuple(
        Candidate(vocabulary.token(int(token)), prob)
        for token, prob in zip(ids, probs, strict=True)
        if prob > 0
    )
    everything = len(shown) < SHOWN  # no eleventh token can have any mass
    return Law(shown, 0.0 if everything else max(0.0, 1.0 - sum(each.prob for each in shown)))
