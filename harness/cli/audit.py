"""`harness audit`: measure what a model has memorized, and show the findings of an audit."""

from harness.cli.audit_findings import print_findings
from harness.cli.audit_options import AUDITS, options
from harness.cli.audit_run import Out, Redact
from harness.cli.options import Json, Run
from harness.cli.typer_classes import CommandLine
from harness.runs.folder import run_folder

app = CommandLine(name="audit", help="Measure what a model has memorized.", no_args_is_help=True)

for command in AUDITS.values():
    app.command()(command)
app.command(hidden=True)(options)


@app.command()
def show(run: Run = "latest", out: Out = None, redact: Redact = False, json: Json = False) -> None:
    """Show the findings of an audit, complete or so far."""
    print_findings(run_folder(run), out=out, redact=redact, json=json)
