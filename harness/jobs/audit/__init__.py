"""The kind of job `audit`."""
