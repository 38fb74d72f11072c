"""Every control there is, pressed in the real window: none is silent (see `controls.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from desktop import ROOT, Display, missing_tools

from visualizer.keymap import COMMANDS

pytestmark = pytest.mark.skipif(
    bool(missing_tools()), reason=f"this machine lacks {', '.join(missing_tools())}"
)


def driven(folder: Path, *words: str) -> dict[str, object]:
    """What `controls.py` printed. Mesa draws nothing: pictures are looked at elsewhere."""
    display = Display((1280, 900))
    drawing = {"DISPLAY": display.name, "GALLIUM_NOOP": "1", "LIBGL_ALWAYS_SOFTWARE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests" / "ui" / "controls.py"), str(folder), *words],
            cwd=ROOT, env={**os.environ, **drawing}, capture_output=True, text=True, timeout=280,
        )  # fmt: skip
    finally:
        display.close()
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


@pytest.mark.timeout(300)
def test_no_control_is_silent(tmp_path: Path) -> None:
    report = driven(tmp_path)
    assert report["silent"] == []
    keys = sum(max(len(command.keys), 1) for command in COMMANDS)
    assert isinstance(report["driven"], int)
    assert report["driven"] > keys + 35, "gestures, and what the panels mark"


@pytest.mark.timeout(100)
def test_a_control_that_does_nothing_is_found_out(tmp_path: Path) -> None:
    report = driven(tmp_path, "--broken")
    assert report["silent"] == ["panel plain: loop", "key l: Loop this round"]
