"""The retrieval store: everything the target wrote, as a memory to copy from.

    python -m engine.training.store TEXT.npz --target FOLDER --out assets/drafters/retrieval \\
        --without assets/prompts.json tests/data/twenty_prompts.txt

Writes ``store.npz``, all the text in one file as `corpus` reads it, so that training can go on from
the shipped one. What is looked up are its replies; one that ended by itself keeps its EOS, which is
thus a continuation like any other. Then measures what such a store is worth on prompts it never
saw: a second store is made without the held-out replies, and those are decoded on paper (see
`rounds`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine import fetch
from engine.bench import texts
from engine.drafters.retrieval import WORTH, likeliest
from engine.drafters.suffix_index import SuffixIndex, replies
from engine.tokenizer import Tokenizer
from engine.training import corpus as text
from engine.training import inputs, rounds
from engine.training.ship import cost_lines

K = (1, 2, 3, 4)


def build(corpus: text.Corpus, rows: Sequence[int]) -> text.Ids:
    """The replies of some rows, each followed by `SEPARATOR`."""
    ids = np.concatenate([corpus.row(row) for row in rows])
    lengths = np.array([len(corpus.row(row)) for row in rows], dtype=np.int32)
    return replies(ids, lengths, corpus.prompt_lengths[list(rows)])


def without(corpus: text.Corpus, shown: Collection[str], tokenizer: Tokenizer) -> text.Corpus:
    """The turns that answer none of these prompts."""
    rows = [
        row
        for row in range(len(corpus))
        if text.user_text(corpus.prompt(row), tokenizer) not in shown
    ]
    return text.Corpus(
        ids=np.concatenate([corpus.row(row) for row in rows]),
        starts=np.cumsum([0, *(len(corpus.row(row)) for row in rows)], dtype=np.int64),
        prompt_lengths=corpus.prompt_lengths[rows],
        temperature=corpus.temperature[rows],
        family=corpus.family[rows],
    )


class Copies(NamedTuple):
    """Of one reply, (positions,) each: where a copied token is right, and how likely it seems."""

    hits: rounds.Hits
    chances: npt.NDArray[np.float64]


def copies(corpus: text.Corpus, row: int, index: SuffixIndex) -> Copies:
    """What copying, from this text or the store, makes of each next token of a reply."""
    ids = corpus.row(row).tolist()
    first = int(corpus.prompt_lengths[row])
    found = Copies(np.zeros(len(ids) - first, dtype=np.bool_), np.zeros(len(ids) - first))
    for at in range(first, len(ids)):
        copy = likeliest(ids[:at], {"store": index})
        if copy is not None:
            found.hits[at - first] = copy.token == ids[at]
            found.chances[at - first] = copy.chance
    return found


def histogram(replies: Sequence[Copies], k: int) -> list[int]:
    """As `rounds.histogram`; a round's guesses end where one would hardly be kept."""
    counts = [0] * (k + 1)
    for hits, chances in replies:
        at = 0
        while at < len(hits):
            worth = chances[at : at + k].cumprod() >= WORTH
            accepted = int((worth & hits[at : at + k]).cumprod().sum())
            counts[accepted] += 1
            at += accepted + 1
    return counts


def measure(corpus: text.Corpus, split: text.Split) -> dict[str, Any]:
    """Tokens a round on held-out replies, by temperature and prompt family."""
    index = SuffixIndex(build(corpus, split.train))
    report: dict[str, Any] = {"stored_tokens": len(index)}
    for temperature in (0.0, 0.7):
        rows = [row for row in split.held_out if np.isclose(corpus.temperature[row], temperature)]
        found = {row: copies(corpus, row, index) for row in rows}
        by_family = {
            family: summary([found[row] for row in rows if split.families[row] == family])
            for family in sorted({split.families[row] for row in rows})
        }
        report[f"temperature_{temperature:g}"] = {
            **summary(list(found.values())), "by_family": by_family,
        }  # fmt: skip
    return report


def summary(replies: Sequence[Copies]) -> dict[str, Any]:
    counts = {k: histogram(replies, k) for k in K}
    hits = np.concatenate([reply.hits for reply in replies])
    return {
        "replies": len(replies),
        "positions": len(hits),
        "match": float(hits.mean()),
        "tokens_per_round": {str(k): round(rounds.mean_acceptance_length(counts[k]), 4) for k in K},
        "histogram_k4": counts[4],
    }


def card(facts: dict[str, Any]) -> str:
    """The store's card for people."""
    held = facts["held_out"]

    def line(name: str, figures: dict[str, Any]) -> str:
        lengths = " | ".join(f"{figures['tokens_per_round'][str(k)]:.2f}" for k in K)
        return f"| {name} | {figures['replies']} | {lengths} |"

    def lines(temperature: str) -> list[str]:
        one = held[f"temperature_{temperature}"]
        families = one["by_family"].items()
        return [
            line(f"temperature {temperature}", one),
            *(line(f"{family}, at {temperature}", own) for family, own in families),
        ]

    return "\n".join(
        [
            "# Retrieval store",
            "",
            f"{facts['replies']:,} replies of {facts['target']}, {facts['tokens']:,} token ids, "
            f"{facts['bytes'] / 1e6:.2f} MB with their prompts. No training.",
            "",
            "A guess is the most frequent continuation of the longest match (6 to 2 tokens) in the "
            "text itself or in the store, whichever is likelier to be right, until it would hardly "
            "be kept.",
            "",
            "## Measured on prompts it never saw",
            "",
            f"The shipped store holds them all. For these figures one was built without the "
            f"held-out replies ({held['stored_tokens']:,} ids); held out are whole prompt "
            "families, templates and topics (`engine/training/corpus.py`).",
            "",
            "| tokens a round | replies | K 1 | K 2 | K 3 | K 4 |",
            "|---|---|---|---|---|---|",
            *lines("0"),
            *lines("0.7"),
            "",
            *cost_lines(facts),
            f"Made by `{facts['command']}`.",
            "",
        ]
    )


def make(
    corpus: text.Corpus, split: text.Split, out: Path, target_name: str, command: str
) -> dict[str, Any]:
    """Write the store and its cards; returns what card.json says."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "store.npz"
    text.save(corpus, path)
    facts = {
        "name": "retrieval",
        "target": target_name,
        "replies": len(corpus),
        "tokens": corpus.reply_tokens(range(len(corpus))),
        "bytes": path.stat().st_size,
        "command": command,
        "held_out": measure(corpus, split),
    }
    (out / "card.json").write_text(json.dumps(facts, indent=2) + "\n")
    (out / "card.md").write_text(card(facts))
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=inputs.text, nargs="+", help="the target's own text, .npz")
    parser.add_argument("--target", type=inputs.target, required=True, help="folder of the target")
    parser.add_argument("--target-name", help="on the card; else as the program calls it")
    parser.add_argument("--out", type=inputs.folder, required=True)
    parser.add_argument(
        "--without",
        type=Path,
        nargs="*",
        default=[],
        help="files of prompts that are shown or measured on: what was answered to those is left "
        "out, or a reply would be known by heart",
    )
    options = parser.parse_args()
    tokenizer = Tokenizer.from_folder(options.target)
    shown = {each.prompt for each in texts.load(options.without)} if options.without else set()
    corpus = without(text.load(*options.text), shown, tokenizer)
    split = text.split(corpus, tokenizer)
    split.check(corpus)
    made = make(
        corpus,
        split,
        options.out,
        options.target_name or fetch.title(options.target),
        "python -m engine.training.store "
        + " ".join(path.name for path in options.text)
        + " --target FOLDER --out assets/drafters/retrieval"
        + (f" --without {' '.join(map(str, options.without))}" if options.without else ""),
    )
    print(f"{options.out / 'store.npz'}: {made['tokens']:,} ids, {made['bytes']:,} bytes")


if __name__ == "__main__":
    inputs.told(main)
