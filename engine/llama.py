"""A lean Llama: one sequence, a cache rolled back by length, arithmetic by whoever does it best.

`Runner.forward` feeds tokens at explicit positions and returns their logits; `rollback`
forgets rows by moving one counter. Rows may branch, several after one, until `keep` makes one
of the branches the text. How the arithmetic is done is a `Kernel`'s business (see `kernels`);
the plain-torch one here runs on every device and in every precision.

Knows nothing of drafting, sampling or text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.weights import LlamaConfig, ModelError, Weights, dense

__all__ = (
    "Branches", "Cache", "ContextFullError", "Kernel", "LlamaConfig", "ModelError", "Runner",
    "TorchKernel", "Weights", "rope_table",
)  # fmt: skip


class ContextFullError(ValueError):
    """Feeding these tokens would run past the context limit."""


class Cache:
    """Keys and values of one sequence: two tensors (layers, kv heads, context, head dim).

    Preallocated; rows at and past a runner's length are scratch. Layers may be shared by a
    runner that uses only the first of them. `spare` rows past the context are scratch for passes
    of a fixed width.
    """

    def __init__(
        self,
        config: LlamaConfig,
        context: int,
        dtype: torch.dtype,
        device: str,
        spare: int = 0,
    ) -> None:
        shape = (config.layers, config.kv_heads, context + spare, config.head_dim)
        self.context = context
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)


@dataclass(frozen=True, slots=True)
class Branches:
    """What cache rows see that do not simply follow each other.

    Rows below `base` do. Row `base` + i sees the first `straight[i]` rows, all below `base`, and
    then the rows `lines[i]`, itself the last of them; there are no others before it in its text.
    """

    base: int
    straight: tuple[int, ...] = ()
    lines: tuple[tuple[int, ...], ...] = ()

    def after(self, parents: Sequence[int]) -> Branches:
        """The same and a row more for each of `parents`, the row it follows; -1 for none.

        Raises ValueError for a row said to follow one that comes no earlier.
        """
        straight, lines = [*self.straight], [*self.lines]
        for parent in parents:
            row = self.base + len(lines)
            if not -1 <= parent < row:
                raise ValueError(f"row {row} of the cache cannot follow row {parent}")
            branched = parent >= self.base
            straight.append(straight[parent - self.base] if branched else parent + 1)
            lines.append((*lines[parent - self.base], row) if branched else (row,))
        return Branches(self.base, tuple(straight), tuple(lines))

    def cut(self, start: int, stop: int) -> Branches:
        """What is said of rows `start` to `stop`, all of them at or past `base`."""
        rows = slice(start - self.base, stop - self.base)
        return Branches(start, self.straight[rows], self.lines[rows])

    @property
    def positions(self) -> list[int]:
        """Where each row stands in its text."""
        pairs = zip(self.straight, self.lines, strict=True)
        return [straight + len(line) - 1 for straight, line in pairs]


class Kernel(Protocol):
    """A way to run the layers. `name` is shown to people.

    `chains_only`: in chains a row has the same bits in passes of every width, in trees it may not.
    """

    name: str

    @property
    def chains_only(self) -> bool: ...

    def hidden(
        self,
        ids: Sequence[int] | Tensor,
        start: int,
        cache: Cache,
        branches: Branches | None = None,
    ) -> Tensor:
        """Feed `ids`, writing cache rows `start`…; (n, hidden) after norm.

        They stand at positions `start`…, each after all the rows before it, unless `branches`
        says what each of these rows sees.
        """

    def logits(self, hidden: Tensor) -> Tensor:
        """Score rows (n, hidden) over the head: (n, V')."""

    def first_layers(self, count: int) -> Kernel:
        """The same way of computing, for the first `count` layers."""


def rope_table(config: LlamaConfig, context: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines (context, head_dim / 2) in float32, as transformers computes them."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequencies = 1.0 / (config.rope_theta**exponents)
    angles = torch.arange(context, dtype=torch.float32)[:, None] * frequencies[None, :]
    return angles.cos(), angles.sin()


class TorchKernel:
    """The layers in stock torch operations: any device, any precision."""

    name = "torch"
    chains_only = False  # nothing is promised of either

    def __init__(self, weights: Weights, context: int) -> None:
        self.weights = weights
        self._context = context
        self._qkv, self._output, self._gate_up, self._down, self._head = (
            dense(matrix)
            for matrix in (
                weights.qkv, weights.output, weights.gate_up, weights.down, weights.head
            )
        )  # fmt: skip
        like = weights.embedding
        cos, sin = rope_table(weights.config, context)
        self._cos = torch.cat((cos, cos), -1).to(like)  # (context, head_dim)
        self._sin = torch.cat((-sin, sin), -1).to(like)  # sign of rotate-half folded in

    def first_layers(self, count: int) -> TorchKernel:
        return TorchKernel(self.weights.first_layers(count), self._context)

    def hidden(
        self,
        ids: Sequence[int] | Tensor,
        start: int,
        cache: Cache,
        branches: Branches | None = None,
    ) -> Tensor:
        table = self.weights.embedding
        rows = table[torch.as_tensor(ids, device=table.device)]
        return self.hidden_of(rows, start, cache, branches)

    @torch.inference_mode()
    def hidden_of(
        self, x: Tensor, start: int, cache: Cache, branches: Branches | None = None
    ) -> Tensor:
        """As `hidden`, of rows (n, hidden) given in the place of embeddings."""
        end = start + len(x)
        if branches is None:
            places = torch.arange(end, device=x.device)
            mask = places[None, :] <= places[start:, None]  # (n, end): row i sees rows <= start + i
            turn = self._cos[start:end], self._sin[start:end]
        else:
            mask = seen_by(branches, end).to(x.device)
            positions = torch.tensor(branches.positions, device=x.device)
            turn = self._cos[positions], self._sin[positions]
        return self.layers(
            x, lambda layer, fused: self._attention(layer, fused, start, cache, mask, turn)
        )

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self._head)

    def layers(self, x: Tensor, attend: Callable[[int, Tensor], Tensor]) -> Tensor:
        """Run rows (n, hidden) through every layer and the final norm.

        ``attend(layer, fused)`` is given a layer's queries, keys and values (n, heads + 2·kv heads,
        dim) and returns what its heads make of them (n, heads·dim).
        """
        w = self.weights
        for layer in range(w.config.layers):
            normed = self._norm(x, w.attention_norm[layer])
            fused = F.linear(normed, self._qkv[layer]).view(len(x), -1, w.config.head_dim)
            x = x + F.linear(attend(layer, fused), self._output[layer])
            normed = self._norm(x, w.mlp_norm[layer])
            gate, up = F.linear(normed, self._gate_up[layer]).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, self._down[layer])
        return self._norm(x, w.norm)

    def _attention(
        self,
        layer: int,
        fused: Tensor,
        start: int,
        cache: Cache,
        mask: Tensor,
        turn: tuple[Tensor, Tensor],
    ) -> Tensor:
        c = self.weights.config
        rows, end = fused.shape[0], start + fused.shape[0]
        fused = fused.transpose(0, 1)
        queries, keys = fused[: c.heads], fused[c.heads : c.heads + c.kv_heads]
        values = fused[c.heads + c.kv_heads :]
        cache.keys[layer, :, start:end] = _rotate(keys, *turn)
        cache.values[layer, :, start:end] = values
        mixed = F.scaled_dot_product_attention(
            _rotate(queries, *turn)[None],
            cache.keys[layer, :, :end][None],
            cache.values[layer, :, :end][None],
            attn_mask=mask,
            enable_gqa=True,
        )  # (1, heads, n, head_dim)
        return mixed[0].transpose(0, 1).reshape(rows, -1)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.weights.config.norm_eps)


def _rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions (n, head_dim) on (heads, n, head_dim)."""
    swapped = torch.cat(heads.chunk(2, dim=-1)[::-1], dim=-1)
    return heads * cos + swapped * sin


def seen_by(branches: Branches, end: int) -> Tensor:
    """Which of the first `end` cache rows each branched row sees (n, end)."""
    straight = torch.tensor(branches.straight)
    seen = torch.arange(end)[None, :] < straight[:, None]
    for row, line in enumerate(branches.lines):
        seen[row, list(line)] = True
    return seen


class Runner:
    """One sequence through one model.

    `length` tokens have been fed and their cache rows are valid; and so are as many rows of
    `hidden` (context, hidden), their final hidden states, after the final norm. Rows fed with
    `parents` are branches, until they are kept or forgotten.
    """

    def __init__(
        self,
        weights: Weights,
        context: int = 2048,
        kernel: Kernel | None = None,
        cache: Cache | None = None,
    ) -> None:
        context = min(context, weights.config.context)
        like = weights.embedding
        self.weights = weights
        self.kernel = kernel or TorchKernel(weights, context)
        self.cache = cache or Cache(weights.config, context, like.dtype, str(like.device))
        self.length = 0
        self.hidden = like.new_zeros(self.context, weights.config.hidden_size)
        self._branches: Branches | None = None  # None: all rows held are straight

    @property
    def context(self) -> int:
        """Most tokens the cache can hold."""
        return self.cache.context

    @property
    def chains_only(self) -> bool:
        """As the kernel's."""
        return self.kernel.chains_only

    def forward(
        self,
        ids: Sequence[int] | Tensor,
        last_only: bool = False,
        parents: Sequence[int] | None = None,
    ) -> Tensor:
        """Feed `ids` after the rows held and return logits (n, vocab), or (1, vocab) of the last.

        Each token follows the row before it, or the row that `parents` (n,) names, -1 for none:
        it stands one position further and sees that row and those before it in its text, no
        others. Ids outside a reduced vocabulary score −inf. Raises ContextFullError before
        touching anything when they do not fit, ValueError when `ids` is empty or a parent comes
        no earlier.
        """
        if len(ids) == 0:
            raise ValueError("forward needs at least one token")
        branches = self._branches_with(len(ids), parents)
        hidden = self.kernel.hidden(ids, self.length, self.cache, self._new(branches))
        return self._take(hidden, last_only, branches)

    def _branches_with(self, count: int, parents: Sequence[int] | None = None) -> Branches | None:
        """The branches there will be with `count` rows more; nothing is changed yet."""
        end = self.length + count
        if end > self.context:
            raise ContextFullError(
                f"{self.length} tokens held and {count} more exceed the context of {self.context}"
            )
        if parents is None:
            if self._branches is None:
                return None
            parents = range(self.length - 1, end - 1)
        elif len(parents) != count:
            raise ValueError(f"{count} tokens and {len(parents)} rows that they follow")
        return (self._branches or Branches(self.length)).after(parents)

    def _new(self, branches: Branches | None) -> Branches | None:
        """What is said of rows about to be fed, if they do not follow straight on."""
        if branches is None:
            return None
        end = branches.base + len(branches.lines)
        new = branches.cut(self.length, end)
        return None if new.positions == list(range(self.length, end)) else new

    def _take(self, hidden: Tensor, last_only: bool, branches: Branches | None = None) -> Tensor:
        """Count rows just computed as held, and score them."""
        end = self.length + len(hidden)
        self.hidden[self.length : end] = hidden
        self.length = end
        self._branches = branches
        return self.score(hidden[-1:] if last_only else hidden)

    def keep(self, rows: Sequence[int]) -> None:
        """Make the branched `rows`, each following the one before, the text; forget all others.

        Their keys, values and hidden states move up behind the straight rows, as if they had been
        fed there. Raises ValueError when `rows` are not a branch that starts there.
        """
        base = self.length if self._branches is None else self._branches.base
        if rows and not self._leads_to(rows):
            raise ValueError(f"rows {list(rows)} do not follow each other from row {base} on")
        here = range(base, base + len(rows))
        moved = [(row, place) for row, place in zip(rows, here, strict=True) if row != place]
        if moved:
            from_rows, to_rows = torch.tensor(moved, device=self.hidden.device).T
            for each in (self.cache.keys, self.cache.values):
                each[:, :, to_rows] = each[:, :, from_rows]
            self.hidden[to_rows] = self.hidden[from_rows]
        self.length = here.stop
        self._branches = None

    def _leads_to(self, rows: Sequence[int]) -> bool:
        """Whether `rows` are a whole branch, up to the last of them."""
        branches = self._branches
        if branches is None or not branches.base <= rows[-1] < self.length:
            return False
        at = rows[-1] - branches.base
        return branches.straight[at] == branches.base and branches.lines[at] == tuple(rows)

    def score(self, hidden: Tensor) -> Tensor:
        """Logits (n, vocab) of final hidden states; −inf outside a reduced vocabulary."""
        logits = self.kernel.logits(hidden)
        return self._full_width(logits.to(torch.promote_types(logits.dtype, torch.float32)))

    def rollback(self, length: int) -> None:
        """Forget every row from `length` on. Equal to the present length: no change.

        Raises ValueError when fewer than `length` rows are held, or it is negative.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot roll back to {length}: {self.length} rows are held")
        self.length = length
        if self._branches is not None:
            base = self._branches.base
            self._branches = self._branches.cut(base, length) if length > base else None

    def adopt(self, length: int) -> None:
        """Count the first `length` rows as held: another runner on this cache has filled them."""
        if not 0 <= length <= self.context:
            raise ValueError(f"cannot adopt {length} rows of a cache of {self.context}")
        self.length = length
        self._branches = None

    def first_layers(self, count: int) -> Runner:
        """A runner of the first `count` layers on *this* runner's cache rows.

        Rows below the owner's length are already right for it (`adopt` them); rows it writes
        past that length are overwritten when the owner feeds the same positions.
        """
        kernel = self.kernel.first_layers(count)
        return Runner(self.weights.first_layers(count), self.context, kernel, self.cache)

    def _full_width(self, logits: Tensor) -> Tensor:
        ids = self.weights.vocab_ids
        if ids is None:
            return logits
        full = logits.new_full((logits.shape[0], self.weights.config.vocab_size), -torch.inf)
        full[:, ids] = logits
        return full
