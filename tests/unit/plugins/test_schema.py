"""The parameters of an attack are read in a separate process, which survives any import."""

import os
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.plugins import schema
from harness.plugins.schema import AttackSchema, fetch_schema, validated_params
from tests.functional.machine import processes_that_name, wait_until

SOURCE = '''"""A line.

    Another.
"""
from enum import Enum
from pathlib import Path
from typing import Literal
from pydantic import field_validator, model_validator
from pydantic_core import PydanticCustomError
from harness import Attack, Field, Params

print("output of the plugin")

class Size(Enum):
    SMALL = "small"

class P(Params):
    trials: int = Field(2, ge=1, le=9, description="Draws.")
    rate: float = 1.0
    deep: bool = False
    mode: Literal["a", "b"] = "a"
    power: Literal[1, 2] = 1
    size: Size = Size.SMALL
    layers: list[int] = []
    limit: int | None = 3
    either: int | bool = 0
    source: Path | None = None
    sources: tuple[Path, ...] = ()
    label: str = Field("x", pattern="^[a-z]+$")

    @field_validator("label")
    @classmethod
    def _check_label(cls, label):
        if list(label) != sorted(label):
            raise PydanticCustomError("list_order", "the letters must ascend")
        return label

    @model_validator(mode="after")
    def _check_trials(self):
        if self.trials == 7:
            raise ValueError("seven is not allowed")
        return self

class A(Attack[P]):
    name = "a"
    def run(self, context): yield from ()
'''


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("HARNESS_CACHE", str(cache))
    return cache / "schemas"


@pytest.fixture
def attack(tmp_path: Path) -> Path:
    return _file(tmp_path, SOURCE)


def _file(folder: Path, source: str) -> Path:
    path = folder / "attack.py"
    path.write_text(source)
    return path


def _fetch(path: Path) -> AttackSchema:
    return fetch_schema(path, digest=file_sha256(path))


def _error_of(path: Path) -> str:
    with pytest.raises(HarnessError) as caught:
        _fetch(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_schema_has_types_bounds_defaults_and_paths(attack: Path) -> None:
    fetched = _fetch(attack)
    trials = fetched.schema["properties"]["trials"]
    assert (trials["type"], trials["minimum"], trials["maximum"], trials["default"]) == ("integer", 1, 9, 2)
    assert trials["description"] == "Draws."
    assert fetched.doc == "A line.\n\nAnother."
    assert fetched.params is not None and fetched.params["limit"] == 3 and fetched.params["size"] == "small"
    assert fetched.path_params == ("source", "sources")


def test_a_schema_is_cached_until_the_file_changes(attack: Path, own_cache: Path) -> None:
    first = _fetch(attack)
    (cached,) = own_cache.iterdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(schema, "SandboxedProcess")
        assert _fetch(attack) == first
    attack.write_text(SOURCE.replace("Field(2,", "Field(3,"))
    assert _fetch(attack).schema["properties"]["trials"]["default"] == 3
    cached.write_text("{half a file")
    attack.write_text(SOURCE)
    assert _fetch(attack) == first


def test_a_file_that_changed_after_hashing_is_not_cached(attack: Path, own_cache: Path) -> None:
    fetch_schema(attack, digest="0" * 64)
    assert not own_cache.exists()


def test_a_required_parameter_is_an_error_only_for_a_run(tmp_path: Path) -> None:
    path = _file(tmp_path, SOURCE.replace("source: Path | None = None", "source: Path"))
    assert _fetch(path).params is None
    with pytest.raises(HarnessError, match=r"^source: is required\.$"):
        validated_params(path, {})


def test_text_values_are_converted_to_their_types(attack: Path) -> None:
    given = {
        "trials": "5",
        "rate": "1e-3",
        "deep": "true",
        "mode": "b",
        "power": "2",
        "layers": "[1, 2]",
        "limit": "none",
        "source": "a/b",
        "sources": '["c"]',
    }
    validated = validated_params(attack, given)
    assert validated.params == {
        "trials": 5,
        "rate": 0.001,
        "deep": True,
        "mode": "b",
        "power": 2,
        "size": "small",
        "layers": [1, 2],
        "limit": None,
        "either": 0,
        "source": "a/b",
        "sources": ["c"],
        "label": "x",
    }
    assert validated.path_params == ("source", "sources")
    assert validated.changed == tuple(name for name in validated.params if name in given)


def test_a_value_that_equals_the_default_is_not_changed(attack: Path) -> None:
    given = {"rate": "1.0", "trials": "2", "limit": "3", "layers": "[]", "mode": "b", "label": "x", "size": "small"}
    assert validated_params(attack, given).changed == ("mode",)


def test_a_required_parameter_is_always_changed(tmp_path: Path) -> None:
    path = _file(tmp_path, SOURCE.replace("source: Path | None = None", "source: Path"))
    assert validated_params(path, {"source": "a", "rate": "1"}).changed == ("source",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trials": "0"}, "trials: must be at least 1, got '0'."),
        ({"trials": "10"}, "trials: must be at most 9, got '10'."),
        ({"trials": "two"}, "trials: must be a whole number, got 'two'."),
        ({"trials": "7"}, "seven is not allowed."),
        ({"rate": "nan"}, "rate: must be finite, got nan."),
        ({"rate": "fast"}, "rate: must be a number, got 'fast'."),
        ({"deep": "maybe"}, "deep: must be true or false, got 'maybe'."),
        ({"mode": "c"}, "mode: must be 'a' or 'b', got 'c'."),
        ({"power": "3"}, "power: must be 1 or 2, got '3'."),
        ({"size": "vast"}, "size: must be 'small', got 'vast'."),
        ({"layers": "1"}, "layers: must be a list, written as JSON, got '1'."),
        ({"layers": '[1, "x"]'}, "layers: item 1 must be a whole number, got 'x'."),
        ({"either": "x"}, "either: must be a whole number or must be true or false, got 'x'."),
        ({"label": "A" * 500}, f"label: must match ^[a-z]+$, got '{'A' * 58}…."),
        ({"trials": "0", "mode": "c"}, "trials: must be at least 1, got '0'; mode: must be 'a' or 'b', got 'c'."),
        ({"trails": "3"}, "unknown parameter 'trails': did you mean trials?"),
        ({"label": "order"}, "label: the letters must ascend, got 'order'."),
        ({"zzz": "3"}, "unknown parameter 'zzz': `harness show attack` lists them."),
    ],
)
def test_an_invalid_value_is_reported_in_one_sentence(attack: Path, given: dict[str, str], message: str) -> None:
    with pytest.raises(HarnessError) as caught:
        validated_params(attack, given)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise ValueError('why')", "cannot be imported (line 1: ValueError: why)."),
        ("import sys; sys.exit(4)", "cannot be imported (line 1: SystemExit: 4)."),
        ("import os; os._exit(4)", "the import ended the process with exit code 4."),
        ("import os; os.write(2, b'last words'); os._exit(0)", "with exit code 0 (last words)."),
        ("import ctypes; ctypes.string_at(0)", "the import crashed with SIGSEGV."),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "the import crashed with SIGKILL."),
        ("x = 1", "defines no attack"),
        (SOURCE.replace("A line.", "x" * (1 << 20)), "is larger than 1 MiB."),
        (SOURCE.replace("rate: float = 1.0", "rate: float = float('inf')"), "its parameters cannot be described"),
    ],
)
def test_a_failed_import_is_reported_in_one_sentence(tmp_path: Path, source: str, reason: str) -> None:
    path = _file(tmp_path, source)
    error = _error_of(path)
    assert error.startswith(f"{path}: ")
    assert reason in error


def test_output_of_the_plugin_is_not_parsed_as_its_parameters(tmp_path: Path) -> None:
    source = """
import os
for number in range(3, 20):
    try:
        os.write(number, b'{"schema": 1}')
    except OSError:
        pass
os._exit(0)
"""
    assert "printed '{\"schema\": 1}' instead of its parameters." in _error_of(_file(tmp_path, source))


def test_an_import_that_times_out_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "IMPORT_SECONDS", 2.0)
    seconds = f"{os.getpid()}.25"
    source = f"import subprocess, sys\nsubprocess.Popen(['sleep', '{seconds}'])\nimport time\ntime.sleep(600)\n"
    assert "the import takes longer than 2 s. Move slow work into `run`." in _error_of(_file(tmp_path, source))
    wait_until(lambda: not processes_that_name(seconds))


def test_an_import_that_nests_directories_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    nesting = "import os\nfor _ in range(3_000):\n    os.mkdir('x')\n    os.chdir('x')\nos.chdir('/')\n"
    assert _fetch(_file(tmp_path, nesting + SOURCE)) and os.listdir(temporary) == []


def test_a_running_thread_does_not_delay_the_result(tmp_path: Path) -> None:
    source = SOURCE + "\nimport threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
    assert _fetch(_file(tmp_path, source)).params is not None


def test_an_import_sees_neither_the_environment_nor_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found_by_accident.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert "No module named 'found_by_accident'" in _error_of(_file(tmp_path, "import found_by_accident"))
    assert "(line 2: ValueError: None)" in _error_of(
        _file(tmp_path, "import os\nraise ValueError(os.environ.get('HF_TOKEN'))")
    )
