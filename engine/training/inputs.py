"""What these commands read: argparse types that say in a sentence what is wrong."""

from __future__ import annotations

import argparse
import zipfile
import zlib
from pathlib import Path

from safetensors import SafetensorError, safe_open

from engine.training import corpus


def text(value: str) -> Path:
    """An argparse type: a file of the target's own text, whole."""
    path = Path(value)
    try:
        corpus.load(path)
    except FileNotFoundError:
        raise argparse.ArgumentTypeError(f"{value} does not exist") from None
    except (
        OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile, zlib.error,
    ):  # fmt: skip
        raise argparse.ArgumentTypeError(
            f"{value} cannot be read as the target's own text, as engine.training.write makes it"
        ) from None
    return path


def target(value: str) -> Path:
    """An argparse type: the folder of a model with its tokenizer."""
    return _folder(value, "target", "config.json", "model.safetensors", "tokenizer.json")


def drafter(value: str) -> Path:
    """An argparse type: the folder of an exported drafter."""
    return _folder(value, "drafter", "config.json", "model.safetensors", "card.json")


def _folder(value: str, what: str, *names: str) -> Path:
    folder = Path(value)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise argparse.ArgumentTypeError(
            f"{value} is no {what}: it has no {' and no '.join(missing)}"
        )
    try:
        with safe_open(folder / "model.safetensors", "np"):
            return folder
    except (OSError, SafetensorError):
        raise argparse.ArgumentTypeError(
            f"{folder / 'model.safetensors'} is cut short or no file of weights"
        ) from None
