"""A lean Llama: weights in a few stacked tensors, one sequence, a cache rolled back by length.

`Runner.forward` feeds tokens at explicit positions and returns their logits; `rollback`
forgets rows by moving one counter. How the arithmetic is done is a `Kernel`'s business
(see `kernels`); the plain-torch one here runs on every device and in every precision.

Knows nothing of drafting, sampling or text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.lowbit import Codes

Matrix = Tensor | Codes
"""A stack of weight matrices: in full, or as a low-bit copy holds them."""


class ModelError(ValueError):
    """A folder this program cannot run as a model; the message is one clear sentence."""


class ContextFullError(ValueError):
    """Feeding these tokens would run past the context limit."""


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Shape of a Llama-type model. `context` is the longest sequence it was trained for."""

    vocab_size: int
    hidden_size: int
    mlp_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    norm_eps: float
    context: int

    @classmethod
    def from_folder(cls, folder: Path) -> LlamaConfig:
        """Read ``config.json`` as Hugging Face writes it. Raises ModelError."""
        try:
            body = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ModelError(f"{folder} has no readable config.json: {error}") from error
        return cls.from_dict(body)

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> LlamaConfig:
        """Take the fields of a Hugging Face config. Raises ModelError when they are not ours."""
        kind = body.get("model_type")
        rope = body.get("rope_parameters") or body.get("rope_scaling") or {}
        if kind != "llama":
            raise ModelError(f"model type {kind!r} is not supported: only 'llama' is")
        if rope.get("rope_type", rope.get("type", "default")) != "default":
            raise ModelError("scaled rotary positions are not supported")
        if body.get("attention_bias") or body.get("mlp_bias"):
            raise ModelError("projections with a bias are not supported")
        kinds = body.get("layer_types") or ()
        if body.get("sliding_window") or any(kind != "full_attention" for kind in kinds):
            raise ModelError(
                "layers that forget (a sliding window, a recurrent state) are not supported: a "
                "rejected guess could not be taken back"
            )
        try:
            heads = int(body["num_attention_heads"])
            hidden = int(body["hidden_size"])
            return cls(
                vocab_size=int(body["vocab_size"]),
                hidden_size=hidden,
                mlp_size=int(body["intermediate_size"]),
                layers=int(body["num_hidden_layers"]),
                heads=heads,
                kv_heads=int(body.get("num_key_value_heads") or heads),
                head_dim=int(body.get("head_dim") or hidden // heads),
                rope_theta=float(body.get("rope_theta") or rope.get("rope_theta", 10000.0)),
                norm_eps=float(body["rms_norm_eps"]),
                context=int(body["max_position_embeddings"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"config.json lacks or garbles {error}") from error

    @property
    def qkv_size(self) -> int:
        """Rows of the fused query, key and value projection."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim


@dataclass(frozen=True, slots=True)
class Weights:
    """Every tensor of a model, stacked over layers (L first), projections fused.

    embedding (V, hidden) · attention_norm, mlp_norm (L, hidden) · qkv (L, qkv, hidden) ·
    output (L, hidden, heads·dim) · gate_up (L, 2·mlp, hidden) · down (L, hidden, mlp) ·
    norm (hidden) · head (V', hidden). `vocab_ids` (V') names the ids a reduced head scores;
    None means the head covers the whole vocabulary in order.
    """

    config: LlamaConfig
    embedding: Tensor
    attention_norm: Tensor
    qkv: Matrix
    output: Matrix
    mlp_norm: Tensor
    gate_up: Matrix
    down: Matrix
    norm: Tensor
    head: Matrix
    vocab_ids: Tensor | None = None

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Weights:
        """Read a Hugging Face folder's safetensors. Raises ModelError naming what is wrong."""
        config = LlamaConfig.from_folder(folder)
        return cls.from_tensors(config, _read_safetensors(folder), dtype, device)

    @classmethod
    def from_tensors(
        cls,
        config: LlamaConfig,
        tensors: dict[str, Tensor],
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
        embedding: Tensor | None = None,
    ) -> Weights:
        """Stack and fuse tensors named as Hugging Face names them, with or without ``model.``.

        `embedding`, when given, is the target's, shared by a drafter that has none of its own.
        A ``vocab_ids`` tensor makes the head those rows of the embedding.
        """
        named = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}

        def take(name: str) -> Tensor:
            try:
                return named[name].to(device=device, dtype=dtype)
            except KeyError:
                raise ModelError(f"the weights lack {name}") from None

        def stack(*names: str) -> Tensor:
            parts = [[f"layers.{i}.{name}.weight" for name in names] for i in range(config.layers)]
            rows = sum(take(name).shape[0] for name in parts[0])
            shape = (config.layers, rows, *take(parts[0][0]).shape[1:])
            stacked = _empty(shape, dtype, device)
            for layer, layer_names in zip(stacked, parts, strict=True):
                torch.cat([take(name) for name in layer_names], out=layer)
            return stacked

        if embedding is None:
            table = _empty((config.vocab_size, config.hidden_size), dtype, device)
            table.copy_(take("embed_tokens.weight"))
        else:
            table = embedding
        ids = named.get("vocab_ids")
        head = take("lm_head.weight") if "lm_head.weight" in named else table
        weights = cls(
            config=config,
            embedding=table,
            attention_norm=stack("input_layernorm"),
            qkv=stack("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            output=stack("self_attn.o_proj"),
            mlp_norm=stack("post_attention_layernorm"),
            gate_up=stack("mlp.gate_proj", "mlp.up_proj"),
            down=stack("mlp.down_proj"),
            norm=take("norm.weight"),
            head=head if ids is None else table[ids.long().to(table.device)].contiguous(),
            vocab_ids=None if ids is None else ids.long().to(device),
        )
        weights.check_shapes()
        return weights

    def check_shapes(self) -> None:
        """Raise ModelError unless every tensor has the shape the config promises."""
        c = self.config
        expected = {
            "embedding": (c.vocab_size, c.hidden_size),
            "qkv": (c.layers, c.qkv_size, c.hidden_size),
            "output": (c.layers, c.hidden_size, c.heads * c.head_dim),
            "gate_up": (c.layers, 2 * c.mlp_size, c.hidden_size),
            "down": (c.layers, c.hidden_size, c.mlp_size),
        }
        for name, shape in expected.items():
            if tuple(getattr(self, name).shape) != shape:
                found = tuple(getattr(self, name).shape)
                raise ModelError(f"{name} has shape {found}, the config promises {shape}")

    def first_layers(self, count: int) -> Weights:
        """The model cut after its first `count` layers; shares memory with this one."""
        if not 1 <= count <= self.config.layers:
            raise ValueError(f"layers must be 1 to {self.config.layers}, not {count}")
        return replace(
            self,
            config=replace(self.config, layers=count),
            attention_norm=self.attention_norm[:count],
            qkv=self.qkv[:count],
            output=self.output[:count],
            mlp_norm=self.mlp_norm[:count],
            gate_up=self.gate_up[:count],
            down=self.down[:count],
        )


def _empty(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensor:
    """Uninitialised memory; for float32 on a CPU numpy's, which asks Linux for large pages.

    Reading weights is what decoding waits for, and small pages slow it down.
    """
    if device == "cpu" and dtype == torch.float32:
        return torch.from_numpy(np.empty(shape, np.float32))
    return torch.empty(shape, dtype=dtype, device=device)


def _read_safetensors(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(f"{folder} holds no .safetensors weights; other formats are not opened")
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            tensors |= load_file(file)
        except Exception as error:
            raise ModelError(f"{file.name} is not a whole safetensors file: {error}") from error
    return tensors


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


def _dense(matrix: Matrix) -> Tensor:
    return matrix.dense() if isinstance(matrix, Codes) else matrix


class TorchKernel:
    """The layers in stock torch operations: any device, any precision."""

    name = "torch"

    def __init__(self, weights: Weights, context: int) -> None:
        self.weights = weights
        self._context = context
        self._qkv, self._output, self._gate_up, self._down, self._head = (
            _dense(matrix)
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
        logits = self.kernel.logits(hidden[-1:] if last_only else hidden)
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
