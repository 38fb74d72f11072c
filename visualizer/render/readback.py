"""Pictures on their way back from the graphics processor, while it draws the next ones.

Reading a picture at once waits until it is drawn. Here each is copied into a buffer of a small
ring, in order, and fetched when the ring has come round: by then the copy is long done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import moderngl
import numpy as np
from numpy.typing import NDArray

from visualizer.render.targets import straight

RING = 3  # pictures on their way


def upright(data: bytes, size: tuple[int, int], channels: int) -> NDArray[np.uint8]:
    """What GL reads from a picture as (height, width, channels), row 0 on top, RGBA straight."""
    rows = np.frombuffer(data, np.uint8).reshape(size[1], size[0], channels)
    turned = np.array(rows[::-1])
    return straight(turned) if channels == 4 else turned


class Readback:
    """A ring of pixel buffers for pictures of one size, RGB or (4 `channels`) straight RGBA."""

    def __init__(self, context: moderngl.Context, size: tuple[int, int], channels: int = 3) -> None:
        self._size, self._channels = size, channels
        room = size[0] * size[1] * channels
        self._free = [context.buffer(reserve=room, dynamic=True) for _ in range(RING)]
        self._waiting: deque[moderngl.Buffer] = deque()

    def take(self, picture: moderngl.Framebuffer) -> bytes | None:
        """Ask for `picture` as it is now; returns an earlier one's bytes once the ring is full."""
        done = self._fetch() if not self._free else None
        buffer = self._free.pop()
        picture.read_into(buffer, components=self._channels, alignment=1)
        self._waiting.append(buffer)
        return done

    def rest(self) -> Iterator[bytes]:
        """The pictures still on their way, in order."""
        while self._waiting:
            yield self._fetch()

    def release(self) -> None:
        for buffer in (*self._free, *self._waiting):
            buffer.release()

    def _fetch(self) -> bytes:
        buffer = self._waiting.popleft()
        self._free.append(buffer)
        return upright(buffer.read(), self._size, self._channels).tobytes()
