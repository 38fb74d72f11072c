"""The scene clock: where in a run's timeline the picture stands. Pure; knows no wall clock.

Callers pass in the seconds that went by and the end of what may be shown. When a live run
is still being written the clock waits at that end and goes on by itself, so it follows the
tail without ever running past it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from visualizer import actions as act
from visualizer.stage.schedule import FASTEST, FLASHES_PER_SECOND
from visualizer.stage.timeline import Timeline

_LADDER = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
SPEEDS = tuple(speed for speed in _LADDER if speed <= FASTEST)
"""Up to the speed at which a timeline's pulses still keep the flash limit."""

_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class PlaybackClock:
    """`t` is in seconds of the timeline; `stop_at` is the beat at which playing ends.

    `loop` is a stretch of the timeline that plays over and over.
    """

    t: float = 0.0
    playing: bool = True
    speed: float = 1.0
    stop_at: float | None = None
    loop: tuple[float, float] | None = None

    def advance(self, elapsed: float, end: float) -> PlaybackClock:
        """Return the clock `elapsed` seconds of real time later, never past `end`."""
        if not self.playing:
            return self if self.t <= end else replace(self, t=max(end, 0.0))
        limit = end if self.stop_at is None else min(end, self.stop_at)
        t = min(self.t + max(elapsed, 0.0) * self._rate, max(limit, 0.0))
        if self.stop_at is not None and t >= self.stop_at - _CLOSE:
            return replace(self, t=t, playing=False, stop_at=None)
        if self.loop is not None and t >= self.loop[1] - _CLOSE:
            t = self.loop[0]
        return replace(self, t=t)

    @property
    def _rate(self) -> float:
        """Seconds of the timeline a real second brings: short loops do not flash too often."""
        if self.loop is None:
            return self.speed
        return min(self.speed, (self.loop[1] - self.loop[0]) * FLASHES_PER_SECOND)

    def toggled(self) -> PlaybackClock:
        """Play if paused, pause if playing; a step under way ends here."""
        return replace(self, playing=not self.playing, stop_at=None)

    def paused(self) -> PlaybackClock:
        return replace(self, playing=False, stop_at=None)

    def stepped_to(self, beat: float) -> PlaybackClock:
        """Play until `beat`, then pause. Asked again on the way there, go there at once."""
        if self.stop_at is not None and self.playing:
            return replace(self, t=self.stop_at, stop_at=beat if beat > self.stop_at else None,
                           playing=beat > self.stop_at)  # fmt: skip
        return replace(self, playing=True, stop_at=beat)

    def moved_to(self, t: float, end: float) -> PlaybackClock:
        """Jump to `t`, kept within the timeline; playing or paused as before."""
        return replace(self, t=min(max(t, 0.0), max(end, 0.0)), stop_at=None)

    def looping(self, start: float, end: float) -> PlaybackClock:
        """Play from `start` to `end` over and over, from where the clock is."""
        return replace(self, loop=(start, end))

    def unlooped(self) -> PlaybackClock:
        return replace(self, loop=None)

    def at_speed(self, speed: float) -> PlaybackClock:
        return replace(self, speed=min(max(speed, SPEEDS[0]), SPEEDS[-1]))

    def shifted_speed(self, steps: int) -> PlaybackClock:
        """Move `steps` up or down the ladder of speeds from the nearest rung."""
        nearest = min(range(len(SPEEDS)), key=lambda rung: abs(SPEEDS[rung] - self.speed))
        return self.at_speed(SPEEDS[min(max(nearest + steps, 0), len(SPEEDS) - 1)])


def carried_out(
    clock: PlaybackClock, action: act.ClockAction, line: Timeline | None, end: float
) -> PlaybackClock:
    """The clock after an action of the viewer. `end` is how far may be shown now.

    A loop comes along to the round one goes to; playing on to the next beat leaves it.
    """
    moved = _moved(clock, action, line, end)
    if line is None or moved.loop is None or moved.t == clock.t:
        return moved
    return _round_over(moved, line)


def _moved(
    clock: PlaybackClock, action: act.ClockAction, line: Timeline | None, end: float
) -> PlaybackClock:
    match action:
        case act.TogglePlay():
            return clock.toggled()
        case act.SetSpeed(speed):
            return clock.at_speed(speed)
        case act.ShiftSpeed(steps):
            return clock.shifted_speed(steps)
        case act.Seek(t):
            return clock.moved_to(t, end)
    if line is None or not line.spans:
        return clock
    match action:
        case act.NextBeat():
            beat = line.next_beat(clock.stop_at if clock.stop_at is not None else clock.t)
            return clock.unlooped().stepped_to(beat)
        case act.PreviousBeat():
            return clock.moved_to(line.prev_beat(clock.t), end).paused()
        case act.NextRound():
            return clock.moved_to(line.next_round(clock.t), end)
        case act.PreviousRound():
            return clock.moved_to(line.prev_round(clock.t), end)
        case act.ToggleLoop():
            return _round_over(clock, line) if clock.loop is None else clock.unlooped()


def _round_over(clock: PlaybackClock, line: Timeline) -> PlaybackClock:
    """The clock looping over the round it stands in."""
    here = line.spans[line.round_at(clock.t)]
    return clock.looping(here.start, here.end)
