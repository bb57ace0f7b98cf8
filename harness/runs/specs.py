"""spec.json: everything about an attack run or an audit that was resolved before it began. It is written once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from harness.core.errors import HarnessError
from harness.core.guesses import GUESSES
from harness.core.inputs import first_fault
from harness.core.rounds import Round
from harness.core.rows import Table
from harness.core.scoring import scaled_cap
from harness.core.spec import JobSpec, Record, TargetRecord


class AttackRecord(Record):
    """The attack: the name of its file in the run's code/ directory, and what its class declares."""

    name: str
    origin: str
    file: str
    sha256: str
    reference: str
    control: bool
    uses_target: bool
    reference_model: str
    guesses_per_example: int
    requires: tuple[str, ...]
    models: tuple[str, ...]


class AttackSpec(JobSpec):
    """One attack on one round.

    `data_sha256` maps each existing file of the round to its SHA-256. The first `examples` of `round_examples` are
    attacked (fewer with --limit). `changed` names the parameters that were not the attack's defaults.
    `reference` is the reference model.
    """

    kind: Literal["attack"] = "attack"
    attack: AttackRecord
    changed: tuple[str, ...]
    examples: int
    round_examples: int
    round: Round
    data_sha256: dict[str, str]
    target: TargetRecord | None
    reference: TargetRecord | None

    @property
    def targets(self) -> tuple[TargetRecord, ...]:
        return tuple(model for model in (self.target, self.reference) if model is not None)

    @property
    def target_name(self) -> str | None:
        return None if self.target is None else self.target.id

    @property
    def stored_tables(self) -> Mapping[str, Table]:
        return {"guess": GUESSES}

    @property
    def is_partial(self) -> bool:
        """True if only some of the round's examples are attacked."""
        return self.examples < self.round_examples

    @property
    def error_cap(self) -> int:
        """The round's error cap, scaled to the attacked examples."""
        return scaled_cap(self.round.error_cap, self.examples, self.round_examples)


class AuditSpec(JobSpec):
    """One audit of one or more models.

    `subject` names what was audited; `inputs_sha256` is the hash of the run's inputs/ directory.
    """

    kind: Literal["audit"] = "audit"
    audit: str
    subject: str
    tables: tuple[Table, ...]
    inputs_sha256: str
    models: tuple[TargetRecord, ...]

    @property
    def targets(self) -> tuple[TargetRecord, ...]:
        return self.models

    @property
    def stored_tables(self) -> Mapping[str, Table]:
        return {f"audit_{table.name}": table for table in self.tables}


_SPEC: TypeAdapter[AttackSpec | AuditSpec] = TypeAdapter(Annotated[AttackSpec | AuditSpec, Field(discriminator="kind")])


def read_spec(path: Path) -> JobSpec:
    """Return the spec in the file `path`. Raises HarnessError, naming the file, if it is absent or invalid."""
    try:
        return _SPEC.validate_json(path.read_bytes())
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValidationError as error:
        raise HarnessError(f"{path}: not the spec of a run ({first_fault(error)}).") from None
