"""Submissions: package a run as a bundle, describe it, verify bundles, and rank them."""
