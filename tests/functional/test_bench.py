"""`harness doctor --bench`: the engine compared with `generate`."""

from pathlib import Path

import pytest

from tests.functional.machine import Machine, write_tiny_demo

ON_ONE_CORE = ("--device", "cpu", "--threads", "1")
"""Tests run in parallel, and two processes that use all cores slow each other down."""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    write_tiny_demo(tmp_path)
    return Machine(tmp_path)


@pytest.mark.slow
def test_every_method_has_a_row(machine: Machine) -> None:
    options = ("--round", "tiny.toml", "--target", "demo-tiny", "--examples", "1", "--turns", "2")
    measured = machine.json("doctor", "--bench", *options, *ON_ONE_CORE)
    assert (measured["target"], measured["device"], measured["turns"]) == ("demo-tiny", "cpu", 2)
    methods = ["generate", "sample 1", "sample 10", "sample 100", "search 1", "search 8", "search 32"]
    assert [row["method"] for row in measured["rows"]] == methods
    assert all(0 < row["lowest"] <= row["suffixes_per_s"] <= row["highest"] for row in measured["rows"])
    assert measured["rows"][0]["times_generate"] == 1


def test_more_prefixes_than_the_round_has_are_refused(machine: Machine) -> None:
    refused = machine.run("doctor", "--bench", "--round", "tiny.toml", "--examples", "501", "--turns", "2", code=1)
    assert "has 1000 prefixes. Lower --examples 501 or --turns 2" in refused.stderr
