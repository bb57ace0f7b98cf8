"""`harness audit`: measure what a model has memorized."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from harness.audits.options import Preparation, Reading, StoredAudit
from harness.audits.registry import AUDITS, AuditEntry, audit_named
from harness.cli.audit_findings import findings_in_words, findings_of, write_findings
from harness.cli.output import print_json, say
from harness.cli.resolving import model_records, require_adapter
from harness.cli.typer_classes import CommandLine
from harness.cli.watching import follow_audit, interrupts_after_start, leave, print_detached
from harness.core.audit import Audit
from harness.core.errors import UsageError
from harness.core.options import Options, option
from harness.core.rows import Rows
from harness.core.run_request import AuditRequest
from harness.core.spec import TargetRecord
from harness.runs.audit_reader import AuditReader
from harness.runs.folder import new_run_id, run_folder
from harness.runs.launch import start_job
from harness.runs.planning import plan_audit
from harness.runs.specs import AuditSpec
from harness.runs.summary import run_summary

app = CommandLine(name="audit", help="Measure what a model has memorized.", no_args_is_help=True)


class FindingsOptions(Options):
    """The options about the findings of an audit."""

    heading: ClassVar[str] = "Options"

    out: Path | None = option(
        None, short="-o", metavar="DIR", unset="none", description="Directory for tables, plots and a page."
    )
    redact: bool = option(False, description="Replace text, not file names, with length and hash.")
    detach: bool = option(False, short="-d", description="Return as soon as the run can be watched.")
    as_json: bool = option(False, name="json", description="Print the result as JSON.")


def audit_command(entry: AuditEntry) -> Callable[..., None]:
    """Return the command that runs an audit. Its options are the fields of the audit's subject and parameters."""
    audit_type, subject_type = entry.audit_type(), entry.subject_type()

    def command(*, subject: Any, params: Any, request: AuditRequest, options: FindingsOptions) -> None:
        if options.detach and options.out is not None:
            raise UsageError(
                "--out needs findings, which --detach does not wait for. Use harness report RUN --out DIR."
            )

        def find_models(
            ids: Sequence[str], *, revision: str = request.revision, is_first_served: bool = False
        ) -> tuple[TargetRecord, ...]:
            return model_records(ids, request, revision=revision, is_first_served=is_first_served)

        preparation = Preparation(request.seed, request.revision, say, find_models, _open_audit)
        subject.require_needs(params)
        reading = subject.read(params, preparation)
        require_adapter(request, reading.models)
        run_audit(audit_type(reading.params), reading, request, options)

    command.__doc__ = subject_type.__doc__
    command.__annotations__ |= {"subject": subject_type, "params": audit_type.params_type()}
    return command


def run_audit(audit: Audit[Any], reading: Reading, request: AuditRequest, options: FindingsOptions) -> None:
    """Start the audit, follow it to its end and print its findings. Ctrl-C leaves it running.

    Raises HarnessError if the audit cannot start or fails.
    """
    if options.out is not None:
        from harness.submit.audit_export import check_audit_folder

        check_audit_folder(options.out)
    label = re.sub(r"[^a-z0-9]+", "-", reading.name.lower()).strip("-")[:40] or "audit"
    id_ = new_run_id(f"{audit.name}-{label}")

    with interrupts_after_start(id_) as is_interrupted:
        folder = start_job(
            id_,
            lambda run: plan_audit(
                audit,
                reading.inputs,
                id_=id_,
                subject=reading.name,
                sources=reading.files,
                models=reading.models,
                request=request,
                folder=run.inputs,
            ),
        )
        if options.detach:
            print_detached(folder, json=options.as_json)
            return
    if is_interrupted.is_set():
        leave(folder)
    say(f"audit {folder.id} · Ctrl-C leaves it running")
    try:
        follow_audit(folder)
    finally:
        # Findings are printed however the audit ended; the exit code says how.
        if run_summary(folder).status.is_over:
            findings = findings_of(folder, redact=options.redact)
            if options.out is not None:
                write_findings(options.out, folder, findings)
            print_json(findings.as_json()) if options.as_json else print(findings_in_words(findings))


def _open_audit(name: str) -> StoredAudit:
    """Open a recorded audit. Raises HarnessError if there is none of this name, or it cannot be read."""
    folder = run_folder(name, AuditSpec)
    spec = folder.audit_spec()
    tables = {table.name: table for table in spec.tables}

    def rows(table: str) -> Rows:
        with AuditReader(folder.store) as reader:
            return reader.audit_rows(tables[table]).columns

    models = tuple(model.id for model in spec.models)
    inputs = audit_named(spec.audit).inputs_type.read(folder.inputs)
    return StoredAudit(folder.id, spec.audit, spec.params, models, folder.path, inputs, rows)


for name, entry in AUDITS.items():
    app.command(name)(audit_command(entry))
