"""The rebuilt wheel contains the installed files without answers, and pip installs it."""

import base64
import csv
import hashlib
import importlib.metadata
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.core import paths
from harness.core.errors import HarnessError
from harness.submit import archive
from harness.submit.archive import harness_wheel, installed_lock

UNSEEN = "harness/demo/unseen.npz"
"""Generated paragraphs that the demo target was not trained on: the control of `audit sequence`, no answers."""


@pytest.fixture(scope="module")
def built() -> tuple[str, bytes]:
    return harness_wheel()


@pytest.fixture(scope="module")
def files(built: tuple[str, bytes]) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(built[1])) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_equal_files_give_equal_bytes(built: tuple[str, bytes]) -> None:
    assert harness_wheel() == built


def test_the_wheel_contains_every_module_and_attack(files: dict[str, bytes]) -> None:
    for path in paths.PACKAGE.rglob("*.py"):
        assert files[f"harness/{path.relative_to(paths.PACKAGE).as_posix()}"] == path.read_bytes()
    assert {"harness/attacks/greedy.py", "harness/requirements.lock", "harness/rounds/demo.toml"} <= set(files)
    assert files["harness/requirements.lock"].decode() == installed_lock()


def test_the_wheel_contains_no_answers(files: dict[str, bytes]) -> None:
    answers = [file for place in paths.SHIPPED_ANSWERS for file in (place, *place.rglob("*")) if file.is_file()]
    arrays = [file for file in answers if file.suffix != ".toml"]
    assert len(arrays) > len(paths.SHIPPED_ANSWERS)
    assert not [name for name in files if (name.endswith((".npy", ".npz")) and name != UNSEEN) or "__pycache__" in name]
    hashes = {hashlib.sha256(content).hexdigest() for content in files.values()}
    assert not [path for path in arrays if hashlib.sha256(path.read_bytes()).hexdigest() in hashes]


def test_the_record_has_hash_and_size_of_each_file(files: dict[str, bytes]) -> None:
    (name,) = [name for name in files if name.endswith(".dist-info/RECORD")]
    rows = {row[0]: row[1:] for row in csv.reader(files[name].decode().splitlines())}
    assert rows.pop(name) == ["", ""] and set(rows) == set(files) - {name}
    for file, (digest, size) in rows.items():
        wanted = base64.urlsafe_b64encode(hashlib.sha256(files[file]).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == (f"sha256={wanted}", len(files[file]))


def test_an_installation_without_metadata_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # The class is that of another package if a test of this process has imported `importlib_metadata`, as MLflow does.
    found = type(importlib.metadata.distribution("extraction-harness"))
    monkeypatch.setattr(found, "read_text", lambda self, name: None)
    with pytest.raises(HarnessError, match="METADATA of its installation is missing"):
        harness_wheel()


@pytest.mark.slow
def test_pip_installs_the_wheel_and_it_is_imported(built: tuple[str, bytes], tmp_path: Path) -> None:
    (tmp_path / built[0]).write_bytes(built[1])
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    done = subprocess.run([*command, str(tmp_path / built[0])], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
    listing = subprocess.run(
        [sys.executable, "-m", "harness", "attacks", "--json"],
        env=environment | {"PYTHONPATH": str(site), "HARNESS_HOME": str(tmp_path), "HARNESS_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert listing.returncode == 0, listing.stderr
    assert '"greedy"' in listing.stdout and str(paths.PACKAGE) not in listing.stdout


def test_times_and_modes_do_not_change_the_wheel(
    built: tuple[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    copy = tmp_path / "harness"
    shutil.copytree(paths.PACKAGE, copy, copy_function=shutil.copyfile)
    shutil.copytree(paths.PACKAGE.parent / "attacks", tmp_path / "attacks", copy_function=shutil.copyfile)
    shutil.copy(paths.PACKAGE.parent / "requirements.lock", tmp_path)
    for number, path in enumerate(sorted(copy.rglob("*"), reverse=True)):
        os.utime(path, (number, number))
    (copy / "core" / "arrays.py").chmod(0o700)
    (copy / "__pycache__").mkdir(exist_ok=True)
    (copy / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"x")
    answers = tuple(copy / place.relative_to(paths.PACKAGE) for place in paths.SHIPPED_ANSWERS)
    monkeypatch.setattr(paths, "PACKAGE", copy)
    monkeypatch.setattr(paths, "SHIPPED_ANSWERS", answers)
    monkeypatch.setattr(archive, "shipped_folder", lambda: tmp_path / "attacks")
    assert harness_wheel() == built
