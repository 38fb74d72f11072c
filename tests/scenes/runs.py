"""Runs made up for the tests of the picture: any shape of round, none of it measured."""

from __future__ import annotations

import random
from dataclasses import replace

from engine.trace import (
    Baseline,
    Emitted,
    Guess,
    Law,
    Round,
    RunFinished,
    RunHeader,
    Settings,
    Token,
    Trace,
)

SENTENCES = (
    "The| sky| appears| blue| because| of| a| process| called| Ray|leigh| scattering|.| When|"
    " sunlight| enters| the| atmosphere|,| it| meets| molecules| of| gas|.| Shorter| blue|"
    " wavelengths| scatter| far| more| than| longer| red| ones|,| so| blue| light| reaches| our|"
    " eyes| from| every| direction|.|\n|\n|At| sunset| the| path| is| longer|,| and| the| reds|"
    " remain|."
)
REPLY = SENTENCES.split("|")

WRONG = (
    " green",
    " and",
    " incompre",
    "hensibilities",
    ",",
    " the",
    " light",
    "\n",
    "\ufffd",
    " 中",
)

TEMPLATE = (
    *("<|im_start|>", "system", "\n", "You", " are", " a", " helpful", " assistant"),
    *("<|im_end|>", "\n", "<|im_start|>", "user", "\n"),
    *("Explain", " why", " the", " sky", " is", " blue", ".", "<|im_end|>", "\n"),
    *("<|im_start|>", "assistant", "\n"),
)

_LAW = Law((), 1.0)


def token(text: str) -> Token:
    return Token(sum(map(ord, text)) % 9973, text)


def header(
    chat: bool = True, k: int = 4, prompt: str = "Explain why the sky is blue."
) -> RunHeader:
    texts = TEMPLATE if chat else tuple(prompt.replace(" ", "| ").split("|"))
    return RunHeader(
        run_id="made-up",
        created="2026-01-01T00:00:00Z",
        target="none",
        device="cpu",
        dtype="float32",
        kernel="none",
        drafter="small",
        drafter_reason="made up",
        settings=Settings(k=k),
        prompt=prompt,
        chat=chat,
        prompt_tokens=tuple(map(token, texts)),
        vocab_size=9973,
        context_limit=2048,
        max_new_tokens=200,
        stop=(),
        seed=0,
        baseline=Baseline(0.021, 20),
        prefill_seconds=0.1,
    )


def guess(text: str, verdict: str, accept_prob: float = 1.0, draw: float = 0.5) -> Guess:
    judged = None if verdict == "discarded" else draw
    return Guess(
        token(text),
        0.5,
        0.5,
        accept_prob,
        judged,
        verdict,
        _LAW,
        _LAW,
        "model",  # type: ignore[arg-type]
    )


def make_round(
    index: int,
    right: list[str],
    wrong: list[str],
    closing: str | None,
    settings: Settings,
    step: float = 0.010,
    verify: float = 0.024,
) -> Round:
    """A round that accepts `right`, rejects the first of `wrong` and discards the others."""
    guesses = [guess(text, "accepted", 0.8, 0.3) for text in right]
    guesses += [guess(text, "rejected", 0.3, 0.7) for text in wrong[:1]]
    guesses += [guess(text, "discarded") for text in wrong[1:]]
    kind = "recovered" if wrong else "bonus"
    emitted = Emitted(token(closing), kind, 0.5, 0.5, _LAW, _LAW) if closing is not None else None
    return Round(
        index=index,
        position=0,
        settings=settings,
        guesses=tuple(guesses),
        emitted=emitted,
        draft_step_seconds=(step,) * len(guesses),
        verify_seconds=verify,
    )


def verdicts(parents: tuple[int, ...], path: tuple[int, ...]) -> list[str]:
    """What becomes of each guess of a tree when those of `path` are accepted, and no others."""
    found: list[str] = []
    for slot, parent in enumerate(parents):
        reached = parent == -1 or parent in path
        passed = any(other < slot and parents[other] == parent for other in path)
        tried = reached and not passed
        found.append("accepted" if slot in path else "rejected" if tried else "discarded")
    return found


def make_tree(
    index: int,
    parents: tuple[int, ...],
    texts: list[str],
    path: tuple[int, ...],
    closing: str,
    settings: Settings,
) -> Round:
    """A round whose guesses branch; `path` must be a way down the tree."""
    fates = verdicts(parents, path)
    guesses = tuple(
        replace(
            guess(
                text, fate, 0.8 if fate == "accepted" else 0.3, 0.3 if fate == "accepted" else 0.7
            ),
            parent=parent,
        )
        for text, fate, parent in zip(texts, fates, parents, strict=True)
    )
    kind = "recovered" if (path[-1] if path else -1) in parents else "bonus"
    emitted = Emitted(token(closing), kind, 0.5, 0.5, _LAW, _LAW)
    return Round(index, 0, settings, guesses, emitted, (0.004,), 0.024)


def grown(k: int = 8, rounds: int = 10, seed: int = 0, chat: bool = True) -> Trace:
    """A run of rounds whose guesses branch at random, `k` nodes each, with random survivors."""
    chance = random.Random(seed)
    settings = Settings(drafter="eagle-tree", k=k)
    trace = Trace().extend(header(chat, k))
    for index in range(rounds):
        parents = [chance.randrange(max(-1, slot - 4), slot) if slot else -1 for slot in range(k)]
        texts = [chance.choice(REPLY + list(WRONG)) for _ in parents]
        path: list[int] = []
        here = -1
        while children := [slot for slot, parent in enumerate(parents) if parent == here]:
            if chance.random() < 0.3:
                break
            here = chance.choice(children)
            path.append(here)
        closing = chance.choice(REPLY)
        each = make_tree(index, tuple(parents), texts, tuple(path), closing, settings)
        trace = trace.extend(each)
    return trace.extend(RunFinished("length"))


def made_up(
    k: int = 4, rounds: int = 14, chat: bool = True, accepts: tuple[int, ...] = ()
) -> Trace:
    """A run of `rounds` rounds that accept `accepts` of k guesses in turn, over and over."""
    accepts = accepts or tuple(range(k, -1, -1))
    settings = Settings(k=k, speculative=k > 0)
    trace = Trace().extend(header(chat, k))
    at = 0
    for index in range(rounds):
        kept = min(accepts[index % len(accepts)], k)
        texts = [REPLY[(at + i) % len(REPLY)] for i in range(kept + 1)]
        wrong = [WRONG[(index + i) % len(WRONG)] for i in range(k - kept)]
        at += kept + 1
        trace = trace.extend(make_round(index, texts[:-1], wrong, texts[-1], settings))
    return trace.extend(RunFinished("length"))
