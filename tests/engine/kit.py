"""Small models for decoding tests: laws written in tables, a tiny Llama, scripted drafters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from engine.decode import Session
from engine.drafters.proposal import DraftRequest, Proposal, Step, chain
from engine.llama import LlamaConfig, Runner, Weights
from engine.sampling import penalise, process
from engine.trace import RunHeader, Settings, Token

torch.set_num_threads(1)  # on models this small, threads cost more than they bring

TINY_VOCAB = 64
EOS = 63


class Words:
    """A vocabulary of w0, w1, …; `texts` replaces some; `eos_ids` end the text."""

    def __init__(self, eos_ids: tuple[int, ...] = (), texts: dict[int, str] | None = None) -> None:
        self.eos_ids = eos_ids
        self._texts = texts or {}

    def token(self, token_id: int) -> Token:
        return Token(token_id, self._texts.get(token_id, f"w{token_id} "))


class TableModel:
    """A model whose law of the next token is any function of the whole prefix."""

    context = 64
    hidden = torch.zeros(context, 1)  # of no use to anyone
    chains_only = False

    def __init__(self, law: Callable[[tuple[int, ...]], Tensor]) -> None:
        self._law = law
        self._texts: list[tuple[int, ...]] = []  # of each row, up to its own token

    @property
    def length(self) -> int:
        return len(self._texts)

    def forward(
        self, ids: Sequence[int], last_only: bool = False, parents: Sequence[int] | None = None
    ) -> Tensor:
        for number, token in enumerate(ids):
            parent = len(self._texts) - 1 if parents is None else parents[number]
            self._texts.append((*(self._texts[parent] if parent >= 0 else ()), token))
        rows = [self._law(text).log() for text in self._texts[-len(ids) :]]
        return torch.stack(rows[-1:] if last_only else rows)

    def rollback(self, length: int) -> None:
        assert 0 <= length <= len(self._texts)
        del self._texts[length:]

    def keep(self, rows: Sequence[int]) -> None:
        kept = [self._texts[row] for row in rows]
        assert [len(text) for text in kept] == list(range(rows[0] + 1, rows[0] + 1 + len(rows)))
        self._texts[rows[0] :] = kept


def random_law(seed: int, vocab: int) -> Callable[[tuple[int, ...]], Tensor]:
    """A different random law for every prefix, the same each time it is asked for."""

    @cache
    def law(prefix: tuple[int, ...]) -> Tensor:
        key = hash((seed, *prefix)) % 2**31
        generator = torch.Generator().manual_seed(key)
        weights = torch.rand(vocab, generator=generator, dtype=torch.float64) ** 3
        return weights / weights.sum()

    return law


def tiny_weights(seed: int = 0, layers: int = 2) -> Weights:
    """A random two-layer Llama in float64, sharp enough that greedy choices are clear."""
    config = LlamaConfig(
        vocab_size=TINY_VOCAB, hidden_size=32, mlp_size=64, layers=layers, heads=4, kv_heads=2,
        head_dim=8, rope_theta=10000.0, norm_eps=1e-5, context=128,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64) * shape[-1] ** -0.5

    table = random(TINY_VOCAB, 32) * 6
    return Weights(
        config=config,
        embedding=table,
        attention_norm=torch.ones(layers, 32, dtype=torch.float64),
        qkv=random(layers, config.qkv_size, 32),
        output=random(layers, 32, 32),
        mlp_norm=torch.ones(layers, 32, dtype=torch.float64),
        gate_up=random(layers, 128, 32),
        down=random(layers, 32, 64),
        norm=torch.ones(32, dtype=torch.float64),
        head=random(TINY_VOCAB, 32) * 3,
    )


TINY, TINY_D = tiny_weights(0), tiny_weights(1)


def alone(
    weights: Weights, prompt: Sequence[int], count: int, eos: Sequence[int] = ()
) -> list[int]:
    """The oracle: greedy, no cache, the whole prefix fed for each token."""
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(Runner(weights).forward(ids)[-1].argmax()))
        if ids[-1] in eos:
            break
    return ids[len(prompt) :]


def audit(runner: Runner, ids: Sequence[int]) -> None:
    """Every row held, of cache and features, equals that of a fresh prefill of the same ids."""
    fresh = Runner(runner.weights, runner.context)
    assert runner.length <= len(ids)
    if runner.length:
        fresh.forward(ids[: runner.length])
    for mine, theirs in (
        (runner.cache.keys, fresh.cache.keys),
        (runner.cache.values, fresh.cache.values),
    ):
        layers = runner.weights.config.layers
        difference = mine[:layers, :, : runner.length] - theirs[:layers, :, : runner.length]
        assert float(difference.abs().sum()) < 1e-9
    hidden = runner.hidden[: runner.length] - fresh.hidden[: runner.length]
    assert float(hidden.abs().sum()) < 1e-8


class Script:
    """Proposes what `guess` says after each text; a law (V,), a token, or None for silence."""

    context: int | None = None

    def __init__(self, guess: Callable[[list[int]], Tensor | int | None], name: str = "script"):
        self.name = name
        self._guess = guess
        self.observed: list[list[int]] = []

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        def step(text: list[int], slot: int) -> Step | None:
            said = self._guess(text)
            if said is None:
                return None
            soft = isinstance(said, Tensor)
            return Step(
                request.law_of(request.scores(said.log(), text)) if soft else request.certain(said),
                "script",
            )

        return chain(step, ids, request)

    def observe(self, ids: Sequence[int]) -> None:
        self.observed.append(list(ids))


class TreeScript:
    """Proposes the tree that `shape` gives for a round: parents of at most k nodes, or None.

    A node's guess after a text follows `law` (V,). Siblings are drawn from it without
    replacement or, when it is `certain`, are its likeliest few: before the dial, which may add
    any others.
    """

    context: int | None = None

    def __init__(
        self,
        law: Callable[[list[int]], Tensor],
        shape: Callable[[int, int], Sequence[int] | None],
        certain: bool = False,
        name: str = "script",
    ):
        self.name = name
        self._law, self._shape, self._certain = law, shape, certain

    def propose(self, ids: Sequence[int], request: DraftRequest) -> Proposal:
        shape = self._shape(request.round_index, request.k)
        if shape is None:
            return Script(self._law).propose(ids, request)
        texts: list[list[int]] = []
        laws: list[Tensor] = []
        for node, parent in enumerate(shape):
            before = list(ids) if parent == -1 else texts[parent]
            elders = [texts[i][-1] for i in range(node) if shape[i] == parent]
            law = self._sibling(before, elders, request)
            if law is None:
                break
            laws.append(law)
            texts.append([*before, request.draw(node, law)])
        count = len(texts)
        return Proposal(
            tuple(text[-1] for text in texts), tuple(laws), ("script",) * count, (None,) * count,
            (0.001,) * count, tuple(shape[:count]),
        )  # fmt: skip

    def _sibling(
        self, before: list[int], elders: list[int], request: DraftRequest
    ) -> Tensor | None:
        law = self._law(before).clone()
        law[elders] = 0.0
        if law.sum() == 0:
            return None
        law = request.certain(int(law.argmax())) if self._certain else (
            request.law_of(request.scores(law.log(), before))
        )  # fmt: skip
        law = law.clone()  # to which the dial may have brought them back
        law[elders] = 0.0
        return law / law.sum()

    def observe(self, ids: Sequence[int]) -> None:
        """Nothing to learn."""


def header(prompt: Sequence[int], settings: Settings | None = None, **changes: object) -> RunHeader:
    """A run's configuration with this prompt."""
    plain = RunHeader(
        run_id="test", created="", target="tiny", device="cpu", dtype="float64", kernel="torch",
        drafter="script", drafter_reason="", settings=settings or Settings(drafter="script"),
        prompt="", chat=False, prompt_tokens=tuple(Token(i, "") for i in prompt), vocab_size=0,
        context_limit=128, max_new_tokens=24, stop=(), seed=0, baseline=None, prefill_seconds=0.0,
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def session(
    target: object,
    drafter: object,
    run: RunHeader,
    words: Words | None = None,
    vocab: int = TINY_VOCAB,
    **changes: object,
) -> Session:
    """A session whose every drafter is `drafter`, over a uniform unigram law."""
    uniform = torch.full((vocab,), 1 / vocab, dtype=torch.float64)
    return Session(target, words or Words(), lambda name: drafter, uniform, run, **changes)


def committed(run: Session) -> list[int]:
    """Ids after the prompt."""
    return list(run.ids[len(run.header.prompt_tokens) :])


def process_law(law: Tensor, settings: Settings, prefix: Sequence[int] = ()) -> Tensor:
    """A table's law (V,) after `prefix` as the settings shape it."""
    s = settings
    scores = penalise(law.log()[None], prefix, s.repetition_penalty)[0]
    return process(scores, s.temperature, s.top_k, s.top_p, s.min_p)
