"""The doctor reports what it finds, survives what crashes, and names the fix."""

from __future__ import annotations

import json
from pathlib import Path

from engine import doctor
from engine.doctor import Check


def test_a_probe_gives_what_its_snippet_printed() -> None:
    seen = doctor.probe("import json; print('noise'); print(json.dumps({'answer': 42}))")
    assert seen.found == {"answer": 42}


def test_a_probe_survives_a_crash_a_hang_and_an_error() -> None:
    assert "signal 6" in doctor.probe("import os; os.abort()").problem
    assert "no answer" in doctor.probe("import time; time.sleep(60)", seconds=0.5).problem
    assert doctor.probe("import nothing_of_this_name").problem == (
        "ModuleNotFoundError: No module named 'nothing_of_this_name'"
    )
    assert doctor.probe("pass").found is None
    assert doctor.probe("print('no JSON')").found is None


def test_a_missing_model_is_told_with_the_command_that_gets_it(tmp_path: Path) -> None:
    check = doctor._model(tmp_path / "cache", None)
    assert check.state == "missing"
    assert check.fix == "python main.py fetch"
    assert "free" in check.detail


def test_a_model_that_is_there_is_told_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(bytes(3_000_000))
    check = doctor._model(tmp_path, tmp_path)
    assert check.state == "works"
    assert "3 MB" in check.detail


def test_every_part_of_the_engine_is_looked_at(tmp_path: Path) -> None:
    found = doctor.checks(tmp_path, None, tmp_path / "runs")
    assert [check.name for check in found] == [
        "Python", "Processor", "PyTorch", "CPU kernels", "Model libraries", "Model", "Saved runs",
    ]  # fmt: skip
    assert {check.name: check.state for check in found}["PyTorch"] == "works"


def test_the_report_puts_a_fix_under_what_needs_it() -> None:
    found = [Check("One", "works", "fine"), Check("Two", "missing", "gone", "get it")]
    assert doctor.as_text(found).splitlines() == [
        "ok       One  fine",
        "MISSING  Two  gone",
        "              fix: get it",
    ]
    assert json.loads(doctor.as_json(found))["Two"]["fix"] == "get it"
