"""spec.json: everything about an attack run or an audit that was resolved before it began. It is written once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError

from harness.core.errors import HarnessError
from harness.core.faults import first_fault
from harness.core.files import file_errors, read_start
from harness.core.guesses import GUESSES
from harness.core.rounds import FILE_FIELDS, Round
from harness.core.rows import Table
from harness.core.run_request import RunRequest
from harness.core.scoring import scaled_cap
from harness.core.spec import JobSpec, Record, TargetRecord

_NOT_RULES = {"source", "title", "budget", "target", "revision", *FILE_FIELDS}
"""Fields in which the rounds of two comparable runs may differ, and the files, which are compared by content."""


@dataclass(frozen=True)
class Labels:
    """The names and rules that a list of runs shows. An audit has no error cap."""

    attack: str
    round: str
    is_control: bool = False
    is_blind: bool = False
    is_partial: bool = False
    error_cap: int = 0
    changed: dict[str, Any] = field(default_factory=dict)
    """The parameters that are not the attack's defaults, with their values, and the seed if it is not 0."""


class AttackRecord(Record):
    """The attack: what its class declares or an option replaces, where it was found, and its file in the run's code."""

    name: str
    summary: str
    reference: str
    control: bool
    uses_target: bool
    reference_model: str
    guesses_per_example: int
    requires: tuple[str, ...]
    models: tuple[str, ...]
    origin: str
    file: str
    sha256: str


class AttackSpec(JobSpec):
    """One attack on one round."""

    kind: Literal["attack"] = "attack"
    attack: AttackRecord
    request: RunRequest
    """The run as it was asked for. The other fields are what it was resolved to."""
    changed: tuple[str, ...]
    """The parameters that were not the attack's defaults."""
    examples: int
    """The number of attacked examples, the first of the round; fewer than `round_examples` with --limit."""
    round_examples: int
    round: Round
    data_sha256: dict[str, str]
    """The SHA-256 of each existing file of the round, by path."""
    target: TargetRecord | None
    reference: TargetRecord | None
    """The reference model."""

    def differing_fields(self, second: "AttackSpec") -> list[str]:
        """Return the fields in which the rounds of two runs differ; runs with none have the same data and rules.

        A file counts by its content: a clone that was moved, or installed again, has the same data at another path.
        Files differ if both runs recorded other hashes.
        """
        names = []
        for name in FILE_FIELDS:
            hashes = {spec.data_sha256.get(str(getattr(spec.round, name))) for spec in (self, second)}
            if len(hashes - {None}) == 2:
                names.append(name)
        rules, second_rules = (spec.round.model_dump(exclude=_NOT_RULES) for spec in (self, second))
        return names + [name for name, value in rules.items() if value != second_rules[name]]

    @property
    def models_by_role(self) -> dict[str, TargetRecord]:
        """The models of the attack by their role, `target` and `reference`."""
        roles = {"target": self.target, "reference": self.reference}
        return {role: model for role, model in roles.items() if model is not None}

    @property
    def targets(self) -> tuple[TargetRecord, ...]:
        return tuple(self.models_by_role.values())

    @property
    def target_name(self) -> str | None:
        return None if self.target is None else self.target.id

    @property
    def stored_tables(self) -> Mapping[str, Table]:
        return {"guess": GUESSES}

    def recorded_inputs(self, *, code: Path, inputs: Path) -> list[tuple[str, Path, str]]:
        source = code / self.attack.file
        return [
            (f"the attack's source {source}", source, self.attack.sha256),
            *((f"the round's file {name}", Path(name), sha256) for name, sha256 in self.data_sha256.items()),
            *((f"{path.path} of the parameter {name}", path.path, path.sha256) for name, path in self.paths.items()),
        ]

    @property
    def labels(self) -> Labels:
        """The values that a list of runs shows."""
        reference = None if self.reference is None else self.reference.id
        return Labels(
            attack=self.attack.name,
            round=self.round.name,
            is_control=self.attack.control,
            is_blind=self.round.is_blind,
            is_partial=self.is_partial,
            error_cap=self.error_cap,
            changed=({"seed": self.seed} if self.seed else {})
            | ({"reference": reference} if reference not in (None, self.attack.reference_model) else {})
            | ({"guesses_per_example": guesses} if (guesses := self.request.guesses_per_example) is not None else {})
            | {name: self.params[name] for name in self.changed if name in self.params},
        )

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

    noun: ClassVar[str] = "audit"
    command: ClassVar[str] = "harness audit NAME"

    @property
    def targets(self) -> tuple[TargetRecord, ...]:
        return self.models

    @property
    def stored_tables(self) -> Mapping[str, Table]:
        return {f"audit_{table.name}": table for table in self.tables}

    def recorded_inputs(self, *, code: Path, inputs: Path) -> list[tuple[str, Path, str]]:
        # What the user named was read before the audit began and is part of its inputs.
        return [(f"its inputs in {inputs}", inputs, self.inputs_sha256)]

    @property
    def labels(self) -> Labels:
        """The values that a list of runs shows."""
        return Labels(attack=f"audit {self.audit}", round=self.subject)


RunSpec = AttackSpec | AuditSpec
"""The kinds of job. The supervisor and the worker of a kind import their modules `KIND_job`."""
_SPEC: TypeAdapter[RunSpec] = TypeAdapter(Annotated[RunSpec, Field(discriminator="kind")])


def read_spec(path: Path) -> RunSpec:
    """Return the spec in the file `path`. Raises HarnessError, naming the file, if it is absent or invalid."""
    with file_errors(path):
        content = read_start(path)
    try:
        return _SPEC.validate_json(content)
    except ValidationError as error:
        raise HarnessError(f"{path}: not the spec of a run ({first_fault(error)}). Restore the file.") from None
