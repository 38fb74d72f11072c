"""From logits to the law that is really drawn from, and the uniforms it is drawn with.

`penalise` and then `process` (temperature, top-k, top-p, min-p) apply the rules of transformers'
logits processors in their order, ties included; the same functions serve target and drafter.
`Draws` gives each decision of a run its own uniform, keyed by what it decides rather than by when,
so that a run taken back and repeated draws the same numbers. `mix` is the draft-quality dial.

Knows nothing of models, rounds or acceptance.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from engine.sending import sent

Stream = Literal["draft", "accept", "emit"]

COLDEST = 1e-5
"""At or below this temperature the law is one-hot: dividing by less only breeds infinities."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Uniforms in [0, 1) keyed by (seed, stream, round, slot); a counter, not a state."""

    seed: int

    def uniform(self, stream: Stream, round_index: int, slot: int = 0) -> float:
        """The one uniform of this decision. The same key always gives the same number."""
        key = stream.encode() + struct.pack(">Qqq", self.seed % 2**64, round_index, slot)
        bits = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
        return (bits >> 11) * 2.0**-53


def penalise(
    logits: Tensor,
    text: Sequence[int],
    penalty: float,
    guesses: Sequence[int] | Tensor = (),
    parents: Sequence[int] | None = None,
) -> Tensor:
    """Make tokens that have been seen less likely (above 1) or likelier: logits (n + 1, V) again.

    The first row was scored after `text`, and row i + 1 after guess i of n as well, which counts
    as seen there and in the rows behind it. The guesses of a tree follow `parents`, -1 for the
    text, and are seen behind them on their own branch. Penalty 1 changes nothing; `logits` is left
    unchanged. The host waits for nothing.
    """
    if penalty == 1.0:
        return logits
    seen = [seen_in(text, logits)]
    tokens = sent(guesses, logits.device)
    rows = range(-1, len(tokens) - 1) if parents is None else parents
    for guess, parent in enumerate(rows):
        seen.append(seen[parent + 1].index_fill(0, tokens[guess : guess + 1], True))
    return penalised(logits, torch.stack(seen), penalty)


def seen_in(text: Sequence[int], like: Tensor) -> Tensor:
    """Which tokens (V,) are in a text, on the device and in the width of `like` (…, V)."""
    nothing = torch.zeros(like.shape[-1], dtype=torch.bool, device=like.device)
    return nothing.index_fill(0, sent(text, like.device), True)


def penalised(logits: Tensor, seen: Tensor, penalty: float | Tensor) -> Tensor:
    """Divide the logits of tokens `seen` by the penalty, or multiply those that are negative.

    After Keskar et al. 2019, CTRL, section 4.1, as in transformers, where the prompt counts too.
    """
    return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def process(
    logits: Tensor, temperature: float, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0
) -> Tensor:
    """Turn logits (..., V) into the law drawn from: temperature, top-k, top-p, then min-p.

    Temperature 0 is the one-hot limit (the first of equal maxima). At least one token always
    keeps probability; ties at the k-th logit are all kept, and among equals at the edge of
    top-p the higher id stays, both as in transformers. `min_p` keeps what has at least that share
    of the likeliest token's probability. `top_k` 0, `top_p` 1 and `min_p` 0 filter nothing.
    `logits` is left unchanged. A row with a logit that is no number becomes a law without mass,
    or one of no numbers: `verification.pick` refuses both.
    """
    if temperature <= COLDEST:
        return certain(logits)
    return filtered(
        logits, temperature, top_k, top_p if top_p < 1.0 else None, min_p if min_p > 0 else None
    )


def certain(logits: Tensor) -> Tensor:
    """The one-hot laws (..., V) of the first of each row's highest logits."""
    highest = logits.max(-1, keepdim=True)
    mass = torch.ones_like(highest.values).masked_fill(highest.values.isnan(), 0.0)
    return torch.zeros_like(logits).scatter_(-1, highest.indices, mass)


def filtered(
    logits: Tensor,
    temperature: float | Tensor,
    top_k: int,
    top_p: float | Tensor | None,
    min_p: float | Tensor | None,
) -> Tensor:
    """As `process` above temperature 0; None filters nothing, numbers may lie on the device (0-d).

    With those the host waits for nothing.
    """
    scores = logits / temperature
    if top_k > 0:
        kept = min(top_k, scores.shape[-1])
        edge = scores.topk(kept, dim=-1).values[..., -1:]
        scores = scores.masked_fill(scores < edge, -math.inf)
    probs = scores.softmax(-1)
    if top_p is not None:
        if isinstance(top_p, Tensor):
            inside = sorted_nucleus(probs, 1.0 - top_p)
        else:
            rows = [nucleus(row, top_p) for row in probs.reshape(-1, probs.shape[-1])]
            inside = torch.stack(rows).reshape(probs.shape)
        scores = scores.masked_fill(~inside, -math.inf)
        probs = scores.softmax(-1)
    if min_p is not None:
        unlikely = probs < min_p * probs.amax(-1, keepdim=True)
        probs = scores.masked_fill(unlikely, -math.inf).softmax(-1)
    return probs


def nucleus(probs: Tensor, top_p: float) -> Tensor:
    """Mask (V,) of the smallest set of likeliest tokens whose mass reaches `top_p`.

    A token below (1 - top_p) / V cannot be in it, since all such together weigh less than what
    may be dropped; only the others are sorted, which makes a 49,152-token law 20x cheaper. On
    CUDA, asking how many are left would cost more than sorting all.
    """
    droppable = 1.0 - top_p
    if probs.is_cuda:
        return sorted_nucleus(probs, droppable)
    hopeless = probs < droppable / len(probs)
    candidates = (~hopeless).nonzero().squeeze(-1)
    ascending = probs[candidates].sort(stable=True)
    dropped = probs[hopeless].sum() + ascending.values.cumsum(0)
    above = dropped > droppable
    above[-1] = True  # the likeliest token always stays
    mask = probs.isnan()  # nothing, unless this is no law: then nothing is dropped
    mask[candidates[ascending.indices[above]]] = True
    return mask


def sorted_nucleus(probs: Tensor, droppable: float | Tensor) -> Tensor:
    """As `nucleus`, of every law (..., V), by sorting them whole: the host waits for nothing."""
    ascending = probs.sort(dim=-1, stable=True)
    above = ascending.values.cumsum(-1) > droppable
    above[..., -1:] = True
    return torch.zeros_like(above).scatter_(-1, ascending.indices, above) | probs.isnan()


def one_hot(token: int, like: Tensor) -> Tensor:
    """The law of a drafter that does not sample, in the shape (V,) and type of `like`."""
    probs = torch.zeros_like(like)
    probs[token] = 1.0
    return probs


def mix(draft_probs: Tensor, unigram_probs: Tensor, weight: float) -> Tensor:
    """weight * draft law + (1 - weight) * unigram law: the quality dial, in [0, 1]."""
    if weight >= 1.0:
        return draft_probs
    return torch.lerp(unigram_probs.to(draft_probs), draft_probs, weight)
