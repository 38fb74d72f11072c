"""The drafter gallery in the real window: opened by its key, walked, and a drafter put to work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from desktop import Display, missing_tools, program, wait_for
from test_window import SCREEN, SIZE, LiveRun, appears, tiny_target

from engine.trace import Settings
from visualizer.ui.style import palette_of

pytestmark = pytest.mark.skipif(
    bool(missing_tools()), reason=f"this machine lacks {', '.join(missing_tools())}"
)
__all__ = ["tiny_target"]  # a fixture of the other file


@pytest.fixture
def display() -> Iterator[Display]:
    made = Display(SCREEN)
    yield made
    made.close()


@pytest.mark.timeout(600)
def test_a_drafter_picked_in_the_gallery_goes_to_work_and_the_label_says_so(
    display: Display, tiny_target: Path, tmp_path: Path
) -> None:
    options = ("--target", str(tiny_target), "--drafter", "copy-8", "--max-new-tokens", "2000")
    with program(display.name, tmp_path, *options) as process:
        appears(display, process)
        run = LiveRun(display, tmp_path)
        display.tool("xdotool", "mousemove", "600", "300")
        wait_for("the first live run", run.rounds)
        field = run.marks(Settings(drafter="copy-8"))["drafter"]
        label = np.s_[int(field.y) : int(field.bottom), int(field.x) : int(field.right)]
        before = display.picture()[label]
        panel = np.round(255 * np.array(palette_of("dark").panel[:3])).astype(int)
        empty = (SIZE[1] // 2, int(SIZE[0] * 0.96) - 8)  # beside the open card, over the stage

        def is_open() -> bool:
            return bool((np.abs(display.picture()[empty].astype(int) - panel) <= 1).all())

        wait_for("a stage under that place", lambda: not is_open())
        display.keys("g")
        wait_for("the gallery", is_open)
        display.keys("Escape")
        wait_for("it to go", lambda: not is_open())
        display.keys("g")
        wait_for("the gallery again", is_open)
        display.keys("Up")  # from the card of copy-8 to one above it
        display.settled()
        display.keys("Return")
        wait_for("the drafter to change", run.rewinds)
        picked = run.rewinds()[-1].settings.drafter
        assert picked != "copy-8"
        wait_for("the stage to be seen again", lambda: not is_open())
        wait_for("its label", lambda: not np.array_equal(display.picture()[label], before))
        wait_for("rounds with it", lambda: len(run.since_last_rewind()) >= 2)
        assert all(each.settings.drafter == picked for each in run.since_last_rewind())
        assert process.poll() is None
