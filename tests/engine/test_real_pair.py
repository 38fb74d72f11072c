"""The default target and every drafter that ships: the text is the target's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import assembly, codec
from engine.assembly import Engine
from engine.bench import texts
from engine.config import EngineConfig
from engine.requests import Start
from engine.tokenizer import Tokenizer
from engine.trace import Settings, fold
from engine.training import corpus as text

ROOT = Path(__file__).parents[2]

PROMPT = "Explain why the sky is blue."
TOKENS = 24


@pytest.fixture(scope="module")
def engine(target_folder) -> Engine:
    return assembly.open_engine(EngineConfig(), lambda state: None)


@pytest.fixture(scope="module")
def alone(engine) -> tuple[int, ...]:
    return run(engine, "none")[0].ids


def run(engine, drafter: str, **changes: object):
    """A finished run, and its rounds."""
    settings = Settings(drafter=drafter, **changes)
    session = engine.begin(Start(PROMPT, settings=settings, max_new_tokens=TOKENS))
    return session, list(session.rounds())


DRAFTERS = (
    "copy-8", "copy-4g64", "copy-4", "copy-3g32", "copy-3g64", "copy-2g16", "small-1", "small",
    "small-4", "pard", "eagle", "eagle-middle", "eagle-early", "eagle-tree", "mtp", "medusa",
    "medusa-tree", "n-gram", "retrieval", "hybrid", "layer-skip-20", "layer-skip-3",
)  # fmt: skip


def test_all_that_is_offered_is_tested(engine):
    assert set(engine.drafters) - {"auto", "none"} <= set(DRAFTERS)


@pytest.mark.parametrize("quality", [100.0, 40.0])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_greedy_text_is_that_of_the_target_alone(engine, alone, drafter, quality):
    assert run(engine, drafter, quality=quality)[0].ids == alone


def test_the_shipped_store_knows_no_reply_by_heart_that_is_shown_or_measured(target_folder):
    tokenizer = Tokenizer.from_folder(target_folder)
    corpus = text.load(ROOT / "assets" / "drafters" / "retrieval" / "store.npz")
    asked = {text.user_text(corpus.prompt(row), tokenizer) for row in range(len(corpus))}
    files = ROOT / "assets" / "prompts.json", ROOT / "tests" / "data" / "twenty_prompts.txt"
    assert asked.isdisjoint(each.prompt for each in texts.load(files))
    assert "Tell me a joke about photosynthesis." in asked, "read as they were asked"


def test_more_bits_are_accepted_more(engine):
    kept = {}
    for drafter in ("copy-8", "copy-4g64", "copy-2g16"):
        rounds = run(engine, drafter)[1]
        kept[drafter] = sum(made.accepted for made in rounds) / len(rounds)
    assert kept["copy-8"] > kept["copy-4g64"] > kept["copy-2g16"]
    assert kept["copy-8"] > 2.5


def test_a_sampled_run_survives_the_trip_as_lines(engine):
    session, rounds = run(engine, "copy-4g64", temperature=0.9, top_p=0.95)
    seen = fold(codec.decode(codec.encode(event)) for event in (session.header, *rounds))
    prompt = len(session.header.prompt_tokens)
    assert [token.id for token in seen.committed] == list(session.ids[prompt:])
