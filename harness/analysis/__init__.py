"""Comparisons, replays, reference curves and decoded text of runs that are stored."""
