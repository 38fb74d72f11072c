"""A mesh, its instances and the programs that draw them."""

from __future__ import annotations

from collections.abc import Mapping

import moderngl
import numpy as np
from numpy.typing import NDArray

from visualizer.render.geometry import Mesh
from visualizer.render.programs import layout


class Primitive:
    """Draws one mesh many times.

    `programs` are variants (colour, depth only…) over the same vertices. Without a dtype the
    mesh is drawn once, by itself.
    """

    def __init__(
        self,
        context: moderngl.Context,
        programs: Mapping[str, moderngl.Program],
        mesh: Mesh,
        dtype: np.dtype[np.void] | None = None,
    ) -> None:
        self._context = context
        self.programs = dict(programs)
        self._dtype = dtype
        self._vertex_dtype: np.dtype[np.void] = mesh.vertices.dtype
        self._vertices = context.buffer(mesh.vertices.tobytes())
        self._indices = context.buffer(mesh.indices.tobytes())
        self._index_count = len(mesh.indices)
        self._instances: moderngl.Buffer | None = None
        self._arrays: dict[str, moderngl.VertexArray] = {}
        self._shown: NDArray[np.void] | None = None  # instances that can never change
        self.count = 1
        if dtype is None:
            self._bind()
        else:
            self._grow(16)
            self.count = 0

    def upload(self, instances: NDArray[np.void]) -> None:
        """Make `instances` what the next draws show.

        The very array of the last time is there already, if it is one nobody may write to.
        """
        assert self._dtype is not None
        if instances is self._shown:
            return
        self._shown = None if instances.flags.writeable else instances
        assert instances.dtype == self._dtype, f"{instances.dtype} is not {self._dtype}"
        self.count = len(instances)
        if self.count == 0:
            return
        assert self._instances is not None
        if instances.nbytes > self._instances.size:
            self._grow(2 * self.count)
        self._instances.orphan()
        self._instances.write(np.ascontiguousarray(instances))

    def draw(self, variant: str = "color", part: tuple[int, int] = (0, 1)) -> None:
        """Draw every instance. `part` (index, of how many) selects a share of the mesh."""
        if self.count:
            share = self._index_count // part[1]
            self._arrays[variant].render(
                moderngl.TRIANGLES, vertices=share, first=share * part[0], instances=self.count
            )

    def release(self) -> None:
        for array in self._arrays.values():
            array.release()
        for buffer in (self._vertices, self._indices, self._instances):
            if buffer is not None:
                buffer.release()

    def _grow(self, instances: int) -> None:
        assert self._dtype is not None
        if self._instances is not None:
            self._instances.release()
        self._instances = self._context.buffer(
            reserve=instances * self._dtype.itemsize, dynamic=True
        )
        self._bind()

    def _bind(self) -> None:
        for array in self._arrays.values():
            array.release()
        self._arrays = {
            variant: self._context.vertex_array(program, self._content(program), self._indices)
            for variant, program in self.programs.items()
        }

    def _content(self, program: moderngl.Program) -> list[tuple[object, ...]]:
        text, names = layout(program, self._vertex_dtype, per_instance=False)
        content: list[tuple[object, ...]] = [(self._vertices, text, *names)]
        if self._dtype is not None:
            text, names = layout(program, self._dtype, per_instance=True)
            content.append((self._instances, text, *names))
        return content
