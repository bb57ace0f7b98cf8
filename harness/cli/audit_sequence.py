"""`harness audit sequence`: was this corpus in the training data?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.auditing import Budget, Detach, Device, Dtype, Json, Out, Redact, Revision, Seed, Threads
from harness.cli.completion import round_names
from harness.cli.output import say

if TYPE_CHECKING:
    from harness.core.spec import TargetRecord


def sequence(
    corpus: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CORPUS]", help="A folder of text files, a .jsonl or .csv, or a data set that `datasets` saved."
        ),
    ] = None,
    round_: Annotated[
        str | None,
        typer.Option(
            "--round",
            "-r",
            metavar="ROUND",
            help="The examples of a round whose answers are known, instead of a corpus.",
            autocompletion=round_names,
        ),
    ] = None,
    field: Annotated[str, typer.Option(help="The field or column of a record that holds its text.")] = "text",
    split: Annotated[str | None, typer.Option(help="The split of a data set that has several.")] = None,
    control: Annotated[
        Path | None, typer.Option(metavar="CORPUS", help="Text of the same kind that the target never saw.")
    ] = None,
    control_round: Annotated[
        str | None, typer.Option(metavar="ROUND", help="The same, from a round whose answers are known.")
    ] = None,
    prompt_length: Annotated[
        int | None, typer.Option(min=1, help="Words of a prompt: 35, or a round's own prefixes, if none is given.")
    ] = None,
    longest_suffix: Annotated[int, typer.Option(min=1, help="Words of a suffix that are compared at most.")] = 250,
    limit: Annotated[int, typer.Option(min=1, help="Paragraphs at most on each side, drawn by the seed.")] = 10_000,
    overlap: Annotated[
        str, typer.Option(help="How repeated words count in the overlap: multiset or set.")
    ] = "multiset",
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the most likely token at each step.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Tokens kept at each step of a draw.")] = None,
    top_p: Annotated[float, typer.Option(help="Mass of the tokens kept at each step of a draw.")] = 1.0,
    target: Annotated[
        str | None, typer.Option(help="A hub id or a folder; a round's own target if none is named.")
    ] = None,
    revision: Revision = "main",
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Base URL of an OpenAI-compatible completions API; its key: HARNESS_ENDPOINT_KEY or OPENAI_API_KEY.",
        ),
    ] = None,
    endpoint_model: Annotated[str | None, typer.Option(help="The model's name at the endpoint.")] = None,
    requests_per_minute: Annotated[float, typer.Option(help="Requests that an endpoint is sent at most.")] = 60.0,
    concurrency: Annotated[int, typer.Option(help="Requests under way at an endpoint at once.")] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds that an endpoint has for an answer.")] = 60.0,
    retries: Annotated[int, typer.Option(help="How often a request that failed is sent again.")] = 6,
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
    """Test whether a corpus was in the training data.

    The model continues the beginning of each paragraph, and its continuation is compared with the paragraph.
    """
    from harness.audits.sequence.audit import SequenceAudit
    from harness.audits.sequence.inputs import sequence_inputs
    from harness.audits.sequence.params import SequenceParams
    from harness.audits.sequence.sources import named_files, required_source, source_of, subject_of, target_named
    from harness.cli.auditing import model_records, run_audit

    params = SequenceParams.checked(
        prompt_length=prompt_length,
        longest_suffix=longest_suffix,
        limit=limit,
        overlap=overlap,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        endpoint=endpoint,
        endpoint_model=endpoint_model,
        requests_per_minute=requests_per_minute,
        concurrency=concurrency,
        timeout=timeout,
        retries=retries,
    )
    source = required_source(corpus, round_, field=field, split=split)
    held_against = source_of(control, control_round, field=field, split=None)
    named = target_named(target, revision, source, held_against, params)
    models: tuple[TargetRecord, ...] = ()
    if named is not None:
        models = model_records([named.id], revision=named.revision, device=device, dtype=dtype, threads=threads)
    tokenizer = models[0].path / "tokenizer.json" if models else None
    inputs = sequence_inputs(
        source,
        held_against,
        params,
        seed=seed,
        tokenizer_file=tokenizer,
        on_progress=lambda paragraphs: say(f"read {paragraphs:,} paragraphs …"),
    )
    run_audit(
        SequenceAudit(params),
        inputs,
        subject=subject_of(source),
        sources=named_files("corpus", source) | named_files("control", held_against),
        models=models if endpoint is None else (),
        budget=budget,
        seed=seed,
        out=out,
        redact=redact,
        detach=detach,
        json=json,
    )
