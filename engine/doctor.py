"""What of the engine works on this machine, what is missing, and the exact fix.

Every library is tried in a process of its own, so that one which crashes or hangs is a line
of the report. The visualizer's half is in `visualizer.doctor`; both give `Check`s.

Knows how to look, never how to mend. Standard library only.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

State = Literal["works", "missing", "note"]

_PROBE_SECONDS = 120.0  # a first import of torch from a cold disk is slow


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report. `fix` is what to type or do; empty when nothing is wrong."""

    name: str
    state: State
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a snippet printed as JSON in a process of its own, or why there is nothing."""

    found: dict[str, Any] | None
    problem: str = ""


def probe(snippet: str, seconds: float = _PROBE_SECONDS, **environment: str) -> Probe:
    """Run `snippet`, which prints one JSON object as its last line. Never raises."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", snippet],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env=os.environ | environment,
        )
    except subprocess.TimeoutExpired:
        return Probe(None, f"no answer within {seconds:.0f} s")
    except OSError as error:
        return Probe(None, str(error))
    if done.returncode == 0:
        try:
            return Probe(json.loads(done.stdout.strip().splitlines()[-1]))
        except (IndexError, ValueError):
            return Probe(None, "the check gave no result")
    if done.returncode < 0:
        return Probe(None, f"the check itself crashed (signal {-done.returncode})")
    words = done.stderr.strip().splitlines()
    return Probe(None, words[-1] if words else f"the check ended with code {done.returncode}")


def checks(cache: Path, model: Path | None, runs: Path) -> list[Check]:
    """The engine's half. `model` is the converted target if there is one, else None."""
    return [
        _python(),
        _processor(),
        _torch(),
        _kernels(),
        _libraries(),
        _model(cache, model),
        _runs(runs),
    ]


def _python() -> Check:
    detail = f"{platform.python_version()} ({sys.executable}), {platform.platform()}"
    return Check("Python", "works", detail)


def _processor() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    words = [platform.machine(), f"{cores} cores for this program"]
    if (memory := _memory_bytes()) is not None:
        words.append(f"{memory / 2**30:.1f} GiB memory")
    return Check("Processor", "works", ", ".join(words))


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


_TORCH = """
import json, torch
print(json.dumps({
    "version": torch.__version__,
    "cuda_build": torch.version.cuda,
    "cuda": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    "mps": torch.backends.mps.is_available(),
    "capability": torch.backends.cpu.get_cpu_capability(),
}))
"""


def _torch() -> Check:
    name, install = "PyTorch", "python -m pip install -r requirements.txt"
    seen = probe(_TORCH)
    if seen.found is None:
        if "libcu" in seen.problem:
            install = f"{install}  (a CUDA library is missing: {seen.problem})"
        if "fbgemm" in seen.problem or "WinError 126" in seen.problem:
            install = "install Microsoft's Visual C++ runtime (x64), then run this again"
        return Check(name, "missing", seen.problem, install)
    found = seen.found
    build = f"CUDA {found['cuda_build']} build" if found["cuda_build"] else "CPU build"
    detail = f"{found['version']}, {build}, {found['capability']}"
    if found["cuda"]:
        return Check(name, "works", f"{detail}; runs on {', '.join(found['cuda'])}")
    if found["mps"]:
        return Check(name, "works", f"{detail}; runs on Apple's GPU (MPS)")
    if shutil.which("nvidia-smi"):
        cure = "install the CUDA build of torch 2.13.0: see https://pytorch.org/get-started"
        return Check(name, "note", f"{detail}; an NVIDIA driver is here but torch has no GPU", cure)
    return Check(name, "works", f"{detail}; runs on the CPU")


_KERNELS = """
import json, numba, numpy
@numba.njit
def total(row):
    return row.sum()
assert total(numpy.ones(4, numpy.float32)) == 4
print(json.dumps({"numba": numba.__version__, "cpu": numba.core.codegen.ll.get_host_cpu_name()}))
"""


def _kernels() -> Check:
    seen = probe(_KERNELS)
    if seen.found is None:
        cure = "python -m pip install -r requirements.txt  (until then plain torch is used)"
        return Check("CPU kernels", "note", f"numba does not work: {seen.problem}", cure)
    found = seen.found
    detail = f"numba {found['numba']} compiles for {found['cpu']}; float32 passes are exact"
    return Check("CPU kernels", "works", detail)


_LIBRARIES = """
import json, tokenizers, safetensors
print(json.dumps({"tokenizers": tokenizers.__version__, "safetensors": safetensors.__version__}))
"""


def _libraries() -> Check:
    seen = probe(_LIBRARIES)
    if seen.found is None:
        cure = "python -m pip install -r requirements.txt"
        return Check("Model libraries", "missing", seen.problem, cure)
    return Check("Model libraries", "works", ", ".join(f"{k} {v}" for k, v in seen.found.items()))


def _model(cache: Path, model: Path | None) -> Check:
    free = f"{free_bytes(cache) / 1e9:.1f} GB free"
    if model is None:
        return Check("Model", "missing", f"not in {cache} ({free})", "python main.py fetch")
    return Check("Model", "works", f"{model} ({size(model) / 1e6:.0f} MB; {free})")


def _runs(runs: Path) -> Check:
    if not runs.is_dir():
        return Check("Saved runs", "works", f"none yet; they go to {runs}")
    count = sum(1 for _ in runs.glob("*.jsonl"))
    return Check("Saved runs", "works", f"{count} in {runs} ({size(runs) / 1e6:.0f} MB)")


def size(folder: Path) -> int:
    """Bytes of all files under `folder`."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def free_bytes(folder: Path) -> int:
    """Bytes free on the volume that `folder` is or would be on."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def as_json(found: list[Check]) -> str:
    """The checks as one JSON object, by name."""
    return json.dumps({check.name: asdict(check) for check in found}, indent=2)


def as_text(found: list[Check]) -> str:
    """The checks as text, fixes under what needs them."""
    marks = {"works": "ok     ", "missing": "MISSING", "note": "note   "}
    width = max(len(check.name) for check in found)
    lines = []
    for check in found:
        lines.append(f"{marks[check.state]}  {check.name:<{width}}  {check.detail}")
        if check.fix:
            lines.append(f"{'':7}  {'':<{width}}  fix: {check.fix}")
    return "\n".join(lines)
