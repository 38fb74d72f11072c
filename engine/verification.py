"""The acceptance rule of speculative decoding, on one screen.

A drafter proposed K tokens, each drawn from a distribution of its own; one target pass gave
the K + 1 distributions the target would have drawn from. `verify_chain` keeps a prefix of the
proposal and one token more, so that what is kept is distributed exactly as if the target had
written it alone (Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2). A tree of
guesses, several after one text, is judged by the same rule in `verify_tree`; a chain is the
tree in which nobody has a sibling.

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

ROOT = -1
"""The parent of a guess that follows the text itself."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one verification decided.

    `path` are the accepted guesses, each following the one before; `token` is the target's own
    token after them, `kind` whether that is a correction or a bonus, `emit_probs` (V,) the law it
    was drawn from. `tested` (K, V) is what the target owed where each guess was judged, that is
    where those it follows were accepted and its elder siblings refused, and `accept_probs` each
    guess's chance of passing there.
    """

    path: tuple[int, ...]
    token: int
    kind: EmitKind
    emit_probs: Tensor
    tested: Tensor
    accept_probs: tuple[float, ...]

    @property
    def rows(self) -> list[int]:
        """Rows of `target_probs` along the path: after the text, and after each accepted guess."""
        return [0, *(slot + 1 for slot in self.path)]


def verify(
    target_probs: Tensor,
    draft_probs: Tensor,
    draft_tokens: Sequence[int],
    parents: Sequence[int] | None,
    accept_draws: Sequence[float],
    emit_draw: float,
) -> Verdict:
    """Judge guesses as the tree that their `parents` make of them, or without these as a chain."""
    if parents is None:
        return verify_chain(target_probs, draft_probs, draft_tokens, accept_draws, emit_draw)
    return verify_tree(target_probs, draft_probs, draft_tokens, parents, accept_draws, emit_draw)


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
    target, draft = _chances(target_probs[:k], draft_tokens), _chances(draft_probs, draft_tokens)
    accept_probs = _ratios(target, draft)

    accepted = 0
    while accepted < k and accept_draws[accepted] * draft[accepted] < target[accepted]:
        accepted += 1

    if accepted == k:
        kind: EmitKind = "bonus"
        emit_probs = target_probs[k]
    else:
        kind = "recovered"
        emit_probs = residual(target_probs[accepted], draft_probs[accepted])
    path, token = tuple(range(accepted)), pick(emit_probs, emit_draw)
    return Verdict(path, token, kind, emit_probs, target_probs[:k], accept_probs)


def verify_tree(
    target_probs: Tensor,
    draft_probs: Tensor,
    draft_tokens: Sequence[int],
    parents: Sequence[int],
    accept_draws: Sequence[float],
    emit_draw: float,
) -> Verdict:
    """Judge a tree of guesses and draw the token that follows the accepted path.

    Node i guesses `draft_tokens[i]` after node `parents[i]` < i, or after the text (`ROOT`).
    Siblings are judged in order, until one passes; each that is refused leaves the residual of
    what the target still owed, and the token that follows when all are is drawn from the last
    residual (Miao et al. 2023, SpecInfer, algorithm 2; Jeon et al. 2024 for siblings drawn
    without replacement).

    Shapes: `target_probs` (N + 1, V), row 0 after the text and row i + 1 after node i;
    `draft_probs` (N, V); N tokens, parents and `accept_draws`. Row i of `draft_probs` is the law
    node i was drawn from *given its elder siblings*: drawn without replacement, the drafter's law
    with these zeroed and the rest renormalised; not drawn at all (its likeliest few), one-hot.
    Raises ValueError for a node before its parent, for siblings that guess the same, and for a
    guess its own law calls impossible.
    """
    check_tree(draft_tokens, parents)
    owed = list(_float64(target_probs))  # row i + 1: what the target still owes after node i
    laws: list[Tensor] = []  # what it owed before each node was judged
    for node, parent in enumerate(parents):
        laws.append(owed[parent + 1])
        owed[parent + 1] = residual(owed[parent + 1], draft_probs[node])
    tested = torch.stack(laws) if laws else target_probs[:0]
    target, draft = _chances(tested, draft_tokens), _chances(draft_probs, draft_tokens)
    accept_probs = _ratios(target, draft)

    path = [ROOT]
    for node, parent in enumerate(parents):
        if parent == path[-1] and accept_draws[node] * draft[node] < target[node]:
            path.append(node)

    kind: EmitKind = "recovered" if path[-1] in parents else "bonus"
    emit_probs = owed[path[-1] + 1]
    emitted = pick(emit_probs, emit_draw)
    return Verdict(tuple(path[1:]), emitted, kind, emit_probs, tested, accept_probs)


def check_tree(draft_tokens: Sequence[int], parents: Sequence[int]) -> None:
    """Raise ValueError for what is no tree of guesses: see `verify_tree`."""
    if any(not ROOT <= parent < node for node, parent in enumerate(parents)):
        raise ValueError("a guess comes before the one it follows")
    if len(set(zip(parents, draft_tokens, strict=True))) < len(parents):
        raise ValueError("two guesses after one text are the same")


def residual(target_probs: Tensor, draft_probs: Tensor) -> Tensor:
    """normalise(max(0, target - draft)), (V,): what the target still owes after a refusal.

    Two laws equal up to rounding leave nothing to normalise; the target's own is then right.
    """
    target = _float64(target_probs)
    excess = (target - _float64(draft_probs)).clamp_(min=0)  # in place: laws are long
    total = excess.sum()
    return torch.where(total > 1e-12, excess.div_(total), target)


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


def _chances(laws: Tensor, tokens: Sequence[int]) -> list[float]:
    """Of each law (K, V) its chance of the token (K) in its place."""
    rows = torch.arange(len(tokens), device=laws.device)
    chances: list[float] = laws[
        rows, torch.tensor(tokens, dtype=torch.long, device=laws.device)
    ].tolist()
    return chances


def _ratios(target: Sequence[float], draft: Sequence[float]) -> tuple[float, ...]:
    """Each guess's chance of passing: what the target owes it over what it was drawn with."""
    if not all(chance > 0 for chance in draft):
        raise ValueError("a guess has no probability under the law it is said to come from")
    return tuple(min(1.0, wanted / said) for wanted, said in zip(target, draft, strict=True))


def _float64(probs: Tensor) -> Tensor:
    return (probs.cpu() if probs.device.type == "mps" else probs).double()
