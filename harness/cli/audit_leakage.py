"""`harness audit leakage`: how likely does each sequence leak?"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from harness.audits.leakage.audit import LeakageAudit
from harness.audits.leakage.inputs import PairSize, PairSource, read_inputs
from harness.audits.leakage.params import LeakageParams
from harness.audits.models import Model
from harness.audits.schemes import SCHEMES
from harness.audits.sources import CorpusFiles
from harness.cli.audit_endpoint import ENDPOINT_SCHEMES, EndpointOptions, for_endpoint, with_probed_form
from harness.cli.audit_run import AuditOptions, Round, Targets, named_source, run_audit
from harness.cli.options import DeviceOptions, TextOptions
from harness.cli.resolving import model_records
from harness.corpora.documents import require_fields


@dataclass(frozen=True)
class LeakageOptions:
    """The decoding schemes and the measurements: fields of LeakageParams, which is checked later."""

    temperature: Annotated[float, typer.Option(help="Temperature of the `temperature` scheme.")] = 0.7
    top_k: Annotated[int, typer.Option(help="Tokens kept by the `top_k` scheme.")] = 10
    top_p: Annotated[float, typer.Option(help="Probability mass kept by the `top_p` scheme.")] = 0.9
    typical_p: Annotated[float, typer.Option(help="Probability mass kept by the `typical_p` scheme.")] = 0.6
    queries: Annotated[int, typer.Option(help="Number of queries for the corrected extraction rate.")] = 30
    inexact: Annotated[int, typer.Option(help="Sequences whose inexact matches are measured; 0 for none.")] = 200
    branches: Annotated[int, typer.Option(help="Partial suffixes kept in the search for inexact matches.")] = 256
    least: Annotated[float, typer.Option(help="Minimum probability of a partial suffix that is kept.")] = 1e-5
    near: Annotated[int, typer.Option(help="Sequences whose near-verbatim probability is bounded; 0 for none.")] = 100
    edits: Annotated[int, typer.Option(help="Maximum token edits of a near-verbatim suffix.")] = 5
    beams: Annotated[int, typer.Option(help="Partial suffixes followed in the near-verbatim search.")] = 16
    draws: Annotated[int, typer.Option(help="Substitutions sampled in suffixes of more than 8 tokens.")] = 16


def leakage(
    *,
    pairs: Annotated[
        Path | None,
        typer.Argument(metavar="PAIRS", help="Prefixes and suffixes: .npz or .npy (tokens), .jsonl or .tsv (text)."),
    ] = None,
    round_: Round = None,
    names: Annotated[bool, typer.Option("--names", help="Use names in the demo target's generated corpus.")] = False,
    corpus: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Corpus to cut at the entities that --tagger marks.")
    ] = None,
    tagger: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Token classification model: hub id or directory.")
    ] = None,
    reading: TextOptions,
    target: Targets = None,
    prefix_lengths: Annotated[
        str, typer.Option(metavar="N,N,…", help="Prefix lengths to sweep over, in tokens; --names: 10,20,30,40,50.")
    ] = "",
    prefix_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of a whole prefix: the source's, or 50 for text.")
    ] = None,
    suffix_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of a suffix: the source's, 50 for text, 4 for entities.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum sequences, sampled by seed.")] = 10_000,
    schemes: Annotated[
        str,
        typer.Option(metavar="SCHEME,…", help="Decoding schemes beside greedy, plain and top_k; all by default."),
    ] = "",
    measurement: LeakageOptions,
    server: EndpointOptions,
    entity_kinds: Annotated[str, typer.Option(metavar="KIND,…", help="Kinds of entities to use, such as PER.")] = "",
    compute: DeviceOptions,
    options: AuditOptions,
) -> None:
    """Compute how likely each sequence is to leak.

    Computes exact and inexact probabilities under six decoding schemes; with an endpoint, exact ones under three.

    Several --target of one tokenizer and several --prefix-lengths are swept over.
    """
    require_fields(reading.field, [corpus])
    source = PairSource.select(
        named_source(pairs, round_, reading),
        names=names,
        corpus=None if corpus is None else CorpusFiles(corpus, reading.field, None, reading.keep_line_ends),
        tagger=tagger,
        size=PairSize(prefix_tokens, suffix_tokens),
    )
    is_served = server.endpoint is not None
    params = LeakageParams.checked(
        **asdict(measurement),
        **asdict(server),
        schemes=schemes.replace(",", " ").split() or (ENDPOINT_SCHEMES if is_served else SCHEMES),
        prefix_lengths=source.prefix_lengths(prefix_lengths),
        entity_tokens=suffix_tokens or 4,
        entity_kinds=entity_kinds.replace(",", " ").split(),
    )
    ids, revision = source.models(target, options.revision)
    params = for_endpoint(params, ids[: len(ids) - (tagger is not None)])
    records = model_records(ids, compute, revision=revision, is_first_served=is_served)
    inputs = read_inputs(source, params, {record.id: record.path for record in records}, limit=limit, seed=options.seed)
    params = with_probed_form(params, Model(records[0].id, records[0].path))
    run_audit(LeakageAudit(params), inputs, name=source.name, files=source.files, models=records, options=options)
