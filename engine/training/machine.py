"""Where training computes: the options every command has for that, and what follows from them.

On another device than the CPU everything is made there from the start, by torch's default
device; files and figures stay with the CPU.
"""

from __future__ import annotations

import argparse

import torch

from engine.arguments import number


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", type=_device, default="cpu", help="cpu, cuda, cuda:1 …")
    parser.add_argument("--threads", type=number(int, 1), default=1)


def _device(name: str) -> str:
    """An argparse type: a device that there is."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):
        raise argparse.ArgumentTypeError(f"there is no device {name!r} here") from None
    return name


def use(options: argparse.Namespace) -> None:
    """Compute as the options say from now on."""
    torch.set_num_threads(options.threads)
    if options.device != "cpu":
        torch.set_default_device(options.device)


def device() -> torch.device:
    """Where new tensors are made."""
    return torch.get_default_device()


def working_dtype() -> torch.dtype:
    """bfloat16 where it is multiplied natively, else fp32."""
    if device().type == "cuda":
        fast = torch.cuda.is_bf16_supported()
    else:
        fast = device().type == "cpu" and torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if fast else torch.float32
