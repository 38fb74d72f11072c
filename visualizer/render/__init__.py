"""GL, and nothing but GL: a `Frame` goes in, a picture comes out."""
