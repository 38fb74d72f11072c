"""What these commands are given: whatever is wrong with it is said in a sentence."""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from engine.drafters.suffix_index import SEPARATOR
from engine.tokenizer import Tokenizer
from engine.training import corpus
from engine.weights import LlamaConfig


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
    """An argparse type: the folder of a model that drafters can be trained for."""
    names = "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"
    folder = _folder(value, "target", *names)
    try:
        _check_target(folder)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"no drafter can be trained for the model in {value}: {error}"
        ) from None
    return folder


def drafter(value: str) -> Path:
    """An argparse type: the folder of an exported drafter."""
    return _folder(value, "drafter", "config.json", "model.safetensors", "card.json")


def _check_target(folder: Path) -> None:
    """Raises ValueError, one clear sentence, for what these commands cannot teach from."""
    config = LlamaConfig.from_folder(folder)
    if config.heads * config.head_dim != config.hidden_size:
        raise ValueError("its heads together are not as wide as its hidden states")
    if config.vocab_size > SEPARATOR:
        raise ValueError(
            f"its vocabulary is {config.vocab_size:,} ids, and a text keeps up to {SEPARATOR:,}"
        )
    Tokenizer.from_folder(folder)
    with safe_open(folder / "model.safetensors", "pt") as tensors:
        name, head = "model.embed_tokens.weight", "lm_head.weight"
        if name not in tensors.keys():  # noqa: SIM118
            raise ValueError(f"its weights lack {name}")
        if head in tensors.keys() and not torch.equal(  # noqa: SIM118
            tensors.get_tensor(head), tensors.get_tensor(name)
        ):
            raise ValueError("its head is not tied to its embedding, whose rows drafters write by")


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


def folder(value: str) -> Path:
    """An argparse type: a folder to write into, there or still to be made."""
    path = Path(value)
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise argparse.ArgumentTypeError(f"{there} is a file, and a folder is wanted")
    if not os.access(there, os.W_OK):
        raise argparse.ArgumentTypeError(f"nothing can be written into {there}")
    return path


def told(command: Callable[[], None]) -> None:
    """Run a command. What it refuses, or the disk does, is its last sentence, and the end is 1."""
    try:
        command()
    except (OSError, ValueError) as error:
        sys.exit(f"{Path(sys.argv[0]).stem}: {error}")
