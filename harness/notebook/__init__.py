"""The interface for notebooks and scripts: start runs, open them as tables, score and compare them.

`import harness` offers its functions as `harness.run`, `harness.open_run`, `harness.list_runs`, `harness.score` and
`harness.compare`. Errors are HarnessError with the sentences of the command line.
"""
