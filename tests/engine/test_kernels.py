"""The compiled passes: right, equal to the bit at every width, and never lost for want of numba."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
import tiny
import torch
from filelock import FileLock
from torch import Tensor

from engine import kernels
from engine.llama import Cache, Kernel, LlamaConfig, Runner, Weights
from engine.lowbit import Codes, Width, copy_of
from tests.engine.trees import by_paths, grow, random_shape, rows_of

IDS = torch.randint(0, 64, (90,), generator=torch.Generator().manual_seed(2)).tolist()
WIDTHS = (*range(1, 18), 32)
LANED = tiny.weights(tiny.LANED, dtype=torch.float32)


PAIRED = tiny.weights(replace(tiny.LANED, mlp_size=80), dtype=torch.float32)
MATRICES = ("qkv", "output", "gate_up", "down", "head")


def coarse(config: LlamaConfig) -> Weights:
    return copy_of(tiny.weights(config, dtype=torch.float32), Width(4, 8))


def packed() -> Weights:
    return copy_of(PAIRED, Width(4, 16))


def blocks() -> Weights:
    """Weights as a GGUF file holds them: pairs, and bytes in the head, on scales of 16 bits."""

    def lowered(matrix: Codes) -> Codes:
        scales = matrix.scales.half().float()
        lows = torch.zeros_like(scales) if matrix.lows is None else matrix.lows * scales
        return Codes(matrix.values, scales, (lows + 0.01).half().float())

    return in_full(packed(), lowered)


def in_full(weights: Weights, form: Callable[[Codes], Tensor | Codes] = Codes.dense) -> Weights:
    """The same weights, each coded matrix in another form."""
    return replace(weights, **{name: form(getattr(weights, name)) for name in MATRICES})


@pytest.fixture(scope="module", params=[1, 2], ids=["1 thread", "2 threads"])
def rows(request: pytest.FixtureRequest) -> kernels.Kernels:
    chosen = kernels.choose("cpu", torch.float32, request.param)
    assert "numba" in chosen.name
    assert str(request.param) in chosen.name
    return chosen


FORMS = {
    "full": lambda: LANED, "codes": lambda: coarse(tiny.LANED), "packed": packed, "blocks": blocks,
}  # fmt: skip


@pytest.fixture(params=FORMS)
def weights(request: pytest.FixtureRequest) -> Weights:
    return FORMS[request.param]()


def test_results_are_those_of_torch(rows: kernels.Kernels, weights: Weights) -> None:
    mine, torchs = rows.runner(weights, 100), Runner(weights, 100)
    assert isinstance(mine.kernel, kernels.RowKernel)
    for count in (37, 5, 1, 1, 3):
        at = mine.length
        got = mine.forward(IDS[at : at + count])
        assert torch.allclose(got, torchs.forward(IDS[at : at + count]), atol=1e-4, rtol=1e-4)
    assert torch.allclose(mine.hidden, torchs.hidden, atol=1e-5, rtol=1e-4)
    rows_of = weights.embedding[IDS[:5]]
    fresh = rows.runner(weights, 100)
    by_row = fresh.kernel.hidden_of(rows_of, 0, fresh.cache)
    assert torch.equal(by_row, rows.runner(weights, 100).kernel.hidden(IDS[:5], 0, fresh.cache))
    for a, b in ((mine.cache.keys, torchs.cache.keys), (mine.cache.values, torchs.cache.values)):
        assert torch.allclose(a, b, atol=1e-5, rtol=1e-4)


def by_width(runner: Runner, width: int) -> Tensor:
    runner.rollback(0)
    return torch.cat([runner.forward(IDS[at : at + width]) for at in range(0, len(IDS), width)])


def test_a_row_is_the_same_bits_at_every_width(rows: kernels.Kernels, weights: Weights) -> None:
    runner = rows.runner(weights, 100)
    alone = by_width(runner, 1)
    keys = runner.cache.keys.clone()
    for width in WIDTHS:
        assert by_width(runner, width).equal(alone), f"logits differ in passes of {width} rows"
        assert runner.cache.keys.equal(keys), f"cache rows differ in passes of {width} rows"


@pytest.mark.parametrize("seed", range(4))
def test_a_branch_has_the_bits_it_would_have_as_the_text(
    rows: kernels.Kernels, weights: Weights, seed: int
) -> None:
    runner, straight = rows.runner(weights, 100), rows.runner(weights, 100)
    grow(runner, straight, 8, seed, torch.equal, 120)


def test_branches_wider_than_a_pass_are_cut_into_several(rows: kernels.Kernels) -> None:
    shape = random_shape(random.Random(3), 50)
    runner, straight = rows.runner(LANED, 100), rows.runner(LANED, 100)
    for each in (runner, straight):
        each.forward(IDS[:20])
    found = runner.forward(IDS[20:71], parents=rows_of(shape, 20))
    assert found.equal(by_paths(straight, IDS[20], IDS[21:71], shape)[0])


def test_blocks_give_the_very_bits_of_their_full_matrices(rows: kernels.Kernels) -> None:
    coded = blocks()
    assert isinstance(rows.runner(coded, 100).kernel, kernels.RowKernel)
    for width in (1, 3, 5, 9):
        assert by_width(rows.runner(coded, 100), width).equal(
            by_width(rows.runner(in_full(coded), 100), width)
        )
    moved = in_full(coded, lambda codes: Codes(codes.values, codes.scales, codes.parts[2] + 1e-4))
    assert not by_width(rows.runner(moved, 100), 5).equal(by_width(rows.runner(coded, 100), 5))


def test_packed_codes_give_the_very_bits_of_the_same_codes_in_bytes(rows: kernels.Kernels) -> None:
    coded = packed()
    bytewise = in_full(coded, lambda codes: Codes(codes.whole(), codes.scales))
    for width in (1, 2, 5, 9):
        assert by_width(rows.runner(coded, 100), width).equal(
            by_width(rows.runner(bytewise, 100), width)
        )


def test_threads_change_nothing(weights: Weights) -> None:
    one, three = (kernels.choose("cpu", torch.float32, n).runner(weights, 100) for n in (1, 3))
    assert by_width(one, 5).equal(by_width(three, 5))


def test_rollback_and_a_second_try_are_exact(rows: kernels.Kernels) -> None:
    runner = rows.runner(LANED, 100)
    runner.forward(IDS[:20])
    first = runner.forward(IDS[20:25])
    runner.rollback(20)
    runner.forward([7, 7, 7, 7, 7, 7])
    runner.rollback(20)
    assert runner.forward(IDS[20:25]).equal(first)


def test_first_layers_and_reduced_heads_run_compiled(rows: kernels.Kernels) -> None:
    owner = rows.runner(LANED, 100)
    owner.forward(IDS[:10])
    cut = owner.first_layers(2)
    assert isinstance(cut.kernel, kernels.RowKernel)
    cut.adopt(10)
    alone = rows.runner(LANED.first_layers(2), 100)
    alone.forward(IDS[:10])
    assert cut.forward(IDS[10:13]).equal(alone.forward(IDS[10:13]))
    ids = torch.tensor([3, 64, 7, 119, 11])
    reduced = replace(LANED, head=LANED.head[ids].contiguous(), vocab_ids=ids)
    got, whole = (rows.runner(w, 100).forward(IDS[:4]) for w in (reduced, LANED))
    assert got[:, ids].equal(whole[:, ids])


def test_results_stay_after_the_next_pass(rows: kernels.Kernels) -> None:
    runner = rows.runner(LANED, 100)
    first = runner.forward(IDS[:3])
    kept, hidden = first.clone(), runner.hidden[:3].clone()
    runner.forward(IDS[3:6])
    assert first.equal(kept)
    assert runner.hidden[:3].equal(hidden)


@pytest.mark.parametrize("x_rows", range(1, 12))
@pytest.mark.parametrize("height", [1, 2, 7, 64])
def test_products_are_those_of_torch(x_rows: int, height: int) -> None:
    rowpass = kernels._rowpass()
    random = np.random.default_rng(x_rows * 100 + height)
    weight = random.standard_normal((2, height, 24), np.float32)
    x = random.standard_normal((x_rows, 24), np.float32)
    out = np.zeros((x_rows, height), np.float32)
    rowpass.head_pass(0, *kernels.Team(1).counters(1), (weight,), 1, x, out)
    expected = torch.nn.functional.linear(torch.from_numpy(x), torch.from_numpy(weight[1]))
    assert np.allclose(out, expected.numpy(), atol=1e-5)


def test_what_the_passes_do_not_cover_runs_in_torch() -> None:
    rows = kernels.choose("cpu", torch.float32, 1)
    odd = replace(tiny.CONFIG, mlp_size=36)
    for each in (tiny.weights(odd, dtype=torch.float32), tiny.weights()):
        assert rows.runner(each, 64).kernel.name == "torch"
    grouped = copy_of(LANED, Width(4, 4))
    assert rows.runner(grouped, 64).kernel.name == "torch"
    assert kernels.choose("cpu", torch.float64, 2).name == "torch"
    assert kernels.choose("mps", torch.float32, 2).name == "torch"
    assert kernels.choose("cuda", torch.float32, 2).team is None


def test_without_numba_torch_does_it_and_the_name_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels._rowpass.cache_clear()
    monkeypatch.setitem(sys.modules, "numba", None)
    chosen = kernels.choose("cpu", torch.float32, 2)
    monkeypatch.undo()
    kernels._rowpass.cache_clear()
    assert chosen.name.startswith("torch (numba does not work here")
    assert chosen.runner(LANED, 64).forward(IDS[:3]).isfinite().all()


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        (lambda self, ids, *_: torch.ones(len(ids), 32), "its results are off by"),
        (lambda self, *_: 1 / 0, "division by zero"),
    ],
)
def test_passes_that_do_not_compute_what_torch_does_are_not_used(
    monkeypatch: pytest.MonkeyPatch, hidden: object, said: str
) -> None:
    monkeypatch.setattr(kernels.RowKernel, "hidden", hidden)
    chosen = kernels.choose("cpu", torch.float32, 2)
    assert (chosen.team, said in chosen.name) == (None, True)


def test_a_long_complaint_of_numba_is_cut_to_its_first_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("Failed in nopython mode pipeline\nand so on" + "\nfor pages" * 99)

    monkeypatch.setattr(kernels.RowKernel, "hidden", fail)
    expected = "torch (numba does not work here: Failed in nopython mode pipeline)"
    assert kernels.choose("cpu", torch.float32, 2).name == expected


def test_compiled_code_is_kept_by_the_state_of_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERIFYBOX_CACHE", str(tmp_path))
    assert kernels._code_folder().parent == tmp_path / "compiled"
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("VERIFYBOX_CACHE", str(tmp_path / "file"))
    assert kernels._code_folder().is_dir()


def test_a_form_of_weights_is_compiled_by_one_process_at_a_time(
    rows: kernels.Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_prepared", set())
    made = threading.Event()

    def make() -> None:
        rows.kernel(LANED, 16)
        made.set()

    with FileLock(Path(numba.config.CACHE_DIR) / "lock"):  # as another process would hold it
        maker = threading.Thread(target=make)
        maker.start()
        assert not made.wait(0.5)
    assert made.wait(60)
    maker.join()

    with FileLock(Path(numba.config.CACHE_DIR) / "lock"):
        rows.kernel(LANED, 16)  # a form this process has waits for nobody


def test_a_team_does_its_job_on_every_thread() -> None:
    team = kernels.Team(3)
    barrier = threading.Barrier(3, timeout=10)
    seen = []

    def job(number: int) -> None:
        seen.append(number)
        barrier.wait()

    for _ in range(5):
        team.run(job)
    assert sorted(seen) == sorted([0, 1, 2] * 5)


def test_a_program_ends_once_the_helpers_of_its_teams_are_done() -> None:
    """One still on its way back from compiled code would end the process with a crash."""
    program = """
import sys, time
from engine.kernels import Team
def job(number):
    if number:
        time.sleep(0.3)
        print("helped", flush=True)
team = Team(2)
team.run(job)
if "left" in sys.argv:
    import atexit
    atexit.unregister(team.dismiss)
"""
    root = Path(__file__).parent.parent.parent

    def told(*words: str) -> str:
        line = [sys.executable, "-c", program, *words]
        return subprocess.run(line, cwd=root, capture_output=True, text=True, check=True).stdout

    assert told() == "helped\n"
    assert told("left") == ""  # the twin: nobody waits


def test_a_dismissed_team_leaves_the_work_to_its_caller() -> None:
    team = kernels.Team(3)
    team.dismiss()
    seen: list[int] = []
    team.run(seen.append)
    assert seen == [0]


def test_a_helper_that_never_comes_delays_nothing() -> None:
    """A pass is over when its tasks are done, whoever does them."""

    class Alone(kernels.Team):
        def run(self, job: object) -> None:
            job(0)  # type: ignore[operator]

    kernel: Kernel = kernels.RowKernel(LANED, 64, Alone(2))
    cache = Cache(LANED.config, 64, torch.float32, "cpu")
    straight = kernels.choose("cpu", torch.float32, 1).runner(LANED, 64)
    assert kernel.logits(kernel.hidden(IDS[:5], 0, cache)).equal(straight.forward(IDS[:5]))


def test_codes_run_as_codes(rows: kernels.Kernels) -> None:
    kernel = rows.runner(coarse(tiny.LANED), 64).kernel
    assert isinstance(kernel, kernels.RowKernel)
    for values, scales in (*kernel._matrices, kernel._head):
        assert (values.dtype, scales.dtype) == (np.int8, np.float32)
    kernel = rows.runner(packed(), 64).kernel
    assert isinstance(kernel, kernels.RowKernel)
    for values, _, lows in kernel._matrices:
        assert (values.dtype, lows.dtype) == (np.uint8, np.int8)


def test_the_real_target_writes_the_same_at_every_width(target_folder: Path) -> None:
    runner = kernels.choose("cpu", torch.float32, 1).runner(Weights.load(target_folder), 128)
    prompt = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511]
    logits = runner.forward(prompt)
    for width in (1, 5):
        runner.rollback(0)
        parts = [runner.forward(prompt[at : at + width]) for at in range(0, len(prompt), width)]
        assert torch.cat(parts).equal(logits)


def test_the_real_target_gives_a_branch_the_bits_of_the_text(target_folder: Path) -> None:
    weights = Weights.load(target_folder)
    team = kernels.choose("cpu", torch.float32, 1)
    runner, straight = team.runner(weights, 128), team.runner(weights, 128)
    prompt = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511]
    for each in (runner, straight):
        each.forward(prompt)
    shape = (-1, -1, 0, 0, 1, 3)
    tree = runner.forward([30, 28, 284, 338, 260, 28, 30], parents=rows_of(shape, len(prompt)))
    chains = by_paths(straight, 30, [28, 284, 338, 260, 28, 30], shape)
    assert tree.equal(chains[0])
    assert runner.hidden[len(prompt) : runner.length].equal(chains[1])
