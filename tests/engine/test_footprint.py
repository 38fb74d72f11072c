"""What a drafter holds is counted once, as it lies in memory, and without what it borrows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from engine.footprint import Footprint, footprint
from engine.llama import Runner
from tests.engine import kit


@dataclass(slots=True)
class Held:
    parts: tuple[object, ...] = ()
    more: dict[str, object] = field(default_factory=dict)


Held.__module__ = "engine.test"


def test_tensors_and_arrays_count_in_bytes_wherever_they_lie() -> None:
    held = Held((torch.zeros(10, dtype=torch.float16), [np.zeros(3)]), {"a": torch.zeros(2)})
    assert footprint(held) == Footprint(weights=20 + 24 + 8, cache=0)


def test_what_is_shared_counts_once_and_a_view_not_at_all() -> None:
    table = torch.zeros(100)
    held = Held((table, table[10:20], table.numpy(), table.view(10, 10).T))
    assert footprint(held).weights == 400


def test_what_is_lent_does_not_count_but_what_goes_beyond_it_does() -> None:
    table = np.zeros(100, np.uint8)
    assert footprint(Held((table,)), [Held((table[:30],))]).weights == 70
    assert footprint(Held((table,)), [Held((table,))]) == Footprint(0, 0)


def test_methods_and_closures_lead_to_what_they_hold() -> None:
    table = torch.zeros(5)
    held = Held((table,))

    def reads() -> torch.Tensor:
        return table

    assert footprint(Held((reads,))).weights == 20
    assert footprint(Held((held.parts.index,))).weights == 20


def test_foreign_objects_are_left_alone() -> None:
    class Foreign:
        table = torch.zeros(5)

    assert footprint(Held((Foreign(), "text", 5, None))) == Footprint(0, 0)


def test_rows_of_a_cache_are_told_from_weights() -> None:
    weights = kit.tiny_weights()
    runner = Runner(weights, 16)
    of_weights = footprint(weights).weights
    cache = runner.cache.keys.nbytes + runner.cache.values.nbytes + runner.hidden.nbytes
    found = footprint(runner)
    assert found.cache == cache
    assert found.weights >= of_weights
    assert footprint(runner, [runner]) == Footprint(0, 0)
    part = runner.first_layers(1)
    assert footprint(part, [runner]).cache == part.hidden.nbytes, "the other rows are lent"
