"""spec.json and round.toml of a bundle's code: what has to be the same for the code to run again, and no answers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.core.arrays import token_dtype
from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.core.rounds import FILE_FIELDS, Round
from harness.core.spec import SHIPPED_TARGETS, TargetRecord
from harness.core.text import shorten
from harness.jobs.attack.spec import AttackRecord, AttackSpec
from harness.submit.manifest import NamedTarget, Sha256

SPEC = "spec.json"
ROUND = "round.toml"
_MAX_BYTES = 8 << 20
_LEFT_OUT_OF_ROUND = {*FILE_FIELDS, "answer_rows", "train_rows", "fold", "source", "target", "revision"}


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CodeTarget(NamedTarget):
    """The target, and how it was loaded."""

    device: str
    dtype: str
    threads: int

    @property
    def named(self) -> NamedTarget:
        """What it is called, without how it was loaded."""
        return NamedTarget.model_validate(self.model_dump(include=set(NamedTarget.model_fields)))


class CodeSpec(_Record):
    """An attack as it runs: nothing of when and where it ran. `paths` maps a parameter to the hash of what it named,
    which lies in paths/PARAMETER; `budget` is in seconds; `trains`: training rows are handed to the attack."""

    attack: AttackRecord
    params: dict[str, Any]
    paths: dict[str, Sha256]
    seed: int
    budget: float
    target: CodeTarget | None
    trains: bool
    versions: dict[str, str]


def code_spec_of(spec: AttackSpec, *, trains: bool) -> CodeSpec:
    """The part of a run's spec that its code is run again by."""
    params = {name: value for name, value in spec.params.items() if name not in spec.paths}
    return CodeSpec(
        # Where the file lay on its author's machine is nobody's business.
        attack=spec.attack.model_copy(update={"origin": "bundle"}),
        params=params,
        paths={name: record.sha256 for name, record in spec.paths.items()},
        seed=spec.seed,
        budget=spec.budget,
        target=None if spec.target is None else _code_target(spec.target),
        trains=trains,
        versions=spec.versions,
    )


def round_rules(round_: Round) -> bytes:
    """round.toml: the round's rules, without any of its files."""
    return toml_of(round_.model_dump(mode="json", exclude=_LEFT_OUT_OF_ROUND, exclude_none=True)).encode()


def write_round_ahead(round_: Round, folder: Path) -> Path:
    """The round as a file in `folder`, with one prefix of zeros for those that are not known yet, and no answers.

    Raises HarnessError for a fold, whose prefixes are training rows.
    """
    if round_.fold is not None:
        raise HarnessError(f"{round_.name} is a fold of training rows, which nobody submits to.")
    np.save(folder / "prefixes.npy", np.zeros((1, round_.prefix_length), token_dtype(round_.vocabulary)))
    unknown = {"source", "fold", "prefix_file", "answer_file", "preprefix_file", "answer_rows"}
    fields = round_.model_dump(mode="json", exclude=unknown, exclude_none=True)
    path = folder / ROUND
    write_atomically(path, toml_of(fields | {"prefix_file": "prefixes.npy"}))
    return path


def toml_of(fields: dict[str, Any]) -> str:
    """`fields`, texts, numbers and lists of them, as TOML, a line each."""
    # JSON's values are TOML's but for pairs of surrogates, and for DEL, which TOML wants escaped.
    values = {name: json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") for name, value in fields.items()}
    return "".join(f"{name} = {value}\n" for name, value in values.items())


def read_code_spec(code: Path) -> CodeSpec:
    """The spec in the folder of a bundle's code. Raises HarnessError when there is none that can be read."""
    path = code / SPEC
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise HarnessError(f"{path}: larger than any spec.")
        return CodeSpec.model_validate_json(path.read_bytes())
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror}); name the folder code/ of a bundle.") from None
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise HarnessError(f"{path}: not the spec of a bundle ({shorten(where)}: {fault['msg']}).") from None


def _code_target(target: TargetRecord) -> CodeTarget:
    is_folder = target.commit is None and target.id not in SHIPPED_TARGETS
    return CodeTarget(
        id=target.path.name if is_folder else target.id,
        revision=target.revision,
        commit=target.commit,
        weights_sha256=target.weights_sha256,
        is_folder=is_folder,
        device=target.device,
        dtype=target.dtype,
        threads=target.threads,
    )
