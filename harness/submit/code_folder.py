"""The folder code/ of a bundle: everything that runs the attack again on a file of prefixes, and no answers."""

import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.errors import HarnessError
from harness.core.examples import Training
from harness.core.inputs import files_in
from harness.core.rounds import Round
from harness.core.templates import filled_in
from harness.core.times import format_duration
from harness.runs.specs import AttackSpec
from harness.submit.code_spec import ROUND, SPEC, CodeSpec, round_toml
from harness.submit.lock_file import pinned_requirements, torch_build, torch_install_arguments
from harness.submit.manifest import RunRecord
from harness.submit.wheel import harness_wheel, installed_lock

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_MODEL_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".ckpt", ".h5")
README = "README.md"
REQUIREMENTS = "requirements.txt"
TRAIN = "train.npz"
RUN_SH = "run.sh"
_TEMPLATED = (RUN_SH, "environment.yml", "Dockerfile")
FIXED_FILES = (*_TEMPLATED, README, REQUIREMENTS, SPEC, ROUND)
"""The files that the code of every attack has."""
_MAX_PATH_BYTES = 1 << 30


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
    spec, round_ = code.spec, code.round
    files = {
        f"attack/{spec.attack.file}": code.source,
        SPEC: (spec.model_dump_json(indent=2) + "\n").encode(),
        ROUND: round_toml(round_),
        wheel: wheel_content,
        REQUIREMENTS: pinned_requirements(installed_lock(), spec.attack.requires).encode(),
    }
    if code.training is not None:
        files[TRAIN] = _training_archive(code.training)
    for name, path in code.paths.items():
        files |= _path_files(name, path)
    return files | {name: rendered(name, spec, round_, wheel=wheel) for name in (*_TEMPLATED, README)}


def rendered(name: str, spec: CodeSpec, round_: Round, *, wheel: str = "", run: RunRecord | None = None) -> bytes:
    """Return a file of code/ that is made from a template. All but run.sh name the `wheel`.

    README.md has the hardware and time of `run`, if it is given.
    """
    python = spec.versions["python"]
    text = filled_in(
        "harness.submit",
        name,
        attack=spec.attack.name.replace("_", "-"),
        python=python,
        python_minor=".".join(python.split(".")[:2]),
        torch=torch_build(),
        torch_install=torch_install_arguments(torch_build()),
        wheel=wheel,
        spec=spec,
        round=round_,
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
