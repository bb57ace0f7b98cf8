"""Runs in words and tables."""

from typing import Any

from harness.analysis.candidates import VERDICTS, Example
from harness.analysis.decoded_text import text_of_run
from harness.cli.output import align_columns, sanitize
from harness.cli.watching import score_in_words
from harness.core.spec import JobSpec, TargetRecord
from harness.core.times import date_and_time, format_duration
from harness.jobs.attack.spec import AttackSpec
from harness.runs.folder import RunFolder
from harness.runs.job_record import job_record
from harness.runs.reader import RunReader
from harness.runs.summary import RunSummary, nondeterminism_reasons, run_summary
from harness.sandbox import backend_named
from harness.sandbox.applied import AppliedSandbox
from harness.sandbox.refusals import Refusal, describe_refusals


def shown_json(folder: RunFolder) -> dict[str, Any]:
    """`show --json`: the summary's fields with the spec and what is promised beside them."""
    spec = folder.job().model_dump(mode="json")
    beside = {"not_reproducible_because": _promises(folder), "target_as_loaded": _loaded_target(folder), "spec": spec}
    return run_summary(folder).as_json() | beside


def described(folder: RunFolder) -> str:
    """`show`: a run in lines of `name  value`."""
    spec, summary = folder.job(), run_summary(folder)
    rows = [
        ("run", summary.id),
        ("status", f"{summary.status}{f' – {sanitize(summary.reason)}' if summary.reason else ''}"),
        *_job_rows(folder, spec, summary),
    ]
    if summary.sandbox is not None:
        rows += _sandbox_rows(summary)
    reasons = _promises(folder)
    rows.append(("reproducible", f"not promised: {'; '.join(reasons)}" if reasons else "yes, to the byte"))
    rows.append(("versions", ", ".join(f"{name} {value}" for name, value in spec.versions.items())))
    rows.append(("created", date_and_time(summary.created_at)))
    rows.append(("directory", sanitize(summary.directory)))
    if summary.submission is not None:
        rows.append(("submission", summary.submission))
    if summary.note:
        rows.append(("note", sanitize(summary.note)))
    return "\n".join(f"{name:<13} {value}" for name, value in rows)


def _params_in_words(spec: JobSpec) -> str:
    return sanitize(", ".join(f"{name}={value}" for name, value in spec.params.items()) or "none")


def _job_rows(folder: RunFolder, spec: JobSpec, summary: RunSummary) -> list[tuple[str, str]]:
    """Return what the job was given, and what it has found so far."""
    rows = job_record(spec).describe(folder, spec)
    rows += [
        ("params", _params_in_words(spec)),
        ("seed", str(spec.seed)),
        ("budget", f"{format_duration(summary.elapsed_s)} of {format_duration(summary.budget_s)} spent"),
        ("rows", f"{summary.guesses:,} committed, {summary.rows or 0:,} in the submission"),
        ("score", score_in_words(summary)),
    ]
    if summary.recall_interval_unit:
        rows.append(("interval", f"95 %, by {summary.recall_interval_unit}"))
    if summary.exact_at_1 is not None and summary.any_of_n is not None:
        rows.append(("candidates", f"exact@1 {summary.exact_at_1:.3f}, upper bound (any guess) {summary.any_of_n:.3f}"))
    if summary.rows_left_out:
        rows.append(("left out", f"{summary.rows_left_out:,} rows beyond the row cap"))
    return rows


def example_described(folder: RunFolder, example: Example) -> str:
    """`show --example`: the prefix, the answer where it is known, and each candidate with its verdict and score."""
    text = text_of_run(folder, folder.spec())
    rows = [("", "", "", "prefix", text.text(example.prefix.tolist()))]
    answer = "unknown: the round is blind" if example.answer is None else text.text(example.answer.tolist())
    rows.append(("", "", "", "answer", answer))
    for place, candidate in enumerate(example.candidates, 1):
        rows.append(
            (
                f"{place}",
                VERDICTS[candidate.is_right],
                f"{candidate.score:.4f}",
                f"× {candidate.times}",
                text.text(candidate.suffix.tolist()),
            )
        )
    if not example.candidates:
        rows.append(("", "", "", "", "no candidate yet"))
    return align_columns(rows)


def runs_table(summaries: list[RunSummary]) -> str:
    """`harness runs`: a row a run."""
    header = ("run", "status", "attack", "round", "recall", "elapsed", "guesses", "started", "note")
    rows = [header, *(_table_row(summary) for summary in summaries)]
    return align_columns(rows)


def _table_row(summary: RunSummary) -> tuple[str, ...]:
    recall = "blind" if summary.is_blind else "–" if summary.recall_at_cap is None else f"{summary.recall_at_cap:.3f}"
    if summary.recall_interval is not None:
        recall += f" [{summary.recall_interval[0]:.3f}, {summary.recall_interval[1]:.3f}]"
    return (
        summary.id,
        summary.status.words,
        summary.shown_attack,
        summary.round,
        recall,
        f"{format_duration(summary.elapsed_s)}/{format_duration(summary.budget_s)}",
        f"{summary.guesses:,}",
        date_and_time(summary.created_at),
        sanitize(summary.note)[:40],
    )


def _loaded_target(folder: RunFolder) -> dict[str, Any] | None:
    """What the worker said of the target once it was loaded."""
    if not folder.store.exists():
        return None
    with RunReader(folder.store) as reader:
        return reader.last_event("worker_target")


def _round_in_words(spec: AttackSpec) -> str:
    without = ", no training examples" if spec.round.train_prefix_file is None else ""
    return f"{spec.round.name}, {spec.examples:,} of {spec.round_examples:,} examples{without}"


def _sandbox_rows(summary: RunSummary) -> list[tuple[str, str]]:
    """What held the attack, with which limits, and what it was refused."""
    rows = [("sandbox", f"{summary.sandbox} – {backend_named(str(summary.sandbox)).promise}")]
    if summary.in_force is not None:
        rows.append(("in force", sanitize(AppliedSandbox.from_record(summary.in_force).summary)))
    rows.append(("network", "none" if summary.network == "none" else f"{summary.network}: it asked, and was let out"))
    if refused := describe_refusals({Refusal(kind): count for kind, count in summary.refused.items()}):
        rows.append(("refused", f"{refused}: the attack tried, and the sandbox said no"))
    return rows


def _device_in_words(target: TargetRecord, loaded: dict[str, Any] | None) -> str:
    if loaded is None:
        return f"{target.device}, dtype {target.dtype}, {target.threads} threads"
    name = f" ({loaded['device_name']})" if loaded.get("device_name") else ""
    words = (
        f"{loaded['device']}{name}, {loaded['dtype']}, {loaded['threads']} threads, "
        f"{loaded['rows_at_once']} rows at once, {loaded['parameters'] / 1e6:,.1f} M parameters"
    )
    return sanitize(words)


def _promises(folder: RunFolder) -> list[str]:
    return nondeterminism_reasons(folder) if folder.store.exists() else []
