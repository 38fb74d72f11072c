"""Serves one picture: turns requests into runs, a bounded number of rounds ahead of it.

The loop has one rule: obey requests first, then make rounds, in bursts, until the picture is
`LOOKAHEAD` rounds behind, then prove the run that has finished, a pass at a time, else wait. A
comparison of drafters comes before rounds and proofs, but lets the run go on between its turns. A
run that fails is an event (`RunFailed`) and the process lives; an engine that cannot be opened is
an `EngineState` and the process ends.

Knows requests, events and an engine's verbs; nothing of pipes, pictures or the mathematics
of a round.
"""

from __future__ import annotations

import gc
import queue
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from engine.codec import CodecError, Message
from engine.comparison import Comparison
from engine.requests import Change, Compare, Quit, Request, Shown, Start, Stop, StopComparing
from engine.terminal import device_lost, sentence
from engine.trace import (
    EngineState,
    Rewind,
    Round,
    RunFailed,
    RunFinished,
    RunHeader,
    RunProof,
    Settings,
)

LOOKAHEAD = 6
"""Rounds made beyond the last one shown: never starves a picture, and little to take back."""

REFILL = 3
"""Rounds left when more are made: in bursts, because a pass after a pause is a cold one."""

Inbox = queue.SimpleQueue[Request | CodecError]
Emit = Callable[[Message], None]


class Session(Protocol):
    """One run in the making."""

    @property
    def header(self) -> RunHeader: ...
    @property
    def finished(self) -> RunFinished | None: ...
    def advance(self) -> Round:
        """Make the next round of a run that is not finished."""

    def rewind(self, to_round: int, settings: Settings) -> None:
        """Take back rounds from `to_round` on and use `settings` from there."""


class Beside(Protocol):
    """A finished run's proof in the making (see `engine.beside`)."""

    def advance(self) -> RunProof | None:
        """Make one pass; the proof once it is there."""


class Comparing(Protocol):
    """A comparison in the making (see `engine.bench.live`)."""

    @property
    def at_rest(self) -> bool:
        """Whether it stands between two turns."""

    @property
    def told(self) -> Comparison:
        """The table so far."""

    def advance(self) -> Comparison | None:
        """Make a round; the table where there is news."""

    def stop(self) -> Comparison:
        """End it; the table as it stands."""


class Engine(Protocol):
    """A target and its drafters, ready."""

    @property
    def drafters(self) -> tuple[str, ...]: ...
    def check(self, settings: Settings) -> None:
        """Raise ValueError, one clear sentence, when no run can have these settings."""

    def admit(self, request: Start) -> object:
        """Raise, one clear sentence, when no such run can be had; touch no run."""

    def begin(self, request: Start) -> Session:
        """Start a run, which ends the one before. ValueError or so when it cannot be had."""

    def beside(self) -> Beside | None:
        """The target alone beside the run begun last; None where its text was sampled."""

    def remember(self) -> None:
        """Keep the reply of the run begun last, which is over, if it may be kept."""

    def take_notice(self) -> str:
        """One sentence people should see although all goes on; "" when there is none."""

    def compare(self, request: Compare) -> Comparing:
        """Compare drafters; the run is left alone. ValueError or so when it cannot be had."""


def serve(open_engine: Callable[[Emit], Engine], inbox: Inbox, emit: Emit) -> int:
    """Open the engine, then serve requests until told to quit. Returns the exit code."""
    try:
        engine = open_engine(emit)
    except Exception as error:  # whatever it is, people get a sentence
        traceback.print_exc()
        emit(EngineState("failed", sentence(error)))
        return 1
    return Worker(engine, inbox, emit).work()


class Worker:
    """The loop, and where run and picture stand."""

    def __init__(self, engine: Engine, inbox: Inbox, emit: Emit) -> None:
        self._engine = engine
        self._inbox = inbox
        self._emit = emit
        self._ready = EngineState("ready", drafters=engine.drafters)
        self._session: Session | None = None
        self._unproven = False  # the run has finished, and its proof is not there yet
        self._beside: Beside | None = None  # that proof in the making
        self._comparing: Comparing | None = None
        self._made = 0  # rounds of the run so far
        self._shown = 0  # of which the picture has begun to show so many
        self._filling = True  # in a burst
        self._device_lost = False
        emit(self._ready)

    def work(self) -> int:
        """Serve until told to quit (0) or until the device has failed for good (1)."""
        while not self._device_lost:
            request = self._next_request()
            if isinstance(request, Quit):
                return 0
            failure = self._attempt(request)
            if failure is not None:  # its exception is gone by now, and the tensors it held
                self._abandon(failure)
        self._emit(EngineState("failed", "The graphics device failed: restart the engine."))
        return 1

    @property
    def _unfinished(self) -> Session | None:
        session = self._session
        return session if session is not None and session.finished is None else None

    def _next_request(self) -> Request | CodecError | None:
        """The oldest request; None when there is none and a round or a pass is due."""
        ahead = self._made - self._shown
        self._filling = ahead < LOOKAHEAD and (self._filling or ahead <= REFILL)
        due = self._unproven or self._comparing or (self._filling and self._unfinished)
        try:
            return self._inbox.get(block=not due)
        except queue.Empty:
            return None

    def _attempt(self, request: Request | CodecError | None) -> str | None:
        """Do what is due. Returns what went wrong, if the run cannot go on."""
        try:
            match request:
                case None if self._comparing is not None and not self._may_run_between:
                    self._compare(self._comparing)
                case None if self._unfinished is None:
                    self._prove()
                case None:
                    self._advance()
                case Start():
                    self._start(request)
                case Shown(rounds):
                    self._shown = max(self._shown, min(rounds, self._made))
                    if self._shown == self._made:
                        self._remember()
                case Change(settings):
                    self._change(settings)
                case Stop():
                    self._cancel()
                case Compare():
                    self._begin_comparing(request)
                case StopComparing():
                    self._stop_comparing()
                case CodecError():
                    self._answer(f"A request was not understood: {request}.")
        except Exception as error:
            traceback.print_exc()
            self._device_lost = device_lost(error)
            return sentence(error)
        return None

    def _start(self, request: Start) -> None:
        try:
            self._engine.admit(request)
        except Exception as refusal:
            if self._session is None:
                raise
            self._emit(replace(self._ready, phase="refused", detail=sentence(refusal)))
            return
        self._remember()
        self._cancel()
        self._made = self._shown = 0
        self._session = self._engine.begin(request)
        self._emit(self._session.header)
        self._tell()
        self._report_end()

    def _advance(self) -> None:
        assert self._session is not None
        made = self._session.advance()
        self._made += 1
        self._emit(made)
        self._report_end()

    def _prove(self) -> None:
        """Make a pass of the proof; one that fails is no fault of the run's, and is dropped."""
        try:
            beside = self._beside or self._engine.beside()
            proof = None if beside is None else beside.advance()
        except (RuntimeError, MemoryError):
            traceback.print_exc()
            beside = proof = None
        self._beside = beside if proof is None else None
        self._unproven = self._beside is not None
        if proof is not None:
            self._emit(proof)

    @property
    def _may_run_between(self) -> bool:
        """The run has rounds to make, and the comparison stands between two turns."""
        resting = self._comparing is not None and self._comparing.at_rest
        return resting and self._filling and self._unfinished is not None

    def _begin_comparing(self, request: Compare) -> None:
        try:
            if self._comparing is not None:
                raise ValueError("Another comparison is going on: stop it first.")
            self._comparing = self._engine.compare(request)
        except Exception as refusal:
            if not isinstance(refusal, ValueError):
                traceback.print_exc()
            self._emit(
                Comparison(
                    "refused", request.settings, len(request.samples), request.tokens,
                    detail=sentence(refusal),
                )
            )  # fmt: skip
        else:
            self._emit(self._comparing.told)

    def _compare(self, comparing: Comparing) -> None:
        """Make a round of it; one that fails is no fault of the run's."""
        try:
            told = comparing.advance()
        except Exception as error:
            self._comparing = None
            failed = replace(comparing.told, phase="failed", now="", detail=sentence(error))
            self._emit(failed)
            if device_lost(error):
                raise
            traceback.print_exc()
            return
        if told is not None:
            if told.phase != "measuring":
                self._comparing = None
            self._emit(told)

    def _stop_comparing(self) -> None:
        if self._comparing is not None:
            self._emit(self._comparing.stop())
            self._comparing = None

    def _change(self, settings: Settings) -> None:
        session = self._session
        if session is None or (session.finished is not None and self._shown == self._made):
            self._answer("No run is going on; the next one can use these settings.")
            return
        try:
            self._engine.check(settings)
        except ValueError as error:
            self._answer(sentence(error))
            return
        self._drop_proof()
        session.rewind(self._shown, settings)
        self._made = self._shown
        self._emit(Rewind(self._shown, settings))
        self._report_end()

    def _cancel(self) -> None:
        if self._unfinished is not None:
            self._emit(RunFinished("cancelled"))
        self._session = None
        self._drop_proof()

    def _abandon(self, failure: str) -> None:
        self._session = None
        self._drop_proof()
        gc.collect()
        if not self._device_lost:
            _empty_device_cache()
        self._emit(RunFailed(failure))

    def _report_end(self) -> None:
        if self._session is not None and self._session.finished is not None:
            self._emit(self._session.finished)
            self._unproven = True

    def _remember(self) -> None:
        """Keep the reply of a run that is over, once nothing of it can be taken back."""
        if self._session is not None and self._session.finished is not None:
            self._engine.remember()
            self._tell()

    def _tell(self) -> None:
        if notice := self._engine.take_notice():
            self._emit(EngineState("notice", notice))

    def _drop_proof(self) -> None:
        self._beside, self._unproven = None, False

    def _answer(self, detail: str) -> None:
        self._emit(replace(self._ready, detail=detail))


def _empty_device_cache() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
