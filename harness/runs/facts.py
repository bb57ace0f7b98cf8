"""The facts about a run, each said once: commands, the TUI, the report, the PDF and notebooks show them."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.inputs import as_harness_error
from harness.core.spec import TargetRecord
from harness.core.text import display_name, format_number, format_score, pluralize, sanitize, shorten
from harness.core.times import date_and_time, format_duration
from harness.runs.audit_reader import AuditReader
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader, last_event
from harness.runs.specs import AttackSpec, RunSpec
from harness.runs.status import Status
from harness.runs.summary import RunSummary, run_status

_FIGURES_IN_A_LINE = 2
_LOG_END_BYTES = 8 << 10
_LONGEST_LOG_LINE = 200


class Fact(NamedTuple):
    """One fact about a run."""

    key: str
    """The same wherever the fact is shown."""
    label: str
    value: Any
    text: str
    """The value for people, as recorded: whoever prints it makes control characters visible. Empty if unknown."""


def facts_about(run: RunSummary, keys: Sequence[str] = ()) -> list[Fact]:
    """Return what is known about a run: all facts, or those with the given keys, in the order of the keys."""
    is_scored = run.guesses > 0 and not run.is_blind
    facts = [
        Fact("run", "run", run.id, run.id),
        Fact("status", "status", run.status, " – ".join(filter(None, (run.status.words, run.reason)))),
        Fact("attack", "attack", run.attack, run.labelled_attack),
        Fact("round", "round", run.round, run.round),
        Fact("target", "target", run.target, run.target or ""),
        Fact("parameters", "parameters", run.changed, run.changed_text),
        Fact("time", "time", run.elapsed_s, f"{run.time_text} spent"),
        Fact("progress", "progress", run.progress, "" if run.progress is None else run.progress_text),
        Fact("stages", "stages", run.stages, _stages_text(run)),
        Fact("guesses", "guesses" if run.has_score else "rows", run.guesses, f"{run.guesses:,} committed"),
        Fact("rows", "rows", run.rows, f"{run.rows or 0:,} in the submission" if run.has_score else ""),
        Fact("left_out", "left out", run.rows_left_out, _left_out_text(run)),
        *score_facts(
            run.error_cap,
            run.known_recall,
            _recall_text(run) if run.has_score else "",
            run.exact_at_1 if is_scored else None,
            run.any_guess_correct if is_scored else None,
        ),
        Fact("interval", "interval", run.recall_interval, _interval_text(run)),
        Fact("device", "device", run.device, run.device or ""),
        Fact("created", "started", run.created_at, date_and_time(run.created_at)),
        Fact("directory", "directory", run.directory, run.directory),
        Fact("submission", "submission", run.submission, run.submission or ""),
        Fact("parent", "group", run.parent, run.parent or ""),
        Fact("tags", "tags", run.tags, ", ".join(run.tags)),
        Fact("note", "note", run.note, run.note),
    ]
    known = {fact.key: fact for fact in facts if fact.text}
    return [known[key] for key in keys or known if key in known]


def score_facts(
    cap: int,
    recall: float | None,
    recall_text: str,
    exact_at_1: float | None,
    any_guess_correct: float | None,
) -> list[Fact]:
    """Return the scores of a submission: recall at `cap` errors, exact@1, and the share with any correct guess."""
    return [
        Fact("recall", recall_label(cap), recall, recall_text),
        Fact("exact_at_1", "exact@1", exact_at_1, "" if exact_at_1 is None else format_score(exact_at_1)),
        Fact(
            "any_guess_correct",
            "any guess correct",
            any_guess_correct,
            "" if any_guess_correct is None else format_score(any_guess_correct),
        ),
    ]


def recall_label(cap: int) -> str:
    """Return the name of the recall at an error cap, such as `Recall@100`; `Recall` if the cap is 0."""
    return f"Recall@{cap:,}" if cap else "Recall"


def input_facts(folder: RunFolder, spec: RunSpec) -> list[tuple[str, str]]:
    """Return what the job was given: names, and values that are safe to print."""
    if isinstance(spec, AttackSpec):
        name = display_name(spec.attack.name, is_control=spec.attack.control)
        training = ", no training examples" if spec.round.train_prefix_file is None else ""
        rows = [
            ("attack", f"{name}, from {sanitize(spec.attack.origin)}"),
            ("round", f"{spec.round.name}, {spec.examples:,} of {spec.round_examples:,} examples{training}"),
        ]
        if spec.target is not None:
            rows += [("target", _model_text(spec.target)), ("device", _device_text(folder, spec.target))]
        if spec.devices:
            rows.append(("workers", _workers_text(folder, spec)))
        return rows if spec.reference is None else [*rows, ("reference", _model_text(spec.reference))]
    labels = spec.labels
    rows = [(spec.kind, sanitize(labels.attack.removeprefix(f"{spec.kind} "))), ("subject", sanitize(labels.round))]
    rows += [("model", _model_text(model)) for model in spec.targets]
    if form := spec.params.get("form"):
        rows.append(("endpoint", f"prompts as {form['prompt']}, log-probabilities by {form['field']}"))
    rows += [(name, sanitize(str(record.path))) for name, record in spec.paths.items()]
    if spec.has_figures and folder.store.exists():
        with AuditReader(folder.store) as reader:
            rows += [("figure", sanitize(figure.text)) for figure in reader.newest_figures()]
    return rows


def _model_text(model: TargetRecord) -> str:
    commit = f" at {model.commit}" if model.commit else ""
    return f"{sanitize(model.id)}{commit}, {model.hashed} {model.weights_sha256[:12]}"


def _device_text(folder: RunFolder, target: TargetRecord) -> str:
    """Return how the worker loaded the target, or how it will."""
    if (loaded := last_event(folder.store, "worker_target")) is None:
        return f"{target.place}, precision {target.dtype}, {target.threads} threads"
    name = f" ({loaded['device_name']})" if loaded.get("device_name") else ""
    first = "" if loaded.get("bos_token") is None else f", token {loaded['bos_token']} first in every prefix"
    place = f"{target.place}{name}, {loaded['blocks']} blocks" if target.shards else f"{loaded['device']}{name}"
    return sanitize(
        f"{place}, {loaded['dtype']}, {loaded['threads']} threads, "
        f"{loaded['rows_at_once']} rows at once, {loaded['parameters'] / 1e6:,.1f} M parameters{first}"
    )


def _workers_text(folder: RunFolder, spec: AttackSpec) -> str:
    """Return the number of workers and their devices, and which one died last."""
    restarted = last_event(folder.store, "worker_restarted")
    again = "" if restarted is None else f"; worker {restarted['worker']} was started again: {restarted['reason']}"
    place = ", ".join(dict.fromkeys(spec.devices)) if spec.cluster is None else f"the Ray cluster {spec.cluster}"
    return sanitize(f"{len(spec.devices)}, on {place}{again}")


def nondeterminism_reasons(folder: RunFolder) -> list[str]:
    """Return why a second run may not give the same submission bytes; empty if it should.

    Raises HarnessError if the record cannot be read.
    """
    with as_harness_error(folder.path), RunReader(folder.store) as reader:
        events = reader.events()
    status = run_status(folder)
    reasons = []
    if status in (Status.OUT_OF_TIME, Status.STOPPED, Status.CRASHED, Status.LOST):
        reasons.append(f"it ended {status.words}")
    if folder.spec().network == "endpoint":
        reasons.append("an endpoint may answer differently")
    if any(name == "worker_read_clock" for _, _, name, _ in events):
        reasons.append("the attack read the clock")
    if any(name == "device" and detail.get("is_mixed") for _, _, name, detail in events):
        reasons.append("its devices are of different models")
    used = [detail for _, _, name, detail in events if name == "execution"]
    if any(detail != used[0] for detail in used[1:]):
        reasons.append("it was resumed with other versions or on another machine")
    return reasons


def status_line(summary: RunSummary) -> str:
    """Return the run in one line: status, time spent of the budget, progress, ETA, guesses, recall at the error cap."""
    parts = [
        summary.id,
        f"queued ({sanitize(summary.reason.rstrip('.'))})" if summary.status is Status.QUEUED else summary.status.words,
        summary.time_text,
    ]
    if summary.progress_text:
        parts.append(summary.progress_text)
    if summary.has_score:
        parts += [f"{summary.guesses:,} guesses", score_text(summary)]
    else:
        parts.append(pluralize(summary.guesses, "row"))
        figures = [(name, value) for name, value in summary.figures.items() if value is not None]
        parts += [
            f"{sanitize(name.replace('_', ' '))} {format_number(value)}" for name, value in figures[:_FIGURES_IN_A_LINE]
        ]
    return " · ".join(parts)


def score_text(summary: RunSummary) -> str:
    """Return, for example, `Recall@100: 0.301 [0.256, 0.357]`, or why there is no score."""
    text = _recall_text(summary)
    return text if summary.known_recall is None else f"{recall_label(summary.error_cap)}: {text}"


def failure_text(summary: RunSummary) -> str:
    """Return why a run crashed or was lost, with the last line of its log and the command that prints the log."""
    text = f"{summary.id} {summary.status}: {sanitize(summary.reason)}"
    line = _last_log_line(RunFolder(Path(summary.directory)))
    return text if line is None else f'{text} Last line of its log: "{line}". See harness show {summary.id} --log.'


def _recall_text(run: RunSummary) -> str:
    if run.is_blind:
        return "blind round"
    if run.known_recall is None:
        return "no score" if run.status.is_over else "no score yet"
    part = " (a part of the round)" if run.is_partial else ""
    return f"{format_score(run.known_recall)}{run.interval_text}{part}"


def _left_out_text(run: RunSummary) -> str:
    return f"{run.rows_left_out:,} rows beyond the row cap" if run.rows_left_out else ""


def _interval_text(run: RunSummary) -> str:
    return f"95 %, bootstrap over {run.recall_interval_unit}s" if run.interval_text else ""


def _stages_text(run: RunSummary) -> str:
    """Return how many of several stages are done, and the share of the current one that is."""
    stages = [stage for stage in run.stages if stage.announced > 0]
    if run.progress is None or len(stages) < 2:
        return ""
    complete = sum(stage.left == 0 for stage in stages)
    current = next((stage for stage in stages if stage.left > 0), None)
    now = "" if current is None else f", next {current.stage} ({current.done / current.announced:.0%})"
    return f"{complete:,} of {len(stages):,} done{now}"


def last_log_lines(folder: RunFolder, limit: int) -> list[str]:
    """Return the last lines of the log, of up to `limit` bytes; none if it cannot be read."""
    try:
        with folder.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            lines = file.read(limit).decode(errors="replace").splitlines()
    except OSError:
        return []
    return lines[1:] or lines if size > limit else lines


def _last_log_line(folder: RunFolder) -> str | None:
    """Return the last line of the log that is not empty, shortened and safe to print; None without one."""
    lines = reversed(last_log_lines(folder, _LOG_END_BYTES))
    last = next((line.strip() for line in lines if line.strip()), None)
    return None if last is None else shorten(sanitize(last), _LONGEST_LOG_LINE)


_MAX_NOTE = 40


@dataclass(frozen=True)
class RunColumn:
    """One column of a list of runs."""

    title: str
    value: Callable[[RunSummary], Any]
    text: Callable[[RunSummary], str]
    """The value for people, as recorded: whoever prints it makes control characters visible."""
    name: str = ""
    """The name in a data frame, if it is not the title."""
    is_right: bool = False
    """True if the text is aligned at the right."""
    sort_key: Callable[[RunSummary], Any] | None = None
    """Returns what the TUI sorts by; None if it cannot sort by this column."""
    is_descending: bool = False
    """True if the highest value comes first."""
    priority: int = 1
    """1 for a column that the TUI shows too, which has less room; 2 for one of `harness list` and notebooks only."""


def _time_text(run: RunSummary) -> str:
    return f"{format_duration(run.elapsed_s)}/{format_duration(run.budget_s)}"


def recall_text(run: RunSummary) -> str:
    """Return the recall at the error cap, `blind`, or a dash without a score."""
    return "blind" if run.is_blind else format_score(run.known_recall)


COLUMNS = (
    RunColumn("run", lambda run: run.id, lambda run: run.id),
    RunColumn("attack", lambda run: run.attack, lambda run: run.labelled_attack, sort_key=lambda run: run.attack),
    RunColumn(
        "status", lambda run: str(run.status), lambda run: run.status.words, sort_key=lambda run: run.status.value
    ),
    RunColumn("round", lambda run: run.round, lambda run: run.round, priority=2),
    RunColumn(
        "recall",
        lambda run: run.recall_at_cap,
        lambda run: recall_text(run) + run.interval_text,
        is_right=True,
        sort_key=lambda run: -1.0 if run.known_recall is None else run.known_recall,
        is_descending=True,
    ),
    RunColumn(
        "time",
        lambda run: run.elapsed_s,
        _time_text,
        "elapsed_s",
        is_right=True,
        sort_key=lambda run: run.elapsed_s,
        is_descending=True,
    ),
    RunColumn("guesses", lambda run: run.guesses, lambda run: f"{run.guesses:,}", is_right=True, priority=2),
    RunColumn(
        "started",
        lambda run: datetime.fromtimestamp(run.created_at, UTC),
        lambda run: date_and_time(run.created_at),
        "created_at",
        sort_key=lambda run: run.created_at,
        is_descending=True,
    ),
    RunColumn("tags", lambda run: run.tags, lambda run: " ".join(run.tags), priority=2),
    RunColumn("note", lambda run: run.note, lambda run: shorten(run.note, _MAX_NOTE)),
)
"""The columns from left to right."""
