"""The shared part of all audit commands: options, model records, starting and following an audit, its findings."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import Detach, Device, Dtype, Json, Seed, ShareDevice, Threads, budget_seconds, round_option
from harness.cli.output import pluralize, print_json, say

if TYPE_CHECKING:
    from harness.core.audit import Audit, AuditInputs
    from harness.core.findings import Findings
    from harness.core.spec import TargetRecord
    from harness.runs.folder import RunFolder
    from harness.submit.audit_export import AuditHeader

Targets = Annotated[list[str] | None, typer.Option("--target", help="Hub id or directory of a model; repeatable.")]
Round = Annotated[str | None, round_option("Round whose answers are known.")]
TextField = Annotated[str, typer.Option(help="Field or column with the text of a record.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="Directory for tables, figures and a page.")
]
Redact = Annotated[bool, typer.Option("--redact", help="Replace text with its length and hash; file names stay.")]


@dataclass(frozen=True)
class AuditOptions:
    """The options that all audits share."""

    revision: Annotated[str, typer.Option(help="Revision of hub models.")] = "main"
    budget: Annotated[str, typer.Option(help="Wall-clock limit such as 24h or 90m.")] = "24h"
    seed: Seed = 0
    device: Device = "auto"
    dtype: Dtype = "auto"
    threads: Threads = None
    share_device: ShareDevice = False
    out: Out = None
    redact: Redact = False
    detach: Detach = False
    json: Json = False

    def model_records(self, ids: Sequence[str], *, revision: str | None = None) -> "tuple[TargetRecord, ...]":
        """Return each model as found on this machine. Raises HarnessError for one that is not available."""
        from harness.cli.resolving import model_record, require_device

        require_device(self.device, self.dtype, self.threads)
        return tuple(
            model_record(
                id_,
                revision=revision or self.revision,
                device=self.device,
                dtype=self.dtype,
                threads=self.threads,
            )
            for id_ in dict.fromkeys(ids)
        )


def with_audit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `options` of `command` with one command line option per field of AuditOptions."""
    own = [one for one in inspect.signature(command).parameters.values() if one.name != "options"]
    shared = list(inspect.signature(AuditOptions).parameters.values())

    @functools.wraps(command)
    def run(**given: Any) -> None:
        options = AuditOptions(**{one.name: given.pop(one.name) for one in shared})
        command(**given, options=options)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own, *shared)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def run_audit(
    audit: "Audit[Any]",
    inputs: "AuditInputs",
    *,
    name: str,
    files: Mapping[str, Path],
    models: "Sequence[TargetRecord]",
    options: AuditOptions,
) -> None:
    """Start the audit, follow it to its end and print its findings. Ctrl-C leaves it running.

    name: of the source, for the run's id; files: those that the user named, by option. Raises HarnessError if the audit
    cannot start or fails.
    """
    from harness.cli.watching import follow_audit
    from harness.jobs.audit.planning import plan_audit
    from harness.runs.folder import new_run_id
    from harness.runs.launch import start_job
    from harness.runs.summary import run_summary

    if options.out is not None:
        from harness.submit.audit_export import check_audit_folder

        check_audit_folder(options.out)
    seconds = budget_seconds(options.budget)
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "audit"
    id_ = new_run_id(f"{audit.name}-{label}")

    folder = start_job(
        id_,
        lambda laid: plan_audit(
            audit,
            inputs,
            id_=id_,
            subject=name,
            sources=files,
            models=models,
            budget=seconds,
            seed=options.seed,
            shares_device=options.share_device,
            folder=laid.inputs,
        ),
    )
    if options.detach:
        if options.json:
            print_json(run_summary(folder).as_json())
        else:
            print(folder.id)
            say(f"Follow it with `harness watch {folder.id}`; `harness audit show {folder.id}` prints its findings.")
        return
    say(f"audit {folder.id} · Ctrl-C leaves it running")
    try:
        follow_audit(folder)
    finally:
        # Findings are printed however the audit ended; the exit code says how.
        if run_summary(folder).status.is_over:
            print_findings(folder, out=options.out, redact=options.redact, json=options.json)


def findings_of(folder: "RunFolder") -> "Findings":
    """Compute the findings so far from the run's record. Raises HarnessError if it cannot be read."""
    from harness.audits.registry import audit_named
    from harness.core.audit import AuditInputs
    from harness.core.errors import HarnessError
    from harness.jobs.audit.reader import AuditReader
    from harness.runs.errors import as_harness_error

    spec = folder.audit()
    audit_type = audit_named(spec.audit)
    tables = {table.name: table for table in spec.tables}
    audit = audit_type(audit_type.params_type().model_validate(spec.params))
    if not folder.store.exists():
        raise HarnessError(f"{folder.id} has no findings yet. Follow it with `harness watch {folder.id}`.")
    with as_harness_error(folder.path), AuditReader(folder.store) as reader:
        inputs = AuditInputs.read(folder.inputs)
        return audit.findings(
            inputs, lambda name: reader.audit_rows(tables[name]).columns, tuple(model.id for model in spec.models)
        )


def print_findings(folder: "RunFolder", *, out: Path | None, redact: bool, json: bool) -> None:
    """Print the findings of an audit, and write them to the directory `out` if one is given."""
    from harness.submit.audit_redaction import redact_findings

    findings = findings_of(folder)
    if out is not None:
        from harness.submit.audit_export import write_audit

        files = write_audit(out, findings, _header(folder), redact=redact)
        say(f"wrote {pluralize(len(files), 'file')} to {out}; open {out / 'index.html'}")
    shown = redact_findings(findings) if redact else findings
    if json:
        print_json(shown.figures)
    else:
        from harness.cli.auditing_words import findings_in_words

        print(findings_in_words(shown))


def _header(folder: "RunFolder") -> "AuditHeader":
    from harness.audits.registry import audit_named
    from harness.jobs.audit.reader import AuditReader
    from harness.runs.summary import run_summary
    from harness.submit.audit_export import AuditHeader

    spec, summary = folder.audit(), run_summary(folder)
    audit_type = audit_named(spec.audit)
    with AuditReader(folder.store) as reader:
        warnings = reader.warnings()
    return AuditHeader(
        spec=spec,
        title=audit_type.title,
        reference=audit_type.reference,
        status=summary.status,
        reason=summary.reason,
        elapsed=summary.elapsed_s,
        sandbox=summary.sandbox or "none yet",
        warnings=warnings,
    )
