"""PARD: all guesses of a round from one pass of a small model, at rows that stand for the unknown.

After the text come *mask* rows: learned vectors in the place of embeddings, at the positions of
tokens nobody knows yet. Each sees the text and the mask rows before it and says what follows its
own position (An et al. 2025, PARD). So K guesses cost one pass over a few rows more. A guess does
not know what the guesses before it came out as; it is drawn from the law of its own row, and that
law is what is verified.

A mask row stands for no token of the text, whatever becomes of its guess: none is ever counted as
held. The truly read rows before them stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine import device_round
from engine.drafters.eagle import RowsKernel
from engine.drafters.model import ModelDrafter
from engine.drafters.proposal import DraftRequest, Proposal, Step, chain, common_prefix
from engine.llama import Runner, Weights
from engine.sending import sent


class MaskRunner(Runner):
    """A model that can be asked about several tokens ahead.

    `masks` (n, hidden) are the rows that stand for unknown tokens, by how far ahead they lie;
    further ahead than there are, the last one does.
    """

    def __init__(self, weights: Weights, masks: Tensor, context: int, kernel: RowsKernel) -> None:
        super().__init__(weights, context, kernel)
        self._masks = masks
        self._rows = kernel

    @torch.inference_mode()
    def ahead(self, ids: Sequence[int], count: int) -> Tensor:
        """Feed `ids`, at least one; logits (count, V) of each of the `count` tokens after them.

        The mask rows behind `ids` are written past the rows held, and not held themselves. Raises
        ContextFullError before touching anything when they do not fit too.
        """
        self._branches_with(len(ids) + count - 1)  # is there room?
        table = self.weights.embedding
        known = table[sent(ids, table.device)]
        places = torch.arange(count - 1, device=table.device).clamp(max=len(self._masks) - 1)
        rows = torch.cat([known, self._masks[places]])
        hidden = self._rows.hidden_of(rows, self.length, self.cache)
        held = self.length + len(ids)
        self.hidden[self.length : held] = hidden[: len(ids)]
        self.length = held
        return self.score(hidden[len(ids) - 1 :])


class PardDrafter(ModelDrafter):
    """Drafts a chain with one pass of a model; what it holds is kept as any model's is."""

    def __init__(self, name: str, runner: MaskRunner) -> None:
        super().__init__(name, runner)
        self._masked = runner

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        self._keep(common_prefix(self._known, ids[:-1]))
        logits = self._said(ids[len(self._held) :], request.k)
        sources = ("model", *("mask",) * (request.k - 1))
        if request.desk is not None:
            drawn = device_round.chain(lambda _: next(logits), (), request, one_step=True)
            return replace(drawn, sources=sources)

        def step(text: list[int], slot: int) -> Step:
            return request.said(next(logits), text, sources[slot])

        return chain(step, ids, request).as_one_step()

    def _said(self, missing: Sequence[int], count: int) -> Iterator[Tensor]:
        """The logits (V,) of each token ahead; the pass is made when the first is wanted."""
        logits = self._masked.ahead(missing, count)
        self._held.extend(missing)
        yield from logits
