"""PARD: a small model taught to guess several tokens at one go, behind rows that say nothing.

After the text come *mask* rows: learned vectors in the place of embeddings, at the positions of
tokens not yet known. Each sees the text and the mask rows before it, and guesses the token after
its own position (An et al. 2025, PARD, section 3). A round is one pass; what it costs in
acceptance is that no guess knows what the guesses before it came out as.

In training every token of a row could be the last one known. Most of these cases are dropped, the
more the further ahead (PARD's conditional drop: a mask row goes only with all those behind it), so
that a step costs about two plain ones. All cases of a row share one pass over its text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from engine.training.corpus import Ids
from engine.training.model import Decoder, Shape, angles_at
from engine.training.recipe import Recipe
from engine.training.student import Student, packed
from engine.training.teacher import Target

MASKS = 7
"""Mask rows that have a vector of their own; those further ahead use the last."""

SHARE = 0.4  # of the positions of a row that are practised with at least one mask row behind them
DECAY = 0.6  # of those with n mask rows, the share that has one more

Chains = tuple[Tensor, Tensor]
"""The mask rows behind one sequence, each (m,): the last known position before them, and which
mask row after it each is, from 1."""


class PardDecoder(Decoder):
    """Layers that read mask rows too. Parameters: Decoder's and ``masks`` (MASKS, hidden)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.masks = nn.Parameter(torch.zeros(MASKS, shape.hidden))

    def masked(
        self, embedded: Tensor, lengths: Sequence[int], chains: Sequence[Chains]
    ) -> tuple[Tensor, Tensor]:
        """Final hidden states of the text (T, H), and of all mask rows, packed as given."""
        rows, positions, sights = [], [], []
        of_text, of_masks, counts, start = [], [], [], 0  # where each kind's rows lie
        for part, (last, place) in zip(torch.split(embedded, list(lengths)), chains, strict=True):
            rows += [part.float(), self.masks[place.clamp(max=MASKS) - 1]]
            positions += [torch.arange(len(part)), last + place]
            sights.append(sight(len(part), last, place))
            of_text.append(torch.arange(start, start + len(part)))
            counts.append(len(part) + len(last))
            of_masks.append(torch.arange(start + len(part), start + counts[-1]))
            start += counts[-1]
        x = torch.cat(rows)
        angles = angles_at(self.shape, torch.cat(positions))
        for layer in self.layers:
            x = layer(x, angles, counts, sights=sights)
        out: Tensor = self.norm(x)
        return out[torch.cat(of_text)], out[torch.cat(of_masks)]


def sight(length: int, last: Tensor, place: Tensor) -> Tensor:
    """What the rows of a sequence and its mask rows see of each other (boolean, square).

    A mask row sees the text up to the last known position, and its own chain up to itself.
    """
    text = torch.arange(length)
    own = (last[:, None] == last[None, :]) & (place[:, None] >= place[None, :])
    of_text = torch.cat([text[:, None] >= text, torch.zeros(length, len(last)).bool()], 1)
    return torch.cat([of_text, torch.cat([last[:, None] >= text, own], 1)])


class Pard(Student):
    """A PARD drafter in training."""

    kind = "pard"
    usual = Recipe(unroll=8)
    origin = (
        "Layers of a Llama that began as those of `small`, and learned vectors that stand for "
        "tokens not yet known: one pass over the text and such rows gives all guesses of a round."
    )
    from_kinds = (Student.kind,)
    depth = 4
    decoder: PardDecoder

    def __init__(self, target: Target, layers: int, vocab_ids: Tensor) -> None:
        super().__init__(target, layers, vocab_ids)
        with torch.no_grad():  # as unremarkable as an embedding can be, at the size of one
            middle = self.head.mean(0)
            self.decoder.masks.copy_(middle / middle.norm() * self.head.norm(dim=1).mean())

    def make_decoder(self, shape: Shape) -> nn.Module:
        return PardDecoder(shape)

    def ahead(self, rows: Sequence[Ids], depth: int) -> list[Tensor]:
        ids, lengths = packed(rows)
        places = range(1, min(depth, self.depth))
        chains = [
            chosen([torch.arange(max(0, length - place)) for place in places]) for length in lengths
        ]
        text, masked = self.decoder.masked(self.embedding[ids], lengths, chains)
        parts = torch.split(text, lengths)
        by_place = [
            torch.split(each, [max(0, length - place) for place in places])
            for each, length in zip(
                torch.split(masked, [len(last) for last, _ in chains]), lengths, strict=True
            )
        ]
        # So near a row's first token no mask row can be so far behind a known one.
        further = [
            torch.cat(
                [
                    piece
                    for part, guessed in zip(parts, by_place, strict=True)
                    for piece in (part[:place], guessed[place - 1])
                ]
            )
            for place in places
        ]
        return [text, *further]

    def practice(
        self, rows: Sequence[Ids], depth: int, positions: Tensor, source: np.random.Generator
    ) -> list[tuple[Tensor, Tensor]]:
        ids, lengths = packed(rows)
        law = np.full(len(ids), -1)
        law[positions.numpy()] = np.arange(len(positions))
        chains, targets = [], []
        for laws in np.split(law, np.cumsum(lengths)[:-1]):
            chance = source.random(len(laws))
            picked = []
            for place in range(1, depth):
                first, ends = laws[:-place], laws[place:]
                lucky = chance[: len(ends)] < SHARE * DECAY ** (place - 1)
                picked.append(torch.tensor(np.flatnonzero((first >= 0) & (ends >= 0) & lucky)))
            chains.append(chosen(picked))
            targets.append(torch.tensor(laws)[sum(chains[-1])])
        text, masked = self.decoder.masked(self.embedding[ids], lengths, chains)
        return [
            (text[positions], torch.arange(len(positions))),
            (masked, torch.cat(targets)),
        ]


def chosen(last: Sequence[Tensor]) -> Chains:
    """Mask rows behind the positions given for the first, the second … of a chain."""
    places = [torch.full_like(each, place) for place, each in enumerate(last, 1)]
    nothing = [torch.zeros(0).long()]
    return torch.cat([*nothing, *last]), torch.cat([*nothing, *places])
