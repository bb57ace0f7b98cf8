"""The audit contract: what an audit declares, what it is given and what it hands back; it knows no store and no screen.

An audit is a job like an attack run: a worker runs it under a budget, a supervisor keeps its rows, a resume goes on
where it was. `run` measures, batch by batch, and emits rows; `findings` makes of all rows what is reported, and is a
pure function of them and of the inputs, so that it is made anew wherever the record lies, without any model.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, field_validator

from harness.core.arrays import Ints
from harness.core.attack import Params, ParamsType, params_type_of
from harness.core.files import write_atomically
from harness.core.findings import Findings

if TYPE_CHECKING:
    from harness.core.requests import TargetConfig
    from harness.engine.target import Target

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_ARRAYS, _TEXTS = "inputs.npz", "inputs.json"


class Kind(StrEnum):
    """What a column holds: an int64, a float64, a fixed-width vector of float64, or text."""

    INTEGER = "integer"
    REAL = "real"
    REALS = "reals"
    TEXT = "text"


class Column(BaseModel):
    """One column of an audit's table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: Kind

    @field_validator("name")
    @classmethod
    def _is_plain(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or name in ("seq", "batch", "attempt", "at"):
            raise ValueError("a column is called by lower-case letters, digits and underscores")
        return name


class Table(BaseModel):
    """A kind of row that an audit declares, and the store keeps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    columns: tuple[Column, ...]

    @field_validator("name")
    @classmethod
    def _is_plain(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("a table is called by lower-case letters, digits and underscores")
        return name


def table(name: str, /, **columns: Kind) -> Table:
    """A table with these columns, in this order."""
    return Table(name=name, columns=tuple(Column(name=column, kind=kind) for column, kind in columns.items()))


FIGURES = table("figure", name=Kind.TEXT, value=Kind.REAL, low=Kind.REAL, high=Kind.REAL, of=Kind.INTEGER)
"""What every audit reports as it goes: a figure so far, its 95 % interval (NaN where it has none), and of how many."""

Rows = Mapping[str, Any]
"""Rows of one table in arrival order, by column: int64 [rows], float64 [rows], float64 [rows, width] or list[str]."""
RowsOf = Callable[[str], Rows]
"""The rows of a table, by its name."""


@dataclass(frozen=True)
class AuditInputs:
    """What an audit measures with, read and checked before any clock starts: texts and arrays, each by name."""

    texts: Mapping[str, list[str]] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Lay them into `folder`, which exists; texts may hold any code point, lone surrogates too."""
        if self.arrays:
            with (folder / _ARRAYS).open("wb") as file:
                np.savez(file, **self.arrays)  # type: ignore[arg-type]
        write_atomically(folder / _TEXTS, json.dumps(dict(self.texts)) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "AuditInputs":
        """What `write` laid there."""
        arrays: dict[str, NDArray[Any]] = {}
        if (folder / _ARRAYS).exists():
            with np.load(folder / _ARRAYS, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        return cls(json.loads((folder / _TEXTS).read_bytes()), arrays)


@dataclass(frozen=True)
class AuditBatch:
    """A fixed list of items: the unit of progress, commit and resume. items: [n] int64; seed: that of its stage."""

    items: Ints
    seed: int
    stage: str

    @property
    def rows(self) -> slice:
        """The items as a slice: they follow one another."""
        return slice(int(self.items[0]), int(self.items[-1]) + 1)


class AuditContext(ABC):
    """The inputs, the models and the durable progress of one audit, as it sees them."""

    seed: int
    inputs: AuditInputs

    @property
    @abstractmethod
    def orders(self) -> "tuple[TargetConfig, ...]":
        """Where each model lies, and how it is to be loaded; empty where an endpoint answers."""

    @abstractmethod
    def target(self, number: int = 0) -> "Target":
        """The language model of that number, loaded when first asked for in place of the one before."""

    @property
    @abstractmethod
    def secret(self) -> str | None:
        """The endpoint's key; it stands in no record."""

    @abstractmethod
    def announce(self, stage: str, items: int, *, weight: float = 1.0) -> None:
        """A stage that is to come, and about how much work it is, so that progress counts it from the start."""

    @abstractmethod
    def batches(self, stage: str, items: int, *, size: int, weight: float = 1.0) -> Iterator[AuditBatch]:
        """Batches of `size` over items 0 … `items` - 1, without those that are done.

        weight: an item's share of all work, beside other stages. The batch handed out is done when the next one is
        asked for. Each stage's name is used once.
        """

    @abstractmethod
    def emit(self, table: str, **columns: ArrayLike | list[str]) -> None:
        """Rows of a declared table, every column of it, under the batch that is open."""

    @abstractmethod
    def rows(self, table: str) -> Rows:
        """Everything that was emitted in batches that are done or open, earlier executions included."""

    @abstractmethod
    def figure(self, name: str, value: float, *, low: float = np.nan, high: float = np.nan, of: int = 0) -> None:
        """A figure as it stands now, for who watches, in a batch or outside of any; the last one of a name counts."""

    @abstractmethod
    def warn(self, sentence: str) -> None:
        """Something that was left out or went wrong, in one sentence, while the rest goes on."""


class Audit(ABC, Generic[ParamsType]):
    """A measurement of what a model memorized. `tables` are the kinds of row that it emits, beside `figure`."""

    name: ClassVar[str]
    title: ClassVar[str]
    """As a heading: `Sequence extraction`."""
    reference: ClassVar[str]
    tables: ClassVar[tuple[Table, ...]]

    def __init__(self, params: ParamsType) -> None:
        self.params = params

    @classmethod
    def params_type(cls) -> type[Params]:
        """The class in `Audit[...]`."""
        return params_type_of(cls)

    @property
    def needs_network(self) -> bool:
        """Its parameters name an endpoint: the worker gets a network, and the endpoint's key."""
        return False

    @abstractmethod
    def run(self, context: AuditContext) -> None:
        """Measure; rows of a batch that was begun and not ended are void once it is run again."""

    @abstractmethod
    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        """What all rows come to, complete or so far. models: a name for each target, in order."""
