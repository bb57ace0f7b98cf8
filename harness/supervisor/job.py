"""The interface of a kind of job for the supervisor. `attack_job.py` and `audit_job.py` implement it."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from harness.core.protocol import JobRequest
from harness.core.spec import JobSpec, TargetConfig, TargetRecord
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.store import RunStore
from harness.supervisor.devices import Device, worker_names
from harness.supervisor.intake import Intake

SpecType = TypeVar("SpecType", bound=JobSpec)


class Job(ABC, Generic[SpecType]):
    """One job in the directory of its run. `noun` and `row_noun` name it and its rows in messages."""

    noun: str
    row_noun: str
    hidden_paths: tuple[Path, ...] = ()
    """Files that the worker must not find."""

    def __init__(self, folder: RunFolder, spec: SpecType) -> None:
        self.folder = folder
        self.spec = spec

    @property
    @abstractmethod
    def readable_paths(self) -> tuple[Path, ...]:
        """The parts of the run's directory that the worker reads, besides its scratch directory."""

    @property
    @abstractmethod
    def result_bytes(self) -> int:
        """The approximate size of the result files."""

    @property
    def named_paths(self) -> tuple[Path, ...]:
        """Paths that the user named and that the worker reads in place."""
        return tuple(record.path for record in self.spec.paths.values())

    @abstractmethod
    def intake(self, store: RunStore) -> Intake:
        """Return the object that takes the frames of one execution. Called once, before the methods below."""

    @abstractmethod
    def write_inputs(self, folder: Path) -> None:
        """Write the worker's arrays into the existing directory `folder`, before the budget starts."""

    def write_state(self, folder: Path) -> None:
        """Write what the run has stored so far into the existing directory `folder`, for the run's other workers."""

    @abstractmethod
    def request(self, reader: RunReader, *, finish_at: float, devices: Sequence[Device]) -> JobRequest:
        """Return the request of a worker on `devices`; `finish_at` is the soft deadline."""

    def shared_fields(self, reader: RunReader) -> dict[str, Any]:
        """Return the fields of a request that jobs of all kinds have."""
        return {
            "params": self.spec.params,
            "seed": self.spec.seed,
            "done": reader.done_keys(),
            "batch_sizes": self.spec.batch_sizes | reader.batch_sizes(),
        }

    def record_score(self, store: RunStore, *, at: float, spent: float, is_last: bool = False) -> None:
        """Store the current score if it is due at time `at`; always if `is_last`."""

    @classmethod
    def write_results(cls, folder: RunFolder, spec: SpecType) -> None:
        """Write the files of the results from the record.

        An audit has none: its findings are computed from the record when they are asked for.
        """


def job_type(kind: str) -> type[Job[Any]]:
    """Return the class `JOB` of the module `KIND_job` in this package."""
    job_class: type[Job[Any]] = importlib.import_module(f"harness.supervisor.{kind}_job").JOB
    return job_class


def target_config(target: TargetRecord, devices: Sequence[Device]) -> TargetConfig:
    """Return how the worker loads `target` on its devices: several if the target is split, none if it loads none."""
    if not devices:
        return target.config
    names = worker_names(devices)
    return target.config.model_copy(update={"device": names[0], "shards": names if target.shards else ()})
