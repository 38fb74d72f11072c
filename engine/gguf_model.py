"""A GGUF Llama made into a Hugging Face folder: fp32 safetensors, tokenizer, configs.

The one place that knows GGUF. Values are dequantised exactly as the format defines them
(`gguf.quants`), so the folder holds the very model the file describes. A file of Q4_1 and Q8_0
blocks is kept as it is too, its bytes under Hugging Face's names: `read_blocks` makes codes of
them that decode to the same float32 values, since a 16-bit scale times a code of 8 bits or less
is exact and one rounding remains.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.lowbit import Codes, pair
from engine.weights import ModelError

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
BLOCKS_FILE = "model.blocks"
"""The file's own bytes, in the layout of safetensors."""

_BLOCK = 32  # weights of one block, both kinds
_BLOCK_KINDS = ("Q4_1", "Q8_0")
_SPECIAL_TOKEN_TYPE = 3  # gguf.TokenType.CONTROL


class GgufError(ValueError):
    """A GGUF file this program cannot convert; the message is one clear sentence."""


class NoBlocksError(ModelError):
    """A model folder that keeps no blocks."""


def convert(source: Path, folder: Path) -> None:
    """Write `source` into the existing `folder` as a Hugging Face model. Raises GgufError."""
    from gguf import GGUFReader
    from safetensors.numpy import save_file

    try:
        reader = GGUFReader(source)
    except (ValueError, OSError, IndexError) as error:
        raise GgufError(f"{source.name} is not a whole GGUF file: {error}") from error
    fields = {
        name: field.contents()
        for name, field in reader.fields.items()
        if name.startswith(("general.", "llama.", "tokenizer."))
    }
    if fields.get("general.architecture") != "llama":
        raise GgufError(f"architecture {fields.get('general.architecture')!r} is not supported")
    config = _config(fields)
    tensors = _tensors(reader, config)
    _write_tokenizer(fields, folder)
    _write_json(
        folder / "config.json", config | {"tie_word_embeddings": "lm_head.weight" not in tensors}
    )
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    stored, kinds = _stored(reader, config)
    if "Q4_1" in kinds.values() and {"F32", *_BLOCK_KINDS}.issuperset(kinds.values()):
        save_file(stored, folder / BLOCKS_FILE, metadata=kinds)


def read_blocks(folder: Path) -> dict[str, Tensor | Codes]:
    """The tensors of `convert`'s blocks, matrices as codes.

    Raises NoBlocksError when the folder has none, ModelError when they are damaged.
    """
    from safetensors import SafetensorError, safe_open

    if not (folder / BLOCKS_FILE).is_file():
        raise NoBlocksError(
            f"{folder} keeps no q4_1 weights: run `python main.py fetch --again` if it is the "
            "default target, which was converted before they were kept; other models have none."
        )
    tensors: dict[str, Tensor | Codes] = {}
    try:
        with safe_open(folder / BLOCKS_FILE, framework="pt") as file:
            for name, kind in file.metadata().items():
                stored = file.get_tensor(name)
                tensors[name] = stored if kind == "F32" else _codes(stored, kind)
    except SafetensorError as error:
        raise ModelError(f"{BLOCKS_FILE} is not whole: {error}") from error
    return tensors


def _codes(rows: Tensor, kind: str) -> Codes:
    """Rows of blocks (N, bytes) as codes with float lows.

    Q4_1: 16-bit scale and low, then 16 bytes with weights 0 … 15 in the low halves and 16 … 31 in
    the high ones. Q8_0: a 16-bit scale and 32 signed bytes.
    """
    factors = 2 if kind == "Q4_1" else 1
    blocks = rows.view(len(rows), -1, 2 * factors + (16 if kind == "Q4_1" else _BLOCK))
    scales, *lows = blocks[..., : 2 * factors].contiguous().view(torch.float16).float().unbind(-1)
    stored = blocks[..., 2 * factors :]
    if kind == "Q4_1":
        return Codes(pair(torch.cat((stored & 15, stored >> 4), -1).flatten(1)), scales, lows[0])
    values = stored.contiguous().view(torch.int8).flatten(1)
    return Codes(values, scales.contiguous(), torch.zeros_like(scales))


def _config(fields: dict[str, Any]) -> dict[str, Any]:
    heads = fields["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": fields.get("llama.attention.head_count_kv", heads),
        "max_position_embeddings": fields["llama.context_length"],
        "rope_theta": fields.get("llama.rope.freq_base", 10000.0),
        "rms_norm_eps": float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "hidden_act": "silu",
        "torch_dtype": "float32",
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "pad_token_id": fields.get("tokenizer.ggml.padding_token_id"),
    }


def _tensors(reader: GGUFReader, config: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    from gguf.quants import dequantize

    return {
        name: _in_our_order(
            tensor,
            dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False),
            config,
        )
        for name, tensor in _named(reader)
    }


def _stored(
    reader: GGUFReader, config: dict[str, Any]
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The file's own bytes, and each tensor's kind of block."""
    kinds = {name: tensor.tensor_type.name for name, tensor in _named(reader)}
    stored = {
        name: np.ascontiguousarray(_in_our_order(tensor, tensor.data, config))
        for name, tensor in _named(reader)
    }
    return stored, kinds


def _named(reader: GGUFReader) -> Iterator[tuple[str, ReaderTensor]]:
    """Every tensor under its Hugging Face name. Raises GgufError on one of no Llama."""
    for tensor in reader.tensors:
        if tensor.name in _OUTER_NAMES:
            yield _OUTER_NAMES[tensor.name], tensor
            continue
        block, layer, kind, _weight = tensor.name.split(".")
        if block != "blk" or kind not in _LAYER_NAMES:
            raise GgufError(f"unexpected tensor {tensor.name}")
        yield f"model.layers.{layer}.{_LAYER_NAMES[kind]}.weight", tensor


def _in_our_order(tensor: ReaderTensor, rows: NDArray[Any], config: dict[str, Any]) -> NDArray[Any]:
    """`rows` of `tensor`, those of queries and keys put back into halves."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    kind = tensor.name.split(".")[-2]
    return _undo_rotary_order(rows, heads[kind]) if kind in heads else rows


def _undo_rotary_order(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """Put q/k rows back from llama.cpp's order (pairs side by side) to halves, per head."""
    out, width = rows.shape
    pairs = rows.reshape(heads, out // heads // 2, 2, width)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(out, width))


def _write_tokenizer(fields: dict[str, Any], folder: Path) -> None:
    """Build ``tokenizer.json`` and its config from the file's own tokens and merges."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    if (kind := (fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre"))) != (
        "gpt2",
        "smollm",
    ):
        raise GgufError(f"tokenizer {kind} is not supported")
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    backend = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),  # llama.cpp's "smollm": each \p{N} alone
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    types = fields["tokenizer.ggml.token_type"]
    specials = [t for t, type_ in zip(tokens, types, strict=True) if type_ == _SPECIAL_TOKEN_TYPE]
    backend.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in specials])
    backend.save(str(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": tokens[fields["tokenizer.ggml.bos_token_id"]],
            "eos_token": tokens[fields["tokenizer.ggml.eos_token_id"]],
            "unk_token": tokens[fields.get("tokenizer.ggml.unknown_token_id", 0)],
            "chat_template": fields.get("tokenizer.chat_template"),
            "clean_up_tokenization_spaces": False,
        },
    )


def _write_json(path: Path, body: dict[str, Any]) -> None:
    path.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
