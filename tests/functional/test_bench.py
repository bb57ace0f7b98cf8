"""`harness bench`: the engine compared with the official arithmetic, as text and as JSON."""

from pathlib import Path

import pytest

from tests.functional.machine import Machine, write_tiny_demo

ON_ONE_CORE = ("--device", "cpu", "--threads", "1")
"""Tests run in parallel, and two processes that use all cores slow each other down."""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    write_tiny_demo(tmp_path)
    return Machine(tmp_path)


@pytest.mark.long
def test_json_has_ratios_and_a_row_per_method_and_dtype(machine: Machine) -> None:
    result = machine.json("bench", "--round", "tiny.toml", "--prefixes", "2", "--turns", "1", *ON_ONE_CORE)
    for name in ("ratio_sample_1", "ratio_sample_10", "ratio_sample_100", "ratio_search_8"):
        assert result[name] > 0 and result[f"{name}_float32"] > 0
    methods = ["official arithmetic", "sample 1", "sample 10", "sample 100", "search 1", "search 8", "search 32"]
    assert [(row["dtype"], row["what"]) for row in result["rows"]] == [
        (dtype, what) for dtype in ("float32", "bfloat16") for what in methods
    ]
    for row in result["rows"]:
        assert 0 < row["lowest"] <= row["suffixes_a_second"] <= row["highest"]
        assert row["evaluations_a_suffix"] > 0 and min(row["roofline"].values()) > 0
    by_method = {(row["dtype"], row["what"]): row for row in result["rows"]}
    # One suffix of 50 tokens needs 50 evaluations. Draws with common beginnings need fewer per suffix.
    assert by_method["float32", "sample 1"]["evaluations_a_suffix"] == 50
    assert by_method["float32", "sample 100"]["evaluations_a_suffix"] < 50
    assert by_method["float32", "official arithmetic"]["times_official"] == 1
    assert {"float32", "bfloat16"} == set(result["rates"]) and result["prefixes"] == 2 and result["turns"] == 1


@pytest.mark.slow
def test_the_table_has_every_method_and_says_that_no_gpu_was_measured(machine: Machine) -> None:
    options = ("--round", "tiny.toml", "--prefixes", "2", "--turns", "1", "--dtype", "float32", *ON_ONE_CORE)
    text = machine.run("bench", *options).stdout
    assert "official arithmetic" in text and "search 32" in text and "ratio_sample_100_float32" in text
    assert "GPU: not measured" in text


@pytest.mark.parametrize(
    ("options", "sentence", "code"),
    [
        (["--prefixes", "100000"], "has 1000 prefixes", 1),
        (["--prefixes", "2", "--turns", "3"], "at least one prefix per turn", 2),
    ],
)
def test_too_many_prefixes_or_turns_are_refused(machine: Machine, options: list[str], sentence: str, code: int) -> None:
    assert sentence in machine.run("bench", *options, code=code).stderr
