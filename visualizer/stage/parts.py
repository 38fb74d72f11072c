"""The arrays of a frame while they are being gathered."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visualizer.stage.frame import joined
from visualizer.stage.theme import RGB

Rows = NDArray[np.void]


class Parts:
    """Lists of rows by the name of the frame's array they belong to."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Rows]] = {}

    def add(self, name: str, rows: Rows) -> None:
        if len(rows):
            self._rows.setdefault(name, []).append(rows)

    def mark(self, selected: int, color: RGB) -> None:
        """Give the block with pick id `selected` an edge of that colour."""
        for name in ("solids", "glass") if selected else ():
            for index, rows in enumerate(self._rows.get(name, ())):
                chosen = rows["pick"] == selected
                if chosen.any():
                    marked = rows.copy()  # rows may be remembered by whoever made them
                    marked["edge_color"][chosen] = (*color, 1.0)
                    self._rows[name][index] = marked

    def arrays(self) -> dict[str, Rows]:
        """One array per name, for `Frame`."""
        return {name: joined(rows) for name, rows in self._rows.items()}
