"""`harness show SWEEP` and `list`, and the commands for runs that accept a sweep."""

from pathlib import Path

import pytest

from harness.sweeps.record import SWEEPS, Sweep
from tests.records import change_spec
from tests.unit.analysis.swept import make_sweep, record
from tests.unit.cli.command_line import CommandLine


@pytest.fixture
def sweep(home: Path) -> Sweep:
    """A sweep whose last run has not started."""
    made = make_sweep()
    for run in made.runs[:-1]:
        change_spec(record(home, run, range(2 * int(run.params["trials"]) % 15)), parent=made.id)
    return made


def test_show_prints_settings_and_differences(harness: CommandLine, sweep: Sweep) -> None:
    done = harness("show", "latest")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == f"sweep {sweep.id}, 5 of 6 runs finished"
    assert lines[2:4] and lines[3].split()[:3] == ["setting", "runs", "Recall@100"]
    assert any(line.startswith("difference from some trials=1, 2 comparisons") for line in lines)
    assert "1 run of 6 not finished: 1 not started." in done.err
    assert harness("show", sweep.id).out == done.out


def test_another_baseline_is_named(harness: CommandLine, sweep: Sweep) -> None:
    assert "difference from some trials=4" in harness("show", sweep.id, "--baseline", "some trials=4").out
    wrong = harness("show", sweep.id, "--baseline", "some")
    assert wrong.code == 2 and "choose from some trials=1, some trials=4, some trials=16." in wrong.err


def test_the_report_is_one_page(harness: CommandLine, sweep: Sweep, home: Path) -> None:
    out = home / "sweep.html"
    assert harness("report", "latest", "--out", str(out)).code == 0
    page = out.read_text()
    assert "any guess correct: fraction of examples" in page and "Upper bound" not in page
    assert page.count("<svg") >= 1 and "1 run of 6 not finished" in page and "src=" not in page
    assert "a report is an .html file" in harness("report", "latest", "--out", "sweep.pdf").err


def test_list_names_every_sweep(harness: CommandLine, sweep: Sweep) -> None:
    other = make_sweep()
    assert [row.split()[0] for row in harness("list", "sweeps").out.splitlines()] == ["sweep", other.id, sweep.id]
    listed = {one["id"]: one["finished"] for one in harness("list", "sweeps", "--json").json["sweeps"]}
    assert listed == {sweep.id: 5, other.id: 0}
    SWEEPS.file_of(other.id).write_text("{")
    damaged = harness("list", "sweeps")
    assert damaged.code == 0 and sweep.id in damaged.out and "cannot be read" in damaged.err


def test_without_a_sweep_the_list_says_how_to_start_one(harness: CommandLine, home: Path) -> None:
    assert harness("list", "sweeps").err == "no sweeps yet. `harness sweep FILE` starts one.\n"
    assert "there is no run yet" in harness("show", "latest").err


def test_an_unknown_sweep_is_a_usage_error(harness: CommandLine, sweep: Sweep) -> None:
    done = harness("show", "zzzz")
    assert done.code == 2 and "unknown name 'zzzz'" in done.err


def test_rm_deletes_a_sweep_with_its_runs(harness: CommandLine, sweep: Sweep) -> None:
    removed = harness("runs", "rm", sweep.id, "--json").json["removed"]
    assert removed == [*(run.run for run in sweep.runs[:-1]), sweep.id]
    assert SWEEPS.ids() == [] and harness("list", "runs", "--json").json["runs"] == []


def test_a_run_names_its_sweep_and_no_group_may_have_its_id(harness: CommandLine, sweep: Sweep) -> None:
    shown = harness("show", sweep.runs[0].run).out.splitlines()
    assert ["sweep", sweep.id] in [line.split() for line in shown]
    assert len(harness("list", "runs", "--group", sweep.id, "--json").json["runs"]) == 5
    refused = harness("run", "lookup", "--group", sweep.id)
    assert refused.code == 2 and f"{sweep.id} is a sweep. Use another name." in refused.err


def test_hostile_names_are_printed_harmlessly(harness: CommandLine, home: Path) -> None:
    made = make_sweep(rounds=("\x1b[31m.toml",), attacks=("some",), baseline=None)
    done = harness("show", made.id)
    assert done.code == 0 and "\x1b" not in done.out + done.err
