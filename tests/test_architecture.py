"""The shape of the program: who may import whom, and what may not appear where.

An AST walk finds every import, those inside functions included; fresh interpreters find
what comes in indirectly.
"""

import ast
import dataclasses
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from engine import codec, trace

ROOT = Path(__file__).parent.parent
PACKAGES = ("engine", "visualizer", "scenes")
LINES_PER_MODULE = 450

STDLIB_ENGINE = {
    "adapt",
    "trace",
    "codec",
    "stats",
    "config",
    "arguments",
    "replies",
    "requests",
    "client",
    "source",
    "prompts",
    "terminal",
    "doctor",
    "wordkinds",
    "families",
    "comparison",
}
ENGINE_LIBRARIES = {
    "torch",
    "numpy",
    "numba",
    "llvmlite",
    "transformers",
    "tokenizers",
    "safetensors",
    "gguf",
    "platformdirs",
    "filelock",
    "jinja2",
    "rich",
}
RIVALS = {"flashspec", "llama_cpp"}
CLOCKS_AND_CHANCE = {"time", "random", "datetime", "secrets"}


def modules() -> list[Path]:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [*files, ROOT / "main.py"]


def imported(path: Path) -> set[str]:
    """Dotted names of everything `path` imports at run time, at any depth of nesting.

    Imports under ``if TYPE_CHECKING`` do not count: they never run.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def within(name: str, *allowed: str) -> bool:
    return any(name == each or name.startswith(each + ".") for each in allowed)


def top(name: str) -> str:
    return name.split(".")[0]


def may_import(path: Path, name: str) -> bool:
    """Whether the module at `path` may import `name` (the table of the design)."""
    relative = path.relative_to(ROOT)
    package = relative.parts[0]
    root = top(name)
    if root == "main":
        return False
    if package == "main.py":
        return True
    if root == "pyglet":
        return relative.as_posix() == "visualizer/window.py"
    if root == "imgui_bundle":
        return within(relative.as_posix().replace("/", "."), "visualizer.ui") or (
            relative.as_posix() == "visualizer/render/imgui_pass.py"
        )
    if root in RIVALS:
        return relative.as_posix() == "engine/bench/rivals.py"
    if root == "moderngl":
        return relative.parts[:2] == ("visualizer", "render")
    standard = root in sys.stdlib_module_names
    if package == "engine":
        if relative.stem in STDLIB_ENGINE and len(relative.parts) == 2:
            return standard or within(name, *(f"engine.{each}" for each in STDLIB_ENGINE))
        return standard or root == "engine" or root in ENGINE_LIBRARIES
    pure = package == "scenes" or relative.parts[:2] == ("visualizer", "stage")
    if pure:
        mine = ("visualizer.stage", "engine.trace", "engine.stats", "engine.families")
        if package == "scenes" and relative.stem == "__init__":
            mine = (*mine, "scenes")
        return (standard and root not in CLOCKS_AND_CHANCE) or within(name, "numpy", *mine)
    if relative.parts[:2] == ("visualizer", "render"):
        return standard or within(name, "numpy", "PIL", "visualizer.stage", "visualizer.render")
    engine_side = tuple(f"engine.{each}" for each in STDLIB_ENGINE)
    return standard or within(
        name, "numpy", "PIL", "av", "platformdirs", "visualizer", *engine_side
    )


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_table(path: Path) -> None:
    wrong = sorted(name for name in imported(path) if not may_import(path, name))
    assert not wrong, f"{path.relative_to(ROOT)} may not import {wrong}"


def test_the_import_rule_catches_a_breach() -> None:
    stage = ROOT / "visualizer" / "stage" / "layout.py"
    for name in ("torch", "moderngl", "time", "engine.decode", "pyglet.window", "scenes"):
        assert not may_import(stage, name)
    assert not may_import(ROOT / "engine" / "decode.py", "visualizer.app")
    assert not may_import(ROOT / "engine" / "client.py", "engine.decode")
    assert not may_import(ROOT / "visualizer" / "app.py", "torch")
    assert not may_import(ROOT / "visualizer" / "app.py", "scenes.full_loop")
    assert may_import(ROOT / "scenes" / "full_loop.py", "visualizer.stage.timeline")


@pytest.mark.parametrize(
    ("start", "never"),
    [
        (
            "import scenes, scenes.full_loop",
            {"torch", "moderngl", "pyglet", "imgui_bundle", "transformers", "PIL"},
        ),
        (
            "import visualizer.app",
            {"torch", "pyglet", "transformers", "numba", "scenes"},
        ),
        (
            "import engine.client, engine.codec, engine.stats",
            {"torch", "numpy", "transformers", "numba"},
        ),
        (
            "import sys; sys.argv = ['main.py', '--help']; import main\n"
            "try: main.main()\nexcept SystemExit: pass",
            {"torch", "numpy", "moderngl", "pyglet", "imgui_bundle", "transformers", "numba"},
        ),
    ],
    ids=["scenes", "app", "client", "--help"],
)
def test_nothing_heavy_comes_in_indirectly(start: str, never: set[str]) -> None:
    code = (
        f"{start}\nimport sys\nprint('LOADED', *sorted({{m.split('.')[0] for m in sys.modules}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.rsplit("LOADED", 1)[1].split())
    assert not loaded & never


def test_shaders_live_in_files() -> None:
    guilty = [path for path in modules() if "#version" in path.read_text(encoding="utf-8")]
    assert not guilty, "GLSL belongs in assets/shaders"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_can_be_held_in_the_head(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES_PER_MODULE


def test_the_papers_letters_are_no_names() -> None:
    """p and q mean target and draft in one paper and the reverse in the next."""
    guilty = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = getattr(node, "arg", None) or getattr(node, "id", None)
            if named in ("p", "q"):
                guilty.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', '?')}")
    assert not guilty


def test_events_are_frozen_slotted_and_resolvable() -> None:
    events = [c for c in vars(trace).values() if dataclasses.is_dataclass(c)]
    assert events
    for cls in events:
        assert cls.__dataclass_params__.frozen, cls
        assert "__slots__" in vars(cls), cls
        assert typing.get_type_hints(cls)
    assert codec.decode(codec.encode(trace.Rewind(0, trace.Settings()))) == trace.Rewind(
        0, trace.Settings()
    )
