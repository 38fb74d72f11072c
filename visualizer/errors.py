"""The failures people can meet: each carries one clear sentence and becomes an exit code."""

from __future__ import annotations


class VisualizerError(Exception):
    """Something expected went wrong; `str(error)` is one sentence for a person."""


class NeverDone(VisualizerError):
    """Something was asked for that this program never does: wrong use, exit code 2."""
