"""The process that owns the clock, the ledger and the store of one run; it starts the worker and ends it."""
