"""A frame, drawn. `Renderer._passes` is the list of passes; everything else serves it.

The renderer draws into its own framebuffers only. A frame begins with one known state, whatever
the UI has left behind; every pass sets what else it needs, and puts back what is not its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import moderngl
import numpy as np
from numpy.typing import NDArray

from visualizer.render import batches, bloom, geometry, programs, uniforms
from visualizer.render.atlas import Atlas
from visualizer.render.context import collect, reset
from visualizer.render.primitive import Primitive
from visualizer.render.quality import Effort, effort
from visualizer.render.readback import upright
from visualizer.render.targets import WHOLE, Area, Targets, pixels
from visualizer.stage import frame as contract
from visualizer.stage import text
from visualizer.stage.frame import Frame
from visualizer.stage.view import Quality

SHADOW, ATLAS, MIRROR, SOURCE, SPILL = range(5)  # texture units
TIMED_EVERY = 16  # frames
OVER = (moderngl.ONE, moderngl.ONE_MINUS_SRC_ALPHA)  # premultiplied
ADD = (moderngl.ONE, moderngl.ONE)


class Renderer:
    """Pictures of `size` framebuffer pixels at one `quality`.

    `transparent` leaves out the stage and keeps coverage, for compositing.
    """

    def __init__(
        self,
        context: moderngl.Context,
        size: tuple[int, int],
        quality: Quality = "high",
        transparent: bool = False,
    ) -> None:
        self.context = context
        self.quality = quality
        self.transparent = transparent
        self._effort: Effort = effort(quality)
        self._smooths = self._effort.samples < 2
        self._surface: dict[str, str] = {}
        self._targets = Targets(context, size, self._effort)
        self._uniforms = context.buffer(reserve=uniforms.SCENE.itemsize, dynamic=True)
        self._atlas = Atlas(context, anisotropic=self._effort.reflections)
        self._shadow_texture = context.depth_texture((self._effort.shadow_size,) * 2)
        self._shadow_texture.compare_func = "<="
        self._shadow_texture.repeat_x = self._shadow_texture.repeat_y = False
        self._shadow = context.framebuffer(depth_attachment=self._shadow_texture)
        self._block = np.zeros((), uniforms.SCENE)
        self._lit: contract.Lighting | None = None  # what the last picture was toned for
        self._stopwatch = context.query(time=True)
        self._frames = 0
        self._build()

    @property
    def size(self) -> tuple[int, int]:
        return self._targets.size

    @property
    def channels(self) -> int:
        """Of what is read: RGB, or straight RGBA when transparent."""
        return 4 if self.transparent else 3

    @property
    def picture(self) -> moderngl.Framebuffer:
        """The result, 8-bit sRGB: panels are drawn into it after `draw`."""
        return self._targets.picture

    def resize(self, size: tuple[int, int]) -> None:
        """Draw at `size` from now on; a size of zero (minimised) changes nothing."""
        if size != self.size and min(size) > 0:
            former, self._targets = self._targets, Targets(self.context, size, self._effort)
            self._targets.picture.use()  # a framebuffer must not be released while bound
            former.release()

    def draw(self, frame: Frame, within: Area = WHOLE) -> None:
        """Draw `frame` into `picture`.

        Where panels hide the stage it need not be drawn: `within` is the rest, as fractions
        from the lower left. Outside of it the picture is one dark or bright ground.
        """
        self.context.clear_samplers()
        reset(self.context)
        self._targets.limit(within)
        self._upload(frame)
        timed = self._frames % TIMED_EVERY == 0
        with self._stopwatch if timed else nullcontext():
            for work in self._passes(frame).values():
                work()
        self._frames += 1
        collect(self.context)

    def profile(self, frame: Frame, within: Area = WHOLE) -> dict[str, float]:
        """Draw `frame` and say how many seconds each pass took.

        Every pass is waited for, which costs some 0.05 ms each: rasterisers on the CPU put work
        off until they must do it, and their own clocks blame whoever asks.
        """
        reset(self.context)
        self._targets.limit(within)
        self._upload(frame)
        seconds = {}
        for name, work in self._passes(frame).items():
            self.context.finish()
            start = time.perf_counter()
            work()
            self.context.finish()
            seconds[name] = time.perf_counter() - start
        return seconds

    def measured(self) -> float | None:
        """Seconds the graphics processor took for a frame; None where none was timed lately.

        Asked some frames after it was drawn, so that nobody waits for the answer.
        """
        if self._frames % TIMED_EVERY != TIMED_EVERY // 2:
            return None
        return float(self._stopwatch.elapsed) * 1e-9

    def _passes(self, frame: Frame) -> dict[str, Callable[[], None]]:
        """What a frame takes, in order."""
        return {
            "shadows": self._draw_shadows,
            "mirror": self._draw_mirror,
            "solid": self._draw_solid,
            "ground": self._draw_ground,
            "shards": self._draw_shards,
            "beams": self._draw_beams,
            "lettering": self._draw_lettering,
            "glass": self._draw_glass,
            "ribbons": self._draw_ribbons,
            "resolve": partial(self._targets.resolve, self.context),
            "bloom": self._spill_light,
            "finish": partial(self._finish, frame),
        }

    def present(self, window: moderngl.Framebuffer, size: tuple[int, int] | None = None) -> None:
        """Copy the picture onto `window`, filling `size` pixels of it (default: all)."""
        window.use()
        window.viewport = window.scissor = (0, 0, *(size or window.size))
        reset(self.context)
        self._state(moderngl.NOTHING)
        self._targets.picture_texture.use(SOURCE)
        self._copy.draw()

    def read(self) -> bytes:
        """The picture's bytes, rows from the top: RGB, or straight RGBA when transparent."""
        return self.pixels().tobytes()

    def pixels(self) -> NDArray[np.uint8]:
        """The picture, (height, width, 3 or 4) sRGB, row 0 on top."""
        data = self._targets.picture.read(components=self.channels, alignment=1)
        return upright(data, self.size, self.channels)

    def release(self) -> None:
        """Free every GL object."""
        for primitive in self._primitives:
            primitive.release()
        for program in self._programs:
            program.release()
        self.context.detect_framebuffer(0).use()
        self._targets.release()
        for each in (self._shadow, self._shadow_texture, self._atlas, self._uniforms):
            each.release()
        collect(self.context)

    # Building

    def _build(self) -> None:
        programs.register_includes(self.context)
        self._programs: list[moderngl.Program] = []
        self._primitives: list[Primitive] = []
        work = self._effort
        shading: dict[str, int | None] = {"TAPS": work.shadow_taps}
        if not work.reflections:
            shading["PLAIN"] = None
        floor = {**shading, "REFLECTION": None} if work.mirror else shading
        depth: dict[str, int | None] = {"DEPTH_ONLY": None}
        load, make, cracked = self._load, self._make, self._cracked
        screen = geometry.screen()
        shard = {"color": load("shard", shading), "depth": load("shard", depth)}
        self._solids = make(
            {**cracked("block", shading), "depth": load("block", depth)},
            geometry.rounded_box(work.bevel_steps),
            contract.BLOCK,
        )
        pane = geometry.two_sided_box(work.bevel_steps)
        frame: dict[str, int | None] = {**shading, "FRAME": None}
        matter: dict[str, int | None] = {**shading, "MATTER": None}
        self._glass = make(cracked("glass", shading), pane, contract.BLOCK)
        self._matter = make({"color": load("glass", matter)}, pane, contract.BLOCK)
        self._boxes = make({"color": load("glass", frame)}, pane, contract.BLOCK)
        self._contact = make({"color": load("contact")}, geometry.square(-1, 1), contract.BLOCK)
        self._tiles = make({"color": load("tile", shading)}, geometry.square(-1, 1), contract.TILE)
        self._spheres = make(
            {"color": load("sphere", shading), "depth": load("sphere", depth)},
            geometry.sphere(40 if work.reflections else 24),
            contract.SPHERE,
        )
        self._ghosts = make(
            {"color": load("sphere", {**shading, "GHOST": None})},
            geometry.sphere(40 if work.reflections else 24),
            contract.SPHERE,
        )
        self._shatters = [
            make(shard, geometry.pieces(pattern, wide), contract.SHATTER)
            for wide in contract.WIDTHS
            for pattern in range(contract.PATTERNS)
        ]
        self._glyphs = make(
            {"color": load("glyph"), "depth": load("glyph", depth)},
            geometry.square(0, 1),
            contract.GLYPH,
        )
        self._beams = make(
            {"color": load("beam", {"STEPS": work.beam_steps})}, geometry.pyramid(), contract.BEAM
        )
        self._ribbons = make({"color": load("ribbon")}, geometry.strip(48), contract.RIBBON)
        self._ground = make({"color": load("ground", floor)}, geometry.square(-1, 1))
        self._backdrop = make({"color": load("backdrop")}, screen)
        self._halve = make({"color": load("bloom", {"DOWN": None})}, screen)
        self._widen = make({"color": load("bloom")}, screen)
        finish: dict[str, int | None] = {"TRANSPARENT": None} if self.transparent else {}
        self._tone = make({"color": load("finish", finish)}, screen)
        smooth = load("finish", {**finish, "SMOOTH": None})
        self._edges = make({"color": smooth}, geometry.cube(), batches.EDGED)
        self._copy = make({"color": load("copy")}, screen)
        self._bind_samplers()

    def _load(self, name: str, defines: dict[str, int | None] | None = None) -> moderngl.Program:
        program = programs.load(self.context, name, defines)
        self._programs.append(program)
        return program

    def _cracked(self, name: str, defines: dict[str, int | None]) -> dict[str, moderngl.Program]:
        """The program, and its variant with hairlines."""
        return {
            "color": self._load(name, defines),
            "cracked": self._load(name, {**defines, "CRACKED": None}),
        }

    def _make(
        self,
        variants: dict[str, moderngl.Program],
        mesh: geometry.Mesh,
        dtype: np.dtype[np.void] | None = None,
    ) -> Primitive:
        primitive = Primitive(self.context, variants, mesh, dtype)
        self._primitives.append(primitive)
        return primitive

    def _bind_samplers(self) -> None:
        units = {
            "shadow_map": SHADOW,
            "atlas": ATLAS,
            "reflection": MIRROR,
            "source": SOURCE,
            "scene": SOURCE,
            "spill": SPILL,
        }
        for name, unit in units.items():
            programs.uniforms(self._programs, name, unit)
        programs.uniforms(self._programs, "spread", text.SPREAD)

    # Passes

    def _upload(self, frame: Frame) -> None:
        eye = np.array(frame.camera.eye, np.float32)
        self._surface = {
            name: "cracked" if (getattr(frame, name)["crack"] > 0).any() else "color"
            for name in ("solids", "glass")
        }
        self._solids.upload(frame.solids)
        self._glass.upload(batches.back_to_front(frame.glass, eye))
        self._matter.upload(frame.glass[frame.glass["fill"] > 0])
        self._boxes.upload(batches.back_to_front(frame.boxes, eye))
        self._contact.upload(contract.joined([frame.solids, frame.glass]))
        whole = frame.spheres["color"][:, 3] >= 1.0
        self._spheres.upload(frame.spheres[whole])
        self._ghosts.upload(batches.back_to_front(frame.spheres[~whole], eye))
        self._tiles.upload(frame.tiles)
        self._atlas.refresh()
        self._glyphs.upload(frame.glyphs)
        self._beams.upload(frame.beams)
        self._ribbons.upload(frame.ribbons)
        if self._smooths:
            self._edges.upload(batches.edged(frame))
        for primitive, pieces in zip(self._shatters, batches.cut(frame.shatters), strict=True):
            primitive.upload(pieces)
        self._block = uniforms.scene(frame, self.size, self._effort.shadow_size)
        self._write_uniforms(self._block)

    def _write_uniforms(self, block: NDArray[np.void]) -> None:
        self._uniforms.write(block.tobytes())
        self._uniforms.bind_to_uniform_block(0)

    def _draw_shadows(self) -> None:
        """Depth as the key light sees it, fitted to the present round."""
        self._shadow.use()
        self._shadow.clear(depth=1.0)
        self._state(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
        for primitive in (self._solids, self._spheres, *self._shatters):
            primitive.draw("depth")
        self._shadow_texture.use(SHADOW)
        self._atlas.texture.use(ATLAS)

    def _draw_mirror(self) -> None:
        """What the stage floor reflects: the scene seen from below, at half size."""
        mirror, texture = self._targets.mirror, self._targets.mirror_texture
        if mirror is None or texture is None:
            return
        self._write_uniforms(uniforms.mirrored(self._block))
        mirror.use()
        mirror.clear(0.0, 0.0, 0.0, 0.0, depth=1.0)
        self._state(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
        self.context.front_face = "cw"
        for primitive in (self._solids, *self._shatters):
            primitive.draw()
        self.context.disable(moderngl.CULL_FACE)
        self._matter.draw()
        self.context.front_face = "ccw"
        texture.build_mipmaps()
        texture.use(MIRROR)
        self._write_uniforms(self._block)

    def _draw_solid(self) -> None:
        target = self._targets.scene
        target.use()
        target.clear(0.0, 0.0, 0.0, 0.0, depth=1.0)
        self._state(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
        self._solids.draw(self._surface["solids"])
        self._spheres.draw()
        self._state(moderngl.DEPTH_TEST)
        self._matter.draw()

    def _draw_ground(self) -> None:
        """Behind everything: the gradient, the floor, and the dark at each block's foot."""
        self._state(moderngl.DEPTH_TEST)
        if not self.transparent:
            self._ground.draw()
            self._backdrop.draw()
        self._blend(OVER)
        self._tiles.draw()
        self._contact.draw()

    def _draw_shards(self) -> None:
        self._state(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
        self._blend(OVER, write_depth=True)
        for primitive in self._shatters:
            primitive.draw()

    def _draw_beams(self) -> None:
        """Before the lettering, whose ink no light may tint: words would fade in it."""
        self._state(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
        self._blend(OVER)
        self._beams.draw()

    def _draw_lettering(self) -> None:
        """Before the glass, so that it shows inside; its ink then hides the pane behind it."""
        self._state(moderngl.DEPTH_TEST)
        self._blend(OVER)
        if not self.transparent:  # lettering takes coverage away: the finish knows it by that
            alpha = moderngl.ZERO, moderngl.ONE_MINUS_SRC_ALPHA
            self.context.blend_func = (*OVER, *alpha)  # type: ignore[assignment]
        self._glyphs.draw()
        target = self._targets.scene
        target.color_mask = False, False, False, False
        target.depth_mask = True
        self._glyphs.draw("depth")
        target.color_mask = True, True, True, True

    def _draw_glass(self) -> None:
        """Verify boxes enclose guesses: their far walls first, their near walls last."""
        self._state(moderngl.DEPTH_TEST)
        self._blend(OVER)
        self.context.enable(moderngl.CULL_FACE)
        self.context.cull_face = "front"
        self._boxes.draw(part=(0, 2))
        self.context.disable(moderngl.CULL_FACE)
        self._glass.draw(self._surface["glass"])
        self.context.enable(moderngl.CULL_FACE)
        self.context.cull_face = "back"
        self._boxes.draw(part=(1, 2))

    def _draw_ribbons(self) -> None:
        """And bodies that one can see through."""
        self._state(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
        self._blend(OVER)
        self._ghosts.draw()
        self.context.disable(moderngl.CULL_FACE)
        self._ribbons.draw()
        self._targets.scene.depth_mask = True

    def _spill_light(self) -> None:
        """Bloom: ever smaller pictures of what is too bright, added back upwards."""
        self._state(moderngl.NOTHING)
        bloom.shrink(self._targets, self._halve, SOURCE)
        self._state(moderngl.BLEND)
        self.context.blend_func = ADD
        bloom.add_up(self._targets, self._widen, SOURCE)

    def _finish(self, frame: Frame) -> None:
        """Tone curve and sRGB, into the picture."""
        picture, within = self._targets.picture, self._targets.within
        picture.use()
        picture.viewport = picture.scissor = (0, 0, *self.size)  # the panels set their own
        self._state(moderngl.DEPTH_TEST if self._smooths else moderngl.NOTHING)
        if self._smooths or within != WHOLE:
            picture.clear(depth=1.0)
        picture.scissor = pixels(within, self.size)
        self._targets.light_texture.use(SOURCE)
        self._targets.spills[0][0].use(SPILL)
        if frame.lighting is not self._lit:
            self._lit = frame.lighting
            tones = (self._tone.programs["color"], self._edges.programs["color"])
            programs.uniforms(tones, "bloom", frame.lighting.bloom)
            programs.uniforms(tones, "vignette", frame.lighting.vignette)
        if self._smooths:  # every pixel once: those with edges first, then what they leave
            self.context.enable(moderngl.CULL_FACE)
            self.context.depth_func = "<"
            self._edges.draw()
            self.context.disable(moderngl.CULL_FACE)
            self.context.depth_func = "<="
        self._tone.draw()

    # State

    def _state(self, flags: int) -> None:
        """Exactly these capabilities, nothing blended, depth written."""
        self.context.enable_only(flags)
        self.context.fbo.depth_mask = True

    def _blend(self, function: tuple[int, int], write_depth: bool = False) -> None:
        self.context.enable(moderngl.BLEND)
        self.context.blend_func = function
        self._targets.scene.depth_mask = write_depth
