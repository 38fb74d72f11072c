"""The sweep measures what it says, alike for all, notices wrong text, and keeps what it has."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

import pytest
import saved_model
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from engine import arguments, assembly
from engine.bench import command, figures, report, rivals, sweep, texts
from engine.bench.figures import Family, Line
from engine.bench.rivals import Written
from engine.bench.sweep import Reply, Sweep, Tally
from engine.bench.texts import Text
from engine.config import EngineConfig
from engine.llama import LlamaConfig, Runner, Weights
from engine.trace import Emitted, Guess, Law, Round, Settings, Token, Verdict
from engine.wordkinds import KINDS

SWEEP = [Settings(drafter="n-gram", k=2), Settings(drafter="n-gram", k=4, quality=50.0)]
TEXTS = [Text("abcabcabcabc", False, "copying"), Text("Why is the sky blue?", True, "open")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model.save(tmp_path_factory.mktemp("bench") / "tiny")


@pytest.fixture(scope="module")
def engine(folder: Path) -> assembly.Engine:
    return assembly.open_engine(EngineConfig(target=folder, threads=1), lambda state: None)


def measured(engine: assembly.Engine, settings: Sequence[Settings], tokens: int) -> list[Line]:
    return figures.lines_of(sweep.measure(sweep.plan(engine, TEXTS, settings), tokens))


# --- measuring -----------------------------------------------------------------------------


def test_the_target_alone_is_the_first_line_and_its_own_measure(engine: assembly.Engine) -> None:
    lines = measured(engine, SWEEP, 16)
    alone = lines[0]
    assert (alone.drafter, alone.k, alone.speedup) == ("none", 0, 1.0)
    assert alone.rounds == alone.tokens == 16 * len(TEXTS)
    assert alone.acceptance_rate is None
    assert alone.predicted is None
    assert [(line.drafter, line.k, line.quality) for line in lines[1:]] == [
        ("n-gram", 2, 100.0),
        ("n-gram", 4, 50.0),
    ]


def test_what_a_drafter_holds_is_weighed(engine: assembly.Engine) -> None:
    """A lookup holds nothing; layers of the target hold their own hidden states at least."""
    skip = Settings(drafter="layer-skip-1", k=2)
    alone, lookup, layers = measured(engine, [SWEEP[0], skip], 8)
    assert alone.memory is None
    assert lookup.memory == 0
    assert layers.memory


def test_every_greedy_text_equals_the_targets_own_auto_k_included(engine: assembly.Engine) -> None:
    auto = replace(SWEEP[0], auto_k=True)
    assert all(line.same_text for line in measured(engine, [*SWEEP, auto], 16))


def test_each_temperature_has_a_target_alone_of_its_own(engine: assembly.Engine) -> None:
    lines = measured(engine, [*SWEEP, *(replace(each, temperature=1.0) for each in SWEEP)], 8)
    assert [line.temperature for line in lines if line.drafter == "none"] == [0.0, 1.0]
    assert {line.same_text for line in lines if line.temperature} == {None}


@dataclass
class Scripted:
    """Somebody who takes turns and writes down when; interrupts at its `breaks`-th turn."""

    name: str
    log: list[tuple[str, int]]
    breaks: int = 10**9
    turns: int = 0

    def take(self, number: int, text: Text, tokens: int) -> None:
        self.turns += 1
        if self.turns >= self.breaks:
            raise KeyboardInterrupt
        self.log.append((self.name, number))

    def warm_up(self, text: Text) -> None:
        self.log.append((self.name, -1))


class Fixed(Sweep):
    """A sweep of given contenders."""

    who: list[Scripted]

    @property
    def contenders(self) -> list[sweep.Contender]:
        return list(self.who)


def fixed(count: int, *who: Scripted) -> Fixed:
    made = Fixed([Text("x", True, "f")] * count, [], [], [])
    made.who = list(who)
    return made


def test_all_take_turns_in_a_rotating_order_after_a_warm_up() -> None:
    log: list[tuple[str, int]] = []
    sweep.measure(fixed(3, *(Scripted(name, log) for name in "abc")), 8)
    assert log == [
        ("a", -1), ("b", -1), ("c", -1),
        ("a", 0), ("b", 0), ("c", 0),
        ("b", 1), ("c", 1), ("a", 1),
        ("c", 2), ("a", 2), ("b", 2),
    ]  # fmt: skip


def test_an_interruption_ends_it_with_what_there_is() -> None:
    log: list[tuple[str, int]] = []
    kept: list[int] = []
    made = sweep.measure(
        fixed(3, Scripted("a", log), Scripted("b", log, breaks=2)),
        8,
        keep=lambda so_far: kept.append(len(log)),
    )
    assert made.interrupted
    assert log == [("a", -1), ("b", -1), ("a", 0), ("b", 0)]
    assert kept == [4], "after each prompt that all have answered"


# --- figures -------------------------------------------------------------------------------

NO_LAW = Law((), 0.0)


def made(
    words: Sequence[str], passed: int, own: str, seconds: float = 0.02, draft: float = 0.001
) -> Round:
    """A round of guesses `words`, of which some passed, and the target's own token."""
    verdicts: list[Verdict] = ["accepted"] * passed
    verdicts += ["rejected"][: len(words) - passed]
    verdicts += ["discarded"] * (len(words) - len(verdicts))  # type: ignore[list-item]
    guesses = tuple(
        Guess(Token(1, word), 1.0, 1.0, 1.0, 0.5, verdict, NO_LAW, NO_LAW, "n-gram")
        for word, verdict in zip(words, verdicts, strict=True)
    )
    emitted = Emitted(Token(1, own), "bonus", 1.0, 0.5, NO_LAW, NO_LAW)
    settings = Settings(drafter="n-gram", k=max(len(words), 1))
    return Round(0, 0, settings, guesses, emitted, (draft,) * len(words), seconds)


ALONE = Settings(drafter="none", k=0, speculative=False)


def tally(settings: Settings, *replies: tuple[Round, ...]) -> Tally:
    return Tally(
        settings,
        replies={
            number: Reply(rounds, sum(each.seconds for each in rounds) + 0.004 * len(rounds))
            for number, rounds in enumerate(replies)
        },
    )


def test_costs_speed_and_what_the_formula_expects() -> None:
    """Two guesses of 1 ms and a pass of 24: two tokens a round where one takes 20 ms alone."""
    alone = tally(ALONE, tuple(made((), 0, " x") for _ in range(8)))
    two = tuple(made((" a", " b"), 1, " c", 0.024) for _ in range(4))
    _, line = figures.lines_of(Sweep(TEXTS[:1], [alone], [tally(SWEEP[0], two)], []))
    assert line.draft_ms == pytest.approx(2.0)
    assert line.verify_ms == pytest.approx(24.0)
    assert line.host_ms == pytest.approx(4.0)
    assert line.step_cost == pytest.approx(0.05)
    assert line.check_cost == pytest.approx(1.2)
    assert line.speedup == pytest.approx(2 * 20 / 26)
    assert line.alpha == 0.5
    assert line.per_position == (1.0, 0.0)
    assert line.predicted == pytest.approx(1.75 * 20 / 26)


def test_only_prompts_that_both_have_answered_are_compared() -> None:
    """An interrupted sweep: the target alone had the easy prompt only."""
    alone = tally(ALONE, (made((), 0, " x"),))
    mine = tally(SWEEP[0], (made((" a",), 1, " b"),), (made((" a",), 0, " b", seconds=9.0),))
    _, line = figures.lines_of(Sweep(TEXTS, [alone], [mine], []))
    assert line.speedup == pytest.approx(2 * 20 / 21)
    assert line.families["copying"].speedup == pytest.approx(2 * 20 / 21)
    assert line.families["open"].speedup is None
    assert line.families["open"].acceptance_rate == 0.0


def test_who_has_no_reply_has_no_line() -> None:
    assert figures.lines_of(Sweep(TEXTS, [tally(ALONE)], [tally(SWEEP[0])], [])) == []


def test_a_wrong_text_is_seen() -> None:
    right = tally(ALONE, (made((), 0, " x"),))
    wrong = tally(SWEEP[0], (replace(made((), 0, " x"), emitted=_token(2)),))
    lines = figures.lines_of(Sweep(TEXTS[:1], [right], [wrong], []))
    assert [line.same_text for line in lines] == [True, False]


def _token(number: int) -> Emitted:
    return Emitted(Token(number, " x"), "bonus", 1.0, 0.5, NO_LAW, NO_LAW)


def test_a_refused_guess_counts_under_the_kind_of_what_the_text_has_in_its_place() -> None:
    rounds = (
        made((" the", " moon", " is"), 1, " 42"),  # " moon" was guessed where " 42" stands
        made((".",), 1, " of"),
        made((" x", " y"), 0, " ship"),
    )
    found = figures.of_kinds([rounds])
    assert {kind: (each.accepted, each.judged) for kind, each in found.items()} == {
        "glue": (1, 1),
        "content": (0, 1),
        "number": (0, 1),
        "punctuation": (1, 1),
        "code": (0, 0),
    }


def test_a_tree_s_guesses_count_where_they_stand_and_siblings_in_one_place() -> None:
    """' moon', then ' the', where ' the' stands; beneath it ' of' and ' 7' where ' 42' does."""
    plain = made((" moon", " the", " sea", " of", " 7"), 0, " 42")
    parents = (-1, -1, 0, 1, 1)
    verdicts: tuple[Verdict, ...] = ("rejected", "accepted", "discarded", "rejected", "rejected")
    guesses = tuple(
        replace(guess, parent=parent, verdict=verdict)
        for guess, parent, verdict in zip(plain.guesses, parents, verdicts, strict=True)
    )
    found = figures.of_kinds([(replace(plain, guesses=guesses),)])
    assert {kind: (each.accepted, each.judged) for kind, each in found.items() if each.judged} == {
        "glue": (1, 2),
        "number": (0, 2),
    }


# --- words ---------------------------------------------------------------------------------


def line(drafter: str, k: int, speedup: float, heat: float = 0.0, **families: float) -> Line:
    found = {name.replace("_", " "): Family(1, 0.5, 1.5, value) for name, value in families.items()}
    return Line(
        drafter=drafter, k=k, quality=100.0, temperature=heat, prompts=2, rounds=9, tokens=20,
        acceptance_rate=0.5, per_position=(0.5,), mean_acceptance_length=1.5, alpha=0.5,
        draft_ms=1.0, verify_ms=20.0, host_ms=1.0, step_cost=0.1, check_cost=1.1,
        tokens_per_second=60.0, speedup=speedup, predicted=1.2, memory=12_345_678, same_text=True,
        families=found, kinds=dict.fromkeys(KINDS, figures.OfKind(2, 1)),
    )  # fmt: skip


def test_the_advice_is_one_sentence() -> None:
    assert report.advice([line("none", 0, 1.0), line("n-gram", 4, 2.1)]) == (
        "n-gram, K 4: 2.10x on these prompts."
    )
    assert report.advice([line("none", 0, 1.0), line("small", 2, 0.9)]) == (
        "Nothing here is faster than the target alone; closest is small, K 2: 0.90x."
    )
    lines = [
        line("small", 2, 1.2, copying=1.1, poetry=1.3),
        line("n-gram", 4, 1.1, copying=2.4, poetry=0.9),
        line("small", 2, 0.8, heat=1.0, copying=0.9, poetry=0.7),
    ]
    assert report.advice(lines) == (
        "small, K 2: 1.20x on these prompts; n-gram, K 4: 2.40x on copying at T 0; "
        "nothing helps on copying at T 1; nothing helps on poetry at T 1."
    )
    with pytest.raises(ValueError, match="no combination"):
        report.advice([line("none", 0, 1.0)])


@pytest.mark.parametrize("width", [80, report.PIPE_WIDTH])
def test_tables_keep_every_figure(width: int) -> None:
    out = StringIO()
    lines = [
        line("none", 0, 1.0),
        line("copy-4g64", 16, 1.25, heat=0.7, copying=1.2, open=1.1, stories_and_poetry=1.05),
    ]
    others = [figures.RivalLine("transformers assisted", "what it is", 2, 9, 20.0, 3.1, True)]
    report.show(lines, others, Console(file=out, width=width))
    words = out.getvalue()
    assert "…" not in words
    for each in (
        "1.25x",
        "0.100",
        "12.3",
        "position",
        "copying",
        "poetry",
        "3.10x that",
        "copy-4g64, K 16",
    ):
        assert each in words


# --- prompts -------------------------------------------------------------------------------


def test_the_curated_prompts_are_read_with_their_families() -> None:
    curated = texts.load([])
    assert {"knowledge", "copying", "code"} <= {text.family for text in curated}
    assert any(not text.chat for text in curated)


def test_headings_name_families_and_files_name_the_rest(tmp_path: Path) -> None:
    plain = tmp_path / "mine.txt"
    plain.write_text("one\n\n# poetry\n two \n#3 is a prompt\n")
    lines = tmp_path / "more.jsonl"
    lines.write_text('{"prompt": "three", "family": "code"}\n\n{"text": "four", "chat": false}\n')
    assert texts.load([plain, lines]) == [
        Text("one", True, "mine"),
        Text("two", True, "poetry"),
        Text("#3 is a prompt", True, "poetry"),
        Text("three", True, "code"),
        Text("four", False, "more"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"\n \n", "no prompt"),
        ("a.txt", b"# only a heading\n", "no prompt"),
        ("a.txt", b"\xff\xfe\x00", "UTF-8"),
        ("a.jsonl", b'{"prompt": "x"}\nx', "line 2 is not JSON"),
        ("a.jsonl", b"[1]", "line 1 must be an object"),
        ("a.jsonl", b'{"prompt": " "}', "line 1 has no prompt"),
        ("a.jsonl", b'{"prompt": "x", "chat": "yes"}', "chat must be"),
        ("a.json", b"{", "not JSON"),
    ],
)
def test_what_is_no_list_of_prompts_is_refused(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=says):
        texts.load([path])


# --- the command ---------------------------------------------------------------------------


def ordered(*words: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    arguments.add_bench(parser)
    return parser.parse_args([str(word) for word in words])


def run(engine: assembly.Engine, *words: object) -> int:
    return command.main(engine, command.read(ordered(*words)))


def test_a_sweep_of_all_leaves_out_whose_files_are_damaged(
    engine: assembly.Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def look_at(name: str) -> str:
        if name == "n-gram":
            raise ValueError("n-gram cannot be had.")
        return name

    monkeypatch.setattr(engine._catalogue, "look_at", look_at)
    swept = {each.drafter for each in command.combinations(engine, command.read(ordered()))}
    assert swept == {*engine.drafters} - {"auto", "none", "n-gram"}
    assert capsys.readouterr().err == "Left out: n-gram cannot be had.\n"
    with pytest.raises(ValueError, match="cannot be had"):
        command.combinations(engine, command.read(ordered("--drafter", "n-gram")))


def test_the_command_prints_tables_and_advice_and_writes_json_and_csv(
    engine: assembly.Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts, out, table = tmp_path / "texts.txt", tmp_path / "out.json", tmp_path / "out.csv"
    prompts.write_text("one two one two\n\nthree\n")
    words = ("--drafter", "n-gram", "--k", "auto,1,3", "--max-new-tokens", 8, "--json", out)
    assert run(engine, "--prompts", prompts, *words, "--csv", table) == 0
    printed = capsys.readouterr().out
    for row in ("the target alone", "n-gram, K auto", "n-gram, K 1", "n-gram, K 3"):
        assert row in printed
    assert printed.rstrip().splitlines()[-1].endswith(".")
    body = json.loads(out.read_text())
    assert body["machine"]["device"] == "cpu"
    assert [text["prompt"] for text in body["prompts"]] == ["one two one two", "three"]
    assert set(body["lines"][1]["kinds"]) == set(KINDS)
    rows = list(csv.DictReader(table.open()))
    assert [row["k"] for row in rows] == ["0", "auto", "1", "3"]
    assert rows[3]["position_3"] != ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.json", "texts.txt"]


def test_the_shape_of_laws_is_printed_where_it_is_not_the_usual(
    engine: assembly.Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--drafter", "n-gram", "--k", 2, "--max-new-tokens", 8)
    run(engine, *words)
    assert "Everybody" not in capsys.readouterr().out
    run(engine, *words, "--min-p", 0.05, "--repetition-penalty", 1.2, "--temperature", 0.7)
    assert "Everybody with min-p 0.05, repetition penalty 1.2.\n" in capsys.readouterr().out


def test_what_was_measured_before_an_interruption_is_printed_and_written(
    engine: assembly.Engine,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = iter(range(100))
    take = Tally.take

    def interrupted(self: Tally, number: int, text: Text, tokens: int) -> None:
        if next(taken) == 3:
            raise KeyboardInterrupt
        take(self, number, text, tokens)

    monkeypatch.setattr(Tally, "take", interrupted)
    out = tmp_path / "out.json"
    words = ("--drafter", "n-gram", "--k", 2, "--max-new-tokens", 8, "--json", out)
    assert run(engine, *words) == 130
    said = capsys.readouterr()
    assert "n-gram, K 2" in said.out
    assert "Interrupted: 1 of " in said.err
    assert [each["prompts"] for each in json.loads(out.read_text())["lines"]] == [1, 2]


def test_files_that_cannot_be_written_are_refused_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    for option in ("--json", "--csv"):
        with pytest.raises(OSError, match="nowhere"):
            command.read(ordered(option, tmp_path / "nowhere" / "out"))
        with pytest.raises(IsADirectoryError):
            command.read(ordered(option, tmp_path))
        command.read(ordered(option, tmp_path / "fine"))
        assert list(tmp_path.iterdir()) == []


def test_others_are_not_compared_with_weights_they_do_not_have() -> None:
    with pytest.raises(ValueError, match="int8"):
        command.read(ordered("--weights", "int8", "--against", "transformers"))


def test_every_drafter_is_the_default_and_has_a_name() -> None:
    assert command.read(ordered()).drafters == []
    assert command.read(ordered("--drafter", "all")).drafters == []


def test_an_unknown_drafter_is_refused_before_anything_is_measured(
    engine: assembly.Engine,
) -> None:
    with pytest.raises(ValueError, match="nobody"):
        run(engine, "--drafter", "nobody")


# --- others --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parrot:
    """A rival that writes the same ids whatever it is asked, ten a second."""

    ids: tuple[int, ...]
    name: str = "parrot"
    what: str = "says what it always says"
    asked: list[list[int]] = field(default_factory=list)

    def write(self, prompt: Sequence[int], tokens: int) -> Written:
        self.asked.append(list(prompt))
        return Written(self.ids, 0.1 * len(self.ids), len(self.ids))


def test_a_rival_reads_our_very_prompt_and_is_measured_beside_us(engine: assembly.Engine) -> None:
    parrot = Parrot((1, 2, 3))
    planned = sweep.plan(engine, TEXTS, SWEEP[:1], [parrot])
    (found,) = figures.rival_lines(sweep.measure(planned, 8))
    assert found.tokens_per_second == pytest.approx(10.0)
    assert found.same_text is False
    assert found.ours is not None
    assert found.ours > 1
    chars = [engine.begin(sweep.Start("abcabcabcabc", False)).header.prompt_tokens]
    assert parrot.asked[0] == [token.id for token in chars[0]]


def test_transformers_on_the_same_weights_writes_the_same_text(
    engine: assembly.Engine, folder: Path
) -> None:
    """Plain, with its own first layers as assistant, and with prompt lookup."""
    setting = rivals.Setting(folder, None, None, "cpu", torch.float32, threads=1)
    others = rivals.rivals(["transformers"], setting)
    planned = sweep.plan(engine, TEXTS, SWEEP[:1], others)
    found = figures.rival_lines(sweep.measure(planned, 12))
    assert [each.name.removeprefix("transformers ") for each in found] == [
        "plain",
        "early exit",
        "lookup",
    ]
    assert all(each.same_text for each in found)
    assert all(each.tokens_per_second for each in found)


def test_the_assistant_that_transformers_gets_is_our_own_small_drafter(
    folder: Path, tmp_path: Path
) -> None:
    """The same logits, the head reduced to the same ids, over the target's embedding."""
    target = load_file(folder / "model.safetensors")
    ids = torch.tensor([3, 5, 8, 90, 200], dtype=torch.int32)
    tensors = {
        name.removeprefix("model."): tensor * 1.1
        for name, tensor in target.items()
        if ".layers.0." in name or name == "model.norm.weight"
    }
    save_file(tensors | {"vocab_ids": ids}, tmp_path / "model.safetensors")
    config = json.loads((folder / "config.json").read_text()) | {"num_hidden_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    setting = rivals.Setting(folder, tmp_path, None, "cpu", torch.float32, threads=1)
    text = [1, 4, 1, 5, 9, 2, 6]
    with torch.inference_mode():
        theirs = rivals.HuggingFacePair(setting).small(torch.tensor([text])).logits[0]
    shape = LlamaConfig.from_folder(tmp_path)
    embedding = target["model.embed_tokens.weight"]
    ours = Runner(
        Weights.from_tensors(shape, load_file(tmp_path / "model.safetensors"), embedding=embedding)
    ).forward(text)
    torch.testing.assert_close(theirs[:, ids.long()], ours[:, ids.long()], rtol=1e-4, atol=1e-4)
    others = torch.ones(theirs.shape[1], dtype=torch.bool)
    others[ids.long()] = False
    assert theirs[:, others].max() < -1e30


@pytest.mark.parametrize(
    ("names", "gguf", "says"),
    [
        (["flashspec"], None, "pip install flashspec"),
        (["llama.cpp"], None, "pip install llama-cpp-python"),
        ([], Path("nowhere.gguf"), "no file"),
        (["transformers"], None, None),
    ],
)
def test_an_engine_that_is_not_there_is_refused_with_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, names: list[str], gguf: Path | None, says: str | None
) -> None:
    monkeypatch.setattr(rivals, "find_spec", lambda module: module == "transformers" or None)
    problem = rivals.missing(names, gguf)
    assert problem is None if says is None else says in (problem or "")


def test_others_run_without_a_penalty_and_are_not_compared_with_one() -> None:
    with pytest.raises(ValueError, match="penalty"):
        command.read(ordered("--repetition-penalty", 1.2, "--against", "transformers"))


def test_the_shape_of_laws_is_the_target_s_alone_too(engine: assembly.Engine) -> None:
    """With a penalty the target writes another text: its own, only if it has the penalty too."""
    words = ("--drafter", "n-gram", "--k", 3, "--repetition-penalty", 1.9, "--match", "1..3")
    laws = ("--top-k", 40, "--top-p", 0.9, "--min-p", 0.05, "--temperature", 0, 0.8)
    planned = sweep.plan(
        engine, TEXTS, command.combinations(engine, command.read(ordered(*words, *laws)))
    )
    for each in (*planned.alone, *planned.tallies):
        s = each.settings
        shape = (s.top_k, s.top_p, s.min_p, s.repetition_penalty, s.shortest_match, s.longest_match)
        assert shape == (40, 0.9, 0.05, 1.9, 1, 3)
    assert [each.settings.drafts for each in planned.alone] == [False, False]
    sweep.measure(planned, 16)
    lines = figures.lines_of(planned)
    assert [line.same_text for line in lines if line.temperature == 0] == [True, True]
    planned.alone[0].settings = Settings(drafter="none", k=0, speculative=False)
    sweep.measure(planned, 16)
    broken = [line.same_text for line in figures.lines_of(planned) if line.temperature == 0]
    assert broken == [True, False], "a target alone without the penalty is caught"
