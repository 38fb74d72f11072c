"""What pictures take is counted right, told in a few lines, and written down a line a minute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from desktop import ROOT
from show import hand_run

from engine import codec
from engine.trace import Candidate, Emitted, Guess, Law, Token
from visualizer.meter import MINUTE, PARTS, ROUND_BYTES, Meter, quantile, resident, summed
from visualizer.state import MAX_K

PICTURE = dict.fromkeys(PARTS, 0.0004)


def fed(meter: Meter, seconds: float, every: float, start: float = 100.0) -> float:
    """Feed pictures `every` so many seconds; returns the time of the last."""
    count = round(seconds / every)
    for index in range(count + 1):
        meter.picture(start + index * every, PICTURE, 0.005)
    return start + count * every


def test_quantiles_are_values_that_were_there() -> None:
    ordered = [float(each) for each in range(100)]
    assert (quantile(ordered, 0.5), quantile(ordered, 0.99)) == (50.0, 99.0)
    assert quantile([7.0], 0.99) == 7.0


def test_one_late_picture_in_fifty_shows_in_the_tail_and_not_in_the_middle() -> None:
    samples = [(0.016, PICTURE)] * 98 + [(0.2, PICTURE)] * 2
    minute = summed(1.0, samples, [])
    assert (minute.interval_p50, minute.interval_p99, minute.interval_most) == (16.0, 200.0, 200.0)
    assert minute.ours_p50 == pytest.approx(2.0)
    assert minute.gpu is None


def test_figures_come_as_lines_and_not_with_every_picture() -> None:
    meter = Meter()
    fed(meter, 0.4, 1 / 60)
    assert meter.lines == ()
    fed(meter, 3.0, 1 / 60, start=101.0)
    assert "60 pictures a second" in meter.lines[0]
    assert "GPU 5.0 ms" in meter.lines[1]
    assert all(part in meter.lines[2] for part in PARTS)


def test_the_file_gets_a_line_a_minute_and_one_for_the_rest(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "profile.jsonl")
    end = fed(meter, 2.5 * MINUTE, 0.1)
    meter.write(end)
    lines = [json.loads(line) for line in (tmp_path / "profile.jsonl").read_text().splitlines()]
    assert [round(each["at"]) for each in lines] == [60, 120, 150]
    assert sum(each["pictures"] for each in lines) == 1500, "every picture but the first, once"
    assert lines[0]["memory"] > 10


def test_memory_does_not_grow_with_the_pictures_it_has_seen() -> None:
    meter = Meter()
    for index in range(20_000):
        meter.picture(index / 60, PICTURE, 0.001)
    assert len(meter._recent) <= 600
    assert len(meter._minute) <= 60 * MINUTE + 1
    assert len(meter._gpu) <= 601


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_memory_is_that_of_the_process_asked_for() -> None:
    assert resident() == pytest.approx(resident(os.getpid()), rel=0.2)
    assert resident(2**22 + 1) == 0, "nobody there"


def test_the_doctor_draws_pictures_and_says_what_they_take() -> None:
    done = subprocess.run(
        [sys.executable, "main.py", "doctor", "--frames", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=200,
        env={**os.environ, "GALLIUM_NOOP": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["renderer"]
    for row in report["rows"]:
        assert set(row["ours"]["parts"]) == set(PARTS)
        assert row["ours"]["pictures"] >= 100
        assert row["passes"]["solid"] >= 0.0


def test_a_round_has_a_most_that_it_may_take() -> None:
    """Sixteen guesses, long words that are no text, every number as long as numbers get."""
    number = 0.12345678901234567
    token = Token(49_151, chr(0xDCE6) * 8)
    law = Law(tuple(Candidate(token, number) for _ in range(10)), number)
    chances = (number, number, number, number)
    guess = Guess(token, *chances, "accepted", law, law, "n-gram", 8191, 15, number)
    emitted = Emitted(token, "recovered", number, number, law, law)
    each = replace(hand_run().rounds[0], guesses=(guess,) * MAX_K, emitted=emitted)
    each = replace(each, draft_step_seconds=(number,) * MAX_K)
    assert ROUND_BYTES / 2 < len(codec.encode(each).encode()) < ROUND_BYTES
