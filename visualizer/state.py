"""What the viewer has chosen, as one frozen value, and the actions that change it.

`reduce` is the only way a `ViewState` changes and it is pure: keys, mouse, panels and tests
all speak in actions. Actions on the playback clock or on the run (which need the timeline
or the engine) are defined here too and carried out by `app`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from engine.trace import Settings
from visualizer.stage.theme import THEMES
from visualizer.stage.view import PRESETS, Orbit, Preset

MAX_K = 16
MAX_PROMPT = 20_000
"""Characters the prompt box keeps; the engine's own context limit is far below."""

PITCH_LIMIT = math.radians(80)
ZOOM_RANGE = (0.25, 4.0)
PAN_LIMIT = 40.0
UI_SCALES = (0.75, 2.5)


@dataclass(frozen=True, slots=True)
class PromptDraft:
    """What the prompt box holds. `curated` is the index of the curated prompt, or None."""

    text: str = ""
    chat: bool = True
    curated: int | None = 0


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
    settings: Settings = field(default_factory=Settings)
    prompt: PromptDraft = field(default_factory=PromptDraft)


# --- actions on the view -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChoosePreset:
    preset: Preset


@dataclass(frozen=True, slots=True)
class OrbitBy:
    yaw: float  # radians
    pitch: float


@dataclass(frozen=True, slots=True)
class PanBy:
    right: float  # world units the camera moves
    up: float


@dataclass(frozen=True, slots=True)
class ZoomBy:
    """Change the distance by `factor`, keeping the point under the cursor where it is.

    `at` is that point's offset from the centre of the picture, world units at the subject.
    """

    factor: float
    at: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ResetView:
    pass


@dataclass(frozen=True, slots=True)
class ToggleUi:
    pass


@dataclass(frozen=True, slots=True)
class ToggleHelp:
    pass


@dataclass(frozen=True, slots=True)
class ToggleBlackout:
    pass


@dataclass(frozen=True, slots=True)
class ToggleReduceMotion:
    pass


@dataclass(frozen=True, slots=True)
class ScaleUi:
    factor: float


@dataclass(frozen=True, slots=True)
class NextTheme:
    pass


@dataclass(frozen=True, slots=True)
class EditPrompt:
    """The prompt box changed by hand."""

    text: str
    chat: bool


@dataclass(frozen=True, slots=True)
class ChoosePrompt:
    """A curated prompt was put into the box."""

    index: int
    text: str
    chat: bool


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """K, quality, temperature, drafter or mode; acts at the next round not yet shown."""

    settings: Settings


# --- actions on the clock ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TogglePlay:
    pass


@dataclass(frozen=True, slots=True)
class NextBeat:
    pass


@dataclass(frozen=True, slots=True)
class PreviousBeat:
    pass


@dataclass(frozen=True, slots=True)
class NextRound:
    pass


@dataclass(frozen=True, slots=True)
class PreviousRound:
    pass


@dataclass(frozen=True, slots=True)
class Seek:
    t: float


@dataclass(frozen=True, slots=True)
class ShiftSpeed:
    steps: int


@dataclass(frozen=True, slots=True)
class SetSpeed:
    speed: float


# --- actions on the run and the program ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartRun:
    """Begin a new run on what the prompt box holds."""


@dataclass(frozen=True, slots=True)
class RestartEngine:
    pass


@dataclass(frozen=True, slots=True)
class Screenshot:
    pass


@dataclass(frozen=True, slots=True)
class ToggleCapture:
    """Start or end recording what the window shows."""


@dataclass(frozen=True, slots=True)
class ToggleFullScreen:
    pass


@dataclass(frozen=True, slots=True)
class LeaveFullScreen:
    """Esc: close help, else leave full screen."""


ViewAction = (
    ChoosePreset | OrbitBy | PanBy | ZoomBy | ResetView | ToggleUi | ToggleHelp | ToggleBlackout
    | ToggleReduceMotion | ScaleUi | NextTheme | EditPrompt | ChoosePrompt | ChangeSettings
)  # fmt: skip
ClockAction = (
    TogglePlay | NextBeat | PreviousBeat | NextRound | PreviousRound | Seek | ShiftSpeed | SetSpeed
)
RunAction = StartRun | RestartEngine
ProgramAction = Screenshot | ToggleCapture | ToggleFullScreen | LeaveFullScreen
Action = ViewAction | ClockAction | RunAction | ProgramAction


def reduce(state: ViewState, action: ViewAction) -> ViewState:
    """Return the state after `action`; every value is kept within its range."""
    match action:
        case ChoosePreset(preset):
            return replace(state, preset=preset, orbit=Orbit()) if preset in PRESETS else state
        case OrbitBy() | PanBy() | ZoomBy():
            return replace(state, orbit=_moved(state.orbit, action))
        case ResetView():
            return replace(state, orbit=Orbit())
        case ToggleUi():
            return replace(state, ui_visible=not state.ui_visible)
        case ToggleHelp():
            return replace(state, help_visible=not state.help_visible)
        case ToggleBlackout():
            return replace(state, blackout=not state.blackout)
        case ToggleReduceMotion():
            return replace(state, reduce_motion=not state.reduce_motion)
        case ScaleUi(factor):
            return replace(state, ui_scale=_clamp(state.ui_scale * factor, *UI_SCALES))
        case NextTheme():
            return replace(state, theme=_after(state.theme, tuple(THEMES)))
        case EditPrompt(text, chat):
            return replace(state, prompt=PromptDraft(text[:MAX_PROMPT], chat, None))
        case ChoosePrompt(index, text, chat):
            return replace(state, prompt=PromptDraft(text, chat, index))
        case ChangeSettings(settings):
            return replace(state, settings=within_range(settings))


def _moved(orbit: Orbit, action: OrbitBy | PanBy | ZoomBy) -> Orbit:
    if isinstance(action, OrbitBy):
        pitch = _clamp(orbit.pitch + action.pitch, -PITCH_LIMIT, PITCH_LIMIT)
        return replace(orbit, yaw=math.remainder(orbit.yaw + action.yaw, math.tau), pitch=pitch)
    if isinstance(action, PanBy):
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
    )


def _after(name: str, names: tuple[str, ...]) -> str:
    """The name after `name`, the first again after the last."""
    return names[(names.index(name) + 1) % len(names)] if name in names else names[0]


def _finite(value: float, default: float, low: float, high: float) -> float:
    return _clamp(value, low, high) if math.isfinite(value) else default


def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
