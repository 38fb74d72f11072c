"""The target writes text of its own, the only text a drafter of it should learn from.

    python -m engine.training.write --target FOLDER --out TEXT.npz --tokens 1000000 --seed 1

Many sequences decode together, each in its own slot, because one pass over the weights then
serves all of them; a slot whose reply has ended takes the next prompt at once. Prompt tokens
go through the same pass, one a step; what every prompt begins with, a slot reads once. Replies are
written at temperatures 0, 0.7, 0.7 and 1 in turn, unfiltered, in fp32 or with `--half` by the
target's weights in bfloat16, twice as fast. The file is replaced every two minutes, and holds all
replies that had ended when it is stopped; one process a core, each with its own seed, and `--text`
elsewhere takes several files.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.arguments import number
from engine.drafters.proposal import common_prefix
from engine.tokenizer import Tokenizer
from engine.training import corpus as text
from engine.training import inputs, machine, prompts
from engine.training.loop import stop_on_signals
from engine.training.model import Layer, rotary
from engine.training.teacher import Target

TEMPERATURES = (0.0, 0.7, 0.7, 1.0)
SAVE_SECONDS = 120.0

PROMPTS_TRIED = 1000
"""Of which one at least must leave room for a reply, or none ever might."""


@dataclass
class Turn:
    """One chat turn being written: `ids` grows from the prompt on, `fed` of them so far."""

    family: str
    temperature: float
    prompt_length: int
    ids: list[int]
    fed: int = 0

    @property
    def waiting(self) -> bool:
        """Whether the last id has been fed, so that the next must be chosen."""
        return self.fed == len(self.ids)


class Slots:
    """The target's keys and values for many sequences at once, each at its own length."""

    def __init__(self, target: Target, count: int, context: int) -> None:
        shape = target.shape
        size = (shape.layers, count, shape.kv_heads, context, shape.head_size)
        self.target = target
        self.keys = torch.zeros(size)
        self.values = torch.zeros(size)
        self.cos, self.sin = rotary(shape, [context])  # (context, 1, D)
        self.slot = torch.arange(count)

    def keep(self, slots: list[int]) -> None:
        """Go on with these slots only."""
        self.keys, self.values = self.keys[:, slots], self.values[:, slots]
        self.slot = torch.arange(len(slots))

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Feed one id (slots,) at its position (slots,) everywhere; final hidden states."""
        angles = self.cos[positions], self.sin[positions]
        dtype = next(self.target.decoder.layers.parameters()).dtype
        longest = int(positions.max()) + 1
        seen = torch.arange(longest) <= positions[:, None]  # (slots, longest)
        x = self.target.embedding[ids]
        for layer, keys, values in zip(
            self.target.decoder.layers, self.keys, self.values, strict=True
        ):
            assert isinstance(layer, Layer)
            attention, normed = layer.self_attn, layer.input_layernorm(x, dtype)
            fresh_keys, fresh_values = attention.keys_and_values(normed, angles)
            keys[self.slot, :, positions] = fresh_keys.float()
            values[self.slot, :, positions] = fresh_values.float()
            mixed = F.scaled_dot_product_attention(
                attention.queries(normed, angles).float().unsqueeze(2),  # (slots, heads, 1, D)
                keys[:, :, :longest],
                values[:, :, :longest],
                attn_mask=seen[:, None, None],
                enable_gqa=True,
            )
            x = x + attention.o_proj(mixed.flatten(1).to(dtype))
            x = x + layer.mlp(layer.post_attention_layernorm(x, dtype))
        out: Tensor = self.target.decoder.norm(x)
        return out


def choose(logits: Tensor, temperatures: Tensor, source: torch.Generator) -> Tensor:
    """One id a row: the likeliest at temperature 0, else a draw from the softmax."""
    best = logits.argmax(-1)
    warm = torch.nonzero(temperatures > 0)[:, 0]
    if len(warm):
        law = (logits[warm] / temperatures[warm, None]).softmax(-1)
        below = law.cumsum(-1, dtype=torch.float64)
        at = torch.rand(len(warm), 1, generator=source, dtype=torch.float64) * below[:, -1:]
        best[warm] = torch.searchsorted(below, at, right=True)[:, 0].clamp_max(law.shape[1] - 1)
    return best


@dataclass
class Writer:
    """Writes turn after turn into `done` until `wanted` reply tokens are there."""

    target: Target
    tokenizer: Tokenizer
    seed: int
    wanted: int
    max_new: int
    context: int
    teaching_only: bool = False  # no prompts that are held out, where there is enough of those
    done: list[Turn] = field(default_factory=list)
    written: int = 0

    def turns(self) -> Iterator[Turn]:
        """New turns as long as more text is wanted; prompts that leave no room are left out."""
        for place, prompt in enumerate(prompts.stream(self.seed)):
            if self.written >= self.wanted:
                return
            if self.teaching_only and text.reason(prompt) != "train":
                continue
            ids = self.tokenizer.chat(prompt.text)
            if self.fits(ids):
                temperature = TEMPERATURES[place % len(TEMPERATURES)]
                yield Turn(prompt.family, temperature, len(ids), ids)

    def fits(self, prompt: Sequence[int]) -> bool:
        """Whether these ids leave room for the longest reply."""
        return len(prompt) + self.max_new <= self.context

    def check(self) -> None:
        """Raise ValueError, one clear sentence, where no prompt leaves room for a reply."""
        tried = islice(prompts.stream(self.seed), PROMPTS_TRIED)
        if not any(self.fits(self.tokenizer.chat(prompt.text)) for prompt in tried):
            raise ValueError(
                f"a context of {self.context} tokens has no room for any prompt and a reply of "
                f"{self.max_new}: raise --context or lower --max-new-tokens"
            )

    @torch.inference_mode()
    def run(self, count: int) -> Iterator[None]:
        """Decode in `count` slots, yielding after every step. Turns begun are finished."""
        source = torch.Generator(machine.device()).manual_seed(self.seed)
        fresh = self.turns()
        active = list(islice(fresh, count))
        slots = Slots(self.target, len(active), self.context)
        while active:
            self.step(slots, active, source)
            followers = [self.after(turn, fresh) if self.ended(turn) else turn for turn in active]
            self.done += [turn for turn in active if self.ended(turn)]
            kept = [slot for slot, turn in enumerate(followers) if turn is not None]
            if len(kept) < len(followers):
                slots.keep(kept)
            active = [turn for turn in followers if turn is not None]
            yield

    def after(self, turn: Turn, fresh: Iterator[Turn]) -> Turn | None:
        """The next turn in a slot, where what both begin with has been read."""
        follower = next(fresh, None)
        if follower is not None:
            follower.fed = common_prefix(turn.ids[: turn.fed], follower.ids[:-1])
        return follower

    def step(self, slots: Slots, active: list[Turn], source: torch.Generator) -> None:
        """Feed one id in every slot; where a turn's ids are used up, choose its next."""
        ids = torch.tensor([turn.ids[turn.fed] for turn in active])
        hidden = slots.forward(ids, torch.tensor([turn.fed for turn in active]))
        for turn in active:
            turn.fed += 1
        waiting = [slot for slot, turn in enumerate(active) if turn.waiting]
        if waiting:
            temperatures = torch.tensor([active[slot].temperature for slot in waiting])
            logits = hidden[waiting] @ self.target.embedding.T
            for slot, token in zip(
                waiting, choose(logits, temperatures, source).tolist(), strict=True
            ):
                active[slot].ids.append(token)
            self.written += len(waiting)

    def ended(self, turn: Turn) -> bool:
        new = len(turn.ids) - turn.prompt_length
        return new > 0 and (turn.ids[-1] in self.tokenizer.eos_ids or new >= self.max_new)


def gather(turns: list[Turn]) -> text.Corpus:
    """Finished turns as a corpus."""
    lengths = [len(turn.ids) for turn in turns]
    return text.Corpus(
        ids=np.array([token for turn in turns for token in turn.ids], dtype=np.uint16),
        starts=np.cumsum([0, *lengths], dtype=np.int64),
        prompt_lengths=np.array([turn.prompt_length for turn in turns], dtype=np.int32),
        temperature=np.array([turn.temperature for turn in turns], dtype=np.float32),
        family=np.array([turn.family for turn in turns], dtype=np.str_),
    )


def new_file(value: str) -> Path:
    """An argparse type: a file that is not there yet, in a folder that is."""
    path = Path(value)
    if path.exists():
        raise argparse.ArgumentTypeError(
            f"{value} is there already: name another file, and give both to --text afterwards"
        )
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    return path


def add_options(parser: argparse.ArgumentParser, slots: int) -> None:
    """What shapes the text besides its target."""
    add = parser.add_argument
    add("--seed", type=number(int, 0, 2**63 - 1), default=0, help="of the text that is written")
    add("--slots", type=number(int, 1), default=slots, help="replies written side by side")
    add("--max-new-tokens", type=number(int, 1), default=256, help="of one reply")
    add("--context", type=number(int, 1), default=384, help="of one reply and its prompt")


def main(stop: threading.Event) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", type=inputs.target, required=True, help="folder of the target")
    parser.add_argument("--out", type=new_file, required=True, help="no file that is there")
    parser.add_argument(
        "--tokens", type=number(int, 1), default=1_000_000, help="reply tokens to write"
    )
    add_options(parser, slots=128)
    parser.add_argument("--half", action="store_true", help="compute in bfloat16")
    parser.add_argument(
        "--teaching-only", action="store_true", help="leave out prompts that would be held out"
    )
    machine.add_options(parser)
    options = parser.parse_args()
    machine.use(options)
    writer = Writer(
        Target.load(options.target, torch.bfloat16 if options.half else torch.float32),
        Tokenizer.from_folder(options.target),
        options.seed,
        options.tokens,
        options.max_new_tokens,
        options.context,
        options.teaching_only,
    )
    writer.check()
    began = saved = time.monotonic()
    for _ in writer.run(options.slots):
        if stop.is_set():
            break
        if time.monotonic() - saved > SAVE_SECONDS and writer.done:
            saved = time.monotonic()
            text.save(gather(writer.done), options.out)
            rate = writer.written / (saved - began)
            print(f"{writer.written:,} tokens, {rate:.0f} tokens/s", flush=True)
    if writer.done:
        text.save(gather(writer.done), options.out)
    print(f"{options.out}: {len(writer.done):,} replies, {writer.written:,} tokens")


if __name__ == "__main__":
    inputs.told(lambda: main(stop_on_signals()))
