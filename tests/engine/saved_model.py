"""A tiny random Llama with a byte-level tokenizer, saved as a model folder."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

HIDDEN, HEADS, KV_HEADS, MLP, LAYERS = 32, 4, 2, 64, 2
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def save(folder: Path, seed: int = 0, context: int = 512) -> Path:
    """Write the model into `folder` and return it. Bytes are its tokens, and two specials."""
    folder.mkdir(parents=True, exist_ok=True)
    vocab_size = _save_tokenizer(folder)
    config = {
        "model_type": "llama",
        "vocab_size": vocab_size,
        "hidden_size": HIDDEN,
        "intermediate_size": MLP,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HIDDEN // HEADS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": context,
        "tie_word_embeddings": False,
        "eos_token_id": vocab_size - 1,
    }
    (folder / "config.json").write_text(json.dumps(config))
    save_file(_tensors(vocab_size, seed), folder / "model.safetensors")
    return folder


def _save_tokenizer(folder: Path) -> int:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"chat_template": TEMPLATE, "bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return tokenizer.get_vocab_size()


def _tensors(vocab_size: int, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def random(rows: int, columns: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * scale * columns**-0.5

    kv = HIDDEN // HEADS * KV_HEADS
    tensors = {
        "model.embed_tokens.weight": random(vocab_size, HIDDEN, 6),
        "model.norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": random(vocab_size, HIDDEN, 3),
    }
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        tensors |= {
            name + "input_layernorm.weight": torch.ones(HIDDEN),
            name + "post_attention_layernorm.weight": torch.ones(HIDDEN),
            name + "self_attn.q_proj.weight": random(HIDDEN, HIDDEN),
            name + "self_attn.k_proj.weight": random(kv, HIDDEN),
            name + "self_attn.v_proj.weight": random(kv, HIDDEN),
            name + "self_attn.o_proj.weight": random(HIDDEN, HIDDEN),
            name + "mlp.gate_proj.weight": random(MLP, HIDDEN),
            name + "mlp.up_proj.weight": random(MLP, HIDDEN),
            name + "mlp.down_proj.weight": random(HIDDEN, MLP),
        }
    return tensors
