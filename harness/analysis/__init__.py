"""Compare, replay and decode stored runs."""
