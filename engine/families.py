"""What each drafter is, for people: its kind, what it reads, what a guess costs, and vLLM's name.

One table, read by pictures, panels and docs alike. ``copy-…`` and ``layer-skip-N`` are read off
their names. What vLLM has of it was read in the source of `VLLM_VERSION`, not run here.

Knows nothing of models or pictures. Standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Family = Literal[
    "none", "copy", "model", "ngram", "retrieval", "hybrid", "medusa", "eagle", "mtp", "pard",
    "layer-skip",
]  # fmt: skip
Grammar = Literal["chain", "arc", "tree"]
"""How its guesses hang together: one after the other, copied from the text, or as branches."""

VLLM_VERSION = "0.33.0"
"""The vLLM whose source the lines were checked against (methods, keys, and what they do)."""

LAST_WITH_MEDUSA = "0.32.0"
USUAL_K = 4
"""Guesses in a line for vLLM where nobody says how many."""


_DRAWS = frozenset({"draft_model", "eagle", "mtp"})
"""Methods of vLLM whose guesses can be drawn from a law."""


@dataclass(frozen=True, slots=True)
class Vllm:
    """What does the same in vLLM: `keys` of its ``--speculative-config``, or None; and a `note`.

    The note says what differs, or why there is nothing.
    """

    keys: tuple[tuple[str, Any], ...] | None
    note: str

    def line(self, k: int = USUAL_K, sampled: bool = False) -> str | None:
        """The configuration as JSON text, with `k` guesses (at least one); None without one.

        Where texts are `sampled`, guesses of a model are drawn from its law, as they are here;
        without being told vLLM takes the likeliest for certain.
        """
        if self.keys is None:
            return None
        body = {**dict(self.keys), "num_speculative_tokens": max(k, 1)}
        if sampled and body["method"] in _DRAWS:
            body["draft_sample_method"] = "probabilistic"
        return json.dumps(body)


@dataclass(frozen=True, slots=True)
class About:
    """One drafter. `blurb` is what it reads and what a guess costs, in a line or two.

    `layers` of a model of its own, or of the target's; `bits` of a weight. `trained` tells
    whether somebody had to teach it.
    """

    name: str
    family: Family
    title: str
    blurb: str
    grammar: Grammar
    vllm: Vllm
    layers: int | None = None
    bits: int | None = None
    trained: bool = False


_EAGLE = Vllm(
    (("method", "eagle"), ("model", "YOUR-EAGLE-HEAD")),
    "For a head in vLLM's format; ours has a reduced vocabulary, which its eagle does not know.",
)
_DRAFT_MODEL = Vllm(
    (("method", "draft_model"), ("model", "YOUR-SMALL-MODEL")),
    "Wants a whole checkpoint with the target's tokenizer (another one, greedy only, with "
    "use_heterogeneous_vocab); ours borrows the target's embedding.",
)
_NO_TREE = "vLLM verifies chains only: it took out its attention over trees in 2026."

_MEDUSA_GONE = (
    f"No equivalent: Medusa left vLLM after {LAST_WITH_MEDUSA}. Until then its line was "
    '{"method": "medusa", "model": "YOUR-HEADS", "num_speculative_tokens": 4}, as a chain.'
)


def _small(name: str, title: str, layers: int, cost: str) -> About:
    return About(
        name, "model", title,
        f"Reads the text with {_layers(layers)} of its own, and a cache of its own. {cost}",
        "chain", _DRAFT_MODEL, layers=layers, trained=True,
    )  # fmt: skip


def _eagle(name: str, title: str, when: str) -> About:
    return About(
        name, "eagle", title,
        f"One layer that reads the feature the target has just computed, then its own. {when}",
        "chain", _EAGLE, layers=1, trained=True,
    )  # fmt: skip


def _layers(count: int) -> str:
    return "one layer" if count == 1 else f"{count} layers"


_NAMED = {
    each.name: each
    for each in (
        About(
            "none", "none", "The target alone",
            "Nobody guesses: one token a pass. Every speedup is measured against this.",
            "chain", Vllm(None, "Leave --speculative-config out."),
        ),
        _small("small-1", "Small, one layer", 1, "The cheapest rung of the ladder."),
        _small("small", "Small, two layers", 2, "A guess costs two layers and a head."),
        _small("small-4", "Small, four layers", 4, "The biggest rung: a guess costs the most."),
        _eagle("eagle", "EAGLE", "It practised on its own guesses, so later ones hold up."),
        _eagle("eagle-middle", "EAGLE, still early", "The same drafter while still a beginner."),
        _eagle("eagle-early", "EAGLE, early", "The same drafter early in its training."),
        About(
            "eagle-tree", "eagle", "EAGLE tree",
            "EAGLE's layer, guessing several ways on wherever it is unsure: K guesses as branches.",
            "tree", Vllm(None, f"No equivalent for the branches. {_NO_TREE}"),
            layers=1, trained=True,
        ),
        About(
            "mtp", "mtp", "Multi-token prediction",
            "EAGLE's make, DeepSeek's training: on true features only. Later guesses pay for it.",
            "chain",
            Vllm(
                (("method", "mtp"),),
                "For models that ship such a module, trained with them; ours was trained after.",
            ),
            layers=1, trained=True,
        ),
        About(
            "medusa", "medusa", "Medusa heads",
            "Four heads on the target's last feature, none knowing the others' guess. "
            "One product for the whole round.",
            "chain", Vllm(None, _MEDUSA_GONE), trained=True,
        ),
        About(
            "medusa-tree", "medusa", "Medusa tree",
            "The heads' likeliest tokens combined into one fixed tree of K guesses.",
            "tree", Vllm(None, f"{_MEDUSA_GONE} {_NO_TREE}"), trained=True,
        ),
        About(
            "pard", "pard", "Parallel draft",
            "A small model fed with mask tokens: one pass gives all K guesses at once.",
            "chain",
            Vllm(
                (("method", "draft_model"), ("model", "YOUR-PARD-MODEL"),
                 ("parallel_drafting", True)),
                "Wants a whole checkpoint whose config names its mask token (pard_token).",
            ),
            layers=2, trained=True,
        ),
        About(
            "n-gram", "ngram", "N-gram lookup",
            "Finds the last few tokens earlier in the text and copies what followed. "
            "Next to nothing.",
            "arc",
            Vllm(
                (("method", "ngram"), ("prompt_lookup_min", 2), ("prompt_lookup_max", 5)),
                "Among equally long matches vLLM takes the first, VerifyBox the latest.",
            ),
        ),
        About(
            "retrieval", "retrieval", "Retrieval",
            "The same lookup, in this text and in everything the target wrote before. "
            "Next to nothing.",
            "arc",
            Vllm(
                (("method", "suffix"),),
                "The nearest: suffix trees over this and earlier requests, which begin empty. "
                "Needs arctic-inference.",
            ),
        ),
        About(
            "hybrid", "hybrid", "Hybrid",
            "Lookup or EAGLE, guess by guess: whoever is likelier to be right. "
            "Where neither is it stops early: K is the most it makes.",
            "arc", Vllm(None, "No equivalent: vLLM runs one method at a time."),
            layers=1, trained=True,
        ),
    )
}  # fmt: skip

SHOWN = (
    "none", "small-1", "small", "small-4", "eagle", "eagle-middle", "eagle-early", "eagle-tree",
    "mtp", "medusa", "medusa-tree", "pard", "n-gram", "retrieval", "hybrid", "layer-skip-20",
    "copy-8", "copy-4g64", "copy-4", "copy-3g32", "copy-3g64", "copy-2g16",
)  # fmt: skip
"""The drafters of the default target, in the order in which they are shown side by side."""

_COPY = re.compile(r"copy-(\d+)(?:g(\d+))?")
_SKIP = re.compile(r"layer-skip-(\d+)")


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Names in the order of `SHOWN`, those it lacks after them."""
    known = {name: place for place, name in enumerate(SHOWN)}
    return tuple(sorted(names, key=lambda name: known.get(name, len(known))))


def about(name: str) -> About | None:
    """What the drafter of this name is; None for a name nobody here knows ("auto" included)."""
    if name in _NAMED:
        return _NAMED[name]
    if copied := _COPY.fullmatch(name):
        return _copy(name, int(copied[1]), int(copied[2] or 0))
    if skipped := _SKIP.fullmatch(name):
        return _skip(name, int(skipped[1]))
    return None


def _copy(name: str, bits: int, group: int) -> About:
    scale = f"a scale for every {group}" if group else "a scale for each row"
    kind = f", by {group}" if group else ""
    return About(
        name, "copy", f"{bits}-bit copy{kind}",
        f"The target itself, its weights rounded to {bits} bits, {scale}. "
        "A guess costs most of a pass.",
        "chain",
        Vllm(
            (("method", "draft_model"), ("model", "YOUR-QUANTISED-COPY")),
            "No equivalent as such; a quantised checkpoint of the target can be the draft model.",
        ),
        bits=bits,
    )  # fmt: skip


def _skip(name: str, layers: int) -> About:
    return About(
        name, "layer-skip", f"Layer skip, {_layers(layers)}",
        f"The target left after its first {_layers(layers)}, on its own cache. "
        "An ordinary checkpoint, never trained to be left early.",
        "chain", Vllm(None, "No equivalent: none of vLLM's methods leaves the target early."),
        layers=layers,
    )  # fmt: skip
