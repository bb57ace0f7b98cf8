"""The job contract: what a supervisor hands to a worker, as files in the worker's scratch folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from harness.core.audit import AuditInputs, Rows, Table
from harness.core.guesses import Guesses
from harness.core.training import Training

JOB_FILE = "job.json"
ENDPOINT_KEYS = ("HARNESS_ENDPOINT_KEY", "OPENAI_API_KEY")
"""Where an endpoint's key is looked for in the environment, the first that is set; a worker has it under the first."""
_PREFIXES = "prefixes.npy"


class TargetConfig(BaseModel):
    """Which folder to load the target from, and how. `threads` is the number of CPU threads."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    device: str
    dtype: str
    threads: int


class AttackRequest(BaseModel):
    """One execution of an attack, as its worker sees it; it names no file of the round.

    `finish_at` is the soft deadline on the ledger's clock; `done` holds the keys of batches that are not run again;
    `engine_rows` the rows at once of the engine calls of batches that may be.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["attack"] = "attack"
    attack_file: Path
    params: dict[str, Any]
    seed: int
    suffix_length: int
    vocabulary: int
    guesses_per_example: int
    uses_target: bool
    target: TargetConfig | None
    finish_at: float
    done: list[str]
    rows_at_once: int | None
    engine_rows: dict[str, list[int]]


class AuditRequest(BaseModel):
    """One execution of an audit, as its worker sees it.

    inputs: the folder of what it measures with; tables: what it may emit; `done`, `engine_rows` as of an attack.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["audit"] = "audit"
    audit: str
    params: dict[str, Any]
    seed: int
    inputs: Path
    tables: tuple[Table, ...]
    models: tuple[TargetConfig, ...]
    done: list[str]
    engine_rows: dict[str, list[int]]


_JOB: TypeAdapter[AttackRequest | AuditRequest] = TypeAdapter(
    Annotated[AttackRequest | AuditRequest, Field(discriminator="kind")]
)


def write_audit_inputs(folder: Path, job: AuditRequest, rows: Mapping[str, Rows]) -> None:
    """Lay an audit's job into `folder`, which is its worker's own, with the rows of what is done, by table."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JOB_FILE).write_text(job.model_dump_json(), encoding="utf-8")
    columns = {f"{table}/{name}": column for table, found in rows.items() for name, column in found.items()}
    texts = {name: column for name, column in columns.items() if isinstance(column, list)}
    AuditInputs(texts, {name: column for name, column in columns.items() if name not in texts}).write(folder)


def read_audit_rows(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows that `write_audit_inputs` laid there, by table and column."""
    earlier = AuditInputs.read(folder)
    rows: dict[str, dict[str, Any]] = {}
    for name, column in [*earlier.texts.items(), *earlier.arrays.items()]:
        table, _, of_table = name.partition("/")
        rows.setdefault(table, {})[of_table] = column
    return rows


def write_inputs(
    folder: Path,
    job: AttackRequest,
    *,
    prefixes: NDArray[Any],
    training: Training | None,
    kept: dict[str, NDArray[Any]],
    guesses: Guesses,
) -> None:
    """Lay a worker's inputs into `folder`, which is its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JOB_FILE).write_text(job.model_dump_json(), encoding="utf-8")
    np.save(folder / _PREFIXES, prefixes)
    if training is not None:
        arrays = {"prefixes": training.prefixes, "suffixes": training.suffixes, "clusters": training.clusters}
        if training.preprefixes is not None:
            arrays["preprefixes"] = training.preprefixes
        np.savez(folder / "training.npz", **arrays)  # type: ignore[arg-type]
    if kept:
        np.savez(folder / "kept.npz", **{f"kept/{name}": array for name, array in kept.items()})  # type: ignore[arg-type]
    if len(guesses):
        np.savez(folder / "guesses.npz", ids=guesses.ids, suffixes=guesses.suffixes, score=guesses.score)


def read_job(folder: Path) -> AttackRequest | AuditRequest:
    """The job that lies in `folder`."""
    return _JOB.validate_json((folder / JOB_FILE).read_bytes())


def read_prefixes(folder: Path) -> NDArray[Any]:
    """The attacked prefixes, [examples, prefix length]."""
    prefixes: NDArray[Any] = np.load(folder / _PREFIXES, allow_pickle=False)
    return prefixes


def read_training(folder: Path) -> Training | None:
    """The round's training examples, None when it has none."""
    arrays = _archive(folder / "training.npz")
    if not arrays:
        return None
    return Training(arrays["prefixes"], arrays["suffixes"], arrays.get("preprefixes"), arrays["clusters"])


def read_kept(folder: Path) -> dict[str, NDArray[Any]]:
    """What earlier executions kept, by name."""
    return {name.removeprefix("kept/"): array for name, array in _archive(folder / "kept.npz").items()}


def read_guesses(folder: Path) -> Guesses | None:
    """What earlier executions committed and still counts, in arrival order."""
    arrays = _archive(folder / "guesses.npz")
    return Guesses(arrays["ids"], arrays["suffixes"], arrays["score"]) if arrays else None


def _archive(path: Path) -> dict[str, NDArray[Any]]:
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
