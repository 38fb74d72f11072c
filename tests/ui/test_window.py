"""The real window on a virtual display, driven by mouse and keys like a person would."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from desktop import ROOT, Display, missing_tools, program, wait_for
from numpy.typing import NDArray
from show import HAND

from engine import codec, prompts
from engine.codec import Message
from engine.stats import Stats
from engine.trace import EngineState, Rewind, Round, RunHeader, Settings
from visualizer.clock import PlaybackClock
from visualizer.opening import nothing_to_tell
from visualizer.stage.theme import theme
from visualizer.state import PromptDraft, ViewState
from visualizer.ui.layout import Rect, arrange
from visualizer.ui.model import EngineView, UiModel
from visualizer.ui.overlay import Overlay
from visualizer.ui.style import palette_of

pytestmark = pytest.mark.skipif(
    bool(missing_tools()), reason=f"this machine lacks {', '.join(missing_tools())}"
)

SIZE = (1000, 700)
SCREEN = (1200, 900)


@pytest.fixture
def display() -> Iterator[Display]:
    made = Display(SCREEN)
    yield made
    made.close()


def appears(display: Display, process: subprocess.Popen[str]) -> None:
    """Wait for the window's first picture and give it the size of these tests."""

    def there() -> bool:
        assert process.poll() is None, process.communicate()[1]
        try:
            display.tool("xdotool", "search", "--name", "VerifyBox")
        except subprocess.CalledProcessError:
            return False
        return bool(display.picture().any())

    wait_for("a window", there)
    resize(display, SIZE)


def resize(display: Display, size: tuple[int, int]) -> None:
    display.tool(
        "xdotool", "search", "--name", "VerifyBox", "windowsize", str(size[0]), str(size[1])
    )
    x, y = size[0] - 4, size[1] - 4
    wait_for(f"the picture to fill {size}", lambda: display.picture()[y, x].any())


def geometry(display: Display) -> str:
    """Place and size of the window."""
    words = ("xdotool", "search", "--name", "VerifyBox", "getwindowgeometry")
    try:
        return display.tool(*words).decode().partition("\n")[2]
    except subprocess.CalledProcessError:
        return ""  # full screen is a new window: for a moment there is none


def color(role: str) -> NDArray[np.int64]:
    return np.round(np.array(theme("dark").srgb(role)) * 255).astype(int)


# --- a recorded run ------------------------------------------------------------------------


def press_f11(display: Display, done: Callable[[], bool]) -> None:
    """Press until it is `done`: with no window manager, a key may miss the window being remade."""
    for _ in range(4):
        display.settled()
        if done():
            return
        display.keys("F11")
        with contextlib.suppress(AssertionError):
            wait_for("full screen to change", done, 20)
            return
    raise AssertionError("F11 changes nothing")


def test_keys_resize_and_leaving_on_a_recorded_run(display: Display, tmp_path: Path) -> None:
    with program(display.name, tmp_path, "replay", str(HAND)) as process:
        appears(display, process)
        display.tool("xdotool", "mousemove", "600", "300")
        display.keys("space")
        paused = display.settled()
        layout = arrange(*SIZE)
        dock = tuple(paused[int(layout.height) - 8, 4])
        assert tuple(paused[4, int(layout.dock.width) - 6]) == dock, "dock from top to bottom"

        display.keys("Tab")
        wait_for("the dock to go", lambda: tuple(display.picture()[SIZE[1] - 8, 4]) != dock)
        display.keys("Tab")
        wait_for("it to return", lambda: np.array_equal(display.picture(), paused))

        display.keys("3")
        top = display.settled()
        assert not np.array_equal(top, paused), "the Top camera shows another picture"
        display.keys("1")
        wait_for("the first camera", lambda: np.array_equal(display.picture(), paused))

        display.drag((600, 300), (660, 300))
        turned = display.settled()
        assert not np.array_equal(turned, paused), "a drag on the stage orbits"
        display.tool("xdotool", "mousemove", "600", "300")
        display.keys("r")
        wait_for("the view to be reset", lambda: np.array_equal(display.picture(), paused))

        display.drag((layout.dock.width / 2, SIZE[1] - 20), (600, 300))
        display.tool("xdotool", "mousemove", "600", "300")
        assert np.array_equal(display.settled(), paused), "a drag from a panel does not"

        for size in ((1150, 820), (800, 600)):
            resize(display, size)
            picture = display.settled()
            assert tuple(picture[size[1] - 8, 4]) == dock
            assert picture[4, size[0] - 4].any(), "the top right corner is drawn"

        windowed = geometry(display)  # G17: the same rectangle after every turn
        for _ in range(2):
            press_f11(display, lambda: f"{SCREEN[0]}x{SCREEN[1]}" in geometry(display))
            press_f11(display, lambda: geometry(display) == windowed)

        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.communicate()[1].strip() == ""


def test_microscope_palette_and_what_is_remembered(display: Display, tmp_path: Path) -> None:
    panel = tuple(round(255 * part) for part in palette_of("light").panel[:3])
    with program(display.name, tmp_path, "replay", str(HAND)) as process:
        appears(display, process)
        display.tool("xdotool", "mousemove", "600", "300")
        display.keys("space")
        paused = display.settled()
        display.keys("i")
        drawer = arrange(*SIZE, drawn=1.0).drawer
        corner = (int(drawer.bottom) - 6, int(drawer.x) + 6)
        dock = tuple(paused[SIZE[1] - 8, 4])
        wait_for("the microscope", lambda: tuple(display.picture()[corner]) == dock)
        display.keys("Escape")
        wait_for("it to go", lambda: np.array_equal(display.picture(), paused))

        display.keys("ctrl+k")
        display.type("theme light")
        display.keys("Return")
        wait_for("the light theme", lambda: tuple(display.picture()[SIZE[1] - 8, 4]) == panel)
        display.keys("Escape")
        display.settled()
        assert process.poll() is None, "Esc never quits"
        display.keys("slash")
        display.type("quit")
        display.keys("Return")
        assert process.wait(60) == 0
        assert process.communicate()[1] == ""
    with program(display.name, tmp_path, "replay", str(HAND)) as process:
        appears(display, process)
        wait_for("the same theme", lambda: tuple(display.picture()[SIZE[1] - 8, 4]) == panel)


# --- a live run ----------------------------------------------------------------------------


class LiveRun:
    """The window on a tiny live engine, and the run file it writes."""

    def __init__(self, display: Display, data: Path) -> None:
        self.display = display
        self._folder = data / "verifybox" / "runs"

    def events(self) -> list[Message]:
        """Of the newest run, as far as it is written."""
        files = sorted(self._folder.glob("*.jsonl")) if self._folder.is_dir() else []
        if not files:
            return []
        whole = files[-1].read_text(encoding="utf-8").rpartition("\n")[0]
        return [codec.decode(line) for line in whole.splitlines()]

    def header(self) -> RunHeader:
        return next(event for event in self.events() if isinstance(event, RunHeader))

    def rounds(self) -> list[Round]:
        return [event for event in self.events() if isinstance(event, Round)]

    def rewinds(self) -> list[Rewind]:
        return [event for event in self.events() if isinstance(event, Rewind)]

    def since_last_rewind(self) -> list[Round]:
        events = self.events()
        last = max(i for i, event in enumerate(events) if isinstance(event, Rewind))
        return [event for event in events[last:] if isinstance(event, Round)]

    def marks(self, settings: Settings) -> dict[str, Rect]:
        """Where the controls lie: the same panels laid out here, with the same contents."""
        header = self.header()
        curated = prompts.load(ROOT / "assets" / "prompts.json")
        draft = PromptDraft(curated[0].text, curated[0].chat, 0)
        model = UiModel(
            state=ViewState(settings=settings, prompt=draft),
            clock=PlaybackClock(),
            hud=nothing_to_tell(),
            timeline=None,
            badge="LIVE",
            header=header,
            engine=EngineView(expected=True, state=EngineState("ready")),
            prompts=curated,
        )
        overlay = Overlay()
        try:
            for _ in range(2):
                overlay.frame(model, SIZE, 1.0, 1 / 60)
            return overlay.marks
        finally:
            overlay.close()

    def histogram_centre(self, area: Rect) -> float:
        """Mean x of the histogram's bars on screen, 0 at its left and 1 at its right edge."""
        picture = self.display.picture().astype(int)
        part = picture[int(area.y) : int(area.bottom), int(area.x) : int(area.right)]
        bars = (np.abs(part - color("committed")) <= 2).all(axis=2)
        assert bars.any(), "the histogram shows no bar"
        return float(np.nonzero(bars)[1].mean()) / part.shape[1]


@pytest.fixture(scope="module")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model as small as can be: what is decoded is gibberish, and really decoded."""
    folder = tmp_path_factory.mktemp("tiny")
    script = Path(__file__).with_name("endless_model.py")
    subprocess.run([sys.executable, str(script), str(folder)], check=True)
    return folder


def start(display: Display, box: Rect, text: str) -> None:
    """Replace what the prompt box holds and start it from the keyboard."""
    display.click(box.x + box.width / 2, box.y + box.height / 2)
    display.keys("ctrl+a")
    display.type(text)
    display.keys("ctrl+Return")
    display.tool("xdotool", "mousemove", "600", "300")


@pytest.mark.timeout(600)
def test_quality_moves_the_histogram_left_and_k_acts_at_the_next_round(
    display: Display, tiny_target: Path, tmp_path: Path
) -> None:
    options = ("--target", str(tiny_target), "--drafter", "copy-8", "--max-new-tokens", "2000")
    with program(display.name, tmp_path, *options) as process:
        appears(display, process)
        run = LiveRun(display, tmp_path)
        display.tool("xdotool", "mousemove", "600", "300")
        display.keys(*["bracketright"] * 6)
        wait_for("the first live run", run.rounds)
        marks = run.marks(Settings(drafter="copy-8"))
        start(display, marks["prompt"], "Sing until you are told to stop")
        wait_for("the typed run", lambda: run.header().prompt.startswith("Sing until"))
        wait_for("some shown rounds", lambda: len(run.rounds()) >= 12)
        right = run.histogram_centre(marks["histogram"])
        before = Stats.of(run.rounds())

        dial = marks["quality"]
        middle = dial.y + dial.height / 2
        display.drag((dial.right - 8, middle), (dial.x + 2, middle))
        wait_for("the new quality to act", run.rewinds)
        assert run.rewinds()[-1].settings.quality == 0.0
        display.tool("xdotool", "mousemove", "600", "300")
        wait_for("rounds at the new quality", lambda: len(run.since_last_rewind()) >= 10)
        after = Stats.of(run.since_last_rewind())
        assert after.acceptance_rate is not None
        assert before.acceptance_rate is not None
        assert after.acceptance_rate < before.acceptance_rate / 2
        assert run.histogram_centre(marks["histogram"]) < right - 0.1

        written = len(run.since_last_rewind()) + run.rewinds()[-1].to_round
        field = marks["k-field"]
        display.click(field.x + field.width / 2, field.y + field.height / 2)
        display.keys("ctrl+a")
        display.type("2")
        display.keys("Return")
        wait_for("the new K to act", lambda: run.rewinds()[-1].settings.k == 2)
        wait_for("a round with it", lambda: len(run.since_last_rewind()) >= 1)
        assert run.rewinds()[-1].to_round <= written + 6, "rounds computed ahead are taken back"
        assert all(len(each.guesses) <= 2 for each in run.since_last_rewind())
        assert process.poll() is None


# --- where there is no window --------------------------------------------------------------


def said(display: str, data: Path) -> tuple[int, str]:
    """Exit code and stderr of a replay on that display."""
    with program(display, data, "replay", str(HAND)) as process:
        code = process.wait(60)
        return code, process.communicate()[1]


def test_no_display_is_one_sentence(tmp_path: Path) -> None:
    code, words = said(":987", tmp_path)
    assert code == 1
    assert "no display" in words
    assert len(words.strip().splitlines()) == 1


def test_no_gl_is_one_sentence(tmp_path: Path) -> None:
    bare = Display((800, 600), "-extension", "GLX")
    try:
        code, words = said(bare.name, tmp_path)
    finally:
        bare.close()
    assert code == 1
    assert "OpenGL 3.3" in words
    assert len(words.strip().splitlines()) == 1
