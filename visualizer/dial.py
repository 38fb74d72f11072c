"""What the draft-quality slider acts through: noise, or a ladder of drafters that are ever better.

The ladders hold one thing apart each: how long a drafter was trained, how big it is, or how many
bits its weights have. On a ladder the slider chooses the drafter, and no noise is mixed in.

Pure: knows names of drafters and a run's settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from engine.trace import Settings

Dial = Literal["noise", "training", "size", "bits"]
DIALS: tuple[Dial, ...] = get_args(Dial)


@dataclass(frozen=True, slots=True)
class Stop:
    """A place on a ladder: the drafter there, and what sets it apart, in a word or two."""

    drafter: str
    name: str


_LADDERS: dict[Dial, tuple[Stop, ...]] = {
    "noise": (),
    "training": (
        Stop("eagle-early", "early"),
        Stop("eagle-middle", "still early"),
        Stop("eagle", "trained"),
    ),
    "size": (Stop("small-1", "1 layer"), Stop("small", "2 layers"), Stop("small-4", "4 layers")),
    "bits": (
        Stop("copy-2g16", "2 bits"),
        Stop("copy-3g64", "3 bits, by 64"),
        Stop("copy-3g32", "3 bits, by 32"),
        Stop("copy-4", "4 bits"),
        Stop("copy-4g64", "4 bits, by 64"),
        Stop("copy-8", "8 bits"),
    ),
}

MEANS: dict[Dial, str] = {
    "noise": "how much noise is mixed into the guesses",
    "training": "how long the drafter was trained",
    "size": "how big the drafter is",
    "bits": "how many bits each weight of the target's copy has",
}


def stops(dial: Dial, drafters: Iterable[str]) -> tuple[Stop, ...]:
    """The stops of a dial that are there, the worst guesser first; none of noise, or of one."""
    there = set(drafters)
    found = tuple(stop for stop in _LADDERS[dial] if stop.drafter in there)
    return found if len(found) > 1 else ()


def offered(drafters: Iterable[str]) -> tuple[Dial, ...]:
    """The dials there are where these drafters can be chosen."""
    there = frozenset(drafters)
    return tuple(dial for dial in DIALS if dial == "noise" or stops(dial, there))


def place(settings: Settings, ladder: tuple[Stop, ...]) -> int | None:
    """At which stop the settings are; None beside the ladder."""
    at = (number for number, stop in enumerate(ladder) if stop.drafter == settings.drafter)
    return next(at, None)


def at(settings: Settings, stop: Stop) -> Settings:
    """The settings moved to a stop."""
    return replace(settings, drafter=stop.drafter, quality=100.0)


def entered(dial: Dial, settings: Settings, drafters: Iterable[str]) -> Settings:
    """The settings once the slider acts through `dial`: at its best stop, if not at one already."""
    ladder = stops(dial, drafters)
    if not ladder:
        return settings
    here = place(settings, ladder)
    return at(settings, ladder[-1 if here is None else here])
