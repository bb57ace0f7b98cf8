"""The protocol of a supervisor and its worker: the request in the worker's scratch directory, and names that both know.

The request is one JSON file, and arrays beside it. Each kind of job has its own request in `requests.py`. The worker
answers in frames (`frames.py`).
"""

import json
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from harness.core.files import require_content

ENDPOINT_KEYS = ("HARNESS_ENDPOINT_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold an endpoint's API key. The worker gets the first one that is set as the first."""
FINDINGS = "findings"
"""The frames and the stored array of an audit's findings so far: the bytes of a JSON object."""
LEAD = 0
"""The worker that opens loops, runs batches that must be in order, and sends what is emitted outside batches."""
REQUEST_FILE = "job.json"
"""The file of the request, beside the inputs of the worker."""


class JobRequest(BaseModel, frozen=True, extra="forbid"):
    """One execution of a job."""

    kind: str
    params: dict[str, Any]
    seed: int
    finish_at: float = 0.0
    """The soft deadline in seconds of `harness.core`'s clock."""
    done: list[str]
    """The keys of the batches that are not run again."""
    batch_sizes: dict[str, int] = {}
    """The measured size of the batches of each loop, such as "guess/0"."""
    worker: int = 0
    """The number of this worker, from 0, of the run's `workers`."""
    workers: int = 1
    state_folder: Path | None = None
    """The directory where the supervisor writes what other workers have stored."""


RequestType = TypeVar("RequestType", bound=JobRequest)


def write_request(folder: Path, request: JobRequest) -> None:
    """Write `request` into the existing directory `folder`."""
    (folder / REQUEST_FILE).write_text(request.model_dump_json(), encoding="utf-8")


def read_kind(folder: Path) -> str:
    """Return the kind of the job whose request is in `folder`."""
    return str(json.loads((folder / REQUEST_FILE).read_bytes())["kind"])


def read_request(folder: Path, request_type: type[RequestType]) -> RequestType:
    """Return the request in `folder`."""
    return request_type.model_validate_json((folder / REQUEST_FILE).read_bytes())


def read_archive(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of the .npz file at `path`; none if the file does not exist."""
    if not path.exists():
        return {}
    require_content(path)
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
