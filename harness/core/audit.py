"""The base classes of an audit: its declaration, its inputs, its context and its findings.

An audit is a job like an attack run: a worker runs it under a budget, a supervisor stores its rows, and a resume
continues it. `run` measures batch by batch and emits rows. `findings` is a pure function of the inputs and of all rows,
so a report can be computed again from the record alone, without a model.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

import numpy as np
from numpy.typing import ArrayLike

from harness.core.arrays import Ints
from harness.core.attack import Params, ParamsType, params_type_of
from harness.core.files import write_atomically
from harness.core.findings import Findings
from harness.core.measures import Measure, Selected
from harness.core.protocol import read_archive
from harness.core.rows import Kind, Rows, Table, table
from harness.core.spec import TargetConfig

if TYPE_CHECKING:
    from harness.engine.target import Target

_ARRAYS, _VALUES = "inputs.npz", "inputs.json"
FIGURES = table("figure", name=Kind.TEXT, value=Kind.REAL, low=Kind.REAL, high=Kind.REAL, of=Kind.INTEGER)
"""The live measures of every audit: value, 95 % interval (NaN if none), and number of items."""
Work = float | Sequence[float]
"""The work of each of some items relative to that of others, one number for all if it is the same."""
RowsOf = Callable[[str], Rows]
"""Returns the rows of the table with this name."""


def last_rows(rows: Rows, *key: str, **values: int) -> dict[str, Any]:
    """Return the rows whose columns have these `values`, as arrays by column.

    If a `key` is given, only the last row of each combination of its columns is returned, ordered by them.
    """
    columns = {name: np.asarray(column) for name, column in rows.items()}
    is_selected = np.ones(len(next(iter(columns.values()))), bool)
    for name, value in values.items():
        is_selected &= columns[name] == value
    places = np.flatnonzero(is_selected)[::-1]
    if key:
        _, last = np.unique(np.column_stack([columns[name][places] for name in key]), axis=0, return_index=True)
        places = places[last][::-1]
    return {name: column[places[::-1]] for name, column in columns.items()}


def write_values(folder: Path, values: Mapping[str, Any]) -> None:
    """Write arrays and JSON values by name into the existing directory `folder`. Texts may contain lone surrogates."""
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    if arrays:
        with (folder / _ARRAYS).open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    texts = {name: value for name, value in values.items() if name not in arrays}
    write_atomically(folder / _VALUES, json.dumps(texts) + "\n")


def read_values(folder: Path) -> dict[str, Any]:
    """Return what `write_values` wrote into `folder`."""
    return {**json.loads((folder / _VALUES).read_bytes()), **read_archive(folder / _ARRAYS)}


@dataclass(frozen=True)
class Inputs:
    """Base class of the inputs of an audit, which are read and checked before its budget starts.

    A field is an array or a JSON value.
    """

    def write(self, folder: Path) -> None:
        """Write the inputs into the existing directory `folder`."""
        write_values(folder, {field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the inputs that `write` wrote into `folder`."""
        return cls(**read_values(folder))


@dataclass(frozen=True)
class AuditBatch:
    """A fixed list of items: the unit of progress, commit and resume.

    `items` has shape [n], int64; `seed` is the seed of the stage.
    """

    items: Ints
    seed: int

    @property
    def rows(self) -> slice:
        """The items as a slice; they are consecutive."""
        return slice(int(self.items[0]), int(self.items[-1]) + 1)


class AuditContext(ABC):
    """The inputs, the models and the durable progress of one audit."""

    seed: int
    inputs: Any
    """The inputs of the audit, of its `inputs_type`."""
    models: tuple[TargetConfig, ...]
    """The directory and the loading options of each model; empty if an endpoint is audited."""
    api_key: str | None
    """The API key of the endpoint. It is never stored."""

    @abstractmethod
    def target(self, number: int = 0) -> "Target":
        """Return language model `number`. The first call loads it and unloads the model before."""

    @abstractmethod
    def announce(self, stage: str, items: int, *, weight: float = 1.0) -> None:
        """Announce a later stage and its approximate work, so that progress includes it from the start."""

    def loading(self) -> AbstractContextManager[None]:
        """Return a context in which a model other than a `target` is loaded, which a live view shows."""
        return nullcontext()

    @abstractmethod
    def batches(
        self, stage: str, items: int, *, size: int, weight: Work = 1.0, ends: Sequence[int] = (), calls: Work = 1.0
    ) -> Iterator[AuditBatch]:
        """Yield batches of at most `size` over the items 0 to `items` - 1, without those that are done.

        If a model is slow, the size is measured, so that a batch takes half a minute. No batch has items on both
        sides of one of `ends`.

        A batch is done when the next one is requested. `weight` is the work of one item, or of each, relative to other
        stages, and `calls` that of each call of the engine in a batch. The name of a stage can be used once.
        """

    @abstractmethod
    def emit(self, table: str, **columns: ArrayLike | list[str]) -> None:
        """Emit rows of a declared table, with all its columns, in the open batch. A single number fills its column."""

    @abstractmethod
    def rows(self, table: str) -> Rows:
        """Return all rows emitted in done and open batches, including those of earlier executions."""

    @abstractmethod
    def warn(self, sentence: str) -> None:
        """Report in one sentence something that was skipped or failed while the audit continues."""


class Audit(ABC, Generic[ParamsType]):
    """A measurement of what a model memorized.

    `tables` are the tables that it emits; `measures` are the quantities that it reports, and `live` those of them that
    are reported while it runs.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """The heading of its report, such as "Sequence extraction"."""
    reference: ClassVar[str]
    tables: ClassVar[tuple[Table, ...]]
    measures: ClassVar[tuple[Measure, ...]] = ()
    live: ClassVar[tuple[Selected, ...]] = ()
    inputs_type: ClassVar[type[Inputs]] = Inputs

    def __init__(self, params: ParamsType) -> None:
        self.params = params

    @classmethod
    def params_type(cls) -> type[Params]:
        """Return the class in `Audit[...]`."""
        return params_type_of(cls)

    @property
    def needs_network(self) -> bool:
        """True if its parameters name an endpoint: the worker then gets network access and the API key."""
        return getattr(self.params, "endpoint", None) is not None

    @abstractmethod
    def run(self, context: AuditContext) -> None:
        """Measure and emit rows. The rows of a batch that did not end are discarded when the batch is run again."""

    @abstractmethod
    def findings(self, inputs: Any, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        """Return the findings of all rows, final or so far. `models` names each target, in order."""
