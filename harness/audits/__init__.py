"""Audits measure what a model has memorized: one package per audit, and the modules that they share.

Start with registry.py, and with `Audit` in harness/core/audit.py.
"""
