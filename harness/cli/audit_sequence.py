"""`harness audit sequence`: was this corpus in the training data?"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from harness.audits.sequence.audit import SequenceAudit
from harness.audits.sequence.inputs import read_inputs, select_target
from harness.audits.sequence.params import SequenceParams
from harness.audits.sources import source_files, source_name
from harness.cli.audit_endpoint import EndpointOptions
from harness.cli.audit_run import AuditOptions, Round, named_source, run_audit
from harness.cli.options import DeviceOptions, TextOptions
from harness.cli.output import say
from harness.cli.resolving import model_records
from harness.core.errors import UsageError
from harness.corpora.documents import require_fields


@dataclass(frozen=True)
class SequenceOptions:
    """The options for prompts and comparison. They are the fields of SequenceParams, which checks them later."""

    prompt_length: Annotated[
        int | None, typer.Option(min=1, help="Words of a prompt: 35, or a round's own prefixes.")
    ] = None
    longest_suffix: Annotated[int, typer.Option(min=1, help="Maximum words of a suffix that are compared.")] = 250
    limit: Annotated[int, typer.Option(min=1, help="Maximum paragraphs per side, sampled by seed.")] = 10_000
    temperature: Annotated[float, typer.Option(min=0, help="Sampling temperature; 0 is greedy decoding.")] = 0.0
    top_k: Annotated[int | None, typer.Option(min=1, help="Tokens kept by top-k sampling.")] = None
    top_p: Annotated[float, typer.Option(help="Probability mass kept by top-p sampling.")] = 1.0
    chat: Annotated[
        bool, typer.Option("--chat", help="Use the endpoint's chat completions, with an instruction to continue.")
    ] = False


def sequence(
    *,
    corpus: Annotated[
        Path | None,
        typer.Argument(metavar="CORPUS", help="Directory of text files, .jsonl, .csv, or a saved `datasets` set."),
    ] = None,
    round_: Round = None,
    reading: TextOptions,
    split: Annotated[str | None, typer.Option(help="Split of a data set that has several.")] = None,
    control: Annotated[
        Path | None, typer.Option(metavar="CORPUS", help="Text of the same kind that the target never saw.")
    ] = None,
    control_round: Annotated[
        str | None, typer.Option(metavar="ROUND", help="Round with text that the target never saw.")
    ] = None,
    measurement: SequenceOptions,
    server: EndpointOptions,
    target: Annotated[
        str | None, typer.Option(help="Hub id or directory of the model; a round's own by default.")
    ] = None,
    compute: DeviceOptions,
    options: AuditOptions,
) -> None:
    """Test whether a corpus was in the training data.

    The model completes the corpus's paragraphs, and its completions are compared with the originals.
    """
    params = SequenceParams.checked(**asdict(measurement), **asdict(server))
    require_fields(reading.field, [corpus, control])
    source = named_source(corpus, round_, reading, split=split)
    if source is None:
        raise UsageError("no corpus is named. Give a directory or a file, or a round with --round.")
    control_source = named_source(control, control_round, reading)
    named = select_target(target, options.revision, source, control_source, params)
    models = (
        ()
        if named is None
        else model_records([named[0]], compute, revision=named[1], is_first_served=params.endpoint is not None)
    )
    inputs = read_inputs(
        source,
        control_source,
        params,
        seed=options.seed,
        tokenizer_file=models[0].path / "tokenizer.json" if models else None,
        on_progress=lambda paragraphs: say(f"read {paragraphs:,} paragraphs …"),
    )
    run_audit(
        SequenceAudit(params),
        inputs,
        name=source_name(source),
        files=source_files("corpus", source) | source_files("control", control_source),
        models=models if params.endpoint is None else (),
        options=options,
    )
