"""Finding attacks: by their syntax alone, in order of place, broken ones with the reason."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.plugins.discovery import AttackFile, attack_named, find_attacks

SOURCE = '''"""What it does in a line.

More.
"""
from harness import Attack
class A(Attack):
    name = "{name}"
    def run(self, context): yield from ()
'''


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder without attacks of its own."""
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


def test_an_attack_is_described_by_its_source_and_never_run(tmp_path: Path) -> None:
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


def test_the_class_docstring_serves_where_the_module_has_none(tmp_path: Path) -> None:
    _write(tmp_path / "x", "from harness import Attack\nclass A(Attack):\n    '''Mine.'''\n    name = 'a'\n")
    assert _only(tmp_path / "x").summary == "Mine."


def test_listing_attacks_imports_neither_them_nor_the_heavy_libraries(tmp_path: Path) -> None:
    check = (
        "import sys; from harness.plugins.discovery import find_attacks; assert len(find_attacks()) >= 3; "
        "print([name for name in ('torch', 'pydantic', 'numpy', 'harness.worker', 'attacks') if name in sys.modules])"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", check], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("class A(:", "line 1: does not parse (invalid syntax)"),
        ("a\0b", "does not parse"),
        ("x = " + "(" * 500, "does not parse"),
        ("x = 1", "defines no attack"),
        ("from harness import Attack\nclass A(Attack):\n    pass", "defines no attack"),
        (SOURCE.format(name="a") + "class B(A):\n    name = 'b'\n", "defines several attacks"),
        ("from harness import Attack\nN = 'a'\nclass A(Attack):\n    name = N", "line 4: `name` must be a literal"),
        (SOURCE.format(name="Not A Name"), "the name 'Not A Name' is not lower-case"),
        (SOURCE.format(name="a" * 300), "is not lower-case"),
        ("from harness import Attack\nclass A(Attack):\n    name = 3", "the name 3 is not lower-case"),
        (SOURCE.format(name="a") + "    control = 'yes'\n", "`control` must be True or False"),
        (SOURCE.format(name="a") + "    guesses_per_example = -1\n", "`guesses_per_example` must be"),
        (SOURCE.format(name="a") + "    requires = 'numpy'\n", "`requires` must be a tuple"),
        (SOURCE.format(name="a") + "    requires = ('numpy>=2',)\n", "`requires` names distributions"),
        (
            SOURCE.format(name="a") + "    requires = ('no-such-thing',)\n",
            "needs no-such-thing, which is not installed",
        ),
        ("#" + "x" * (1 << 20), "larger than 1 MiB"),
    ],
)
def test_a_broken_file_is_a_row_with_its_error(tmp_path: Path, source: str, reason: str) -> None:
    path = _write(tmp_path / "x", source)
    attack = _only(tmp_path / "x")
    assert attack.error is not None
    assert attack.error.startswith(f"{path}: ") and reason in attack.error
    assert "\n" not in attack.error
    with pytest.raises(HarnessError, match=re.escape(f"{path}: ")):
        attack_named(attack.name, tmp_path / "x")


def test_what_is_no_plain_file_or_begins_with_an_underscore_is_ignored(tmp_path: Path) -> None:
    _write(tmp_path / "x", SOURCE.format(name="a"), "_private.py")
    (tmp_path / "x" / "folder.py").mkdir()
    os.mkfifo(tmp_path / "x" / "pipe.py")
    assert not [attack for attack in find_attacks(tmp_path / "x") if attack.origin != "shipped"]


def test_the_first_place_wins_a_name(tmp_path: Path, elsewhere: Path) -> None:
    _write(tmp_path / "x", SOURCE.format(name="both"))
    _write(elsewhere / "attacks", SOURCE.format(name="both"))
    _write(elsewhere / "attacks", SOURCE.format(name="greedy"), "mine.py")
    assert attack_named("both", tmp_path / "x").path == tmp_path / "x" / "a.py"
    assert attack_named("both").origin == "./attacks"
    assert attack_named("greedy").path == elsewhere / "attacks" / "mine.py"
    assert attack_named("baseline").origin == "shipped"


def test_two_files_of_one_folder_that_share_a_name_are_both_listed(tmp_path: Path) -> None:
    _write(tmp_path / "x", SOURCE.format(name="same"), "a.py")
    _write(tmp_path / "x", SOURCE.format(name="same"), "b.py")
    first, second = (attack for attack in find_attacks(tmp_path / "x") if attack.name == "same")
    assert (first.path.name, first.error) == ("a.py", None)
    assert second.error == f"{tmp_path / 'x' / 'b.py'}: the name same is taken by a.py beside it."
    assert attack_named("same", tmp_path / "x").path.name == "a.py"


def test_the_shipped_attacks_seen_from_their_own_checkout_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    origins = [attack.origin for attack in find_attacks() if attack.name in ("baseline", "greedy", "replay")]
    assert origins == ["shipped"] * 3


def test_an_unknown_name_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="unknown attack 'gredy': did you mean greedy"):
        attack_named("gredy")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no such folder"):
        find_attacks(tmp_path / "absent")


@pytest.mark.parametrize("lists_its_files", [True, False])
def test_an_installed_distribution_brings_attacks_by_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lists_its_files: bool
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
    if lists_its_files:
        _write(information, "their_package/inner/attack.py,,\n", "RECORD")
    monkeypatch.syspath_prepend(str(site))
    assert attack_named("theirs").path == path.resolve()
    assert attack_named("theirs").origin == "entry point their-package"
    with pytest.raises(HarnessError, match=r"no file was found for their_package\.gone"):
        attack_named("gone")
    assert "their_package" not in sys.modules
