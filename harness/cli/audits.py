"""`harness audit`: what has a model memorized, and what an audit found, told again."""

from harness.cli.audit_entities import entities
from harness.cli.audit_leakage import leakage
from harness.cli.audit_sequence import sequence
from harness.cli.auditing import Json, Out, Redact
from harness.cli.commands import CommandLine
from harness.cli.options import Run

app = CommandLine(name="audit", help="Measure what a model has memorized.", no_args_is_help=True)

for command in (sequence, leakage, entities):
    app.command()(command)


@app.command()
def show(run: Run = "latest", out: Out = None, redact: Redact = False, json: Json = False) -> None:
    """Print what an audit has found so far."""
    from harness.cli.auditing import tell
    from harness.runs.folder import run_folder

    tell(run_folder(run), out=out, redact=redact, json=json)
