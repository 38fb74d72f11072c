"""Everything a viewer can ask for, as frozen values. Keys, mouse, panels and tests speak these.

Actions on the view are carried out by `state.reduce`, which is pure; those on the playback
clock, the run or the program need more than the view and are carried out by `app` or `window`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.trace import Settings
from visualizer.dial import Dial
from visualizer.stage.view import Orbit, Preset, Quality

Tab = Literal["cards", "compare"]
"""What the gallery shows: a card a drafter, or the table of a comparison."""

Sheet = Literal["commands", "open", "save"]
"""What the command palette offers: everything, run files to open, or a place for a copy."""

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
class SetCamera:
    """A camera as it was copied: a preset and the offset from it."""

    preset: Preset
    orbit: Orbit


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
class SetUiScale:
    scale: float


@dataclass(frozen=True, slots=True)
class NextTheme:
    pass


@dataclass(frozen=True, slots=True)
class ChooseTheme:
    name: str


@dataclass(frozen=True, slots=True)
class ChooseQuality:
    """How finely the picture is drawn; None leaves it to what the renderer can do."""

    quality: Quality | None


@dataclass(frozen=True, slots=True)
class TogglePaint:
    """Colour the words of the text by where they came from, or plainly."""


@dataclass(frozen=True, slots=True)
class Select:
    """Put what has this pick id under the microscope; 0 takes it away."""

    pick: int


@dataclass(frozen=True, slots=True)
class OpenPalette:
    sheet: Sheet = "commands"


@dataclass(frozen=True, slots=True)
class ClosePalette:
    pass


@dataclass(frozen=True, slots=True)
class Query:
    """What is typed into the palette."""

    text: str


@dataclass(frozen=True, slots=True)
class Choose:
    """Go up or down the palette's list."""

    steps: int


@dataclass(frozen=True, slots=True)
class NextPanel:
    """Give the keyboard to a panel, then to the next one, and after the last to the stage."""


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


@dataclass(frozen=True, slots=True)
class ChooseDial:
    """What the quality slider acts through from now on, and the settings that come with it."""

    dial: Dial
    settings: Settings


@dataclass(frozen=True, slots=True)
class ToggleRemember:
    """Whether replies to one's own prompts are remembered and looked up, from the next run on."""


@dataclass(frozen=True, slots=True)
class OpenGallery:
    """Show the drafters there are, or how they compare."""

    tab: Tab = "cards"


@dataclass(frozen=True, slots=True)
class ToggleGallery:
    pass


@dataclass(frozen=True, slots=True)
class ChooseCard:
    """Look at this drafter in the gallery."""

    name: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Have these drafters measured in the next comparison, or leave them out."""

    names: tuple[str, ...]
    ticked: bool


@dataclass(frozen=True, slots=True)
class CompareOn:
    """Compare on the prompt in the box, rather than on one of each family of curated ones."""

    own_prompt: bool


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


@dataclass(frozen=True, slots=True)
class ToggleLoop:
    """Play the present round over and over, or go on."""


# --- actions on what lies on the stage -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class PointAt:
    """The pointer rests on the stage, window units from the top left; None: it does not."""

    at: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class ClickAt:
    """A click on the stage that moved nothing."""

    at: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Inspect:
    """Put the present round's first guess under the microscope, or put the microscope away."""


@dataclass(frozen=True, slots=True)
class InspectNext:
    """Move the microscope over the things of a round: the check, guesses, the last token."""

    steps: int


# --- actions on the run and the program ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartRun:
    """Begin a new run on what the prompt box holds."""


@dataclass(frozen=True, slots=True)
class RestartEngine:
    pass


@dataclass(frozen=True, slots=True)
class OpenRun:
    """Show a run file in place of what is on stage."""

    path: Path


@dataclass(frozen=True, slots=True)
class SaveRun:
    """Write the run on stage to a new file."""

    path: Path


@dataclass(frozen=True, slots=True)
class ShowLive:
    """Back from a run file to the live run."""


@dataclass(frozen=True, slots=True)
class ForgetReplies:
    """Remove every reply that is remembered."""


@dataclass(frozen=True, slots=True)
class StartComparing:
    """Measure the ticked drafters against each other, beside the run."""


@dataclass(frozen=True, slots=True)
class StopComparing:
    pass


@dataclass(frozen=True, slots=True)
class CopyText:
    """Put `text` into the clipboard; `says` is what people are told."""

    text: str
    says: str


@dataclass(frozen=True, slots=True)
class Screenshot:
    """A picture of the stage, or of the whole window with its panels."""

    panels: bool = False


@dataclass(frozen=True, slots=True)
class ChooseShotSize:
    """Pixels of the screenshots to come; None: those of the window."""

    size: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class ToggleShotAlpha:
    """Leave out the stage in screenshots and keep coverage, for compositing; or keep it in."""


@dataclass(frozen=True, slots=True)
class CopyCamera:
    pass


@dataclass(frozen=True, slots=True)
class PasteCamera:
    pass


@dataclass(frozen=True, slots=True)
class ResetPreferences:
    """Everything that is remembered from one show to the next, back to how it came."""


@dataclass(frozen=True, slots=True)
class Quit:
    pass


@dataclass(frozen=True, slots=True)
class ToggleCapture:
    """Start or end recording what the window shows."""


@dataclass(frozen=True, slots=True)
class ToggleFullScreen:
    pass


@dataclass(frozen=True, slots=True)
class Leave:
    """Esc: leave one mode. Palette, help, gallery, microscope, loop, black, then full screen."""


ViewAction = (
    ChooseShotSize | ToggleShotAlpha
    | ChoosePreset | OrbitBy | PanBy | ZoomBy | ResetView | SetCamera | ToggleUi | ToggleHelp
    | ToggleBlackout | ToggleReduceMotion | ScaleUi | SetUiScale | NextTheme | ChooseTheme
    | ChooseQuality | TogglePaint | Select | OpenPalette | ClosePalette | Query | Choose
    | NextPanel | EditPrompt | ChoosePrompt | ChangeSettings | ChooseDial | ToggleRemember
    | OpenGallery | ToggleGallery | ChooseCard | Tick | CompareOn
)  # fmt: skip
ClockAction = (
    TogglePlay | NextBeat | PreviousBeat | NextRound | PreviousRound | Seek | ShiftSpeed | SetSpeed
    | ToggleLoop
)  # fmt: skip
StageAction = PointAt | ClickAt | Inspect | InspectNext
RunAction = (
    StartRun | RestartEngine | OpenRun | SaveRun | ShowLive | ForgetReplies | StartComparing
    | StopComparing
)  # fmt: skip
ProgramAction = (
    Screenshot | ToggleCapture | ToggleFullScreen | Leave | CopyCamera | PasteCamera
    | ResetPreferences | CopyText | Quit
)  # fmt: skip
Action = ViewAction | ClockAction | StageAction | RunAction | ProgramAction
