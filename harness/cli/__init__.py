"""The command line: one module a noun; wiring and printing only."""
