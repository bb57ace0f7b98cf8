"""The record of a run: its directory, store, status and summary; starting, resuming and stopping its supervisor.

Start with folder.py, store.py and launch.py.
"""
