"""A lean Llama: one sequence, a cache rolled back by length, arithmetic by whoever does it best.

`Runner.forward` feeds tokens at explicit positions and returns their logits; `rollback`
forgets rows by moving one counter. How the arithmetic is done is a `Kernel`'s business
(see `kernels`); the plain-torch one here runs on every device and in every precision.

Knows nothing of drafting, sampling or text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.weights import LlamaConfig, ModelError, Weights, dense

__all__ = (
    "Cache", "ContextFullError", "Kernel", "LlamaConfig", "ModelError", "Runner", "TorchKernel",
    "Weights", "rope_table",
)  # fmt: skip


class ContextFullError(ValueError):
    """Feeding these tokens would run past the context limit."""


class Cache:
    """Keys and values of one sequence: two tensors (layers, kv heads, context, head dim).

    Preallocated; rows at and past a runner's length are scratch. Layers may be shared by a
    runner that uses only the first of them. `spare` rows past the context are scratch for passes
    of a fixed width.
    """

    def __init__(
        self,
        config: LlamaConfig,
        context: int,
        dtype: torch.dtype,
        device: str,
        spare: int = 0,
    ) -> None:
        shape = (config.layers, config.kv_heads, context + spare, config.head_dim)
        self.context = context
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)


class Kernel(Protocol):
    """A way to run the layers. `name` is shown to people."""

    name: str

    def hidden(self, ids: Sequence[int] | Tensor, start: int, cache: Cache) -> Tensor:
        """Feed `ids` at positions `start`…, writing their cache rows; (n, hidden) after norm."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Score rows (n, hidden) over the head: (n, V')."""

    def first_layers(self, count: int) -> Kernel:
        """The same way of computing, for the first `count` layers."""


def rope_table(config: LlamaConfig, context: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines (context, head_dim / 2) in float32, as transformers computes them."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequencies = 1.0 / (config.rope_theta**exponents)
    angles = torch.arange(context, dtype=torch.float32)[:, None] * frequencies[None, :]
    return angles.cos(), angles.sin()


class TorchKernel:
    """The layers in stock torch operations: any device, any precision."""

    name = "torch"

    def __init__(self, weights: Weights, context: int) -> None:
        self.weights = weights
        self._context = context
        self._qkv, self._output, self._gate_up, self._down, self._head = (
            dense(matrix)
            for matrix in (
                weights.qkv, weights.output, weights.gate_up, weights.down, weights.head
            )
        )  # fmt: skip
        like = weights.embedding
        cos, sin = rope_table(weights.config, context)
        self._cos = torch.cat((cos, cos), -1).to(like)  # (context, head_dim)
        self._sin = torch.cat((-sin, sin), -1).to(like)  # sign of rotate-half folded in

    def first_layers(self, count: int) -> TorchKernel:
        return TorchKernel(self.weights.first_layers(count), self._context)

    def hidden(self, ids: Sequence[int] | Tensor, start: int, cache: Cache) -> Tensor:
        table = self.weights.embedding
        return self.hidden_of(table[torch.as_tensor(ids, device=table.device)], start, cache)

    @torch.inference_mode()
    def hidden_of(self, x: Tensor, start: int, cache: Cache) -> Tensor:
        """As `hidden`, of rows (n, hidden) given in the place of embeddings."""
        seen = torch.arange(start + len(x), device=x.device)
        mask = seen[None, :] <= seen[start:, None]  # (n, end): row i sees positions <= start + i
        return self.layers(
            x, lambda layer, fused: self._attention(layer, fused, start, cache, mask)
        )

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self._head)

    def layers(self, x: Tensor, attend: Callable[[int, Tensor], Tensor]) -> Tensor:
        """Run rows (n, hidden) through every layer and the final norm.

        ``attend(layer, fused)`` is given a layer's queries, keys and values (n, heads + 2·kv heads,
        dim) and returns what its heads make of them (n, heads·dim).
        """
        w = self.weights
        for layer in range(w.config.layers):
            normed = self._norm(x, w.attention_norm[layer])
            fused = F.linear(normed, self._qkv[layer]).view(len(x), -1, w.config.head_dim)
            x = x + F.linear(attend(layer, fused), self._output[layer])
            normed = self._norm(x, w.mlp_norm[layer])
            gate, up = F.linear(normed, self._gate_up[layer]).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, self._down[layer])
        return self._norm(x, w.norm)

    def _attention(
        self, layer: int, fused: Tensor, start: int, cache: Cache, mask: Tensor
    ) -> Tensor:
        c = self.weights.config
        rows, end = fused.shape[0], start + fused.shape[0]
        fused = fused.transpose(0, 1)
        queries, keys = fused[: c.heads], fused[c.heads : c.heads + c.kv_heads]
        values = fused[c.heads + c.kv_heads :]
        cache.keys[layer, :, start:end] = self._rotate(keys, start, end)
        cache.values[layer, :, start:end] = values
        mixed = F.scaled_dot_product_attention(
            self._rotate(queries, start, end)[None],
            cache.keys[layer, :, :end][None],
            cache.values[layer, :, :end][None],
            attn_mask=mask,
            enable_gqa=True,
        )  # (1, heads, n, head_dim)
        return mixed[0].transpose(0, 1).reshape(rows, -1)

    def _rotate(self, heads: Tensor, start: int, end: int) -> Tensor:
        """Rotary positions on (heads, n, head_dim)."""
        swapped = torch.cat(heads.chunk(2, dim=-1)[::-1], dim=-1)
        return heads * self._cos[start:end] + swapped * self._sin[start:end]

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.weights.config.norm_eps)


class Runner:
    """One sequence through one model.

    `length` tokens have been fed and their cache rows are valid; and so are as many rows of
    `hidden` (context, hidden), their final hidden states, after the final norm.
    """

    def __init__(
        self,
        weights: Weights,
        context: int = 2048,
        kernel: Kernel | None = None,
        cache: Cache | None = None,
    ) -> None:
        context = min(context, weights.config.context)
        like = weights.embedding
        self.weights = weights
        self.kernel = kernel or TorchKernel(weights, context)
        self.cache = cache or Cache(weights.config, context, like.dtype, str(like.device))
        self.length = 0
        self.hidden = like.new_zeros(self.context, weights.config.hidden_size)

    @property
    def context(self) -> int:
        """Most tokens the cache can hold."""
        return self.cache.context

    def forward(self, ids: Sequence[int] | Tensor, last_only: bool = False) -> Tensor:
        """Feed `ids` after the rows held and return logits (n, vocab), or (1, vocab) of the last.

        Ids outside a reduced vocabulary score −inf. Raises ContextFullError before touching
        anything when they do not fit, ValueError when `ids` is empty.
        """
        if len(ids) == 0:
            raise ValueError("forward needs at least one token")
        self._check_room(len(ids))
        return self._take(self.kernel.hidden(ids, self.length, self.cache), last_only)

    def _check_room(self, count: int) -> None:
        if self.length + count > self.context:
            raise ContextFullError(
                f"{self.length} tokens held and {count} more exceed the context of {self.context}"
            )

    def _take(self, hidden: Tensor, last_only: bool) -> Tensor:
        """Count rows just computed as held, and score them."""
        end = self.length + len(hidden)
        self.hidden[self.length : end] = hidden
        self.length = end
        return self.score(hidden[-1:] if last_only else hidden)

    def score(self, hidden: Tensor) -> Tensor:
        """Logits (n, vocab) of final hidden states; −inf outside a reduced vocabulary."""
        logits = self.kernel.logits(hidden)
        return self._full_width(logits.to(torch.promote_types(logits.dtype, torch.float32)))

    def rollback(self, length: int) -> None:
        """Forget every row from `length` on. Equal to the present length: no change.

        Raises ValueError when fewer than `length` rows are held, or it is negative.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot roll back to {length}: {self.length} rows are held")
        self.length = length

    def adopt(self, length: int) -> None:
        """Count the first `length` rows as held: another runner on this cache has filled them."""
        if not 0 <= length <= self.context:
            raise ValueError(f"cannot adopt {length} rows of a cache of {self.context}")
        self.length = length

    def first_layers(self, count: int) -> Runner:
        """A runner of the first `count` layers on *this* runner's cache rows.

        Rows below the owner's length are already right for it (`adopt` them); rows it writes
        past that length are overwritten when the owner feeds the same positions.
        """
        kernel = self.kernel.first_layers(count)
        return Runner(self.weights.first_layers(count), self.context, kernel, self.cache)

    def _full_width(self, logits: Tensor) -> Tensor:
        ids = self.weights.vocab_ids
        if ids is None:
            return logits
        full = logits.new_full((logits.shape[0], self.weights.config.vocab_size), -torch.inf)
        full[:, ids] = logits
        return full
