"""The preset that suits a machine is found by measuring, and found once."""

import pytest

from visualizer.render.quality import EFFORTS, FAST, HARDWARE, SAMPLES, SLOW, Governor
from visualizer.stage.view import QUALITIES, Quality


def settled(start: Quality, takes: dict[str, float], frames: int = 40) -> list[Quality]:
    """Presets in the order in which a machine that `takes` so long for each goes through them."""
    governor = Governor(start)
    seen: list[Quality] = [start]
    for _ in range(frames * SAMPLES):
        now = governor.after(takes[governor.quality])
        if now != seen[-1]:
            seen.append(now)
    return seen


def test_every_preset_has_its_effort() -> None:
    assert set(EFFORTS) == set(QUALITIES)
    assert set(HARDWARE) < set(QUALITIES)


@pytest.mark.parametrize(
    ("start", "low", "path"),
    [
        ("high", 0.0002, ["high", "ultra"]),
        ("high", 0.002, ["high"]),
        ("high", 0.004, ["high", "medium"]),
        ("high", 0.050, ["high", "medium", "low"]),
        ("medium", 0.0011, ["medium", "high"]),
    ],
)
def test_a_machine_settles(start: Quality, low: float, path: list[Quality]) -> None:
    takes = {"low": low, "medium": 2 * low, "high": 5 * low, "ultra": 12 * low}
    assert settled(start, takes) == path


def test_no_swinging_between_two_presets() -> None:
    """Even where one is fast and the next too slow: it is tried once."""
    takes = {"low": FAST / 4, "medium": FAST / 2, "high": SLOW * 2, "ultra": SLOW * 4}
    assert settled("low", takes) == ["low", "medium", "high", "medium"]


def test_the_cpu_keeps_its_own_preset() -> None:
    assert settled("software", {"software": 1.0}) == ["software"]


def test_one_slow_frame_is_no_reason() -> None:
    governor = Governor("high")
    for index in range(SAMPLES):
        governor.after(1.0 if index == 0 else 0.005)
    assert governor.quality == "high"
