"""The acceptance rule of speculative decoding, on one screen.

A drafter proposed K tokens, each drawn from a distribution of its own; one target pass gave
the K + 1 distributions the target would have drawn from. `verify_chain` keeps a prefix of the
proposal and one token more, so that what is kept is distributed exactly as if the target had
written it alone (Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2).

Greedy decoding is the limit of one-hot `target_probs`; a drafter that does not sample (an
n-gram, a suffix, an argmax) is the limit of one-hot `draft_probs`. Neither has code of its own.

Pure: knows no model, no cache and no random generator. Draws come from the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.trace import EmitKind


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one verification decided.

    `accepted` is the length of the kept prefix, `token` the target's own token after it,
    `kind` whether that is a correction or a bonus, `emit_probs` (V,) the law it was drawn
    from, `accept_probs` each guess's chance of passing when it is judged.
    """

    accepted: int
    token: int
    kind: EmitKind
    emit_probs: Tensor
    accept_probs: tuple[float, ...]


def verify_chain(
    target_probs: Tensor,
    draft_probs: Tensor,
    draft_tokens: Sequence[int],
    accept_draws: Sequence[float],
    emit_draw: float,
) -> Verdict:
    """Judge a chain of guesses and draw the token that follows the accepted ones.

    Shapes: `target_probs` (K + 1, V), `draft_probs` (K, V); K `draft_tokens` and `accept_draws`;
    every draw in [0, 1). `draft_probs[i]` must be the very distribution `draft_tokens[i]` was
    drawn from. Raises ValueError for a guess its own distribution calls impossible.
    """
    k = len(draft_tokens)
    rows = torch.arange(k, device=target_probs.device)
    tokens = torch.tensor(draft_tokens, dtype=torch.long, device=target_probs.device)
    target: list[float] = target_probs[rows, tokens].tolist()  # the target's chance of each guess
    draft: list[float] = draft_probs[rows, tokens].tolist()  # its chance of being proposed
    if not all(chance > 0 for chance in draft):
        raise ValueError("a guess has no probability under the law it is said to come from")

    accepted = 0
    while accepted < k and accept_draws[accepted] * draft[accepted] < target[accepted]:
        accepted += 1

    if accepted == k:
        kind: EmitKind = "bonus"
        emit_probs = target_probs[k]
    else:
        kind = "recovered"
        emit_probs = residual(target_probs[accepted], draft_probs[accepted])
    accept_probs = tuple(min(1.0, target[i] / draft[i]) for i in range(k))
    return Verdict(accepted, pick(emit_probs, emit_draw), kind, emit_probs, accept_probs)


def residual(target_probs: Tensor, draft_probs: Tensor) -> Tensor:
    """normalise(max(0, target - draft)), (V,): what the target still owes after a refusal.

    Two laws equal up to rounding leave nothing to normalise; the target's own is then right.
    """
    target = _float64(target_probs)
    excess = (target - _float64(draft_probs)).clamp(min=0)
    total = excess.sum()
    return excess / total if total > 1e-12 else target


def pick(probs: Tensor, draw: float) -> int:
    """Read a uniform `draw` off the cumulative law (V,), in id order; never an impossible token.

    Raises ValueError for a law without mass, as logits that are no numbers give.
    """
    cumulative = _float64(probs).cumsum(0)
    mark = draw * cumulative[-1:]
    index = int(torch.searchsorted(cumulative, mark, right=True))
    if index == len(probs):  # the draw was so near 1 that the product rounded up to the total
        if not cumulative[-1] > 0:
            raise ValueError("The model's numbers are not finite: nothing can be drawn from them.")
        index = int(probs.nonzero()[-1])
    return index


def _float64(probs: Tensor) -> Tensor:
    return (probs.cpu() if probs.device.type == "mps" else probs).double()
