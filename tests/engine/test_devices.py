"""The choice of a device: what works is taken, what does not becomes a notice."""

from __future__ import annotations

import pytest
import torch

from engine import devices
from engine.devices import DeviceError, choose


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
