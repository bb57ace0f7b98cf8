"""spec.json: everything about a run that was resolved before it began; written once, never changed."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from harness.core.audit import Table
from harness.core.errors import HarnessError
from harness.core.rounds import Round


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


SHIPPED_TARGETS = ("demo", "demo-small", "demo-tiny")
"""Targets that come with the harness, by name."""


class AttackRecord(_Record):
    """Which attack runs: its file as copied into the run's code/ folder, and what its class declares."""

    name: str
    origin: str
    file: str
    sha256: str
    reference: str
    control: bool
    uses_target: bool
    guesses_per_example: int
    requires: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


class PathRecord(_Record):
    """A path that a parameter names: where it lay and the hash of what it held."""

    path: Path
    sha256: str


class TargetRecord(_Record):
    """The model under attack as it was found, and how it is loaded; `device` and `dtype` are as resolved or asked."""

    id: str
    revision: str
    commit: str | None
    path: Path
    weights_sha256: str
    bytes: int
    device: str
    dtype: str
    threads: int


class JobSpec(_Record, ABC):
    """What every job's record says, an attack's as well as an audit's.

    `budget` is in seconds; `created_at` in seconds since the epoch; `network` is what the job declared that it needs,
    and the sandbox lets it have; `paths` are what the user named, with the hash of what lay there.
    """

    id: str
    kind: str
    parent: str | None = None
    created_at: float
    params: dict[str, Any]
    paths: dict[str, PathRecord]
    seed: int
    network: Literal["none", "endpoint"] = "none"
    budget: float
    versions: dict[str, str]
    hardware: dict[str, Any]

    @property
    @abstractmethod
    def targets(self) -> tuple[TargetRecord, ...]:
        """Every model that the job loads."""


class AttackSpec(JobSpec):
    """One attack on one round. `data_sha256` maps each file that the round names and that exists to its hash.

    `examples` are attacked, the first of `round_examples` (fewer with --limit).
    """

    kind: Literal["attack"] = "attack"
    attack: AttackRecord
    examples: int
    round_examples: int
    round: Round
    data_sha256: dict[str, str]
    target: TargetRecord | None

    @property
    def targets(self) -> tuple[TargetRecord, ...]:
        return () if self.target is None else (self.target,)

    @property
    def is_partial(self) -> bool:
        """Only some of the round's examples are attacked."""
        return self.examples < self.round_examples

    @property
    def error_cap(self) -> int:
        """The round's cap on errors, in proportion to the part of its examples that is attacked, at least 1."""
        return max(1, round(self.round.error_cap * self.examples / self.round_examples))


class AuditSpec(JobSpec):
    """One audit of one or more models. subject: what it was given, in a word; inputs_sha256: of what was read there."""

    kind: Literal["audit"] = "audit"
    audit: str
    subject: str
    tables: tuple[Table, ...]
    inputs_sha256: str
    models: tuple[TargetRecord, ...]

    @property
    def targets(self) -> tuple[TargetRecord, ...]:
        return self.models


_JOB: TypeAdapter[AttackSpec | AuditSpec] = TypeAdapter(Annotated[AttackSpec | AuditSpec, Field(discriminator="kind")])


def read_spec(path: Path) -> AttackSpec | AuditSpec:
    """The spec at `path`. Raises HarnessError, naming the file, when it is absent or unreadable."""
    try:
        return _JOB.validate_json(path.read_bytes())
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = "".join(f"{part}: " for part in fault["loc"])
        raise HarnessError(f"{path}: not a run's spec ({where}{fault['msg']}).") from None
