"""`harness audit entities`: does a NER model recognize names that it was trained on?"""

from pathlib import Path
from typing import Annotated

import typer

from harness.audits.entities.audit import EntitiesAudit, EntitiesParams, Match
from harness.audits.entities.inputs import read_inputs
from harness.cli.audit_run import AuditOptions, Targets, run_audit
from harness.cli.options import DeviceOptions
from harness.cli.resolving import model_records
from harness.core.errors import UsageError


def entities(
    *,
    target: Targets = None,
    in_train: Annotated[
        Path | None, typer.Option("--in-train", metavar="FILE", help="Names in the training data, as text or TSV.")
    ] = None,
    out_train: Annotated[
        Path | None, typer.Option("--out-train", metavar="FILE", help="Names outside the training data.")
    ] = None,
    conll: Annotated[
        list[Path] | None,
        typer.Option("--conll", metavar="FILE", help="Training corpus in CoNLL-2003 format; repeatable."),
    ] = None,
    wikidata: Annotated[
        Path | None, typer.Option("--wikidata", metavar="FILE", help="SPARQL result of names, used with --conll.")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", metavar="FILE", help="Sentences with one MASK; by default 400 shipped ones."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="Label for a person, if not PER or PERSON; repeatable.")
    ] = None,
    match: Annotated[
        Match, typer.Option("--match", help="Tokens of a name: by its characters, or as in the source.")
    ] = Match.OFFSETS,
    attention_prompts: Annotated[
        int, typer.Option("--attention-prompts", min=1, max=200, help="Best and worst prompts to measure attention in.")
    ] = 3,
    compute: DeviceOptions,
    options: AuditOptions,
) -> None:
    """Compare a NER model's confidence in trained and other names."""
    if not target:
        raise UsageError("no token classification model is named. Give --target.")
    params = EntitiesParams.checked(match=match, labels=label or (), attention_prompts=attention_prompts)
    named = {"in-train": in_train, "out-train": out_train, "wikidata": wikidata, "prompts": prompts}
    named |= {f"conll {number}": path for number, path in enumerate(conll or (), 1)}
    run_audit(
        EntitiesAudit(params),
        read_inputs(
            in_train=in_train,
            out_train=out_train,
            conll=conll or (),
            wikidata=wikidata,
            prompts=prompts,
            seed=options.seed,
        ),
        name=(in_train or wikidata or Path("names")).stem,
        files={option: path for option, path in named.items() if path is not None},
        models=model_records(target, compute, revision=options.revision),
        options=options,
    )
