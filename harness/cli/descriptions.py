"""What `harness show` prints of a run, and of one example."""

from typing import Any

from harness.analysis.candidates import VERDICTS, Example
from harness.analysis.decoded_text import text_of_run
from harness.cli.output import align_columns, sanitize
from harness.cli.watching import score_text
from harness.core.spec import AttackSpec, AuditSpec, JobSpec, TargetRecord
from harness.core.text import display_name
from harness.core.times import date_and_time, format_duration
from harness.runs.audit_reader import AuditReader
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.summary import RunSummary, nondeterminism_reasons, run_summary
from harness.sandbox import SandboxBackend
from harness.sandbox.in_force import InForce
from harness.sandbox.refusals import Refusal, in_words


def run_as_json(folder: RunFolder) -> dict[str, Any]:
    """Return what `show --json` prints: the run's summary, its spec, and the target as it was loaded."""
    return run_summary(folder).as_json() | {
        "not_reproducible_because": _nondeterminism(folder),
        "target_as_loaded": _loaded_target(folder),
        "spec": folder.job().model_dump(mode="json"),
    }


def describe(folder: RunFolder) -> str:
    """Return what `show` prints: lines of a name and a value."""
    spec, summary = folder.job(), run_summary(folder)
    reason = f" – {sanitize(summary.reason)}" if summary.reason else ""
    rows = [("run", summary.id), ("status", f"{summary.status.words}{reason}")]
    rows += _audit_rows(folder, spec, summary) if isinstance(spec, AuditSpec) else _attack_rows(folder, spec, summary)
    if summary.sandbox is not None:
        rows += _sandbox_rows(summary)
    reasons = _nondeterminism(folder)
    rows.append(("reproducible", f"not guaranteed: {'; '.join(reasons)}" if reasons else "yes, byte for byte"))
    rows.append(("versions", ", ".join(f"{name} {value}" for name, value in spec.versions.items())))
    rows.append(("created", date_and_time(summary.created_at)))
    rows.append(("directory", sanitize(summary.directory)))
    if summary.submission is not None:
        rows.append(("submission", summary.submission))
    if summary.note:
        rows.append(("note", sanitize(summary.note)))
    return "\n".join(f"{name:<13} {value}" for name, value in rows)


def describe_example(folder: RunFolder, example: Example) -> str:
    """Return what `show --example` prints: prefix, answer, and each candidate with its verdict and score."""
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


def _params_text(spec: JobSpec) -> str:
    return sanitize(", ".join(f"{name}={value}" for name, value in spec.params.items()) or "none")


def _budget_text(summary: RunSummary) -> str:
    return f"{format_duration(summary.elapsed_s)} of {format_duration(summary.budget_s)} spent"


def _audit_rows(folder: RunFolder, spec: AuditSpec, summary: RunSummary) -> list[tuple[str, str]]:
    """Return what an audit was given, and what it has found so far."""
    rows = [
        ("audit", spec.audit),
        ("subject", sanitize(spec.subject)),
        ("params", _params_text(spec)),
        ("seed", str(spec.seed)),
    ]
    rows += [("model", f"{sanitize(model.id)}, weights {model.weights_sha256[:12]}") for model in spec.models]
    rows += [(name, sanitize(str(record.path))) for name, record in spec.paths.items()]
    rows += [("budget", _budget_text(summary)), ("rows", f"{summary.guesses:,} committed")]
    if folder.store.exists():
        with AuditReader(folder.store) as reader:
            rows += [("figure", sanitize(figure.words)) for figure in reader.newest_figures()]
            rows += [("warning", sanitize(sentence)) for sentence in reader.warnings()]
    return rows


def _attack_rows(folder: RunFolder, spec: AttackSpec, summary: RunSummary) -> list[tuple[str, str]]:
    """Return what an attack was given, and its score."""
    attack = display_name(spec.attack.name, is_control=spec.attack.control)
    without = ", no training examples" if spec.round.train_prefix_file is None else ""
    rows = [
        ("attack", f"{attack}, from {sanitize(spec.attack.origin)}"),
        ("params", _params_text(spec)),
        ("seed", str(spec.seed)),
        ("round", f"{spec.round.name}, {spec.examples:,} of {spec.round_examples:,} examples{without}"),
    ]
    if (target := spec.target) is not None:
        commit = f" at {target.commit}" if target.commit else ""
        rows += [
            ("target", f"{sanitize(target.id)}{commit}, weights {target.weights_sha256[:12]}"),
            ("device", _device_text(target, _loaded_target(folder))),
        ]
    rows += [
        ("budget", _budget_text(summary)),
        ("guesses", f"{summary.guesses:,} committed, {summary.rows or 0:,} in the submission"),
        ("score", score_text(summary)),
    ]
    if summary.recall_interval_unit:
        rows.append(("interval", f"95 %, bootstrap over {summary.recall_interval_unit}s"))
    if summary.exact_at_1 is not None and summary.any_of_n is not None:
        exact, bound = summary.exact_at_1, summary.any_of_n
        rows.append(("candidates", f"exact@1 {exact:.3f}, any guess correct (upper bound) {bound:.3f}"))
    if summary.rows_left_out:
        rows.append(("left out", f"{summary.rows_left_out:,} rows beyond the row cap of {spec.round.row_cap:,}"))
    return rows


def _loaded_target(folder: RunFolder) -> dict[str, Any] | None:
    """Return what the worker reported when it had loaded the target."""
    if not folder.store.exists():
        return None
    with RunReader(folder.store) as reader:
        return reader.last_event("worker_target")


def _sandbox_rows(summary: RunSummary) -> list[tuple[str, str]]:
    """Return the sandbox of the attack, its limits, and what it refused."""
    rows = [("sandbox", f"{summary.sandbox} – {SandboxBackend(str(summary.sandbox)).promise}")]
    if summary.in_force is not None:
        rows.append(("in force", sanitize(InForce.from_record(summary.in_force).words)))
    rows.append(("network", "none" if summary.network == "none" else f"{summary.network}, as the attack requested"))
    if refused := in_words({Refusal(kind): count for kind, count in summary.refused.items()}):
        rows.append(("refused", f"{refused}: the attack tried this, and the sandbox refused it"))
    return rows


def _device_text(target: TargetRecord, loaded: dict[str, Any] | None) -> str:
    if loaded is None:
        return f"{target.device}, precision {target.dtype}, {target.threads} threads"
    name = f" ({loaded['device_name']})" if loaded.get("device_name") else ""
    return sanitize(
        f"{loaded['device']}{name}, {loaded['dtype']}, {loaded['threads']} threads, "
        f"{loaded['rows_at_once']} rows at once, {loaded['parameters'] / 1e6:,.1f} M parameters"
    )


def _nondeterminism(folder: RunFolder) -> list[str]:
    return nondeterminism_reasons(folder) if folder.store.exists() else []
