"""`harness show SWEEP` on real runs."""

from pathlib import Path

import pytest

from harness.core.run_request import RunRequest
from harness.sweeps.file import SweptRun
from harness.sweeps.record import Sweep
from tests.functional.machine import EXAMPLES, Machine, write_round

SOLVED = {"worse": range(20), "better": range(10, 44), "same": range(20)}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A sweep of three settings with one finished run each; a fourth has not started."""
    folder = tmp_path_factory.mktemp("sweep")
    machine = Machine(folder)
    write_round(folder)
    runs = {name: machine.executed("replay", *machine.replaying(name, solved)).id for name, solved in SOLVED.items()}
    swept = [
        SweptRun(run=run, attack="replay", params={"source": name}, seed=0, round="round.toml", target=None)
        for name, run in (runs | {"missing": "zzzz-missing"}).items()
    ]
    sweep = Sweep(
        id="abcd-sources",
        created_at=1.0,
        baseline="replay source=worse",
        request=RunRequest(round=""),
        runs=tuple(swept),
    )
    (folder / "state" / "sweeps").mkdir(parents=True)
    (folder / "state" / "sweeps" / "abcd-sources.json").write_text(sweep.model_dump_json())
    return machine


def test_rows_agree_with_the_scores_of_the_runs(machine: Machine) -> None:
    for row in machine.json("show", "abcd")["rows"]:
        (run,) = row["runs"]
        if row["finished"]:
            score = machine.json("score", run["id"])
            assert row["recall_at_cap"] == row["lowest_recall"] == score["recall_at_cap"]
            assert row["recall_at_cap"] == len(SOLVED[row["params"]["source"]]) / EXAMPLES
        else:
            assert (run["status"], row["recall_at_cap"]) == ("not started", None)


def test_differences_agree_with_compare(machine: Machine) -> None:
    shown = machine.json("show", "abcd")
    runs = {row["setting"]: row["runs"][0]["id"] for row in shown["rows"]}
    different = {}
    for one in shown["differences"]:
        pair = machine.json("compare", runs[one["setting"]], runs[shown["baseline"]])["contrast"]
        assert one["difference"] == pytest.approx(pair["difference"])
        assert one["interval_unit"] == pair["difference_interval_unit"]
        different[one["setting"]] = one["is_different"]
        # The interval for several comparisons is at least as wide as that for one.
        assert one["interval"][0] <= pair["difference_interval"][0] + 1e-9
    assert different == {"replay source=better": True, "replay source=same": False}


def test_the_page_is_written_while_a_run_is_missing(machine: Machine, tmp_path: Path) -> None:
    done = machine.run("report", "abcd", "--out", str(tmp_path / "page.html"))
    assert "1 run of 4 not finished: 1 not started" in done.stderr
    assert "1 run of 4 not finished" in (tmp_path / "page.html").read_text()
