"""Budgets in standard seconds: real runs that are charged scaled time, compared with runs on wall clock."""

import json
from pathlib import Path

import pytest

from harness.core.calibration import WORKLOAD
from harness.core.submission import HEADER
from harness.runs.calibration import store_calibration
from harness.runs.folder import RunFolder
from harness.runs.machine import processor, usable_cores
from harness.runs.reader import RunReader
from harness.runs.summary import run_status
from harness.submit.manifest import MANIFEST
from tests.calibrated import calibration, write_machine
from tests.functional.bundler import DESCRIPTION, FAST, OWN_ENVIRONMENT, TEAM, altered, files_of
from tests.functional.machine import Machine, guess_count, kill_supervisor, wait_until

RATE, REFERENCE_RATE, SPEED = 500.0, 5.0, 100.0
"""Suffixes per second of this machine and of the reference, as if they were measured."""


@pytest.fixture
def machine(machine: Machine, tmp_path: Path) -> Machine:
    """A machine with a round whose budget is 300 standard seconds: 3 s of wall clock."""
    write_machine(tmp_path / "slow.json", official=REFERENCE_RATE)
    rules = 'base = "round.toml"\nbudget = "300s"\nbudget_machine = "slow.json"\n'
    (tmp_path / "standard.toml").write_text(rules)
    return machine


def calibrate(official: float = RATE) -> None:
    store_calibration(calibration(processor(), official=official, threads=usable_cores()))


def last_pace(folder: RunFolder) -> dict[str, float]:
    with RunReader(folder.store) as reader:
        return reader.events_named("pace")[-1]


def test_a_run_is_charged_scaled_time_and_compared_with_one_on_wall_clock(machine: Machine) -> None:
    calibrate()
    standard = machine.attack("patient", round_="standard.toml", code=3)
    # A worker that finishes when it is asked to leaves up to 5 % of the budget.
    spent = standard["elapsed_s"]
    assert (standard["status"], standard["budget_s"]) == ("out_of_time", 300.0) and 285.0 <= spent <= 300.0
    assert standard["budget_machine"]["name"] == "slow" and standard["speed"] == SPEED
    assert standard["wall_s"] == pytest.approx(spent / SPEED, abs=1e-3)
    folder = RunFolder(Path(standard["directory"]))
    with RunReader(folder.store) as reader:
        ledger = reader.ledger()
    assert ledger[-1].spent == pytest.approx(spent, abs=1e-3)
    spec = json.loads(folder.spec_file.read_text())
    assert spec["calibrations"][0]["official_per_s"] == RATE and spec["round"]["budget_machine"]["name"] == "slow"
    assert " of 5:00 in standard seconds of slow spent" in machine.run("show", folder.id).stdout
    assert " of 5:00 in standard seconds of slow" in machine.run("watch", folder.id, "--plain", code=3).stderr

    wall = machine.attack("patient", "--budget", "2s", code=3)
    assert wall["budget_machine"] is None and wall["wall_s"] == wall["elapsed_s"] <= 2.0
    compared = machine.json("compare", folder.id, wall["id"])
    assert compared["clock"]["machine"]["name"] == "slow" and compared["clock"]["budget_s"] == 300.0
    for run, summary in zip(compared["runs"], (standard, wall), strict=True):
        assert run["wall_s"] == pytest.approx(summary["wall_s"], abs=1e-3)
        assert run["standard_s"] == pytest.approx(SPEED * run["wall_s"])
    shares = [[at["recall"] is not None for at in run["recall_at_standard_budget"]] for run in compared["runs"]]
    # The run on wall clock was ended by its budget before the end of the other.
    assert shares == [[True, True, True], [True, True, False]]
    for run in compared["runs"]:
        for point in run["recall_over_time"]:
            assert point["standard_s"] == pytest.approx(SPEED * point["wall_s"])
    assert compared["leads"][0]["start_s"] == 0.0 and compared["leads"][-1]["end_s"] == 300.0
    assert compared["differing"]["budget_machine"] == ["slow", None]
    printed = machine.run("compare", folder.id, wall["id"], "--plot", "curves.svg").stdout
    assert (
        "after a share of a budget of 5:00 of slow" in printed and "Who leads when, by standard time of slow" in printed
    )
    assert "standard time of slow" in (machine.folder / "curves.svg").read_text()
    report = machine.json("report", folder.id, wall["id"])["path"]
    assert "Who leads when" in Path(machine.folder / report).read_text()


def test_a_kill_charges_scaled_time_and_a_resume_charges_the_speed_of_its_machine(machine: Machine) -> None:
    calibrate(official=REFERENCE_RATE)
    folder = machine.detached("patient", round_="standard.toml")
    wait_until(lambda: guess_count(folder) > 3)
    kill_supervisor(folder)
    wait_until(lambda: str(run_status(folder)) == "lost")
    with RunReader(folder.store) as reader:
        before = reader.last_ledger()
    assert before is not None
    calibrate()
    summary = machine.json("resume", folder.id, code=3)
    spent = summary["elapsed_s"]
    assert (summary["status"], summary["speed"]) == ("out_of_time", SPEED) and 285.0 <= spent <= 300.0
    resumed_at = last_pace(folder)["spent"]
    # One second of the first machine is charged for the kill.
    assert resumed_at == before.spent + 1.0
    assert summary["wall_s"] == pytest.approx(resumed_at + (spent - resumed_at) / SPEED, abs=1e-3)


def test_a_machine_that_is_not_calibrated_is_refused_before_anything_starts(machine: Machine) -> None:
    done = machine.run("run", "patient", *machine.plugin("standard.toml"), code=1)
    command = f"harness bench --calibrate --device cpu --threads {usable_cores()}."
    assert "this machine is not calibrated: the budget is in standard seconds of slow." in done.stderr
    assert command in done.stderr and not machine.folders()
    assert (
        "not calibrated" in machine.run("run", "patient", *machine.plugin("standard.toml"), "--dry-run", code=1).stderr
    )
    # Code is packaged for the organizers' machine.
    machine.run("package", "code", "patient", *machine.plugin("standard.toml"))


def test_a_resume_on_a_machine_that_is_not_calibrated_says_so(machine: Machine) -> None:
    calibrate(official=REFERENCE_RATE)
    folder = machine.detached("patient", round_="standard.toml")
    wait_until(lambda: guess_count(folder) > 0)
    machine.run("stop", folder.id)
    (machine.folder / "state" / "calibration.json").unlink()
    assert "this machine is not calibrated" in machine.run("resume", folder.id, code=1).stderr


def test_runs_of_an_uncalibrated_machine_are_compared_by_wall_clock(machine: Machine) -> None:
    ids = [machine.replayed(f"one{number}", range(9 + number)).id for number in range(2)]
    compared = machine.json("compare", *ids)
    assert compared["clock"] == {"machine": None, "budget_s": compared["runs"][0]["budget_s"], "uncalibrated": ids}
    assert [run["standard_s"] for run in compared["runs"]] == [None, None]
    assert f"not compared in standard seconds: the machine of {ids[0]}, {ids[1]}" in machine.run("compare", *ids).stdout


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('budget_machine = "p1000"', "unknown budget machine 'p1000': did you mean p100?"),
        ('budget_machine = "absent.json"', "no such file"),
        ("budget_machine = 7", "budget_machine"),
    ],
)
def test_a_round_with_a_faulty_machine_names_its_field(machine: Machine, line: str, sentence: str) -> None:
    (machine.folder / "bad.toml").write_text(f'base = "round.toml"\n{line}\n')
    error = machine.run("rounds", "show", "bad.toml", code=1).stderr
    assert "budget_machine" in error and sentence in error


def test_options_of_another_measurement_cannot_be_used_together_with_calibrate(machine: Machine) -> None:
    done = machine.run("bench", "--calibrate", "--dtype", "float16", code=2)
    assert "cannot be used together with --dtype" in done.stderr


def test_a_bundle_is_charged_with_the_calibration_of_the_verifying_machine(machine: Machine) -> None:
    calibrate()
    (machine.folder / "team.toml").write_text(TEAM)
    (machine.folder / "description.md").write_text(DESCRIPTION)
    run = machine.attack("draws", *FAST, round_="standard.toml")
    machine.run("package", run["id"], "--out", "bundles/one.zip")
    verify = ("verify", "bundles/one.zip", "--round", "standard.toml", *OWN_ENVIRONMENT)
    # The organizers' machine is twice as fast as the team's.
    calibrate(official=2 * RATE)
    verdict = machine.json(*verify, "--budget", "9000s")
    assert verdict["outcome"] == "reproduced"
    assert (verdict["budget_s"], verdict["budget_machine"], verdict["official_per_s"]) == (9000, "slow", 2 * RATE)
    (entry,) = machine.json("leaderboard", "bundles", "--round", "standard.toml")["entries"]
    assert entry["standard_s"] == pytest.approx(verdict["elapsed_s"] * 2 * SPEED)
    assert entry["standard_machine"] == "slow"
    # 1 % of the budget is 0.03 s of wall clock, in which no worker starts.
    assert files_of(machine.folder / "bundles" / "one.zip")["early/1-percent.csv"] == HEADER
    assert [share for share, _ in entry["recall_at_budget"]] == [0.01, 0.1, 1.0]
    printed = machine.run("leaderboard", "bundles", "--round", "standard.toml", "--html", "board.html").stdout
    assert "s of slow" in printed and "s of slow" in (machine.folder / "board.html").read_text()
    (machine.folder / "state" / "calibration.json").unlink()
    assert "this machine is not calibrated" in machine.run(*verify, code=1).stderr


def test_the_leaderboard_scores_the_submissions_after_shares_of_the_budget(machine: Machine) -> None:
    # So slow that all guesses arrive within 1 % of the budget.
    calibrate(official=0.1)
    (machine.folder / "team.toml").write_text(TEAM)
    (machine.folder / "description.md").write_text(DESCRIPTION)
    run = machine.replayed("half", range(32))
    machine.run("package", run.id, "--out", "bundles/half.zip")
    ranked = ("leaderboard", "bundles", "--round", "round.toml")
    (entry,) = machine.json(*ranked)["entries"]
    assert entry["recall_at_budget"] == [[0.01, 0.5], [0.1, 0.5], [1.0, 0.5]]
    early = machine.folder / "bundles" / "half.zip"
    record = json.loads(files_of(early)[MANIFEST])["run"]
    record["early"][0]["file"] = "early/1-percent.csv"
    altered(early, early, {"early/1-percent.csv": HEADER}, run=record)
    (entry,) = machine.json(*ranked)["entries"]
    assert entry["recall_at_budget"] == [[0.01, 0.0], [0.1, 0.5], [1.0, 0.5]]
    assert "0.000 0.500 0.500" in machine.run(*ranked).stdout


@pytest.mark.long
@pytest.mark.timeout(900)
def test_bench_calibrate_stores_the_rates_that_it_prints(machine: Machine) -> None:
    printed = machine.json("bench", "--calibrate", "--device", "cpu", "--threads", "1")
    (stored,) = json.loads((machine.folder / "state" / "calibration.json").read_text())
    assert stored == {name: printed[name] for name in stored} and stored["workload"] == WORKLOAD
    assert printed["relative_to"]["p100"] == pytest.approx(stored["official_per_s"] / 66.1)
    assert printed["machines"]["p100"]["is_measured"] is False
