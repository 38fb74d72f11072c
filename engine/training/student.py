"""What every trained drafter is to the loop, and the plainest: a few layers of the target's own.

`Student` begins as the target's first layers and is taught to guess its next token; others
derive from it. It reads the target's own embedding and writes through rows of it (the head is
tied, frozen and cut to a reduced vocabulary), so what ships is a few layers, a norm and a
list of ids. Exported tensors are named as in a Hugging Face Llama without ``model.``:
``layers.{i}.self_attn.q_proj.weight`` …, ``norm.weight``, and ``vocab_ids`` (int32, sorted).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.drafters.packing import packed as packed_rows
from engine.training.corpus import Corpus, Ids
from engine.training.model import Decoder, Shape
from engine.training.recipe import Recipe
from engine.training.teacher import Target

# With the target's own final norm the first loss is near 14: its hidden states after two
# layers are far too sure of themselves for the head.
NORM_SCALE = 0.3

LIKELY = 0.01
"""The chance from which a token of a law is asked in every step that has it."""

TINY = 1e-30


class Student(nn.Module):
    """A short decoder between the target's frozen embedding and a reduced head."""

    kind = "small"
    usual = Recipe()  # of such a drafter, where nothing else is asked for
    origin = "Layers of a Llama that began as the target's first ones."
    from_kinds: tuple[str, ...] = ()  # others this one can begin with
    norm_scale = NORM_SCALE  # of the final norm at the start; 1 where there is none
    depth = 1  # guesses ahead that differ: 1 where a right guess reads as the text does

    def __init__(self, target: Target, layers: int, vocab_ids: Tensor) -> None:
        super().__init__()
        self.shape = replace(target.shape, layers=layers)
        self.decoder = self.make_decoder(self.shape)  # all that is trained and saved
        self.embedding = target.embedding  # (vocab, H) the target's, neither trained nor saved
        self.vocab_ids = vocab_ids  # (reduced,) int64
        self.head = target.embedding[vocab_ids]  # (reduced, H)

    def make_decoder(self, shape: Shape) -> nn.Module:
        return Decoder(shape)

    def begin(self, target: Target, rows: Sequence[Ids]) -> None:
        """Take first weights from the target; `rows` of text are there to fit what it lacks."""
        own, given = self.decoder.state_dict(), target.decoder.state_dict()
        state = {name: given.get(name, tensor).float() for name, tensor in own.items()}
        state["norm.weight"] = state["norm.weight"] * NORM_SCALE
        self.decoder.load_state_dict(state)

    @classmethod
    def grown(cls, start: Student, target: Target, layers: int) -> Student:
        """A student of this kind that says what `start` says, with more layers to learn in.

        An added layer is the target's of the same place but for its two ways out, which are
        zero: it reads and says nothing yet. With fewer `layers` than `start` has, the last ones
        are left out. Raises ValueError if `start` is of a kind this one cannot begin with.
        """
        if start.kind not in (cls.kind, *cls.from_kinds):
            raise ValueError(f"a drafter of kind {cls.kind} cannot begin as one of {start.kind}")
        student = cls(target, layers, start.vocab_ids)
        if layers > start.shape.layers:
            begun = target.decoder.state_dict()
            silent = [n for n in begun if n.endswith(("o_proj.weight", "down_proj.weight"))]
            begun |= {name: torch.zeros_like(begun[name]) for name in silent}
        else:
            begun = {}
        begun |= start.decoder.state_dict()
        own = student.decoder.state_dict()
        student.decoder.load_state_dict({n: begun.get(n, v).float() for n, v in own.items()})
        return student

    def ahead(self, rows: Sequence[Ids], depth: int) -> list[Tensor]:
        """Final hidden states (T, H) of rows of ids, packed, for each of `depth` guesses ahead.

        The n-th entry at a position guesses the token after it as the n-th guess of a round
        would, the n - 1 before it having been right. At most `self.depth` entries are made;
        guesses further ahead are like the last.
        """
        ids, lengths = packed(rows)
        return [self.decoder(self.embedding[ids], lengths)]

    def practice(
        self, rows: Sequence[Ids], depth: int, positions: Tensor, source: np.random.Generator
    ) -> list[tuple[Tensor, Tensor]]:
        """What one step learns from: final hidden states (n, H), and where each of them guesses.

        The latter are places (n,) in `positions`, the packed positions (N,) that have a law. A
        student may pick some of them, by `source` alone.
        """
        every = torch.arange(len(positions))
        return [(hidden[positions], every) for hidden in self.ahead(rows, depth)]

    def settle(
        self, corpus: Corpus, learned: Sequence[int], held_out: Sequence[int]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What there is to find once the weights are final: for the configuration, on rows it
        learned from, and for the card, on greedy ones it did not."""
        return {}, {}

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits over the reduced vocabulary (T, reduced), fp32."""
        return (hidden @ self.head.T).float()


@dataclass(frozen=True, slots=True)
class Asked:
    """What the answers of one step are scored on: the whole reduced vocabulary, or some of it."""

    head: Tensor  # (n, H) its rows of the head
    offset: Tensor  # (n,) added to logits: the log of how many tokens each stands for
    places: Tensor  # (N, top) int64 into it: the likeliest tokens of the laws
    probs: Tensor  # (N, top), each line summing to 1, or nearly

    @classmethod
    def some(
        cls,
        head: Tensor,
        places: Tensor,
        probs: Tensor,
        others: int,
        source: np.random.Generator,
    ) -> Asked:
        """All that some law here gives a chance above `LIKELY`, and `others` drawn from the rest.

        The drawn ones stand for all of the rest, in the normaliser as in the laws, so that sums
        over the vocabulary are right on average (Jean et al. 2015, section 3, with the flat law):
        a head costs a training most of its time, and of ten thousand rows few matter to a step.
        With `others` 0, or more than the rest holds, everything is asked.
        """
        everything = cls(head, torch.zeros(len(head)), places, probs)
        if not others:
            return everything
        likely = np.zeros(len(head), dtype=np.bool_)
        likely[places[probs > LIKELY].cpu().numpy()] = True
        rest = np.flatnonzero(~likely)
        if others >= len(rest):
            return everything
        drawn = source.choice(rest, others, replace=False)
        chosen = np.concatenate((np.flatnonzero(likely), drawn))
        place = np.full(len(head), -1)
        place[chosen] = np.arange(len(chosen))
        stands_for = np.ones(len(chosen), dtype=np.float32)
        stands_for[-others:] = len(rest) / others
        weight = torch.from_numpy(stands_for).to(head.device)
        found = torch.from_numpy(place).to(head.device)[places]
        kept = found.clamp_min(0)
        return cls(
            head[torch.from_numpy(chosen).to(head.device)],
            weight.log(),
            kept,
            probs * weight[kept] * (found >= 0),
        )


class SoftCrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of a student to laws given by their likeliest entries.

    Called with hidden (N, H) and the four tensors of `Asked`. The head is frozen and the
    gradient is known in closed form (student law minus target law), so it is made in the
    forward pass and the (N, n) matrix is never kept: a third of the step's time.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, offset: Tensor, places: Tensor, probs: Tensor
    ) -> Tensor:
        logits = (hidden.to(head.dtype) @ head.T).float().add_(offset)
        law = logits.softmax(-1)
        log_law = law.gather(-1, places).clamp_min(TINY).log() - offset[places]
        error = law.mul_(probs.sum(-1, keepdim=True)).scatter_add_(-1, places, -probs)
        ctx.save_for_backward((error.to(head.dtype) @ head).float() / len(hidden))
        return -(probs * log_law).sum() / len(hidden)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return outer[0] * gradient, None, None, None, None


def export(student: Student, folder: Path, target_name: str) -> None:
    """Write model.safetensors (int8 rows) and config.json; the card is `ship`'s to write."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: each.detach().cpu() for name, each in student.decoder.state_dict().items()}
    tensors["vocab_ids"] = student.vocab_ids.to(torch.int32).cpu()
    save_file(packed_rows(tensors), folder / "model.safetensors", {"format": "pt"})
    shape = student.shape
    config = {
        "model_type": "llama",
        "kind": student.kind,
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_size,
        "rope_theta": shape.rope_theta,
        "rms_norm_eps": shape.norm_eps,
        "vocab_size": shape.vocab_size,
        "max_position_embeddings": shape.context,
        "reduced_vocab_size": len(student.vocab_ids),
        "reads_target_embedding": True,
        "target": target_name,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def packed(rows: Sequence[Ids]) -> tuple[Tensor, list[int]]:
    """Ids end to end (T,) int64, and the lengths they came in."""
    return torch.tensor(np.concatenate(rows).astype(np.int64)), [len(row) for row in rows]
