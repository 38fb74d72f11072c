"""A Llama's weights: a few stacked tensors, read from a Hugging Face folder and checked.

Knows shapes and names; nothing of computing with them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine import lowbit
from engine.lowbit import Codes

Matrix = Tensor | Codes
"""A stack of weight matrices: in full, or as codes."""


def dense(matrix: Matrix) -> Tensor:
    """The matrix in full."""
    return matrix.dense() if isinstance(matrix, Codes) else matrix


class ModelError(ValueError):
    """A folder this program cannot run as a model; the message is one clear sentence."""


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

    @property
    def bits(self) -> int:
        """Bits one weight of the layers' matrices takes."""
        return self.qkv.bits if isinstance(self.qkv, Codes) else 8 * self.qkv.element_size()

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Weights:
        """Read a Hugging Face folder's safetensors. Raises ModelError naming what is wrong."""
        config = LlamaConfig.from_folder(folder)
        return cls.from_tensors(config, _read_safetensors(folder), dtype, device)

    @classmethod
    def from_tensors(
        cls,
        config: LlamaConfig,
        tensors: Mapping[str, Matrix],
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
        embedding: Tensor | None = None,
    ) -> Weights:
        """Stack and fuse tensors named as Hugging Face names them, with or without ``model.``.

        `embedding`, when given, is the target's, shared by a drafter that has none of its own.
        A ``vocab_ids`` tensor makes the head those rows of the embedding. Matrices given as codes
        stay codes; the embedding is decoded.
        """
        named = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}

        def find(name: str) -> Matrix:
            try:
                return named[name]
            except KeyError:
                raise ModelError(f"the weights lack {name}") from None

        def take(name: str) -> Tensor:
            return dense(find(name)).to(device=device, dtype=dtype)

        def stack(*names: str) -> Tensor:
            parts = [[f"layers.{i}.{name}.weight" for name in names] for i in range(config.layers)]
            rows = sum(take(name).shape[0] for name in parts[0])
            shape = (config.layers, rows, *take(parts[0][0]).shape[1:])
            stacked = lowbit.on_large_pages(shape, dtype, device)
            for layer, layer_names in zip(stacked, parts, strict=True):
                torch.cat([take(name) for name in layer_names], out=layer)
            return stacked

        def matrices(*names: str) -> Matrix:
            layers = [
                [find(f"layers.{i}.{name}.weight") for name in names] for i in range(config.layers)
            ]
            coded = [[part for part in layer if isinstance(part, Codes)] for layer in layers]
            if any(len(layer) < len(names) for layer in coded):
                return stack(*names)
            return lowbit.stack(lowbit.join(layer) for layer in coded)

        if embedding is None:
            table = lowbit.on_large_pages((config.vocab_size, config.hidden_size), dtype, device)
            table.copy_(take("embed_tokens.weight"))
        else:
            table = embedding
        ids = dense(named["vocab_ids"]).long().to(device) if "vocab_ids" in named else None
        scores = named.get("lm_head.weight", named.get("embed_tokens.weight"))
        head: Matrix = table
        if ids is not None:
            head = table[ids].contiguous()
        elif isinstance(scores, Codes):
            head = lowbit.stack([scores])[0]
        elif "lm_head.weight" in named:
            head = take("lm_head.weight")
        weights = cls(
            config=config,
            embedding=table,
            attention_norm=stack("input_layernorm"),
            qkv=matrices("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            output=matrices("self_attn.o_proj"),
            mlp_norm=stack("post_attention_layernorm"),
            gate_up=matrices("mlp.gate_proj", "mlp.up_proj"),
            down=matrices("mlp.down_proj"),
            norm=take("norm.weight"),
            head=head,
            vocab_ids=ids,
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
