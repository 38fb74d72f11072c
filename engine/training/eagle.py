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

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.training.corpus import Ids
from engine.training.model import Decoder, Passes, Shape, rotary
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
        self, embedded: Tensor, features: Tensor, lengths: Sequence[int], depth: int
    ) -> list[Tensor]:
        """Final hidden states (T, H) of `depth` passes; `features` (T, H) are the target's own."""
        (layer,) = self.layers
        angles = rotary(self.shape, lengths)
        earlier: Passes = []
        outputs: list[Tensor] = []
        for _ in range(depth):
            x = self.fuse(embedded, delayed(features, lengths)).float()
            features = self.norm(layer(x, angles, lengths, earlier))
            outputs.append(features)
        return outputs


def delayed(features: Tensor, lengths: Sequence[int]) -> Tensor:
    """Packed features (T, H), each moved to the token after it; zero at a first token."""
    moved = features.roll(1, 0)
    starts = torch.tensor([0, *lengths[:-1]]).cumsum(0)
    return moved.index_fill(0, starts, 0.0)


class Eagle(Student):
    """An EAGLE drafter in training; `target.hidden` gives it the features."""

    kind = "eagle"
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


class Mtp(Eagle):
    """A multi-token prediction module: the same make, taught one token beyond the target's next.

    Normalised embedding and feature, a projection, one block and the shared head (DeepSeek-V3,
    2024, section 2.2; its two norms' weights are part of the projection). Theirs is trained with
    the trunk, this one on the finished, frozen trunk. It never saw its own guesses: chained for
    more than one, it reads features unlike any it was trained on.
    """

    kind = "mtp"
    origin = (
        "A multi-token prediction module trained on the frozen, finished target: one decoder "
        "layer behind a projection of a token's embedding and the target's feature of the token "
        "before it, trained on that one guess and chained for more. It is what EAGLE is before "
        "it is trained on its own guesses, and began in the same way."
    )
