"""Tables and sentences about a run, which both the PDF description and the HTML report show.

Cells contain text as recorded. Whoever renders them escapes it and makes control characters visible.
"""

from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Bools
from harness.core.intervals import Interval
from harness.core.parameters import Parameter, setting_text
from harness.core.scoring import ERROR_COUNTS, Score
from harness.core.spec import TargetRecord
from harness.core.text import NO_VALUE, format_interval, format_number, format_percent, format_score, pluralize, shorten
from harness.core.times import format_duration, utc_date_and_time
from harness.sandbox import backend_named
from harness.submit.run_facts import RunFacts

_MAX_VALUE = 160
_GIB = 1 << 30


class Monospace(str):
    """A cell in a fixed-width font: a hash, or a name in a program."""

    __slots__ = ()


Rows = list[tuple[str, ...]]


def headline(facts: RunFacts) -> str:
    """Return one or two sentences with the attack, the round, the time and the score."""
    spec, summary, score = facts.spec, facts.summary, facts.score
    attacked = f"{spec.examples:,} of {spec.round_examples:,}" if spec.is_partial else f"{spec.round_examples:,}"
    first = (
        f"The attack {summary.shown_attack} was run on {attacked} examples of round {spec.round.name} and used "
        f"{format_duration(summary.elapsed_s)} of its budget of {format_duration(summary.budget_s)}."
    )
    if score is None:
        return (
            f"{first} It submits {pluralize(len(facts.submission.ids), 'row')}. The round is blind: its answers are "
            "not known, so there is no score."
        )
    return (
        f"{first} Its Recall@{score.cap:,} is {format_score(score.recall_at_cap)} (95 % interval "
        f"{_bounds(score.interval)}, by {score.interval.unit}): {score.solved:,} of {score.examples:,} examples solved."
    )


def cautions(facts: RunFacts) -> list[str]:
    """Return warnings about the result: the run is partial, is not over, did not finish, or is a control."""
    spec, summary = facts.spec, facts.summary
    sentences = []
    if spec.is_partial:
        sentences.append(
            f"Only the first {spec.examples:,} of the round's {pluralize(spec.round_examples, 'example')} were "
            f"attacked (--limit), and the error cap is {spec.error_cap:,} in proportion. This is not a result of "
            "the round."
        )
    if not summary.status.is_over:
        sentences.append(f"The run was {summary.status.words} when this was written. Its figures are not final.")
    elif summary.reason or summary.status != "finished":
        reason = f": {summary.reason}" if summary.reason else "."
        sentences.append(f"The run ended {summary.status.words}{reason}")
    if summary.is_control:
        sentences.append("This is a control: it measures something other than extraction and may not be submitted.")
    return sentences


def results(facts: RunFacts) -> Rows:
    """Return name and value of each figure of the submission."""
    guesses = [("Guesses committed", f"{facts.summary.guesses:,}")]
    if facts.submission.left_out:
        beyond = f"{facts.submission.left_out:,} rows above the row cap of {facts.spec.round.row_cap:,}"
        guesses.append(("Left out", beyond))
    score = facts.score
    if score is None:
        submitted = f"{len(facts.submission.ids):,}"
        return [("Score", "unknown: the round is blind"), ("Rows submitted", submitted), *guesses]
    rows: Rows = [
        *((fact.label, fact.text) for fact in facts.scores),
        ("Interval", f"95 %, bootstrap by {score.interval.unit}"),
        ("Examples solved", f"{score.solved:,} of {score.examples:,}"),
        ("Rows read", f"{score.rows_read:,} of {score.rows:,}, {score.wrong_rows_read:,} of them wrong"),
        *guesses,
    ]
    part, part_score = facts.parts.not_in_train, facts.not_in_train_score
    if part is not None and part_score is not None:
        recall = f"{format_score(part_score.recall_at_cap)} {_bounds(part_score.interval)}"
        where = f"{len(part):,} examples whose answers are not in the training rows"
        rows.append((f"Recall@{part.cap:,}", f"{recall} on the {where}"))
    return rows


def at_errors(score: Score) -> Rows:
    """Return a header, and recall and precision at other error caps."""
    points = [score.at_errors(errors) for errors in ERROR_COUNTS]
    rows = [(f"{at.errors:,}", format_score(at.recall), format_score(at.precision)) for at in points]
    return [("Errors", "Recall", "Precision"), *rows]


def parameters(facts: RunFacts) -> Rows:
    """Return a header, and name and value of each parameter, with its default and meaning if the code is known.

    A path is shown as its last part and the hash of its content.
    """
    spec = facts.spec
    known = {parameter.name: parameter for parameter in facts.parameters}
    rows: Rows = [("Parameter", "Value", "Default", "Meaning") if known else ("Parameter", "Value")]
    for name, value in spec.params.items():
        if name in spec.paths:
            record = spec.paths[name]
            shown = f"{record.path.name}, sha256 {record.sha256[:12]}"
        else:
            shown = shorten(setting_text(value), _MAX_VALUE)
        rows.append((Monospace(name), shown, *(_default_and_meaning(known.get(name)) if known else ())))
    return rows


def _default_and_meaning(parameter: Parameter | None) -> tuple[str, str]:
    if parameter is None:
        return NO_VALUE, ""
    default = "required" if parameter.default is None else shorten(parameter.default) or "empty"
    bounds = f" ({', '.join(parameter.bounds)})." if parameter.bounds else ""
    return default, f"{parameter.description.rstrip('.')}{bounds}".strip() if bounds else parameter.description


def stages(facts: RunFacts) -> Rows:
    """Return a header, and the draws and batches of each stage. Without stages, return no rows."""
    if not facts.stages:
        return []
    rows = [
        (Monospace(work.stage), f"{work.announced:,.0f}", f"{work.done:,.0f}", f"{work.batches_done:,}")
        for work in facts.stages
    ]
    return [("Stage", "Draws planned", "Draws done", "Batches done"), *rows]


def query_summary(facts: RunFacts) -> str:
    """Return what the record says about the attack's queries to the target."""
    spec = facts.spec
    received = f"The attack received {spec.examples:,} prefixes of {pluralize(spec.round.prefix_length, 'token')}."
    if not spec.attack.uses_target:
        return f"{received} It does not use a target, and none was loaded."
    repeated = f" {facts.repeated_batches:,} batches started more than once." if facts.repeated_batches else ""
    return (
        f"{received}{repeated} A draw is one suffix for one prefix in one trial. The record does not say how the "
        "attack called the target; see the copy of the attack's source."
    )


def training_summary(facts: RunFacts) -> str:
    """Return how many training rows the round has, and whether the attack read them."""
    overlaps = facts.parts.overlap
    if facts.spec.round.train_prefix_file is None:
        words = "The round has no training rows."
    elif overlaps is None:
        words = f"The round's training rows cannot be read: {facts.parts.not_in_train_absent_because}"
    else:
        read = "the attack read them" if facts.read_training else "there is no record that the attack read them"
        words = f"The round has {pluralize(overlaps.training_rows, 'training row')}; {read}."
    files = [f"{name} ({record.path.name})" for name, record in facts.spec.paths.items()]
    return f"{words} Files named by its parameters: {', '.join(files)}." if files else words


def training_overlap(facts: RunFacts) -> Rows:
    """Return the share of attacked examples with each kind of overlap. Without training rows, return no rows.

    The kinds are defined in `harness.core.examples.Overlap`.
    """
    overlaps, examples = facts.parts.overlap, facts.spec.examples
    if overlaps is None:
        return []

    def share(flags: Bools | None) -> str:
        if flags is None:
            return "unknown: the round is blind"
        count = int(flags[:examples].sum())
        return f"{count:,} of {examples:,} ({format_percent(count / examples)})"

    rows: Rows = [
        ("Prefix occurs in a training row", share(overlaps.has_known_prefix)),
        ("… with the answer as its suffix", share(overlaps.known_prefix_is_right)),
        ("Suffix can be stitched from training rows", share(overlaps.is_stitched)),
        ("… and equals the answer: in the training set", share(overlaps.is_in_train)),
    ]
    if overlaps.clusters is not None:
        clusters = len(np.unique(overlaps.clusters[:examples]))
        rows.append(
            ("Shares a cluster with a training row", f"{share(overlaps.is_clustered)}, of {clusters:,} clusters")
        )
    return rows


def target_and_machine(facts: RunFacts) -> Rows:
    """Return name and value of the round, the target, the reference model, the machine and the time."""
    spec, summary = facts.spec, facts.summary
    rules = spec.round
    rows: Rows = [
        ("Round", f"{rules.name}: {rules.title}"),
        (
            "Rules",
            f"prefixes of {rules.prefix_length} and suffixes of {pluralize(rules.suffix_length, 'token')}, error cap "
            f"{rules.error_cap:,}, row cap {rules.row_cap:,}, budget {format_duration(rules.budget)}",
        ),
    ]
    if spec.target is None:
        rows.append(("Target", "none: the attack does not use one"))
    else:
        rows += _model("Target", spec.target, facts.target_as_loaded)
    if spec.reference is not None:
        rows += _model("Reference model", spec.reference, facts.reference_as_loaded)
    if spec.hardware:
        rows.append(("Machine", _machine(spec.hardware)))
    rows.append(("Time", f"{summary.time_text} (includes model loading)"))
    return rows


def record(facts: RunFacts) -> Rows:
    """Return name and value of the run's identity, status, inputs and versions."""
    spec, summary = facts.spec, facts.summary
    sandbox = summary.sandbox
    data = ", ".join(f"{Path(file).name} {digest[:12]}" for file, digest in spec.data_sha256.items())
    started = "once" if facts.executions == 1 else f"{facts.executions:,} times"
    return [
        ("Run", Monospace(spec.id)),
        ("Created", f"{utc_date_and_time(spec.created_at)}, started or resumed {started}"),
        ("Status", f"{summary.status.words}{f': {summary.reason}' if summary.reason else ''}"),
        ("Seed", f"{spec.seed}"),
        ("Sandbox", "no worker started" if sandbox is None else f"{sandbox}: {backend_named(sandbox).description}"),
        ("Reproducible", reproducibility(facts)),
        ("Attack source", Monospace(f"{spec.attack.file}, sha256 {spec.attack.sha256}")),
        ("Data (sha256)", data),
        ("Versions", ", ".join(f"{name} {version}" for name, version in spec.versions.items())),
    ]


def reproducibility(facts: RunFacts) -> str:
    """Return whether another run gives the same submission byte for byte, or why this is not promised."""
    if not facts.summary.status.is_over:
        return "not promised: the run is not over"
    if facts.not_reproducible_because:
        return f"not promised: {'; '.join(facts.not_reproducible_because)}"
    return "byte for byte, on the same device, dtype, thread count and versions"


def _bounds(interval: Interval) -> str:
    return format_interval(interval.low, interval.high)


def _model(name: str, model: TargetRecord, loaded: dict[str, Any] | None) -> Rows:
    commit = f" at {model.commit}" if model.commit else ""
    return [
        (name, f"{model.id}, revision {model.revision}{commit}"),
        ("Weights", Monospace(f"sha256 {model.weights_sha256}")),
        ("Loaded as", _loaded(model, loaded) if loaded else f"{model.dtype} on {model.place}; never loaded"),
    ]


def _loaded(model: TargetRecord, loaded: dict[str, Any]) -> str:
    place = model.place if model.shards else loaded["device"]
    name = f" ({loaded['device_name']})" if loaded.get("device_name") else ""
    return (
        f"{loaded['architecture']}, {format_number(loaded['parameters'] / 1e6)} M parameters, {loaded['dtype']} on "
        f"{place}{name}, {pluralize(int(loaded['threads']), 'thread')}"
    )


def _machine(hardware: dict[str, Any]) -> str:
    gpus = ", ".join(map(str, hardware["gpus"]))
    return (
        f"{hardware['processor'] or hardware['machine']}, {pluralize(int(hardware['cores']), 'usable core')}, "
        f"{format_number(int(hardware['memory']) / _GIB)} GiB of memory, {f'GPU {gpus}' if gpus else 'no GPU'}; "
        f"{hardware['system']}, {hardware['machine']}"
    )
