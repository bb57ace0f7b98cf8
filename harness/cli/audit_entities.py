"""`harness audit entities`: does a model that marks names recognise those that it was trained on."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.auditing import Budget, Detach, Device, Dtype, Json, Out, Redact, Revision, Seed, Targets, Threads


class MatchOption(StrEnum):
    """What `--match` takes; a copy of the parameter's values, which are not loaded for --help."""

    OFFSETS = "offsets"
    SOURCE = "source"


def entities(
    target: Targets = None,
    in_train: Annotated[
        Path | None,
        typer.Option("--in-train", metavar="FILE", help="Names that the model was trained on, as text or TSV."),
    ] = None,
    out_train: Annotated[
        Path | None, typer.Option("--out-train", metavar="FILE", help="Names that it was not trained on.")
    ] = None,
    conll: Annotated[
        list[Path] | None,
        typer.Option("--conll", metavar="FILE", help="Or the corpus, in CoNLL-2003 format; may be given often."),
    ] = None,
    wikidata: Annotated[
        Path | None,
        typer.Option("--wikidata", metavar="FILE", help="With a SPARQL result of names, to take both lists from."),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", metavar="FILE", help="Sentences with one MASK, instead of the 400 shipped."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="A label that stands for a person, where it is not PER or PERSON."),
    ] = None,
    match: Annotated[
        MatchOption, typer.Option("--match", help="A name's tokens: those that cover it, or as the source finds them.")
    ] = MatchOption.OFFSETS,
    attention_prompts: Annotated[
        int, typer.Option("--attention-prompts", min=1, max=200, help="Best and worst prompts looked at for attention.")
    ] = 3,
    revision: Revision = "main",
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
    """Test whether a classifier was trained on given names.

    Compares the confidence of token classifiers in these names with that in names that they were not trained on.
    """
    from harness.audits.entities.audit import EntitiesAudit, EntitiesParams, Match
    from harness.audits.entities.inputs import read_inputs
    from harness.cli.auditing import model_records, run_audit
    from harness.core.errors import HarnessError

    if not target:
        raise HarnessError("name a token classification model by --target, as a hub id or a folder.")
    params = EntitiesParams(match=Match(match.value), labels=tuple(label or ()), attention_prompts=attention_prompts)
    inputs = read_inputs(
        in_train=in_train, out_train=out_train, conll=conll or (), wikidata=wikidata, prompts=prompts, seed=seed
    )
    named = {"in-train": in_train, "out-train": out_train, "wikidata": wikidata, "prompts": prompts}
    sources = {option: path for option, path in named.items() if path is not None}
    sources |= {f"conll {number}": path for number, path in enumerate(conll or (), 1)}
    run_audit(
        EntitiesAudit(params),
        inputs,
        subject=(in_train or wikidata or Path("names")).stem,
        sources=sources,
        models=model_records(target, revision=revision, device=device, dtype=dtype, threads=threads),
        budget=budget,
        seed=seed,
        out=out,
        redact=redact,
        detach=detach,
        json=json,
    )
