"""The screen: a client of run directories that imports neither torch nor plugins. Closing it does not affect a run."""
