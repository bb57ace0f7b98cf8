"""The attack of a bundle with its settings, and its round, as code/ contains them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from harness.core.arrays import token_dtype
from harness.core.errors import HarnessError, missing_path
from harness.core.files import write_atomically
from harness.core.inputs import read_bounded_json
from harness.core.rounds import FILE_FIELDS, Round
from harness.core.run_request import NOT_IN_CODE, RESOLVED
from harness.core.spec import TargetRecord
from harness.core.text import shorten
from harness.runs.specs import AttackRecord, AttackSpec
from harness.submit.manifest import BundleModel, Seconds, Sha256

SPEC = "spec.json"
ROUND = "round.toml"
_MAX_BYTES = 8 << 20
FIELDS_NOT_IN_RULES = {*FILE_FIELDS, "answer_rows", "train_rows", "fold", "source", "target", "revision"}


class CodeTarget(BundleModel):
    """The target or the reference model without any local path, and how it was loaded.

    If `is_folder`, the model was a local folder, and `id` is the folder's name. `base` is the name of the base model
    that an adapter was merged into.
    """

    id: str
    revision: str
    commit: str | None
    weights_sha256: Sha256
    is_folder: bool
    base: str = ""
    device: str
    shards: tuple[str, ...]
    dtype: str
    threads: int

    @property
    def place(self) -> str:
        """The names of all of the model's devices."""
        return ", ".join(self.shards or (self.device,))


class CodeSpec(BundleModel):
    """An attack with its settings, without when and where it ran.

    `paths` maps a path parameter to the hash of its content, which is stored in paths/PARAMETER. `budget` is in
    seconds. `trains` is True if the attack receives training rows. `options` are the options of the run that no other
    field resolves, without those that have their defaults.
    """

    attack: AttackRecord
    params: dict[str, Any]
    paths: dict[str, Sha256]
    seed: int
    budget: Seconds
    target: CodeTarget | None
    reference: CodeTarget | None
    trains: bool
    versions: dict[str, str]
    options: dict[str, Any] = Field(default_factory=dict)


def code_spec_from_run(spec: AttackSpec, *, trains: bool) -> CodeSpec:
    """Return the part of a run's spec that is needed to run its code again."""
    params = {name: value for name, value in spec.params.items() if name not in spec.paths}
    return CodeSpec(
        # The origin is a path on the author's machine.
        attack=spec.attack.model_copy(update={"origin": "bundle"}),
        params=params,
        paths={name: record.sha256 for name, record in spec.paths.items()},
        seed=spec.seed,
        budget=spec.budget,
        target=None if spec.target is None else _code_target(spec.target),
        reference=None if spec.reference is None else _code_target(spec.reference),
        trains=trains,
        versions=spec.versions,
        options=spec.request.model_dump(mode="json", exclude={*RESOLVED, *NOT_IN_CODE}, exclude_defaults=True),
    )


def round_toml(round_: Round) -> bytes:
    """Return round.toml: the round's rules without any of its files."""
    return to_toml(round_.model_dump(mode="json", exclude=FIELDS_NOT_IN_RULES, exclude_none=True)).encode()


def write_blind_round(round_: Round, folder: Path) -> Path:
    """Write a round whose prefixes are not known yet to `folder`, with one prefix of zeros and no answers.

    Raises HarnessError for a fold, whose prefixes are training rows.
    """
    if round_.fold is not None:
        raise HarnessError(f"{round_.name} is a fold of training rows. Package code for the round itself.")
    np.save(folder / "prefixes.npy", np.zeros((1, round_.prefix_length), token_dtype(round_.vocabulary)))
    unknown = {"source", "fold", "prefix_file", "answer_file", "preprefix_file", "answer_rows"}
    fields = round_.model_dump(mode="json", exclude=unknown, exclude_none=True)
    path = folder / ROUND
    write_atomically(path, to_toml(fields | {"prefix_file": "prefixes.npy"}))
    return path


def to_toml(fields: dict[str, Any]) -> str:
    """Return `fields` (texts, numbers, lists of them, and tables of such values) as TOML, one line each."""
    return "".join(f"{name} = {_toml_value(value)}\n" for name, value in fields.items())


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml_value(part)}" for name, part in value.items()) + "}"
    # JSON values are valid TOML, except for surrogate pairs and for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_code_spec(code: Path) -> CodeSpec:
    """Read spec.json in the folder `code` of a bundle. Raises HarnessError if it is missing or not valid."""
    path = code / SPEC
    if not path.exists():
        raise missing_path(path, advice="Expected the folder code/ of a bundle.")
    spec = read_bounded_json(CodeSpec, path, limit=_MAX_BYTES)
    for field, is_present in (
        ("versions.python", "python" in spec.versions),
        ("target", spec.target is not None or not spec.attack.uses_target),
    ):
        if not is_present:
            raise HarnessError(f"{path}: {field}: is required.")
    if known := spec.options.keys() & {*RESOLVED, *NOT_IN_CODE}:
        raise HarnessError(f"{path}: options: {min(known)}: not an option of a bundle.")
    # They become parts of paths, and people see them.
    for name in (spec.attack.name, *spec.paths):
        if not (name.isidentifier() and name.isascii()):
            raise HarnessError(f"{path}: {shorten(name)!r} is not the name of an attack or a parameter.")
    return spec


def _code_target(target: TargetRecord) -> CodeTarget:
    unchanged = {"revision", "commit", "weights_sha256", "device", "shards", "dtype", "threads"}
    id_ = target.id
    if target.is_folder:
        is_file = target.source_sha256 is not None and target.adapter is None
        id_ = Path(target.id).resolve().name if is_file else target.paths[-1].name
    return CodeTarget(id=id_, is_folder=target.is_folder, base=target.base_name, **target.model_dump(include=unchanged))
