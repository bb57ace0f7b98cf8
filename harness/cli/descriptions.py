"""The output of `harness show` for a run and for one example."""

import statistics
from collections.abc import Mapping
from typing import Any

from harness.analysis.candidates import VERDICTS, Example
from harness.analysis.decoded_text import TokenText, text_of_run
from harness.cli.output import align_columns, sanitize
from harness.cli.records import noun_of_parent
from harness.core.spec import JobSpec
from harness.core.text import format_number, format_score
from harness.core.times import date_and_time, format_duration
from harness.jobs.attack.record import loaded_model
from harness.jobs.attack.spec import AttackSpec
from harness.plugins.parameters import settings_from
from harness.runs.folder import RunFolder
from harness.runs.job_record import job_record
from harness.runs.reader import RunReader
from harness.runs.summary import RunSummary, nondeterminism_reasons, run_summary
from harness.runs.summary_text import score_text
from harness.sandbox import backend_named
from harness.sandbox.applied import AppliedSandbox


def run_as_json(folder: RunFolder) -> dict[str, Any]:
    """Return what `show --json` prints: the run's summary, its spec, and its models as they were loaded."""
    return run_summary(folder).as_json() | {
        "not_reproducible_because": _nondeterminism(folder),
        "target_as_loaded": loaded_model(folder, "target"),
        "reference_as_loaded": loaded_model(folder, "reference"),
        "spec": folder.spec().model_dump(mode="json"),
    }


def plan_as_json(spec: AttackSpec) -> dict[str, Any]:
    """Return what `run --dry-run --json` prints; `spec` is the content of spec.json, with the names of that file."""
    recorded = spec.model_dump(mode="json")
    return {
        "id": spec.id,
        "attack": spec.attack.name,
        "round": spec.round.name,
        "target": spec.target_name,
        "reference_model": None if spec.reference is None else spec.reference.id,
        "params": recorded["params"],
        "seed": spec.seed,
        "examples": spec.examples,
        "round_examples": spec.round_examples,
        "error_cap": spec.error_cap,
        "budget_s": spec.budget,
        "spec": recorded,
    }


def describe_plan(spec: AttackSpec) -> str:
    """Return what `run --dry-run` prints: lines of a name and a value, as in `show`."""
    rows = [("run", spec.id), *_input_rows(RunFolder.of(spec.id), spec)]
    return _lines([*rows, ("budget", format_duration(spec.budget)), ("error cap", f"{spec.error_cap:,}")])


def describe(folder: RunFolder) -> str:
    """Return what `show` prints: lines of a name and a value."""
    spec, summary = folder.spec(), run_summary(folder)
    reason = f" – {sanitize(summary.reason)}" if summary.reason else ""
    rows = [("run", summary.id), ("status", f"{summary.status.words}{reason}")]
    rows += _job_rows(folder, spec, summary)
    if summary.sandbox is not None:
        rows += _sandbox_rows(summary)
    reasons = _nondeterminism(folder)
    rows.append(("reproducible", f"not guaranteed: {'; '.join(reasons)}" if reasons else "yes, byte for byte"))
    rows.append(("versions", ", ".join(f"{name} {value}" for name, value in spec.versions.items())))
    rows.append(("created", date_and_time(summary.created_at)))
    rows.append(("directory", sanitize(summary.directory)))
    if summary.submission is not None:
        rows.append(("submission", summary.submission))
    if summary.parent is not None:
        rows.append((noun_of_parent(summary.parent), sanitize(summary.parent)))
    if summary.tags:
        rows.append(("tags", ", ".join(summary.tags)))
    if summary.note:
        rows.append(("note", sanitize(summary.note)))
    return _lines(rows)


def describe_example(folder: RunFolder, example: Example, probabilities: Mapping[str, Any] | None = None) -> str:
    """Return what `show --example` prints: prefix, answer, and each candidate with its verdict and score.

    With `probabilities` of the tokens, each text is followed by its mean and its least likely token.
    """
    text = text_of_run(folder, folder.attack_spec())
    rows = [("", "", "", "prefix", text.text(example.prefix.tolist()))]
    answer = "unknown: the round is blind" if example.answer is None else text.text(example.answer.tolist())
    rows.append(("", "", "", "answer", answer))
    if probabilities is not None and probabilities["answer"] is not None and example.answer is not None:
        rows.append(("", "", "", "", _least_likely(text, example.answer.tolist(), probabilities["answer"])))
    for place, candidate in enumerate(example.candidates, 1):
        rows.append(
            (
                f"{place}",
                VERDICTS[candidate.is_right],
                format_number(candidate.score),
                f"× {candidate.times}",
                text.text(candidate.suffix.tolist()),
            )
        )
        if probabilities is not None and place <= len(probabilities["candidates"]):
            scored = probabilities["candidates"][place - 1]
            rows.append(("", "", "", "", _least_likely(text, candidate.suffix.tolist(), scored)))
    if not example.candidates:
        rows.append(("", "", "", "", "no candidate yet"))
    return align_columns(rows)


def _least_likely(text: TokenText, ids: list[int], probabilities: list[float]) -> str:
    place = min(range(len(ids)), key=probabilities.__getitem__)
    mean = statistics.fmean(probabilities)
    least = f"token {place + 1}, {text.pieces(ids)[place]!r}: {format_number(probabilities[place])}"
    return f"mean probability {format_number(mean)}, least likely {least}"


def _lines(rows: list[tuple[str, str]]) -> str:
    return "\n".join(f"{name:<13} {value}" for name, value in rows)


def _input_rows(folder: RunFolder, spec: JobSpec) -> list[tuple[str, str]]:
    """Return what the job was given."""
    rows = [*job_record(spec).describe(folder, spec), ("params", _params_text(spec.params))]
    if changed := job_record(spec).labels(spec).changed:
        rows.append(("not default", _params_text(changed)))
    rows.append(("seed", str(spec.seed)))
    if folder.store.exists():
        with RunReader(folder.store) as reader:
            rows += [("warning", sanitize(sentence)) for sentence in reader.warnings()]
    return rows


def _params_text(params: Mapping[str, Any]) -> str:
    # The form of an endpoint is described in a row of its own.
    shown = {name: value for name, value in params.items() if name != "form"}
    return sanitize(", ".join(settings_from(shown)) or "none")


def _job_rows(folder: RunFolder, spec: JobSpec, summary: RunSummary) -> list[tuple[str, str]]:
    """Return what the job was given, and what it has found so far."""
    rows = [*_input_rows(folder, spec), ("budget", f"{summary.time_text} spent"), *_progress_rows(summary)]
    if not summary.has_score:
        return [*rows, ("rows", f"{summary.guesses:,} committed")]
    rows.append(("guesses", f"{summary.guesses:,} committed, {summary.rows or 0:,} in the submission"))
    rows.append(("score", score_text(summary)))
    if summary.interval_text:
        rows.append(("interval", f"95 %, bootstrap over {summary.recall_interval_unit}s"))
    if summary.guesses and summary.exact_at_1 is not None and summary.any_of_n is not None:
        bound = f"upper bound (any guess) {format_score(summary.any_of_n)}"
        rows.append(("candidates", f"exact@1 {format_score(summary.exact_at_1)}, {bound}"))
    if summary.rows_left_out:
        rows.append(("left out", f"{summary.rows_left_out:,} rows beyond the row cap"))
    return rows


def _progress_rows(summary: RunSummary) -> list[tuple[str, str]]:
    """Return the share of work that is done, with the ETA, and the current stage if there are several."""
    if summary.progress is None:
        return []
    rows = [("progress", summary.progress_text)]
    stages = [stage for stage in summary.stages if stage.announced > 0]
    if len(stages) > 1:
        complete = sum(stage.left == 0 for stage in stages)
        current = next((stage for stage in stages if stage.left > 0), None)
        now = "" if current is None else f", next {sanitize(current.stage)} ({current.done / current.announced:.0%})"
        rows.append(("stages", f"{complete:,} of {len(stages):,} done{now}"))
    return rows


def _sandbox_rows(summary: RunSummary) -> list[tuple[str, str]]:
    """Return the sandbox of the attack, its limits, and the network access."""
    rows = [("sandbox", f"{summary.sandbox} – {backend_named(str(summary.sandbox)).description}")]
    if summary.in_force is not None:
        rows.append(("in force", sanitize(AppliedSandbox.from_record(summary.in_force).summary)))
    rows.append(("network", "none" if summary.network == "none" else f"{summary.network}, as the job requested"))
    return rows


def _nondeterminism(folder: RunFolder) -> list[str]:
    return nondeterminism_reasons(folder) if folder.store.exists() else []
