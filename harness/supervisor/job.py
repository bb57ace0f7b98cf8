"""What a supervisor needs to know of a job, an attack or an audit; everything else about a run is the same for both."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic, TypeVar

from harness.core.spec import TargetConfig
from harness.core.spec import JobSpec, TargetRecord
from harness.runs.folder import RunFolder
from harness.runs.store import RunStore
from harness.supervisor.intake import Intake

SpecType = TypeVar("SpecType", bound=JobSpec)


class Job(ABC, Generic[SpecType]):
    """One job in the folder of its run."""

    noun: str
    """What sentences call it: `attack`, `audit`."""
    row_noun: str
    """What they call a row of its results."""
    hidden: tuple[Path, ...] = ()
    """Files that its worker must not find."""

    def __init__(self, folder: RunFolder, spec: SpecType) -> None:
        self.folder = folder
        self.spec = spec

    @property
    @abstractmethod
    def readable(self) -> tuple[Path, ...]:
        """What of the run's folder its worker reads, beside its scratch."""

    @property
    @abstractmethod
    def most_result_bytes(self) -> int:
        """About how much the writing of its results takes on the disk."""

    @property
    def named_paths(self) -> tuple[Path, ...]:
        """What the user named and its worker reads where it lies."""
        return tuple(record.path for record in self.spec.paths.values())

    @abstractmethod
    def intake(self, store: RunStore) -> Intake:
        """What takes the frames of one execution; called once, before any other of these."""

    @abstractmethod
    def lay_inputs(self, *, finish_at: float) -> None:
        """Make the run's scratch folder anew, with the worker's job in it; `finish_at` is the soft deadline."""

    def look(self, store: RunStore, *, at: float, spent: float, is_last: bool = False) -> None:
        """Record what the job has come to so far, where that is due."""


def target_config(target: TargetRecord) -> TargetConfig:
    """How a worker loads the model."""
    return TargetConfig(path=target.path, device=target.device, dtype=target.dtype, threads=target.threads)
