"""The TUI: a client of run directories that imports neither torch nor plugins. Closing it does not affect a run.

Start with app.py; feed.py reads a run and snapshot.py is what the widgets show.
"""
