"""The leakage audit: the probability that a model leaks each sequence, under six decoding schemes.

Start with audit.py.
"""
