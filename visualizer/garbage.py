"""When Python looks for garbage: as a finished picture stands, never in the middle of a show.

A full collection reads every object there is and takes as long as two pictures or more. Pictures
leave nothing behind that only a full one would find; runs that were shown might.
"""

from __future__ import annotations

import gc

NEVER = 1 << 30  # collections of the middle generation


class Garbage:
    """From now on collects by itself only what is young; `close` puts the old ways back."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()
        gc.collect()
        gc.freeze()  # the program itself is no garbage: nobody need read it again
        gc.set_threshold(*self._before[:2], NEVER)
        self._stood = True

    def picture(self, finished: bool) -> None:
        """A picture was shown. In the first of a run that has `finished`, collect everything."""
        if finished and not self._stood:
            gc.collect()
        self._stood = finished

    def close(self) -> None:
        gc.set_threshold(*self._before)
        gc.unfreeze()
