"""Dear ImGui's draw lists, drawn into a picture by moderngl.

It owns the textures ImGui asks for and nothing else of the UI. Every call sets all the GL
state it needs; the renderer does the same, so neither can disturb the other. An ImGui
context must be current when a pass is made. ImGui's first frame is blank: whoever records
lets two frames go by.
"""

from __future__ import annotations

import ctypes
from typing import Any

import moderngl
import numpy as np
from imgui_bundle import imgui
from numpy.typing import NDArray

from visualizer.render import programs

UNIT = 0
VERTEX_FORMAT = "2f4 2f4 4f1"  # ImDrawVert: position, uv, colour as four bytes
ROOM = 1 << 16  # bytes to begin with; buffers grow by doubling


class ImguiPass:
    """Draws what ``imgui.render`` has left in its draw data."""

    def __init__(self, context: moderngl.Context) -> None:
        self._context = context
        imgui.get_io().backend_flags |= imgui.BackendFlags_.renderer_has_textures.value
        limit = context.info["GL_MAX_TEXTURE_SIZE"]
        platform = imgui.get_platform_io()
        platform.renderer_texture_max_width = platform.renderer_texture_max_height = limit
        self._program = programs.load(context, "panel")
        self._program["source"] = UNIT
        self._textures: dict[int, moderngl.Texture] = {}
        self._allocate(ROOM, ROOM)

    def render(self, data: imgui.ImDrawData, into: moderngl.Framebuffer) -> None:
        """Draw `data` over what `into` shows. Its framebuffer scale gives pixels per unit."""
        self._update_textures()
        width, height = data.display_size
        scale = tuple(data.framebuffer_scale)
        pixels = (round(width * scale[0]), round(height * scale[1]))
        if min(pixels) <= 0 or data.total_idx_count == 0:
            return
        self._upload(data)
        self._prepare(data, into, pixels)
        first = 0
        for commands in data.cmd_lists:
            for command in commands.cmd_buffer:
                box = _scissor(command.clip_rect, data.display_pos, scale, pixels)
                texture = self._textures.get(command.tex_ref.get_tex_id())
                if box is None or texture is None or command.elem_count == 0:
                    continue
                into.scissor = box
                texture.use(UNIT)
                self._array.render(
                    moderngl.TRIANGLES,
                    vertices=command.elem_count,
                    first=first + command.idx_offset,
                )
            first += commands.idx_buffer.size()
        into.scissor = (0, 0, *pixels)

    def release(self) -> None:
        """Free every GL object; ImGui will ask for its textures anew."""
        for texture in imgui.get_platform_io().textures:
            if texture.tex_id in self._textures:
                self._forget(texture)
        for each in (self._array, self._vertices, self._indices, self._program):
            each.release()

    def _prepare(
        self, data: imgui.ImDrawData, into: moderngl.Framebuffer, pixels: tuple[int, int]
    ) -> None:
        context = self._context
        context.clear_samplers()
        into.use()
        into.viewport = (0, 0, *pixels)
        into.color_mask = True, True, True, True
        context.enable_only(moderngl.BLEND)
        context.wireframe = False
        context.blend_equation = (moderngl.FUNC_ADD, moderngl.FUNC_ADD)
        context.blend_func = (  # type: ignore[assignment]  # separate factors are allowed
            moderngl.SRC_ALPHA,
            moderngl.ONE_MINUS_SRC_ALPHA,
            moderngl.ONE,
            moderngl.ONE_MINUS_SRC_ALPHA,
        )
        width, height = data.display_size
        x, y = data.display_pos
        self._program["to_clip"] = (
            2 / width,
            -2 / height,
            -1 - 2 * x / width,
            1 + 2 * y / height,
        )

    def _upload(self, data: imgui.ImDrawData) -> None:
        """All lists into one pair of buffers; indices are counted on across the lists."""
        points, order = data.total_vtx_count, data.total_idx_count
        if 4 * order > self._indices.size or points * imgui.VERTEX_SIZE > self._vertices.size:
            self._free_buffers()
            self._allocate(2 * points * imgui.VERTEX_SIZE, 8 * order)
        at = before = 0
        for commands in data.cmd_lists:
            vertices, indices = commands.vtx_buffer, commands.idx_buffer
            size, count = vertices.size(), indices.size()
            start = self._at[0] + before * imgui.VERTEX_SIZE
            ctypes.memmove(start, vertices.data_address(), size * imgui.VERTEX_SIZE)
            ctypes.memmove(self._at[1] + 4 * at, indices.data_address(), 4 * count)
            self._order[at : at + count] += before
            before += size
            at += count
        self._vertices.orphan()
        self._indices.orphan()
        self._vertices.write(self._points[: points * imgui.VERTEX_SIZE])
        self._indices.write(self._order[:order])

    def _allocate(self, vertices: int, indices: int) -> None:
        """Room for so many bytes, and a copy of it on our side."""
        assert imgui.INDEX_SIZE == 4, "imgui was built with short indices"
        self._points = np.zeros(vertices, np.uint8)
        self._order = np.zeros(indices // 4, np.uint32)
        self._at = self._points.ctypes.data, self._order.ctypes.data
        self._vertices = self._context.buffer(reserve=vertices, dynamic=True)
        self._indices = self._context.buffer(reserve=indices, dynamic=True)
        content = [(self._vertices, VERTEX_FORMAT, "position", "uv", "color")]
        self._array = self._context.vertex_array(self._program, content, self._indices)

    def _free_buffers(self) -> None:
        for each in (self._array, self._vertices, self._indices):
            each.release()

    def _update_textures(self) -> None:
        for texture in imgui.get_platform_io().textures:
            status = texture.status
            if status == imgui.ImTextureStatus.want_create:
                self._create(texture)
            elif status == imgui.ImTextureStatus.want_updates:
                self._update(texture)
            elif status == imgui.ImTextureStatus.want_destroy and texture.unused_frames > 0:
                self._forget(texture)

    def _create(self, texture: imgui.ImTextureData) -> None:
        size = (texture.width, texture.height)
        made = self._context.texture(size, 4, _pixels(texture).tobytes())
        made.filter = (moderngl.LINEAR, moderngl.LINEAR)
        made.repeat_x = made.repeat_y = False
        self._textures[made.glo] = made
        texture.set_tex_id(made.glo)
        texture.status = imgui.ImTextureStatus.ok

    def _update(self, texture: imgui.ImTextureData) -> None:
        pixels, made = _pixels(texture), self._textures[texture.tex_id]
        for part in texture.updates:
            rows = pixels[part.y : part.y + part.h, part.x : part.x + part.w]
            made.write(
                np.ascontiguousarray(rows).tobytes(), viewport=(part.x, part.y, part.w, part.h)
            )
        texture.status = imgui.ImTextureStatus.ok

    def _forget(self, texture: imgui.ImTextureData) -> None:
        made = self._textures.pop(texture.tex_id, None)
        if made is not None:
            made.release()
        texture.set_tex_id(0)
        texture.status = imgui.ImTextureStatus.destroyed


def _pixels(texture: imgui.ImTextureData) -> NDArray[np.uint8]:
    """(height, width, 4)"""
    flat = np.asarray(texture.get_pixels_array(), np.uint8)
    return flat.reshape(texture.height, texture.width, 4)


def _scissor(
    clip: Any, origin: Any, scale: tuple[float, ...], pixels: tuple[int, int]
) -> tuple[int, int, int, int] | None:
    """The clip rectangle in pixels from the lower left; None when nothing of it is inside."""
    left = max(int((clip.x - origin.x) * scale[0]), 0)
    top = max(int((clip.y - origin.y) * scale[1]), 0)
    right = min(int((clip.z - origin.x) * scale[0]), pixels[0])
    bottom = min(int((clip.w - origin.y) * scale[1]), pixels[1])
    if right <= left or bottom <= top:
        return None
    return left, pixels[1] - bottom, right - left, bottom - top
