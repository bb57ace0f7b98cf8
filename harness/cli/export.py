"""`harness export` and `harness report`: records as files, as pages, or as MLflow runs."""

import json
import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, Annotated

import typer
from typer import Option

from harness.analysis.replay import past_guesses
from harness.analysis.sweep_results import sweep_results
from harness.cli.audit_findings import audit_header, findings_of, write_findings
from harness.cli.completion import name_argument, record_names
from harness.cli.options import (
    RUN_HELP,
    Force,
    Json,
    Redact,
    Run,
    check_output_file,
    make_directory,
    write_output,
)
from harness.cli.output import print_json, sanitize, say
from harness.cli.records import find_record
from harness.core.errors import HarnessError, UsageError
from harness.core.guesses import Guesses
from harness.core.submission import submission_bytes, submission_order, write_submission
from harness.core.text import json_value
from harness.runs.attack_record import every_guess, scorecard_of, submission_now
from harness.runs.folder import RunFolder, run_folder
from harness.runs.guess_reader import GuessReader
from harness.runs.specs import AttackSpec, AuditSpec
from harness.runs.summary import run_status
from harness.sweeps.record import Sweep
from harness.sweeps.tuning import Tuning

_EXPERIMENT = "harness"


def export(
    run: Run,
    out: Path | None = Option(
        None, "--out", "-o", metavar="FILE", help="A .csv, .parquet or .jsonl file; - for stdout."
    ),
    all_: bool = Option(False, "--all", help="Write every guess, not only the submitted ones."),
    trials: Path | None = Option(
        None, metavar="DIR", help="Write the submissions after 1, 10, 100, … trials here, as guess1.csv, guess10.csv, …"
    ),
    mlflow: str | None = Option(
        None, metavar="URI", help="Log the run or audit to this MLflow server or database instead."
    ),
    experiment: str | None = Option(
        None, metavar="NAME", help=f"With --mlflow: name of the experiment.  [default: {_EXPERIMENT}]"
    ),
    redact: Redact = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a run to a file, or log it to MLflow.

    The file contains the submission, or with --all every guess. A .csv has the order and format of a submission.
    .parquet and .jsonl list guesses in the order of their arrival, with scores and trials. --mlflow logs the
    parameters, metrics and files of a run or an audit as a new MLflow run.
    """
    if mlflow is not None:
        if not mlflow.strip():
            raise typer.BadParameter("name an address, such as http://127.0.0.1:5000.", param_hint="--mlflow")
        if out is not None or all_ or force or trials is not None:
            raise typer.BadParameter(
                "it writes no file. Remove --out, --all, --trials and --force.", param_hint="--mlflow"
            )
        _export_to_mlflow(run, mlflow, _EXPERIMENT if experiment is None else experiment, redact=redact, json=json)
        return
    for option, is_given in (("--experiment", experiment is not None), ("--redact", redact)):
        if is_given:
            raise typer.BadParameter("it needs --mlflow. Add that, or remove it.", param_hint=option)
    folder = run_folder(run, AttackSpec)
    if trials is None:
        _export_to_file(folder, out, all_=all_, force=force, json=json)
    elif out is not None or all_:
        raise typer.BadParameter("it names its files itself. Remove --out and --all.", param_hint="--trials")
    else:
        _export_trials(folder, trials, force=force, json=json)


def _export_trials(folder: RunFolder, directory: Path, *, force: bool, json: bool) -> None:
    """Write guess1.csv, guess10.csv, …: the submissions of the first trials, as the challenge's baseline names them.

    Keys:
        run (string): Id of the run.
        paths (object): The files written, by the number of trials.
    """
    spec = folder.attack_spec()
    with GuessReader.of_run(folder, spec) as reader:
        past = past_guesses(spec, reader)
    if not past.trials:
        raise HarnessError(f"{folder.id}: {past.note or 'The run has no guesses.'}")
    make_directory(directory)
    files = {trials: directory / f"guess{trials}.csv" for trials in past.trials}
    for path in files.values():
        check_output_file(path, force=force)
    for trials, path in files.items():
        rows = past.of_trials(trials)
        write_output(path, submission_bytes(rows.ids, rows.suffixes))
    if past.note:
        say(past.note)
    if json:
        print_json({"run": folder.id, "paths": {str(trials): str(path.absolute()) for trials, path in files.items()}})
    else:
        print("\n".join(map(str, files.values())))


def _export_to_file(folder: RunFolder, out: Path | None, *, all_: bool, force: bool, json: bool) -> None:
    """Write the submission, or every guess.

    Keys:
        run (string): Id of the run.
        path (string): The file written.
        rows (number): Rows of the file.
    """
    destination = out if out is not None else Path(f"{folder.id}.csv")
    is_stdout = str(destination) == "-"
    if is_stdout and json:
        raise typer.BadParameter("--out - writes to stdout. Name a file.", param_hint="--json")
    if not all_ and not is_stdout and destination.suffix != ".csv":
        raise UsageError(f"{destination}: a submission is a .csv file. --all writes .parquet and .jsonl too.")
    check_output_file(destination, force=force or is_stdout)
    content = BytesIO()
    if all_ and (is_stdout or destination.suffix == ".csv"):
        rows = _write_as_submission(content, folder)
    elif all_:
        guesses = every_guess(folder)
        rows = len(guesses.ids)
        _write_guesses(content, guesses, destination.suffix)
    else:
        submission = submission_now(folder)
        rows = len(submission.ids)
        content.write(submission_bytes(submission.ids, submission.suffixes))
    if is_stdout:
        sys.stdout.buffer.write(content.getbuffer())
    else:
        write_output(destination, content.getvalue())
    if json:
        print_json({"run": folder.id, "path": str(destination.absolute()), "rows": rows})
    elif not is_stdout:
        print(destination)


def _write_as_submission(file: IO[bytes], folder: RunFolder) -> int:
    """Write every guess in the order of a submission, up to the round's row cap, and return the number of rows."""
    spec, guesses = folder.attack_spec(), every_guess(folder)
    order = submission_order(guesses.ids, guesses.suffixes, guesses.score, per_example=0, row_cap=spec.round.row_cap)
    if left_out := len(guesses) - len(order):
        say(f"left out {left_out:,} guesses beyond the round's row cap of {spec.round.row_cap:,}")
    file.write(submission_bytes(guesses.ids[order], guesses.suffixes[order]))
    return len(order)


def _export_to_mlflow(name: str, uri: str, experiment: str, *, redact: bool, json: bool) -> None:
    """Log a run or an audit to MLflow.

    Keys:
        run (string): Id of the run.
        experiment (string): Name of the experiment.
        mlflow_run (string): Id of the MLflow run.
    """
    from harness.submit.audit_export import write_audit
    from harness.submit.mlflow_export import check_address, log_to_mlflow, require_mlflow
    from harness.submit.report import report_page
    from harness.submit.run_facts import run_facts

    folder = run_folder(name)
    require_mlflow()
    check_address(uri)
    if not (status := run_status(folder)).is_over:
        raise HarnessError(f"{folder.id} is {status.words}. Wait for its end with `harness watch {folder.id}`.")
    curve: Sequence[tuple[float, float]] = ()
    with tempfile.TemporaryDirectory() as temporary:
        artifacts = Path(temporary)
        if isinstance(folder.spec(), AuditSpec):
            findings = findings_of(folder, redact=redact)
            write_audit(artifacts / "audit", findings, audit_header(folder))
            key_figures = () if findings.conclusion is None else findings.conclusion.key_figures
            figures = {**findings.figures, **{figure.name: figure.number for figure in key_figures}}
        else:
            facts = run_facts(folder)
            (artifacts / "report.html").write_text(report_page([folder], redact=redact), encoding="utf-8")
            if not redact:
                write_submission(artifacts / "submission.csv", facts.submission.ids, facts.submission.suffixes)
            figures = scorecard_of(facts.spec, facts.submission) | {"any_guess_correct": facts.any_guess_correct}
            curve = () if facts.score is None else facts.curve
        logged = log_to_mlflow(uri, experiment, folder, figures, curve, artifacts)
    if json:
        print_json({"run": folder.id, "experiment": experiment, "mlflow_run": logged})
    else:
        print(logged)


def _write_guesses(file: IO[bytes], guesses: Guesses, suffix: str) -> None:
    """Write every guess: its numbers and its suffix (a list of token ids), as JSON lines or Parquet.

    suffix: of the file name, such as `.jsonl`. Raises UsageError if it is unknown. In JSON an infinite score is
    "Infinity" or "-Infinity".
    """
    import pandas as pd  # slow to import

    columns = guesses.numbers() | {"suffix": guesses.suffixes.tolist()}
    if suffix == ".jsonl":
        # pandas writes null for an infinite score, and ten decimals of any other.
        for row in zip(*columns.values(), strict=True):
            file.write(f"{json.dumps(json_value(dict(zip(columns, row, strict=True))))}\n".encode())
    elif suffix == ".parquet":
        pd.DataFrame(columns).to_parquet(file, index=False)
    else:
        raise UsageError(f"unknown format {suffix!r}. Use .csv, .jsonl or .parquet.")


def report(
    names: Annotated[
        list[str],
        name_argument("RUN|SWEEP|AUDIT", f"{RUN_HELP} Several runs, or one sweep or audit.", record_names),
    ],
    out: Path | None = Option(
        None,
        "--out",
        "-o",
        metavar="PATH",
        help="The .html file to write; for an audit, a directory.  [default: report.html, or report]",
    ),
    redact: Redact = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a page about runs, a sweep or an audit.

    The page of runs shows scores, curves, a comparison and examples. The page of a sweep shows its settings. Either
    page is one file. For an audit, the command writes a directory with a page, tables and plots.

    Keys:
        path (string): The page or the directory written.
        records (string[]): Ids of the runs, or of the sweep or the audit.
    """
    records = [find_record(name) for name in names]
    audits = [item for item in records if isinstance(item, RunFolder) and isinstance(item.spec(), AuditSpec)]
    if len(records) > 1 and (audits or not all(isinstance(item, RunFolder) for item in records)):
        raise UsageError("a page is about several runs, or about one sweep or audit. Name them one by one.")
    (record, *_), folders = records, [item for item in records if isinstance(item, RunFolder)]
    if audits:
        out = Path("report") if out is None else out
        if force:
            raise typer.BadParameter("an audit replaces its own files only.", param_hint="--force")
        write_findings(out, audits[0], findings_of(audits[0], redact=redact))
    else:
        out = Path("report.html") if out is None else out
        if out.suffix != ".html":
            raise UsageError(f"{out}: a report is an .html file. Choose another name.")
        check_output_file(out, force=force)
        write_output(out, _page(record, folders, redact=redact))
    if json:
        print_json({"path": str(out.absolute()), "records": [item.id for item in records]})
    else:
        print(sanitize(str(out)))


def _page(record: RunFolder | Tuning | Sweep, runs: list[RunFolder], *, redact: bool) -> str:
    from harness.submit.report import report_page
    from harness.submit.sweep_report import sweep_page

    if isinstance(record, Tuning):
        raise UsageError(f"{record.id} is a tuning, which has no page. `harness show {record.id}` prints it.")
    if isinstance(record, RunFolder):
        return report_page(runs, redact=redact)
    if redact:
        raise typer.BadParameter("the page of a sweep quotes no text. Remove it.", param_hint="--redact")
    results = sweep_results(record)
    for note in results.notes:
        say(sanitize(note))
    return sweep_page(results)
