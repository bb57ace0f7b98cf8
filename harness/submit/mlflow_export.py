"""Log a run or an audit to an MLflow tracking server. A second export updates the same MLflow run."""

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.core.errors import HarnessError
from harness.core.extras import require_extra
from harness.core.text import sanitize, shorten
from harness.runs.status import Status
from harness.submit.mlflow_record import ARTIFACTS, RUN_TAG, SPEC_TAG, MetricPoint, MlflowRecord

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_SETTINGS = {
    # The names of used functions would be sent to MLflow's developers.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # The default of 7 retries waits for minutes if there is no server.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    # Only data is printed on stdout.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_STATUS = {
    Status.FINISHED: "FINISHED",
    Status.OUT_OF_TIME: "FINISHED",
    Status.STOPPED: "KILLED",
    Status.CRASHED: "FAILED",
    Status.LOST: "FAILED",
}
_SQLITE = "sqlite:///"
# MLflow's limits for one request.
_MAX_METRICS, _MAX_TEXTS = 1000, 100
Item = TypeVar("Item")


@dataclass(frozen=True)
class LoggedRun:
    """The MLflow run of an export. `url` is its page, '' if the tracking store is not a server."""

    id: str
    experiment_id: str
    is_new: bool
    url: str


def require_mlflow() -> Any:
    """Return the library. Raises HarnessError if it is not installed.

    Unless the environment says otherwise, it reports no usage and gives up soon if there is no server.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    require_extra("mlflow", "--mlflow")
    import mlflow

    return mlflow


def log_to_mlflow(uri: str, experiment: str, record: MlflowRecord, artifacts: Path) -> LoggedRun:
    """Log the record and the files in the directory `artifacts`, and return the MLflow run.

    An earlier export of the same run to this experiment is updated: its artifacts are replaced, and a metric that
    changed gets a new point. Raises HarnessError if the server cannot be reached or refuses the export.
    """
    _check_store(uri)
    with _mlflow_errors(uri):
        client: MlflowClient = require_mlflow().MlflowClient(tracking_uri=uri)
        experiment_id = _experiment_id(client, experiment, uri)
        run = _earlier_export(client, experiment_id, record)
        is_new = run is None
        if run is None:
            identity = {name: record.tags[name] for name in (RUN_TAG, SPEC_TAG)}
            run = client.create_run(experiment_id, start_time=record.start_ms, tags=identity, run_name=record.run)
        else:
            client.update_run(run.info.run_id, status="RUNNING")
        _log_values(client, run, record, uri)
        _replace_artifacts(client, run, artifacts, uri)
        client.set_terminated(run.info.run_id, _STATUS[record.status], end_time=record.end_ms)
    page = f"{shown_uri(uri).rstrip('/')}/#/experiments/{experiment_id}/runs/{run.info.run_id}"
    return LoggedRun(run.info.run_id, experiment_id, is_new, page if uri.startswith(("http://", "https://")) else "")


def shown_uri(uri: str) -> str:
    """Return the address without a user name, password, query and fragment."""
    return sanitize(re.split("[?#]", _without_login(uri, uri), maxsplit=1)[0])


def _without_login(text: str, uri: str) -> str:
    """Return `text` without the user name and password that the address `uri` has before its host."""
    login = re.match(r"[\w+.-]*://([^/?#]*@)", uri)
    return text.replace(login[1], "") if login else text


def _experiment_id(client: "MlflowClient", name: str, uri: str) -> str:
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return str(client.create_experiment(name))
    if experiment.lifecycle_stage != "active":
        raise HarnessError(
            f"the experiment {shorten(name)!r} is deleted: {shown_uri(uri)}. Restore it in MLflow, or name another one "
            "with --experiment."
        )
    return str(experiment.experiment_id)


def _earlier_export(client: "MlflowClient", experiment_id: str, record: MlflowRecord) -> "Run | None":
    """Return the MLflow run of an earlier export. Another machine can have a run with the same id and another spec."""
    found = client.search_runs([experiment_id], filter_string=f"tags.`{RUN_TAG}` = '{record.run}'")
    return next((run for run in found if run.data.tags.get(SPEC_TAG) == record.tags[SPEC_TAG]), None)


def _log_values(client: "MlflowClient", run: "Run", record: MlflowRecord, uri: str) -> None:
    from mlflow.entities import Metric, Param, RunTag

    id_, known = run.info.run_id, run.data.params
    for name, value in record.params.items():
        if known.get(name, value) != value:
            raise HarnessError(
                f"the parameter {name} has another value in MLflow run {id_}: {shown_uri(uri)}. Delete that run in "
                "MLflow, then export again."
            )
    params = [Param(name, value) for name, value in record.params.items() if name not in known]
    for texts in _chunks(params, _MAX_TEXTS):
        client.log_batch(id_, params=texts)
    for tags in _chunks([RunTag(name, value) for name, value in record.tags.items()], _MAX_TEXTS):
        client.log_batch(id_, tags=tags)
    points = [
        Metric(name, point.value, point.at_ms, point.step)
        for name, series in record.metrics.items()
        for point in (_changed_points(client, run, name, series) if name in run.data.metrics else series)
    ]
    for metrics in _chunks(points, _MAX_METRICS):
        client.log_batch(id_, metrics=metrics)


def _changed_points(
    client: "MlflowClient", run: "Run", name: str, series: Sequence[MetricPoint]
) -> Iterator[MetricPoint]:
    """Yield the points that MLflow does not have. One with another value than before becomes the newest of its step."""
    known: dict[int, float] = {series[0].step: run.data.metrics[name]}
    if len(series) > 1:
        logged = sorted(client.get_metric_history(run.info.run_id, name), key=lambda point: point.timestamp)
        known = {point.step: point.value for point in logged}
    now = round(1000 * time.time())
    for point in series:
        if point.step not in known:
            yield point
        elif known[point.step] != point.value:
            yield MetricPoint(point.step, now, point.value)


def _replace_artifacts(client: "MlflowClient", run: "Run", artifacts: Path, uri: str) -> None:
    """Delete the artifacts of an earlier export, which may contain text that this one redacts, and log the new ones."""
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    present = [file.path for file in client.list_artifacts(run.info.run_id) if file.path in ARTIFACTS]
    if present:
        store = get_artifact_repository(run.info.artifact_uri, tracking_uri=uri)
        for path in present:
            # Some stores cannot delete, and say so or do nothing.
            with contextlib.suppress(MlflowException, NotImplementedError):
                store.delete_artifacts(path)
        kept = [file.path for file in client.list_artifacts(run.info.run_id) if file.path in ARTIFACTS]
        if kept:
            raise HarnessError(
                f"the earlier artifact {kept[0]} of MLflow run {run.info.run_id} cannot be deleted: {shown_uri(uri)}. "
                "Delete that run in MLflow, then export again."
            )
    client.log_artifacts(run.info.run_id, str(artifacts))


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _check_store(uri: str) -> None:
    """Raise HarnessError for a directory, and for an SQLite file without one, which MLflow would try for a minute."""
    if uri.startswith("file:") or not ("://" in uri or uri.startswith("databricks")):
        raise HarnessError(f"{uri}: MLflow cannot log to a directory. Use a database file, e.g. {_SQLITE}mlflow.db.")
    if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).absolute().parent.is_dir():
        raise HarnessError(f"{uri}: no such directory. Make it, or use another file.")


@contextlib.contextmanager
def _mlflow_errors(uri: str) -> Iterator[None]:
    """Turn the errors of MLflow and of the packages it uses into a HarnessError of one or two sentences."""
    require_mlflow()
    from requests.exceptions import ConnectionError as NoConnection
    from requests.exceptions import Timeout

    where = shown_uri(uri)
    try:
        yield
    except ModuleNotFoundError as error:
        raise HarnessError(f"{where}: MLflow needs the module {error.name} for this address. Install it.") from None
    except Exception as error:
        if any(isinstance(cause, NoConnection | Timeout) for cause in _causes(error)):
            raise HarnessError(
                f"no MLflow server answers: {where}. Check the address, and start the server if it does not run."
            ) from None
        # An artifact store can be that of any cloud, whose errors have their own classes.
        if isinstance(error, OSError) or not type(error).__module__.startswith(("builtins", "harness")):
            reason = shorten(
                sanitize(_without_login(" ".join(str(error).split()).replace(uri, where), uri)), 160
            ).rstrip(".")
            raise HarnessError(f"{where}: MLflow refused the export ({reason}). Check the address.") from None
        raise


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
