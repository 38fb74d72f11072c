"""The pieces of the terminal commands: options, printing, keeping and gathering runs."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine import arguments, codec, commands, config, terminal
from engine.codec import Message
from engine.requests import Change, Request, Shown, Start
from engine.source import LiveSource, ReplaySource, RunWriter
from engine.terminal import Progress, Writer
from engine.trace import (
    Emitted,
    EngineState,
    Guess,
    Law,
    Rewind,
    Round,
    RunFailed,
    RunFinished,
    RunHeader,
    RunProof,
    Settings,
    Token,
    Trace,
)
from visualizer.errors import VisualizerError

NO_LAW = Law((), 0.0)
HEADER = RunHeader(
    run_id="abc", created="2026-03-04T05:06:07+00:00", target="tiny", device="cpu",
    dtype="float32", kernel="torch", drafter="n-gram", drafter_reason="", settings=Settings(k=2),
    prompt="hi", chat=False, prompt_tokens=(Token(1, "hi"),), vocab_size=64, context_limit=128,
    max_new_tokens=24, stop=(), seed=0, baseline=None, prefill_seconds=0.0,
)  # fmt: skip


def guess(token: Token, verdict: str) -> Guess:
    return Guess(token, 1.0, 1.0, 1.0, 0.5, verdict, NO_LAW, NO_LAW, "n-gram")  # type: ignore[arg-type]


def made(index: int, *guesses: Guess, emitted: Token, kind: str = "bonus") -> Round:
    own = Emitted(emitted, kind, 1.0, 0.5, NO_LAW, NO_LAW)  # type: ignore[arg-type]
    return Round(index, 1, Settings(k=2), guesses, own, (0.001,), 0.02)


# --- options -----------------------------------------------------------------------------


def test_options_that_are_not_given_are_the_defaults_of_a_run() -> None:
    parser = argparse.ArgumentParser()
    arguments.add_run(parser)
    args = parser.parse_args(["--prompt", "x"])
    assert commands.start_of(args) == Start("x", remember=True)


def test_drafter_none_is_the_target_alone() -> None:
    parser = argparse.ArgumentParser()
    arguments.add_run(parser)
    settings = config.settings_of(parser.parse_args(["--prompt", "x", "--drafter", "none"]))
    assert settings.effective_k == 0
    assert not settings.speculative


def test_k_may_be_left_to_the_engine() -> None:
    parser = argparse.ArgumentParser()
    arguments.add_run(parser)
    settings = config.settings_of(parser.parse_args(["--prompt", "x", "--k", "auto"]))
    assert settings.chooses_k
    assert settings.k_as_set == "auto"
    alone = parser.parse_args(["--prompt", "x", "--k", "auto", "--drafter", "none"])
    assert not config.settings_of(alone).chooses_k


def test_the_engine_process_gets_the_same_options() -> None:
    parser = argparse.ArgumentParser()
    arguments.add_engine(parser)
    args = parser.parse_args(
        ["--target", "folder", "--drafters", "mine", "--device", "cpu", "--threads", "3"]
    )
    assert parser.parse_args(commands.engine_arguments(args)) == args


@pytest.mark.parametrize(
    ("text", "ks"),
    [
        ("4", (4,)),
        ("1..3", (1, 2, 3)),
        ("0,2,16", (0, 2, 16)),
        ("5..5", (5,)),
        ("auto", ("auto",)),
        ("auto,2", ("auto", 2)),
    ],
)
def test_spans_of_k(text: str, ks: tuple[int | str, ...]) -> None:
    assert arguments.span(text) == ks


@pytest.mark.parametrize(
    "text", ["", "3..1", "1..17", "1...3", "a", "1,,2", "-1", "1..auto", "Auto"]
)
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        arguments.span(text)


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("0.7", 0.7), ("1e1", 10.0), (" 2 ", 2.0)])
def test_numbers_in_range(text: str, value: float) -> None:
    assert arguments.number(float, 0, 10)(text) == value


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "10.1", "-0.1", "", "1,5"])
def test_numbers_out_of_range(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="from 0 to 10"):
        arguments.number(float, 0, 10)(text)


# --- text --------------------------------------------------------------------------------


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def bytes_as_tokens(text: str) -> list[Token]:
    return [Token(i, bytes([b]).decode("utf-8", "surrogateescape"))
            for i, b in enumerate(text.encode())]  # fmt: skip


def test_a_character_is_written_once_all_its_bytes_are_there() -> None:
    stream = io.StringIO()
    writer = Writer(stream, frozenset())
    seen = []
    for index, token in enumerate(bytes_as_tokens("日")):
        writer.write(made(index, emitted=token))
        seen.append(stream.getvalue())
    assert seen == ["", "", "日"]


def test_a_cut_character_is_marked_at_the_end() -> None:
    stream = io.StringIO()
    writer = Writer(stream, frozenset())
    writer.write(made(0, emitted=bytes_as_tokens("日")[0]))
    writer.close()
    assert stream.getvalue() == "�\n"


def test_only_accepted_guesses_are_written_and_the_end_mark_is_not() -> None:
    stream = io.StringIO()
    writer = Writer(stream, frozenset({63}))
    yes, no = guess(Token(1, "yes "), "accepted"), guess(Token(2, "no "), "rejected")
    writer.write(made(0, yes, no, emitted=Token(3, "well"), kind="recovered"))
    writer.write(made(1, emitted=Token(63, "<|im_end|>")))
    assert stream.getvalue() == "yes well"


def test_on_a_terminal_the_targets_own_words_stand_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Screen()
    Writer(stream, frozenset()).write(made(0, emitted=Token(3, "well"), kind="recovered"))
    assert stream.getvalue() == "\x1b[33mwell\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Screen()
    Writer(stream, frozenset()).write(made(0, emitted=Token(3, "well")))
    assert stream.getvalue() == "well"


def test_progress_is_a_line_a_second_into_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    with Progress() as progress:
        for step in range(5):
            progress.engine(EngineState("fetching", "Fetching", step * 10**6, 5 * 10**6, 2e6))
            now[0] += 0.5
    assert capsys.readouterr().err.splitlines() == [
        "Fetching  0.0 of 5.0 MB  2.0 MB/s  2 s left",
        "Fetching  2.0 of 5.0 MB  2.0 MB/s  2 s left",
        "Fetching  4.0 of 5.0 MB  2.0 MB/s  0 s left",
    ]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "Not there", "x.jsonl"), "Not there: x.jsonl."),
        (BrokenPipeError(32, "Broken pipe"), "Broken pipe."),
        (ValueError("two\nlines"), "two lines."),
        (codec.CodecError("line 3: bad!"), "line 3: bad!"),
        (VisualizerError("There is no display."), "There is no display."),
        (KeyError("x"), "Something unexpected went wrong (KeyError: 'x')."),
    ],
)  # fmt: skip
def test_every_error_is_one_sentence(error: Exception, words: str) -> None:
    assert terminal.sentence(error) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1.0, "0 s"), (89.4, "89 s"), (100.0, "2 min"), (7200.0, "2 h")]
)
def test_time_left_is_told_in_a_fitting_unit(seconds: float, words: str) -> None:
    assert terminal.duration(seconds) == words


# --- keeping runs ------------------------------------------------------------------------


def feed(writer: RunWriter, *events: Message) -> None:
    for event in events:
        writer.write(codec.encode(event), event)


def test_each_run_is_kept_in_a_file_of_its_own(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "runs")
    end = RunFinished("length")
    feed(writer, EngineState("ready"), HEADER, made(0, emitted=Token(3, "a")), end)
    feed(writer, HEADER, made(0, emitted=Token(4, "b")))
    writer.close()
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names == ["20260304050607-abc-1.jsonl", "20260304050607-abc.jsonl"]
    first, second = (codec.read_run(tmp_path / "runs" / name) for name in reversed(names))
    assert (first.text, second.text) == ("a", "b")
    assert first.end == end


def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "20260304050607-abc.jsonl").write_text("precious")
    writer = RunWriter(tmp_path)
    feed(writer, HEADER)
    writer.close()
    assert (tmp_path / "20260304050607-abc.jsonl").read_text() == "precious"


def test_a_folder_that_cannot_be_written_is_a_notice_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    writer = RunWriter(tmp_path / "file" / "runs")
    feed(writer, HEADER, made(0, emitted=Token(3, "a")))
    assert writer.notice is not None
    assert writer.notice.startswith("This run is not being saved: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RunWriter(tmp_path)
    (tmp_path / "20260304050607-abc.jsonl").symlink_to("/dev/full")
    plain_open = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, mode, **more: plain_open(path, mode.replace("x", "w"), **more)
    )
    feed(writer, HEADER, made(0, emitted=Token(3, "a")))
    assert writer.notice == "This run is not being saved: No space left on device."


def test_a_trace_file_holds_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with commands.trace_file(path, HEADER) as keep:
        keep(made(0, emitted=Token(3, "a")))
        keep(RunFinished("length"))
    assert codec.read_run(path).end == RunFinished("length")


def test_a_recording_never_takes_a_name_that_is_taken(tmp_path: Path) -> None:
    first = commands.new_recording(tmp_path)
    first.touch()
    assert commands.new_recording(tmp_path) != first


# --- sources -----------------------------------------------------------------------------


def test_a_replay_gives_the_run_as_it_finally_stood(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    a, b, c = (Token(number, text) for number, text in enumerate("abc"))
    taken_back, instead = made(1, emitted=b), made(1, emitted=c)
    kept, end = made(0, emitted=a), RunFinished("eos")
    events = [HEADER, kept, taken_back, Rewind(1, Settings(k=1)), instead, end]
    path.write_text("".join(codec.iter_lines(events)))
    source = ReplaySource(path)
    source.send(Shown(1))
    assert source.poll() == [HEADER, kept, instead, end]
    assert source.poll() == []
    assert not source.live
    assert source.fault is source.notice is None


class Scripted:
    """A source that says what it is given."""

    live = True
    notice = None
    changing = False

    def __init__(self, *batches: list[Message], fault: str | None = None) -> None:
        self._batches: Iterator[list[Message]] = iter(batches)
        self._last_words = fault
        self.fault: str | None = None
        self.sent: list[Request] = []

    def poll(self) -> list[Message]:
        batch = next(self._batches, None)
        if batch is None:
            self.fault = self._last_words
        return batch or []

    def send(self, request: Request) -> None:
        self.sent.append(request)

    def restart(self) -> None: ...
    def close(self) -> None: ...


def test_gathering_shows_rounds_so_that_more_are_made() -> None:
    rounds = [made(index, emitted=Token(3, "a")) for index in range(3)]
    source = Scripted([EngineState("loading")], [HEADER, rounds[0]], [], rounds[1:],
                      [RunFinished("eos")])  # fmt: skip
    run = commands.gather(source, Start("hi"))
    assert run == Trace(HEADER, tuple(rounds), RunFinished("eos"))
    assert source.sent == [Start("hi"), Shown(0), Shown(1), Shown(3), Shown(3)]


@pytest.mark.parametrize(
    "source",
    [
        Scripted([HEADER], [RunFailed("There was not enough memory.")]),
        Scripted([EngineState("loading")], fault="There was not enough memory."),
    ],
)
def test_gathering_a_run_that_fails_says_why(source: Scripted) -> None:
    with pytest.raises(commands.CommandError, match=r"There was not enough memory\."):
        commands.gather(source, Start("hi"))


def test_a_live_source_waits_for_the_answer_to_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.client.EngineClient.start", lambda self: None)
    said: list[Message] = []
    monkeypatch.setattr("engine.client.EngineClient.poll", lambda self: said)
    source = LiveSource()
    source.send(Change(Settings(k=1)))
    assert source.changing
    said[:] = [made(0, emitted=Token(3, "a"))]
    source.poll()
    assert source.changing, "a round made before the change is no answer"
    said[:] = [EngineState("reading", done=256, total=900)]
    source.poll()
    assert source.changing, "nor is the reading of a prompt asked for before it"
    said[:] = [Rewind(0, Settings(k=1))]
    source.poll()
    assert not source.changing


def test_an_engine_that_cannot_be_started_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> None:
        raise OSError(12, os.strerror(12))

    monkeypatch.setattr("engine.client.EngineClient.start", fail)
    source = LiveSource()
    assert source.fault == "The engine process did not start: Cannot allocate memory."
    assert source.poll() == []


# --- the object of run --json ------------------------------------------------------------


def test_the_summary_tells_the_run_in_numbers() -> None:
    yes = guess(Token(1, "yes "), "accepted")
    no, late = guess(Token(2, "no "), "rejected"), guess(Token(2, "no "), "discarded")
    rounds = (
        made(0, yes, yes, emitted=Token(3, "a")),
        made(1, no, late, emitted=Token(63, "<|im_end|>"), kind="recovered"),
    )
    header = replace(HEADER, settings=Settings(k=2))
    body = commands.summary(header, Trace(header, rounds, RunFinished("eos")))
    assert body["token_ids"] == [1, 1, 3, 63]
    assert body["text"] == "yes yes a"
    assert list(body["histogram"]) == [1, 0, 1]
    assert (body["acceptance_rate"], body["mean_acceptance_length"]) == (0.5, 2.0)
    assert math.isclose(body["draft_seconds"], 0.002)
    assert math.isclose(body["verify_seconds"], 0.04)
    assert body["speedup"] is body["baseline_tokens_per_second"] is None
    assert json.loads(json.dumps(body)) == json.loads(json.dumps(body, allow_nan=False))
    assert body["lossless"] is None
    checked = commands.summary(header, Trace(header, rounds, RunFinished("eos"), RunProof(4)))
    assert (checked["lossless"]["tokens"], checked["lossless"]["first_difference"]) == (4, None)


# --- what ships --------------------------------------------------------------------------


def test_the_bundled_runs_are_small_whole_and_of_the_default_target() -> None:
    bundled = sorted((commands.ASSETS / "runs").glob("*.jsonl"))
    assert 2 <= len(bundled) <= 3
    for path in bundled:
        run = codec.read_run(path)
        assert path.stat().st_size <= 400_000
        assert isinstance(run.end, RunFinished)
        assert run.header is not None
        assert run.header.baseline is not None
        assert run.header.target == "SmolLM2-135M-Instruct"


def test_the_run_shown_first_has_every_kind_of_round() -> None:
    run = commands.opening_run()
    assert run is not None
    accepted = {each.accepted for each in run.rounds}
    assert {0, 4} < accepted
    verdicts = {guess.verdict for each in run.rounds for guess in each.guesses}
    assert verdicts == {"accepted", "rejected", "discarded"}
    kinds = {each.emitted.kind for each in run.rounds if each.emitted is not None}
    assert kinds == {"bonus", "recovered"}
