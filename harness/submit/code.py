"""The folder code/ of a bundle: everything that runs the attack again from one argument, the prefixes."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.core.errors import HarnessError
from harness.core.rounds import Round
from harness.core.times import format_duration
from harness.core.training import Training
from harness.submit.archive import archive_bytes
from harness.submit.code_spec import ROUND, SPEC, CodeSpec, round_rules
from harness.submit.lock import pinned_requirements, torch_build, torch_install
from harness.submit.manifest import RanOn
from harness.submit.wheel import harness_wheel, installed_lock

README = "README.md"
REQUIREMENTS = "requirements.txt"
TRAIN = "train.npz"
_MOST_PATH_BYTES = 1 << 30


@dataclass(frozen=True)
class Code:
    """What code/ is made of: the attack's file and its summary, its spec, its round, its training rows where it reads
    them, and the file or folder that each path parameter names."""

    spec: CodeSpec
    round: Round
    source: bytes
    summary: str
    training: Training | None
    paths: dict[str, Path]


def code_files(code: Code) -> dict[str, bytes]:
    """The files of code/, by name, as they are before its run: after it, README.md alone is another.

    Raises HarnessError when a path parameter holds too much, or the environment cannot be pinned.
    """
    wheel, wheel_content = harness_wheel()
    files = {
        f"attack/{code.spec.attack.file}": code.source,
        SPEC: (code.spec.model_dump_json(indent=2) + "\n").encode(),
        ROUND: round_rules(code.round),
        wheel: wheel_content,
        REQUIREMENTS: pinned_requirements(installed_lock(), code.spec.attack.requires).encode(),
    }
    if code.training is not None:
        files[TRAIN] = _training_archive(code.training)
    for name, path in code.paths.items():
        files |= _path_files(name, path)
    told = _told(code, wheel)
    return (
        files
        | {name: _rendered(f"{name}.j2", told).encode() for name in ("run.sh", "environment.yml", "Dockerfile")}
        | {README: readme(code, wheel, None)}
    )


def readme(code: Code, wheel: str, ran_on: RanOn | None) -> bytes:
    """README.md of code/, whose wheel is the file `wheel`; `ran_on` tells what hardware and time to expect."""
    return _rendered(f"{README}.j2", _told(code, wheel) | {"run": ran_on}).encode()


def _told(code: Code, wheel: str) -> dict[str, object]:
    """What the templates speak of."""
    python = code.spec.versions["python"]
    return {
        "name": code.spec.attack.name.replace("_", "-"),
        "python": python,
        "python_minor": ".".join(python.split(".")[:2]),
        "torch": torch_build(),
        "torch_install": torch_install(torch_build()),
        "wheel": wheel,
        "spec": code.spec,
        "round": code.round,
        "summary": code.summary,
    }


def code_bundle(files: dict[str, bytes], manifest: bytes) -> bytes:
    """The zip of code/ alone, with its manifest."""
    return archive_bytes({f"code/{name}": content for name, content in files.items()} | {"MANIFEST.json": manifest})


def _training_archive(training: Training) -> bytes:
    arrays = {"prefixes": training.prefixes, "suffixes": training.suffixes}
    if training.preprefixes is not None:
        arrays["preprefixes"] = training.preprefixes
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def _path_files(name: str, path: Path) -> dict[str, bytes]:
    """What a path parameter names, below paths/NAME: a file under its own name, or a folder's files."""
    found = (
        {path.name: path}
        if path.is_file()
        else {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*")) if file.is_file()}
    )
    size = sum(file.stat().st_size for file in found.values())
    if size > _MOST_PATH_BYTES:
        raise HarnessError(
            f"parameter {name}: {path} holds {size / 1e9:.1f} GB, and a bundle takes at most "
            f"{_MOST_PATH_BYTES / 1e9:.1f} GB of it."
        )
    kind = "file" if path.is_file() else "folder"
    return {f"paths/{name}/{kind}/{inside}": file.read_bytes() for inside, file in found.items()}


def _rendered(template: str, told: dict[str, object]) -> str:
    # These are shell, YAML and Markdown, so nothing is escaped as HTML.
    templates = Environment(
        loader=PackageLoader("harness.submit"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701
    )
    return templates.get_template(template).render(told, format_duration=format_duration)
