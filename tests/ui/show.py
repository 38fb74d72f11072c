"""A show without a window: an app on the shared GL context and a source one can script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import moderngl

import scenes
from engine import codec
from engine.codec import Message
from engine.prompts import Prompt
from engine.requests import Change, Request, Shown, Start
from engine.trace import Trace
from visualizer.actions import Action
from visualizer.app import App
from visualizer.config import ShowOptions
from visualizer.feed import Feed
from visualizer.opening import opening_request
from visualizer.render.renderer import Renderer
from visualizer.ui.overlay import Overlay

HAND = Path(__file__).parent.parent / "data" / "hand.jsonl"

PROMPTS = tuple(
    Prompt(title=title, text=f"{title}?", chat=True, shows="", reply="", max_new_tokens=50)
    for title in ("First", "Second", "Third")
)


def hand_run() -> Trace:
    return codec.read_run(HAND)


class ScriptedSource:
    """A live source whose messages the test hands over; remembers every request."""

    def __init__(self, live: bool = True) -> None:
        self.live = live
        self.fault: str | None = None
        self.notice: str | None = None
        self.changing = False
        self.requests: list[Request] = []
        self.restarts = 0
        self._messages: list[Message] = []

    def say(self, *messages: Message) -> None:
        self._messages += messages

    def poll(self) -> list[Message]:
        messages, self._messages = self._messages, []
        return messages

    def send(self, request: Request) -> None:
        self.requests.append(request)
        if isinstance(request, Change):
            self.changing = True

    def restart(self) -> None:
        self.restarts += 1
        self.fault = None

    def close(self) -> None:
        pass

    def starts(self) -> list[Start]:
        return [each for each in self.requests if isinstance(each, Start)]

    def shown(self) -> list[int]:
        return [each.rounds for each in self.requests if isinstance(each, Shown)]


class Stage:
    """An app of `size` pixels, with everything it needs; `close` it."""

    def __init__(
        self,
        gl: moderngl.Context,
        source: ScriptedSource,
        opening: Trace | None = None,
        prompts: Sequence[Prompt] = PROMPTS,
        size: tuple[int, int] = (320, 240),
        program: Callable[[Action], None] | None = None,
    ) -> None:
        options = ShowOptions(prompts=tuple(prompts))
        self.source = source
        self.overlay = Overlay()
        self.renderer = Renderer(gl, size, "software")
        first = opening_request(options) if source.live else None
        feed = Feed(source, opening, first)
        self.app = App(
            self.renderer, self.overlay, scenes.CATALOG[0], feed, options, program=program
        )

    def step(self, seconds: float = 0.0, frames: int = 1) -> None:
        for _ in range(frames):
            self.app.step(seconds / frames)

    def close(self) -> None:
        self.app.close()
        self.overlay.close()
        self.renderer.release()
