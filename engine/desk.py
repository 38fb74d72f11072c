"""A round's values on its device: buffers made once and written in place, so that work is replayed.

What a round rests on lies in the same memory in every round: the tokens fed, the uniforms, the
scores and laws of target and drafter, and the verdict. Each piece of work on them has one shape
for any number of guesses: to draw the guess of a slot, to make laws of the target's logits, to
judge a chain. It reads nothing that changes but buffers (settings, k and slot are some) and waits
for nothing, so it can be recorded as a pass is (see `graphs`). What is decided by which *kind* of
settings there are, greedy or not, with which filters, has a recording for each kind. Where
recording fails the same work is launched piece by piece, and `trouble` says why.

A round's values are good until the next one begins. Whoever must know more of them later has
copied it: evidence is numbers, and guesses that nobody has read yet are read before they go.

Knows laws, tokens and uniforms; nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from engine import device_round
from engine.arguments import MAX_K
from engine.device_round import NOT_FINITE, Drawn, Laps, pick
from engine.graphs import ROWS, Recorder, Work
from engine.llama import Branches
from engine.sampling import COLDEST, certain, filtered, penalised
from engine.sending import bring, sent
from engine.trace import EmitKind, Settings
from engine.verification import Verdict, verify_tree

if TYPE_CHECKING:
    from engine.drafters.proposal import Proposal

_TEMPERATURE, _TOP_P, _MIN_P, _PENALTY, _WEIGHT = range(5)
_DRAFT, _ACCEPT, _EMIT = slice(MAX_K), slice(MAX_K, 2 * MAX_K), slice(2 * MAX_K, 2 * MAX_K + 1)


class Kind(NamedTuple):
    """What decides which operations make a law; all else in settings are numbers."""

    greedy: bool
    top_k: int
    top_p: bool
    min_p: bool
    penalty: bool
    mixed: bool

    @classmethod
    def of(cls, s: Settings) -> Kind:
        greedy, penalty, mixed = (
            s.temperature <= COLDEST, s.repetition_penalty != 1.0, s.quality < 100
        )  # fmt: skip
        if greedy:
            return cls(True, 0, False, False, penalty, mixed)
        return cls(False, s.top_k, s.top_p < 1.0, s.min_p > 0, penalty, mixed)


class Desk:
    """The buffers of one round at a time, over `unigram` (V,), the law of the quality dial.

    `dtype` is that of scores and laws. Anyone may use it in turn; `begin` comes first.
    """

    def __init__(self, unigram: Tensor, dtype: torch.dtype, record: Recorder | None = None) -> None:
        device, vocab = unigram.device, len(unigram)

        def buffer(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.dtype = dtype
        self.trouble = ""
        self._record = record
        self._recorded: dict[tuple[str, Kind | None], Work] = {}
        self._unigram = unigram.to(dtype)
        self._fed = buffer(ROWS, dtype=torch.long)  # the text's last token, then the guesses
        self._drawn = buffer(MAX_K, dtype=torch.long)  # as they were drawn: -1 if none could be
        self._uniforms = buffer(2 * MAX_K + 1, dtype=torch.double)
        self._dials = buffer(5, dtype=torch.double)
        self._slot = buffer(1, dtype=torch.long)
        self._count = buffer(1, dtype=torch.long)  # guesses there are
        self._said = buffer(vocab)  # logits for the guess about to be drawn
        self._draft_scores = buffer(MAX_K, vocab)
        self._scores = buffer(ROWS, vocab)
        self._target_probs = buffer(ROWS, vocab)
        self._draft_probs = buffer(MAX_K, vocab)
        self._emit_probs = buffer(vocab, dtype=torch.double)
        self._found = buffer(3 * MAX_K + 2, dtype=torch.double)
        self._written = buffer(vocab, dtype=torch.bool)  # tokens that are in the text
        self._so_far = buffer(vocab, dtype=torch.bool)  # and those of the guesses drawn so far
        self._chain = torch.ones(ROWS, ROWS).tril().to(device)
        self._lines = self._chain.clone()  # which of the rows fed each row comes after
        self._is_chain = True  # what that holds
        self._slots = torch.arange(MAX_K, device=device)
        self._set: tuple[float, ...] = ()  # what the dials hold
        self._kind = Kind.of(Settings())
        self._lent: Drawn | None = None

    @property
    def addresses(self) -> dict[str, int]:
        """Where each buffer lies."""
        parts = vars(self).items()
        return {name: each.data_ptr() for name, each in parts if isinstance(each, Tensor)}

    @torch.inference_mode()
    def begin(self, settings: Settings, text: Sequence[int]) -> None:
        """Begin a round after `text` under these settings; nothing of the last one is left.

        What is new about them is recorded here, which takes a while.
        """
        if self._lent is not None:
            list(self._lent)  # read now if nobody has: somebody may still ask
            self._lent = None
        s = settings
        dials = s.temperature, s.top_p, s.min_p, s.repetition_penalty, s.quality / 100
        if dials != self._set:
            bring(dials, self._dials)
            self._set = dials
        self._kind = Kind.of(s)
        for name, kind in (("draw", self._kind), ("weigh", self._kind), ("judge", None)):
            self._work(name, kind)
        if self._kind.penalty:
            self._written.zero_().index_fill_(0, sent(text, self._written.device), True)

    # --- drafting ------------------------------------------------------------------------------

    @torch.inference_mode()
    def draft(self, uniforms: Sequence[float]) -> None:
        """Be ready to draw guesses with `uniforms`."""
        bring(uniforms, self._uniforms[_DRAFT][: len(uniforms)])
        if self._kind.penalty:
            self._so_far.copy_(self._written)

    @torch.inference_mode()
    def draw(self, slot: int, logits: Tensor) -> Tensor:
        """Draw a guess from what a model says (V,); the token (1,) to feed next."""
        self._said.copy_(logits)
        self._slot.fill_(slot)
        self._work("draw", self._kind)()
        return self._fed[slot + 1 : slot + 2]

    def lend(self, count: int, laps: Laps) -> Drawn:
        """The first `count` guesses, unread."""
        self._lent = Drawn(self._drawn[:count], laps)
        return self._lent

    def drawn_from(self, slot: int) -> tuple[Tensor, Tensor]:
        """The scores (V,) a model gave for the guess of a slot, and its law (V,)."""
        return self._draft_scores[slot], self._draft_probs[slot]

    # --- checking ------------------------------------------------------------------------------

    @torch.inference_mode()
    def to_feed(self, last: int, proposal: Proposal) -> Tensor:
        """The text's last token and the guesses after it (n + 1,)."""
        self._fed[:1].fill_(last)
        self._lay(proposal.tokens, proposal.laws)
        return self._fed[: 1 + len(proposal.tokens)]

    @torch.inference_mode()
    def weigh(
        self, logits: Tensor, parents: Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The target's scores and laws (n + 1, V) by its logits of what was fed.

        And the laws (n, V) that its guesses were drawn from.
        """
        count = len(logits)
        self._scores[:count].copy_(logits)
        if self._kind.penalty:
            self._look(parents)
        self._work("weigh", self._kind)()
        return self._scores[:count], self._target_probs[:count], self._draft_probs[: count - 1]

    @torch.inference_mode()
    def judge(
        self,
        target_probs: Tensor,
        draft_probs: Tensor,
        draft_tokens: Sequence[int],
        parents: Sequence[int] | None,
        accept_draws: Sequence[float],
        emit_draw: float,
    ) -> Verdict:
        """`verification.verify` with one read for a chain: see there for arguments and errors.

        `draft_tokens` may be `Drawn`, and are read along. ``emit_probs`` is in double precision.
        """
        if parents is not None:
            return verify_tree(
                target_probs, draft_probs, draft_tokens, parents, accept_draws, emit_draw
            )
        k = len(draft_tokens)
        _put(self._target_probs[: k + 1], target_probs)
        self._lay(draft_tokens, draft_probs)
        bring(accept_draws, self._uniforms[_ACCEPT][:k])
        bring((emit_draw,), self._uniforms[_EMIT])
        self._count.fill_(k)
        self._work("judge", None)()

        found = device_round.read(self._found)
        target_chances, draft_chances, guesses = (
            found[first : first + k] for first in (0, MAX_K, 2 * MAX_K)
        )
        kept, emitted = int(found[-2]), int(found[-1])
        if isinstance(draft_tokens, Drawn):
            draft_tokens.known([int(guess) for guess in guesses])
        if emitted < 0 or any(guess < 0 for guess in guesses):
            raise ValueError(NOT_FINITE)
        if not all(chance > 0 for chance in draft_chances):
            raise ValueError("a guess has no probability under the law it is said to come from")
        chances = zip(target_chances, draft_chances, strict=True)
        accept_probs = tuple(min(1.0, theirs / ours) for theirs, ours in chances)
        kind: EmitKind = "bonus" if kept == k else "recovered"
        tested = self._target_probs[:k]
        return Verdict(tuple(range(kept)), emitted, kind, self._emit_probs, tested, accept_probs)

    def _lay(self, tokens: Sequence[int], laws: Sequence[Tensor] | Tensor) -> None:
        """Put guesses and their laws where those of their slots lie, if they are not there."""
        count = len(tokens)
        for slot in range(count):
            _put(self._draft_probs[slot], laws[slot])
        if isinstance(tokens, Drawn):
            if _put(self._drawn[:count], tokens.tensor):
                self._fed[1 : count + 1].copy_(self._drawn[:count].clamp(min=0))
        elif count:
            bring(tokens, self._drawn[:count])
            self._fed[1 : count + 1].copy_(self._drawn[:count])

    def _look(self, parents: Sequence[int] | None) -> None:
        """Fill the buffer of which rows come before each; between chains nothing is to be done."""
        if parents is not None:
            lines = torch.zeros(ROWS, ROWS)
            tree = Branches(0).after((-1, *(parent + 1 for parent in parents)))
            for row, line in enumerate(tree.lines):
                lines[row, list(line)] = 1.0
            self._lines.copy_(sent(lines, self._lines.device, lines.dtype))
        elif not self._is_chain:
            self._lines.copy_(self._chain)
        self._is_chain = parents is None

    # --- work ----------------------------------------------------------------------------------

    def _work(self, name: str, kind: Kind | None) -> Callable[[], object]:
        """A piece of work of some kind, recorded now if it is new.

        Recording does it, with what the buffers hold.
        """
        work = self._judge if kind is None else partial(getattr(self, f"_{name}"), kind)
        if (name, kind) not in self._recorded and self._record is not None:
            try:
                self._recorded[name, kind] = self._record(work)
            except (RuntimeError, NotImplementedError) as error:
                self.trouble = str(error).strip().partition("\n")[0][:80] or type(error).__name__
                self._record = None
                self._recorded.clear()
        return self._recorded.get((name, kind), work)

    def _draw(self, kind: Kind) -> Tensor:
        said = self._said
        if kind.penalty:
            said = penalised(said, self._so_far, self._dials[_PENALTY])
        self._draft_scores.index_copy_(0, self._slot, said[None])
        law = self._law(said, kind)
        if kind.mixed:
            law = torch.lerp(self._unigram, law, self._dials[_WEIGHT].to(law.dtype))
        self._draft_probs.index_copy_(0, self._slot, law[None])
        drawn = pick(law, self._uniforms.index_select(0, self._slot))
        self._drawn.index_copy_(0, self._slot, drawn)
        token = drawn.clamp(min=0)
        self._so_far.index_fill_(0, token, True)
        return self._fed.index_copy_(0, self._slot + 1, token)

    def _weigh(self, kind: Kind) -> Tensor:
        if kind.penalty:
            fed = torch.zeros_like(self._scores).scatter(1, self._fed[:, None], 1.0)
            seen = self._written | (self._lines.to(fed.dtype) @ fed > 0)
            self._scores.copy_(penalised(self._scores, seen, self._dials[_PENALTY]))
        return self._target_probs.copy_(self._law(self._scores, kind))

    def _judge(self) -> Tensor:
        """What is found: of each slot target's and drafter's chance and guess; how many; token.

        What lies past the guesses there are is of an earlier round, and counts for nothing.
        """
        at = self._drawn.clamp(min=0)[:, None]
        target = self._target_probs[:-1].gather(1, at)[:, 0].double()
        draft = self._draft_probs.gather(1, at)[:, 0].double()

        passed = (self._uniforms[_ACCEPT] * draft < target) & (self._slots < self._count)
        accepted = passed.long().cumprod(0).sum(0, keepdim=True)  # (1,)

        emit_probs = self._target_probs.index_select(0, accepted)[0].double()
        refusing = accepted.clamp(max=MAX_K - 1)
        refused = self._draft_probs.index_select(0, refusing)[0].double()
        excess = (emit_probs - refused).clamp(min=0)
        total = excess.sum()
        owed = torch.where(total > 1e-12, excess / total, emit_probs)
        self._emit_probs.copy_(torch.where(accepted == self._count, emit_probs, owed))
        token = pick(self._emit_probs, self._uniforms[_EMIT])
        parts = target, draft, self._drawn.double(), accepted.double(), token.double()
        return self._found.copy_(torch.cat(parts))

    def _law(self, scores: Tensor, kind: Kind) -> Tensor:
        """As `sampling.process`, with its numbers from the dials."""
        if kind.greedy:
            return certain(scores)
        dials = self._dials
        top_p = dials[_TOP_P] if kind.top_p else None
        min_p = dials[_MIN_P] if kind.min_p else None
        return filtered(scores, dials[_TEMPERATURE], kind.top_k, top_p, min_p)


def _put(place: Tensor, values: Tensor) -> bool:
    """Copy values to their place, unless they lie there; whether they had to be."""
    if place.data_ptr() == values.data_ptr():
        return False
    place.copy_(values)
    return True
