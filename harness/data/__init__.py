"""Data sets: how public files arrive, and what of a round is there."""
