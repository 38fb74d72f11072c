"""A virtual display to drive the real window on: Xvfb, xdotool, screenshots."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

ROOT = Path(__file__).parents[2]
TOOLS = ("Xvfb", "xdotool", "import")
PATIENCE = 90.0  # seconds; software GL on busy cores is slow


def missing_tools() -> list[str]:
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def wait_for(what: str, holds: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Poll until `holds()` is true. Fails the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.1)


class Display:
    """An X display of `size`; `extra` are further options of Xvfb."""

    def __init__(self, size: tuple[int, int], *extra: str) -> None:
        read, write = os.pipe()
        screen = f"{size[0]}x{size[1]}x24"
        # Without -noreset the server starts afresh whenever its last client leaves, and a
        # program that connects at that moment (xdotool has just asked for its window) is refused.
        self._server = subprocess.Popen(
            ["Xvfb", "-noreset", "-displayfd", str(write), "-screen", "0", screen, *extra],
            pass_fds=[write],
            stderr=subprocess.DEVNULL,
        )
        os.close(write)
        with os.fdopen(read) as numbers:
            self.name = f":{numbers.readline().strip()}"

    def close(self) -> None:
        self._server.terminate()
        self._server.wait(10)

    def tool(self, *words: str) -> bytes:
        env = {**os.environ, "DISPLAY": self.name}
        return subprocess.run(words, env=env, capture_output=True, timeout=60, check=True).stdout

    def picture(self) -> NDArray[np.uint8]:
        """What the display shows, (height, width, 3)."""
        png = self.tool("import", "-window", "root", "png:-")
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))

    def settled(self) -> NDArray[np.uint8]:
        """A picture, once two in a row are equal."""
        last = self.picture()

        def still() -> bool:
            nonlocal last
            time.sleep(0.5)
            before, last = last, self.picture()
            return bool(np.array_equal(before, last))

        wait_for("the picture to stand still", still)
        return last

    # A frame may take a second here, and a press must find the pointer already there.

    def click(self, x: float, y: float) -> None:
        self.tool("xdotool", "mousemove", f"{x:.0f}", f"{y:.0f}", "sleep", "0.7", "click", "1")

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        (x0, y0), (x1, y1) = start, end
        move = ("mousemove", f"{x0:.0f}", f"{y0:.0f}", "sleep", "1.2", "mousedown", "1")
        there = ("sleep", "1.2", "mousemove", f"{x1:.0f}", f"{y1:.0f}", "sleep", "1.5")
        self.tool("xdotool", *move, *there, "mouseup", "1", "sleep", "0.5")

    def keys(self, *names: str) -> None:
        for name in names:
            self.tool("xdotool", "key", name)
            time.sleep(0.1)

    def type(self, text: str) -> None:
        self.tool("xdotool", "type", "--delay", "80", text)


@contextmanager
def program(display: str, data: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """``python main.py`` on `display`, with its own data folder; ended by Ctrl-C."""
    env = {
        **os.environ,
        "DISPLAY": display,
        "XDG_DATA_HOME": str(data),
        "VERIFYBOX_CONFIG": str(data / "config"),
        "LIBGL_ALWAYS_SOFTWARE": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "main.py", *arguments],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
