"""The kind of job `attack`."""
