"""Sweeps: many runs from one TOML file, where they run, and what is left to do.

A sweep does not know how its runs are computed: one after the other on this machine, or on a Ray cluster
(`harness.cluster`).
"""
