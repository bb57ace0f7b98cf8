"""Public data sets: fetch them, build them, and check the files of a round. Start with catalog.py and status.py."""
