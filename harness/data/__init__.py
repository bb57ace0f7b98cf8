"""Data sets: how public files arrive, what of a round is there, and what its training rows give away."""
