"""EAGLE: one decoder layer that reads the target's features and, further ahead, its own.

Row i joins the embedding of token i with the target's final hidden state of token i - 1 and
guesses token i + 1 (Li et al. 2024, EAGLE, section 4.1). No round has the target's feature of
a token it has only guessed; there the layer's own last output stands in. So training repeats
what drafting does: the n-th pass over a row reads the outputs of the pass before, and attends
to true rows as far back as a round's n-th guess would (EAGLE-3, Li et al. 2025, section 3.2).

Either half of the input is brought to unit size first, so that a target's feature and an own
one, under a calmer norm, are alike. At the start the layer is the target's last; the fusion is
the least-squares answer to what the target itself feeds that layer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.training.corpus import Ids
from engine.training.model import Decoder, KeysAndValues, Layer, Shape, rotary
from engine.training.recipe import Recipe
from engine.training.student import NORM_SCALE, Student, packed
from engine.training.teacher import Target

RIDGE = 1e-3  # of the mean square of the inputs, which is 1


class EagleDecoder(Decoder):
    """One layer behind a fusion of two inputs. Parameters: Decoder's and ``fusion.weight``."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.fusion = nn.Linear(2 * shape.hidden, shape.hidden, bias=False)

    def fuse(self, embedded: Tensor, features: Tensor) -> Tensor:
        """The layer's input (T, H) of tokens' embeddings and the features before them."""
        out: Tensor = self.fusion(self.inputs(embedded, features))
        return out

    def inputs(self, embedded: Tensor, features: Tensor) -> Tensor:
        """Both halves at unit size, side by side: (T, 2H)."""
        size, eps = (self.shape.hidden,), self.shape.norm_eps
        return torch.cat(
            [F.rms_norm(half.float(), size, None, eps) for half in (embedded, features)], -1
        )

    def ahead(
        self,
        embedded: Tensor,
        features: Tensor,
        lengths: Sequence[int],
        depth: int,
        skipped: Sequence[int] | None = None,
    ) -> list[Tensor]:
        """Final hidden states (n, H) of `depth` passes; `features` (T, H) are the target's own.

        Of each sequence so many first rows can be `skipped`: they are seen, and make nothing. A
        pass reads what the one before made a row earlier, so the n-th has nothing to say in the
        n - 1 rows after those.
        """
        layer = self.layers[0]
        assert isinstance(layer, Layer)
        attention, dtype = layer.self_attn, self.fusion.weight.dtype
        skipped = skipped or [0] * len(lengths)
        counts = [length - without for length, without in zip(lengths, skipped, strict=True)]
        starts = np.cumsum([0, *lengths[:-1]])
        rows = torch.cat(
            [
                torch.arange(start + without, start + length)
                for start, without, length in zip(starts, skipped, lengths, strict=True)
            ]
        )
        angles = rotary(self.shape, lengths)
        own_angles = angles[0][rows], angles[1][rows]
        x = self.fuse(embedded, delayed(features, lengths)).float()
        normed = layer.input_layernorm(x, dtype)
        true = attention.keys_and_values(normed, angles)
        x, normed = x[rows], normed[rows]
        later: KeysAndValues = []
        outputs: list[Tensor] = []
        for number in range(depth):
            if number:
                x = self.fuse(embedded[rows], delayed(outputs[-1], counts)).float()
                normed = layer.input_layernorm(x, dtype)
                later.append(attention.keys_and_values(normed, own_angles))
            queries = torch.split(attention.queries(normed, own_angles), counts)
            known, guessed = each_sequence([true], list(lengths)), each_sequence(later, counts)
            mixed = [
                look(own, seen, passes)
                for own, (seen,), passes in zip(queries, known, guessed, strict=True)
            ]
            x = x + attention.o_proj(torch.cat(mixed))
            x = x + layer.mlp(layer.post_attention_layernorm(x, dtype))
            outputs.append(self.norm(x))
        return outputs


def each_sequence(passes: KeysAndValues, lengths: list[int]) -> list[KeysAndValues]:
    """Packed keys and values of some passes, taken apart: for each sequence those of all passes."""
    parts = [(torch.split(keys, lengths), torch.split(values, lengths)) for keys, values in passes]
    return [[(keys[n], values[n]) for keys, values in parts] for n in range(len(lengths))]


def look(queries: Tensor, true: tuple[Tensor, Tensor], later: KeysAndValues) -> Tensor:
    """What the last of several passes over a sequence mixes: (n, H).

    `true` are keys and values (L, kv heads, D) of the first pass, `queries` (n, heads, D) those of
    the last n rows, of which the `later` passes have theirs. With p of these, a row is the guess
    p + 1 of a round: it sees the true rows that were known then, those at least p rows back, and
    of each later pass the one row that guessed there.
    """
    keys, values = (part.transpose(0, 1) for part in true)  # (kv heads, L, D)
    rows, length, size = len(queries), keys.shape[1], queries.shape[2]
    grouped = queries.view(rows, len(keys), -1, size).permute(1, 2, 0, 3)  # (kv heads, …, n, D)
    row = torch.arange(rows)
    unknown = row[:, None] + length - rows - len(later) < torch.arange(length)
    scores = grouped.reshape(len(keys), -1, size) @ keys.mT
    columns = [scores.view(*grouped.shape[:3], length).float().masked_fill(unknown, -torch.inf)]
    guessed = []
    for back, (own_keys, own_values) in enumerate(reversed(later)):
        score = (grouped * own_keys.roll(back, 0).transpose(0, 1)[:, None]).float().sum(-1)
        columns.append(score.masked_fill(row < back, -torch.inf)[..., None])
        guessed.append(own_values.roll(back, 0).transpose(0, 1)[:, None])
    weights = torch.softmax(torch.cat(columns, -1) * size**-0.5, -1).to(values.dtype)
    of_true = weights[..., :length].reshape(len(keys), -1, length)
    mixed = (of_true @ values).view(grouped.shape)
    for number, value in enumerate(guessed, length):
        mixed = mixed + weights[..., number, None] * value
    return mixed.permute(2, 0, 1, 3).reshape(rows, -1)


def delayed(features: Tensor, lengths: Sequence[int]) -> Tensor:
    """Packed features (T, H), each moved to the token after it; zero at a first token."""
    moved = features.roll(1, 0)
    starts = torch.tensor([0, *lengths[:-1]]).cumsum(0)
    return moved.index_fill(0, starts, 0.0)


class Eagle(Student):
    """An EAGLE drafter in training; `target.hidden` gives it the features."""

    kind = "eagle"
    usual = Recipe(layers=1, unroll=3)
    origin = (
        "One decoder layer that began as the target's last, behind a fusion of a token's embedding "
        "with the target's feature of the token before it; the fusion began as the least-squares "
        "answer to what the target itself feeds that layer."
    )
    depth = 4
    decoder: EagleDecoder

    def __init__(self, target: Target, layers: int, vocab_ids: Tensor) -> None:
        if layers != 1:
            raise ValueError("an EAGLE drafter has one layer")
        super().__init__(target, layers, vocab_ids)
        self.features = target.hidden

    def make_decoder(self, shape: Shape) -> nn.Module:
        return EagleDecoder(shape)

    @torch.no_grad()
    def begin(self, target: Target, rows: Sequence[Ids]) -> None:
        """Start as the target's last layer, fed what best resembles its own input there."""
        self.decoder.layers[0].load_state_dict(target.decoder.layers[-1].state_dict())
        self.decoder.norm.weight.copy_(target.decoder.norm.weight * NORM_SCALE)
        squares = torch.zeros(2 * self.shape.hidden, 2 * self.shape.hidden)
        products = torch.zeros(2 * self.shape.hidden, self.shape.hidden)
        for row in rows:
            ids, lengths = packed([row])
            embedded = self.embedding[ids]
            wanted = target.decoder.stream(embedded, lengths, len(target.decoder.layers) - 1)
            features = delayed(self.features([row]), lengths)
            # A first token's stream is far larger than any other's, and has no feature before it.
            given = self.decoder.inputs(embedded, features)[1:]
            squares += given.T @ given
            products += given.T @ wanted[1:]
        squares += RIDGE * sum(len(row) for row in rows) * torch.eye(len(squares))
        self.decoder.fusion.weight.copy_(torch.linalg.solve(squares, products).T)

    def ahead(self, rows: Sequence[Ids], depth: int) -> list[Tensor]:
        ids, lengths = packed(rows)
        return self.decoder.ahead(
            self.embedding[ids], self.features(rows), lengths, min(depth, self.depth)
        )

    def practice(
        self, rows: Sequence[Ids], depth: int, positions: Tensor, source: np.random.Generator
    ) -> list[tuple[Tensor, Tensor]]:
        """As every student's, and nothing made of a prompt that no answer needs."""
        ids, lengths = packed(rows)
        starts = torch.tensor([0, *lengths[:-1]], device="cpu").cumsum(0)
        firsts = positions[torch.searchsorted(positions, starts)] - starts
        skipped = (firsts - (depth - 1)).clamp_min(0)
        before = skipped.cumsum(0)[torch.searchsorted(starts, positions, right=True) - 1]
        outputs = self.decoder.ahead(
            self.embedding[ids], self.features(rows), lengths, depth, skipped.tolist()
        )
        every = torch.arange(len(positions))
        return [(hidden[positions - before], every) for hidden in outputs]


class Mtp(Eagle):
    """A multi-token prediction module: the same make, taught one token beyond the target's next.

    Normalised embedding and feature, a projection, one block and the shared head (DeepSeek-V3,
    2024, section 2.2; its two norms' weights are part of the projection). Theirs is trained with
    the trunk, this one on the finished, frozen trunk. It never saw its own guesses: chained for
    more than one, it reads features unlike any it was trained on.
    """

    kind = "mtp"
    usual = Recipe(layers=1)
    origin = (
        "A multi-token prediction module trained on the frozen, finished target: one decoder "
        "layer behind a projection of a token's embedding and the target's feature of the token "
        "before it, trained on that one guess and chained for more. It is what EAGLE is before "
        "it is trained on its own guesses, and began in the same way."
    )
