"""`harness audit membership`: can members be told from non-members?"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from harness.audits.membership.audit import MembershipAudit
from harness.audits.membership.inputs import MembershipParams, read_documents
from harness.audits.models import Model
from harness.audits.sources import source_files, source_name
from harness.cli.audit_endpoint import EndpointOptions, with_probed_form
from harness.cli.audit_run import AuditOptions, Round, named_source, run_audit
from harness.cli.options import DeviceOptions, TextOptions
from harness.cli.resolving import model_records
from harness.core.errors import UsageError
from harness.corpora.documents import require_fields


@dataclass(frozen=True)
class MembershipOptions:
    """The measurement: fields of MembershipParams, which checks them later."""

    tokens: Annotated[int, typer.Option(help="Tokens at the beginning of a document that are scored.")] = 128
    least_tokens: Annotated[int, typer.Option(help="Tokens of the shortest document that is scored.")] = 32
    k: Annotated[float, typer.Option(help="Share of the least likely tokens in Min-K % and Min-K %++.")] = 0.2
    shots: Annotated[int, typer.Option(help="Non-members before the text in ReCaLL; 0 leaves it out.")] = 7


def membership(
    *,
    members: Annotated[
        Path | None,
        typer.Argument(metavar="MEMBERS", help="Documents of the training data, one per text file or JSONL row."),
    ] = None,
    round_: Round = None,
    non_members: Annotated[
        Path | None, typer.Option(metavar="CORPUS", help="Documents of the same kind that the target never saw.")
    ] = None,
    non_members_round: Annotated[
        str | None, typer.Option(metavar="ROUND", help="Round whose examples the target never saw.")
    ] = None,
    reading: TextOptions,
    target: Annotated[str | None, typer.Option(help="Hub id or directory of the model.")] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Model of the same tokenizer that never saw the members.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum documents per side, sampled by seed.")] = 2_000,
    measurement: MembershipOptions,
    server: EndpointOptions,
    compute: DeviceOptions,
    options: AuditOptions,
) -> None:
    """Test whether members can be told from non-members.

    Computes up to six scores of each document: five under the target, of which Min-K %++ is not available through an
    endpoint, and the ratio to --reference. A classifier that sees only the words shows whether the texts differ in
    kind.
    """
    require_fields(reading.field, [members, non_members])
    inside = named_source(members, round_, reading)
    outside = named_source(non_members, non_members_round, reading)
    if inside is None:
        raise UsageError("no members are named. Give a file or a directory, or a round with --round.")
    if outside is None:
        raise UsageError("no non-members are named. Give --non-members or --non-members-round.")
    if target is None:
        raise UsageError("no target is named. Give --target.")
    params = MembershipParams.checked(**asdict(measurement), **asdict(server), reference=reference is not None)
    ids = [target, *([] if reference is None else [reference])]
    is_served = params.endpoint is not None
    records = model_records(ids, compute, revision=options.revision, is_first_served=is_served)
    models = [Model(record.id, record.path) for record in records]
    if reference is not None and len(models) < 2:
        raise UsageError(f"{reference} is both --target and --reference. Choose two models.")
    inputs = read_documents(inside, outside, models, params, limit=limit, seed=options.seed)
    params = with_probed_form(params, models[0])
    files = source_files("members", inside) | source_files("non-members", outside)
    run_audit(MembershipAudit(params), inputs, name=source_name(inside), files=files, models=records, options=options)
