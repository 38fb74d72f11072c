"""The trained drafters by name, and how one is read back from its folder."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import load_file

from engine.drafters.packing import unpacked
from engine.training.eagle import Eagle, Mtp
from engine.training.medusa import Medusa
from engine.training.pard import Pard
from engine.training.student import Student
from engine.training.teacher import Target

KINDS: dict[str, type[Student]] = {kind.kind: kind for kind in (Student, Eagle, Mtp, Medusa, Pard)}


def load(folder: Path, target: Target) -> Student:
    """Read an exported drafter, made for this target."""
    config = json.loads((folder / "config.json").read_text())
    tensors = unpacked(load_file(folder / "model.safetensors"))
    vocab_ids = tensors.pop("vocab_ids").long().to(target.embedding.device)
    kind = KINDS[config.get("kind", Student.kind)]
    student = kind(target, config["num_hidden_layers"], vocab_ids)
    student.decoder.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return student
