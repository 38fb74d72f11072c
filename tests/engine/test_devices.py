"""The choice of a device: what works is taken, what does not becomes a notice."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import saved_model
import torch

from engine import assembly, devices
from engine.config import EngineConfig
from engine.devices import DeviceError, choose
from engine.gguf_model import NoBlocksError
from engine.requests import Start
from engine.trace import EngineState, Settings


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A machine of our own making: which devices are there, and what their smoke test gives."""
    made: dict[str, object] = {"cuda": None, "mps": None}
    right = devices.smoke_logits("cpu", torch.float32)

    def smoke(name: str, dtype: torch.dtype) -> torch.Tensor:
        found = right if name == "cpu" else made[name]
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, torch.Tensor)
        return found

    made["right"] = right
    monkeypatch.setattr(devices, "is_present", lambda name: made[name] is not None)
    monkeypatch.setattr(devices, "smoke_logits", smoke)
    return made


def test_cuda_then_mps_then_the_cpu(machine: dict[str, object]) -> None:
    assert choose().name == "cpu"
    assert choose().notice == ""
    machine["mps"] = machine["right"]
    assert choose().name == "mps"
    machine["cuda"] = machine["right"]
    assert choose().name == "cuda"
    assert choose("mps").name == "mps"
    assert choose("cpu").name == "cpu"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (NotImplementedError("aten::foo is not there\nand so on"), "aten::foo is not there"),
        (RuntimeError("out of memory"), "out of memory"),
        ("shifted", "off by"),
        ("nan", "off by nan"),
    ],
)
def test_a_device_that_computes_wrongly_is_left_with_one_notice(
    machine: dict[str, object], broken: object, said: str
) -> None:
    right = machine["right"]
    assert isinstance(right, torch.Tensor)
    wrong = {"shifted": right + 1, "nan": right * torch.nan}
    machine["mps"] = wrong.get(broken, broken) if isinstance(broken, str) else broken
    chosen = choose()
    assert chosen.name == "cpu"
    assert said in chosen.notice
    assert chosen.notice.count("\n") == 0


def test_asking_for_what_is_not_there_is_a_notice(machine: dict[str, object]) -> None:
    chosen = choose("cuda")
    assert chosen.name == "cpu"
    assert chosen.notice == "cuda cannot be used (there is none), so the CPU is."


def test_precision_and_threads(machine: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose().dtype_name == "float32"
    assert choose(dtype="bfloat16").dtype == torch.bfloat16
    monkeypatch.setattr(devices, "usable_cores", lambda: 4)
    assert (choose().threads, choose(beside_window=True).threads, choose(threads=7).threads) == (
        4,
        3,
        7,
    )
    monkeypatch.setattr(devices, "usable_cores", lambda: 1)
    assert choose(beside_window=True).threads == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_an_engine_computes_with_the_threads_asked_for_and_no_more(
    tmp_path: Path, threads: int
) -> None:
    before, torchs = threading.active_count(), torch.get_num_threads()
    states: list[EngineState] = []
    folder = saved_model.save(tmp_path / "tiny")
    engine = assembly.open_engine(EngineConfig(target=folder, threads=threads), states.append)
    list(engine.begin(Start("ab", False, Settings(drafter="n-gram"), max_new_tokens=4)).rounds())
    helpers, torch_now = threading.active_count() - before, torch.get_num_threads()
    torch.set_num_threads(torchs)
    assert engine.machine.threads == threads
    assert helpers == threads - 1, "the caller is one of the threads"
    assert torch_now == 1, "torch has no threads of its own beside them"
    details = [state.detail for state in states]
    at = details.index("Preparing the kernels")
    assert details[at + 1].startswith("Computing on cpu with numba rows"), "said before, not after"


def test_without_numba_torch_has_the_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly.kernels, "_trouble", lambda *_: "it is not there")
    torchs = torch.get_num_threads()
    states: list[EngineState] = []
    options = EngineConfig(target=saved_model.save(tmp_path / "tiny"), threads=2)
    engine = assembly.open_engine(options, states.append)
    threads = torch.get_num_threads()
    torch.set_num_threads(torchs)
    assert threads == 2
    assert "numba does not work here: it is not there" in engine.machine.kernel
    assert any("it is not there" in state.detail for state in states)


def test_quantised_weights_are_the_cpu_s_and_named(tmp_path: Path) -> None:
    folder = saved_model.save(tmp_path / "tiny")
    for options in (
        EngineConfig(target=folder, weights="int8", device="cuda"),
        EngineConfig(target=folder, weights="int8", dtype="bfloat16"),
    ):
        with pytest.raises(DeviceError, match="int8 weights run on the CPU in float32"):
            assembly.open_engine(options, lambda state: None)
    with pytest.raises(NoBlocksError, match="keeps no q4_1 weights"):
        assembly.open_engine(EngineConfig(target=folder, weights="q4_1"), lambda state: None)
    engine = assembly.open_engine(
        EngineConfig(target=folder, threads=1, weights="int8"), lambda state: None
    )
    assert engine.machine.dtype == "int8"
    assert "copy-8" not in engine.drafters, "a copy guesses only below the target's own bits"
    assert "copy-4" in engine.drafters


def test_a_copy_is_made_before_the_run_and_announced(tmp_path: Path) -> None:
    folder = saved_model.save(tmp_path / "tiny")
    states: list[EngineState] = []
    engine = assembly.open_engine(EngineConfig(target=folder, threads=1), states.append)
    run = engine.begin(Start("ab", False, Settings(drafter="copy-4"), max_new_tokens=4))
    assert states[-1] == EngineState("measuring", "Rounding the target to 4 bits")
    told = len(states)
    list(run.rounds())
    assert len(states) == told


def test_unknown_names_are_refused_in_one_sentence() -> None:
    with pytest.raises(DeviceError, match="no device 'tpu'"):
        choose("tpu")
    with pytest.raises(DeviceError, match="no precision 'float8'"):
        choose(dtype="float8")


def test_the_smoke_test_is_the_same_each_time() -> None:
    assert devices.smoke_logits("cpu", torch.float32).equal(
        devices.smoke_logits("cpu", torch.float32)
    )
    assert devices.trouble("cuda", torch.float32) is None or not torch.cuda.is_available()
