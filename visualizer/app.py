"""One show: source → trace → timeline → clock → picture → panels, one `step` at a time.

The window and the recorder both drive this very class; the one hands in real seconds, the
other exact fractions. It knows no window library and draws into the renderer's picture only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from visualizer import actions as act
from visualizer import gallery, keymap, microscope, palette, runfiles
from visualizer.actions import Action, ClockAction, RunAction, StageAction, ViewAction
from visualizer.clock import PlaybackClock, carried_out
from visualizer.config import HOLD_SECONDS, Badge, ShowOptions
from visualizer.feed import Feed
from visualizer.furniture import Furniture
from visualizer.meter import PARTS
from visualizer.microscope import Specimen
from visualizer.opening import empty_stage, first_state, nothing_to_tell, request_of
from visualizer.palette import Entry
from visualizer.preferences import Preferences, applied
from visualizer.render.imgui_pass import ImguiPass
from visualizer.render.renderer import Renderer
from visualizer.sight import Sight
from visualizer.stage.frame import Frame
from visualizer.stage.hud import Hud
from visualizer.stage.scene import Scene
from visualizer.stage.schedule import BRISKEST
from visualizer.stage.timeline import Timeline
from visualizer.stage.view import CALM, View, unflickering
from visualizer.state import Gallery, PromptDraft, left, reduce
from visualizer.ui.layout import Layout, arrange
from visualizer.ui.model import EngineView, UiModel
from visualizer.ui.overlay import Cursor, Overlay

MESSAGE_SECONDS = 4.0
_REMEMBERED = (
    "From the next run on, replies to your own prompts are not remembered.",
    "From the next run on, replies to your own prompts are remembered.",
)
_BEFORE = 1e-4
"""Seconds before a round's start at which the picture waits when that round is held back."""


class App:
    """The show. `handle` takes actions at any time; `step` makes the next picture."""

    def __init__(
        self,
        renderer: Renderer,
        overlay: Overlay,
        scene: Scene,
        feed: Feed,
        options: ShowOptions,
        badge: Badge | None = None,
        program: Callable[[Action], None] | None = None,
    ) -> None:
        """`program` is handed what only a window can do, when a panel asks for it."""
        self.renderer = renderer
        self.overlay = overlay
        self.clock = PlaybackClock()
        self.spent: dict[str, float] = {}  # seconds the last picture took, by part
        self.profile: tuple[str, ...] = ()  # lines of the overlay that tells such things
        self._scene = scene
        self._feed = feed
        self._options = options
        self._badge = badge
        self._program = program
        self._pass = ImguiPass(renderer.context)
        self._trace = feed.trace
        self._timeline = self._compile(None)
        self._stage = feed.stage
        self._ratio = 1.0
        self._held = 0.0  # seconds the finished picture has been standing
        self._started: int | None = 0  # curated prompt of the last start
        self._message, self._message_left = "", 0.0
        self._picture: Frame | None = None  # the last one made
        self._pointer: tuple[float, float] | None = None
        self._pointed = 0  # pick id of what it rests on
        self._furniture = Furniture()
        self.state = first_state(options)

    # --- one frame -------------------------------------------------------------------------

    def step(self, elapsed: float) -> None:
        """Make the picture `elapsed` seconds after the last one."""
        begun = time.perf_counter()
        self._poll()
        self._advance(elapsed)
        self.spent["run"] = time.perf_counter() - begun
        for action in self.draw(elapsed):
            self.handle(action)

    def draw(self, elapsed: float = 0.0, panels: bool = True) -> list[Action]:
        """Draw this moment; without `panels` the stage, its words and its badge alone.

        Returns what was asked for by the panels since the last picture.
        """
        chosen, pointer = self.state, self._pointer
        if not panels:
            bare = replace(chosen, ui_visible=False, selected=0, help_visible=False)
            self.state = replace(bare, gallery=Gallery())
            self._pointer = None
        times = [time.perf_counter()]
        try:
            frame = self._picture = self._frame()
            times.append(time.perf_counter())
            self.renderer.draw(frame, self._layout().stage)
            times.append(time.perf_counter())
            width, height = self.renderer.size
            size = (width / self._ratio, height / self._ratio)
            actions = self.overlay.frame(self.model(), size, self._ratio, elapsed)
        finally:
            self.state, self._pointer = chosen, pointer
        times.append(time.perf_counter())
        self._pass.render(self.overlay.draw_data, self.renderer.picture)
        times.append(time.perf_counter())
        took = (after - before for before, after in pairwise(times))
        self.spent.update(zip(PARTS[1:], took, strict=True))
        return actions

    def draw_with(self, renderer: Renderer, panels: bool) -> None:
        """Draw this moment into another renderer's picture: of its size, at its quality.

        Panels keep their share of the height; passing messages are left out. What is pressed in
        the panels meanwhile is the window's.
        """
        kept, ratio, told = self.renderer, self._ratio, self._message_left
        self._message_left = 0.0
        self.renderer, self._ratio = renderer, ratio * renderer.size[1] / kept.size[1]
        try:
            self.draw(panels=panels)
        finally:
            self.renderer, self._ratio, self._message_left = kept, ratio, told

    def passes(self) -> dict[str, float]:
        """Draw the stage of this moment once more and say how many seconds each pass took."""
        return self.renderer.profile(self._frame(), self._layout().stage)

    def resize(self, width: int, height: int, ratio: float) -> None:
        """The picture is `width` x `height` pixels, `ratio` of them to a window unit."""
        self._ratio = ratio
        self.renderer.resize((width, height))

    def say(self, message: str) -> None:
        """Show a passing message."""
        self._message, self._message_left = message, MESSAGE_SECONDS

    def prefer(self, kept: Preferences) -> None:
        """Look as the viewer wanted it to the last time."""
        self.state = applied(self.state, kept)
        self.clock = self.clock.at_speed(kept.speed)

    @property
    def cursor(self) -> Cursor:
        """A hand over whatever can be clicked."""
        return "hand" if self._pointed else self.overlay.cursor

    @property
    def timeline(self) -> Timeline | None:
        """The compiled run on stage; None before there is one."""
        return self._timeline

    @property
    def end(self) -> float:
        """Seconds of the timeline that may be shown now."""
        allowed = self._feed.rounds_allowed
        spans = self._timeline.spans if self._timeline is not None else ()
        if allowed is not None and allowed < len(spans):
            return max(spans[allowed].start - _BEFORE, 0.0)
        return spans[-1].end if spans else 0.0

    @property
    def finished(self) -> bool:
        """The whole run has been shown."""
        return self._trace.end is not None and self.clock.t >= self.end

    # --- actions ---------------------------------------------------------------------------

    def handle(self, action: Action) -> None:
        """Carry out an action of the viewer. Those of the program itself are the window's."""
        if isinstance(action, act.OpenPalette):
            self.state = reduce(self.state, action)
            if action.sheet == "save":
                header = self._trace.header
                name = f"{header.run_id if header is not None else 'run'}.jsonl"
                place = Path(self.state.folder or Path.home()) / name
                self.state = reduce(self.state, act.Query(str(place)))
        elif isinstance(action, ViewAction):
            before, self.state = self.state, reduce(self.state, action)
            if isinstance(action, act.ToggleRemember):
                self.say(_REMEMBERED[self.state.remember])
            self._furniture = self._furniture.after(before, self.state)
            if isinstance(action, act.ToggleShotAlpha | act.ChooseShotSize):
                self.say(self.state.shots)
        elif isinstance(action, ClockAction):
            speed = self.clock.speed
            self.clock = carried_out(self.clock, action, self._timeline, self.end)
            if self.clock.speed != speed:
                self.say(f"Speed {self.clock.speed:g}x")
        elif isinstance(action, StageAction):
            self._look(action)
        elif isinstance(action, RunAction):
            self._run(action)
        elif self._program is not None:
            self._program(action)

    def leave(self) -> bool:
        """Leave the mode entered last; False when there is none."""
        if (state := left(self.state)) != self.state:
            self.state = state
        elif self.clock.loop is not None:
            self.clock = self.clock.unlooped()
        else:
            return False
        return True

    def _look(self, action: StageAction) -> None:
        line, selected = self._timeline, self.state.selected
        now = line.round_at(self.clock.t) if line is not None else -1
        match action:
            case act.PointAt(at):
                self._pointer = at
            case act.ClickAt(at):
                self.handle(act.Select(self._sight.under(at)))
            case act.InspectNext(steps) if line is not None and selected:
                self.handle(act.Select(microscope.next_to(line, selected, steps, now)))
            case act.Inspect() if selected:
                self.handle(act.Select(0))
            case _ if line is not None:
                self.handle(act.Select(microscope.first_of(line, now)))

    def _run(self, action: RunAction) -> None:
        match action:
            case act.RestartEngine():
                self._feed.restart()
            case act.StartRun():
                self._start()
            case act.OpenRun(path):
                self._file(path, self._open_run)
            case act.SaveRun(path):
                self._file(path, lambda place: runfiles.save(self._trace, place))
            case act.ForgetReplies():
                self.say(runfiles.forget_replies(self._options.replies))
            case act.StartComparing():
                prompts, offered = self._options.prompts, self._feed.offered
                if asked := gallery.request_of(self.state, prompts, offered):
                    self._feed.compare(asked)
            case act.StopComparing():
                self._feed.stop_comparing()
            case act.ShowLive():
                if self._feed.can_resume:
                    self._feed.resume()
                else:
                    self.say("There is no live run behind this one.")

    def _start(self) -> None:
        if self._feed.has_engine and self.state.prompt.text.strip():
            self._started = self.state.prompt.curated
            self._feed.start(request_of(self.state, self._options))
            self.clock = replace(self.clock, playing=True, stop_at=None)

    def _open_run(self, path: Path) -> str:
        self._feed.open(runfiles.read(path))
        self.clock = replace(self.clock, playing=True)
        back = f" · {keymap.keys_of(act.ShowLive())}: back to the live run"
        return f"Opened {path.name}{back if self._feed.has_engine else ''}"

    def _file(self, path: Path, deal: Callable[[Path], str]) -> None:
        """Open or save a run file, remember where, and say what came of it."""
        try:
            self.say(deal(path))
        except runfiles.RunFileError as error:
            self.say(str(error))
        else:
            self.state = replace(self.state, folder=str(path.resolve().parent))

    # --- the run ---------------------------------------------------------------------------

    def _poll(self) -> None:
        refused = self._feed.refusal
        self._feed.poll(may_switch=self.clock.playing)
        if self._feed.refusal not in (None, refused):
            self.say(self._feed.refusal or "")  # the dock, which says so too, may be hidden
        if self._feed.has_engine and not self.overlay.holding:
            self._feed.change(self.state.settings)
        fresh = self._feed.stage != self._stage
        if fresh or self._feed.trace is not self._trace:
            self._trace, self._stage = self._feed.trace, self._feed.stage
            self._timeline = self._compile(None if fresh else self._timeline)
        if fresh:
            spans, begun = self._timeline.spans if self._timeline else (), self._feed.begun
            t = spans[begun - 1].start if 0 < begun <= len(spans) else 0.0
            self.clock = replace(self.clock, t=t, stop_at=None, loop=None)
            self.state = replace(self.state, selected=0)
            self._held = 0.0

    def _compile(self, previous: Timeline | None) -> Timeline | None:
        if self._trace.header is None:
            return None
        return self._scene.timeline(self._trace, previous)

    def _advance(self, elapsed: float) -> None:
        self._message_left = max(self._message_left - elapsed, 0.0)
        self._furniture = self._furniture.advance(elapsed, self.state)
        stood = self.finished and self.clock.playing
        self.clock = self.clock.advance(elapsed, self.end)
        if self._timeline is not None:
            self._feed.shown(self._timeline.round_at(self.clock.t) + 1)
        self._held = self._held + elapsed if stood else 0.0
        if self._held >= HOLD_SECONDS and self._options.advances:
            self._held = 0.0
            self._next_run()

    def _next_run(self) -> None:
        """After a run: the prompt chosen meanwhile or the next one; a recording once more."""
        draft, prompts = self.state.prompt, self._options.prompts
        if not self._feed.live:
            self.clock = replace(self.clock, t=0.0)
        elif draft.curated is not None and prompts and not self._feed.starting:
            if draft.curated == self._started:
                index = (draft.curated + 1) % len(prompts)
                prompt = prompts[index]
                self.handle(act.ChoosePrompt(index, prompt.text, prompt.chat))
            self.handle(act.StartRun())

    # --- the picture -----------------------------------------------------------------------

    def _layout(self) -> Layout:
        width, height = self.renderer.size
        size = (width / self._ratio, height / self._ratio)
        return arrange(*size, self.state.ui_scale, self.state.ui_visible, self._furniture.drawn)

    def view(self) -> View:
        """How the viewer looks at the run now."""
        width, height = self.renderer.size
        state = self.state
        return View(
            width=width,
            height=height,
            theme=state.theme,
            preset=state.preset,
            orbit=unflickering(state.orbit, self.clock.speed),
            free=self._layout().free,
            selected=state.selected,
            reduce_motion=state.reduce_motion,
            calm=self.clock.speed > CALM,
            fast=self.clock.speed > BRISKEST,
            quality=self.renderer.quality,
            scale=state.ui_scale,
            glide=self._furniture.glide,
        )

    def _frame(self) -> Frame:
        if self._timeline is None:
            return empty_stage(self.view())
        return self._scene.compose(self._trace, self._timeline, self.clock.t, self.view())

    def _hud(self) -> Hud:
        if self._timeline is None:
            return nothing_to_tell()
        return self._scene.hud(self._trace, self._timeline, self.clock.t)

    def model(self) -> UiModel:
        """What the panels are told now."""
        hud = self._hud()
        feed, state, header = self._feed, self.state, self._trace.header
        recorded = feed.opened or not feed.has_engine
        if recorded and header is not None:  # the controls tell, they do not act
            draft = PromptDraft(header.prompt, header.chat, None)
            settings = hud.settings or header.settings
            state = replace(state, settings=settings, prompt=draft, dial="noise")
        live = feed.live or (header is None and feed.has_engine)
        sight = self._sight
        pointed = self._pointed = sight.under(self._pointer)
        return UiModel(
            state=state,
            clock=self.clock,
            hud=hud,
            timeline=self._timeline,
            badge=self._badge or ("LIVE" if live else "RECORDED"),
            header=header,
            engine=EngineView(
                expected=feed.has_engine,
                state=feed.engine,
                busy=feed.busy,
                starting=feed.starting,
                fault=feed.fault,
                problem=feed.problem,
                notice=feed.notice,
                refusal=feed.refusal,
                opened=feed.opened,
                resumable=feed.can_resume,
            ),
            prompts=self._options.prompts,
            profile=self.profile if state.ui_visible else (),
            message=self._message if self._message_left > 0 else "",
            renderer=str(self.renderer.context.info["GL_RENDERER"]),
            specimen=self._specimen(state.selected),
            pointed=self._specimen(pointed),
            outlines=sight.outlines(state.selected, pointed),
            drawn=self._furniture.drawn,
            gallery=gallery.view(self.state, feed, self._options.prompts, self._options.drafters),
            offers=self._offers(),
        )

    def _offers(self) -> tuple[Entry, ...]:
        """What the open palette offers for what is typed into it."""
        state, engine = self.state, self._feed.engine
        if state.palette is None:
            return ()
        query = state.palette.query
        match state.palette.sheet:
            case "open":
                own = (Path(state.folder),) if state.folder else ()
                return palette.run_files(query, (*self._options.run_folders, *own))
            case "save":
                return palette.copy_of(query)
        drafters = engine.drafters if engine is not None and not self._feed.opened else ()
        everything = palette.commands(state.settings, self._options.prompts, drafters)
        return palette.typed_size(query) + palette.matching(query, everything)

    def _specimen(self, picked: int) -> Specimen | None:
        if self._timeline is None:
            return None
        return microscope.specimen(self._timeline, self._trace.header, picked, self.clock.t)

    # --- the mouse (input.Projection) ------------------------------------------------------

    @property
    def _sight(self) -> Sight:
        now = self._timeline.round_at(self.clock.t) if self._timeline is not None else -1
        return Sight(self._picture, self.renderer.size, self._ratio, now)

    def world_per_pixel(self) -> float:
        """World units at the subject per window unit."""
        return self._sight.world_per_pixel()

    def offset_at(self, x: float, y: float) -> tuple[float, float]:
        """From the centre of the free rectangle to a window position, world units."""
        return self._sight.offset_at(x, y, self.view().free)

    def close(self) -> None:
        self._pass.release()
