"""The kinds of job. A kind is one directory here and one line in `KINDS`.

Each kind has these five modules. They are loaded by name, so no process loads what it does not need:

    spec.py        `Spec`: the fields of spec.json and the stored tables            (imports core)
    request.py     the request that the supervisor writes and the worker reads      (imports core)
    record.py      `RECORD`: summary, description, results, changed inputs          (imports runs)
    supervised.py  `Job`: inputs of the worker, checks of its frames, live score    (imports supervisor)
    worker.py      `run`: what the worker process does                              (imports engine)

A kind can have further modules: `reader.py` reads the stored rows, `results.py` writes the result files, `context.py`
is what the worker's code sees, `planning.py` resolves a spec for the command line.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType

from pydantic import BaseModel, ValidationError

from harness.core.errors import HarnessError, unknown_name
from harness.core.spec import JobSpec
from harness.core.untrusted_files import first_fault

KINDS = ("attack", "audit")


class _Kind(BaseModel):
    kind: str


def job_module(kind: str, name: str) -> ModuleType:
    """Return module `name` of the kind of job `kind`. Raises HarnessError if the kind is unknown."""
    if kind not in KINDS:
        raise unknown_name("kind of job", kind, KINDS, see="the documentation")
    return import_module(f"harness.jobs.{kind}.{name}")


def read_spec(path: Path) -> JobSpec:
    """Return the spec in the file `path`. Raises HarnessError, naming the file, if it is absent or invalid."""
    try:
        content = path.read_bytes()
        kind = _Kind.model_validate_json(content).kind
        spec: JobSpec = job_module(kind, "spec").Spec.model_validate_json(content)
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror}).") from None
    except HarnessError as error:
        raise HarnessError(f"{path}: {error}") from None
    except ValidationError as error:
        raise HarnessError(f"{path}: not the spec of a run ({first_fault(error)}).") from None
    return spec
