"""Every drafter by name, built when it is first asked for, and the law of the quality dial.

The ladder ``copy-…`` is the target itself at fewer bits (see `lowbit.LADDER`): ``copy-4g64`` is
4 bits a weight with a scale for every 64, ``copy-4`` with one scale a row. ``layer-skip-N`` is
its first N layers.

Knows how each drafter is made; nothing of rounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.drafters.eagle import EagleDrafter, FusedRunner
from engine.drafters.medusa import Heads, MedusaDrafter
from engine.drafters.model import DraftRunner, LayerSkipDrafter, ModelDrafter, SharedRows
from engine.drafters.ngram import NGramDrafter
from engine.drafters.proposal import Drafter
from engine.drafters.retrieval import HybridDrafter, RetrievalDrafter
from engine.drafters.suffix_index import Layers, SuffixIndex
from engine.lowbit import LADDER, Width

FUSED = ("eagle", "eagle-middle", "eagle-early", "mtp")
"""Drafters that read the target's features: one of them at three points of its training."""

STORE = ("retrieval", "store.npz")
"""The shipped replies, within the folder of drafters."""

_LAYER_SKIP = re.compile(r"layer-skip-(\d+)")


@dataclass(frozen=True, slots=True)
class Makers:
    """How runners of models are made from this target; all on its device.

    `low_bit_copy(width)`: the target rounded. `first_layers(count)`: its first layers on its own
    cache rows. `distilled(folder)`: a small model that shares its embedding. `fused(folder)`: one
    that reads its features too. `bits` are those of one of its weights, `row_sizes` the lengths
    of their rows, which a copy's groups must divide.
    """

    low_bit_copy: Callable[[Width], DraftRunner]
    first_layers: Callable[[int], SharedRows]
    distilled: Callable[[Path], DraftRunner]
    fused: Callable[[Path], FusedRunner]
    heads: Callable[[Path], Heads]
    layers: int
    bits: int
    row_sizes: tuple[int, ...] = ()


class Catalogue:
    """Drafters for one target, each made once. `folder` None leaves out those made of its text."""

    def __init__(self, makers: Makers, folder: Path | None, remembers: bool = False) -> None:
        """`remembers`: runs come with a memory of earlier replies, which lookups can begin from."""
        self._makers = makers
        self._folder = folder
        self._remembers = remembers
        self._made: dict[str, Drafter] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """What can be chosen; any other ``layer-skip-N`` can be too."""
        copies = tuple(name for name, width in LADDER.items() if self._can_copy(width))
        lookups = ("retrieval",) if self._remembers or self._has(*STORE) else ()
        small = ("small",) if self._has("small", "config.json") else ()
        fused = tuple(name for name in FUSED if self._has(name, "config.json"))
        medusa = ("medusa",) if self._has("medusa", "config.json") else ()
        hybrid = ("hybrid",) if small and lookups else ()
        skip = f"layer-skip-{max(1, self._makers.layers * 2 // 3)}"
        return (*copies, *small, *fused, *medusa, "n-gram", *lookups, *hybrid, skip)

    def check(self, name: str) -> str:
        """Return `name`. Raises ValueError, one clear sentence, when no such drafter is here."""
        skip = _LAYER_SKIP.fullmatch(name)
        if name in self.names or (skip and 1 <= int(skip[1]) <= self._makers.layers):
            return name
        raise ValueError(
            f"There is no drafter {name!r} here: choose auto, none, {', '.join(self.names)}, "
            f"or layer-skip-N with N up to {self._makers.layers}."
        )

    def __call__(self, name: str) -> Drafter:
        """The drafter of this name, made now if it was not yet. Raises ValueError as `check`."""
        if name not in self._made:
            self._made[name] = self._make(self.check(name))
        return self._made[name]

    def _make(self, name: str) -> Drafter:
        if name == "n-gram":
            return NGramDrafter()
        if name == "retrieval":
            return self._retrieval
        if name == "small":
            return self._small
        if name in FUSED:
            return EagleDrafter(name, self._makers.fused(self._shipped / name))
        if name == "medusa":
            return MedusaDrafter(self._makers.heads(self._shipped / name))
        if name == "hybrid":
            return HybridDrafter(self._retrieval, self._small)
        if skip := _LAYER_SKIP.fullmatch(name):
            return LayerSkipDrafter(int(skip[1]), self._makers.first_layers(int(skip[1])))
        return ModelDrafter(name, self._makers.low_bit_copy(LADDER[name]))

    @cached_property
    def _retrieval(self) -> RetrievalDrafter:
        ships = self._has(*STORE)
        return RetrievalDrafter(
            SuffixIndex.load(self._shipped.joinpath(*STORE)) if ships else Layers()
        )

    @cached_property
    def _small(self) -> ModelDrafter:
        return ModelDrafter("small", self._makers.distilled(self._shipped / "small"))

    @property
    def _shipped(self) -> Path:
        assert self._folder is not None  # else `names` would hold nothing that is in it
        return self._folder

    def _can_copy(self, width: Width) -> bool:
        divides = all(size % (width.group or size) == 0 for size in self._makers.row_sizes)
        return width.bits < self._makers.bits and divides

    def _has(self, *parts: str) -> bool:
        return self._folder is not None and self._folder.joinpath(*parts).is_file()


def unigram(folder: Path | None, vocab_size: int) -> Tensor:
    """How often the target writes each token (V,): the law the quality dial mixes in.

    The flat law stands in for a target whose text was never counted.
    """
    if folder is not None:
        with np.load(folder / "unigram.npz") as arrays:
            probs = torch.from_numpy(arrays["probs"])
        if len(probs) == vocab_size:
            return probs
    return torch.full((vocab_size,), 1.0 / vocab_size)
