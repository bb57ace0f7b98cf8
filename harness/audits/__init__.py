"""Measurements of what a model memorized: one package per audit, and the modules that they share."""
