"""The process that owns the clock, the ledger and the store of one run; it starts its worker and ends it.

Start with supervisor.py and execution.py.
"""
