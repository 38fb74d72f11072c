"""Puts an engine together: model on disk to a target, its drafters and runs of both.

The one place where folder, device, kernel, tokenizer and drafters meet. Says what it is doing
through `report`, for opening takes seconds and a first fetch takes longer.

Knows which part does what; does none of it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from engine import config, fetch
from engine.config import EngineConfig
from engine.decode import Session
from engine.drafters.ngram import NGramDrafter
from engine.drafters.proposal import Drafter
from engine.llama import Runner, Weights
from engine.requests import Start
from engine.tokenizer import Tokenizer
from engine.trace import Baseline, EngineState, RunHeader, Settings

Report = Callable[[EngineState], None]

CONTEXT = 2048
"""Most tokens a run may hold, prompt included; a model's own limit may be lower."""


def open_engine(options: EngineConfig, report: Report) -> Engine:
    """Load what `options` name, fetching the default target first if it is not there.

    Raises ModelError, TokenizerError, FetchError or OSError, each one clear sentence.
    """
    folder = options.target or fetch.cached_folder()
    report(EngineState("loading", f"Loading {folder.name}"))
    torch.set_num_threads(options.threads or max(1, (os.cpu_count() or 2) - 1))
    weights = Weights.load(folder, torch.float32, "cpu")
    engine = Engine(Runner(weights, CONTEXT), Tokenizer.from_folder(folder), folder.name)
    report(EngineState("measuring", "Measuring the target alone"))
    engine.measure()
    return engine


class Engine:
    """A target and its drafters; makes one run at a time."""

    def __init__(self, target: Runner, tokenizer: Tokenizer, name: str) -> None:
        self._target = target
        self._tokenizer = tokenizer
        self._name = name
        self._baseline: Baseline | None = None
        vocab = target.weights.config.vocab_size
        self._unigram = torch.full((vocab,), 1 / vocab)
        self._ngram = NGramDrafter()

    @property
    def drafters(self) -> tuple[str, ...]:
        return ("n-gram",)

    @property
    def described(self) -> dict[str, object]:
        """What a measurement was made on."""
        return {"target": self._name, "device": "cpu", "dtype": "float32", "kernel": "torch"}

    @property
    def eos_ids(self) -> tuple[int, ...]:
        return self._tokenizer.eos_ids

    def check(self, settings: Settings) -> None:
        config.check(settings)
        if settings.drafter not in ("auto", "none", *self.drafters):
            raise ValueError(
                f"There is no drafter {settings.drafter!r}: choose auto, none, {', '.join(self.drafters)}."
            )

    def begin(self, start: Start) -> Session:
        self.check(start.settings)
        if not start.prompt.strip():
            raise ValueError("The prompt is empty: write something for the model to answer.")
        ids = (self._tokenizer.chat if start.chat else self._tokenizer.encode)(start.prompt)
        header = RunHeader(
            run_id=uuid.uuid4().hex[:8],
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            target=self._name,
            device="cpu",
            dtype="float32",
            kernel="torch",
            drafter="n-gram",
            drafter_reason="",
            settings=start.settings,
            prompt=start.prompt,
            chat=start.chat,
            prompt_tokens=tuple(map(self._tokenizer.token, ids)),
            vocab_size=self._target.weights.config.vocab_size,
            context_limit=self._target.context,
            max_new_tokens=start.max_new_tokens,
            stop=start.stop,
            seed=start.seed,
            baseline=self._baseline,
            prefill_seconds=0.0,
        )
        return Session(self._target, self._tokenizer, self._drafter, self._unigram, header)

    def _drafter(self, name: str) -> Drafter:
        if name not in ("auto", "n-gram"):
            raise ValueError(f"unknown drafter {name}")
        return self._ngram

    def measure(self) -> None:
        session = self.begin(Start("The", chat=False, settings=Settings(k=0)))
        self._baseline = session.measure_baseline()
