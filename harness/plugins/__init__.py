"""Find attacks, read their declarations and parameters, and write new ones, without importing an attack.

Start with discovery.py.
"""
