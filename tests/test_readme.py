"""The README is true: its map names every file, its commands exist, CI runs its test line."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGES = ("engine", "scenes", "visualizer", "tests")


def test_the_map_names_every_source_file() -> None:
    block = README.split("scenes/full_loop.py` (the picture).")[1].split("```")[1]
    folder, named = "", set()
    for line in filter(str.strip, block.splitlines()):
        name = line.split()[0]
        if line.startswith("  "):
            named.add(folder + name)
        elif name.endswith("/") and len(line.split()) == 1:
            folder = name
        else:
            named.add(name)
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.read_text(encoding="utf-8").strip()
    }
    python = {name for name in named if name.endswith(".py") and name.split("/")[0] in PACKAGES}
    assert sources == python


def test_continuous_integration_runs_exactly_the_test_line() -> None:
    line = next(each for each in README.splitlines() if each.endswith("python -m pytest"))
    assert line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_every_command_it_names_exists() -> None:
    named = set(re.findall(r"`python main\.py (\w+)", README))
    shown = subprocess.run(
        [sys.executable, "main.py", "--help"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    assert named
    assert all(re.search(rf"^ +{name} ", shown, re.MULTILINE) for name in named)


def test_every_picture_it_shows_is_there() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
