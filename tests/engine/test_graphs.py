"""Recorded passes: right after any acceptance, and never a replay of an old value.

There is no GPU here, so a `Tape` records instead: every tensor operation of a pass, with each
Python value as it was, to be run again on the same buffers. That is what a CUDA graph keeps.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from engine import graphs, kernels
from engine.graphs import ROWS, GraphKernel, Recorder, eager
from engine.llama import LlamaConfig, Runner, Weights
from tests.engine import kit
from tests.engine.kit import TINY, audit, header, session
from tests.engine.runs import GREEDY, ORACLE, PROMPT
from tests.engine.test_decode import chaos_script
from tests.engine.trees import grow

IDS = torch.randint(0, 64, (120,), generator=torch.Generator().manual_seed(5)).tolist()


class Tape(TorchDispatchMode):
    """A recording of tensor operations, replayed with the Python values of the first time."""

    def __init__(self, work: Callable[[], Tensor]) -> None:
        super().__init__()
        self._calls: list[tuple[Any, Any, Any, Any]] = []
        with self:
            self._out = work()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("the host waits for the device while a graph is recorded")
        out = func(*args, **(kwargs or {}))
        self._calls.append((func, args, kwargs or {}, out))
        return out

    def __call__(self) -> Tensor:
        fresh: dict[int, Tensor] = {}

        def renewed(tensor: Tensor) -> Tensor:
            return fresh.get(id(tensor), tensor)

        for func, args, kwargs, before in self._calls:
            args, kwargs = tree_map_only(Tensor, renewed, (args, kwargs))
            after = func(*args, **kwargs)
            fresh.update(zip(map(id, tree_leaves(before)), tree_leaves(after), strict=True))
        return self._out.copy_(renewed(self._out))  # a graph's result lies where it always did


def runner_of(
    weights: Weights,
    context: int = 100,
    record: Recorder = Tape,
    same_bits: bool = False,
    kind: type[GraphKernel] = GraphKernel,
) -> Runner:
    kernel = kind(weights, context, record, same_bits)
    return Runner(weights, context, kernel, kernel.new_cache())


def rounds(runner: Runner, straight: Runner, count: int, seed: int = 0) -> list[float]:
    """Feed both alike, K cycling 1 to 6, any number accepted; how far apart their logits are."""
    chance = random.Random(seed)
    gaps = []
    for number in range(count):
        k = number % 6 + 1
        at = runner.length
        ids = IDS[at : at + 1 + k]
        ids[1:] = [token if chance.random() < 0.7 else (token + 1) % 64 for token in ids[1:]]
        found = runner.forward(ids)
        gaps.append(float((found - straight.forward(ids)).abs().max()))
        accepted = next((i for i in range(k) if ids[1 + i] != IDS[at + 1 + i]), k)
        for each in (runner, straight):
            each.rollback(at + 1 + accepted)
    return gaps


@pytest.mark.parametrize("same_bits", [False, True])
@pytest.mark.parametrize("record", [eager, Tape])
@pytest.mark.parametrize("seed", range(4))
def test_logits_and_cache_are_those_of_plain_passes_after_any_acceptance(record, same_bits, seed):
    runner, straight = runner_of(TINY, 120, record, same_bits), Runner(TINY, 120)
    for each in (runner, straight):
        each.forward(IDS[:5], last_only=True)
    assert max(rounds(runner, straight, 20, seed)) < 1e-11
    audit(runner, IDS[: runner.length])
    assert (runner.hidden - straight.hidden)[: runner.length].abs().max() < 1e-11


@pytest.mark.parametrize("same_bits", [False, True])
@pytest.mark.parametrize("record", [eager, Tape])
@pytest.mark.parametrize("seed", range(6))
def test_branches_are_those_of_plain_passes(record, same_bits, seed):
    runner, straight = runner_of(TINY, 120, record, same_bits), Runner(TINY, 120)
    audit(runner, grow(runner, straight, 6, seed, close))
    assert runner.kernel.replays >= 7
    assert max(rounds(runner, straight, 3)) < 1e-11  # chains again


class KeepsLooking(GraphKernel):
    """The broken twin: a chain sees what the tree before it saw."""

    def _look(self, branches, start):
        if branches is not None:
            super()._look(branches, start)


@pytest.mark.parametrize("record", [eager, Tape])
def test_a_chain_that_sees_as_the_tree_before_it_is_caught(record):
    runner, straight = runner_of(TINY, 120, record, kind=KeepsLooking), Runner(TINY, 120)
    with pytest.raises(AssertionError):
        grow(runner, straight, 6, 0, close)


def close(mine, theirs):
    return bool((mine - theirs).abs().max() < 1e-10)


def test_rows_may_be_given_in_the_place_of_ids_and_ids_as_a_tensor():
    runner, straight = runner_of(TINY), Runner(TINY, 100)
    expected = straight.kernel.hidden(IDS[:4], 0, straight.cache)
    for given in (IDS[:4], torch.tensor(IDS[:4])):
        assert (runner.kernel.hidden(given, 0, runner.cache) - expected).abs().max() < 1e-11
    rows = TINY.embedding[IDS[:4]]
    assert (runner.kernel.hidden_of(rows, 0, runner.cache) - expected).abs().max() < 1e-11
    assert runner.kernel.replays == 3


def test_single_precision_and_odd_sizes_agree_too():
    weights = tiny.weights(tiny.LANED, dtype=torch.float32)
    runner, straight = runner_of(weights), Runner(weights, 100)
    for count in (37, 1, 5, 1, 17, 18, 2):
        ids = IDS[runner.length : runner.length + count]
        torch.testing.assert_close(runner.forward(ids), straight.forward(ids), rtol=1e-4, atol=1e-4)


class FrozenPosition(GraphKernel):
    """The broken twin: where a pass begins is a Python number, not a buffer."""

    def hidden(self, ids, start, cache, branches=None):
        self.at = start
        return super().hidden(ids, start, cache, branches)

    def _pass(self, width, window, cache):
        self._start.fill_(self.at)
        return super()._pass(width, window, cache)


class FrozenRows(GraphKernel):
    """The broken twin: a recording keeps the rows it was made with."""

    def _pass(self, width, window, cache):
        self._rows.copy_(torch.from_numpy(self._rows.numpy().copy()))
        return super()._pass(width, window, cache)


@pytest.mark.parametrize("twin", [FrozenPosition, FrozenRows])
def test_a_pass_that_replays_an_old_value_is_caught(twin):
    """B08: unrecorded it is right, so only a replay can show the fault."""
    for record, fault in ((eager, False), (Tape, True)):
        runner, straight = runner_of(TINY, 120, record, kind=twin), Runner(TINY, 120)
        assert (max(rounds(runner, straight, 8)) > 1e-3) == fault


def test_one_pass_a_round_is_replayed_and_nothing_moves():
    """B06: the same memory, the same few recordings, and as many replays as passes."""
    runner, straight = runner_of(TINY, 120), Runner(TINY, 120)
    places = runner.cache.keys.data_ptr(), runner.cache.values.data_ptr()
    rounds(runner, straight, 20)
    assert runner.kernel.replays == 20
    assert set(runner.kernel._recorded) == {(ROWS, runner.cache.keys.shape[2])}
    runner.forward(IDS[:1])
    assert {width for width, _ in runner.kernel._recorded} == {1, ROWS}
    assert places == (runner.cache.keys.data_ptr(), runner.cache.values.data_ptr())


def test_in_exact_mode_every_pass_and_every_head_has_one_width():
    """And so a row has the same bits whatever is proposed after it, or nothing.

    That it has them wherever in a pass it stands is for the device check to measure: it holds for
    the products of a GPU, not for those of a CPU.
    """
    runner = runner_of(tiny.weights(dtype=torch.float32), same_bits=True)
    widths: list[int] = []
    logits = runner.kernel._eager.logits
    runner.kernel._eager.logits = lambda hidden: widths.append(len(hidden)) or logits(hidden)
    whole = runner.forward(IDS[:ROWS])
    for width in range(1, ROWS):
        runner.rollback(0)
        assert runner.forward(IDS[:width]).equal(whole[:width])
        runner.rollback(0)
        assert runner.forward(IDS[:width], last_only=True).shape == (1, 64)
    assert set(widths) == {ROWS}
    assert {width for width, _ in runner.kernel._recorded} == {ROWS}


def test_results_stay_after_the_next_pass():
    runner = runner_of(TINY)
    first, hidden = runner.forward(IDS[:3]), runner.kernel.hidden(IDS[3:5], 3, runner.cache)
    kept = first.clone(), hidden.clone()
    runner.forward(IDS[7:10])
    assert first.equal(kept[0])
    assert hidden.equal(kept[1])


def test_each_cache_is_written_by_recordings_of_its_own():
    first = runner_of(TINY)
    second = Runner(TINY, 100, first.kernel, first.kernel.new_cache())
    straight = Runner(TINY, 100)
    expected = straight.forward(IDS[:9])
    for at in range(0, 9, 3):
        for each in (first, second):
            found = each.forward(IDS[at : at + 3])
            assert (found - expected[at : at + 3]).abs().max() < 1e-11
    audit(first, IDS[:9])
    audit(second, IDS[:9])


def test_windows_grow_with_the_text_and_end_with_the_context(monkeypatch):
    monkeypatch.setattr(graphs, "SHORTEST", 16)
    runner, straight = runner_of(TINY, 120), Runner(TINY, 120)
    for at in range(0, 120, 3):
        found = runner.forward(IDS[at : at + 3])
        assert (found - straight.forward(IDS[at : at + 3])).abs().max() < 1e-11
    assert runner.length == runner.context == 120
    windows = sorted({window for _, window in runner.kernel._recorded})
    assert windows == [32, 64, 128, runner.cache.keys.shape[2]]
    assert graphs._windows(64) == (16, 32, 64)
    runner.rollback(119)
    straight.rollback(119)
    assert (runner.forward(IDS[119:]) - straight.forward(IDS[119:])).abs().max() < 1e-11


def test_a_cache_without_spare_rows_is_used_as_far_as_it_goes(monkeypatch):
    monkeypatch.setattr(graphs, "SHORTEST", 64)
    kernel = GraphKernel(TINY, 120, Tape)
    runner, straight = Runner(TINY, 120, kernel), Runner(TINY, 120)
    for at in range(0, 120, 5):
        found = runner.forward(IDS[at : at + 5])
        assert (found - straight.forward(IDS[at : at + 5])).abs().max() < 1e-11
    assert kernel.replays == len([at for at in range(0, 120, 5) if at + ROWS <= 64])
    assert not kernel.trouble


def test_recording_everything_at_once_leaves_nothing_for_a_round():
    made: list[object] = []

    def counting(work):
        made.append(work)
        return Tape(work)

    runner = kernels.Kernels("", record=counting).runner(tiny.weights(dtype=torch.float32), 100)
    before = len(made)
    straight = Runner(runner.weights, 100)
    assert max(rounds(runner, straight, 12)) < 1e-3
    runner.forward(IDS[:1])
    assert len(made) == before == 2


def test_first_layers_run_recorded_on_their_owner_s_rows():
    owner = runner_of(TINY)
    owner.forward(IDS[:10])
    cut, alone = owner.first_layers(1), Runner(TINY.first_layers(1), 100)
    assert isinstance(cut.kernel, GraphKernel)
    cut.adopt(10)
    alone.forward(IDS[:10])
    for count in (1, 3):
        ids = IDS[cut.length : cut.length + count]
        assert (cut.forward(ids) - alone.forward(ids)).abs().max() < 1e-11
    assert cut.kernel.replays == 2


def ticking() -> Callable[[], float]:
    """A clock without pauses, so that no pass is made to wake anybody."""
    ticks = itertools.count()
    return lambda: next(ticks) / 1000


@pytest.mark.parametrize("seed", range(6))
def test_a_whole_run_by_recorded_passes_is_the_target_s_own_text(seed):
    chance = random.Random(seed)
    target = runner_of(TINY, 128, same_bits=True)
    run = session(target, chaos_script(seed), header(PROMPT, GREEDY), now=ticking())
    while run.finished is None:
        run.rewind(run.made, replace(GREEDY, k=chance.randrange(1, 7)))
        run.advance()
    assert kit.committed(run) == ORACLE[:24]
    assert target.kernel.replays == run.made + 1  # the prompt is read in one


def failing(work: Callable[[], Tensor]) -> Callable[[], Tensor]:
    work()
    raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate …")


def test_where_nothing_can_be_recorded_plain_passes_go_on_and_the_name_says_why():
    runner, straight = runner_of(TINY, record=failing), Runner(TINY, 100)
    assert rounds(runner, straight, 6) == [0.0] * 6
    assert runner.kernel.replays == 0
    assert runner.kernel.name == "torch (CUDA graphs cannot be recorded: CUDA out of memory.)"
    assert runner.first_layers(1).kernel.name == "torch"
    chosen = kernels.Kernels("CUDA graphs, exact", record=failing)
    assert chosen.name_of(chosen.runner(TINY, 100)) == runner.kernel.name
    assert chosen.name_of(runner_of(TINY)) == "CUDA graphs, exact"


def test_the_choice_is_named_and_so_is_what_stands_in_its_way():
    exact = kernels.recorded("cpu", torch.float32, lambda: Tape)
    twice = "CUDA graphs, exact (of a tree, the branch that passes is checked twice)"
    assert (exact.name, exact.record) == (twice, Tape)
    assert kernels.recorded("cpu", torch.bfloat16, lambda: Tape).name == "CUDA graphs, fast"

    def too_old() -> Recorder:
        raise RuntimeError("the driver is too old\nand more")

    def wrong() -> Recorder:
        return lambda work: lambda: work() + 1

    for recorder, said in ((too_old, "the driver is too old"), (wrong, "its results are off by")):
        chosen = kernels.recorded("cpu", torch.float32, recorder)
        assert chosen.record is None
        assert chosen.name.startswith(f"torch (CUDA graphs do not work here: {said}")
        assert "\n" not in chosen.name


def test_a_drafter_s_passes_are_as_narrow_as_they_can_be():
    weights = tiny.weights(dtype=torch.float32)
    chosen = kernels.Kernels("", record=eager)
    widths = [
        {width for width, _ in chosen.runner(weights, 100, same_bits).kernel._recorded}
        for same_bits in (False, True)
    ]
    assert widths == [{1, ROWS}, {ROWS}]


def test_a_host_read_inside_a_pass_is_noticed():
    with pytest.raises(RuntimeError, match="host waits"):
        Tape(lambda: torch.ones(3) * float(torch.ones(3).sum()))


def test_grouped_heads_of_every_size_agree():
    shape: LlamaConfig
    for heads, kv_heads in ((4, 4), (4, 1), (6, 2)):
        shape = replace(tiny.CONFIG, heads=heads, kv_heads=kv_heads)
        weights = tiny.weights(shape)
        assert max(rounds(runner_of(weights), Runner(weights, 100), 6)) < 1e-11
