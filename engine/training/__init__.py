"""From the target's own text to shipped drafters: writing, splitting, distilling, measuring.

Nothing here runs while decoding. `docs/training.md` walks through it.
"""
