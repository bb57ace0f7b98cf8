"""Loading a plugin file: its attack, invalid files, and side effects of the import."""

import sys
from pathlib import Path

import pytest

from harness.core.attack import Params
from harness.core.errors import HarnessError
from harness.worker.plugin import load_attack

ATTACK = """
from dataclasses import dataclass
from harness import Attack, Field, Params

@dataclass
class Note:
    text: str

class P(Params):
    trials: int = Field(2, ge=1)

class Shared(Attack[P]):
    def run(self, context):
        yield from ()

class One(Shared):
    name = "one"

Alias = One
"""


def _file(folder: Path, source: str, name: str = "plugin.py") -> Path:
    path = folder / name
    path.write_text(source)
    return path


def _error_of(path: Path) -> str:
    with pytest.raises(HarnessError) as caught:
        load_attack(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_base_classes_and_aliases_are_not_counted_as_attacks(tmp_path: Path) -> None:
    attack = load_attack(_file(tmp_path, ATTACK))
    assert attack.name == "one"
    assert attack.params_type().model_fields["trials"].default == 2


def test_an_attack_without_parameters_uses_the_base_params(tmp_path: Path) -> None:
    source = "from harness import Attack\nclass A(Attack):\n    name = 'a'\n    def run(self, context): yield from ()\n"
    assert load_attack(_file(tmp_path, source)).params_type() is Params


def test_an_import_changes_neither_the_search_path_nor_the_folder(tmp_path: Path) -> None:
    path, before = _file(tmp_path, ATTACK), list(sys.path)
    load_attack(path)
    assert sys.path == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_cannot_import_a_file_beside_it(tmp_path: Path) -> None:
    _file(tmp_path, "x = 1", "neighbour_of_plugin.py")
    error = _error_of(_file(tmp_path, "import neighbour_of_plugin"))
    assert "line 1: ModuleNotFoundError: No module named 'neighbour_of_plugin'" in error


def test_a_changed_file_is_loaded_again(tmp_path: Path) -> None:
    path = _file(tmp_path, ATTACK)
    load_attack(path)
    path.write_text(ATTACK.replace('"one"', '"two"'))
    assert load_attack(path).name == "two"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1\n\nraise ValueError('first\\nsecond')", "line 3: ValueError: first second"),
        ("raise KeyError", "line 1: KeyError"),
        ("raise ValueError('x' * 100_000)", "line 1: ValueError: xxx"),
        ("import json\njson.loads('{')", "line 2: JSONDecodeError"),
        ("x = (", "line 1: SyntaxError: '(' was never closed"),
        ("import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
        ("x = 1", "defines no attack"),
        ("from harness import Attack\nclass A(Attack):\n    name = 'a'", "the attack A has no method `run`"),
        (ATTACK + "\nclass Two(Shared):\n    name = 'two'", "defines 2 attacks (One, Two)"),
    ],
)
def test_an_invalid_file_is_refused_in_one_short_sentence(tmp_path: Path, source: str, reason: str) -> None:
    error = _error_of(_file(tmp_path, source))
    assert reason in error
    assert error.startswith(str(tmp_path / "plugin.py"))
    assert len(error) < len(str(tmp_path)) + 260


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "No such file" in _error_of(tmp_path / "absent.py")
