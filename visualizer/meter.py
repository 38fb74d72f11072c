"""How smoothly pictures come, what each part of one takes, and how much memory the program has.

Fed once a picture by the window; read by the overlay of --profile and written down a line a
minute. It knows no clock of its own.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

RECENT = 600  # pictures that the overlay speaks of
TOLD_EVERY = 0.5  # seconds: figures that change with every picture cannot be read
MINUTE = 60.0
ROUND_BYTES = 64 * 1024
"""What a round takes in its run file at most: 16 guesses, each with ten tokens of either law."""
PARTS = ("run", "picture", "drawing", "panels", "panels drawn")
"""What a picture takes on our side, in order: reading the run, composing, issuing what is drawn."""


@dataclass(frozen=True, slots=True)
class Minute:
    """What a stretch of the show was like; times in milliseconds, memory in MiB."""

    at: float  # seconds since the first picture, at the end of the stretch
    pictures: int
    interval_p50: float  # from one picture to the next
    interval_p99: float
    interval_most: float
    ours_p50: float  # all parts together
    ours_p99: float
    parts: dict[str, float]  # median of each
    gpu: float | None  # median of what the graphics processor took, where it was measured
    memory: float


@dataclass(slots=True)
class Meter:
    """Give it every picture: `picture`. `file` gets a JSON line a minute."""

    file: Path | None = None
    lines: tuple[str, ...] = ()
    _recent: deque[tuple[float, dict[str, float]]] = field(
        default_factory=lambda: deque(maxlen=RECENT)
    )
    _minute: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    _gpu: list[float] = field(default_factory=list)
    _first: float | None = None
    _last: float = 0.0
    _told: float = 0.0
    _begun: float = 0.0

    def picture(self, now: float, parts: Mapping[str, float], gpu: float | None) -> None:
        """A picture was shown at `now`; `parts` are seconds, as is `gpu`.

        Raises OSError where the file cannot be written.
        """
        if self._first is None:
            self._first = self._last = self._told = self._begun = now
            return
        sample = now - self._last, dict(parts)
        self._last = now
        self._recent.append(sample)
        self._minute.append(sample)
        if gpu is not None:
            self._gpu = [*self._gpu[-RECENT:], gpu]
        if now - self._told >= TOLD_EVERY:
            self._told = now
            self.lines = told(summed(now - self._first, self._recent, self._gpu))
        if now - self._begun >= MINUTE:
            self.write(now)

    def write(self, now: float) -> None:
        """End the present stretch and write it down."""
        if self.file is not None and self._minute and self._first is not None:
            line = json.dumps(asdict(summed(now - self._first, self._minute, self._gpu)))
            with self.file.open("a", encoding="utf-8") as out:
                out.write(line + "\n")
        self._minute, self._gpu, self._begun = [], [], now


def summed(
    at: float, samples: Sequence[tuple[float, Mapping[str, float]]], gpu: Sequence[float]
) -> Minute:
    """What these pictures (interval, parts; at least one) come to."""
    intervals = sorted(1e3 * interval for interval, _ in samples)
    ours = sorted(1e3 * sum(parts.values()) for _, parts in samples)
    names = [name for name in PARTS if any(name in parts for _, parts in samples)]
    each = {
        name: quantile(sorted(1e3 * parts.get(name, 0.0) for _, parts in samples), 0.5)
        for name in names
    }
    return Minute(
        at=round(at, 1),
        pictures=len(samples),
        interval_p50=quantile(intervals, 0.5),
        interval_p99=quantile(intervals, 0.99),
        interval_most=round(intervals[-1], 3),
        ours_p50=quantile(ours, 0.5),
        ours_p99=quantile(ours, 0.99),
        parts=each,
        gpu=quantile(sorted(1e3 * seconds for seconds in gpu), 0.5) if gpu else None,
        memory=round(resident() / 2**20, 1),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value that `share` of `ordered` (at least one) lie below."""
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 3)


def told(minute: Minute) -> tuple[str, ...]:
    """A few lines for the overlay."""
    rate = 1e3 / minute.interval_p50 if minute.interval_p50 > 0 else 0.0
    parts = "  ".join(f"{name} {ms:.2f}" for name, ms in minute.parts.items())
    gpu = f"   GPU {minute.gpu:.1f} ms" if minute.gpu is not None else ""
    return (
        f"{rate:.0f} pictures a second   {minute.interval_p50:.1f} ms apart, "
        f"1 in 100 over {minute.interval_p99:.1f}",
        f"ours {minute.ours_p50:.2f} ms, 1 in 100 over {minute.ours_p99:.2f}{gpu}   "
        f"memory {minute.memory:.0f} MiB",
        parts,
    )


def resident(pid: int | str = "self") -> int:
    """Bytes of memory that a process holds now (where the system only tells its most: that)."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return _most() if pid == "self" else 0
    return int(pages) * _page()


def _page() -> int:
    import resource

    return resource.getpagesize()


def _most() -> int:
    """The most memory this process has held, where there is no /proc."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) if sys.platform == "darwin" else int(most) * 1024
