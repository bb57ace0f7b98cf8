"""The folder code/ of a bundle: everything that runs the attack again on a file of prefixes, and no answers."""

import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import token_dtype
from harness.core.errors import HarnessError
from harness.core.examples import Training
from harness.core.files import write_atomically
from harness.core.inputs import files_in, read_bounded_json
from harness.core.rounds import FILE_FIELDS, Round
from harness.core.spec import BUILT_IN_TARGETS, TargetRecord
from harness.core.templates import filled_in
from harness.core.text import shorten
from harness.core.times import format_duration
from harness.runs.specs import AttackRecord, AttackSpec
from harness.submit.archive import harness_wheel, installed_lock
from harness.submit.lock_file import pinned_requirements, torch_build, torch_install_arguments
from harness.submit.manifest import BundleModel, RunRecord, Seconds, Sha256

SPEC = "spec.json"
ROUND = "round.toml"
_MAX_BYTES = 8 << 20
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_MODEL_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".ckpt", ".h5")
FIELDS_NOT_IN_RULES = {*FILE_FIELDS, "answer_rows", "train_rows", "fold", "source", "target", "revision"}


class CodeTarget(BundleModel):
    """The target or the reference model without any local path, and how it was loaded.

    If `is_folder`, the model was a local folder, and `id` is the folder's name.
    """

    id: str
    revision: str
    commit: str | None
    weights_sha256: Sha256
    is_folder: bool
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
    seconds. `trains` is True if the attack receives training rows.
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
    )


def is_model_file(name: str) -> bool:
    """Return True if the file name is that of a model's weights."""
    return Path(name).suffix.lower() in _MODEL_SUFFIXES


def other_models(spec: AttackSpec | CodeSpec) -> list[str]:
    """Return the models besides the target that an attack names: in its class, as reference, and in parameters.

    A parameter names a model if it looks like a hub id.
    """
    values = [value for name, value in spec.params.items() if name not in spec.paths]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    reference = [] if spec.reference is None else [spec.reference.id]
    hub_ids = [text for text in texts if isinstance(text, str) and HUB_ID.fullmatch(text.strip())]
    return [*spec.attack.models, *reference, *hub_ids]


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
        raise HarnessError(f"{path}: no such file. Expected the folder code/ of a bundle.")
    spec = read_bounded_json(CodeSpec, path, limit=_MAX_BYTES)
    for field, is_present in (
        ("versions.python", "python" in spec.versions),
        ("target", spec.target is not None or not spec.attack.uses_target),
    ):
        if not is_present:
            raise HarnessError(f"{path}: {field}: is required.")
    # They become parts of paths, and people see them.
    for name in (spec.attack.name, *spec.paths):
        if not (name.isidentifier() and name.isascii()):
            raise HarnessError(f"{path}: {shorten(name)!r} is not the name of an attack or a parameter.")
    return spec


def _code_target(target: TargetRecord) -> CodeTarget:
    is_folder = target.commit is None and target.id not in BUILT_IN_TARGETS
    unchanged = {"revision", "commit", "weights_sha256", "device", "shards", "dtype", "threads"}
    id_ = target.path.name if is_folder else target.id
    return CodeTarget(id=id_, is_folder=is_folder, **target.model_dump(include=unchanged))


README = "README.md"
REQUIREMENTS = "requirements.txt"
TRAIN = "train.npz"
RUN_SH = "run.sh"
_TEMPLATED = (RUN_SH, "environment.yml", "Dockerfile")
FIXED_FILES = (*_TEMPLATED, README, REQUIREMENTS, SPEC, ROUND)
"""The files that the code of every attack has."""
_MAX_PATH_BYTES = 1 << 30


@dataclass(frozen=True)
class CodeSource:
    """The content of code/.

    `source` is the attack's file. `training` is None for an attack that
    does not read training rows. `paths` maps each path parameter to its file or folder.
    """

    spec: CodeSpec
    round: Round
    source: bytes
    training: Training | None
    paths: dict[str, Path]


def code_files(code: CodeSource) -> dict[str, bytes]:
    """Return the files of code/ by name, as they are before a run.

    Raises HarnessError if a path parameter names too much data or the environment cannot be pinned.
    """
    wheel, wheel_content = harness_wheel()
    files = {
        f"attack/{code.spec.attack.file}": code.source,
        SPEC: (code.spec.model_dump_json(indent=2) + "\n").encode(),
        ROUND: round_toml(code.round),
        wheel: wheel_content,
        REQUIREMENTS: pinned_requirements(installed_lock(), code.spec.attack.requires).encode(),
    }
    if code.training is not None:
        files[TRAIN] = _training_archive(code.training)
    for name, path in code.paths.items():
        files |= _path_files(name, path)
    return files | {name: _rendered(name, code, wheel, None) for name in (*_TEMPLATED, README)}


def readme_after_run(code: CodeSource, files: dict[str, bytes], run: RunRecord) -> bytes:
    """Return README.md with the hardware and time of a run, which no other of the `files` of code/ contains."""
    (wheel,) = (name for name in files if name.endswith(".whl") and "/" not in name)
    return _rendered(README, code, wheel, run)


def run_script(spec: CodeSpec, round_: Round) -> bytes:
    """Return the content of run.sh, which depends on no other file of code/."""
    return _rendered(RUN_SH, CodeSource(spec, round_, b"", None, {}), "", None)


def _rendered(name: str, code: CodeSource, wheel: str, run: RunRecord | None) -> bytes:
    python = code.spec.versions["python"]
    text = filled_in(
        "harness.submit",
        name,
        attack=code.spec.attack.name.replace("_", "-"),
        python=python,
        python_minor=".".join(python.split(".")[:2]),
        torch=torch_build(),
        torch_install=torch_install_arguments(torch_build()),
        wheel=wheel,
        spec=code.spec,
        round=code.round,
        run=run,
        format_duration=format_duration,
    )
    return text.encode()


def _training_archive(training: Training) -> bytes:
    arrays = {name: getattr(training, name) for name in ("prefixes", "suffixes", "preprefixes")}
    content = io.BytesIO()
    np.savez_compressed(content, **{name: array for name, array in arrays.items() if array is not None})
    return content.getvalue()


def _path_files(name: str, path: Path) -> dict[str, bytes]:
    """Return the files of a path parameter: paths/NAME/file/FILE for a file, paths/NAME/folder/… for a folder."""
    folder = path.parent if path.is_file() else path
    files = {file.relative_to(folder).as_posix(): file for file in files_in(path)}
    size = sum(file.stat().st_size for file in files.values())
    if size > _MAX_PATH_BYTES:
        raise HarnessError(
            f"parameter {name}: {path} has {size / 1e9:.1f} GB. A bundle takes at most {_MAX_PATH_BYTES / 1e9:.1f} GB "
            "per parameter."
        )
    kind = "file" if path.is_file() else "folder"
    return {f"paths/{name}/{kind}/{inside}": file.read_bytes() for inside, file in files.items()}
