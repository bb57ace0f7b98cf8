"""Describe a run or an audit as parameters, metrics and tags of MLflow, which is not imported, and write its files."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.findings import Findings
from harness.core.measures import MeasureRow
from harness.core.redaction import redact_suffix
from harness.core.spec import JobSpec, TargetRecord
from harness.core.spreadsheets import write_rows
from harness.core.submission import write_submission
from harness.core.text import json_value, plain_value, sanitize, shorten
from harness.jobs.attack.results import scorecard_text
from harness.jobs.audit.reader import AuditFigure
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.runs.tags import tags_of
from harness.submit.audit_page import AuditHeader
from harness.submit.run_facts import RunFacts

RUN_TAG, SPEC_TAG = "harness.run", "harness.spec_sha256"
"""The two tags by which an earlier export of the same run is found."""
SCORECARD, REPORT, AUDIT_FOLDER = "scorecard.json", "report.html", "audit"
SUBMISSION, REDACTED_SUBMISSION = "submission.csv", "submission-redacted.csv"
ARTIFACTS = (SCORECARD, SUBMISSION, REDACTED_SUBMISSION, REPORT, AUDIT_FOLDER)
"""Every artifact that an export may write. The next export replaces these and leaves others alone."""
_MAX_KEY, _MAX_VALUE = 200, 500
_NOT_IN_KEY = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class MetricPoint:
    """One value of a metric. `step` is in seconds or wrong rows, 0 for a single value. `at_ms` is since the epoch."""

    step: int
    at_ms: int
    value: float


@dataclass(frozen=True)
class MlflowRecord:
    """A run as MLflow shows it: texts by name, and the points of each metric, one per step. Times are in ms."""

    run: str
    status: Status
    start_ms: int
    end_ms: int
    params: Mapping[str, str]
    metrics: Mapping[str, list[MetricPoint]]
    tags: Mapping[str, str]


def attack_record(facts: RunFacts, *, is_redacted: bool) -> MlflowRecord:
    """Return the record of an attack run. Equal runs give equal records."""
    spec, summary, score = facts.spec, facts.summary, facts.score
    params = {
        "attack": spec.attack.name,
        "round": spec.round.name,
        "examples": spec.examples,
        "error_cap": spec.error_cap,
        "guesses_per_example": spec.attack.guesses_per_example,
        **_model_params("target", spec.target),
        **_model_params("reference", spec.reference),
    }
    tags = {"attack_sha256": spec.attack.sha256}
    tags |= {f"data_sha256.{Path(file).name}": digest for file, digest in spec.data_sha256.items()}
    values: dict[str, Any] = {
        "exact_at_1": facts.exact_at_1,
        "any_of_n": facts.any_guess_correct,
        "guesses": summary.guesses,
        "rows_left_out": facts.submission.left_out,
        "elapsed_s": summary.elapsed_s,
    }
    times = _Times(spec.created_at, summary.elapsed_s)
    # The last point of the curve is the score of the submission, in a blind round its number of rows.
    curve = "rows" if score is None else "recall_at_cap"
    metrics = {curve: [(round(seconds), times.after(seconds), value) for seconds, value in facts.curve]}
    if score is not None:
        fields = score.as_json()
        counts = ("precision_at_cap", "solved", "rows", "rows_read", "rows_ignored", "wrong_rows_read")
        values |= {name: fields[name] for name in counts}
        values["recall_interval.low"], values["recall_interval.high"] = fields["recall_interval"]
        metrics["recall_at_errors"] = [(at["errors"], times.end, at["recall"]) for at in fields["at_errors"]]
    if facts.unreachable_score is not None:
        values["unreachable_recall_at_cap"] = facts.unreachable_score.recall_at_cap
    metrics |= {name: [(0, times.end, value)] for name, value in values.items()}
    return _record(facts.folder, spec, summary.status, times, params, metrics, tags, is_redacted=is_redacted)


def audit_record(
    folder: RunFolder, header: AuditHeader, findings: Findings, live: Sequence[AuditFigure] = ()
) -> MlflowRecord:
    """Return the record of an audit. `live` are the figures that it reported while it ran."""
    spec = header.spec
    models = {
        name: value
        for number, model in enumerate(spec.models, 1)
        for name, value in _model_params("target" if len(spec.models) == 1 else f"target_{number}", model).items()
    }
    tags = {"inputs_sha256": spec.inputs_sha256}
    tags |= {f"input_sha256.{name}": record.sha256 for name, record in spec.paths.items()}
    if findings.conclusion is not None:
        tags["answer"] = findings.conclusion.answer
    times = _Times(spec.created_at, header.elapsed)
    values = {"elapsed_s": header.elapsed, **findings.figures}
    values |= _metrics_of(live)
    values |= _metrics_of((_metric_name(row), *row.estimate) for row in findings.measures)
    metrics = {name: [(0, times.end, value)] for name, value in values.items()}
    # MLflow would store an infinite metric as the largest float.
    infinite = {name: value for name, value in values.items() if json_value(value) in ("Infinity", "-Infinity")}
    params = {"audit": spec.audit, "source": spec.subject, **models, **infinite}
    return _record(folder, spec, header.status, times, params, metrics, tags, is_redacted=findings.is_redacted)


def write_run_artifacts(facts: RunFacts, folder: Path, *, redact: bool) -> None:
    """Write scorecard, submission and page of an attack run to `folder`."""
    # It loads matplotlib.
    from harness.submit.report import report_page

    spec, submission = facts.spec, facts.submission
    scorecard = scorecard_text(spec, submission, facts.any_guess_correct)
    (folder / SCORECARD).write_text(scorecard, encoding="utf-8")
    (folder / REPORT).write_text(report_page([facts.folder], redact=redact), encoding="utf-8")
    if not redact:
        write_submission(folder / SUBMISSION, submission.ids, submission.suffixes)
        return
    with (folder / REDACTED_SUBMISSION).open("w", encoding="utf-8", newline="") as file:
        write_rows(file, [("Example ID", "Suffix Guess")])
        redacted = (redact_suffix(suffix, spec.round.vocabulary) for suffix in submission.suffixes)
        write_rows(file, zip(submission.ids.tolist(), redacted, strict=True))


class _Times:
    """The times of a run in milliseconds since the epoch, as if it had run without a pause."""

    def __init__(self, created_at: float, elapsed: float) -> None:
        self.start = round(1000 * created_at)
        self.end = self.after(elapsed)

    def after(self, seconds: float) -> int:
        return self.start + round(1000 * seconds)


def _record(
    folder: RunFolder,
    spec: JobSpec,
    status: Status,
    times: _Times,
    params: Mapping[str, Any],
    metrics: Mapping[str, Iterable[tuple[int, int, Any]]],
    tags: Mapping[str, str],
    *,
    is_redacted: bool,
) -> MlflowRecord:
    """Return the record with what all kinds of job share, and with names and values that MLflow accepts."""
    given = {f"param.{name}": value for name, value in spec.params.items()}
    # The directory of a file says something of this machine and nothing of the run.
    given |= {f"param.{name}": record.path.name for name, record in spec.paths.items() if name in spec.params}
    versions = {f"version.{name}": version for name, version in spec.versions.items()}
    params = {**params, "seed": spec.seed, "budget_s": spec.budget, **given, **versions}
    tags = {
        **tags,
        "kind": spec.kind,
        "status": str(status),
        "is_redacted": str(is_redacted).lower(),
        "tags": " ".join(tags_of(folder)),
    }
    weights = {f"{model.hashed}_sha256.{number}": model.weights_sha256 for number, model in enumerate(spec.targets, 1)}
    points = {
        name: {step: MetricPoint(step, at, float(value)) for step, at, value in values if _is_number(value)}
        for name, values in metrics.items()
    }
    return MlflowRecord(
        run=spec.id,
        status=status,
        start_ms=times.start,
        end_ms=times.end,
        params=_with_valid_keys({name: _text(value) for name, value in params.items() if value is not None}),
        metrics=_with_valid_keys({name: list(by_step.values()) for name, by_step in points.items() if by_step}),
        tags=_with_valid_keys({f"harness.{name}": _text(value) for name, value in {**tags, **weights}.items()})
        | {RUN_TAG: spec.id, SPEC_TAG: file_sha256(folder.spec_file)},
    )


def _model_params(role: str, model: TargetRecord | None) -> dict[str, Any]:
    if model is None:
        return {}
    if model.is_tokenizer_only:
        return {"tokenizer": model.name, "tokenizer_revision": model.revision}
    named = {"": model.name, "_revision": model.revision, "_commit": model.commit}
    return {f"{role}{name}": value for name, value in (named | {"_dtype": model.dtype, "_device": model.place}).items()}


def _metric_name(row: MeasureRow) -> str:
    """Return everything that identifies a measured value."""
    at = "" if row.at is None else f"{row.at:g}"
    return ".".join(filter(None, (row.measure.name, at, row.case, row.side, row.model)))


def _metrics_of(measured: Iterable[tuple[str, float | None, float | None, float | None, int]]) -> dict[str, Any]:
    """Return values by name, from names, values, intervals and numbers of items. All of them have own names."""
    return {
        f"{name}{ending}": value
        for name, value, low, high, of in measured
        for ending, value in (("", value), (".low", low), (".high", high), (".of", of or None))
    }


def _is_number(value: Any) -> bool:
    value = plain_value(value)
    return isinstance(value, bool | int | float) and math.isfinite(value)


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return shorten(sanitize(text), _MAX_VALUE)


def _with_valid_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with keys of ASCII letters, digits, -, _ and `.`, each of them once."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        key = _NOT_IN_KEY.sub("_", name)[:_MAX_KEY].strip(".") or "_"
        while key in found:
            key += "_"
        found[key] = value
    return found


def require_ended(id_: str, status: Status) -> None:
    """Raise HarnessError unless a run with this status is over."""
    if not status.is_over:
        raise HarnessError(
            f"{id_} is {status.words}, and only a run that is over can be exported to MLflow. Wait for its end with "
            f"`harness watch {id_}`."
        )
