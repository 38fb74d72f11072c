"""A Llama decoder over *packed* sequences, for training and for the teacher's laws.

Sequences lie end to end in one (tokens, hidden) matrix, so that every linear layer is one
large product and no padding is ever computed; only attention looks at one sequence at a
time. There is no cache: decoding has its own runner. Knows nothing of text, losses or files.

Shapes in comments: T tokens of all sequences, H hidden size, D size of one head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.weights import LlamaConfig


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers that fix a Llama decoder."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    rope_theta: float
    norm_eps: float
    vocab_size: int
    context: int

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads

    @classmethod
    def of(cls, config: LlamaConfig) -> Shape:
        """The same numbers as the engine reads them."""
        return cls(
            layers=config.layers,
            hidden=config.hidden_size,
            intermediate=config.mlp_size,
            heads=config.heads,
            kv_heads=config.kv_heads,
            rope_theta=config.rope_theta,
            norm_eps=config.norm_eps,
            vocab_size=config.vocab_size,
            context=config.context,
        )


Angles = tuple[Tensor, Tensor]
KeysAndValues = list[tuple[Tensor, Tensor]]
"""Of one or more passes over the same rows, (T, kv heads, D) each."""
Sights = Sequence[Tensor]
"""For each packed sequence, which of its rows (columns) each of them (lines) sees: boolean."""


def rotary(shape: Shape, lengths: Sequence[int]) -> Angles:
    """Cosines and sines of every packed token's angle, each (T, 1, D), half-split layout."""
    return angles_at(shape, torch.cat([torch.arange(n) for n in lengths]))


def angles_at(shape: Shape, positions: Tensor) -> Angles:
    """As `rotary`, of rows that stand at given positions (T,)."""
    exponents = torch.arange(0, shape.head_size, 2).float() / shape.head_size
    angles = torch.outer(positions.float(), shape.rope_theta**-exponents)  # (T, D/2)
    angles = torch.cat((angles, angles), dim=-1)[:, None]
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn queries or keys x (T, heads, D) by their positions' angles."""
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)


class Norm(nn.Module):
    """RMS norm in fp32, handed on in the working precision of the layer that follows."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight.float(), self.eps).to(dtype)


class Attention(nn.Module):
    """Causal grouped-query attention, each packed sequence by itself."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        kv_size = shape.kv_heads * shape.head_size
        self.q_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.k_proj = nn.Linear(shape.hidden, kv_size, bias=False)
        self.v_proj = nn.Linear(shape.hidden, kv_size, bias=False)
        self.o_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)

    def queries(self, x: Tensor, angles: Angles) -> Tensor:
        """(T, heads, D) of x (T, H)."""
        return rotate(self.q_proj(x).unflatten(-1, (-1, self.shape.head_size)), *angles)

    def keys_and_values(self, x: Tensor, angles: Angles) -> tuple[Tensor, Tensor]:
        """(T, kv heads, D) each, of x (T, H)."""
        size = self.shape.head_size
        keys = rotate(self.k_proj(x).unflatten(-1, (-1, size)), *angles)
        return keys, self.v_proj(x).unflatten(-1, (-1, size))

    def forward(
        self, x: Tensor, angles: Angles, lengths: Sequence[int], sights: Sights | None = None
    ) -> Tensor:
        """Mix x (T, H). `sights` says what each row sees, where that is not all before it."""
        queries = self.queries(x, angles)
        keys, values = self.keys_and_values(x, angles)
        mixed = []
        start = 0
        for number, length in enumerate(lengths):
            rows = slice(start, start + length)
            start += length
            mixed.append(
                F.scaled_dot_product_attention(
                    queries[rows].transpose(0, 1)[None],
                    keys[rows].transpose(0, 1)[None],
                    values[rows].transpose(0, 1)[None],
                    attn_mask=None if sights is None else sights[number],
                    is_causal=sights is None,
                    enable_gqa=True,
                )[0].transpose(0, 1)
            )
        out: Tensor = self.o_proj(torch.cat(mixed).flatten(1))
        return out


class FeedForward(nn.Module):
    """The gated feed-forward half of a layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One decoder layer; the residual stream stays fp32 whatever the weights are."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden, shape.norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = Norm(shape.hidden, shape.norm_eps)
        self.mlp = FeedForward(shape)

    def forward(
        self,
        x: Tensor,
        angles: Angles,
        lengths: Sequence[int],
        sights: Sights | None = None,
    ) -> Tensor:
        dtype = self.mlp.gate_proj.weight.dtype
        normed = self.input_layernorm(x, dtype)
        x = x + self.self_attn(normed, angles, lengths, sights)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x, dtype))
        return out


class Decoder(nn.Module):
    """Layers and the final norm. Embedding and head stay outside: they are shared and frozen.

    Parameter names are Hugging Face's without the leading ``model.``.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.norm_eps)

    def forward(self, embedded: Tensor, lengths: Sequence[int]) -> Tensor:
        """Final normed hidden states (T, H), fp32, of packed inputs (T, H)."""
        out: Tensor = self.norm(self.stream(embedded, lengths, len(self.layers)))
        return out

    def stream(self, embedded: Tensor, lengths: Sequence[int], layers: int) -> Tensor:
        """The residual stream (T, H), fp32, after the first `layers` layers."""
        angles = rotary(self.shape, lengths)
        x = embedded.float()
        for layer in self.layers[:layers]:
            x = layer(x, angles, lengths)
        return x
