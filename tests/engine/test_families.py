"""What drafters are called and what vLLM has of them: complete, and true to their names."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from engine.assembly import DRAFTERS
from engine.drafters.catalogue import Catalogue, Makers
from engine.families import SHOWN, VLLM_VERSION, about, in_order
from engine.lowbit import LADDER
from engine.training.ship import card

METHODS = {"ngram", "draft_model", "suffix", "eagle", "mtp"}
"""Of vLLM 0.33.0's own (`SpeculativeMethod`), those that the table makes use of."""

KEYS = {
    "method", "model", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max",
    "parallel_drafting", "draft_sample_method",
}  # fmt: skip
"""Fields of its `SpeculativeConfig`, of which any other name is refused."""


def everything_on_offer(folder: Path | None = DRAFTERS) -> tuple[str, ...]:
    def never(*_: object) -> object:
        raise AssertionError("a name needs nothing made")

    makers = {each.name: never for each in fields(Makers)}
    made = Makers(**makers | {"layers": 30, "bits": 32, "row_sizes": ()})  # type: ignore[arg-type]
    return Catalogue(made, folder).names


def test_every_drafter_on_offer_is_told_of() -> None:
    names = everything_on_offer()
    assert len(names) > 10
    for name in ("none", *names):
        told = about(name)
        assert told is not None, name
        assert told.name == name


def test_everything_on_offer_has_its_place_on_the_wall() -> None:
    assert set(everything_on_offer()) <= set(SHOWN)
    assert all(about(name) for name in SHOWN)
    assert in_order(["layer-skip-7", "eagle", "none"]) == ("none", "eagle", "layer-skip-7")


def test_names_nobody_knows_are_nobody() -> None:
    for name in ("auto", "", "copy", "copy-8x", "layer-skip-", "layer-skip-two", "eagle-late"):
        assert about(name) is None, name


def test_titles_and_blurbs_tell_drafters_apart() -> None:
    told = [each for each in map(about, everything_on_offer()) if each is not None]
    assert len({each.blurb for each in told}) == len(told)
    assert len({each.title for each in told}) == len(told)


def test_copies_are_as_wide_as_the_ladder_makes_them() -> None:
    for name, width in LADDER.items():
        told = about(name)
        assert told is not None
        assert (told.family, told.bits) == ("copy", width.bits)
        assert (f"every {width.group}" in told.blurb) == bool(width.group)


@pytest.mark.parametrize(
    ("name", "layers"),
    [("layer-skip-20", 20), ("layer-skip-1", 1), ("small-1", 1), ("small", 2), ("small-4", 4)],
)
def test_layers_are_read_off(name: str, layers: int) -> None:
    told = about(name)
    assert told is not None
    assert told.layers == layers


def test_shipped_small_models_have_the_layers_they_are_said_to() -> None:
    for folder in sorted(DRAFTERS.glob("small*")):
        told = about(folder.name)
        shape = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert told is not None
        assert told.layers == shape["num_hidden_layers"], folder.name


@pytest.mark.parametrize(
    "name", sorted(each.parent.name for each in DRAFTERS.glob("*/config.json"))
)
def test_a_shipped_card_says_in_words_what_it_says_in_figures(name: str) -> None:
    facts = json.loads((DRAFTERS / name / "card.json").read_text(encoding="utf-8"))
    assert (DRAFTERS / name / "card.md").read_text(encoding="utf-8") == card(facts)


def test_lines_for_vllm_hold_only_what_it_takes() -> None:
    assert VLLM_VERSION == "0.33.0", "the sets above are of that version"
    for name in ("none", *everything_on_offer(), "pard", "medusa-tree", "eagle-tree"):
        told = about(name)
        assert told is not None
        assert told.vllm.note, name
        line = told.vllm.line(5)
        if line is None:
            continue
        body = json.loads(line)
        assert body["method"] in METHODS, name
        assert set(body) <= KEYS, name
        assert body["num_speculative_tokens"] == 5


@pytest.mark.parametrize(("name", "drawn"), [("eagle", True), ("pard", True), ("n-gram", False)])
def test_where_texts_are_sampled_guesses_of_models_are_drawn(name: str, drawn: bool) -> None:
    told = about(name)
    assert told is not None
    greedy, warm = (json.loads(told.vllm.line(4, sampled) or "") for sampled in (False, True))
    assert "draft_sample_method" not in greedy
    assert warm == greedy | ({"draft_sample_method": "probabilistic"} if drawn else {})


def test_a_line_asks_for_one_guess_at_least() -> None:
    told = about("n-gram")
    assert told is not None
    assert json.loads(told.vllm.line(0) or "")["num_speculative_tokens"] == 1


@pytest.mark.parametrize(
    ("name", "grammar"),
    [("eagle", "chain"), ("eagle-tree", "tree"), ("medusa-tree", "tree"), ("n-gram", "arc"),
     ("retrieval", "arc"), ("pard", "chain"), ("copy-8", "chain")],
)  # fmt: skip
def test_grammars(name: str, grammar: str) -> None:
    told = about(name)
    assert told is not None
    assert told.grammar == grammar
