"""Which device the models run on, in what precision and with how many threads.

`choose` never fails for lack of hardware: what was asked for and cannot be had becomes a
notice, and the CPU. A device must first do a small forward as the CPU does it.

Knows devices, nothing of models on disk.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.llama import LlamaConfig, Runner, Weights

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_DEFAULT_DTYPE = {"cpu": torch.float32, "cuda": torch.float32, "mps": torch.float32}
_SMOKE_TOLERANCE = {torch.float32: 1e-2, torch.float16: 0.1, torch.bfloat16: 0.5}
_SMOKE_IDS = (3, 1, 4, 1, 5, 9, 2, 6)


class DeviceError(ValueError):
    """A device or precision this program does not know; the message is one clear sentence."""


@dataclass(frozen=True, slots=True)
class Device:
    """Where to run. `notice` is empty, or one sentence on why it is not what was asked for."""

    name: str
    dtype: torch.dtype
    threads: int
    notice: str = ""

    @property
    def dtype_name(self) -> str:
        return str(self.dtype).removeprefix("torch.")


def choose(
    name: str = "auto", dtype: str = "auto", threads: int = 0, beside_window: bool = False
) -> Device:
    """Return the device called `name`, or the first that works of CUDA, MPS and CPU.

    `threads` 0 means every core this process may use, less one for the renderer
    `beside_window`. Raises DeviceError on a name or precision that does not exist.
    """
    if name not in ("auto", "cuda", "mps", "cpu"):
        raise DeviceError(f"There is no device {name!r}: choose auto, cuda, mps or cpu.")
    if dtype not in ("auto", *_DTYPES):
        raise DeviceError(f"There is no precision {dtype!r}: choose auto, {', '.join(_DTYPES)}.")
    count = threads if threads > 0 else max(1, usable_cores() - int(beside_window))
    notices: list[str] = []
    for each in ("cuda", "mps") if name == "auto" else (name,):
        if each == "cpu":
            break
        wanted = _DTYPES.get(dtype, _DEFAULT_DTYPE[each])
        problem = trouble(each, wanted)
        if problem is None:
            return Device(each, wanted, count)
        if name != "auto" or is_present(each):
            notices.append(f"{each} cannot be used ({problem}), so the CPU is.")
    return Device("cpu", _DTYPES.get(dtype, _DEFAULT_DTYPE["cpu"]), count, " ".join(notices))


def usable_cores() -> int:
    """Cores this process may run on, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_present(name: str) -> bool:
    """Whether torch sees such a device at all."""
    return torch.cuda.is_available() if name == "cuda" else torch.backends.mps.is_available()


def trouble(name: str, dtype: torch.dtype) -> str | None:
    """Why device `name` cannot be used, or None: a small forward must agree with the CPU's."""
    if not is_present(name):
        return "there is none"
    try:
        found = smoke_logits(name, dtype).float().cpu()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return str(error).partition("\n")[0]
    gap = float((found - smoke_logits("cpu", torch.float32)).abs().max())
    return None if gap < _SMOKE_TOLERANCE[dtype] else f"its results are off by {gap:.2g}"


def smoke_logits(
    device: str, dtype: torch.dtype, runner_of: Callable[[Weights, int], Runner] = Runner
) -> torch.Tensor:
    """Logits (n, vocab) of a fixed tiny model, fed in two parts with a rollback between.

    `runner_of(weights, context)` makes its runner.
    """
    runner = runner_of(_tiny_weights(device, dtype), 16)
    runner.forward(_SMOKE_IDS[:5])
    runner.rollback(3)
    return runner.forward(_SMOKE_IDS[3:])


def _tiny_weights(device: str, dtype: torch.dtype) -> Weights:
    config = LlamaConfig(
        vocab_size=32, hidden_size=32, mlp_size=64, layers=2, heads=4, kv_heads=2,
        head_dim=8, rope_theta=10000.0, norm_eps=1e-5, context=16,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        values = torch.randn(shape, generator=generator) / math.sqrt(shape[-1])
        return values.to(device=device, dtype=dtype)

    def ones(*shape: int) -> torch.Tensor:
        return torch.ones(shape, device=device, dtype=dtype)

    table = random(32, 32)
    return Weights(
        config=config, embedding=table, attention_norm=ones(2, 32), qkv=random(2, 64, 32),
        output=random(2, 32, 32), mlp_norm=ones(2, 32), gate_up=random(2, 128, 32),
        down=random(2, 32, 64), norm=ones(32), head=table,
    )  # fmt: skip
