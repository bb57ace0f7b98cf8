"""The inputs of a worker: the request, the arrays of an attack, and what earlier executions left.

None of these files is a file of the round, and none holds an answer.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness.core.arrays import Tokens
from harness.core.audit import read_values, write_values
from harness.core.examples import Training
from harness.core.guesses import Guesses
from harness.core.protocol import JobRequest, read_archive
from harness.core.rows import Rows, Table
from harness.core.spec import TargetConfig

_PREFIXES, _TRAINING, _KEPT, _GUESSES = "prefixes.npy", "training.npz", "kept.npz", "guesses.npz"


class ModelRequest(TargetConfig):
    """A model of an attack, the target or the reference, and how to load it.

    rows_at_once: what the engine chose when the model was first loaded, None before.
    """

    rows_at_once: int | None


class AttackRequest(JobRequest):
    """One execution of an attack."""

    kind: Literal["attack"] = "attack"
    attack_file: Path
    suffix_length: int
    vocabulary: int
    guesses_per_example: int
    target: ModelRequest | None
    reference: ModelRequest | None


def write_inputs(folder: Path, *, prefixes: Tokens, training: Training | None) -> None:
    """Write the prefixes and training examples that the worker reads into the existing directory `folder`."""
    np.save(folder / _PREFIXES, prefixes)
    if training is not None:
        arrays = {"prefixes": training.prefixes, "suffixes": training.suffixes, "clusters": training.clusters}
        if training.preprefixes is not None:
            arrays["preprefixes"] = training.preprefixes
        np.savez(folder / _TRAINING, **arrays)  # type: ignore[arg-type]


def write_state(folder: Path, *, kept: dict[str, NDArray[Any]], guesses: Guesses) -> None:
    """Write the kept arrays and the guesses of batches that are done into the existing directory `folder`."""
    if kept:
        # The prefix avoids clashes with the parameters of `savez`.
        np.savez(folder / _KEPT, **{f"kept/{name}": array for name, array in kept.items()})  # type: ignore[arg-type]
    if len(guesses):
        np.savez(folder / _GUESSES, **guesses.columns())  # type: ignore[arg-type]


def read_prefixes(folder: Path) -> Tokens:
    """Return the attacked prefixes, [examples, prefix length]."""
    prefixes: Tokens = np.load(folder / _PREFIXES, allow_pickle=False)
    return prefixes


def read_training(folder: Path) -> Training | None:
    """Return the round's training examples, or None if it has none."""
    arrays = read_archive(folder / _TRAINING)
    if not arrays:
        return None
    return Training(arrays["prefixes"], arrays["suffixes"], arrays.get("preprefixes"), arrays["clusters"])


def read_kept(folder: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays that earlier executions and other workers kept, by name."""
    return {name.removeprefix("kept/"): array for name, array in read_archive(folder / _KEPT).items()}


def read_guesses(folder: Path) -> Guesses | None:
    """Return the guesses of earlier executions and other workers in arrival order, or None if there are none."""
    columns = read_archive(folder / _GUESSES)
    return Guesses.from_columns(columns) if columns else None


class AuditRequest(JobRequest):
    """One execution of an audit. `inputs` is the directory of its inputs, `tables` are those that it may emit."""

    kind: Literal["audit"] = "audit"
    audit: str
    inputs: Path
    tables: tuple[Table, ...]
    models: tuple[TargetConfig, ...]
    model_ids: tuple[str, ...]


def write_rows(folder: Path, rows: Mapping[str, Rows]) -> None:
    """Write the rows of earlier executions, by table, into the existing directory `folder`."""
    write_values(folder, {f"{table}/{name}": cells for table, loaded in rows.items() for name, cells in loaded.items()})


def read_rows(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the rows that `write_rows` wrote, by table and column."""
    rows: dict[str, dict[str, Any]] = {}
    for name, column in read_values(folder).items():
        table, _, column_name = name.partition("/")
        rows.setdefault(table, {})[column_name] = column
    return rows
