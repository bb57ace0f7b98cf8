"""`harness export`: the submission or the guesses of a run as a file, or a run or an audit as an MLflow run."""

import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Force, Json, Redact, Run, Runs, check_output_file, write_output
from harness.cli.output import print_json, sanitize, say
from harness.core.errors import UsageError
from harness.core.submission import write_submission
from harness.jobs.attack.results import every_guess, submission_now
from harness.jobs.audit.reader import AuditReader
from harness.jobs.audit.spec import AuditSpec
from harness.runs.folder import RunFolder, run_folder
from harness.runs.summary import run_status

if TYPE_CHECKING:
    from harness.submit.mlflow_record import MlflowRecord

_EXPERIMENT = "harness"


def export(
    run: Run,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="A .csv, .parquet or .jsonl file; - for stdout."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Write every guess with its score.")] = False,
    mlflow: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Log the run or audit to this MLflow server or database instead."),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"With --mlflow: name of the experiment.  [default: {_EXPERIMENT}]"),
    ] = None,
    redact: Redact = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a run to a file, or log it to MLflow.

    The file is the submission, or all guesses. --mlflow logs a run or an audit: its parameters, figures and files. A
    second export of the same run updates the same MLflow run.
    """
    if mlflow is not None:
        if not mlflow.strip():
            raise typer.BadParameter("name an address, such as http://127.0.0.1:5000.", param_hint="--mlflow")
        if out is not None or all_ or force:
            raise typer.BadParameter("it writes no file. Remove --out, --all and --force.", param_hint="--mlflow")
        _export_to_mlflow(run, mlflow, _EXPERIMENT if experiment is None else experiment, redact=redact, json=json)
        return
    for option, is_given in (("--experiment", experiment is not None), ("--redact", redact)):
        if is_given:
            raise typer.BadParameter("it is used with --mlflow only.", param_hint=option)
    _export_to_file(run_folder(run), out, all_=all_, force=force, json=json)


def _export_to_file(folder: RunFolder, out: Path | None, *, all_: bool, force: bool, json: bool) -> None:
    destination = out if out is not None else Path(f"{folder.id}.csv")
    is_stdout = str(destination) == "-"
    if is_stdout and json:
        raise typer.BadParameter("--out - writes to stdout. Name a file.", param_hint="--json")
    if not all_ and not is_stdout and destination.suffix != ".csv":
        raise UsageError(f"{destination}: a submission is a .csv file. --all writes .parquet and .jsonl too.")
    check_output_file(destination, force=force or is_stdout)
    content = BytesIO()
    if all_:
        from harness.core.tables import write_guesses

        guesses = every_guess(folder)
        rows = len(guesses.ids)
        write_guesses(content, guesses, ".csv" if is_stdout else destination.suffix)
    else:
        submission = submission_now(folder)
        rows = len(submission.ids)
        write_submission(content, submission.ids, submission.suffixes)
    if is_stdout:
        sys.stdout.buffer.write(content.getbuffer())
    else:
        write_output(destination, content.getvalue())
    if json:
        print_json({"run": folder.id, "path": str(destination.absolute()), "rows": rows})
    elif not is_stdout:
        print(destination)


def _export_to_mlflow(name: str, uri: str, experiment: str, *, redact: bool, json: bool) -> None:
    from harness.submit.mlflow_export import log_to_mlflow, require_mlflow, shown_uri
    from harness.submit.mlflow_record import attack_record, require_ended, write_run_artifacts
    from harness.submit.run_facts import run_facts

    folder = run_folder(name)
    require_mlflow()
    require_ended(folder.id, run_status(folder))
    with tempfile.TemporaryDirectory() as temporary:
        artifacts = Path(temporary)
        if isinstance(folder.spec(), AuditSpec):
            record = _write_audit(folder, artifacts, redact=redact)
        else:
            facts = run_facts(folder)
            record = attack_record(facts, is_redacted=redact)
            write_run_artifacts(facts, artifacts, redact=redact)
        files = sorted(path.relative_to(artifacts).as_posix() for path in artifacts.rglob("*") if path.is_file())
        logged = log_to_mlflow(uri, experiment, record, artifacts)
    say(f"{'logged' if logged.is_new else 'updated'} the MLflow run of {folder.id} in the experiment {experiment}")
    if json:
        print_json(
            {
                "run": folder.id,
                "tracking_uri": shown_uri(uri),
                "experiment": experiment,
                "experiment_id": logged.experiment_id,
                "mlflow_run": logged.id,
                "is_new": logged.is_new,
                "params": len(record.params),
                "metrics": len(record.metrics),
                "artifacts": files,
            }
        )
    else:
        print(logged.url or logged.id)


def _write_audit(folder: RunFolder, artifacts: Path, *, redact: bool) -> "MlflowRecord":
    """Write the files of an audit to `artifacts`, and return its record."""
    from harness.cli.audit_findings import audit_header, findings_of
    from harness.submit.audit_export import write_audit
    from harness.submit.audit_redaction import redact_findings
    from harness.submit.mlflow_record import AUDIT_FOLDER, audit_record

    findings, header = findings_of(folder), audit_header(folder)
    if redact:
        findings = redact_findings(findings)
    write_audit(artifacts / AUDIT_FOLDER, findings, header)
    with AuditReader(folder.store) as reader:
        return audit_record(folder, header, findings, reader.newest_figures())


def report(
    runs: Runs,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The .html file to write.", show_default=True)
    ] = Path("report.html"),
    redact: Redact = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write an HTML page about one or several runs.

    The page holds scores, curves, a comparison and examples, and needs no other file.
    """
    from harness.submit.report import report_page

    if out.suffix != ".html":
        raise UsageError(f"{out}: a report is an .html file. Choose another name.")
    check_output_file(out, force=force)
    folders = [run_folder(name) for name in runs]
    write_output(out, report_page(folders, redact=redact))
    if json:
        print_json({"path": str(out.absolute()), "runs": [folder.id for folder in folders]})
    else:
        print(sanitize(str(out)))
