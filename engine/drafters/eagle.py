"""EAGLE: one layer that reads what the target made of the text, and beyond it what it made itself.

Row i joins the embedding of token i with the *feature* of token i - 1, the target's final hidden
state there, and guesses token i + 1 (Li et al. 2024, EAGLE, section 4.1). The target has no
feature of a token that is only guessed; there the layer's own output stands in. Rows read so are
good for one round: once the target has checked the guesses, accepted ones included, they are
read again with its true features. Nothing else is kept, and nothing is counted: what may stay is
what was read truly and is still the text.

Knows nothing of targets but their features, which come with each request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine import device_round
from engine.drafters.model import CATCH_UP
from engine.drafters.proposal import DraftRequest, Proposal, Step, chain, common_prefix
from engine.drafters.tree import Tree, grow
from engine.llama import Branches, Cache, Kernel, Runner, Weights
from engine.sending import sent
from engine.verification import ROOT


class RowsKernel(Kernel, Protocol):
    """A kernel that takes rows as well as ids."""

    def hidden_of(
        self, x: Tensor, start: int, cache: Cache, branches: Branches | None = None
    ) -> Tensor: ...


class FusedRunner(Runner):
    """A model whose input is not a token's embedding but what a fusion makes of two halves.

    `fusion` (hidden, 2·hidden) reads a token's embedding and the feature before it, each brought
    to unit size, so that a feature of the target's and one of this model's own are alike.
    """

    def __init__(self, weights: Weights, fusion: Tensor, context: int, kernel: RowsKernel) -> None:
        super().__init__(weights, context, kernel)
        self._fusion = fusion
        self._rows = kernel

    @torch.inference_mode()
    def read(
        self,
        ids: Sequence[int] | Tensor,
        features: Tensor,
        parents: Sequence[int] | None = None,
    ) -> Tensor:
        """Feed `ids`, the i-th with row i of `features` (n, hidden); logits (V,) after the last.

        `parents` as for `forward`. Raises ContextFullError before touching anything when they do
        not fit.
        """
        branches = self._branches_with(len(ids), parents)
        table = self.weights.embedding
        embedded = table[sent(ids, table.device)]
        size, eps = table.shape[1:], self.weights.config.norm_eps
        halves = [F.rms_norm(half, size, None, eps) for half in (embedded, features.to(table))]
        inputs = F.linear(torch.cat(halves, dim=-1), self._fusion)
        new = self._new(branches)
        hidden = self._rows.hidden_of(inputs, self.length, self.cache, new)
        return self._take(hidden, last_only=True, branches=branches)[-1]

    @property
    def last(self) -> Tensor:
        """The feature (1, hidden) this model itself made of the last token fed."""
        return self.hidden[self.length - 1 : self.length]


class EagleDrafter:
    """Drafts a chain with a fused model, given the target's features of the text."""

    def __init__(self, name: str, runner: FusedRunner) -> None:
        self.name = name
        self._runner = runner
        self._held: list[int] = []  # ids of the rows that were read with the target's features

    @property
    def context(self) -> int:
        return self._runner.context

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        """Guess; raises ValueError as `prepare`."""
        self.prepare(ids, request)
        return self._guess(ids, request)

    def prepare(self, ids: Sequence[int], request: DraftRequest) -> None:
        """Be ready to guess after the text `ids`: keep the rows that are still its own.

        `request.features` must cover `ids` but its last. Raises ValueError else.
        """
        features = request.features
        if features is None or len(features) < len(ids) - 1:
            raise ValueError("it drafts from the target's features, and this target shows none")
        kept = self.held(ids)
        self._runner.rollback(kept)
        del self._held[kept:]
        if len(ids) - 1 - kept > CATCH_UP:
            self._read(ids[kept:-1], request)[0].item()  # preparation, and waited for

    def held(self, ids: Sequence[int]) -> int:
        """How many rows of the text `ids` are read and still its own."""
        return common_prefix(self._held, ids[:-1])

    def step(self, text: Sequence[int], slot: int, request: DraftRequest) -> Step:
        """The law of the token after `text`, in which `slot` guesses follow what was prepared for.

        They are this round's steps before, one after another, and none is left out.
        """
        if slot:
            logits = self._runner.read(text[-1:], self._runner.last)
        else:
            logits = self._read(text[len(self._held) :], request)
        return request.said(logits, text, "model")

    def unread(self, ids: Sequence[int], request: DraftRequest, ahead: float = 0.0) -> Proposal:
        """A round's guesses left on the desk; `ahead` seconds were spent on it before."""
        missing = ids[len(self._held) :]

        def feed(fed: Sequence[int] | Tensor) -> Tensor:
            if fed is missing:
                return self._read(missing, request)
            return self._runner.read(fed, self._runner.last)

        return device_round.chain(feed, missing, request, ahead=ahead)

    def observe(self, ids: Sequence[int]) -> None:
        """Nothing yet: rows are read when the features to read them with are at hand."""

    def _guess(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        if request.desk is not None:
            return self.unread(ids, request)
        return chain(lambda text, slot: self.step(text, slot, request), ids, request)

    def _read(self, ids: Sequence[int], request: DraftRequest) -> Tensor:
        """Read tokens after those held, with the target's features; logits (V,) after them."""
        assert request.features is not None  # `prepare` looked
        logits = self._runner.read(ids, before(request.features, len(self._held), len(ids)))
        self._held.extend(ids)
        return logits


class EagleTreeDrafter(EagleDrafter):
    """Drafts a tree, k nodes where its model is surest of being right (see `tree.grow`).

    Each step reads one node with the feature the model made of the node's parent, in a cache row
    that follows its parent's. One row a step: a whole level at once would read more nodes than
    are wanted, and their number is what a step costs on a CPU.
    """

    def _guess(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        tree = Tree(ids, request)
        rows: dict[int, int] = {}  # the cache row of each node read

        def read(node: int) -> Tensor:
            if node == ROOT:
                logits = self._read(ids[len(self._held) :], request)
            else:
                row = rows[tree.parents[node]]
                feature = self._runner.hidden[row : row + 1]
                logits = self._runner.read([tree.tokens[node]], feature, [row])
            rows[node] = self._runner.length - 1
            return logits

        return tree.proposal("model", grow(tree, request.k, read))


def before(features: Tensor, first: int, count: int) -> Tensor:
    """The features (count, hidden) that go with tokens `first` …: of the token before each.

    Nothing precedes the first token of all: its feature is zero.
    """
    if first:
        return features[first - 1 : first - 1 + count]
    return torch.cat([features.new_zeros(1, features.shape[1]), features[: count - 1]])
