"""A training recipe: all that shapes a drafter's weights besides text and target.

The learning rate is constant after a short warm-up and falls linearly to zero over the last
part of the visits. Before that fall nothing depends on `visits`, so a run can be lengthened.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that shapes the weights, besides text and target."""

    layers: int = 2
    seed: int = 0
    visits: int = 4_000_000  # reply tokens trained on, repeats counted
    step_tokens: int = 330  # reply tokens a step, at least; 1,300 learned much worse early
    peak_rate: float = 1e-3
    warmup_steps: int = 20
    cooldown: float = 0.3  # last share of the visits, in which the rate falls to zero
    clip: float = 1.0
    fitting_rows: int = 150  # of text, on which first weights are fitted that cannot be taken
    unroll: int = 1  # guesses ahead trained on, for a student that reads its own guesses
    frozen_layers: int = 0  # first layers that stay as they began, while those after them learn
    others: int = 0  # tokens a step scores besides likely ones, for all the rest; 0 is every token
    plain_visits: int = 0  # before these, one guess ahead only

    def rate(self, step: int, visits: int) -> float:
        """Learning rate of a step that begins after `visits` tokens."""
        warm = min(1.0, (step + 1) / self.warmup_steps)
        falling = max(0.0, self.visits - visits) / (self.cooldown * self.visits or 1)
        return self.peak_rate * warm * min(1.0, falling)

    def depth(self, visits: int) -> int:
        """Guesses ahead a step that begins after `visits` tokens trains on."""
        return self.unroll if visits >= self.plain_visits else 1
