"""A drafter's weights as they are shipped: matrices in a byte a weight, a scale for each row.

Half the size of fp16, and hardly a guess the worse. In a file the scales of a matrix ``NAME`` are
``NAME.scales``; whatever is no matrix stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.lowbit import Codes, Width, encode

BYTES = Width(8)
SCALES = ".scales"


def packed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Round every matrix (N, K) to int8, with its scales (N, 1) float32; the rest in fp16."""
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            out[name] = tensor.contiguous()
        elif tensor.dim() == 2:
            codes = encode(tensor.float(), BYTES)
            out[name] = codes.values.contiguous()
            out[name + SCALES] = codes.scales.contiguous()
        else:
            out[name] = tensor.to(torch.float16).contiguous()
    return out


def unpacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that a file's stand for. What was never packed is handed on as it is."""
    return {
        name: Codes(tensor, tensors[name + SCALES]).dense() if name + SCALES in tensors else tensor
        for name, tensor in tensors.items()
        if not name.endswith(SCALES)
    }
