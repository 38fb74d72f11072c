"""Writes `hand.jsonl`: one small run worked out by hand, with every kind of round in it.

Run ``python -m tests.data.write_hand`` from the checkout after changing it. Scenes, panels and
the codec are tested against the file; `tests/engine/test_trace.py` checks each number of it
against the rules of verification, so a slip here fails there.

Laws are written as ``{text: probability}``; what is missing to 1 is the rest's mass.
"""

from __future__ import annotations

from pathlib import Path

from engine import codec
from engine.trace import (
    Baseline,
    Candidate,
    EmitKind,
    Emitted,
    Guess,
    Law,
    Rewind,
    Round,
    RunEvent,
    RunFinished,
    RunHeader,
    Settings,
    Token,
)

PATH = Path(__file__).with_name("hand.jsonl")

EOS = "<|im_end|>"
ROCKET = "\U0001f680".encode()
LEAD, TAIL = (part.decode("utf-8", "surrogateescape") for part in (ROCKET[:2], ROCKET[2:]))

TEXTS = (
    "<|endoftext|>", "<|im_start|>", EOS, "\n", " ", ",", ".", "The", " rocket", " launch",
    " was", " delayed", " because", " of", " bad", " weather", " wind", " and", " the", " rain",
    " fuel", " crew", " waited", " for", " a", " clear", " sky", " day", " window", " until",
    " it", " is", " to", " high", " strong", " low", LEAD, TAIL, " in", " Florida", " cold", "!",
)  # fmt: skip
IDS = {text: index for index, text in enumerate(TEXTS)}

SOFT = Settings(drafter="hybrid", k=3, quality=100.0, temperature=0.7)
DIALLED = Settings(drafter="hybrid", k=2, quality=40.0, temperature=0.7)
ALONE = Settings(drafter="hybrid", k=2, quality=40.0, temperature=0.7, speculative=False)

PROMPT = ("The", " rocket", " launch", " was", " delayed")


def token(text: str) -> Token:
    return Token(IDS[text], text)


def law(probs: dict[str, float]) -> Law:
    """Likeliest first; the rest is what is missing to 1."""
    ranked = sorted(probs.items(), key=lambda item: -item[1])
    top = tuple(Candidate(token(text), prob) for text, prob in ranked)
    return Law(top, max(0.0, round(1.0 - sum(probs.values()), 9)))


def residual(target: dict[str, float], draft: dict[str, float]) -> dict[str, float]:
    """normalise(max(0, target - draft)) over the entries named in `target`."""
    excess = {text: max(0.0, prob - draft.get(text, 0.0)) for text, prob in target.items()}
    total = sum(excess.values())
    return {text: value / total for text, value in excess.items() if value > 0}


def guess(
    text: str,
    draft: dict[str, float],
    target: dict[str, float],
    draw: float | None,
    source: str = "model",
    origin: int | None = None,
) -> Guess:
    """Judge one guess by the rule itself: accepted iff draw * draft_prob < target_prob."""
    draft_prob, target_prob = draft[text], target.get(text, 0.0)
    return Guess(
        token=token(text),
        draft_prob=draft_prob,
        target_prob=target_prob,
        accept_prob=min(1.0, target_prob / draft_prob),
        draw=draw,
        verdict="discarded"
        if draw is None
        else "accepted"
        if draw * draft_prob < target_prob
        else "rejected",
        draft_law=law(draft),
        target_law=law(target),
        source=source,
        origin=origin,
    )


def emitted(
    text: str,
    kind: EmitKind,
    target: dict[str, float],
    draw: float,
    draft: dict[str, float] | None = None,
) -> Emitted:
    """The closing token; `draft` is the refused guess's law when `kind` is "recovered"."""
    drawn_from = target if draft is None else residual(target, draft)
    return Emitted(token(text), kind, drawn_from[text], draw, law(drawn_from), law(target))


HEADER = RunHeader(
    run_id="hand",
    created="2026-01-01T00:00:00Z",
    target="worked by hand",
    device="cpu",
    dtype="float64",
    kernel="none",
    drafter="hybrid",
    drafter_reason="chosen by hand",
    settings=SOFT,
    prompt="".join(PROMPT),
    chat=False,
    prompt_tokens=tuple(map(token, PROMPT)),
    vocab_size=len(TEXTS),
    context_limit=64,
    max_new_tokens=40,
    stop=(),
    seed=0,
    baseline=Baseline(pass_seconds=0.020, passes=9),
    prefill_seconds=0.035,
)

STEPS = (0.003, 0.002, 0.002)

ALL_ACCEPTED = Round(
    index=0,
    position=5,
    settings=SOFT,
    guesses=(
        guess(" because", {" because": 0.8, " for": 0.1}, {" because": 0.6, " until": 0.3}, 0.5),
        guess(" of", {" of": 0.5, " the": 0.4}, {" of": 0.75, " the": 0.125}, 0.875),
        guess(" bad", {" bad": 0.4, " high": 0.3}, {" bad": 0.5, " strong": 0.25}, 0.9375),
    ),
    emitted=emitted(" weather", "bonus", {" weather": 0.9, " wind": 0.05}, 0.25),
    draft_step_seconds=STEPS,
    verify_seconds=0.024,
    evidence_seconds=0.001,
    cold=True,
)

_AND_DRAFT = {" and": 0.5, ".": 0.25, ",": 0.25}
_AND_TARGET = {",": 0.5, " and": 0.25, ".": 0.25}
REJECTED_FIRST = Round(
    index=1,
    position=9,
    settings=SOFT,
    guesses=(
        guess(" and", _AND_DRAFT, _AND_TARGET, 0.75),
        guess(" rain", {" rain": 0.6, " wind": 0.4}, {" rain": 0.5, " wind": 0.5}, None),
        guess(".", {".": 0.9, ",": 0.1}, {".": 0.8, ",": 0.2}, None),
    ),
    emitted=emitted(",", "recovered", _AND_TARGET, 0.0, _AND_DRAFT),
    draft_step_seconds=STEPS,
    verify_seconds=0.023,
    evidence_seconds=0.001,
)

_LAUNCH_DRAFT = {" launch": 0.5, " rocket": 0.25, " fuel": 0.25}
_LAUNCH_TARGET = {" crew": 0.5, " rocket": 0.375, " launch": 0.125}
REJECTED_SECOND = Round(
    index=2,
    position=10,
    settings=SOFT,
    guesses=(
        guess(" the", {" the": 0.5, " and": 0.5}, {" the": 0.4, " and": 0.6}, 0.625),
        guess(" launch", _LAUNCH_DRAFT, _LAUNCH_TARGET, 0.5),
        guess(" crew", {" crew": 0.3, " launch": 0.2}, {" crew": 0.1, " launch": 0.1}, None),
    ),
    emitted=emitted(" crew", "recovered", _LAUNCH_TARGET, 0.25, _LAUNCH_DRAFT),
    draft_step_seconds=STEPS,
    verify_seconds=0.025,
    evidence_seconds=0.001,
)

_LOW_DRAFT = {" low": 0.5, " the": 0.5}
_LOW_TARGET = {" a": 0.5, " the": 0.5}
REJECTED_THIRD = Round(
    index=3,
    position=12,
    settings=SOFT,
    guesses=(
        guess(" waited", {" waited": 0.7, " is": 0.3}, {" waited": 0.9, " is": 0.1}, 0.99),
        guess(" for", {" for": 0.9, ".": 0.1}, {" for": 0.8, " in": 0.2}, 0.125),
        guess(" low", _LOW_DRAFT, _LOW_TARGET, 0.0),
    ),
    emitted=emitted(" a", "recovered", _LOW_TARGET, 0.5, _LOW_DRAFT),
    draft_step_seconds=STEPS,
    verify_seconds=0.024,
    evidence_seconds=0.001,
)

NEVER_SHOWN = Round(
    index=4,
    position=15,
    settings=SOFT,
    guesses=(
        guess(" day", {" day": 0.5, " clear": 0.5}, {" day": 0.5, " clear": 0.5}, 0.5),
        guess(".", {".": 0.5, "!": 0.5}, {".": 0.25, "!": 0.75}, 0.25),
        guess("\n", {"\n": 0.5, " ": 0.5}, {"\n": 0.5, EOS: 0.5}, 0.75),
    ),
    emitted=emitted("The", "bonus", {"The": 0.5, EOS: 0.5}, 0.625),
    draft_step_seconds=STEPS,
    verify_seconds=0.024,
    evidence_seconds=0.001,
)

REWIND = Rewind(to_round=4, settings=DIALLED)

LOOKED_UP = Round(
    index=4,
    position=15,
    settings=DIALLED,
    guesses=(
        guess(" rocket", {" rocket": 0.41}, {" rocket": 0.5, " clear": 0.5}, 0.5, "n-gram", 1),
        guess(" launch", {" launch": 0.4}, {" launch": 0.75, ",": 0.25}, 0.25, "n-gram", 2),
    ),
    emitted=emitted(" window", "bonus", {" window": 0.5, " in": 0.25}, 0.375),
    draft_step_seconds=(0.0002,),
    verify_seconds=0.022,
    evidence_seconds=0.001,
    cold=True,
)

TO_TARGET_ONLY = Rewind(to_round=5, settings=ALONE)

TARGET_ONLY = Round(
    index=5,
    position=18,
    settings=ALONE,
    guesses=(),
    emitted=emitted(" ", "bonus", {" ": 0.5, " in": 0.5}, 0.25),
    draft_step_seconds=(),
    verify_seconds=0.020,
    evidence_seconds=0.001,
)

TO_SPECULATIVE = Rewind(to_round=6, settings=SOFT)

_HALF_DRAFT = {TAIL: 0.5, ".": 0.5}
HALF_CHARACTER = Round(
    index=6,
    position=19,
    settings=SOFT,
    guesses=(
        guess(LEAD, {LEAD: 0.5, "!": 0.5}, {LEAD: 1.0}, 0.75),
        guess(".", _HALF_DRAFT, {TAIL: 1.0}, 0.5),
        guess(EOS, {EOS: 0.5, "\n": 0.5}, {TAIL: 1.0}, None),
    ),
    emitted=emitted(TAIL, "recovered", {TAIL: 1.0}, 0.5, _HALF_DRAFT),
    draft_step_seconds=STEPS,
    verify_seconds=0.024,
    evidence_seconds=0.001,
)

ENDS_INSIDE = Round(
    index=7,
    position=21,
    settings=SOFT,
    guesses=(
        guess("!", {"!": 0.5, ".": 0.5}, {"!": 0.75, ".": 0.25}, 0.5),
        guess(EOS, {EOS: 0.5, "\n": 0.5}, {EOS: 0.5, "\n": 0.5}, 0.5),
        guess("\n", {"\n": 1.0}, {"\n": 0.5, EOS: 0.5}, None),
    ),
    emitted=None,
    draft_step_seconds=STEPS,
    verify_seconds=0.024,
    evidence_seconds=0.001,
)

EVENTS: tuple[RunEvent, ...] = (
    HEADER,
    ALL_ACCEPTED,
    REJECTED_FIRST,
    REJECTED_SECOND,
    REJECTED_THIRD,
    NEVER_SHOWN,
    REWIND,
    LOOKED_UP,
    TO_TARGET_ONLY,
    TARGET_ONLY,
    TO_SPECULATIVE,
    HALF_CHARACTER,
    ENDS_INSIDE,
    RunFinished("eos"),
)


if __name__ == "__main__":
    PATH.write_text("".join(codec.iter_lines(EVENTS)), encoding="utf-8")
