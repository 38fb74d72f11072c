"""Writes `tree.jsonl`: a small run worked out by hand whose guesses branch, in every shape.

Run ``python -m tests.data.write_tree`` from the checkout after changing it. Scenes and panels are
tested against the file; `tests/stage/test_tree_layout.py` checks each number of it against
`verify_tree`, so a slip here fails there.

The drafter is always as sure: of an eldest child 5/8, of the next one 1/4, then 1/16 each.

A node is ``(text, slot of its parent, draft law, draw)``; its draft law is the one it was drawn
from given its elder siblings. What the target wants is a law for each parent. Laws are written as
``{text: probability}`` and sum to 1.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine import codec
from engine.trace import (
    Baseline,
    Candidate,
    EmitKind,
    Emitted,
    Guess,
    Law,
    Round,
    RunEvent,
    RunFinished,
    RunHeader,
    Settings,
    Token,
)

PATH = Path(__file__).with_name("tree.jsonl")
ROOT = -1

EOS = "<|im_end|>"
TEXTS = (
    "<|endoftext|>", "<|im_start|>", EOS, "\n", ",", ".", "The", " rocket", " launch", " was",
    " delayed", " because", " by", " until", " due", " a", " the", " of", " an", " bad",
    " strong", " thunderstorm", " weather", " winds", " engineers", " engine", " incompre",
    "hensible", " problem", " fault", " in", " at", " over", " near", " Florida", " Cape",
    " Canaveral", " to", " I", " and", " so", " it", " crew", " waited", " for", " sky", " clear",
    " day", " next", " had", " he", " they", " we", " you", " all", " quickly", " patiently",
    " afternoon", " morning", "s", " Everyone", " cheer", "ed", "!",
)  # fmt: skip
IDS = {text: index for index, text in enumerate(TEXTS)}

PROMPT = ("The", " rocket", " launch", " was", " delayed")
SOFT = Settings(drafter="eagle-tree", k=4, temperature=0.7)
WIDE = replace(SOFT, k=8)
WIDEST = replace(SOFT, k=16)
BY_HEADS = replace(SOFT, drafter="medusa-tree", k=6)

SURE = (0.625, 0.25, 0.0625)

Laws = dict[str, float]
Node = tuple[str, int, Laws, float]


def token(text: str) -> Token:
    return Token(IDS[text], text)


def law(probs: Laws) -> Law:
    """Likeliest first."""
    ranked = sorted(probs.items(), key=lambda item: -item[1])
    return Law(tuple(Candidate(token(text), prob) for text, prob in ranked), 0.0)


def sure(text: str) -> Laws:
    """The law of a drafter that names its likeliest few one after another, without drawing."""
    return {text: 1.0}


def left(target: Laws, draft: Laws) -> Laws:
    """normalise(max(0, target - draft)); the target's own law where nothing is left."""
    excess = {text: prob - draft.get(text, 0.0) for text, prob in target.items()}
    total = sum(value for value in excess.values() if value > 0)
    if total <= 1e-12:
        return target
    return {text: value / total for text, value in excess.items() if value > 0}


def grown(
    index: int,
    position: int,
    settings: Settings,
    nodes: tuple[Node, ...],
    target: dict[int, Laws],
    closing: tuple[str, float] | None,
    steps: tuple[float, ...],
    verify: float = 0.026,
) -> Round:
    """Judge a tree by the rule itself: siblings in order, each refusal leaving a residual.

    `target` has the target's law after each node (`ROOT`: after the text); `closing` is the
    token that ends the round and its draw.
    """
    owed = dict(target)
    end, guesses = ROOT, []
    for slot, (text, parent, draft, draw) in enumerate(nodes):
        chance, tried = owed[parent].get(text, 0.0), parent == end
        elders = [node for node in nodes[:slot] if node[1] == parent]
        passed = draw * draft[text] < chance
        guesses.append(
            Guess(
                token=token(text),
                draft_prob=draft[text],
                target_prob=chance,
                accept_prob=min(1.0, chance / draft[text]),
                draw=draw if tried else None,
                verdict="discarded" if not tried else "accepted" if passed else "rejected",
                draft_law=law(draft),
                target_law=law(owed[parent]),
                source="head" if settings.drafter == "medusa-tree" else "model",
                parent=parent,
                confidence=SURE[min(len(elders), 2)],
            )
        )
        owed[parent] = left(owed[parent], draft)
        end = slot if tried and passed else end
    emitted = None
    if closing is not None:
        text, draw = closing
        kind: EmitKind = "recovered" if end in [node[1] for node in nodes] else "bonus"
        drawn_from = owed[end]
        emitted = Emitted(
            token(text), kind, drawn_from[text], draw, law(drawn_from), law(target[end])
        )
    return Round(index, position, settings, tuple(guesses), emitted, steps, verify, 0.001)


HEADER = RunHeader(
    run_id="tree",
    created="2026-01-01T00:00:00Z",
    target="worked by hand",
    device="cpu",
    dtype="float64",
    kernel="none",
    drafter="eagle-tree",
    drafter_reason="chosen by hand",
    settings=SOFT,
    prompt="".join(PROMPT),
    chat=False,
    prompt_tokens=tuple(map(token, PROMPT)),
    vocab_size=len(TEXTS),
    context_limit=128,
    max_new_tokens=60,
    stop=(),
    seed=0,
    baseline=Baseline(pass_seconds=0.020, passes=9),
    prefill_seconds=0.035,
)

YOUNGER_PASSES = grown(
    0,
    5,
    SOFT,
    (
        (" by", ROOT, sure(" by"), 0.75),
        (" because", ROOT, sure(" because"), 0.25),
        (" the", 0, sure(" the"), 0.5),
        (" of", 1, sure(" of"), 0.5),
    ),
    {
        ROOT: {" because": 0.5, " by": 0.25, " until": 0.25},
        0: {" a": 0.5, " the": 0.5},
        1: {" of": 0.75, " a": 0.25},
        2: {" weather": 1.0},
        3: {" a": 0.5, " bad": 0.25, " strong": 0.25},
    },
    (" a", 0.25),
    (0.002, 0.0015),
)

_FIRST = {" strong": 0.5, " bad": 0.25, " fault": 0.25}
_SECOND = {" bad": 0.5, " fault": 0.5}
ALL_REFUSED = grown(
    1,
    8,
    SOFT,
    (
        (" strong", ROOT, _FIRST, 0.5),
        (" bad", ROOT, _SECOND, 0.5),
        (" winds", 0, sure(" winds"), 0.5),
        (" weather", 1, sure(" weather"), 0.5),
    ),
    {
        ROOT: {" thunderstorm": 0.75, " strong": 0.125, " fault": 0.125},
        0: {" winds": 0.75, " engine": 0.25},
        1: {" weather": 0.75, " engine": 0.25},
        2: {".": 1.0},
        3: {".": 1.0},
    },
    (" thunderstorm", 0.5),
    (0.002, 0.0015),
)

LIKE_A_CHAIN = grown(
    2,
    9,
    SOFT,
    (
        (" over", ROOT, {" over": 0.5, " in": 0.5}, 0.5),
        (" Cape", 0, {" Cape": 0.5, " Florida": 0.5}, 0.25),
        (" Canaveral", 1, {" Canaveral": 1.0}, 0.75),
    ),
    {
        ROOT: {" over": 0.75, " in": 0.25},
        0: {" Cape": 0.25, " Florida": 0.75},
        1: {" Canaveral": 1.0},
        2: {".": 0.75, ",": 0.25},
    },
    (".", 0.5),
    (0.002, 0.0015, 0.0015),
)

EIGHT = grown(
    3,
    13,
    WIDE,
    (
        ("\n", ROOT, sure("\n"), 0.5),
        (" Everyone", ROOT, sure(" Everyone"), 0.5),
        ("\n", 0, sure("\n"), 0.5),
        (" had", 1, sure(" had"), 0.625),
        (" waited", 1, sure(" waited"), 0.5),
        (" to", 3, sure(" to"), 0.5),
        (" patiently", 4, sure(" patiently"), 0.5),
        (" for", 4, sure(" for"), 0.75),
    ),
    {
        ROOT: {" Everyone": 0.5, "\n": 0.25, " it": 0.25},
        0: {"\n": 0.5, " it": 0.5},
        1: {" waited": 0.5, " had": 0.5},
        2: {" it": 1.0},
        3: {" to": 1.0},
        4: {" in": 0.5, " for": 0.25, " patiently": 0.25},
        5: {" to": 1.0},
        6: {".": 1.0},
        7: {" the": 1.0},
    },
    (" in", 0.5),
    (0.002, 0.0015, 0.0015),
    0.028,
)

SIXTEEN = grown(
    4,
    16,
    WIDEST,
    (
        (" the", ROOT, sure(" the"), 0.25),
        (" all", ROOT, sure(" all"), 0.5),
        (" Florida", ROOT, sure(" Florida"), 0.5),
        (" clear", 0, sure(" clear"), 0.75),
        (" next", 0, sure(" next"), 0.75),
        (" incompre", 0, sure(" incompre"), 0.5),
        (" day", 1, sure(" day"), 0.5),
        (".", 2, sure("."), 0.5),
        (" sky", 3, sure(" sky"), 0.5),
        (" day", 4, sure(" day"), 0.5),
        ("hensible", 5, sure("hensible"), 0.5),
        (".", 6, sure("."), 0.5),
        (".", 8, sure("."), 0.5),
        (" weather", 10, sure(" weather"), 0.25),
        (" afternoon", 10, sure(" afternoon"), 0.5),
        (",", 13, sure(","), 0.5),
    ),
    {
        ROOT: {" the": 0.75, " all": 0.125, " Florida": 0.125},
        0: {" incompre": 0.5, " next": 0.25, " clear": 0.25},
        1: {" day": 1.0},
        2: {".": 0.5, ",": 0.5},
        3: {" sky": 0.75, " day": 0.25},
        4: {" day": 0.75, " morning": 0.25},
        5: {"hensible": 1.0},
        6: {".": 1.0},
        7: {"\n": 1.0},
        8: {".": 1.0},
        9: {".": 1.0},
        10: {" weather": 0.75, " afternoon": 0.25},
        11: {"\n": 1.0},
        12: {"\n": 1.0},
        13: {",": 0.75, " for": 0.25},
        14: {".": 1.0},
        15: {" and": 0.5, " so": 0.5},
    },
    (" and", 0.25),
    (0.002, 0.0015, 0.0015, 0.0015, 0.0015),
    0.034,
)

SIX_AFTER_ONE = grown(
    5,
    22,
    BY_HEADS,
    (
        (" it", ROOT, sure(" it"), 0.75),
        (" I", ROOT, sure(" I"), 0.5),
        (" he", ROOT, sure(" he"), 0.5),
        (" they", ROOT, sure(" they"), 0.5),
        (" you", ROOT, sure(" you"), 0.625),
        (" we", ROOT, sure(" we"), 0.125),
    ),
    {
        ROOT: {" it": 0.25, " they": 0.25, " we": 0.125, " you": 0.125, " so": 0.125, " I": 0.125},
        **{slot: {" waited": 0.5, " cheer": 0.5} for slot in range(6)},
    },
    (" cheer", 0.75),
    (0.0004,),
)

ENDS_INSIDE = grown(
    6,
    24,
    BY_HEADS,
    (
        ("ed", ROOT, sure("ed"), 0.5),
        ("s", ROOT, sure("s"), 0.5),
        ("!", 0, sure("!"), 0.25),
        (".", 0, sure("."), 0.5),
        (EOS, 2, sure(EOS), 0.5),
        ("\n", 2, sure("\n"), 0.5),
    ),
    {
        ROOT: {"ed": 1.0},
        0: {"!": 0.5, ".": 0.5},
        1: {".": 1.0},
        2: {EOS: 0.75, "\n": 0.25},
        3: {EOS: 1.0},
        4: {"\n": 1.0},
        5: {EOS: 1.0},
    },
    None,
    (0.0004,),
)

ROUNDS = (
    YOUNGER_PASSES,
    ALL_REFUSED,
    LIKE_A_CHAIN,
    EIGHT,
    SIXTEEN,
    SIX_AFTER_ONE,
    ENDS_INSIDE,
)
EVENTS: tuple[RunEvent, ...] = (HEADER, *ROUNDS, RunFinished("eos"))


if __name__ == "__main__":
    PATH.write_text("".join(codec.iter_lines(EVENTS)), encoding="utf-8")
