"""The run on stage and the conversation with the engine about it.

Decides when a live run takes the stage from the recording that opened the show, reports to
the engine which rounds have begun to be shown, and passes on changed settings one at a
time. Knows no clock, window or picture: `app` tells it what was shown.
"""

from __future__ import annotations

from dataclasses import replace

from engine.codec import Message
from engine.comparison import Comparison
from engine.requests import Change, Compare, Request, Shown, Start, StopComparing
from engine.source import EventSource
from engine.trace import BUSY, EngineState, RunEvent, RunFailed, RunHeader, Settings, Trace
from visualizer.ledger import Figures, Ledger


class Feed:
    """Holds the trace on stage (`trace`, `live`) and the one that waits in the wings.

    A run file opened by hand takes the stage from a live run, which goes on in the wings
    until someone asks for it.

    `stage` counts the runs that have taken the stage, so that callers notice a new one.
    `first` is the run asked for as soon as a live engine is ready.
    """

    def __init__(
        self, source: EventSource, opening: Trace | None = None, first: Start | None = None
    ) -> None:
        self._source = source
        self._waiting: Trace | None = None
        self._request = first
        self._asked = False
        self._asked_settings = Settings() if first is None else first.settings
        self._shown = 0  # rounds of the live run that the picture has begun to show
        self._shown_before = 0  # the same of the run that waits, if it was on stage before
        self._opened = False  # a run file holds the stage
        self._ledger = Ledger()
        self.trace = opening or Trace()
        self.live = False
        self.stage = 0
        self.engine: EngineState | None = None
        self.busy: EngineState | None = None  # what the engine prepares of the run to come
        self.comparison: Comparison | None = None  # the last one asked for, as far as it has come
        self.comparison_problem = ""  # why there is none, or no more of it
        self.problem: str | None = None  # why the run that was asked for did not come
        self.refusal: str | None = None  # why the change that was asked for did not come
        self._word: str | None = None  # of the engine to people, while all goes on

    # --- reading ---------------------------------------------------------------------------

    @property
    def fault(self) -> str | None:
        """Why the engine process is gone, or None."""
        return self._source.fault

    @property
    def notice(self) -> str | None:
        return self._source.notice or self._word

    @property
    def has_engine(self) -> bool:
        """Whether this show has a live engine at all (a replay has none)."""
        return self._source.live

    @property
    def waiting(self) -> bool:
        """A new run is ready to take the stage: with something to show, or nothing more to come."""
        run = self._waiting
        whole = not self._source.live
        return run is not None and (bool(run.rounds) or run.end is not None or whole)

    @property
    def starting(self) -> bool:
        """A run was asked for and has not taken the stage yet."""
        return self._asked and not self._opened and (self._waiting is not None or not self.live)

    @property
    def begun(self) -> int:
        """Rounds of the run on stage that were shown before it left the stage, if it did."""
        return self._shown if self.live else 0

    @property
    def opened(self) -> bool:
        """A run file holds the stage of a show that has a live engine."""
        return self._opened and self.has_engine

    @property
    def can_resume(self) -> bool:
        """A run file hides a live run."""
        return self._opened and self.waiting

    @property
    def rounds_allowed(self) -> int | None:
        """Rounds that may be shown while the engine answers a change; None means all."""
        return self._shown if self.live and self._source.changing else None

    @property
    def offered(self) -> tuple[str, ...]:
        """The drafters that can be chosen; none before there is an engine."""
        return self.engine.drafters if self.engine is not None else ()

    @property
    def measured(self) -> dict[str, Figures]:
        """What each drafter has done in the runs of this show."""
        self._note()
        return self._ledger.total

    def _note(self) -> None:
        """Count the run on stage as it stands; the recording that opens a live show does not."""
        if self.live or not self.has_engine:
            self._ledger.note(self.trace)

    def poll(self, may_switch: bool) -> None:
        """Take in what arrived. `may_switch` False keeps a paused recording on stage."""
        for message in self._source.poll():
            self._take(message)
        nothing_to_keep = self.live or not self.trace.rounds
        if self.waiting and not self._opened and (may_switch or nothing_to_keep):
            self._switch()

    def _take(self, message: Message) -> None:
        if isinstance(message, EngineState):
            self._take_state(message)
            return
        if isinstance(message, Comparison):
            self._take_comparison(message)
            return
        self.busy = None
        if isinstance(message, RunHeader):
            self._waiting, self._shown_before = Trace(header=message), 0
            self.problem = self.refusal = self._word = None
        else:
            self._extend(message)

    def _take_state(self, state: EngineState) -> None:
        if state.phase in BUSY:
            self.busy = state
            return
        if state.phase == "notice":
            self._word = state.detail
            return
        if state.phase == "refused":
            self.problem, self.busy = state.detail, None
            return
        kept = self.engine.drafters if self.engine is not None and not state.drafters else ()
        self.engine = replace(state, drafters=state.drafters or kept)
        self.refusal = state.detail if state.phase == "ready" and state.detail else None
        if state.phase == "ready" and not self._asked and self._request is not None:
            self._ask(self._request)

    def _take_comparison(self, told: Comparison) -> None:
        """Keep the latest table; a refusal says why, and leaves the one there is."""
        self.comparison_problem = told.detail
        if told.phase != "refused":
            self.comparison = told

    def _extend(self, event: RunEvent) -> None:
        if isinstance(event, RunFailed):
            self.problem = event.message
        try:
            if self._waiting is not None:
                self._waiting = self._waiting.extend(event)
            elif (self.live or not self._source.live) and not self._opened:
                self.trace = self.trace.extend(event)
        except ValueError as error:
            self.problem = f"The engine sent events out of order: {error}."

    def _switch(self) -> None:
        assert self._waiting is not None
        self._note()
        self.trace, self._waiting = self._waiting, None
        self.live = self._source.live
        self.stage += 1
        self._shown, self._shown_before = self._shown_before, 0

    # --- run files -------------------------------------------------------------------------

    def open(self, trace: Trace) -> None:
        """Put a recorded run on stage. A live run goes on behind it."""
        self._note()
        if self.live and self._waiting is None:
            self._waiting, self._shown_before = self.trace, self._shown
        self.trace, self.live, self._opened = trace, False, True
        self.problem = None
        self.stage += 1

    def resume(self) -> None:
        """Let the live run have the stage again, where it was."""
        self._opened = False

    # --- asking ----------------------------------------------------------------------------

    def start(self, request: Start) -> None:
        """Ask for a new run, now or as soon as the engine is ready."""
        self._request, self._asked, self._opened = request, False, False
        self.problem = None
        if self.engine is not None and self.engine.phase == "ready" and self.fault is None:
            self._ask(request)

    def change(self, settings: Settings) -> None:
        """Ask for other settings. Repeat each frame: one change is under way at a time."""
        if settings == self._asked_settings or self._source.changing:
            return
        if self._request is not None:
            self._request = replace(self._request, settings=settings)
        self._asked_settings, self.refusal = settings, None
        if self._asked:
            self._send(Change(settings))

    def shown(self, rounds: int) -> None:
        """The picture has begun to show this many rounds of the run on stage."""
        if self.live and rounds > self._shown:
            self._shown = rounds
            self._send(Shown(rounds))

    @property
    def comparing(self) -> bool:
        """A comparison is going on."""
        going = self.comparison is not None and self.comparison.phase == "measuring"
        return going and self.fault is None

    def compare(self, request: Compare) -> None:
        """Ask for a comparison, beside whatever run goes on."""
        self.comparison_problem = ""
        self._send(request)

    def stop_comparing(self) -> None:
        """End it; what was measured stays."""
        self._send(StopComparing())

    def restart(self) -> None:
        """Replace a dead engine; the last run asked for starts anew when it is ready."""
        if self.comparison is not None and self.comparison.phase == "measuring":
            self.comparison = replace(self.comparison, phase="stopped", now="")
        self.engine = self.busy = self._waiting = None
        self._asked = False
        self._source.restart()

    def _ask(self, request: Start) -> None:
        self._asked = True
        self._asked_settings = request.settings
        self._send(request)

    def _send(self, request: Request) -> None:
        self._source.send(request)
