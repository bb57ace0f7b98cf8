"""What the commands of every audit share: their options, their models, and an audit begun, followed and told."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.output import pluralize, print_json, say

if TYPE_CHECKING:
    from harness.core.audit import Audit, AuditInputs
    from harness.core.findings import Findings
    from harness.core.spec import TargetRecord
    from harness.runs.folder import RunFolder
    from harness.submit.audit import AuditHeader

Targets = Annotated[
    list[str] | None, typer.Option("--target", help="A hub id or a folder; some audits take several, smallest first.")
]
Revision = Annotated[str, typer.Option(help="The revision of hub targets.")]
Budget = Annotated[str, typer.Option(help="Wall clock such as 24h or 90m.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every draw.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, float16 or bfloat16.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads; all usable cores by default.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="A folder for tables, pictures and a page.")
]
Redact = Annotated[
    bool, typer.Option("--redact", help="Hide all text in what is written; lengths, hashes and names of files stay.")
]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return as soon as the audit can be observed.")]
Json = Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")]


def run_audit(
    audit: "Audit[Any]",
    inputs: "AuditInputs",
    *,
    subject: str,
    sources: Mapping[str, Path],
    models: "Sequence[TargetRecord]",
    budget: str,
    seed: int,
    out: Path | None,
    redact: bool,
    detach: bool,
    json: bool,
) -> None:
    """Begin the audit, follow it to its end, and tell what it found; Ctrl-C leaves it running.

    subject: what it was given, in a word; sources: files and folders that the user named, by option. Raises
    HarnessError when it cannot begin, or ended badly.
    """
    from harness.cli.watching import follow_audit
    from harness.core.times import parse_duration
    from harness.jobs.audit.planning import plan_audit
    from harness.runs.folder import new_run_id
    from harness.runs.launch import start_job
    from harness.runs.summary import run_summary

    if out is not None:
        from harness.submit.audit import require_room_for_audit

        require_room_for_audit(out)
    seconds = parse_duration(budget)
    label = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")[:40] or "audit"
    id_ = new_run_id(f"{audit.name}-{label}")

    folder = start_job(
        id_,
        lambda laid: plan_audit(
            audit,
            inputs,
            id_=id_,
            subject=subject,
            sources=sources,
            models=models,
            budget=seconds,
            seed=seed,
            folder=laid.inputs,
        ),
    )
    if detach:
        if json:
            print_json(run_summary(folder).as_json())
        else:
            print(folder.id)
            say(f"harness watch {folder.id}; harness audit show {folder.id} tells what it found")
        return
    say(f"audit {folder.id} · Ctrl-C leaves it running")
    try:
        follow_audit(folder)
    finally:
        # What was found is told however it ended, and the exit code says how that was.
        if run_summary(folder).status.is_over:
            tell(folder, out=out, redact=redact, json=json)


def findings_of(folder: "RunFolder") -> "Findings":
    """What the audit has found so far, made anew from its record. Raises HarnessError when that cannot be read."""
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
        raise HarnessError(f"{folder.id} has found nothing yet; harness watch {folder.id} follows it.")
    with as_harness_error(folder.path), AuditReader(folder.store) as reader:
        inputs = AuditInputs.read(folder.inputs)
        return audit.findings(
            inputs, lambda name: reader.audit_rows(tables[name]).columns, tuple(model.id for model in spec.models)
        )


def model_records(
    ids: Sequence[str], *, revision: str, device: str, dtype: str, threads: int | None
) -> "tuple[TargetRecord, ...]":
    """Each model as it was found on this machine. Raises HarnessError for one that is not to be had."""
    from harness.cli.resolving import model_record, require_device

    require_device(device, dtype, threads)
    return tuple(
        model_record(id_, revision=revision, device=device, dtype=dtype, threads=threads) for id_ in dict.fromkeys(ids)
    )


def tell(folder: "RunFolder", *, out: Path | None, redact: bool, json: bool) -> None:
    """Print what the audit found, and write it into the folder `out` where one is named."""
    from harness.submit.found import without_text

    findings = findings_of(folder)
    if out is not None:
        from harness.submit.audit import write_audit

        files = write_audit(out, findings, _header(folder), redact=redact)
        say(f"{out}: {pluralize(len(files), 'file')}; {out / 'index.html'} is the page")
    shown = without_text(findings) if redact else findings
    if json:
        print_json(shown.figures)
    else:
        from harness.cli.auditing_words import findings_in_words

        print(findings_in_words(shown))


def _header(folder: "RunFolder") -> "AuditHeader":
    from harness.audits.registry import audit_named
    from harness.jobs.audit.reader import AuditReader
    from harness.runs.status import Status
    from harness.runs.summary import run_summary
    from harness.submit.audit import AuditHeader

    spec, summary = folder.audit(), run_summary(folder)
    audit_type = audit_named(spec.audit)
    with AuditReader(folder.store) as reader:
        warnings = reader.warnings()
    return AuditHeader(
        run=folder.id,
        audit=spec.audit,
        title=audit_type.title,
        reference=audit_type.reference,
        status=summary.status.words,
        reason=summary.reason,
        is_finished=summary.status is Status.FINISHED,
        created_at=spec.created_at,
        spent=summary.elapsed_s,
        budget=spec.budget,
        models=spec.models,
        inputs=spec.paths,
        params=spec.params,
        seed=spec.seed,
        versions=spec.versions,
        sandbox=summary.sandbox or "none yet",
        asked=str(spec.params.get("endpoint") or ""),
        warnings=warnings,
    )
