"""A GGUF Llama made into a Hugging Face folder: fp32 safetensors, tokenizer, configs.

The one place that knows GGUF. Values are dequantised exactly as the format defines them
(`gguf.quants`), so the folder holds the very model the file describes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gguf import GGUFReader

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
_SPECIAL_TOKEN_TYPE = 3  # gguf.TokenType.CONTROL


class GgufError(ValueError):
    """A GGUF file this program cannot convert; the message is one clear sentence."""


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

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
        if tensor.name in _OUTER_NAMES:
            tensors[_OUTER_NAMES[tensor.name]] = values
            continue
        block, layer, kind, _weight = tensor.name.split(".")
        if block != "blk" or kind not in _LAYER_NAMES:
            raise GgufError(f"unexpected tensor {tensor.name}")
        if kind in heads:
            values = _undo_rotary_order(values, heads[kind])
        tensors[f"model.layers.{layer}.{_LAYER_NAMES[kind]}.weight"] = values
    return tensors


def _undo_rotary_order(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
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
