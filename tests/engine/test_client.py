"""The client talks with a process that may misbehave, and never blocks or lies about it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine import requests
from engine.client import EngineClient, engine_command
from engine.codec import Message
from engine.requests import Shown
from engine.trace import EngineState, RunFailed

READY = '{"event":"EngineState","phase":"ready"}'


def child(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", textwrap.dedent(script))


@pytest.fixture
def client_of() -> Iterator[Callable[[str], EngineClient]]:
    clients = []

    def start(script: str) -> EngineClient:
        client = EngineClient(child(script))
        clients.append(client)
        client.start()
        return client

    yield start
    for client in clients:
        client.close()


def gather(client: EngineClient, count: int, seconds: float = 20.0) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + seconds
    while len(messages) < count and time.monotonic() < deadline:
        messages += client.poll()
        time.sleep(0.01)
    return messages


def fault_of(client: EngineClient, seconds: float = 20.0) -> str:
    deadline = time.monotonic() + seconds
    while client.fault is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return client.fault or "still alive"


def test_an_unstarted_client_is_quiet() -> None:
    client = EngineClient(child("pass"))
    client.send(Shown(1))
    assert client.poll() == []
    assert client.fault is None
    assert not client.alive
    client.close()


def test_requests_reach_the_child_and_events_come_back_in_order(client_of) -> None:
    client = client_of(
        """
        import json, sys
        for line in sys.stdin:
            rounds = json.loads(line).get("rounds")
            if rounds is None:
                break
            print(json.dumps({"event": "RunFailed", "message": str(rounds)}), flush=True)
        """
    )
    for rounds in range(20):
        client.send(Shown(rounds))
    assert gather(client, 20) == [RunFailed(str(n)) for n in range(20)]


def test_polling_never_blocks(client_of) -> None:
    client = client_of("import time; time.sleep(60)")
    started = time.monotonic()
    assert client.poll() == []
    assert time.monotonic() - started < 0.5


def test_a_killed_child_is_reported_by_its_signal(client_of) -> None:
    client = client_of(f"import time; print('{READY}', flush=True); time.sleep(60)")
    assert gather(client, 1) == [EngineState("ready")]
    assert client.alive
    os.kill(client.pid, signal.SIGKILL)
    assert fault_of(client) == "The engine process was ended by SIGKILL."
    assert not client.alive


def test_words_about_something_survived_are_not_why_a_child_was_killed(client_of) -> None:
    client = client_of(
        f"""
        import sys, time
        print("DecodeError: a prompt was too long", file=sys.stderr, flush=True)
        print('{READY}', flush=True)
        time.sleep(60)
        """
    )
    gather(client, 1)
    os.kill(client.pid, signal.SIGKILL)
    assert fault_of(client) == "The engine process was ended by SIGKILL."


def test_what_a_child_says_while_it_aborts_is_told(client_of) -> None:
    client = client_of(
        "import os, sys; print('out of pages', file=sys.stderr, flush=True); os.abort()"
    )
    assert fault_of(client) == "The engine process was ended by SIGABRT: out of pages"


def test_a_child_that_dies_is_reported_with_its_last_words(client_of) -> None:
    client = client_of("import sys; sys.exit('libcudart.so.12: cannot open shared object file')")
    assert fault_of(client) == (
        "The engine process ended with code 1: libcudart.so.12: cannot open shared object file"
    )


def test_the_reason_given_by_the_engine_itself_comes_first(client_of) -> None:
    client = client_of(
        """
        import sys
        print('{"event":"EngineState","phase":"failed","detail":"There is no model."}')
        sys.exit("Traceback and so on")
        """
    )
    assert fault_of(client) == "There is no model."


def test_lines_that_are_no_events_are_left_out(client_of) -> None:
    client = client_of(f"print('Downloading: 12%'); print('{READY}'); print('[1, 2]')")
    assert gather(client, 1) == [EngineState("ready")]
    fault_of(client)
    assert client.poll() == []


def test_a_restart_gives_a_fresh_process(client_of) -> None:
    client = client_of("import sys; sys.exit('once')")
    fault_of(client)
    first = client.pid
    client.restart()
    assert client.pid != first
    assert fault_of(client) == "The engine process ended with code 1: once"


def test_closing_ends_a_child_that_ignores_everything(client_of) -> None:
    client = client_of(
        f"""
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print('{READY}', flush=True)
        while True:
            time.sleep(1)
        """
    )
    gather(client, 1)
    pid = client.pid
    started = time.monotonic()
    client.close(patience=0.6)
    assert time.monotonic() - started < 5
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_closing_leaves_unrelated_processes_alone(client_of) -> None:
    stranger = subprocess.Popen(child("import time; time.sleep(60)"))
    try:
        client = client_of("import time; time.sleep(60)")
        client.close()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_megabytes_sent_to_a_dead_child_do_not_hold_up_the_exit() -> None:
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from engine.client import EngineClient
        from engine.requests import Start
        client = EngineClient((sys.executable, "-c", "import time; time.sleep(60)"))
        client.start()
        for _ in range(5):
            client.send(Start("x" * 1_000_000))
        client._child.process.kill()
        client.close()
    """
    subprocess.run(child(script), check=True, timeout=10)


def test_no_stray_engine_folder_is_picked_up(tmp_path: Path) -> None:
    stray = tmp_path / "engine"
    stray.mkdir()
    (stray / "__init__.py").write_text("")
    (stray / "__main__.py").write_text("raise SystemExit('the stray one')")
    done = subprocess.run(
        engine_command(["--help"]),
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "the stray one" not in done.stderr
    assert "--device" in done.stdout + done.stderr


def test_requests_survive_the_wire() -> None:
    for request in (
        requests.Start("Why? “日本” 👍 \udc80", stop=("\n", "END")),
        requests.Shown(3),
        requests.Change(requests.Settings(k=7, quality=40.0)),
        requests.Stop(),
        requests.Quit(),
    ):
        assert requests.decode(requests.encode(request)) == request


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"request":"Launch"}',
        '{"request":"Shown"}',
        '{"request":"Shown","rounds":"many"}',
    ],
)
def test_what_is_no_request_is_refused(line: str) -> None:
    with pytest.raises(requests.CodecError):
        requests.decode(line)
