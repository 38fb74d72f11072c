"""Shaders from files. One file holds a primitive's two stages, under VERTEX and FRAGMENT.

Their first line asks for GLSL 330, nothing newer. Other files come in by
``#include "name.glsl"``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import moderngl
import numpy as np

SHADERS = Path(__file__).parent.parent.parent / "assets" / "shaders"
FIRST_LINE = re.compile(r"#\s*version 330\s*")  # of every primitive; includes have none
RESERVED = {"half": "half_extent"}  # fields whose name GLSL keeps for itself
LETTERS = {"f": "f", "u": "u", "i": "i"}


class ShaderError(RuntimeError):
    """A shader did not compile. The message names the file and quotes the lines at fault."""


def register_includes(context: moderngl.Context) -> None:
    """Let shaders of `context` include the files that are not primitives of their own."""
    for path in SHADERS.glob("*.glsl"):
        text = path.read_text(encoding="utf-8")
        if not FIRST_LINE.match(text):
            context.includes[path.name] = text


def load(
    context: moderngl.Context, name: str, defines: Mapping[str, int | None] | None = None
) -> moderngl.Program:
    """The program in ``assets/shaders/<name>.glsl``, compiled with `defines`.

    Raises `ShaderError`.
    """
    text = (SHADERS / f"{name}.glsl").read_text(encoding="utf-8")
    first, _, body = text.partition("\n")
    if not FIRST_LINE.fullmatch(first):
        raise ShaderError(f"{name}.glsl must begin by asking for GLSL 330, not with '{first}'")
    lines = [
        f"#define {key} {'' if value is None else value}" for key, value in (defines or {}).items()
    ]
    stages = {
        stage: "\n".join([first, f"#define {stage}", *lines, body])
        for stage in ("VERTEX", "FRAGMENT")
    }
    try:
        program = context.program(
            vertex_shader=stages["VERTEX"], fragment_shader=stages["FRAGMENT"]
        )
    except Exception as error:
        raise ShaderError(f"{name}.glsl with {dict(defines or {})}: {error}") from error
    scene = program.get("Scene", None)
    if isinstance(scene, moderngl.UniformBlock):
        scene.binding = 0
    return program


def attribute(field: str) -> str:
    """The shader's name of a field of a vertex contract."""
    return RESERVED.get(field, field)


def layout(
    program: moderngl.Program, dtype: np.dtype[np.void], per_instance: bool
) -> tuple[str, list[str]]:
    """moderngl's buffer format for `dtype`, and the attributes it feeds in `program`.

    Fields that the program does not read become padding.
    """
    parts: list[str] = []
    names: list[str] = []
    fields = dtype.fields
    assert fields is not None
    for field in dtype.names or ():
        base, shape = fields[field][0].base, fields[field][0].shape
        count = int(np.prod(shape, dtype=int))
        if attribute(field) in program:
            parts.append(f"{count}{LETTERS[base.kind]}{base.itemsize}")
            names.append(attribute(field))
        else:
            parts.append(f"{count * base.itemsize}x1")
    return " ".join(parts) + (" /i" if per_instance else ""), names


def uniforms(programs: Iterable[moderngl.Program], name: str, value: object) -> None:
    """Set a uniform wherever it exists."""
    for program in programs:
        if name in program:
            program[name] = value
