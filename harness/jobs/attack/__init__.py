"""The kind of job `attack`: one attack on one round. `harness.jobs` lists the modules of a kind."""
