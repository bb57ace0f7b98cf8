"""Tables and sentences about a run, which both the PDF description and the HTML report show.

Cells contain text as recorded. Whoever renders them escapes it and makes control characters visible.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from harness.core.arrays import Bools
from harness.core.intervals import Interval
from harness.core.parameters import Parameter, setting_text
from harness.core.scoring import ERROR_COUNTS, Score
from harness.core.text import NO_VALUE, format_interval, format_percent, format_score, pluralize, shorten
from harness.core.times import format_duration
from harness.runs.facts import Fact, RunRecord, facts_in
from harness.submit.run_facts import RunFacts

TARGET_AND_MACHINE = ("round", "title", "rules", "models", "machine", "time")
RECORD = ("run", "created_utc", "status", "seed", "sandbox", "reproducible", "source", "data", "versions")
"""The facts about the inputs of a run, and about its identity, status and versions."""
Rows = list[tuple[str, ...]]
_MAX_VALUE = 160


class Monospace(str):
    """A cell in a fixed-width font: a hash, or a name in a program."""

    __slots__ = ()


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
    guesses = fact_rows(facts, ("guesses", "left_out"))
    if facts.score is None:
        submitted = f"{len(facts.submission.ids):,}"
        return [("Score", "unknown: the round is blind"), ("Rows submitted", submitted), *guesses]
    rows = [*_rows(facts.scores), *guesses]
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
    parameters = {parameter.name: parameter for parameter in facts.parameters}
    rows: Rows = [("Parameter", "Value", "Default", "Meaning") if parameters else ("Parameter", "Value")]
    for name, value in spec.params.items():
        if name in spec.paths:
            record = spec.paths[name]
            text = f"{record.path.name}, sha256 {record.sha256[:12]}"
        else:
            text = shorten(setting_text(value), _MAX_VALUE)
        rows.append((Monospace(name), text, *(_default_and_meaning(parameters.get(name)) if parameters else ())))
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
    """Describe the attack's queries to the target, as far as the record knows them."""
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
        was_read = "the attack read them" if facts.read_training else "there is no record that the attack read them"
        words = f"The round has {pluralize(overlaps.training_rows, 'training row')}; {was_read}."
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
        ("… and equals the answer: in the training rows", share(overlaps.is_in_train)),
    ]
    if overlaps.clusters is not None:
        clusters = len(np.unique(overlaps.clusters[:examples]))
        rows.append(
            ("Shares a cluster with a training row", f"{share(overlaps.is_clustered)}, of {clusters:,} clusters")
        )
    return rows


def fact_rows(record: RunRecord, keys: Sequence[str]) -> Rows:
    """Return label and text of the known facts with these keys."""
    return _rows(facts_in(record, keys))


def _rows(facts: Iterable[Fact]) -> Rows:
    """Return label and text of each fact. A term such as `exact@1` keeps its first letter."""
    return [
        (
            fact.label if "@" in fact.label else fact.label.capitalize(),
            Monospace(fact.text) if fact.is_code else fact.text,
        )
        for fact in facts
    ]


def _bounds(interval: Interval) -> str:
    return format_interval(interval.low, interval.high)
