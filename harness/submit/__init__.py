"""Submissions: package a run as a bundle, describe it, verify bundles, and rank them.

Start with bundle.py, verification.py and leaderboard.py.
"""
