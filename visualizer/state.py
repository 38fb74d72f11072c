"""What the viewer has chosen, as one frozen value; `reduce` alone changes it, and purely."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from engine.trace import Settings
from visualizer import actions as act
from visualizer.dial import Dial
from visualizer.stage.theme import THEMES
from visualizer.stage.view import NEAREST, PRESETS, Orbit, Preset, Quality

Panel = Literal["dock", "transport", "readouts", "microscope"]
MAX_K = 16
MAX_MATCH = 16
MAX_PROMPT = 20_000
"""Characters the prompt box keeps; the engine's own context limit is far below."""

PITCH_LIMIT = math.radians(80)
ZOOM_RANGE = (NEAREST[0], 4.0)
PAN_LIMIT = 40.0
UI_SCALES = (0.75, 2.5)
SHOT_SIDES = (16, 8192)
"""Pixels along a side of a screenshot: up to 8K, which any OpenGL 3.3 driver of today can hold."""


@dataclass(frozen=True, slots=True)
class PromptDraft:
    """What the prompt box holds. `curated` is the index of the curated prompt, or None."""

    text: str = ""
    chat: bool = True
    curated: int | None = 0


@dataclass(frozen=True, slots=True)
class Palette:
    """The open command palette: what it offers, what is typed, which line is chosen."""

    sheet: act.Sheet = "commands"
    query: str = ""
    chosen: int = 0


@dataclass(frozen=True, slots=True)
class Gallery:
    """The drafters side by side: what is looked at, and what a comparison leaves out.

    `chosen` is the drafter whose card is open, "" for the one in use.
    """

    open: bool = False
    tab: act.Tab = "cards"
    chosen: str = ""
    left_out: frozenset[str] = frozenset()
    own_prompt: bool = False


@dataclass(frozen=True, slots=True)
class ViewState:
    """Everything the viewer has chosen, apart from where the clock stands."""

    preset: Preset = "default"
    orbit: Orbit = field(default_factory=Orbit)
    theme: str = "dark"
    reduce_motion: bool = False
    ui_scale: float = 1.0
    ui_visible: bool = True
    help_visible: bool = False
    blackout: bool = False
    palette: Palette | None = None
    gallery: Gallery = field(default_factory=Gallery)
    panel: Panel | None = None  # among whose controls the keyboard moves
    painted: bool = False  # the text is coloured by where its words came from
    selected: int = 0  # pick id of what is under the microscope
    quality: Quality | None = None  # None: by the renderer found
    shot_size: tuple[int, int] | None = None  # of screenshots, pixels; None: the window's
    shot_alpha: bool = False  # screenshots are transparent where nothing stands
    folder: str = ""  # where a run file was last opened or saved
    dial: Dial = "noise"  # what the quality slider acts through
    remember: bool = True  # replies to one's own prompts
    settings: Settings = field(default_factory=Settings)
    prompt: PromptDraft = field(default_factory=PromptDraft)

    @property
    def shots(self) -> str:
        """What screenshots will be like, in words."""
        size = "{}x{}".format(*self.shot_size) if self.shot_size else "as large as the window"
        return f"Screenshots: {size}, {'transparent' if self.shot_alpha else 'with the stage'}"


def reduce(state: ViewState, action: act.ViewAction) -> ViewState:
    """Return the state after `action`; every value is kept within its range."""
    match action:
        case act.ChoosePreset(preset):
            return replace(state, preset=preset, orbit=Orbit()) if preset in PRESETS else state
        case act.OrbitBy() | act.PanBy() | act.ZoomBy():
            return replace(state, orbit=_moved(state.orbit, action))
        case act.ResetView():
            return replace(state, orbit=Orbit())
        case act.ToggleUi():
            return replace(state, ui_visible=not state.ui_visible)
        case act.ToggleHelp():
            return replace(_closed(state), help_visible=not state.help_visible)
        case act.ToggleBlackout():
            return replace(state, blackout=not state.blackout)
        case act.ToggleReduceMotion():
            return replace(state, reduce_motion=not state.reduce_motion)
        case act.ScaleUi(factor):
            return replace(state, ui_scale=_clamp(state.ui_scale * factor, *UI_SCALES))
        case act.SetCamera(preset, orbit):
            return replace(state, preset=preset, orbit=_kept(orbit)) if preset in PRESETS else state
        case act.SetUiScale(scale):
            return replace(state, ui_scale=_clamp(scale, *UI_SCALES))
        case act.ChooseTheme(name):
            return replace(state, theme=name) if name in THEMES else state
        case act.ChooseQuality(quality):
            return replace(state, quality=quality)
        case act.ChooseShotSize(size):
            low, high = SHOT_SIDES
            kept = size is None or low <= min(size) <= max(size) <= high
            return replace(state, shot_size=size) if kept else state
        case act.ToggleShotAlpha():
            return replace(state, shot_alpha=not state.shot_alpha)
        case act.TogglePaint():
            return replace(state, painted=not state.painted)
        case act.Select(pick):
            return replace(state, selected=max(pick, 0))
        case act.OpenPalette(sheet):
            return replace(_closed(state), palette=Palette(sheet), help_visible=False)
        case act.ClosePalette():
            return replace(state, palette=None)
        case act.Query(text) if state.palette is not None:
            return replace(state, palette=Palette(state.palette.sheet, text[:MAX_PROMPT]))
        case act.Choose(steps) if state.palette is not None:
            chosen = max(state.palette.chosen + steps, 0)
            return replace(state, palette=replace(state.palette, chosen=chosen))
        case act.Query() | act.Choose():
            return state
        case act.NextPanel():
            return replace(state, panel=_next_panel(state), ui_visible=True)
        case act.OpenGallery(tab):
            return _opened(state, tab)
        case act.ToggleGallery():
            return _closed(state) if state.gallery.open else _opened(state, state.gallery.tab)
        case act.ChooseCard() | act.Tick() | act.CompareOn():
            return replace(state, gallery=_looked(state.gallery, action))
        case act.NextTheme():
            return replace(state, theme=_after(state.theme, tuple(THEMES)))
        case act.EditPrompt(text, chat):
            return replace(state, prompt=PromptDraft(text[:MAX_PROMPT], chat, None))
        case act.ChoosePrompt(index, text, chat):
            return replace(state, prompt=PromptDraft(text, chat, index))
        case act.ChangeSettings(settings):
            dial = state.dial if settings.quality >= 100 else "noise"
            return replace(state, settings=within_range(settings), dial=dial)
        case act.ChooseDial(dial, settings):
            return replace(state, settings=within_range(settings), dial=dial)
        case act.ToggleRemember():
            return replace(state, remember=not state.remember)


def left(state: ViewState) -> ViewState:
    """Return the state without the mode entered last (Esc); the same one when there is none."""
    if state.palette is not None:
        return replace(state, palette=None)
    if state.help_visible:
        return replace(state, help_visible=False)
    if state.gallery.open:
        return _closed(state)
    if state.panel is not None:
        return replace(state, panel=None)
    if state.selected:
        return replace(state, selected=0)
    return replace(state, blackout=False)


def _opened(state: ViewState, tab: act.Tab) -> ViewState:
    """The gallery is open, on the card of the drafter in use; nothing lies over it."""
    gallery = replace(state.gallery, open=True, tab=tab, chosen="")
    return replace(state, gallery=gallery, palette=None, help_visible=False, blackout=False)


def _closed(state: ViewState) -> ViewState:
    return replace(state, gallery=replace(state.gallery, open=False))


def _looked(gallery: Gallery, action: act.ChooseCard | act.Tick | act.CompareOn) -> Gallery:
    match action:
        case act.ChooseCard(name):
            return replace(gallery, chosen=name)
        case act.Tick(names, ticked):
            left = gallery.left_out - {*names} if ticked else gallery.left_out | {*names}
            return replace(gallery, left_out=left)
        case act.CompareOn(own):
            return replace(gallery, own_prompt=own)


def _next_panel(state: ViewState) -> Panel | None:
    panels: tuple[Panel, ...] = get_args(Panel)
    there = [each for each in panels if each != "microscope" or state.selected]
    after = there.index(state.panel) + 1 if state.panel in there else 0
    return there[after] if after < len(there) else None


def _kept(orbit: Orbit) -> Orbit:
    """An orbit from outside, kept within what the mouse can reach; nonsense is the plain one."""
    if not all(map(math.isfinite, (orbit.yaw, orbit.pitch, orbit.zoom, *orbit.pan))):
        return Orbit()
    turned = _moved(
        Orbit(zoom=_clamp(orbit.zoom, *ZOOM_RANGE)), act.OrbitBy(orbit.yaw, orbit.pitch)
    )
    return replace(turned, pan=_panned(turned, *orbit.pan))


def _moved(orbit: Orbit, action: act.OrbitBy | act.PanBy | act.ZoomBy) -> Orbit:
    if isinstance(action, act.OrbitBy):
        pitch = _clamp(orbit.pitch + action.pitch, -PITCH_LIMIT, PITCH_LIMIT)
        return replace(orbit, yaw=math.remainder(orbit.yaw + action.yaw, math.tau), pitch=pitch)
    if isinstance(action, act.PanBy):
        return replace(orbit, pan=_panned(orbit, action.right, action.up))
    zoom = _clamp(orbit.zoom * action.factor, *ZOOM_RANGE)
    kept = 1.0 - zoom / orbit.zoom  # share of the offset the camera must move to hold the point
    return replace(orbit, zoom=zoom, pan=_panned(orbit, action.at[0] * kept, action.at[1] * kept))


def _panned(orbit: Orbit, right: float, up: float) -> tuple[float, float]:
    x, y = orbit.pan
    return (
        _clamp(x + right, -PAN_LIMIT, PAN_LIMIT),
        _clamp(y + up, -PAN_LIMIT, PAN_LIMIT),
    )


def within_range(settings: Settings) -> Settings:
    """Settings the engine accepts; what is not a number falls back to its default."""
    plain = Settings()
    return replace(
        settings,
        k=int(_clamp(settings.k, 0, MAX_K)),
        quality=_finite(settings.quality, plain.quality, 0.0, 100.0),
        temperature=_finite(settings.temperature, plain.temperature, 0.0, 2.0),
        top_k=max(int(settings.top_k), 0),
        top_p=_finite(settings.top_p, plain.top_p, 0.01, 1.0),
        min_p=_finite(settings.min_p, plain.min_p, 0.0, 1.0),
        longest_match=int(_clamp(settings.longest_match, 1, MAX_MATCH)),
        shortest_match=int(_clamp(settings.shortest_match, 1, settings.longest_match)),
    )


def _after(name: str, names: tuple[str, ...]) -> str:
    """The name after `name`, the first again after the last."""
    return names[(names.index(name) + 1) % len(names)] if name in names else names[0]


def _finite(value: float, default: float, low: float, high: float) -> float:
    return _clamp(value, low, high) if math.isfinite(value) else default


def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
