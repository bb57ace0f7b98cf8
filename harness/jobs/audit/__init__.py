"""The kind of job `audit`: one audit of one or more models. `harness.jobs` lists the modules of a kind."""
