"""`harness audit leakage`: with what probability does a model leak each sequence?"""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.auditing import Budget, Detach, Device, Dtype, Json, Out, Redact, Revision, Seed, Targets, Threads
from harness.cli.completion import round_names


def leakage(
    pairs: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PAIRS]", help="Prefixes and suffixes: .npz or .npy of token ids, .jsonl or .tsv of text."
        ),
    ] = None,
    round_: Annotated[
        str | None,
        typer.Option(
            "--round",
            "-r",
            metavar="ROUND",
            help="The examples of a round whose answers are known, instead of a file.",
            autocompletion=round_names,
        ),
    ] = None,
    names: Annotated[
        bool, typer.Option("--names", help="Names in the demo target's invented corpus, instead of a file.")
    ] = False,
    corpus: Annotated[
        Path | None, typer.Option(help="Text files or .jsonl, cut at the entities that --tagger marks, instead.")
    ] = None,
    tagger: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A token-classification model: a hub id or a folder.")
    ] = None,
    field: Annotated[str, typer.Option(help="The field of a corpus's record that holds its text.")] = "text",
    target: Targets = None,
    revision: Revision = "main",
    prefix_lengths: Annotated[
        str,
        typer.Option(
            metavar="N,N,…", help="Tokens of prefixes to sweep over, such as 10,20,30,40,50 (--names: these)."
        ),
    ] = "",
    prefix_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of a whole prefix: the source's own, or 50 of a text.")
    ] = None,
    suffix_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of a suffix: the source's own, 50 of a text, 4 of an entity.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Sequences at most, drawn by the seed.")] = 10_000,
    temperature: Annotated[float, typer.Option(help="Of the scheme that divides the logits.")] = 0.7,
    top_k: Annotated[int, typer.Option(help="Tokens kept: 10 as in the source's Table 1; its text has 5.")] = 10,
    top_p: Annotated[float, typer.Option(help="Mass of the smallest set of likely tokens kept.")] = 0.9,
    typical_p: Annotated[float, typer.Option(help="Mass of the most typical tokens kept.")] = 0.6,
    queries: Annotated[int, typer.Option(help="Queries at which the extraction rate is put right.")] = 30,
    inexact: Annotated[int, typer.Option(help="Sequences of which inexact matches are measured; 0 for none.")] = 200,
    branches: Annotated[int, typer.Option(help="Beginnings followed for inexact matches of a suffix.")] = 256,
    draws: Annotated[int, typer.Option(help="Substitutions drawn in suffixes of more than 8 tokens.")] = 16,
    entity_kinds: Annotated[str, typer.Option(metavar="KIND,…", help="Entities that count, such as PER.")] = "",
    budget: Budget = "24h",
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    threads: Threads = None,
    out: Out = None,
    redact: Redact = False,
    detach: Detach = False,
    json: Json = False,
) -> None:
    """Compute how likely each sequence is to leak.

    Computes exact and inexact probabilities under six decoding schemes.

    Several --target of one tokenizer and several --prefix-lengths are swept over.
    """
    from harness.audits.leakage.audit import LeakageAudit
    from harness.audits.leakage.inputs import Size
    from harness.audits.leakage.params import LeakageParams
    from harness.audits.leakage.sources import Asked, inputs_of, targets_of
    from harness.cli.auditing import model_records, run_audit

    asked = Asked.checked(
        pairs=pairs,
        round_name=round_,
        names=names,
        corpus=corpus,
        field=field,
        tagger=tagger,
        size=Size(prefix_tokens, suffix_tokens),
    )
    params = LeakageParams.checked(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        typical_p=typical_p,
        prefix_lengths=asked.prefix_lengths(prefix_lengths),
        queries=queries,
        inexact=inexact,
        branches=branches,
        draws=draws,
        entity_tokens=suffix_tokens or 4,
        entity_kinds=entity_kinds.replace(",", " ").split(),
    )
    ids, at = targets_of(target, revision, asked)
    records = model_records(ids, revision=at, device=device, dtype=dtype, threads=threads)
    inputs = inputs_of(asked, params, {record.id: record.path for record in records}, limit=limit, seed=seed)
    run_audit(
        LeakageAudit(params),
        inputs,
        subject=asked.subject,
        sources=asked.files,
        models=records,
        budget=budget,
        seed=seed,
        out=out,
        redact=redact,
        detach=detach,
        json=json,
    )
