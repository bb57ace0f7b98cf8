"""Loading a plugin's file: what is an attack, what is refused, and what the import leaves alone."""

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


def _refusal(path: Path) -> str:
    with pytest.raises(HarnessError) as caught:
        load_attack(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_one_attack_of_a_file_is_found_past_its_bases_and_aliases(tmp_path: Path) -> None:
    attack = load_attack(_file(tmp_path, ATTACK))
    assert attack.name == "one"
    assert attack.params_type().model_fields["trials"].default == 2


def test_an_attack_without_parameters_has_the_plain_ones(tmp_path: Path) -> None:
    source = "from harness import Attack\nclass A(Attack):\n    name = 'a'\n    def run(self, context): yield from ()\n"
    assert load_attack(_file(tmp_path, source)).params_type() is Params


def test_an_import_changes_neither_the_search_path_nor_the_folder(tmp_path: Path) -> None:
    path, before = _file(tmp_path, ATTACK), list(sys.path)
    load_attack(path)
    assert sys.path == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_cannot_import_its_neighbour(tmp_path: Path) -> None:
    _file(tmp_path, "x = 1", "neighbour_of_plugin.py")
    refusal = _refusal(_file(tmp_path, "import neighbour_of_plugin"))
    assert "line 1: ModuleNotFoundError: No module named 'neighbour_of_plugin'" in refusal


def test_a_changed_file_is_loaded_as_it_is_now(tmp_path: Path) -> None:
    path = _file(tmp_path, ATTACK)
    load_attack(path)
    path.write_text(ATTACK.replace('"one"', '"two"'))
    assert load_attack(path).name == "two"


@pytest.mark.parametrize(
    ("source", "clause"),
    [
        ("x = 1\n\nraise ValueError('first\\nsecond')", "line 3: ValueError: first second"),
        ("raise KeyError", "line 1: KeyError"),
        ("raise ValueError('x' * 100_000)", "line 1: ValueError: xxx"),
        ("import json\njson.loads('{')", "line 2: JSONDecodeError"),
        ("x = (", "line 1: SyntaxError: '(' was never closed"),
        ("import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
        ("x = 1", "defines no attack"),
        ("from harness import Attack\nclass A(Attack):\n    name = 'a'", "the attack A has no `run`"),
        (ATTACK + "\nclass Two(Shared):\n    name = 'two'", "defines 2 attacks (One, Two)"),
    ],
)
def test_a_file_that_cannot_serve_is_refused_in_one_short_sentence(tmp_path: Path, source: str, clause: str) -> None:
    refusal = _refusal(_file(tmp_path, source))
    assert clause in refusal
    assert refusal.startswith(str(tmp_path / "plugin.py"))
    assert len(refusal) < len(str(tmp_path)) + 260


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "No such file" in _refusal(tmp_path / "absent.py")
