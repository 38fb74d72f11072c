"""Passes of fixed shape, recorded once and replayed: how a CUDA device decodes.

A small model at batch 1 keeps a GPU waiting for its next kernel: several hundred are launched
for one token. A CUDA graph launches them all at once, but what it replays is frozen: kernels,
shapes, addresses, and every Python value seen while recording. So a pass reads all that changes,
its rows and where they stand, from buffers on the device, and has one of two widths: 1, a draft
step, and `ROWS`, a verification of any k. Rows beyond those given are padding: nobody reads what
they compute, and what they write lies past the length counter, where the next pass writes again.

Attention runs over a *window* of the cache, masked by the position on the device. Windows double
from `SHORTEST`, each with its own recording, since a pass over the whole context would cost a
short text three times over: on a single sequence the fused kernel walks its keys one block after
another. What lies in a window past a row's position is weighed with exact zeros, after
everything else, and so should leave the same bits in every window (the device check measures it).

What a row sees, and at which position it stands, is a buffer too, so that a tree of guesses
(`llama.Branches`) replays the same recordings.

Exact mode (`same_bits`, for float32) makes every pass of the target `ROWS` wide, those over one
token too: a product's rows are then summed in one order whatever a round proposes, and the text
without speculation is the text with it, to the bit. That is so of chains (`chains_only`). The keys
of a tree's branch stand apart in the cache, and attention may add them up in other groups; so
whoever wants a greedy text feeds the branch that passed once more, as a chain (`decode`).

Where recording fails the same passes are made by `llama.TorchKernel`, and `name` says so.

Knows passes; nothing of drafting, sampling or rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from engine.arguments import MAX_K
from engine.llama import Branches, Cache, TorchKernel, Weights, rope_table
from engine.sending import sent

ROWS = MAX_K + 1
"""Rows of a wide pass: the last committed token and the most guesses a round can have."""

SHORTEST = 256
"""Cache rows of the smallest window."""

_ALIGNED = 64  # cache rows come in such numbers: masks of odd sizes have no fused attention

Work = Callable[[], Tensor]
Recorder = Callable[[Work], Work]
"""Runs some work and returns a way to run it again, on the same buffers."""


class CudaGraphs:
    """Records work as CUDA graphs.

    All graphs share one pool of memory and one side stream; they are replayed one at a time, and
    each result is copied out before the next replay.
    """

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def __call__(self, work: Work) -> Work:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(2):  # libraries choose kernels and allocate workspace on first use
                work()
        torch.cuda.current_stream().wait_stream(self._stream)
        graph = torch.cuda.CUDAGraph()
        # Other threads of the process may talk to the driver meanwhile: they do not disturb us.
        with torch.cuda.graph(
            graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
        ):
            out = work()

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay


def eager(work: Work) -> Work:
    """Record nothing: the same passes of fixed shape, launched kernel by kernel."""
    return work


class GraphKernel:
    """The layers of one model as recorded passes over one static cache (see `llama.Kernel`).

    `replays` counts passes that were replayed; `trouble` is why none can be, in a few words.
    """

    def __init__(
        self, weights: Weights, context: int, record: Recorder, same_bits: bool = False
    ) -> None:
        self.name = "CUDA graphs"
        self.replays = 0
        self.trouble = ""
        self._weights = weights
        self._context = context
        self._record: Recorder | None = record
        self._same_bits = same_bits
        self._recorded: dict[tuple[int, int], Work] = {}
        self._cache: Cache | None = None  # the one whose rows the recorded passes use
        self._eager = TorchKernel(weights, context)
        like = weights.embedding
        self._rows = like.new_zeros(ROWS, weights.config.hidden_size)
        self._start = torch.zeros(1, dtype=torch.long, device=like.device)
        self._steps = torch.arange(ROWS, device=like.device)
        self._chain = _sight_of(None, 0).to(like.device)
        self._sight = self._chain.clone()
        self._is_chain = True  # what the buffer holds
        capacity = context + self.spare_rows(context)
        self._windows = _windows(capacity)
        self._places = torch.arange(capacity, device=like.device)
        cos, sin = rope_table(weights.config, capacity)
        self._cos = torch.cat((cos, cos), -1).to(like)[:, None]  # (capacity, 1, head_dim)
        self._sin = torch.cat((-sin, sin), -1).to(like)[:, None]  # sign of rotate-half folded in

    @property
    def chains_only(self) -> bool:
        return self._same_bits and self._record is not None

    @staticmethod
    def spare_rows(context: int) -> int:
        """Cache rows a wide pass needs past `context`, so that its padding has a place."""
        return ROWS - 1 + -(context + ROWS - 1) % _ALIGNED

    def new_cache(self) -> Cache:
        """A cache these passes fit in."""
        like, spare = self._weights.embedding, self.spare_rows(self._context)
        return Cache(self._weights.config, self._context, like.dtype, str(like.device), spare)

    def first_layers(self, count: int) -> GraphKernel | TorchKernel:
        if self._record is None:
            return self._eager.first_layers(count)
        return GraphKernel(self._weights.first_layers(count), self._context, self._record)

    @torch.inference_mode()
    def hidden(
        self,
        ids: Sequence[int] | Tensor,
        start: int,
        cache: Cache,
        branches: Branches | None = None,
    ) -> Tensor:
        table = self._weights.embedding
        return self.hidden_of(table[sent(ids, table.device)], start, cache, branches)

    @torch.inference_mode()
    def hidden_of(
        self, x: Tensor, start: int, cache: Cache, branches: Branches | None = None
    ) -> Tensor:
        """As `hidden`, of rows (n, hidden) given in the place of embeddings."""
        count = len(x)
        width = 1 if count == 1 and not self._same_bits else ROWS
        replay = None
        window = next((each for each in self._windows if each >= start + width), None)
        fits = branches is None or max(map(len, branches.lines)) <= ROWS
        if count <= width and fits and window is not None and window <= cache.keys.shape[2]:
            self._rows[:count] = x
            self._start.fill_(start)
            self._look(branches, start)
            replay = self._recording(width, window, cache)
        if replay is None:
            return self._eager.hidden_of(x, start, cache, branches)
        self.replays += 1
        return replay()[:count].clone()  # the next replay writes over its result

    def _look(self, branches: Branches | None, start: int) -> None:
        """Fill the buffer of what rows see; between chains nothing is to be done."""
        if branches is not None:
            self._sight.copy_(sent(_sight_of(branches, start), self._sight.device))
        elif not self._is_chain:
            self._sight.copy_(self._chain)
        self._is_chain = branches is None

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """As `Kernel.logits`; in exact mode the head, too, always scores `ROWS` rows."""
        count = len(hidden)
        if self._same_bits and count < ROWS:
            return self._eager.logits(F.pad(hidden, (0, 0, 0, ROWS - count)))[:count]
        return self._eager.logits(hidden)

    def record_all(self, cache: Cache) -> None:
        """Record every pass now, so that none is recorded in a round.

        Writes over cache rows: the sequence must be empty.
        """
        widths = (ROWS,) if self._same_bits else (1, ROWS)
        with torch.inference_mode():
            self._start.zero_()
            for window in self._windows:
                for width in widths:
                    self._recording(width, window, cache)

    def _recording(self, width: int, window: int, cache: Cache) -> Work | None:
        """The recorded pass, made now if it is new; None when nothing can be recorded here.

        Recording runs the pass, with what the buffers hold now.
        """
        if cache is not self._cache:
            self._recorded.clear()
            self._cache = cache
        if (width, window) not in self._recorded and self._record is not None:
            try:
                work = partial(self._pass, width, window, cache)
                self._recorded[width, window] = self._record(work)
            except (RuntimeError, NotImplementedError) as error:
                self._give_up(error)
        return self._recorded.get((width, window))

    def _give_up(self, error: Exception) -> None:
        self.trouble = str(error).strip().partition("\n")[0][:80] or type(error).__name__
        self.name = f"torch (CUDA graphs cannot be recorded: {self.trouble})"
        self._record = None
        self._recorded.clear()

    def _pass(self, width: int, window: int, cache: Cache) -> Tensor:
        """What is recorded: reads nothing that changes but buffers. (width, hidden), after norm."""
        places = self._start + self._steps[:width]
        sight = self._start + self._sight[:width]
        positions = sight[:, 0]
        seen = self._places[:window] < sight[:, 1:2]
        seen = seen.scatter(1, sight[:, 2:], True)
        like = self._weights.embedding
        mask = torch.zeros(seen.shape, dtype=like.dtype, device=like.device)
        mask = mask.masked_fill(~seen, -torch.inf)  # (width, window)
        cos, sin = self._cos[positions], self._sin[positions]
        c = self._weights.config
        group = c.heads // c.kv_heads  # query heads that share a key head: rows of one product
        mask = mask.repeat(group, 1)

        def attend(layer: int, fused: Tensor) -> Tensor:
            turned = fused[:, : c.heads + c.kv_heads]
            swapped = torch.cat(turned.chunk(2, dim=-1)[::-1], dim=-1)
            turned = (turned * cos + swapped * sin).transpose(0, 1)
            values = fused[:, c.heads + c.kv_heads :].transpose(0, 1)
            cache.keys[layer].index_copy_(1, places, turned[c.heads :])
            cache.values[layer].index_copy_(1, places, values)
            mixed = F.scaled_dot_product_attention(
                turned[: c.heads].reshape(1, c.kv_heads, group * width, c.head_dim),
                cache.keys[layer, :, :window][None],
                cache.values[layer, :, :window][None],
                attn_mask=mask,
            )  # (1, kv heads, group · width, head_dim)
            return mixed.view(c.heads, width, c.head_dim).transpose(0, 1).reshape(width, -1)

        with _one_attention(like.device):
            return self._eager.layers(self._rows[:width], attend)


def _sight_of(branches: Branches | None, start: int) -> Tensor:
    """What rows of a pass see (`ROWS`, 2 + `ROWS`): position, straight rows seen, others seen.

    All counted from `start`, the pass's first place; without branches it is the same everywhere.
    Nothing more to see is the row's own place once more.
    """
    own = torch.arange(ROWS)[:, None]
    sight = torch.cat((own, own + 1, own.expand(ROWS, ROWS)), dim=1)
    if branches is not None:
        rows = zip(branches.positions, branches.straight, branches.lines, strict=True)
        for row, (position, straight, line) in enumerate(rows):
            seen = torch.tensor((position, straight, *line))
            sight[row, : len(seen)] = seen - start
    return sight


def _windows(capacity: int) -> tuple[int, ...]:
    """Rows attention may run over: `SHORTEST`, doubled until all of `capacity` is covered."""
    windows = [SHORTEST]
    while windows[-1] < capacity:
        windows.append(2 * windows[-1])
    return *windows[:-1], capacity


def _one_attention(device: torch.device) -> AbstractContextManager[None]:
    """On CUDA the fused attention that takes a mask in every precision, and no other in its stead.

    It walks keys in blocks, in order, which is what keeps bits the same in every window.
    """
    if device.type != "cuda":
        return nullcontext()
    kernels = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    return sdpa_kernel(kernels, set_priority=True)
