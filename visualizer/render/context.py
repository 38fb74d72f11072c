"""The one place that opens GL and knows about platforms.

It knows nothing of pictures. A window makes its own context current before asking for ours;
without a window the picture is drawn headless (EGL on Linux).
"""

from __future__ import annotations

import ctypes.util
import sys
from typing import Any

import moderngl

from visualizer.stage.view import Quality

REQUIRED = 330  # GL 3.3: macOS stops at 4.1 and software rasterisers have it
SOFTWARE_RENDERERS = ("llvmpipe", "softpipe", "swrast", "swiftshader", "gdi generic", "software")

SMALL_RENDERERS = ("intel", "mali", "adreno", "videocore", "powervr", "radeon graphics", "vega")


class GraphicsError(RuntimeError):
    """No usable GL. The message is one sentence saying what is missing and how to get it."""


def create_context(window: object | None = None) -> moderngl.Context:
    """GL 3.3 for `window` (its context must be current), or headless without one.

    GL objects no longer referenced are kept until `collect`, so that they are only ever freed
    on the GL thread; the renderer calls it once a frame.

    Raises `GraphicsError`.
    """
    context = _of_window() if window is not None else _headless()
    context.gc_mode = "context_gc"
    return context


def collect(context: moderngl.Context) -> None:
    """Free the GL objects nothing refers to any more. Call on the GL thread only.

    moderngl's own `gc` trips over objects that were released by hand and dropped later
    (5.13); those have nothing left to free.
    """
    while context.objects:
        gone = context.objects.popleft()
        if hasattr(gone, "release"):
            gone.release()


def is_software(context: moderngl.Context) -> bool:
    """Whether the pictures are made by the CPU."""
    renderer = str(context.info["GL_RENDERER"]).lower()
    return any(name in renderer for name in SOFTWARE_RENDERERS)


def default_quality(context: moderngl.Context) -> Quality:
    """The preset to begin with on this machine; measured frames may better it (`quality`)."""
    if is_software(context):
        return "software"
    renderer = str(context.info["GL_RENDERER"]).lower()
    return "medium" if any(name in renderer for name in SMALL_RENDERERS) else "high"


def reset(context: moderngl.Context) -> None:
    """What every pass finds, whatever others have left; a pass that changes it puts it back."""
    context.cull_face = "back"
    context.front_face = "ccw"
    context.depth_func = "<="
    context.blend_equation = (moderngl.FUNC_ADD, moderngl.FUNC_ADD)
    context.wireframe = False


def recording_quality(context: moderngl.Context) -> Quality:
    """The preset for pictures nobody waits for: smooth edges are worth twice the time."""
    return "low" if is_software(context) else "high"


def _of_window() -> moderngl.Context:
    try:
        return moderngl.create_context(require=REQUIRED)
    except Exception as error:
        raise GraphicsError(
            f"This display offers no OpenGL 3.3 ({error}): install or update the graphics driver."
        ) from error


def _headless() -> moderngl.Context:
    options: dict[str, Any] = {} if sys.platform in ("win32", "darwin") else {"backend": "egl"}
    try:
        return moderngl.create_context(standalone=True, require=REQUIRED, **options)
    except Exception as error:
        raise GraphicsError(_missing(error)) from error


def _missing(error: Exception) -> str:
    """One sentence for a failed headless start, naming the missing piece."""
    if sys.platform in ("win32", "darwin"):
        return f"OpenGL 3.3 could not be opened ({error}): install or update the graphics driver"
    for library, debian, fedora in (
        ("EGL", "libegl1", "libglvnd-egl"),
        ("GL", "libgl1", "libglvnd-glx"),
    ):
        if ctypes.util.find_library(library) is None:
            return (
                f"lib{library} is missing, so nothing can be drawn without a display: "
                f"install it with `apt install {debian} libgl1-mesa-dri` "
                f"(Fedora: `dnf install {fedora} mesa-dri-drivers`)"
            )
    return (
        f"EGL found no usable driver ({error}): install one with "
        "`apt install libegl-mesa0 libgl1-mesa-dri` (Fedora: `dnf install mesa-dri-drivers`); "
        "in a container with an NVIDIA card also give it the graphics capability "
        "(NVIDIA_DRIVER_CAPABILITIES=all)"
    )
