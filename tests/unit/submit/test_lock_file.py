"""Requirements by hash: what a lock pins for this Python, and what an attack needs beside it."""

import importlib.metadata
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from harness.core.errors import HarnessError
from harness.submit import lock_file as lock
from harness.submit.lock_file import (
    pinned_requirements,
    pinned_versions,
    require_plain_lock,
    torch_build,
    torch_install_arguments,
)
from harness.submit.wheel import installed_lock

HASH = "    --hash=sha256:" + "0" * 64
BY_PYTHON = f"""\
alpha==1.0 ; python_full_version < '3.0' \\
{HASH}
alpha==2.0 ; python_full_version >= '3.0' \\
{HASH}
Beta_B==3.1 \\
{HASH} \\
{HASH}
    # via alpha
gamma==4 ; sys_platform == 'no such platform' \\
{HASH}
"""


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks the package index fails: nothing that is locked needs it."""

    def refuse(*_: Any, **__: Any) -> None:
        raise subprocess.SubprocessError

    monkeypatch.setattr(lock.subprocess, "run", refuse)


def _installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(name: str) -> str:
        if name in versions:
            return versions[name]
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(lock.importlib.metadata, "version", version)


def test_the_harness_own_lock_is_taken_whole_without_the_package_index() -> None:
    requirements = pinned_requirements(installed_lock(), ())
    assert sorted(requirements.split()) == sorted(installed_lock().split())


def test_every_line_of_it_has_its_hashes_and_torch_is_not_among_them() -> None:
    blocks = re.findall(r"^\S.*(?:\n[ \t].*)*", pinned_requirements(installed_lock(), ()), re.MULTILINE)
    assert len(blocks) > 50
    assert all("--hash=sha256:" in block for block in blocks)
    assert not [block for block in blocks if re.match(r"(torch|triton|nvidia-(?!ml-py))", block)]


def test_the_locked_versions_are_those_that_are_installed_here() -> None:
    pinned = pinned_versions(installed_lock())
    installed = {canonicalize_name(one.name): one.version for one in importlib.metadata.distributions()}
    differing = {name: version for name, version in pinned.items() if installed.get(name, version) != version}
    assert differing == {} and pinned["numpy"] == installed["numpy"]


def test_of_one_name_for_several_pythons_this_one_s_version_counts_and_all_lines_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert pinned_versions(BY_PYTHON) == {"alpha": "2.0", "beta-b": "3.1"}
    _installed(monkeypatch, **{"alpha": "2.0", "beta-b": "3.1"})
    assert pinned_requirements(BY_PYTHON, ()) == BY_PYTHON


def test_a_version_that_is_not_the_locked_one_is_asked_for_and_refused_where_nobody_knows_its_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _installed(monkeypatch, alpha="1.0")
    with pytest.raises(
        HarnessError, match=r"^no hash is known of alpha==1\.0: .*package where the index can be reached"
    ):
        pinned_requirements(BY_PYTHON, ())


def test_what_an_attack_requires_is_asked_for_with_all_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, **{"alpha": "2.0", "own": "1", "needed": "7", "torch": "2.0", "nvidia-x": "1"})
    needs = {"own": ["needed>=6", "torch", "nvidia-x", "absent ; extra == 'more'", "bad requirement !"]}
    monkeypatch.setattr(lock.importlib.metadata, "requires", lambda name: needs.get(name))
    with pytest.raises(HarnessError, match=r"no hash is known of needed==7, own==1:"):
        pinned_requirements(BY_PYTHON, ("Own", "alpha"))


def test_a_marker_that_cannot_be_read_is_left_to_pip() -> None:
    assert pinned_versions(f"alpha==1 ; nonsense of a marker \\\n{HASH}\n") == {"alpha": "1"}


def test_a_file_without_pins_pins_nothing() -> None:
    assert pinned_versions("# nothing\n\n-e .\nalpha>=1\n") == {}


@pytest.mark.parametrize(
    ("version", "arguments"),
    [
        ("2.13.0+cpu", "torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"),
        ("2.13.0+cu126", "torch==2.13.0 --index-url https://download.pytorch.org/whl/cu126"),
        ("2.7.1+rocm6.3", "torch==2.7.1 --index-url https://download.pytorch.org/whl/rocm6.3"),
        ("2.13.0", "torch==2.13.0"),
        ("2.13.0+git1234", "torch==2.13.0"),
    ],
)
def test_a_build_of_torch_is_installed_from_its_own_index(version: str, arguments: str) -> None:
    assert torch_install_arguments(version) == arguments


def test_the_build_of_torch_is_the_installed_one_s() -> None:
    assert torch_build() == importlib.metadata.version("torch")
    assert Path(str(importlib.metadata.distribution("torch").locate_file("torch"))).is_dir()


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://elsewhere.example/simple",
        "--extra-index-url https://elsewhere.example/simple",
        "-e .",
        "-r other.txt",
        "evil @ https://elsewhere.example/evil.whl",
        "git+https://elsewhere.example/evil",
        "./evil.whl",
        "evil>=1",
        "evil==1 --global-option=x",
        "evil==1 ; python_version > '3' --config-settings=x",
        "    --hash=md5:0123",
    ],
)
def test_a_lock_with_anything_but_pins_and_hashes_is_refused(line: str) -> None:
    require_plain_lock(installed_lock())
    with pytest.raises(HarnessError, match="line 2 of its lock"):
        require_plain_lock(f"numpy==2.4.6 ; python_version >= '3.11' \\\n{line}\n")
