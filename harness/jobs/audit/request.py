"""The inputs of an audit's worker: the request and the rows of batches that are done."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from harness.core.audit import AuditInputs
from harness.core.protocol import JobRequest
from harness.core.rows import Rows, Table
from harness.core.spec import TargetConfig


class AuditRequest(JobRequest):
    """One execution of an audit. `inputs` is the directory of its inputs, `tables` are those that it may emit."""

    kind: Literal["audit"] = "audit"
    audit: str
    inputs: Path
    tables: tuple[Table, ...]
    models: tuple[TargetConfig, ...]
    model_names: tuple[str, ...]


def write_rows(folder: Path, rows: Mapping[str, Rows]) -> None:
    """Write the rows of earlier executions, by table, into the existing directory `folder`."""
    columns = {f"{table}/{name}": column for table, found in rows.items() for name, column in found.items()}
    texts = {name: column for name, column in columns.items() if isinstance(column, list)}
    AuditInputs(texts, {name: column for name, column in columns.items() if name not in texts}).write(folder)


def read_rows(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the rows that `write_rows` wrote, by table and column."""
    earlier = AuditInputs.read(folder)
    rows: dict[str, dict[str, Any]] = {}
    for name, column in [*earlier.texts.items(), *earlier.arrays.items()]:
        table, _, column_name = name.partition("/")
        rows.setdefault(table, {})[column_name] = column
    return rows
