"""Budget machines, and the conversion of spent budgets into wall and standard seconds."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.calibration import P100, Pace, TimeScale, budget_text, machine_named
from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from tests.calibrated import calibration, machine, write_machine

rates = st.floats(1e-2, 1e3)
spans = st.lists(st.tuples(st.floats(0.01, 1e4), rates), min_size=1, max_size=6)


def scale_of(executions: list[tuple[float, float]], reference: float | None) -> tuple[TimeScale, float]:
    """Return the scale of executions of (wall seconds, rate), and what they have spent."""
    paces, spent = [], 0.0
    for wall, rate in executions:
        speed = 1.0 if reference is None else rate / reference
        paces.append(Pace(spent, speed, rate))
        spent += speed * wall
    return TimeScale(None if reference is None else machine(reference), tuple(paces)), spent


@given(spans, rates, rates)
def test_both_kinds_of_budget_convert_to_the_same_times(executions, reference, other):
    wall, work = sum(wall for wall, _ in executions), sum(wall * rate for wall, rate in executions)
    for budget_machine in (None, reference):
        scale, spent = scale_of(executions, budget_machine)
        assert scale.wall(spent) == pytest.approx(wall)
        assert scale.standard(spent, machine(other)) == pytest.approx(work / other)


@given(spans, rates, st.floats(0, 1), st.floats(0, 1))
def test_conversions_are_monotonic_and_begin_at_zero(executions, reference, one, other):
    for budget_machine in (None, reference):
        scale, spent = scale_of(executions, budget_machine)
        early, late = sorted((one * spent, other * spent))
        assert scale.wall(early) <= scale.wall(late) and scale.wall(0.0) == 0.0
        assert scale.standard(early, P100) <= scale.standard(late, P100) and scale.standard(0.0, P100) == 0.0


def test_a_run_that_one_uncalibrated_machine_resumed_has_no_standard_time():
    paces = (Pace(0.0, 1.0, 5.0), Pace(9.0, 1.0, None))
    assert TimeScale(None, paces).standard(3.0, P100) is None
    assert TimeScale(None, ()).standard(3.0, P100) is None
    assert TimeScale(None, ()).wall(3.0) == 3.0


def test_a_budget_names_its_unit_and_that_its_machine_was_derived():
    assert budget_text(7, 10, None) == "0:07 of 0:10"
    assert budget_text(7, 10, machine(1.0)) == "0:07 of 0:10 in standard seconds of reference"
    assert "p100 (derived)" in budget_text(7, 10, P100) and "derived" in P100.source


def test_a_round_names_a_shipped_machine_or_the_output_of_a_calibration(tmp_path: Path):
    write_machine(tmp_path / "mine.json", official=4.0)
    for name, rate in (("p100", P100.official_per_s), ("mine.json", 4.0), ("./mine.json", 4.0)):
        file = tmp_path / "round.toml"
        file.write_text(f'base = "demo"\nbudget = "2h"\nbudget_machine = "{name}"\n')
        found = load_round(str(file)).budget_machine
        assert found is not None and found.official_per_s == rate
    below = tmp_path / "below.toml"
    below.write_text('base = "round.toml"\nbudget_machine = ""\n')
    assert load_round(str(below)).budget_machine is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("h100x", "unknown budget machine 'h100x'"),
        ("absent.json", "no such file"),
        ("list.json", "not a calibration"),
        ("text.json", "not a calibration"),
        ("negative.json", "not a calibration"),
        ("other.json", "another workload"),
    ],
)
def test_an_unusable_machine_is_an_error_that_names_it(tmp_path: Path, name: str, message: str):
    found = calibration().model_dump()
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "text.json").write_text("{")
    (tmp_path / "negative.json").write_text(json.dumps(found | {"official_per_s": -1.0}))
    (tmp_path / "other.json").write_text(json.dumps(found | {"workload": "another"}))
    with pytest.raises(HarnessError, match=message):
        machine_named(name, tmp_path)
