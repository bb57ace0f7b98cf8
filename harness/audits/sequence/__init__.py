"""The sequence audit: how much of a corpus a model completes word for word, compared with unseen text.

Start with audit.py.
"""
