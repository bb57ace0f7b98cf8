"""`harness audit compare`: did memorization change between targets?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from harness.audits.compare.audit import CompareAudit
from harness.audits.compare.inputs import (
    SCHEMES,
    CompareParams,
    Sequences,
    Stored,
    common_sequences,
    read_copies,
    with_control,
)
from harness.audits.leakage.inputs import PairSize, PairSource, read_pairs
from harness.audits.leakage.pairs import Pairs
from harness.audits.leakage.params import LeakageParams
from harness.audits.leakage.rows import measured_pairs
from harness.audits.models import Model
from harness.audits.sources import select_source
from harness.cli.audit_run import AuditOptions, Round, Targets, run_audit
from harness.cli.options import DeviceOptions, KeepLineEnds
from harness.cli.resolving import model_records
from harness.core.audit import AuditInputs, RowsOf
from harness.core.errors import HarnessError, UsageError
from harness.jobs.audit.reader import AuditReader
from harness.runs.folder import RunFolder, run_folder


@dataclass(frozen=True)
class CompareOptions:
    """The measurement: fields of CompareParams, which checks them later."""

    top_k: Annotated[int, typer.Option(help="Tokens kept by top-k sampling.")] = 10
    queries: Annotated[int, typer.Option(help="Queries after which leaked sequences are counted.")] = 1000


def compare(
    *,
    pairs: Annotated[
        Path | None,
        typer.Argument(metavar="PAIRS", help="Prefixes and suffixes: .npz or .npy (tokens), .jsonl or .tsv (text)."),
    ] = None,
    round_: Round = None,
    names: Annotated[bool, typer.Option("--names", help="Use names in the demo target's generated corpus.")] = False,
    run: Annotated[
        list[str] | None,
        typer.Option(help="Leakage audit whose probabilities are compared, the earlier one first; repeatable."),
    ] = None,
    control: Annotated[Path | None, typer.Option(metavar="PAIRS", help="Pairs that should not have changed.")] = None,
    control_round: Annotated[
        str | None, typer.Option(metavar="ROUND", help="Round whose examples should not have changed.")
    ] = None,
    copies: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Copies of each pair in the training data, as .npy.")
    ] = None,
    keep_line_ends: KeepLineEnds = False,
    target: Targets = None,
    prefix_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of a whole prefix.")] = None,
    suffix_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of a suffix.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum sequences, sampled by seed.")] = 10_000,
    measurement: CompareOptions,
    compute: DeviceOptions,
    options: AuditOptions,
) -> None:
    """Compare what targets have memorized of the same sequences.

    The first --target or --run is before, the others are after. Audits are compared without their models.
    """
    if run:
        named = {
            "the pairs": pairs,
            "--round": round_,
            "--names": names or None,
            "--control": control,
            "--control-round": control_round,
            "--copies": copies,
            "--target": target,
            "--prefix-tokens": prefix_tokens,
            "--suffix-tokens": suffix_tokens,
            "--keep-line-ends": keep_line_ends or None,
        }
        if further := [option for option, value in named.items() if value is not None]:
            raise UsageError(f"--run compares stored audits. Remove {' and '.join(further)}.")
        folders = [run_folder(name) for name in run]
        if len({folder.id for folder in folders}) < len(folders):
            raise UsageError("a run is named twice with --run. Name two audits.")
        sequences = common_sequences([_stored_audit(folder) for folder in folders])
        if len(sequences.stored) < 2:
            raise UsageError("one target is named, and a comparison needs two. Name another audit with --run.")
        params = CompareParams.checked(top_k=sequences.stored[0].top_k, queries=measurement.queries)
        files = {f"run {number}": folder.path for number, folder in enumerate(folders, 1)}
        run_audit(CompareAudit(params), sequences.to_inputs(), name="runs", files=files, models=(), options=options)
        return
    size = PairSize(prefix_tokens, suffix_tokens)
    choices = "a file of pairs, --round, --names, or stored audits with --run"
    source = PairSource.select(
        select_source(pairs, round_, keeps_line_ends=keep_line_ends), names=names, size=size, choices=choices
    )
    params = CompareParams.checked(top_k=measurement.top_k, queries=measurement.queries)
    ids, revision = source.models(target, options.revision)
    if len(ids) < 2:
        raise UsageError(
            f"only {ids[0]} is named, and a comparison needs two targets. Name another one with --target. Precisions "
            "of one target are compared as stored audits, with --run."
        )
    records = model_records(ids, compute, revision=revision)
    models = [Model(record.id, record.path) for record in records]
    read = read_pairs(source, models, limit=limit, seed=options.seed)
    files = source.files
    beside = None
    if control is not None or control_round is not None:
        beside_source = PairSource.select(
            select_source(control, control_round, keeps_line_ends=keep_line_ends), names=False, size=size
        )
        beside = read_pairs(beside_source, models, limit=limit, seed=options.seed)
        files |= {f"control {option}": path for option, path in beside_source.files.items()}
    joined, is_control = with_control(read, beside)
    counted = read_copies(copies, read, 0 if beside is None else len(beside))
    if copies is not None:
        files["copies"] = copies
    sequences = Sequences(joined, is_control, counted, joined.rows)
    run_audit(
        CompareAudit(params), sequences.to_inputs(), name=source.name, files=files, models=records, options=options
    )


def _stored_audit(folder: RunFolder) -> tuple[str, Pairs, Sequence[Stored]]:
    """Return the id, the pairs and the targets of a leakage audit. Raises HarnessError for another audit."""
    spec = folder.audit_spec()
    if spec.audit != "leakage":
        raise HarnessError(f"{folder.id} is an audit of kind {spec.audit}, and --run takes leakage audits.")
    params = LeakageParams.model_validate(spec.params)
    tables = {table.name: table for table in spec.tables}
    inputs = AuditInputs.read(folder.inputs)
    with AuditReader(folder.store) as reader:
        rows: RowsOf = lambda name: reader.audit_rows(tables[name]).columns  # noqa: E731
        given = Pairs.from_inputs(inputs)
        pairs = measured_pairs(given, rows, params)
        tokens = rows("token")
    names = params.model_names(tuple(model.id for model in spec.models))[: len(spec.models) - bool(given.documents)]
    length = np.asarray(tokens["prefix_length"], np.int64) == pairs.prefix_length
    stored = []
    for number, name in enumerate(names):
        places = np.flatnonzero(length & (np.asarray(tokens["model"], np.int64) == number))
        # If a sequence has several rows, the last one counts.
        places = places[::-1]
        sequences, first = np.unique(np.asarray(tokens["sequence"], np.int64)[places], return_index=True)
        if len(sequences) < len(pairs):
            raise HarnessError(f"{folder.id} has not measured all sequences of {name}. Continue with harness resume.")
        logprobs = np.array([np.asarray(tokens[scheme.value], np.float64)[places[first]] for scheme in SCHEMES])
        stored.append(Stored(name, logprobs, int(spec.params["top_k"])))
    return folder.id, pairs, stored
