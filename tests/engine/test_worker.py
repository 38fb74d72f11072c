"""The engine process: a real one on a tiny model, and its loop on a scripted engine."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import saved_model

from engine import codec, requests, worker
from engine.client import ROOT, EngineClient, engine_command
from engine.codec import CodecError, Message
from engine.requests import Change, Quit, Shown, Start, Stop
from engine.trace import (
    EngineState,
    Rewind,
    Round,
    RunFailed,
    RunFinished,
    RunHeader,
    RunProof,
    Settings,
    Trace,
    fold,
)
from engine.worker import LOOKAHEAD, REFILL, Worker

GUESSING = Settings(drafter="n-gram", k=3)
PROMPT = "abcabcabcabc"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model.save(tmp_path_factory.mktemp("model") / "tiny")


class Live:
    """A real engine process and everything it has said."""

    def __init__(self, model: Path) -> None:
        self.client = EngineClient(engine_command(["--target", str(model), "--threads", "1"]))
        self.client.start()
        self.said: list[Message] = []
        self.until(lambda said: bool(said) and _is_ready(said[-1]))

    def until(self, done: Callable[[list[Message]], bool], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not done(self.said):
            assert self.client.fault is None, self.client.fault
            assert time.monotonic() < deadline, self.said[-3:]
            self.said += self.client.poll()
            time.sleep(0.005)

    def settle(self, seconds: float = 0.5) -> None:
        """Wait until nothing has been said for a while; a slow engine must have begun to speak."""
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < seconds or not self.said:
            if messages := self.client.poll():
                self.said += messages
                quiet_since = time.monotonic()
            time.sleep(0.01)

    def start(self, request: Start) -> None:
        """Begin a run; only what follows counts as said."""
        self.said.clear()
        self.client.send(Stop())
        self.client.send(Change(Settings()))  # always answered, and there is no run by now
        self.until(lambda said: bool(said) and isinstance(said[-1], EngineState))
        self.said.clear()
        self.client.send(request)

    def finish(self) -> Trace:
        """Show rounds as they come until the run ends."""
        shown = -1
        while self.trace.end is None:
            if len(self.trace.rounds) != shown:
                shown = len(self.trace.rounds)
                self.client.send(Shown(shown))
            known = len(self.said)
            self.until(lambda said, known=known: len(said) > known)
        return self.trace

    @property
    def trace(self) -> Trace:
        return fold(each for each in self.said if not isinstance(each, EngineState))


def _is_ready(message: Message) -> bool:
    return isinstance(message, EngineState) and message.phase == "ready"


@pytest.fixture(scope="module")
def live(model: Path) -> Iterator[Live]:
    """One process for the tests that leave it alive."""
    engine = Live(model)
    yield engine
    engine.client.close()


@pytest.fixture
def mortal(model: Path) -> Iterator[Live]:
    """A process of its own, for a test that ends it."""
    engine = Live(model)
    yield engine
    engine.client.close()


def rounds_in(said: list[Message]) -> list[Round]:
    return [each for each in said if isinstance(each, Round)]


def answers_in(said: list[Message]) -> list[EngineState]:
    return [each for each in said if isinstance(each, EngineState)]


def test_a_run_comes_as_a_header_and_rounds_and_an_end(live: Live) -> None:
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=20))
    run = live.finish()
    assert run.header is not None
    assert run.header.prompt == PROMPT
    assert run.end == RunFinished("length")
    assert len(run.committed) == 20


def test_rounds_wait_for_the_picture(live: Live) -> None:
    live.start(Start(PROMPT, chat=False, settings=Settings(k=0), max_new_tokens=60))
    live.until(lambda said: len(rounds_in(said)) == LOOKAHEAD)
    live.settle()
    assert len(rounds_in(live.said)) == LOOKAHEAD
    live.client.send(Shown(LOOKAHEAD - REFILL - 1))
    live.settle()
    assert len(rounds_in(live.said)) == LOOKAHEAD, "more than enough is left"
    live.client.send(Shown(LOOKAHEAD - REFILL))
    live.until(lambda said: len(rounds_in(said)) == 2 * LOOKAHEAD - REFILL)
    live.settle()
    assert len(rounds_in(live.said)) == 2 * LOOKAHEAD - REFILL


def test_a_change_acts_at_the_next_round_not_shown(live: Live) -> None:
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=60))
    live.settle()
    live.client.send(Shown(2))
    live.client.send(Change(replace(GUESSING, k=1)))
    live.until(lambda said: Rewind(2, replace(GUESSING, k=1)) in said)
    run = live.finish()
    assert {each.settings.k for each in run.rounds[:2]} == {3}
    assert {each.settings.k for each in run.rounds[2:]} == {1}


def test_a_change_that_changes_nothing_repeats_the_run(live: Live) -> None:
    sampling = replace(GUESSING, temperature=1.0)
    live.start(Start(PROMPT, chat=False, settings=sampling, max_new_tokens=40, seed=3))
    live.until(lambda said: len(rounds_in(said)) == LOOKAHEAD)
    before = [(each.index, each.guesses, each.emitted) for each in rounds_in(live.said)]
    live.client.send(Change(sampling))
    live.until(lambda said: len(rounds_in(said)) == 2 * LOOKAHEAD)
    assert Rewind(0, sampling) in live.said
    after = [(each.index, each.guesses, each.emitted) for each in live.trace.rounds]
    assert after == before


def test_a_change_with_no_round_to_come_is_answered_in_words(live: Live) -> None:
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=4))
    live.finish()
    live.client.send(Shown(len(live.trace.rounds)))
    live.client.send(Change(replace(GUESSING, k=1)))
    live.until(lambda said: bool(answers_in(said)))
    assert "No run is going on" in answers_in(live.said)[-1].detail


def test_a_change_that_cannot_be_had_leaves_the_run_as_it_is(live: Live) -> None:
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=30))
    live.settle()
    for settings in (replace(GUESSING, k=17), replace(GUESSING, drafter="nobody")):
        live.client.send(Change(settings))
        live.until(lambda said: isinstance(said[-1], EngineState))
        live.said.pop()
    run = live.finish()
    assert run.end == RunFinished("length")
    assert {each.settings for each in run.rounds} == {GUESSING}


def test_a_new_run_cancels_the_one_before(live: Live) -> None:
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=60))
    live.settle()
    live.client.send(Start("xyz", chat=True, settings=GUESSING, max_new_tokens=8))
    live.until(lambda said: sum(isinstance(each, RunHeader) for each in said) == 2)
    cut = next(i for i, each in enumerate(live.said) if isinstance(each, RunFinished))
    assert live.said[cut] == RunFinished("cancelled")
    assert isinstance(live.said[cut + 1], RunHeader)
    live.said = live.said[cut + 1 :]
    assert live.finish().end == RunFinished("length")


def test_a_greedy_run_is_proven_after_its_end_and_a_sampled_one_is_not(live: Live) -> None:
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=20))
    live.finish()
    live.until(lambda said: isinstance(said[-1], RunProof))
    assert live.said[-1] == live.trace.proof == RunProof(20)
    warm = replace(GUESSING, temperature=1.0)
    live.start(Start(PROMPT, chat=False, settings=warm, max_new_tokens=20))
    live.finish()
    live.settle()
    assert live.trace.proof is None


def test_a_run_that_goes_on_after_its_end_is_proven_anew(live: Live) -> None:
    """Its last rounds are made, and proven, before the picture has shown them."""
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=LOOKAHEAD))
    live.until(lambda said: bool(said) and isinstance(said[-1], RunProof))
    live.client.send(Change(replace(GUESSING, k=1)))
    live.until(lambda said: any(isinstance(each, Rewind) for each in said))
    live.finish()
    live.until(lambda said: isinstance(said[-1], RunProof))
    assert live.trace.proof == RunProof(LOOKAHEAD)
    assert sum(isinstance(each, RunProof) for each in live.said) == 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Start("  "), "empty"),
        (Start("x" * 10_000, chat=False), "10000 tokens"),
        (Start("x", settings=Settings(drafter="nobody")), "n-gram"),
    ],
)
def test_a_refused_run_leaves_the_one_on_stage_alone(live: Live, wrong: Start, words: str) -> None:
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=40))
    straight = [each.committed for each in live.finish().rounds]
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=40))
    live.until(lambda said: bool(rounds_in(said)))
    live.client.send(wrong)
    live.until(lambda said: bool(answers_in(said)))
    (answer,) = answers_in(live.said)
    assert answer.phase == "refused"
    assert words in answer.detail
    run = live.finish()
    assert run.end == RunFinished("length")
    assert [each.committed for each in run.rounds] == straight


def test_stop_ends_the_run_and_not_the_process(live: Live) -> None:
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=60))
    live.settle()
    live.client.send(Stop())
    live.until(lambda said: said[-1] == RunFinished("cancelled"))
    assert live.client.alive


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Start("", chat=False), "empty"),
        (Start("  \n", chat=True), "empty"),
        (Start("x" * 10_000, chat=False), "10000 tokens"),
        (Start("x", settings=Settings(k=17)), "17"),
        (Start("x", settings=Settings(temperature=-1.0)), "emperature"),
        (Start("x", settings=Settings(temperature=float("nan"))), "emperature"),
        (Start("x", settings=Settings(top_p=0.0)), "op-p"),
        (Start("x", settings=Settings(drafter="nobody")), "n-gram"),
    ],
)
def test_what_cannot_be_run_fails_in_one_sentence_and_the_next_run_works(
    live: Live, request_: Start, words: str
) -> None:
    live.start(request_)
    live.until(lambda said: bool(said))
    failure = live.said[-1]
    assert isinstance(failure, RunFailed)
    assert words in failure.message
    assert "\n" not in failure.message
    live.said.clear()
    live.client.send(Start("a 日本 👍 <|im_end|>", settings=GUESSING, max_new_tokens=4))
    assert live.finish().end is not None
    specials = {token.text for token in live.trace.header.prompt_tokens[1:-2]}
    assert "<|im_end|>" not in specials


def test_garbage_on_stdin_is_answered_and_survived(model: Path) -> None:
    command = engine_command(["--target", str(model)])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\x00\xff garbage\n{}\n")
        process.stdin.write(requests.encode(Start("hi", max_new_tokens=2)).encode() + b"\n")
        process.stdin.flush()
        lines = iter(process.stdout.readline, b"")
        events = [codec.decode(next(lines).decode())]
        while not isinstance(events[-1], RunFinished):
            events.append(codec.decode(next(lines).decode()))
        details = [each.detail for each in events if isinstance(each, EngineState)]
        assert sum("not understood" in detail for detail in details) == 2
        process.stdin.close()
        assert process.wait(5) == 0


def test_the_process_ends_with_its_stdin_even_before_it_is_ready(model: Path) -> None:
    done = subprocess.run(
        engine_command(["--target", str(model)]), stdin=subprocess.DEVNULL, capture_output=True,
        timeout=20,
    )  # fmt: skip
    assert done.returncode == 0


def test_the_process_ends_with_a_killed_parent_inside_a_long_pass(tmp_path: Path) -> None:
    """The parent is killed while the child's main thread sits in one endless computation."""
    script = f"""
        import sys, time
        sys.path.insert(0, {str(ROOT)!r})
        from engine.client import EngineClient
        child = '''
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        import engine.worker
        from engine import __main__ as process
        def forever(options, report):
            import torch
            torch.set_num_threads(1)
            from engine.trace import EngineState
            report(EngineState("loading"))
            while True:
                torch.ones(3000, 3000) @ torch.ones(3000, 3000)
        process.open_engine = forever
        process.main([])
        '''
        import textwrap
        client = EngineClient((sys.executable, "-c", textwrap.dedent(child)))
        client.start()
        while not client.poll():
            time.sleep(0.05)
        print(client.pid, flush=True)
        time.sleep(60)
    """
    with subprocess.Popen(
        (sys.executable, "-c", textwrap.dedent(script)), stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.kill()
        deadline = time.monotonic() + 3
        while _exists(pid):
            assert time.monotonic() < deadline, "the engine process outlived its parent"
            time.sleep(0.05)


def _exists(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_ctrl_c_in_the_terminal_does_not_reach_the_run(live: Live) -> None:
    live.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=20))
    os.kill(live.client.pid, signal.SIGINT)
    assert live.finish().end == RunFinished("length")


def test_a_killed_engine_is_a_reason_and_a_restart_works(mortal: Live) -> None:
    mortal.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=60))
    mortal.settle()
    os.kill(mortal.client.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while mortal.client.fault is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert mortal.client.fault == "The engine process was ended by SIGKILL."
    mortal.client.restart()
    mortal.said.clear()
    mortal.until(lambda said: bool(said) and _is_ready(said[-1]))
    mortal.start(Start(PROMPT, chat=False, settings=GUESSING, max_new_tokens=8))
    assert mortal.finish().end == RunFinished("length")


def test_an_unusable_model_is_one_sentence_and_an_exit(tmp_path: Path) -> None:
    client = EngineClient(engine_command(["--target", str(tmp_path / "nothing")]))
    client.start()
    deadline = time.monotonic() + 60
    while client.fault is None and time.monotonic() < deadline:
        time.sleep(0.05)
    messages = client.poll()
    client.close()
    assert messages[-1].phase == "failed"
    assert "config.json" in messages[-1].detail


def test_prints_of_a_library_do_not_reach_the_events() -> None:
    script = """
        import os, sys
        from engine.__main__ import claim_stdout
        events = claim_stdout()
        print("a library says hello")
        os.write(1, b"so does its C code\\n")
        events.write("event\\n")
        events.flush()
    """
    done = subprocess.run(
        (sys.executable, "-c", textwrap.dedent(script)), cwd=ROOT, capture_output=True, text=True,
        timeout=20, check=True,
    )  # fmt: skip
    assert done.stdout == "event\n"
    assert "a library says hello" in done.stderr
    assert "so does its C code" in done.stderr


def test_a_process_without_a_console_still_speaks_and_ends(tmp_path: Path) -> None:
    script = """
        import sys
        sys.stdout = sys.stderr = None
        from engine.__main__ import claim_stdout
        claim_stdout().write("to nobody")
        print("nor does this fail")
    """
    subprocess.run(
        (sys.executable, "-c", textwrap.dedent(script)), cwd=ROOT, check=True, timeout=20
    )


# --- the loop alone ----------------------------------------------------------------------


class FinishedSession:
    """A run that has ended before it began."""

    finished = RunFinished("length")

    def __init__(self, header: RunHeader) -> None:
        self.header = header


class SlowProof:
    """A proof of many passes, each of which may bring the next request."""

    def __init__(self, error: Exception | None = None) -> None:
        self.passes = 0
        self.on_pass: Callable[[int], None] = lambda number: None
        self._error = error

    def advance(self) -> RunProof | None:
        self.passes += 1
        self.on_pass(self.passes)
        if self._error is not None:
            raise self._error
        return RunProof(1) if self.passes == 50 else None


class ProvingEngine:
    """Every run has ended at once, and is proven by `proof`."""

    drafters = ()

    def __init__(self, header: RunHeader, proof: SlowProof) -> None:
        self._header, self._proof = header, proof

    def check(self, settings: Settings) -> None:
        pass

    def admit(self, start: Start) -> None:
        pass

    def begin(self, start: Start) -> FinishedSession:
        return FinishedSession(self._header)

    def beside(self) -> SlowProof:
        return self._proof

    def remember(self) -> None:
        pass

    def take_notice(self) -> str:
        return ""


def test_a_request_waits_for_one_pass_of_a_proof_at_most(run_header: RunHeader) -> None:
    said: list[Message] = []
    inbox: worker.Inbox = queue.SimpleQueue()
    proof = SlowProof()
    proof.on_pass = lambda number: inbox.put(Quit()) if number == 3 else None
    inbox.put(Start("x"))
    assert Worker(ProvingEngine(run_header, proof), inbox, said.append).work() == 0
    assert proof.passes == 3
    assert not any(isinstance(each, RunProof) for each in said)


def test_a_proof_that_is_cut_by_a_new_run_is_dropped(run_header: RunHeader) -> None:
    said: list[Message] = []
    inbox: worker.Inbox = queue.SimpleQueue()
    proof = SlowProof()
    proof.on_pass = lambda number: inbox.put(Stop()) if number == 3 else None
    inbox.put(Start("x"))

    def emit(message: Message) -> None:
        said.append(message)

    thread = threading.Thread(target=Worker(ProvingEngine(run_header, proof), inbox, emit).work)
    thread.start()
    time.sleep(0.1)
    inbox.put(Quit())
    thread.join(5)
    assert proof.passes == 3, "after the run is dropped nobody goes on proving it"
    assert not any(isinstance(each, RunProof) for each in said)


@pytest.mark.parametrize("early", [True, False], ids=["when it begins", "in a pass"])
def test_a_proof_that_fails_is_no_fault_of_the_run_s(run_header: RunHeader, early: bool) -> None:
    said: list[Message] = []
    inbox: worker.Inbox = queue.SimpleQueue()
    proof = SlowProof(RuntimeError("no room for more rows"))
    proof.on_pass = lambda number: inbox.put(Quit())
    engine = ProvingEngine(run_header, proof)
    if early:
        engine.beside = proof.advance  # type: ignore[method-assign, assignment]
    inbox.put(Start("x"))
    assert Worker(engine, inbox, said.append).work() == 0
    assert said[-1] == RunFinished("length")


class BrokenSession:
    """A run whose second round fails."""

    def __init__(self, header: RunHeader, error: Exception) -> None:
        self.header = header
        self.finished = None
        self._error = error

    def advance(self) -> Round:
        raise self._error

    def rewind(self, to_round: int, settings: Settings) -> None:
        raise AssertionError("nothing to rewind")


class BrokenEngine:
    drafters = ("n-gram",)

    def __init__(self, header: RunHeader, error: Exception) -> None:
        self._session = BrokenSession(header, error)

    def check(self, settings: Settings) -> None:
        pass

    def admit(self, start: Start) -> None:
        pass

    def begin(self, start: Start) -> BrokenSession:
        return self._session

    def beside(self) -> None:
        return None

    def remember(self) -> None:
        pass

    def take_notice(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "not enough memory"),
        (type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory. Tried"), "memory"),
        (ValueError("The law sums to 0.9."), "The law sums to 0.9."),
        (KeyError("boom"), "unexpected"),
    ],
)
def test_a_round_that_fails_is_an_event_and_the_loop_goes_on(
    run_header: RunHeader, error: Exception, words: str
) -> None:
    said: list[Message] = []
    inbox: worker.Inbox = queue.SimpleQueue()
    inbox.put(Start("x"))
    inbox.put(CodecError("what?"))

    def emit(message: Message) -> None:
        said.append(message)
        if isinstance(message, RunFailed):
            inbox.put(Quit())

    assert Worker(BrokenEngine(run_header, error), inbox, emit).work() == 0
    failures = [each for each in said if isinstance(each, RunFailed)]
    assert len(failures) == 1
    assert words in failures[0].message


def test_a_lost_device_ends_the_process_so_that_it_can_be_restarted(
    run_header: RunHeader,
) -> None:
    said: list[Message] = []
    inbox: worker.Inbox = queue.SimpleQueue()
    inbox.put(Start("x"))
    error = RuntimeError("CUDA error: device-side assert triggered")
    assert Worker(BrokenEngine(run_header, error), inbox, said.append).work() == 1
    assert isinstance(said[-2], RunFailed)
    assert said[-1] == EngineState("failed", "The graphics device failed: restart the engine.")


@pytest.fixture
def run_header() -> RunHeader:
    return RunHeader(
        run_id="test", created="", target="tiny", device="cpu", dtype="float64", kernel="torch",
        drafter="n-gram", drafter_reason="", settings=Settings(), prompt="", chat=False,
        prompt_tokens=(), vocab_size=0, context_limit=128, max_new_tokens=24, stop=(), seed=0,
        baseline=None, prefill_seconds=0.0,
    )  # fmt: skip
