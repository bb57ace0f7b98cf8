"""Attacks are found without being imported, in search order, and a broken file is listed with its error."""

import hashlib
import os
import re
import sys
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.plugins.discovery import AttackFile, attack_named, find_attacks

SOURCE = '''"""One line about it.

More.
"""
from harness import Attack
class A(Attack):
    name = "{name}"
    def run(self, context): yield from ()
'''


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory without attacks."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def _write(folder: Path, source: str, file: str = "a.py") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    path.write_text(source)
    return path


def _only(folder: Path) -> AttackFile:
    (attack,) = [attack for attack in find_attacks(folder) if attack.origin.startswith("--attacks")]
    return attack


def test_an_attack_is_described_by_its_source(tmp_path: Path) -> None:
    source = '''"""A control.  """
from harness import Attack as Base, Params
import not_installed_anywhere
raise SystemExit("imported")
class Shared(Base[Params]):
    control: bool = True
    guesses_per_example = 0
class A(Shared):
    name = "mine"
    reference = "Someone, " "2023"
    uses_target = False
    requires = ("numpy", "pydantic")
'''
    path = _write(tmp_path / "x", source)
    attack = _only(tmp_path / "x")
    assert attack == AttackFile(
        name="mine",
        path=path,
        origin=f"--attacks {tmp_path / 'x'}",
        sha256=hashlib.sha256(source.encode()).hexdigest(),
        summary="A control.",
        reference="Someone, 2023",
        control=True,
        uses_target=False,
        guesses_per_example=0,
        requires=("numpy", "pydantic"),
    )


def test_the_class_docstring_replaces_a_missing_module_docstring(tmp_path: Path) -> None:
    _write(tmp_path / "x", "from harness import Attack\nclass A(Attack):\n    '''Mine.'''\n    name = 'a'\n")
    assert _only(tmp_path / "x").summary == "Mine."


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("class A(:", "line 1: invalid Python (invalid syntax)"),
        ("a\0b", "invalid Python"),
        ("x = " + "(" * 500, "invalid Python"),
        ("x = 1", "no attack found"),
        ("from harness import Attack\nclass A(Attack):\n    pass", "no attack found"),
        (SOURCE.format(name="a") + "class B(A):\n    name = 'b'\n", "several attacks found"),
        ("from harness import Attack\nN = 'a'\nclass A(Attack):\n    name = N", "line 4: `name` is not a literal"),
        (
            SOURCE.format(name="Not A Name"),
            "`name` must be lower-case letters, digits and underscores, not 'Not A Name'.",
        ),
        (SOURCE.format(name="a" * 300), "`name` must be lower-case"),
        ("from harness import Attack\nclass A(Attack):\n    name = 3", "underscores, not 3."),
        (SOURCE.format(name="a") + "    control = 'yes'\n", "`control` must be True or False"),
        (SOURCE.format(name="a") + "    guesses_per_example = -1\n", "`guesses_per_example` must be"),
        (SOURCE.format(name="a") + "    requires = 'numpy'\n", "`requires` must be a tuple"),
        (
            SOURCE.format(name="a") + "    requires = ('numpy>=2',)\n",
            "`requires` must be a tuple of distribution names",
        ),
        (
            SOURCE.format(name="a") + "    requires = ('no-such-thing',)\n",
            "requires no-such-thing, which is not installed. Install it, or remove it.",
        ),
        ("#" + "x" * (1 << 20), "larger than 1 MiB"),
    ],
)
def test_a_broken_file_is_listed_with_its_error(tmp_path: Path, source: str, reason: str) -> None:
    path = _write(tmp_path / "x", source)
    attack = _only(tmp_path / "x")
    assert attack.error is not None
    assert attack.error.startswith(f"{path}: ") and reason in attack.error
    assert "\n" not in attack.error
    with pytest.raises(HarnessError, match=re.escape(f"{path}: ")):
        attack_named(attack.name, tmp_path / "x")


def test_other_files_and_private_modules_are_ignored(tmp_path: Path) -> None:
    _write(tmp_path / "x", SOURCE.format(name="a"), "_private.py")
    (tmp_path / "x" / "folder.py").mkdir()
    os.mkfifo(tmp_path / "x" / "pipe.py")
    assert not [attack for attack in find_attacks(tmp_path / "x") if attack.origin != "built-in"]


def test_the_first_of_two_attacks_with_one_name_is_used(tmp_path: Path, elsewhere: Path) -> None:
    _write(tmp_path / "x", SOURCE.format(name="both"))
    _write(elsewhere / "attacks", SOURCE.format(name="both"))
    _write(elsewhere / "attacks", SOURCE.format(name="greedy"), "mine.py")
    assert attack_named("both", tmp_path / "x").path == tmp_path / "x" / "a.py"
    assert attack_named("both").origin == "./attacks"
    assert attack_named("greedy").path == elsewhere / "attacks" / "mine.py"
    assert attack_named("baseline").origin == "built-in"


def test_two_files_with_one_name_are_both_listed(tmp_path: Path) -> None:
    _write(tmp_path / "x", SOURCE.format(name="same"), "a.py")
    _write(tmp_path / "x", SOURCE.format(name="same"), "b.py")
    first, second = (attack for attack in find_attacks(tmp_path / "x") if attack.name == "same")
    assert (first.path.name, first.error) == ("a.py", None)
    assert second.error == f"{tmp_path / 'x' / 'b.py'}: a.py already uses the name same. Choose another name."
    assert attack_named("same", tmp_path / "x").path.name == "a.py"


def test_a_source_checkout_lists_its_attacks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    origins = [attack.origin for attack in find_attacks() if attack.name in ("baseline", "greedy", "replay")]
    assert origins == ["built-in"] * 3


def test_an_unknown_name_suggests_similar_names(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="unknown attack 'gredy': did you mean greedy"):
        attack_named("gredy")


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no such directory"):
        find_attacks(tmp_path / "absent")


@pytest.mark.parametrize("has_file_list", [True, False])
def test_an_installed_package_adds_attacks_by_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_file_list: bool
) -> None:
    site = tmp_path / "site"
    path = _write(site / "their_package" / "inner", SOURCE.format(name="theirs"), "attack.py")
    _write(site / "their_package", "raise SystemExit('imported')", "__init__.py")
    information = site / "their_package-1.0.dist-info"
    _write(information, "Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n", "METADATA")
    _write(
        information,
        "[harness.attacks]\ntheirs = their_package.inner.attack:A\ngone = their_package.gone\n",
        "entry_points.txt",
    )
    if has_file_list:
        _write(information, "their_package/inner/attack.py,,\n", "RECORD")
    monkeypatch.syspath_prepend(str(site))
    assert attack_named("theirs").path == path.resolve()
    assert attack_named("theirs").origin == "entry point their-package"
    with pytest.raises(HarnessError, match=r"no source file found for their_package\.gone"):
        attack_named("gone")
    assert "their_package" not in sys.modules
