"""Shaders compile, and read exactly what frames hold."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import moderngl
import numpy as np
import pytest

from visualizer.render import geometry, programs, voronoi
from visualizer.render.programs import SHADERS, ShaderError, attribute, layout
from visualizer.render.quality import EFFORTS
from visualizer.render.renderer import Renderer
from visualizer.render.uniforms import SCENE
from visualizer.stage.frame import BEAM, BLOCK, GLYPH, RIBBON, SHATTER, SPHERE, TILE

CONTRACTS = {
    "block": (BLOCK, geometry.BOX_VERTEX, {"pick", "inner"}),
    "glass": (BLOCK, geometry.BOX_VERTEX, {"pick"}),
    "shard": (SHATTER, voronoi.SHARD, {"pattern"}),  # the pattern chooses the mesh
    "sphere": (SPHERE, geometry.SPHERE_VERTEX, set()),
    "beam": (BEAM, geometry.PLACE3, set()),
    "ribbon": (RIBBON, geometry.PLACE2, set()),
    "glyph": (GLYPH, geometry.PLACE2, set()),
    "tile": (TILE, geometry.PLACE2, {"pick"}),
}
DEFINES = {"TAPS": 4, "STEPS": 4, "CRACKED": None}
GLSL_TYPES = {np.dtype("f4"): "f", np.dtype("u4"): "i"}


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_program_reads_the_contract_and_nothing_else(gl: moderngl.Context, name: str) -> None:
    instance, vertex, unread = CONTRACTS[name]
    programs.register_includes(gl)
    program = programs.load(gl, name, DEFINES)
    found = {
        each: program[each] for each in program if isinstance(program[each], moderngl.Attribute)
    }
    expected = {}
    for dtype in (instance, vertex):
        for field in dtype.names:
            if field not in unread:
                kind, *_ = dtype.fields[field]
                expected[attribute(field)] = (kind.base, int(np.prod(kind.shape, dtype=int)))
    assert set(found) == set(expected)
    for each, (base, width) in expected.items():
        assert (found[each].shape, found[each].dimension) == (GLSL_TYPES[base], width), each
    program.release()


def test_a_layout_covers_every_byte_of_its_dtype(gl: moderngl.Context) -> None:
    programs.register_includes(gl)
    program = programs.load(gl, "glass", DEFINES)
    text, names = layout(program, BLOCK, per_instance=True)
    assert text == "3f4 3f4 4f4 4f4 4f4 1f4 1f4 1f4 4x1 /i"
    assert names[:2] == ["center", "half_extent"]
    parts = re.findall(r"(\d+)[fux](\d)", text)
    assert sum(int(count) * int(size) for count, size in parts) == BLOCK.itemsize
    program.release()


def test_the_uniform_block_matches_the_shaders(gl: moderngl.Context) -> None:
    text = (SHADERS / "scene.glsl").read_text(encoding="utf-8")
    body = text[text.index("{") : text.index("};")]
    declared = re.findall(r"(mat4|vec4) (\w+);", body)
    kinds = {"mat4": (4, 4), "vec4": (4,)}
    assert [(name, kinds[kind]) for kind, name in declared] == [
        (name, SCENE.fields[name][0].shape) for name in SCENE.names
    ]
    programs.register_includes(gl)
    program = programs.load(gl, "ground", DEFINES)
    assert program["Scene"].size == SCENE.itemsize
    program.release()


@pytest.mark.parametrize("quality", EFFORTS)
def test_every_preset_compiles(gl: moderngl.Context, quality: str) -> None:
    for transparent in (False, True):
        Renderer(gl, (64, 36), quality, transparent).release()


def test_no_shader_asks_for_more_than_gl_3_3() -> None:
    paths = sorted(SHADERS.glob("*.glsl"))
    assert len(paths) > 10
    for path in paths:
        versions = re.findall(r"^\s*#\s*version.*$", path.read_text(encoding="utf-8"), re.M)
        assert versions in ([], ["#version 330"]), path.name


def test_an_error_names_the_file_and_the_reason(
    gl: moderngl.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "#version 330\n#ifdef VERTEX\nvoid main() { gl_Position = nothing; }\n#endif\n"
    (tmp_path / "broken.glsl").write_text(broken)
    (tmp_path / "modern.glsl").write_text(broken.replace("330", "430"))
    monkeypatch.setattr(programs, "SHADERS", tmp_path)
    with pytest.raises(ShaderError, match=r"broken\.glsl(?s:.*)nothing"):
        programs.load(gl, "broken")
    with pytest.raises(ShaderError, match=r"modern\.glsl must begin"):
        programs.load(gl, "modern")


def test_presets_grow_in_effort() -> None:
    ladder = list(EFFORTS.values())
    for lower, higher in pairwise(ladder):
        for field in ("samples", "shadow_taps", "bloom_levels", "bevel_steps", "beam_steps"):
            assert getattr(lower, field) <= getattr(higher, field)
