"""What of the window, the renderer and the encoders works here, and the exact fix.

Each part is tried in a process of its own (see `engine.doctor.probe`): a driver that crashes
is a line of the report, and this module itself needs neither a display nor GL.

Standard library only.
"""

from __future__ import annotations

import ctypes.util
import json
import os
import shutil
import sys
from pathlib import Path

from engine.doctor import Check, Probe, probe

_SECONDS = 60.0
_ROOT = str(Path(__file__).parents[1])

ENCODERS = {
    "mp4": "libx264",
    "webm": "libvpx-vp9",
    "mov": "prores_ks",
    "gif": "gif",
    "webp": "libwebp_anim",
}
"""The encoder behind each file ending."""

_LINUX_LIBRARIES = (
    ("GL", "libgl1", "libglvnd-glx"),
    ("EGL", "libegl1", "libglvnd-egl"),
    ("X11", "libx11-6", "libX11"),
    ("GLU", "libglu1-mesa", "mesa-libGLU"),
)
"""(library, Debian package, Fedora package) that no Python wheel carries."""


def checks(fonts: Path) -> list[Check]:
    """The visualizer's half. `fonts` is the folder of the baked text atlas."""
    return [_libraries(), _display(), _window(), _headless(), _ui(), _encoders(), _fonts(fonts)]


def _libraries() -> Check:
    if sys.platform != "linux":
        return Check("System libraries", "works", "part of the system")
    lacking = [names for names in _LINUX_LIBRARIES if ctypes.util.find_library(names[0]) is None]
    if not lacking:
        return Check("System libraries", "works", "libGL, libEGL, libX11, libGLU")
    detail = "lacking " + ", ".join(f"lib{names[0]}" for names in lacking)
    debian = " ".join(names[1] for names in lacking)
    fedora = " ".join(names[2] for names in lacking)
    return Check(
        "System libraries",
        "missing",
        detail,
        f"sudo apt install {debian}   (Fedora: sudo dnf install {fedora})",
    )


def _display() -> Check:
    if sys.platform != "linux":
        return Check("Display", "works", f"{sys.platform} desktop")
    screen = os.environ.get("DISPLAY")
    if screen:
        wayland = " (through XWayland)" if os.environ.get("WAYLAND_DISPLAY") else ""
        return Check("Display", "works", f"X11 {screen}{wayland}")
    if os.environ.get("WAYLAND_DISPLAY"):
        return Check("Display", "missing", "Wayland without XWayland", "sudo apt install xwayland")
    return Check(
        "Display",
        "note",
        "none: no window can open, recording still works",
        "run on a desktop, or: sudo apt install xvfb && xvfb-run python main.py",
    )


_WINDOW = """
import json, pyglet
pyglet.options.shadow_window = False
import pyglet.window
config = pyglet.gl.Config(major_version=3, minor_version=3, forward_compatible=True)
window = pyglet.window.Window(64, 64, visible=False, config=config)
import moderngl
context = moderngl.create_context(require=330)
print(json.dumps({"renderer": context.info["GL_RENDERER"], "version": context.info["GL_VERSION"]}))
"""

_HEADLESS = """
import json, sys
sys.path.insert(0, ROOT)
from visualizer.render.context import CHOOSABLE, create_context, devices
context = create_context()
found = {"renderer": context.info["GL_RENDERER"], "version": context.info["GL_VERSION"]}
context.release()
print(json.dumps({**found, "devices": devices() if CHOOSABLE else []}))
"""


def _window() -> Check:
    name = "Window (GL 3.3)"
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        return Check(name, "note", "not tried without a display")
    found = _graphics(name, probe(_WINDOW, _SECONDS), "libgl1 libglx-mesa0 libgl1-mesa-dri")
    if found.state == "works" and "intel" in found.detail.lower() and _nvidia():
        return Check(name, "note", f"{found.detail}, though there is an NVIDIA card", OTHER_CARD)
    return found


OTHER_CARD = {
    "win32": "Settings, System, Display, Graphics: give python.exe the high performance card",
}.get(
    sys.platform,
    "__NV_PRIME_RENDER_OFFLOAD=1 __GLX_VENDOR_LIBRARY_NAME=nvidia python main.py",
)
"""How a laptop with two cards is told to draw with the larger one."""


def _nvidia() -> bool:
    return Path("/proc/driver/nvidia").exists() or shutil.which("nvidia-smi") is not None


def _headless() -> Check:
    name = "Recording (EGL)" if sys.platform == "linux" else "Recording (GL)"
    return _graphics(
        name,
        probe(f"ROOT = {_ROOT!r}\n{_HEADLESS}", _SECONDS),
        "libegl1 libegl-mesa0 libgl1-mesa-dri",
    )


def _graphics(name: str, seen: Probe, packages: str) -> Check:
    if seen.found is None:
        cure = "python -m pip install -r requirements.txt"
        if "ModuleNotFoundError" not in seen.problem:
            cure = "install the maker's graphics driver"
            if sys.platform == "linux":
                cure = f"sudo apt install {packages}, or the maker's graphics driver"
        return Check(name, "missing", seen.problem, cure)
    detail = f"{seen.found['renderer']}, {seen.found['version']}"
    for number, device in enumerate(seen.found.get("devices", ())):
        if number:
            detail += f"; record --gpu {number}: {device}"
    if _is_software(seen.found["renderer"]):
        cure = "install the maker's graphics driver for smooth motion"
        return Check(name, "note", f"{detail}: drawn by the CPU, slow but exact", cure)
    return Check(name, "works", detail)


def _is_software(renderer: str) -> bool:
    return any(word in renderer.lower() for word in ("llvmpipe", "softpipe", "swrast", "gdi"))


_UI = """
import json
from importlib.metadata import version
from imgui_bundle import imgui, implot
imgui.create_context()
print(json.dumps({"imgui-bundle": version("imgui-bundle"), "Dear ImGui": imgui.get_version()}))
"""


def _ui() -> Check:
    seen = probe(_UI, _SECONDS)
    if seen.found is None:
        return Check("Panels", "missing", seen.problem, "python -m pip install -r requirements.txt")
    return Check("Panels", "works", ", ".join(f"{k} {v}" for k, v in seen.found.items()))


# An encoder may be listed and yet not open, so each one writes two frames into memory.
_ENCODERS = """
import io, json, av
from fractions import Fraction
formats = {"libx264": "yuv420p", "libvpx-vp9": "yuva420p", "prores_ks": "yuva444p10le",
           "gif": "rgb8", "libwebp_anim": "yuva420p"}
problems = {}
for ending, encoder in ENCODERS.items():
    try:
        with av.open(io.BytesIO(), "w", format=ending) as output:
            stream = output.add_stream(encoder, rate=30)
            stream.width, stream.height, stream.pix_fmt = 64, 64, formats[encoder]
            for index in range(2):
                frame = av.VideoFrame(64, 64, "rgb24").reformat(format=formats[encoder])
                frame.pts, frame.time_base = index, Fraction(1, 30)
                output.mux(stream.encode(frame))
            output.mux(stream.encode())
        problems[ending] = ""
    except Exception as error:
        problems[ending] = f"{encoder}: {error}"
print(json.dumps(problems))
"""


def _encoders() -> Check:
    seen = probe(f"ENCODERS = {ENCODERS!r}\n{_ENCODERS}", _SECONDS)
    if seen.found is None:
        return Check(
            "Encoders", "missing", seen.problem, "python -m pip install -r requirements.txt"
        )
    opened = [f"{ending} ({ENCODERS[ending]})" for ending, why in seen.found.items() if not why]
    failed = [f"{ending}: {why}" for ending, why in seen.found.items() if why]
    if failed:
        cure = "python -m pip install --force-reinstall av"
        return Check("Encoders", "missing", "; ".join(failed), cure)
    return Check("Encoders", "works", ", ".join(opened))


def _fonts(folder: Path) -> Check:
    metrics = folder / "atlas.json"
    try:
        glyphs = len(json.loads(metrics.read_text(encoding="utf-8")).get("glyphs", ()))
    except (OSError, ValueError) as error:
        cure = "get the program's files again: git checkout -- assets"
        return Check("Fonts", "missing", f"{metrics}: {error}", cure)
    return Check("Fonts", "works", f"{glyphs} glyphs in {metrics.name}")
