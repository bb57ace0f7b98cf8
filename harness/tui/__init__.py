"""The screen: a client of run folders, which imports no torch and no plugin; closing it never touches a run."""
