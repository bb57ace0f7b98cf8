"""`harness audit`: measure what a model has memorized, and show the findings of an audit."""

import typer

from harness.cli.audit_entities import entities
from harness.cli.audit_leakage import leakage
from harness.cli.audit_sequence import sequence
from harness.cli.auditing import Json, Out, Redact, with_audit_options
from harness.cli.run import RunName

app = typer.Typer(help="Measure what a model has memorized.", no_args_is_help=True, rich_markup_mode=None)

for command in (sequence, leakage, entities):
    app.command()(with_audit_options(command))


@app.command()
def show(run: RunName = "latest", out: Out = None, redact: Redact = False, json: Json = False) -> None:
    """Show the findings of an audit, complete or so far."""
    from harness.cli.auditing import print_findings
    from harness.runs.folder import run_folder

    print_findings(run_folder(run), out=out, redact=redact, json=json)
