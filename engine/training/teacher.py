"""The target as teacher: its law at every reply position, computed once and kept in shards.

The target's pass costs several times a drafter's whole training step, and its laws never
change; so they are computed once (weights in bfloat16 where the processor has it) and every
epoch after the first is cheap. Only the likeliest `TOP` tokens of the reduced vocabulary are
kept, renormalised: about 400 bytes a position.

    python -m engine.training.teacher --target FOLDER --text TEXT.npz --work FOLDER

`engine.training.distil` computes the shards it needs by itself, from the first on. Where a
core is free, this command beside it fills the folder from the last shard backwards.
"""

from __future__ import annotations

import argparse
import os
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.arguments import number
from engine.tokenizer import Tokenizer
from engine.training import corpus as text
from engine.training import inputs, machine
from engine.training.corpus import Ids
from engine.training.model import Decoder, Shape
from engine.weights import LlamaConfig

TOP = 64
SHARD_ROWS = 128
ROWS_PER_PASS = 8

# The drafter's vocabulary: the first ids, and every id written at least this often.
LOW_IDS = 4096
MIN_COUNT = 5


@dataclass(frozen=True)
class Target:
    """The large model whose law is taught: its layers, and the embedding tied to its head."""

    decoder: Decoder
    embedding: Tensor  # (vocab, H) fp32, frozen
    shape: Shape

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype = torch.float32) -> Target:
        """Read a Hugging Face style folder whose head is tied, as `inputs.target` makes sure."""
        shape = Shape.of(LlamaConfig.from_folder(folder))
        tensors = {
            name.removeprefix("model."): tensor
            for name, tensor in load_file(folder / "model.safetensors").items()
        }
        embedding = tensors.pop("embed_tokens.weight").float().to(machine.device())
        tensors.pop("lm_head.weight", None)
        decoder = Decoder(shape)
        decoder.load_state_dict(tensors)
        return cls(decoder.to(dtype).requires_grad_(False), embedding, shape)

    @torch.no_grad()
    def hidden(self, rows: Sequence[Ids]) -> Tensor:
        """Final hidden states (T, H) of rows of ids, packed in order."""
        ids = torch.tensor(np.concatenate(rows).astype(np.int64))
        out: Tensor = self.decoder(self.embedding[ids], [len(row) for row in rows])
        return out


class RememberingTarget(Target):
    """A target that runs each row once and keeps its hidden states in memory, in fp16.

    For students that read them: 2·H bytes a token is far less than the pass it saves.
    """

    _known: dict[bytes, Tensor]

    def hidden(self, rows: Sequence[Ids]) -> Tensor:
        known = self.__dict__.setdefault("_known", {})
        fresh = [row for row in rows if row.tobytes() not in known]
        with torch.autocast(
            self.embedding.device.type, enabled=False
        ):  # the target has a precision of its own
            if fresh:
                found = torch.split(super().hidden(fresh).half(), [len(row) for row in fresh])
                for row, part in zip(fresh, found, strict=True):
                    known[row.tobytes()] = part.clone()
            return torch.cat([known[row.tobytes()] for row in rows]).float()


def predicting(corpus: text.Corpus, rows: Sequence[int]) -> Tensor:
    """Packed positions whose next token belongs to a reply: (reply tokens of the rows,).

    They stay on the host: what they say decides how much there is to compute.
    """
    lengths = [len(corpus.row(row)) for row in rows]
    starts = np.cumsum([0, *lengths[:-1]])
    return torch.cat(
        [
            torch.arange(
                start + int(corpus.prompt_lengths[row]) - 1, start + length - 1, device="cpu"
            )
            for start, length, row in zip(starts, lengths, rows, strict=True)
        ]
    )


@dataclass(frozen=True)
class Laws:
    """The target's laws at the reply positions of some rows, cut to the `TOP` likeliest.

    `places` index the reduced vocabulary, not the tokenizer's.
    """

    rows: npt.NDArray[np.int32]  # (rows,)
    offsets: npt.NDArray[np.int64]  # (rows + 1,) into the two below
    places: npt.NDArray[np.uint16]  # (positions, TOP)
    probs: npt.NDArray[np.float16]  # (positions, TOP), each line sums to 1
    of: int = 0  # what they are the laws of (see `Plan.mark`)


def compute(
    target: Target, corpus: text.Corpus, rows: npt.NDArray[np.int32], vocabulary: Tensor
) -> Laws:
    """Run the target over some rows; `vocabulary` (reduced,) holds the ids to renormalise on."""
    dtype = next(target.decoder.layers.parameters()).dtype
    head = target.embedding[vocabulary].to(dtype)
    top = min(TOP, len(vocabulary))
    places, probs = [], []
    for start in range(0, len(rows), ROWS_PER_PASS):
        batch = rows[start : start + ROWS_PER_PASS].tolist()
        hidden = target.hidden([corpus.row(row) for row in batch])
        logits = (hidden[predicting(corpus, batch)].to(dtype) @ head.T).float()
        best = logits.topk(top)
        places.append(best.indices.cpu().numpy().astype(np.uint16))
        probs.append(best.values.softmax(-1).cpu().numpy().astype(np.float16))
    counts = [len(corpus.reply(int(row))) for row in rows]
    return Laws(rows, np.cumsum([0, *counts]), np.concatenate(places), np.concatenate(probs))


def save(laws: Laws, path: Path) -> None:
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    with partial.open("wb") as file:
        np.savez(
            file, rows=laws.rows, offsets=laws.offsets, places=laws.places, probs=laws.probs,
            of=laws.of,
        )  # fmt: skip
    os.replace(partial, path)


def load(path: Path) -> Laws:
    with np.load(path) as arrays:
        rows, offsets, places, probs = (
            arrays[name] for name in ("rows", "offsets", "places", "probs")
        )
        return Laws(rows, offsets, places, probs, int(arrays.get("of", 0)))


@dataclass
class Plan:
    """What is to be learned from, in which order, and where the laws lie or will lie."""

    target_folder: Path
    work: Path
    corpus: text.Corpus
    split: text.Split
    order: npt.NDArray[np.int32]  # shuffled training rows
    vocabulary: npt.NDArray[np.int32]
    laws_folder: Path  # may serve several students of one vocabulary

    @cached_property
    def target(self) -> Target:
        """The target in its working precision, which keeps what it computed."""
        return RememberingTarget.load(self.target_folder, machine.working_dtype())

    @classmethod
    def make(
        cls,
        target_folder: Path,
        texts: Sequence[Path],
        work: Path,
        seed: int,
        start: Path | None = None,
        laws: Path | None = None,
    ) -> Plan:
        """Split the text and choose the vocabulary: that of the drafter in `start`, if given.

        The laws lie in `laws`, else in `work`.
        """
        corpus = text.load(*texts)
        split = text.split(corpus, Tokenizer.from_folder(target_folder))
        split.check(corpus)
        if start is None:
            vocab_size = LlamaConfig.from_folder(target_folder).vocab_size
            vocabulary = text.reduced_vocabulary(
                corpus, split.train, LOW_IDS, MIN_COUNT, vocab_size
            )
        else:
            vocabulary = load_file(start / "model.safetensors")["vocab_ids"].numpy()
        order = np.random.default_rng(seed).permutation(np.asarray(split.train, dtype=np.int32))
        return cls(target_folder, work, corpus, split, order, vocabulary, laws or work)

    def of(self, work: Path) -> Plan:
        """The same, target and laws included, for a student with a work folder of its own."""
        work.mkdir(parents=True, exist_ok=True)
        other = replace(self, work=work)
        other.__dict__["target"] = self.target
        return other

    @property
    def shard_count(self) -> int:
        return -(-len(self.order) // SHARD_ROWS)

    def rows(self, shard: int) -> npt.NDArray[np.int32]:
        return self.order[shard * SHARD_ROWS : (shard + 1) * SHARD_ROWS]

    def path(self, shard: int) -> Path:
        return self.laws_folder / f"laws-{shard:04d}.npz"

    def finished(self) -> list[int]:
        """The shards whose laws are on disk."""
        return [shard for shard in range(self.shard_count) if self.path(shard).exists()]

    def mark(self, rows: Sequence[int]) -> int:
        """A checksum of some rows' text and the vocabulary, for what was made of others."""
        mark = zlib.crc32(self.vocabulary.astype(np.int64).tobytes())
        for row in rows:
            length = self.corpus.prompt_lengths[row]
            mark = zlib.crc32(self.corpus.row(row).tobytes(), zlib.crc32(length.tobytes(), mark))
        return mark

    def laws(self, shard: int) -> Laws:
        """One shard's laws, from its file or, the first time, from the target.

        Raises ValueError when the file holds those of other text.
        """
        path = self.path(shard)
        mark = self.mark(self.rows(shard).tolist())
        if path.exists():
            laws = load(path)
            if laws.of != mark:
                raise ValueError(
                    f"{path} holds laws of another text, order or vocabulary: name another folder"
                )
            return laws
        laws = compute(
            self.target, self.corpus, self.rows(shard), torch.tensor(self.vocabulary).long()
        )
        laws = replace(laws, of=mark)
        save(laws, path)
        return laws


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", type=inputs.target, required=True, help="folder of the target")
    parser.add_argument(
        "--text", type=inputs.text, nargs="+", required=True, help="the target's own text, .npz"
    )
    parser.add_argument("--work", type=inputs.folder, required=True, help="folder for the shards")
    parser.add_argument("--seed", type=number(int, 0), default=0)
    parser.add_argument("--start", type=inputs.drafter, help="drafter whose vocabulary to use")
    machine.add_options(parser)
    options = parser.parse_args()
    machine.use(options)
    options.work.mkdir(parents=True, exist_ok=True)
    plan = Plan.make(options.target, options.text, options.work, options.seed, options.start)
    for shard in reversed(range(plan.shard_count)):
        if not plan.path(shard).exists():
            began = time.perf_counter()
            laws = plan.laws(shard)
            tokens = sum(len(plan.corpus.row(row)) for row in laws.rows)
            rate = tokens / (time.perf_counter() - began)
            print(f"shard {shard} of {plan.shard_count}: {rate:.0f} tokens/s", flush=True)


if __name__ == "__main__":
    inputs.told(main)
