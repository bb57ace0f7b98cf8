"""The part of a run's record that depends on the kind of job. `attack_record.py` and `audit_record.py` implement it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from harness.core.spec import JobSpec
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.specs import AttackSpec

SpecType = TypeVar("SpecType", bound=JobSpec)


@dataclass(frozen=True)
class Labels:
    """The names and rules that a list of runs shows. An audit has no error cap.

    changed: the parameters that are not the attack's defaults, with their values, and the seed if it is not 0.
    """

    attack: str
    round: str
    is_control: bool = False
    is_blind: bool = False
    is_partial: bool = False
    error_cap: int = 0
    changed: dict[str, Any] = field(default_factory=dict)


class Counts(NamedTuple):
    """Committed rows, and the current value of each figure by name (None if it is not a number)."""

    rows: int
    figures: dict[str, float | None]


class JobRecord(ABC, Generic[SpecType]):
    """The summary, the results and the inputs of a stored run."""

    screen: ClassVar[Literal["guesses", "figures"]]
    """The screen of a run: one for ranked guesses, another for the figures and the tables of an audit."""

    @abstractmethod
    def labels(self, spec: SpecType) -> Labels:
        """Return what a list of runs shows."""

    @abstractmethod
    def counts(self, reader: RunReader, spec: SpecType) -> Counts:
        """Return what is committed so far."""

    @abstractmethod
    def write_results(self, folder: RunFolder, spec: SpecType) -> None:
        """Write the files of the results, each completely or not at all."""

    @abstractmethod
    def changed_inputs(self, folder: RunFolder, spec: SpecType, weights_sha256: Sequence[str | None]) -> list[str]:
        """Return the names of the inputs that are not as recorded; `weights_sha256` are the current weights."""

    @abstractmethod
    def describe(self, folder: RunFolder, spec: SpecType) -> list[tuple[str, str]]:
        """Return the lines of `harness show` that only this kind has: a name and plain text."""


def job_record(spec: JobSpec) -> JobRecord[Any]:
    """Return the implementation for the kind of `spec`."""
    # Both modules import this one.
    from harness.runs.attack_record import AttackRunRecord
    from harness.runs.audit_record import AuditRecord

    return AttackRunRecord() if isinstance(spec, AttackSpec) else AuditRecord()
