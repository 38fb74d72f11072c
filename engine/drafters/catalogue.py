"""Every drafter by name, built when it is first asked for, and the law of the quality dial.

The ladder ``copy-…`` is the target itself at fewer bits (see `lowbit.LADDER`): ``copy-4g64`` is
4 bits a weight with a scale for every 64, ``copy-4`` with one scale a row. ``layer-skip-N`` is
its first N layers.

Knows how each drafter is made; nothing of rounds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast
from zipfile import BadZipFile, ZipFile

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.drafters.eagle import EagleDrafter, EagleTreeDrafter, FusedRunner
from engine.drafters.medusa import Heads, MedusaDrafter, MedusaTreeDrafter, Shape
from engine.drafters.model import DraftRunner, LayerSkipDrafter, ModelDrafter, SharedRows
from engine.drafters.ngram import NGramDrafter
from engine.drafters.pard import MaskRunner, PardDrafter
from engine.drafters.proposal import Drafter
from engine.drafters.retrieval import HybridDrafter, RetrievalDrafter
from engine.drafters.suffix_index import Layers, SuffixIndex
from engine.lowbit import LADDER, Width

FUSED = ("eagle", "eagle-middle", "eagle-early", "mtp")
"""Drafters that read the target's features: one of them at three points of its training."""

DISTILLED = ("small-1", "small", "small-4")
"""Small models of one make: one, two and four layers."""

STORE = ("retrieval", "store.npz")
"""The shipped replies, within the folder of drafters."""

_SHAPE, _WEIGHTS = "config.json", "model.safetensors"
_MODEL = {
    **{name: name for name in (*FUSED, *DISTILLED, "pard", "medusa")},
    "eagle-tree": "eagle", "hybrid": "eagle", "medusa-tree": "medusa",
}  # fmt: skip
"""In whose folder the model lies that a drafter guesses with."""

_LAYER_SKIP = re.compile(r"layer-skip-(\d+)")


@dataclass(frozen=True, slots=True)
class Makers:
    """How runners of models are made from this target; all on its device.

    `low_bit_copy(width)`: the target rounded. `first_layers(count)`: its first layers on its own
    cache rows. `distilled(folder)`: a small model that shares its embedding. `fused(folder)`: one
    that reads its features too; `masked(folder)`: one that guesses several tokens at one go. `bits`
    are those of one of its weights, `row_sizes` the lengths of their rows, which a copy's groups
    must divide.
    """

    low_bit_copy: Callable[[Width], DraftRunner]
    first_layers: Callable[[int], SharedRows]
    distilled: Callable[[Path], DraftRunner]
    fused: Callable[[Path], FusedRunner]
    heads: Callable[[Path], Heads]
    masked: Callable[[Path], MaskRunner]
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
        self._on_rows: dict[str, Drafter] = {}  # those that draft on the target's own rows

    def on_rows_of(self, first_layers: Callable[[int], SharedRows]) -> Catalogue:
        """For another run of the same target, on other cache rows: `first_layers` on those.

        Every other drafter is the same one, in whichever of the two it is made first.
        """
        other = Catalogue(
            replace(self._makers, first_layers=first_layers), self._folder, self._remembers
        )
        other._made = self._made
        return other

    @property
    def names(self) -> tuple[str, ...]:
        """What can be chosen; any other ``layer-skip-N`` can be too."""
        copies = tuple(name for name, width in LADDER.items() if self._can_copy(width))
        lookups = ("retrieval",) if self._remembers or self._has(*STORE) else ()
        ladder = tuple(name for name in DISTILLED if self._has(name, _SHAPE))
        pard = ("pard",) if self._has("pard", _SHAPE) else ()
        fused = tuple(name for name in FUSED if self._has(name, _SHAPE))
        grown = ("eagle-tree",) if "eagle" in fused else ()
        medusa = ("medusa",) if self._has("medusa", _SHAPE) else ()
        shaped = ("medusa-tree",) if medusa and self._branches else ()
        hybrid = ("hybrid",) if "eagle" in fused and lookups else ()
        skip = f"layer-skip-{max(1, self._makers.layers * 2 // 3)}"
        models = *ladder, *pard, *fused, *grown, *medusa, *shaped
        return (*copies, *models, "n-gram", *lookups, *hybrid, skip)

    def check(self, name: str) -> str:
        """Return `name`. Raises ValueError, one clear sentence, when no such drafter is here."""
        skip = _LAYER_SKIP.fullmatch(name)
        if name in self.names or (skip and 1 <= int(skip[1]) <= self._makers.layers):
            return name
        raise ValueError(
            f"There is no drafter {name!r} here: choose auto, none, {', '.join(self.names)}, "
            f"or layer-skip-N with N up to {self._makers.layers}."
        )

    def look_at(self, name: str) -> str:
        """Return `name` once its files were opened. Raises ValueError as `check`, or for them.

        No weights are read: a file that is not there, cut short or of another kind is found.
        """
        if damaged := next(filter(_is_damaged, self._files(self.check(name))), None):
            raise ValueError(
                f"{name} cannot be had: {damaged} is missing, damaged or cut short. "
                "Put a whole one there, or choose another drafter."
            )
        return name

    def __call__(self, name: str) -> Drafter:
        """The drafter of this name, made now if it was not yet. Raises ValueError as `look_at`."""
        made = self._on_rows if _LAYER_SKIP.fullmatch(name) else self._made
        if name not in made:
            made[name] = self._make(self.look_at(name))
        return made[name]

    def _make(self, name: str) -> Drafter:
        if name == "n-gram":
            return NGramDrafter()
        if name == "retrieval":
            ships = self._has(*STORE)
            return RetrievalDrafter(
                SuffixIndex.load(self._shipped.joinpath(*STORE)) if ships else Layers()
            )
        if name in DISTILLED:
            return ModelDrafter(name, self._makers.distilled(self._shipped / name))
        if name == "pard":
            return PardDrafter(name, self._makers.masked(self._shipped / name))
        if name in FUSED:
            return EagleDrafter(name, self._makers.fused(self._shipped / name))
        if name == "eagle-tree":
            return EagleTreeDrafter(name, self._makers.fused(self._shipped / "eagle"))
        if name == "medusa":
            return MedusaDrafter(self._makers.heads(self._shipped / name))
        if name == "medusa-tree":
            return MedusaTreeDrafter(self._makers.heads(self._shipped / "medusa"), self._shape)
        if name == "hybrid":
            memory, model = self("retrieval"), self("eagle")
            return HybridDrafter(cast(RetrievalDrafter, memory), cast(EagleDrafter, model))
        if skip := _LAYER_SKIP.fullmatch(name):
            return LayerSkipDrafter(int(skip[1]), self._makers.first_layers(int(skip[1])))
        return ModelDrafter(name, self._makers.low_bit_copy(LADDER[name]))

    @property
    def _shape(self) -> Shape:
        """The tree that the shipped heads draft; empty where none was found for them."""
        config = json.loads((self._shipped / "medusa" / _SHAPE).read_text(encoding="utf-8"))
        return [tuple(path) for path in config.get("tree", [])]

    @property
    def _branches(self) -> bool:
        """Whether to offer that tree: a damaged file says so when it is chosen."""
        return _is_damaged(self._shipped / "medusa" / _SHAPE) or bool(self._shape)

    def _files(self, name: str) -> list[Path]:
        """Everything that a drafter is read from."""
        parts = []
        if name in _MODEL:
            files = (_WEIGHTS,) if name == "medusa" else (_SHAPE, _WEIGHTS)
            parts += [(_MODEL[name], file) for file in files]
        if name in ("retrieval", "hybrid") and self._has(*STORE):
            parts.append(STORE)
        return [self._shipped.joinpath(*part) for part in parts]

    @property
    def _shipped(self) -> Path:
        assert self._folder is not None  # else `names` would hold nothing that is in it
        return self._folder

    def _can_copy(self, width: Width) -> bool:
        divides = all(size % (width.group or size) == 0 for size in self._makers.row_sizes)
        return width.bits < self._makers.bits and divides

    def _has(self, *parts: str) -> bool:
        return self._folder is not None and self._folder.joinpath(*parts).is_file()


def _is_damaged(path: Path) -> bool:
    """Whether a file is not what its name says, as far as opening it tells."""
    try:
        if path.suffix == ".json":
            return not isinstance(json.loads(path.read_text(encoding="utf-8")), dict)
        with ZipFile(path) if path.suffix == ".npz" else safe_open(path, "pt"):
            return False
    except (OSError, ValueError, BadZipFile, SafetensorError):
        return True


def unigram(folder: Path | None, vocab_size: int) -> Tensor:
    """How often the target writes each token (V,): the law the quality dial mixes in.

    The flat law stands in for a target whose text was never counted.
    """
    if folder is not None and (folder / "unigram.npz").is_file():
        with np.load(folder / "unigram.npz") as arrays:
            probs = torch.from_numpy(arrays["probs"])
        if len(probs) == vocab_size:
            return probs
    return torch.full((vocab_size,), 1.0 / vocab_size)
