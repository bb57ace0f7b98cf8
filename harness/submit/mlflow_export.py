"""Log a run or an audit to MLflow as a new MLflow run: parameters, figures and files."""

import os
import re
from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness.core.extras import require_extra
from harness.core.text import plain_value, sanitize, shorten
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.runs.summary import run_summary

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
_STATUS = {Status.STOPPED: "KILLED", Status.CRASHED: "FAILED", Status.LOST: "FAILED"}
_SQLITE = "sqlite:///"
_LOGIN = re.compile(r"(?<![^/?#\s])[^/?#\s]*@")


def require_mlflow() -> Any:
    """Return the library. Raises HarnessError if it is not installed.

    Unless the environment says otherwise, it reports no usage and gives up soon if there is no server.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    require_extra("mlflow", "--mlflow")
    import mlflow

    return mlflow


def check_address(uri: str) -> None:
    """Raise HarnessError if `uri` is a directory, or a database file in a directory that does not exist."""
    if uri.startswith("file:") or not ("://" in uri or uri.startswith("databricks")):
        raise HarnessError(f"{uri}: MLflow cannot log to a directory. Use a database file, e.g. {_SQLITE}mlflow.db.")
    if uri.startswith(_SQLITE) and not Path(uri.removeprefix(_SQLITE)).absolute().parent.is_dir():
        # MLflow would try for a minute.
        raise HarnessError(f"{uri}: no such directory. Make it, or use another file.")


def log_to_mlflow(
    uri: str,
    experiment: str,
    folder: RunFolder,
    figures: Mapping[str, Any],
    curve: Iterable[tuple[float, float]],
    artifacts: Path,
) -> str:
    """Log a run that is over, its figures, and the files in the directory `artifacts`. Return the MLflow run's id.

    `curve` has seconds spent and the recall at the cap. Raises HarnessError if the store cannot be reached or refuses
    the export.
    """
    mlflow = require_mlflow()
    from mlflow.entities import Metric, Param

    summary = run_summary(folder)
    start, end = (round(1000 * at) for at in (summary.created_at, summary.created_at + summary.elapsed_s))
    points = [Metric(name, value, end, 0) for name, value in _with_valid_keys(_metrics(figures)).items()]
    recalls = {round(at): recall for at, recall in curve}  # of several points in one second, the last one counts
    points += [Metric("recall_over_time", recall, start + 1000 * at, at) for at, recall in recalls.items()]
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        existing = client.get_experiment_by_name(experiment)
        experiment_id = client.create_experiment(experiment) if existing is None else existing.experiment_id
        tags = {"harness.run": summary.id, "harness.status": str(summary.status)}
        run = str(client.create_run(experiment_id, start_time=start, tags=tags, run_name=summary.id).info.run_id)
        client.log_batch(run, metrics=points, params=[Param(name, value) for name, value in _params(folder).items()])
        client.log_artifacts(run, str(artifacts))
        client.set_terminated(run, _STATUS.get(summary.status, "FINISHED"), end_time=end)
    except Exception as error:  # an artifact store can be that of any cloud, whose errors have their own classes
        where = sanitize(re.split("[?#]", _LOGIN.sub("", uri), maxsplit=1)[0])
        reason = shorten(sanitize(_LOGIN.sub("", str(error).replace(uri, where))), 160)
        raise HarnessError(f"{where}: no MLflow server answers, or it refused ({reason}). Check --mlflow.") from None
    return run


def _params(folder: RunFolder) -> dict[str, str]:
    """Return the parameters of a job, without directories of this machine."""
    spec = folder.spec()
    params = {"targets": ", ".join(model.name for model in spec.targets), "seed": spec.seed, "budget_s": spec.budget}
    files = {name: record.path.name for name, record in spec.paths.items()}
    params |= {f"param.{name}": files.get(name, value) for name, value in spec.params.items()}
    return _with_valid_keys({name: shorten(sanitize(str(value)), 500) for name, value in params.items()})


def _metrics(figures: Mapping[str, Any], path: str = "") -> dict[str, float]:
    """Return each finite number by its path. The parts of an interval have the names `.low`, `.high` and `.of`.

    Numbers in lists are left out.
    """
    metrics: dict[str, float] = {}
    for name, figure in figures.items():
        value = plain_value(figure)
        if isinstance(value, Mapping):
            metrics |= _metrics(value, f"{path}{name}.")
        elif isinstance(value, int | float) and isfinite(value):
            metrics[f"{path}{name}".removesuffix(".value")] = float(value)
    return metrics


def _with_valid_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with keys that MLflow accepts: ASCII letters, digits, -, _ and `.`, each key once."""
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        key = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:200].strip(".") or "_"
        while key in renamed:
            key += "_"
        renamed[key] = value
    return renamed
