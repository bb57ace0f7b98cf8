"""`harness audit book`: how much of a long text can be extracted?"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from harness.audits.book.audit import BookAudit
from harness.audits.book.inputs import BookParams, StrideUnit, read_texts
from harness.audits.models import Model
from harness.cli.audit_endpoint import EndpointOptions, for_endpoint, with_probed_form
from harness.cli.audit_run import AuditOptions, Targets, run_audit
from harness.cli.options import DeviceOptions, TextOptions
from harness.cli.resolving import model_records
from harness.core.errors import UsageError
from harness.corpora.documents import require_fields


@dataclass(frozen=True)
class BookOptions:
    """The windows and the decoding schemes: fields of BookParams, which checks them later."""

    prefix_tokens: Annotated[int, typer.Option(help="Tokens of a window that the model is given.")] = 50
    suffix_tokens: Annotated[int, typer.Option(help="Tokens of a window whose probability is computed.")] = 50
    stride: Annotated[int, typer.Option(help="Distance between the starts of two windows.")] = 10
    stride_unit: Annotated[StrideUnit, typer.Option(help="Unit of the stride.")] = StrideUnit.CHARACTERS
    near: Annotated[int, typer.Option(help="Windows whose near-verbatim probability is bounded; 0 for none.")] = 100
    edits: Annotated[int, typer.Option(help="Maximum token edits of a near-verbatim suffix.")] = 5
    beams: Annotated[int, typer.Option(help="Partial suffixes followed in the near-verbatim search.")] = 16
    temperature: Annotated[float, typer.Option(help="Temperature of the `temperature` scheme.")] = 0.7
    top_k: Annotated[
        int, typer.Option(help="Tokens kept by the `top_k` scheme; vLLM returns 20 unless started with --max-logprobs.")
    ] = 40
    top_p: Annotated[float, typer.Option(help="Probability mass kept by the `top_p` scheme.")] = 0.9
    typical_p: Annotated[float, typer.Option(help="Probability mass kept by the `typical_p` scheme.")] = 0.6


def book(
    *,
    text: Annotated[
        list[Path] | None,
        typer.Argument(metavar="TEXT…", help="Text files, directories of them, or .jsonl, .csv or .parquet files."),
    ] = None,
    control: Annotated[
        Path | None, typer.Option(metavar="TEXT", help="Text of the same kind that no target has seen.")
    ] = None,
    target: Targets = None,
    reading: TextOptions,
    split: Annotated[str | None, typer.Option(help="Split of a data set that has several.")] = None,
    schemes: Annotated[
        str,
        typer.Option(metavar="SCHEME,…", help="Decoding schemes: greedy, plain, temperature, top_k, top_p, typical_p."),
    ] = "top_k,greedy",
    measurement: BookOptions,
    server: EndpointOptions,
    compute: DeviceOptions,
    options: AuditOptions,
) -> None:
    """Map which passages of long texts can be extracted.

    Computes the probability that each target completes each window of the texts.
    """
    if not text:
        raise UsageError("no text is named. Give a file or a directory.")
    if not target:
        raise UsageError("no target is named. Give --target.")
    require_fields(reading.field, [*text, control])
    params = BookParams.checked(**asdict(measurement), **asdict(server), schemes=schemes.replace(",", " ").split())
    params = for_endpoint(params, target)
    records = model_records(target, compute, revision=options.revision, is_first_served=params.endpoint is not None)
    models = [Model(record.id, record.path) for record in records]
    inputs = read_texts(
        text,
        control,
        models,
        params,
        field=reading.field,
        split=split,
        keeps_line_ends=reading.keep_line_ends,
    )
    params = with_probed_form(params, models[0])
    files = {"text" if number == 1 else f"text {number}": path for number, path in enumerate(text, 1)}
    if control is not None:
        files["control"] = control
    run_audit(BookAudit(params), inputs, name=text[0].resolve().stem, files=files, models=records, options=options)
