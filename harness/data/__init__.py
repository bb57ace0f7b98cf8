"""Public data sets: fetch them, build them, and check which files of a round exist."""
