"""The pure picture language: no GL, no clock, no randomness; numpy only.

Conventions, stated once: right-handed, Y up, one world unit is the height of a block,
text runs along +X, older lines recede towards -Z, the viewer stands at +Z. Angles are
radians, matrices multiply column vectors, colours are linear RGBA in 0..1.
"""
