"""Compare, replay and decode stored runs. Start with comparison.py."""
