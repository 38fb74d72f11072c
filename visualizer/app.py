"""One show: source → trace → timeline → clock → picture → panels, one `step` at a time.

The window and the recorder both drive this very class; the one hands in real seconds, the
other exact fractions. It knows no window library and draws into the renderer's picture only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from math import tan

from engine.requests import Start
from engine.stats import Stats
from visualizer import actions as act
from visualizer import microscope
from visualizer.actions import Action, ClockAction, RunAction, StageAction, ViewAction
from visualizer.clock import PlaybackClock
from visualizer.config import HOLD_SECONDS, Badge, ShowOptions
from visualizer.errors import NeverDone
from visualizer.feed import Feed
from visualizer.microscope import Specimen
from visualizer.render.imgui_pass import ImguiPass
from visualizer.render.renderer import Renderer
from visualizer.stage import pick
from visualizer.stage.easing import ease
from visualizer.stage.frame import Camera, Frame
from visualizer.stage.hud import Hud
from visualizer.stage.scene import Scene
from visualizer.stage.theme import theme as theme_of
from visualizer.stage.timeline import Timeline
from visualizer.stage.view import Glide, View
from visualizer.state import PromptDraft, ViewState, left, reduce
from visualizer.ui.layout import arrange
from visualizer.ui.model import EngineView, Outline, UiModel
from visualizer.ui.overlay import Overlay

MESSAGE_SECONDS = 4.0
DRAWER_SECONDS = 0.22
GLIDE_SECONDS = 0.6
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
    ) -> None:
        self.renderer = renderer
        self.overlay = overlay
        self.clock = PlaybackClock()
        self._scene = scene
        self._feed = feed
        self._options = options
        self._badge = badge
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
        self._drawn = 0.0  # how far the microscope's drawer is out
        self._glide: Glide | None = None  # the camera's way to another preset
        self.state = _first_state(options)

    # --- one frame -------------------------------------------------------------------------

    def step(self, elapsed: float) -> None:
        """Make the picture `elapsed` seconds after the last one."""
        self._poll()
        self._advance(elapsed)
        frame = self._frame()
        self._picture = frame
        self.renderer.draw(frame)
        width, height = self.renderer.size
        size = (width / self._ratio, height / self._ratio)
        for action in self.overlay.frame(self.model(), size, self._ratio, elapsed):
            self.handle(action)
        self._pass.render(self.overlay.draw_data, self.renderer.picture)

    def resize(self, width: int, height: int, ratio: float) -> None:
        """The picture is `width` x `height` pixels, `ratio` of them to a window unit."""
        self._ratio = ratio
        self.renderer.resize((width, height))

    def say(self, message: str) -> None:
        """Show a passing message."""
        self._message, self._message_left = message, MESSAGE_SECONDS

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
        if isinstance(action, ViewAction):
            self._view_changed(reduce(self.state, action))
        elif isinstance(action, ClockAction):
            self.clock = self._moved(action)
        elif isinstance(action, StageAction):
            self._look(action)
        elif isinstance(action, RunAction):
            self._run(action)

    def leave(self) -> bool:
        """Leave the mode entered last; False when there is none."""
        if (state := left(self.state)) != self.state:
            self.state = state
        elif self.clock.loop is not None:
            self.clock = self.clock.unlooped()
        else:
            return False
        return True

    def _view_changed(self, state: ViewState) -> None:
        before, self.state = self.state, state
        if state.preset != before.preset and not state.reduce_motion:
            self._glide = Glide(before.preset, before.orbit, 0.0)

    def _look(self, action: StageAction) -> None:
        line, selected = self._timeline, self.state.selected
        now = line.round_at(self.clock.t) if line is not None else -1
        match action:
            case act.PointAt(at):
                self._pointer = at
            case act.ClickAt(at):
                self.handle(act.Select(self._under(at)))
            case act.InspectNext(steps) if line is not None and selected:
                self.handle(act.Select(microscope.next_to(line, selected, steps, now)))
            case act.Inspect() if selected:
                self.handle(act.Select(0))
            case _ if line is not None:
                self.handle(act.Select(microscope.first_of(line, now)))

    def _under(self, at: tuple[float, float]) -> int:
        """The pick id of what lies under a window position."""
        if self._picture is None or self._timeline is None:
            return 0
        x, y = at[0] * self._ratio, at[1] * self._ratio
        now = self._timeline.round_at(self.clock.t)
        return pick.hit(self._picture, x, y, *self.renderer.size, now)

    def _moved(self, action: ClockAction) -> PlaybackClock:
        clock = self._stepped(action)
        if clock.loop is None or clock.t == self.clock.t:
            return clock
        return self._looping(clock)  # the loop comes along to the round one went to

    def _stepped(self, action: ClockAction) -> PlaybackClock:
        clock, line = self.clock, self._timeline
        match action:
            case act.TogglePlay():
                return clock.toggled()
            case act.SetSpeed(speed):
                return clock.at_speed(speed)
            case act.ShiftSpeed(steps):
                return clock.shifted_speed(steps)
            case act.Seek(t):
                return clock.moved_to(t, self.end)
            case act.ToggleLoop():
                return self._looping(clock) if clock.loop is None else clock.unlooped()
        if line is None:
            return clock
        match action:
            case act.NextBeat():
                beat = line.next_beat(clock.stop_at if clock.stop_at is not None else clock.t)
                return clock.unlooped().stepped_to(beat)
            case act.PreviousBeat():
                return clock.moved_to(line.prev_beat(clock.t), self.end).paused()
            case act.NextRound():
                return clock.moved_to(line.next_round(clock.t), self.end)
            case act.PreviousRound():
                return clock.moved_to(line.prev_round(clock.t), self.end)

    def _looping(self, clock: PlaybackClock) -> PlaybackClock:
        """The clock looping over the round it stands in."""
        spans = self._timeline.spans if self._timeline is not None else ()
        if self._timeline is None or not spans:
            return clock
        here = spans[self._timeline.round_at(clock.t)]
        return clock.looping(here.start, here.end)

    def _run(self, action: RunAction) -> None:
        if isinstance(action, act.RestartEngine):
            self._feed.restart()
        elif self._feed.has_engine and self.state.prompt.text.strip():
            self._started = self.state.prompt.curated
            self._feed.start(self._request())
            self.clock = replace(self.clock, playing=True, stop_at=None)

    def _request(self) -> Start:
        draft = self.state.prompt
        prompts = self._options.prompts
        tokens = self._options.max_new_tokens
        if draft.curated is not None and draft.curated < len(prompts):
            tokens = min(tokens, prompts[draft.curated].max_new_tokens)
        return Start(draft.text, draft.chat, self.state.settings, self._options.seed, tokens)

    # --- the run ---------------------------------------------------------------------------

    def _poll(self) -> None:
        self._feed.poll(may_switch=self.clock.playing)
        if self._feed.has_engine and not self.overlay.holding:
            self._feed.change(self.state.settings)
        fresh = self._feed.stage != self._stage
        if fresh or self._feed.trace is not self._trace:
            self._trace, self._stage = self._feed.trace, self._feed.stage
            self._timeline = self._compile(None if fresh else self._timeline)
        if fresh:
            self.clock = replace(self.clock, t=0.0, stop_at=None, loop=None)
            self.state = replace(self.state, selected=0)
            self._held = 0.0

    def _compile(self, previous: Timeline | None) -> Timeline | None:
        if self._trace.header is None:
            return None
        return self._scene.timeline(self._trace, previous)

    def _advance(self, elapsed: float) -> None:
        self._message_left = max(self._message_left - elapsed, 0.0)
        self._move_furniture(elapsed)
        stood = self.finished and self.clock.playing
        self.clock = self.clock.advance(elapsed, self.end)
        if self._timeline is not None:
            self._feed.shown(self._timeline.round_at(self.clock.t) + 1)
        self._held = self._held + elapsed if stood else 0.0
        if self._held >= HOLD_SECONDS and self._options.advances:
            self._held = 0.0
            self._next_run()

    def _move_furniture(self, elapsed: float) -> None:
        """The drawer and the camera's way between presets: of the window, not of the run."""
        wanted = 1.0 if self.state.selected else 0.0
        step = 1.0 if self.state.reduce_motion else elapsed / DRAWER_SECONDS
        self._drawn += min(max(wanted - self._drawn, -step), step)
        if self._glide is not None:
            gone = self._glide.progress + elapsed / GLIDE_SECONDS
            self._glide = replace(self._glide, progress=gone) if gone < 1.0 else None

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

    def view(self) -> View:
        """How the viewer looks at the run now."""
        width, height = self.renderer.size
        state = self.state
        size = (width / self._ratio, height / self._ratio)
        layout = arrange(*size, state.ui_scale, state.ui_visible, ease(self._drawn))
        return View(
            width=width,
            height=height,
            theme=state.theme,
            preset=state.preset,
            orbit=state.orbit,
            free=layout.free,
            selected=state.selected,
            reduce_motion=state.reduce_motion,
            quality=self.renderer.quality,
            glide=self._glide,
        )

    def _frame(self) -> Frame:
        if self._timeline is None:
            return _empty_stage(self.view())
        return self._scene.compose(self._trace, self._timeline, self.clock.t, self.view())

    def _hud(self) -> Hud:
        if self._timeline is None:
            return nothing_to_tell()
        return self._scene.hud(self._trace, self._timeline, self.clock.t)

    def model(self) -> UiModel:
        """What the panels are told now."""
        hud = self._hud()
        feed, state, header = self._feed, self.state, self._trace.header
        if not feed.has_engine and header is not None:  # the controls tell, they do not act
            draft = PromptDraft(header.prompt, header.chat, None)
            state = replace(state, settings=hud.settings or header.settings, prompt=draft)
        pointed = self._under(self._pointer) if self._pointer is not None else 0
        return UiModel(
            state=state,
            clock=self.clock,
            hud=hud,
            timeline=self._timeline,
            badge=self._badge or ("LIVE" if feed.live or header is None else "RECORDED"),
            header=header,
            engine=EngineView(
                expected=feed.has_engine,
                state=feed.engine,
                busy=feed.busy,
                starting=feed.starting,
                fault=feed.fault,
                problem=feed.problem,
                notice=feed.notice,
            ),
            prompts=self._options.prompts,
            message=self._message if self._message_left > 0 else "",
            renderer=str(self.renderer.context.info["GL_RENDERER"]),
            specimen=self._specimen(state.selected),
            pointed=self._specimen(pointed),
            outlines=self._outlines(state.selected, pointed),
            drawn=ease(self._drawn),
        )

    def _specimen(self, picked: int) -> Specimen | None:
        if self._timeline is None:
            return None
        return microscope.specimen(self._timeline, self._trace.header, picked, self.clock.t)

    def _outlines(self, *picked: int) -> tuple[Outline, ...]:
        """Where these lie on the stage, window units."""
        if self._picture is None:
            return ()
        found = (pick.outline(self._picture, each, *self.renderer.size) for each in picked)
        ratio = self._ratio
        return tuple(
            (x0 / ratio, y0 / ratio, x1 / ratio, y1 / ratio)
            for x0, y0, x1, y1 in (each for each in found if each is not None)
        )

    # --- the mouse (input.Projection) ------------------------------------------------------

    def world_per_pixel(self) -> float:
        """World units at the subject per window unit."""
        if self._picture is None:
            return 0.0
        camera = self._picture.camera
        height = self.renderer.size[1] / self._ratio
        return 2 * math.dist(camera.eye, camera.look_at) * tan(camera.fov / 2) / height

    def offset_at(self, x: float, y: float) -> tuple[float, float]:
        """From the centre of the free rectangle to a window position, world units."""
        width, height = (side / self._ratio for side in self.renderer.size)
        x0, y0, x1, y1 = self.view().free
        scale = self.world_per_pixel()
        return ((x - width * (x0 + x1) / 2) * scale, (height * (1 - (y0 + y1) / 2) - y) * scale)

    def close(self) -> None:
        self._pass.release()


def _first_state(options: ShowOptions) -> ViewState:
    draft = PromptDraft()
    if options.prompts:
        draft = PromptDraft(options.prompts[0].text, options.prompts[0].chat, 0)
    return ViewState(
        preset=options.preset,
        theme=options.theme,
        ui_scale=options.ui_scale,
        ui_visible=options.ui_visible,
        reduce_motion=options.reduce_motion,
        settings=options.settings,
        prompt=draft,
    )


def _empty_stage(view: View) -> Frame:
    """Before any run: the stage alone."""
    camera = Camera((0.0, 6.0, 14.0), (0.0, 1.0, 0.0), 0.55, 0.5, 120.0, view.free)
    return Frame(camera, theme_of(view.theme).lighting, (0.0, 0.5, 0.0), 6.0)


def nothing_to_tell() -> Hud:
    """What the panels show before any run."""
    return Hud(
        phase="approach",
        round_index=-1,
        shown=0,
        settings=None,
        rounds=(),
        stats=Stats.of(()),
        histogram=(),
        ghost=(),
        prompt="",
        committed=(),
        pending=(),
        caption=(),
        compute_seconds=0.0,
        slowdown=0.0,
        end=None,
    )


def scene_named(catalog: Iterable[Scene], slug: str) -> Scene:
    """The scene of that name. Raises NeverDone naming those there are."""
    scenes = {scene.slug: scene for scene in catalog}
    if slug not in scenes:
        raise NeverDone(f"There is no scene {slug!r}; there is: {', '.join(scenes)}.")
    return scenes[slug]


def opening_request(options: ShowOptions) -> Start | None:
    """The first live run of a show: its first curated prompt, if there is one."""
    if not options.prompts:
        return None
    first = options.prompts[0]
    tokens = min(options.max_new_tokens, first.max_new_tokens)
    return Start(first.text, first.chat, options.settings, options.seed, tokens)
