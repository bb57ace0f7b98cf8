"""Other content at the same path is noticed, however the files were swapped."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness.core.files import file_version
from harness.engine.resolving import resolve_target


def _replace(new: Path, old: Path) -> None:
    new.replace(old)


def _copy_over(new: Path, old: Path) -> None:
    shutil.copy2(new, old)


def _write_in_place(new: Path, old: Path) -> None:
    state = old.stat()
    with old.open("r+b") as file:
        file.write(new.read_bytes())
    os.utime(old, ns=(state.st_atime_ns, state.st_mtime_ns))


def _lead_elsewhere(new: Path, old: Path) -> None:
    old.unlink()
    old.symlink_to(new.name)


def _swap_directories(new: Path, old: Path) -> None:
    folder, other = old.parent, old.parent.with_name("other")
    shutil.copytree(folder, other)
    shutil.copy2(new, other / old.name)
    folder.rename(folder.with_name("earlier"))
    other.rename(folder)


@pytest.mark.parametrize("swap", [_replace, _copy_over, _write_in_place, _lead_elsewhere, _swap_directories])
def test_other_weights_of_the_same_size_and_time_have_another_hash(
    swap: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in (("config.json", b"{}"), ("tokenizer.json", b"{}"), ("model.safetensors", b"first")):
        (folder / name).write_bytes(content)
    weights, new = folder / "model.safetensors", folder / "new.bin"
    new.write_bytes(b"other")
    for file in (weights, new):
        os.utime(file, ns=(1, 1))
    before = resolve_target(str(folder))
    swap(new, weights)
    assert weights.stat().st_mtime_ns == 1 and weights.stat().st_size == 5
    assert resolve_target(str(folder)).weights_sha256 != before.weights_sha256


def test_a_file_that_is_only_read_keeps_its_version(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    before = file_version(file)
    file.read_text()
    assert file_version(file) == before


_TIMES = {
    "core/files.py": "declares file_version",
    "runs/folder.py": "sorts runs by their age, whose records the harness writes itself",
    "runs/summary.py": "reads records that only the harness writes, and their age",
}
"""The files of harness/ that may use a time of modification, each with its reason. Caches use `file_version`."""


def test_no_cache_relies_on_the_time_of_modification() -> None:
    root = Path(harness.__file__).parent
    uses = re.compile(r"st_mtime|getmtime")
    users = {file.relative_to(root).as_posix() for file in root.rglob("*.py") if uses.search(file.read_text())}
    assert users == set(_TIMES), f"use file_version, or name a reason: {users ^ set(_TIMES)}"
