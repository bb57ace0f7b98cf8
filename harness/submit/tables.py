"""A run's facts in words: the tables and sentences that both the PDF and the pages show, cell by cell.

Cells are as they come from records: who typesets them makes them visible and harmless.
"""

from pathlib import Path
from typing import Any

from harness.core.intervals import Interval
from harness.core.scoring import ERROR_COUNTS, Score
from harness.core.text import pluralize, shorten
from harness.core.times import format_duration, utc_date_and_time
from harness.jobs.attack.spec import AttackSpec
from harness.runs.reader import StageWork
from harness.sandbox import backend_named
from harness.submit.facts import RunFacts

_LONGEST_VALUE = 160
_MOST_PARAMETERS = 40
_GIB = 1 << 30


class Code(str):
    """A cell that is set in a fixed-width face: a hash, a name in a program."""

    __slots__ = ()


Rows = list[tuple[str, ...]]


def headline(facts: RunFacts) -> str:
    """The run in a sentence or two: what was attacked, in what time, and what came of it."""
    spec, summary, score = facts.spec, facts.summary, facts.score
    attacked = f"{spec.examples:,} of {spec.round_examples:,}" if spec.is_partial else f"{spec.round_examples:,}"
    done = (
        f"The attack {summary.shown_attack} was run against {attacked} examples of round {spec.round.name} and took "
        f"{format_duration(summary.elapsed_s)} of its budget of {format_duration(summary.budget_s)}."
    )
    if score is None:
        return (
            f"{done} It submits {pluralize(len(facts.submission.ids), 'row')}. The round is blind: its answers are not "
            "known, and nothing here says how good the submission is."
        )
    return (
        f"{done} Its recall at {pluralize(score.cap, 'error')} is {score.recall_at_cap:.3f} (95 % interval "
        f"{_bounds(score.interval)}, by {score.interval.unit}): {score.solved:,} of {score.examples:,} examples."
    )


def cautions(facts: RunFacts) -> list[str]:
    """What a reader must know before any figure: the run is partial, not over, or no attack at all."""
    spec, summary = facts.spec, facts.summary
    found = []
    if spec.is_partial:
        found.append(
            f"Only the first {spec.examples:,} of the round's {pluralize(spec.round_examples, 'example')} were "
            f"attacked (--limit), and the cap is {pluralize(spec.error_cap, 'error')} in proportion: "
            "no result of the round."
        )
    if not summary.status.is_over:
        found.append(f"The run was {summary.status.words} when this was written: its figures are not final.")
    elif summary.reason or summary.status != "finished":
        reason = f": {summary.reason}" if summary.reason else "."
        found.append(f"The run ended {summary.status.words}{reason}")
    if summary.is_control:
        found.append("This is a control: it measures something other than extraction and may not be submitted.")
    return found


def results(facts: RunFacts) -> Rows:
    """Name and value of each figure that the submission comes to."""
    guessed = [("Guesses committed", f"{facts.summary.guesses:,}")]
    if facts.submission.left_out:
        beyond = f"{facts.submission.left_out:,} rows beyond the {facts.spec.round.row_cap:,} that the round takes"
        guessed.append(("Left out", beyond))
    score = facts.score
    if score is None:
        submitted = f"{len(facts.submission.ids):,}"
        return [("Score", "unknown: the round is blind"), ("Rows submitted", submitted), *guessed]
    rows: Rows = [
        (f"Recall at {pluralize(score.cap, 'error')}", f"{score.recall_at_cap:.3f}"),
        ("95 % interval", f"{_bounds(score.interval)}, bootstrap by {score.interval.unit}"),
        ("Precision at the cap", f"{score.precision_at_cap:.3f}"),
        ("Examples solved", f"{score.solved:,} of {score.examples:,}"),
        ("Rows read", f"{score.rows_read:,} of {score.rows:,}, {score.wrong_rows_read:,} of them wrong"),
        *guessed,
    ]
    if facts.exact_at_1 is not None and facts.any_of_n is not None:
        rows.append(("First row right", f"{facts.exact_at_1:.3f} of the examples"))
        rows.append(("Any guess right", f"{facts.any_of_n:.3f} (the ceiling of any order)"))
    part, part_score = facts.unreachable, facts.unreachable_score
    if part is not None and part_score is not None:
        recall = f"{part_score.recall_at_cap:.3f} {_bounds(part_score.interval)}"
        where = f"{len(part):,} examples that training rows do not give away"
        rows.append((f"Recall at {pluralize(part.cap, 'error')}", f"{recall} on the {where}"))
    return rows


def at_errors(score: Score) -> Rows:
    """A header, and recall and precision with other caps on errors."""
    found = [score.at_errors(errors) for errors in ERROR_COUNTS]
    rows = [(f"{at.errors:,}", f"{at.recall:.3f}", f"{at.precision:.3f}") for at in found]
    return [("Errors", "Recall", "Precision"), *rows]


def parameters(facts: RunFacts) -> Rows:
    """Name and value of each parameter; a path by its last part, with the hash of what it held."""
    spec = facts.spec
    rows: Rows = []
    for name, value in spec.params.items():
        if name in spec.paths:
            record = spec.paths[name]
            rows.append((Code(name), f"{record.path.name}, sha256 {record.sha256[:12]}"))
        else:
            rows.append((Code(name), shorten(str(value), _LONGEST_VALUE)))
    if len(rows) > _MOST_PARAMETERS:
        rest = len(rows) - _MOST_PARAMETERS
        rows = [*rows[:_MOST_PARAMETERS], ("…", f"{pluralize(rest, 'further parameter')} in spec.json")]
    return rows


def stages(facts: RunFacts) -> Rows:
    """A header, and for each stage of the attack its draws and batches; nothing where none was announced."""
    if not facts.queries.stages:
        return []
    rows = [_stage(work) for work in facts.queries.stages]
    return [("Stage", "Draws announced", "Draws done", "Batches done"), *rows]


def queries_in_words(facts: RunFacts) -> str:
    """What the attack asked of the target, as far as a record can know."""
    spec, queries = facts.spec, facts.queries
    shown = f"The attack was shown {spec.examples:,} prefixes of {pluralize(spec.round.prefix_length, 'token')}."
    if not spec.attack.uses_target:
        return f"{shown} It declares that it uses no target, and none was loaded."
    if queries.rows_at_once is None:
        return f"{shown} No call of the target's engine inside a batch was recorded."
    least, most = queries.rows_at_once
    rows = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    calls = (
        f"Batches made {pluralize(queries.engine_calls, 'call')} of the target's engine, with up to {rows} rows at once"
    )
    again = f", and {queries.repeated_batches:,} of them were begun again" if queries.repeated_batches else ""
    return (
        f"{shown} {calls}{again}. A draw is one suffix for one prefix in one trial. Whether a call sampled, searched "
        "or took likelihoods the record does not hold; the attack's source does, a copy of which ran."
    )


def training_in_words(facts: RunFacts) -> str:
    """Which training rows were there, and whether the record says that the attack read them."""
    training = facts.training
    if training.rows is None:
        return f"Whether the round has training rows cannot be told now: {training.unknown_because}"
    if training.rows == 0:
        words = "The round offers no training rows."
    else:
        said = "says" if training.was_read else "does not say"
        words = (
            f"The round offers {pluralize(training.rows, 'training row')}; the record {said} that the attack read them."
        )
    files = [f"{name} ({record.path.name})" for name, record in facts.spec.paths.items()]
    if files:
        words += f" Its parameters name files of its own: {', '.join(files)}."
    return words


def training_overlap(facts: RunFacts) -> Rows:
    """Name and count of each way in which training rows touch the attacked examples; nothing where there are none."""
    found, examples = facts.training.overlap, facts.spec.examples
    if found is None:
        return []
    rows: Rows = [
        ("Prefix is a training row's prefix", _share(found.known_prefix, examples)),
        ("… and that row has the answer", _share(found.known_prefix_is_right, examples)),
        ("Suffix can be stitched from training rows", _share(found.stitched, examples)),
        ("… and is the answer: reachable without a model", _share(found.reachable, examples)),
    ]
    if found.clusters is not None:
        clustered = _share(found.clustered, examples)
        rows.append(("Shares a cluster with a training row", f"{clustered}, of {found.clusters:,} clusters"))
    return rows


def target_and_machine(facts: RunFacts) -> Rows:
    """Name and value of what was attacked, with what, and in what time."""
    spec, summary, loaded = facts.spec, facts.summary, facts.target_as_loaded
    rules = spec.round
    rows: Rows = [
        ("Round", f"{rules.name}: {rules.title}"),
        (
            "Rules",
            f"prefixes of {rules.prefix_length} and suffixes of {pluralize(rules.suffix_length, 'token')}, cap "
            f"{pluralize(rules.error_cap, 'error')}, at most {pluralize(rules.row_cap, 'row')}, "
            f"{format_duration(rules.budget)}",
        ),
    ]
    if spec.target is None:
        rows.append(("Target", "none: the attack uses none"))
    else:
        target = spec.target
        commit = f" at {target.commit}" if target.commit else ""
        rows.append(("Target", f"{target.id}, revision {target.revision}{commit}"))
        rows.append(("Weights", Code(f"sha256 {target.weights_sha256}")))
        rows.append(("Loaded as", _loaded(loaded) if loaded else f"{target.dtype} on {target.device}; never loaded"))
    if spec.hardware:
        rows.append(("Machine", _machine(spec.hardware)))
    rows.append(
        (
            "Time",
            f"{format_duration(summary.elapsed_s)} of {format_duration(summary.budget_s)} (model loading included)",
        )
    )
    return rows


def record(facts: RunFacts) -> Rows:
    """Name and value of what the run is known by and what it promises."""
    spec, summary = facts.spec, facts.summary
    rows: Rows = [
        ("Run", Code(spec.id)),
        ("Begun", f"{utc_date_and_time(spec.created_at)}, started or resumed {_times(facts.queries.executions)}"),
        ("Status", f"{summary.status.words}{f': {summary.reason}' if summary.reason else ''}"),
        ("Seed", f"{spec.seed}"),
        ("Sandbox", "none was started" if summary.sandbox is None else _sandbox(summary.sandbox)),
        ("Reproducible", reproducibility(facts)),
        ("Attack's source", Code(f"{spec.attack.file}, sha256 {spec.attack.sha256}")),
        ("Data, by sha256", _data(spec)),
        ("Versions", ", ".join(f"{name} {version}" for name, version in spec.versions.items())),
    ]
    return rows


def reproducibility(facts: RunFacts) -> str:
    """Whether the submission is expected to come out again byte for byte, or why not."""
    if not facts.summary.status.is_over:
        return "not promised: the run is not over"
    if facts.not_reproducible_because:
        return f"not promised: {'; '.join(facts.not_reproducible_because)}"
    return "to the byte, on the same device, dtype, thread count and versions"


def _bounds(interval: Interval) -> str:
    return f"[{interval.low:.3f}, {interval.high:.3f}]"


def _stage(work: StageWork) -> tuple[str, ...]:
    return (Code(work.stage), f"{work.announced:,.0f}", f"{work.done:,.0f}", f"{work.batches_done:,}")


def _share(count: int | None, examples: int) -> str:
    return "unknown: the round is blind" if count is None else f"{count:,} of {examples:,} ({count / examples:.1%})"


def _loaded(loaded: dict[str, Any]) -> str:
    name = f" ({loaded['device_name']})" if loaded.get("device_name") else ""
    return (
        f"{loaded['architecture']}, {loaded['parameters'] / 1e6:,.1f} M parameters, {loaded['dtype']} on "
        f"{loaded['device']}{name}, {pluralize(int(loaded['threads']), 'thread')}"
    )


def _sandbox(sandbox: str) -> str:
    return f"{sandbox}: {backend_named(sandbox).promise}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _machine(hardware: dict[str, Any]) -> str:
    gpus = ", ".join(map(str, hardware["gpus"]))
    return (
        f"{hardware['processor'] or hardware['machine']}, {pluralize(int(hardware['cores']), 'core')} usable, "
        f"{int(hardware['memory']) / _GIB:.1f} GiB of memory, {f'GPU {gpus}' if gpus else 'no GPU'}; "
        f"{hardware['system']}, {hardware['machine']}"
    )


def _data(spec: AttackSpec) -> str:
    return ", ".join(f"{Path(file).name} {digest[:12]}" for file, digest in spec.data_sha256.items())
