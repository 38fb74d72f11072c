"""Numbers on their way to a device, for which nobody waits.

A plain copy from the host's memory to a CUDA device first waits for all that the device still
has to do. One from pinned memory is put in the queue behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def sent(
    values: Sequence[float] | Tensor, device: torch.device, dtype: torch.dtype = torch.long
) -> Tensor:
    """`values` as a tensor of `dtype` on `device`; a tensor that is there is left as it is."""
    if isinstance(values, Tensor) and values.device == device:
        return values
    return _staged(values, device, dtype).to(device, non_blocking=True)


def bring(values: Sequence[float], buffer: Tensor) -> None:
    """Put numbers (n,) into a buffer (n,) on its device."""
    if len(values):
        buffer.copy_(_staged(values, buffer.device, buffer.dtype), non_blocking=True)


def _staged(values: Sequence[float] | Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    staged = torch.as_tensor(values, dtype=dtype)
    return staged.pin_memory() if device.type == "cuda" and staged.numel() else staged
