"""Runs made up with any drafter: copied guesses are real copies, none of it is measured."""

from __future__ import annotations

from dataclasses import replace

from engine.trace import RunFinished, Settings, Trace
from tests.scenes import runs

DRAFTERS = (
    *("copy-8", "copy-4", "copy-3g32", "copy-2g16", "small-1", "small", "small-4", "eagle", "mtp"),
    *("medusa", "pard", "n-gram", "retrieval", "hybrid", "layer-skip-10", "layer-skip-20"),
)
SOURCES = {"medusa": "head", "pard": "mask", "n-gram": "n-gram", "retrieval": "n-gram"}
ONE_STEP = ("pard", "n-gram", "retrieval")
LAYERS = 30


def run_of(drafter: str, rounds: int = 12, k: int = 4, chat: bool = True) -> Trace:
    """A run of one drafter; what it copies is somewhere in the text before it, or in a store."""
    whole = runs.made_up(k, rounds, chat, accepts=(k, 1, 2, 0))
    assert whole.header is not None
    settings = Settings(drafter=drafter, k=k)
    header = replace(whole.header, drafter=drafter, settings=settings, target_layers=LAYERS)
    trace = Trace().extend(header)
    position = len(header.prompt_tokens)
    for each in whole.rounds:
        guesses = tuple(replace(g, source=SOURCES.get(drafter, "model")) for g in each.guesses)
        if drafter == "pard":  # its first guess comes from the text's own row
            guesses = (replace(guesses[0], source="model"), *guesses[1:])
        if drafter in ("n-gram", "retrieval", "hybrid") and each.index % 3 < 2:
            text = [*header.prompt_tokens, *trace.committed]
            origin = (7 * each.index + 3) % (len(text) - k)
            words = text[origin : origin + k]
            led = 1 if drafter == "hybrid" and each.index % 3 == 1 else 0  # guesses of its model
            guesses = (
                guesses[:led]
                + tuple(
                    replace(g, token=token, source="n-gram", origin=origin + slot)
                    for slot, (g, token) in enumerate(zip(guesses, words, strict=True))
                )[led:]
            )
        if drafter in ("retrieval", "hybrid") and each.index % 3 == 1:
            last = replace(guesses[-1], source="store", origin=None)
            guesses = (*guesses[:-1], last)
        steps = each.draft_step_seconds[:1] if drafter in ONE_STEP else each.draft_step_seconds
        made = replace(
            each,
            guesses=guesses,
            position=position,
            settings=settings,
            draft_step_seconds=steps,
        )
        trace = trace.extend(made)
        position += len(made.committed)
    return trace.extend(RunFinished("length"))
