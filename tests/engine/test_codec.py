"""Run files: the same bytes live and recorded, and one clear sentence for anything else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from engine import codec, trace
from engine.codec import CodecError
from engine.source import events_of
from engine.trace import EngineState, RunFailed, RunProof, Scored, Token, fold
from tests.data import write_hand as hand

LINES = [codec.encode(event) for event in hand.EVENTS]


def test_the_fixture_is_what_the_builder_writes():
    assert hand.PATH.read_text(encoding="utf-8") == "".join(codec.iter_lines(hand.EVENTS))


PROOFS = (
    RunProof(200),
    RunProof(9, 3, (Scored(Token(1, "a"), 2.5), Scored(Token(2, "b"), 2.0)), ()),
)


@pytest.mark.parametrize(
    "event",
    [
        *hand.EVENTS,
        RunFailed("out of memory"),
        EngineState("fetching", "x", 1, 2, 3.5),
        EngineState("refused", "The prompt is empty."),
        *PROOFS,
    ],
)
def test_every_event_survives_the_trip(event):
    line = codec.encode(event)
    assert "\n" not in line
    assert line.isascii(), "half characters must travel as escapes, never as bytes"
    assert codec.decode(line) == event
    assert codec.encode(codec.decode(line)) == line


def test_reading_the_fixture_gives_the_run():
    assert codec.read_run(hand.PATH) == fold(hand.EVENTS)


def test_a_run_file_keeps_the_proof_and_one_without_still_loads(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("".join(codec.iter_lines((*hand.EVENTS, PROOFS[0]))), encoding="utf-8")
    assert codec.read_run(path).proof == PROOFS[0]
    assert events_of(path)[-1] == PROOFS[0]
    assert codec.read_run(hand.PATH).proof is None


def test_the_first_line_names_format_and_version():
    body = json.loads(LINES[0])
    assert body["format"] == "verifybox-run"
    assert body["version"] == trace.VERSION


def test_fields_of_a_later_minor_version_are_ignored():
    body = json.loads(LINES[1]) | {"mood": "cheerful"}
    assert codec.decode(json.dumps(body)) == hand.ALL_ACCEPTED


def test_a_run_of_before_a_setting_existed_has_its_default():
    header = replace(hand.HEADER, settings=replace(hand.HEADER.settings, repetition_penalty=1.5))
    body = json.loads(codec.encode(header))
    assert codec.decode(json.dumps(body)) == header
    del body["settings"]["repetition_penalty"]
    assert codec.decode(json.dumps(body)) == hand.HEADER


def test_a_header_without_a_baseline_survives():
    header = replace(hand.HEADER, baseline=None)
    assert codec.decode(codec.encode(header)) == header


def changed(line: str, **fields: object) -> str:
    return json.dumps(json.loads(line) | fields)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("not json", "not JSON"),
        (changed(LINES[1], verify_seconds=float("nan")), "not JSON"),
        (changed(LINES[1], verify_seconds=float("-inf")), "not JSON"),
        ("[1]", "no event"),
        ('{"event":"Party"}', "no event"),
        ('{"event":["Round"]}', "no event"),
        (changed(LINES[0], format="other"), "format"),
        (changed(LINES[0], version=trace.VERSION + 1), "newer"),
        (changed(LINES[0], version="1"), "no version"),
        (changed(LINES[0], version=-3), "no version"),
        (changed(LINES[0], chat=1), "RunHeader.chat"),
        (changed(LINES[0], seed=True), "RunHeader.seed"),
        (changed(LINES[0], seed=0.5), "RunHeader.seed"),
        (changed(LINES[0], prompt_tokens=[3]), "RunHeader.prompt_tokens"),
        (changed(LINES[1], verify_seconds="fast"), "Round.verify_seconds"),
        (changed(LINES[1], guesses={}), "Round.guesses"),
        (changed(LINES[-1], reason="bored"), "RunFinished.reason"),
        ('{"event":"RunFailed"}', "message"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(line, says):
    with pytest.raises(CodecError, match=says):
        codec.decode(line)


def test_not_a_number_is_never_written():
    with pytest.raises(ValueError):
        codec.encode(replace(hand.ALL_ACCEPTED, verify_seconds=float("nan")))


def write(tmp_path, *lines: str, end: str = "\n"):
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return path


def test_a_line_cut_by_a_crash_is_dropped_and_the_rest_kept(tmp_path):
    run = codec.read_run(write(tmp_path, *LINES[:3], LINES[3][:60], end=""))
    assert run == fold(hand.EVENTS[:3])


def test_damage_in_the_middle_names_the_line(tmp_path):
    with pytest.raises(CodecError, match=r"run\.jsonl, line 3"):
        codec.read_run(write(tmp_path, *LINES[:2], LINES[2][:60], LINES[3]))


def test_events_out_of_order_name_the_line(tmp_path):
    with pytest.raises(CodecError, match="line 2: round 1 where round 0 is due"):
        codec.read_run(write(tmp_path, LINES[0], LINES[2]))


@pytest.mark.parametrize("content", ["", "\n\n", "\x00\x01"])
def test_a_file_that_is_no_run_says_so(tmp_path, content):
    path = tmp_path / "x.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CodecError):
        codec.read_run(path)
