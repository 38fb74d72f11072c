"""The doctor reports what it finds, survives what crashes, and names the fix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import doctor
from engine.doctor import Check, Probe
from visualizer import doctor as pictures


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


# --- the visualizer's half ---------------------------------------------------------------


def test_every_part_of_the_picture_is_looked_at(tmp_path: Path) -> None:
    found = {check.name: check for check in pictures.checks(tmp_path)}
    assert {"System libraries", "Display", "Panels", "Encoders", "Fonts"} <= set(found)
    assert found["Encoders"].state == "works", found["Encoders"].detail
    assert found["Fonts"].state == "missing"


def test_software_drawing_is_a_note_and_a_graphics_card_is_fine() -> None:
    slow = Probe({"renderer": "llvmpipe (LLVM 15)", "version": "4.5 Mesa"})
    fast = Probe({"renderer": "NVIDIA GeForce RTX 4070", "version": "4.6.0"})
    assert pictures._graphics("Recording", slow, "libegl1").state == "note"
    assert pictures._graphics("Recording", fast, "libegl1").state == "works"


def test_no_graphics_is_told_with_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    check = pictures._graphics("Recording", Probe(None, "libEGL.so.1: not found"), "libegl1")
    assert check.state == "missing"
    assert check.fix.startswith("sudo apt install libegl1")


def test_missing_system_libraries_are_named_with_their_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None if name == "EGL" else name)
    check = pictures._libraries()
    assert check.detail == "lacking libEGL"
    assert "sudo apt install libegl1" in check.fix
    assert "dnf install libglvnd-egl" in check.fix


def test_no_display_is_a_note_because_recording_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert pictures._display().state == "note"
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert "xwayland" in pictures._display().fix
