"""The shared part of the commands that run an audit: options, and how an audit is started and followed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.audits.sources import Source, select_source
from harness.cli.audit_findings import print_findings
from harness.cli.options import Detach, Json, Seed, ShareDevice, TextOptions, budget_seconds, round_option
from harness.cli.output import say
from harness.cli.watching import follow_audit, interrupts_after_start, leave, print_detached
from harness.core.audit import Audit, AuditInputs
from harness.core.spec import TargetRecord
from harness.jobs.audit.planning import plan_audit
from harness.runs.folder import new_run_id
from harness.runs.launch import start_job
from harness.runs.summary import run_summary

Targets = Annotated[list[str] | None, typer.Option("--target", help="Hub id or directory of a model; repeatable.")]
Round = Annotated[str | None, round_option("Round whose answers are known.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="Directory for tables, figures and a page.")
]
Redact = Annotated[bool, typer.Option("--redact", help="Replace text with its length and hash; file names stay.")]


@dataclass(frozen=True)
class AuditOptions:
    """The options that all audits share."""

    revision: Annotated[str, typer.Option(help="Revision of hub models.")] = "main"
    budget: Annotated[str, typer.Option(metavar="DURATION", help="Wall-clock limit such as 24h or 90m.")] = "24h"
    seed: Seed = 0
    share_device: ShareDevice = False
    out: Out = None
    redact: Redact = False
    detach: Detach = False
    json: Json = False


def named_source(
    path: Path | None, round_name: str | None, reading: TextOptions, *, split: str | None = None
) -> Source | None:
    """Return the files or the round that was named, as `select_source` does."""
    return select_source(path, round_name, field=reading.field, split=split, keeps_line_ends=reading.keep_line_ends)


def run_audit(
    audit: Audit[Any],
    inputs: AuditInputs,
    *,
    name: str,
    files: Mapping[str, Path],
    models: Sequence[TargetRecord],
    options: AuditOptions,
) -> None:
    """Start the audit, follow it to its end and print its findings. Ctrl-C leaves it running.

    name: of the source, for the run's id; files: those that the user named, by option. Raises HarnessError if the audit
    cannot start or fails.
    """
    if options.out is not None:
        from harness.submit.audit_export import check_audit_folder

        check_audit_folder(options.out)
    seconds = budget_seconds(options.budget)
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "audit"
    id_ = new_run_id(f"{audit.name}-{label}")

    with interrupts_after_start(id_) as is_interrupted:
        folder = start_job(
            id_,
            lambda run: plan_audit(
                audit,
                inputs,
                id_=id_,
                subject=name,
                sources=files,
                models=models,
                budget=seconds,
                seed=options.seed,
                shares_device=options.share_device,
                folder=run.inputs,
            ),
        )
        if options.detach:
            print_detached(folder, json=options.json)
            return
    if is_interrupted.is_set():
        leave(folder)
    say(f"audit {folder.id} · Ctrl-C leaves it running")
    try:
        follow_audit(folder)
    finally:
        # Findings are printed however the audit ended; the exit code says how.
        if run_summary(folder).status.is_over:
            print_findings(folder, out=options.out, redact=options.redact, json=options.json)
