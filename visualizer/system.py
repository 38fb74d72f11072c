"""What the system knows of its user's comfort: whether things should move less.

Every platform keeps it in a place of its own. One that does not answer soon, or at all, has
nothing against motion.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys

SECONDS = 1.0
_ASKED = {
    "linux": ("gsettings", "get", "org.gnome.desktop.interface", "enable-animations"),
    "darwin": ("defaults", "read", "com.apple.universalaccess", "reduceMotion"),
}
_STILL = {"linux": "false", "darwin": "1"}
_CLIENT_AREA_ANIMATION = 0x1042  # SPI_GETCLIENTAREAANIMATION


def wants_less_motion(platform: str = sys.platform) -> bool:
    """Whether the user has asked the system for less motion."""
    if platform == "win32":
        return _windows()
    words = _ASKED.get(platform)
    if words is None or shutil.which(words[0]) is None:
        return False
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.stdout.strip() == _STILL[platform]


def _windows() -> bool:
    animates = ctypes.c_int(1)
    user = getattr(ctypes, "windll", None)
    if user is None:
        return False
    known = user.user32.SystemParametersInfoW(_CLIENT_AREA_ANIMATION, 0, ctypes.byref(animates), 0)
    return bool(known) and not animates.value
