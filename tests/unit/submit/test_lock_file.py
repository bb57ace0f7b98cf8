"""Requirements with hashes: those of the lock, and those of an attack."""

import contextlib
import importlib.metadata
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name

from harness.core.errors import HarnessError
from harness.submit import lock_file as lock
from harness.submit.lock_file import pinned_requirements, read_pins, torch_build, torch_install_arguments
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
    """Make every query to the package index fail, because locked distributions need none."""

    def refuse(*_: Any, **__: Any) -> None:
        raise subprocess.SubprocessError

    monkeypatch.setattr(lock.subprocess, "run", refuse)


def _installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(name: str) -> str:
        if name in versions:
            return versions[name]
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(lock.importlib.metadata, "version", version)


def _versions(requirements: str) -> dict[str, str]:
    return {pin.name: pin.version for pin in read_pins(requirements) if pin.applies}


def test_the_harness_lock_needs_no_package_index() -> None:
    requirements = pinned_requirements(installed_lock(), ())
    assert sorted(requirements.split()) == sorted(installed_lock().split())


def test_every_pin_has_hashes_and_torch_is_left_out() -> None:
    blocks = re.findall(r"^\S.*(?:\n[ \t].*)*", pinned_requirements(installed_lock(), ()), re.MULTILINE)
    assert len(blocks) > 50
    assert all("--hash=sha256:" in block for block in blocks)
    assert not [block for block in blocks if re.match(r"(torch|triton|nvidia-(?!ml-py))", block)]


def test_the_locked_versions_are_installed() -> None:
    pinned = _versions(installed_lock())
    installed = {canonicalize_name(one.name): one.version for one in importlib.metadata.distributions()}
    differing = {name: version for name, version in pinned.items() if installed.get(name, version) != version}
    assert differing == {} and pinned["numpy"] == installed["numpy"]


def test_markers_select_the_version_and_all_pins_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _versions(BY_PYTHON) == {"alpha": "2.0", "beta-b": "3.1"}
    _installed(monkeypatch, **{"alpha": "2.0", "beta-b": "3.1"})
    assert pinned_requirements(BY_PYTHON, ()) == BY_PYTHON.replace("    # via alpha\n", "")


def test_a_pin_for_another_platform_is_kept_whatever_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, alpha="2.0", **{"beta-b": "3.1"}, gamma="5")
    assert "gamma==4 ; sys_platform == 'no such platform'" in pinned_requirements(BY_PYTHON, ())


def test_an_unlocked_version_needs_the_package_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _installed(monkeypatch, alpha="1.0")
    with pytest.raises(HarnessError, match=r"^no hash is known for alpha==1\.0: .*package with access to the index"):
        pinned_requirements(BY_PYTHON, ())


def test_requirements_of_an_attack_are_pinned_with_their_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, **{"alpha": "2.0", "own": "1", "needed": "7", "torch": "2.0", "nvidia-x": "1"})
    needs = {"own": ["needed>=6", "torch", "nvidia-x", "absent ; extra == 'more'", "bad requirement !"]}
    monkeypatch.setattr(lock.importlib.metadata, "requires", lambda name: needs.get(name))
    with pytest.raises(HarnessError, match=r"no hash is known for needed==7, own==1:"):
        pinned_requirements(BY_PYTHON, ("Own", "alpha"))


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
def test_each_torch_build_has_its_own_index(version: str, arguments: str) -> None:
    assert torch_install_arguments(version) == arguments


@pytest.mark.parametrize("version", ["9.9 --index-url=http://127.0.0.1:9/simple anything", "2.0/../../x", "--pre"])
def test_an_invalid_version_of_torch_is_refused(version: str) -> None:
    with pytest.raises(HarnessError, match="is not a version of torch"):
        torch_install_arguments(version)


def test_the_torch_build_is_the_installed_one() -> None:
    assert torch_build() == importlib.metadata.version("torch")
    assert Path(str(importlib.metadata.distribution("torch").locate_file("torch"))).is_dir()


NUMPY = f"numpy==2.4.6 ; python_version >= '3.11' --hash=sha256:{'0' * 64}"
PLAIN = f"evil==1 --hash=sha256:{'0' * 64}"


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
        "evil==1",
        f"evil==1.* --hash=sha256:{'0' * 64}",
        f"evil==nonsense --hash=sha256:{'0' * 64}",
        f"{PLAIN} --global-option=x",
        f"{PLAIN} --index-url https://elsewhere.example/simple",
        f"{PLAIN}\f-e .",
        f"{PLAIN}\r-e .",
        f"{PLAIN}\u2028-e .",
        f"\ufeff{PLAIN}",
        f"evil==1 ; python_version > '3' -i https://elsewhere.example --hash=sha256:{'0' * 64} x",
        f"evil==1 ; python_version > '3' --config-settings=x --hash=sha256:{'0' * 64}",
        f"evil==1 ; nonsense of a marker --hash=sha256:{'0' * 64}",
        f"evil==1 ; {'(' * 400}os_name == 'x'{')' * 400} --hash=sha256:{'0' * 64}",
        f"evil==1 ; os_name ~= 'x' --hash=sha256:{'0' * 64}",
        f"evil==1 ; sys_platform != 'x # y' --hash=sha256:{'0' * 64}",
        f"evil==1 ; sys_platform != 'x --pre y' --hash=sha256:{'0' * 64}",
        f"evil==1 ; sys_platform != 'x\\\\y' --hash=sha256:{'0' * 64}",
        f"evil[extra]==1 --hash=sha256:{'0' * 64}",
        f"evil==1,==1.0 --hash=sha256:{'0' * 64}",
        f"evil===1 --hash=sha256:{'0' * 64}",
        "evil==1 --hash=md5:0123",
        "    --hash=sha256:" + "0" * 64,
        "# coding: utf-7",
        "  # -*- coding=utf_7 -*-",
        f"{PLAIN} # vim: set fileencoding=utf-7 :",
        "# an unusual\N{NO-BREAK SPACE}character",
        f"# pip does not continue a comment \\\n{PLAIN}",
        f"a==1 ;{' ' * 50_000}x",
        f"a==1{' ' * 50_000}; x",
        f"a==1 {'#' * 60_000}",
        f"a==1 ; {'x ' * 20_000}",
        f"{'a' * 60_000}==1",
        f"a=={'1' * 60_000}",
        "a==1 \\\n" + " \\\n" * 60_000 + "x",
        f"a=={'1.' * 50_000}1 --hash=sha256:{'0' * 64}",
    ],
)
def test_a_lock_with_other_lines_is_refused(line: str) -> None:
    read_pins(f"{NUMPY}\n{PLAIN}\n")
    with pytest.raises(HarnessError, match=r"requirements.txt, line [23]: ") as refusal:
        read_pins(f"{NUMPY}\n{line}\n")
    assert len(str(refusal.value)) < 300


def test_two_versions_of_a_distribution_are_refused() -> None:
    with pytest.raises(HarnessError, match="pins evil more than once"):
        read_pins(f"{PLAIN}\n{PLAIN.replace('evil', 'Evil')}\n")


PARTS = [*"b=;#\\-. \n\t'@:/", "# coding=", " --hash=sha256:" + "0" * 64, "a==1", " ; os_name == 'posix'", " \\\n"]


@given(st.lists(st.sampled_from(PARTS)).map("".join))
def test_what_an_installer_gets_consists_of_names_versions_and_hashes(text: str) -> None:
    with contextlib.suppress(HarnessError):
        for pin in read_pins(text):
            assert re.fullmatch(r"[a-z0-9-]+==[A-Za-z0-9.+!_-]+( --hash=sha256:[0-9a-f]{64})+", pin.requirement)
