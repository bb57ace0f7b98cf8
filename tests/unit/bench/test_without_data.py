"""Benchmarks that need data say in one sentence what is missing."""

import runpy
import sys
from pathlib import Path

import pytest

from tests.bench import inputs
from tests.tools import data

_NEEDS = ("surrogate_or_demo()", "require_surrogate()", "what_is_missing(")
MODULES = sorted(
    f"tests.bench.{file.stem}"
    for file in Path(inputs.__file__).parent.glob("*.py")
    if file.stem not in ("inputs", "gpu") and any(name in file.read_text(encoding="utf-8") for name in _NEEDS)
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning:runpy")
@pytest.mark.parametrize("module", [*MODULES, "tests.tools.surrogate"])
def test_a_benchmark_without_its_data_ends_with_one_sentence(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (data, inputs):
        monkeypatch.setattr(place, "what_is_missing", lambda *folders: f"{folders[0].name} is missing.")
    monkeypatch.setattr(sys, "argv", [module])
    monkeypatch.setenv("BENCH_TARGET", "surrogate")
    with pytest.raises(SystemExit, match=r"^\S+ is missing\.") as error:
        runpy.run_module(module, run_name="__main__")
    assert "\n" not in str(error.value)


def test_an_unknown_target_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_TARGET", "large")
    with pytest.raises(data.HarnessError, match="BENCH_TARGET=large: unknown target"):
        inputs.surrogate_or_demo()
