"""The base of spec.json: everything about a run that was resolved before it began. It is written once.

Each kind of job has its own spec in `harness/runs/specs.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from harness.core.paths import model_name
from harness.core.rows import Table

BUILT_IN_TARGETS = ("demo", "demo-small", "demo-tiny", "demo-reference")
"""Names of the models that are part of the package."""
NODE = "node"
"""The device of a worker on a cluster, whose node chooses it."""


class Record(BaseModel, frozen=True, extra="forbid"):
    """A part of spec.json: immutable, without unknown fields."""


class PathRecord(Record):
    """A path that the user named, and the SHA-256 of its content."""

    path: Path
    sha256: str


class AdapterRecord(Record):
    """The directory of an adapter, and the base model that the user named for it."""

    path: Path
    base: str
    """The hub id or directory of the base model."""
    base_sha256: str
    """The hash of the base model's weights, without the adapter."""


class TargetConfig(Record):
    """The directory of a target, and how to load it."""

    path: Path
    """The directory of the whole model: that of the base, if there is an adapter."""
    adapter: AdapterRecord | None = None
    """The adapter that is merged into the model when it is loaded."""
    device: str
    shards: tuple[str, ...] = ()
    """The devices of a target that is split, in the order of its blocks, `device` first. Empty for one device."""
    dtype: str
    threads: int
    """The number of CPU threads."""

    @property
    def place(self) -> str:
        """The names of all of the target's devices."""
        return ", ".join(self.shards or (self.device,))

    @property
    def loading(self) -> dict[str, Any]:
        """The arguments, besides the path, of the functions that load a model on one device."""
        return {name: getattr(self, name) for name in ("adapter", "device", "dtype", "threads")}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The directories that are read to load the target."""
        return (self.path,) if self.adapter is None else (self.path, self.adapter.path)


class TargetRecord(TargetConfig):
    """A target as it was resolved: hub id or directory, revision, commit, and the SHA-256 and size of its weights.

    With an adapter, the id is the adapter's, the revision and the commit are the base model's, and the hash is of both.

    is_tokenizer_only: the model is behind an endpoint; the hash and the size are those of tokenizer and configuration.
    source_sha256: the hash of the GGUF file that the weights were converted from, None for other models.
    """

    id: str
    revision: str
    commit: str | None
    weights_sha256: str
    bytes: int
    is_tokenizer_only: bool = False
    source_sha256: str | None = None

    @property
    def name(self) -> str:
        """The hub id, or the name of the directory without the directories before it."""
        return model_name(self.id) or self.paths[-1].name

    @property
    def base_name(self) -> str:
        """The name of the adapter's base model, as `name` is that of the adapter, "" without an adapter."""
        return "" if self.adapter is None else model_name(self.adapter.base) or self.path.name

    @property
    def is_folder(self) -> bool:
        """True if the id is a local directory."""
        return self.adapter is not None or (self.commit is None and self.id not in BUILT_IN_TARGETS)

    @property
    def hashed(self) -> str:
        """The name of the files whose hash is recorded."""
        return "tokenizer" if self.is_tokenizer_only else "weights"

    @property
    def config(self) -> TargetConfig:
        """The options with which a worker loads the target."""
        return TargetConfig(**{name: getattr(self, name) for name in TargetConfig.model_fields})


class JobSpec(Record, ABC):
    """The fields that the specs of all kinds of job share."""

    id: str
    kind: str
    parent: str | None = None
    """The id of the run's tuning or sweep, or the name of its group."""
    created_at: float
    """Seconds since the epoch."""
    params: dict[str, Any]
    paths: dict[str, PathRecord]
    """The files and directories that the user named."""
    seed: int
    network: Literal["none", "endpoint"] = "none"
    """The network access that the job declared, and that the sandbox allows."""
    shares_device: bool = False
    """True if the run starts without waiting for the lock of its device."""
    devices: tuple[str, ...] = ()
    """The device of each worker of a run with several; empty with one, which uses the devices of its targets."""
    cluster: str | None = None
    """The address of the Ray cluster whose nodes have the workers; None for workers on this machine."""
    budget: float
    """Seconds of wall clock."""
    versions: dict[str, str]
    hardware: dict[str, Any]
    batch_sizes: dict[str, int] = {}
    """Sizes of batches by loop, measured by another run, which this one takes over: those of a bundle's run."""

    noun: ClassVar[str] = "run"
    """The word for one run of this kind in lists and messages."""
    command: ClassVar[str] = "harness run ATTACK"
    """The command that starts one."""

    @property
    @abstractmethod
    def targets(self) -> tuple[TargetRecord, ...]:
        """Every model that the job loads."""

    @property
    def target_name(self) -> str | None:
        """The names of the models that are attacked or audited, None if there are none."""
        return ", ".join(target.id for target in self.targets) or None

    @property
    @abstractmethod
    def stored_tables(self) -> Mapping[str, Table]:
        """The tables that the job's rows are stored in, by their name in run.db."""

    @abstractmethod
    def recorded_inputs(self, *, code: Path, inputs: Path) -> list[tuple[str, Path, str]]:
        """Return the files that a resumed run reads again: name, path and recorded SHA-256 of files and directories.

        code, inputs: the directories in the run's record.
        """

    @property
    def has_figures(self) -> bool:
        """True if the job sends current figures, as an audit does."""
        return "audit_figure" in self.stored_tables
