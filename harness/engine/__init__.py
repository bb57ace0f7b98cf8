"""The engine: load the target, sample from it, search it and score suffixes.

Start with target.py, whose `Target` is `context.target` of an attack. Importing this package does not load torch.
"""
