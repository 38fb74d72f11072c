"""Medusa: heads that each guess one place further ahead from the same feature of the target.

Head n reads the target's final hidden state of the last token it has read and guesses the token
n + 1 places on; the next one is the target's own affair (Cai et al. 2024, Medusa, section 3.1).
No head sees the guesses of the others. Each is a linear map into the target's feature space and
a residual block, which starts silent; all write through the target's frozen embedding.

The maps begin as least-squares answers: of all linear guesses at the feature some places on,
the best. Since logits are linear in features, that is a guess at the mean of the logits.

Once trained, they get the tree that `medusa-tree` drafts: the one that would have accepted most on
text they learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.arguments import MAX_K
from engine.training import rounds
from engine.training.corpus import Corpus, Ids
from engine.training.eagle import RIDGE, delayed
from engine.training.model import Shape
from engine.training.recipe import Recipe
from engine.training.student import Student
from engine.training.teacher import Target, predicting

HEADS = 4
TREE_K = (1, 4, 8, 16)  # sizes of the tree that the card has figures of


class Head(nn.Module):
    """One head: features (T, H) to a guess at the feature some places on."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.map = nn.Linear(hidden, hidden, bias=False)
        self.block = nn.Linear(hidden, hidden, bias=False)
        nn.init.zeros_(self.block.weight)

    def forward(self, features: Tensor) -> Tensor:
        mapped = self.map(features)
        out: Tensor = mapped + F.silu(self.block(mapped))
        return out


class Heads(nn.Module):
    """All heads; parameters are ``heads.{n}.map.weight`` and ``heads.{n}.block.weight``."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Head(shape.hidden) for _ in range(HEADS))


class Medusa(Student):
    """Medusa heads in training; `target.hidden` gives them the features."""

    kind = "medusa"
    usual = Recipe(layers=1, unroll=HEADS)
    origin = (
        f"{HEADS} heads, each a linear map and a residual block on the target's last feature, that "
        "guess one place further ahead each, without knowing the others' guesses. The maps began "
        "as least-squares answers, the blocks silent."
    )
    norm_scale = 1.0
    depth = HEADS

    def __init__(self, target: Target, layers: int, vocab_ids: Tensor) -> None:
        super().__init__(target, layers, vocab_ids)
        self.features = target.hidden

    def make_decoder(self, shape: Shape) -> nn.Module:
        return Heads(shape)

    @torch.no_grad()
    def begin(self, target: Target, rows: Sequence[Ids]) -> None:
        """Solve each head's map for the feature it is after."""
        for places, head in enumerate(self._heads, 1):
            squares = products = torch.zeros(self.shape.hidden, self.shape.hidden)
            for row in rows:
                features = self.features([row])
                # The first token's feature is like no other's: it only says where a text begins.
                given, wanted = features[1:-places], features[1 + places :]
                squares = squares + given.T @ given
                products = products + given.T @ wanted
            ridge = RIDGE * squares.diagonal().mean() * torch.eye(len(squares))
            head.map.weight.copy_(torch.linalg.solve(squares + ridge, products).T)

    def ahead(self, rows: Sequence[Ids], depth: int) -> list[Tensor]:
        lengths = [len(row) for row in rows]
        features = self.features(rows)
        outputs = []
        for head in self._heads[: min(depth, HEADS)]:
            features = delayed(features, lengths)
            outputs.append(head(features).float())
        return outputs

    def settle(
        self, corpus: Corpus, learned: Sequence[int], held_out: Sequence[int]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tree to draft, as paths of ranks, best first, and what it accepts."""
        tree = rounds.best_tree(self.ranks(corpus, learned), MAX_K)
        ranks = self.ranks(corpus, held_out)
        lengths = {
            str(k): round(rounds.mean_acceptance_length(rounds.tree_histogram(ranks, tree[:k])), 4)
            for k in TREE_K
        }
        return {"tree": tree}, {"tree_tokens_per_round": lengths}

    @torch.no_grad()
    def ranks(self, corpus: Corpus, rows: Sequence[int]) -> list[rounds.Ranks]:
        """Where in each head's order the tokens of the replies in these rows stand."""
        found = []
        for row in rows:
            positions = predicting(corpus, [row])
            written = torch.tensor(corpus.reply(row).astype(np.int64))
            places = torch.searchsorted(self.vocab_ids, written).clamp(max=len(self.vocab_ids) - 1)
            known = self.vocab_ids[places] == written
            lines = []
            for hidden in self.ahead([corpus.row(row)], HEADS):
                logits = self.logits(hidden[positions])
                above = (logits > logits.gather(-1, places[:, None])).sum(-1)
                lines.append(above.masked_fill(~known, -1))
            found.append(torch.stack(lines).cpu().numpy())
        return found

    @property
    def _heads(self) -> list[Head]:
        assert isinstance(self.decoder, Heads)
        return [head for head in self.decoder.heads if isinstance(head, Head)]
