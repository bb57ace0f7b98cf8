"""Measure the engine against the official arithmetic and the hardware's limits. Start with speed.py.

Importing this package does not load torch.
"""
