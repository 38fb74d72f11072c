"""The one place that opens GL and knows about platforms.

It knows nothing of pictures. A window makes its own context current before asking for ours;
without a window the picture is drawn headless (EGL on Linux).
"""

from __future__ import annotations

import ctypes.util
import re
import sys
from typing import Any

import moderngl

from visualizer.stage.view import Quality

REQUIRED = 330  # GL 3.3: macOS stops at 4.1 and software rasterisers have it
SOFTWARE_RENDERERS = ("llvmpipe", "softpipe", "swrast", "swiftshader", "gdi generic", "software")

SMALL_RENDERERS = ("intel", "mali", "adreno", "videocore", "powervr", "radeon graphics", "vega")

CHOOSABLE = sys.platform not in ("win32", "darwin")
"""Whether EGL draws without a display: it lets one choose a graphics device."""
_DEAF = "does not open"


class GraphicsError(RuntimeError):
    """No usable GL. The message is one sentence saying what is missing and how to get it."""


def create_context(window: object | None = None, device: int | None = None) -> moderngl.Context:
    """GL 3.3 for `window` (its context must be current), or headless without one.

    Headless `device` chooses the graphics device by its number (see `devices`); None is the first
    that works.

    GL objects no longer referenced are kept until `collect`, so that they are only ever freed
    on the GL thread; the renderer calls it once a frame.

    Raises `GraphicsError`.
    """
    context = _of_window() if window is not None else _headless(device)
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


def reset(context: moderngl.Context) -> None:
    """What every pass finds, whatever others have left; a pass that changes it puts it back."""
    context.cull_face = "back"
    context.front_face = "ccw"
    context.depth_func = "<="
    context.blend_equation = (moderngl.FUNC_ADD, moderngl.FUNC_ADD)
    context.wireframe = False


def default_quality(context: moderngl.Context) -> Quality:
    """The preset to begin with on this machine; measured frames may better it (`quality`)."""
    if is_software(context):
        return "software"
    renderer = str(context.info["GL_RENDERER"]).lower()
    return "medium" if any(name in renderer for name in SMALL_RENDERERS) else "high"


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


def devices() -> list[str]:
    """What each graphics device is called that can draw without a display, in order."""
    found: list[str] = []
    for number in range(_count()):
        try:
            context = _standalone(number)
        except Exception as error:
            found.append(f"{_DEAF} ({error})")
        else:
            found.append(str(context.info["GL_RENDERER"]))
            context.release()
    return found


def _headless(device: int | None) -> moderngl.Context:
    """The device asked for, else the first that works: machines list software ones last."""
    try:
        return _standalone(device or 0)
    except Exception as error:
        there = devices()
        if device is None:
            for number, name in enumerate(there):
                if not name.startswith(_DEAF):
                    return _standalone(number)
        elif there:
            listed = ", ".join(f"{number} ({name})" for number, name in enumerate(there))
            raise GraphicsError(
                f"There is no graphics device {device} to draw with: choose among {listed}."
            ) from error
        raise GraphicsError(_missing(error)) from error


def _standalone(device: int) -> moderngl.Context:
    """A context of its own on one device. Only EGL lets one choose."""
    if not CHOOSABLE:
        if device:
            raise GraphicsError("found 1 devices")
        return moderngl.create_context(standalone=True, require=REQUIRED)
    options: dict[str, Any] = {"backend": "egl", "device_index": device}
    return moderngl.create_context(standalone=True, require=REQUIRED, **options)


def _count() -> int:
    """How many devices there are: it is said to whoever asks for one that cannot be."""
    try:
        _standalone(2**16).release()
    except Exception as error:
        told = re.search(r"found (\d+) devices", str(error))
        return int(told[1]) if told else 0
    return 1


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
