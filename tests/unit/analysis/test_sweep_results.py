"""The results of a sweep, from recorded runs with known answers, finished or not."""

from pathlib import Path

import pytest

from harness.analysis import sweep_tables
from harness.analysis.sweep_results import sweep_results
from harness.analysis.sweep_tables import recall_over_time
from harness.core.errors import UsageError
from harness.submit.sweep_report import sweep_page
from tests.records import EXAMPLES
from tests.unit.analysis.swept import make_sweep, record

SOLVED = {"1": 2, "4": 10, "16": 12}
"""Number of examples that a run with this many trials solves; with seed 1 it is one more."""


def finish(home: Path, sweep, *, without=()):
    for run in sweep.runs:
        if run.run not in without:
            record(home, run, range(SOLVED[run.params["trials"]] + run.seed))
    return sweep


def test_a_row_has_the_mean_and_the_range_over_the_seeds(home: Path) -> None:
    results = sweep_results(finish(home, make_sweep()))
    assert [row.setting for row in results.rows] == ["some trials=16", "some trials=4", "some trials=1"]
    best = results.rows[0]
    assert best.recall_at_cap == pytest.approx(12.5 / EXAMPLES)
    assert (best.lowest_recall, best.highest_recall) == pytest.approx((12 / EXAMPLES, 13 / EXAMPLES))
    assert best.exact_at_1 == best.any_guess_correct == best.recall_at_cap
    assert (best.guesses, best.unfinished, results.finished, results.notes) == (EXAMPLES, {}, 6, ())


def test_a_setting_without_all_its_runs_comes_last(home: Path) -> None:
    sweep = make_sweep()
    crashed = next(run.run for run in sweep.runs if run.params["trials"] == "16")
    results = sweep_results(finish(home, sweep, without={crashed}))
    assert [row.setting for row in results.rows] == ["some trials=4", "some trials=1", "some trials=16"]
    assert [len(row.finished) for row in results.rows] == [2, 2, 1]


def test_differences_are_paired_by_seed_and_corrected_together(home: Path) -> None:
    results = sweep_results(finish(home, make_sweep()))
    differences = {difference.setting: difference for difference in results.differences}
    assert set(differences) == {"some trials=4", "some trials=16"}
    assert differences["some trials=16"].difference == pytest.approx(10 / EXAMPLES)
    assert all(
        difference.seeds == (0, 1) and difference.is_different and difference.interval[0] > 0
        for difference in differences.values()
    )
    assert all(difference.holm_p == pytest.approx(2 * difference.p) for difference in differences.values())
    assert "2 comparisons, bootstrap by" in sweep_tables.differences_heading(results)


def test_equal_settings_do_not_differ(home: Path) -> None:
    sweep = make_sweep()
    for run in sweep.runs:
        record(home, run, range(5))
    results = sweep_results(sweep)
    assert all(
        (difference.difference, difference.p, difference.interval) == (0, 1, (0, 0))
        for difference in results.differences
    )


def test_only_seeds_that_both_have_finished_are_compared(home: Path) -> None:
    sweep = make_sweep()
    (lacking,) = (run.run for run in sweep.runs if run.params["trials"] == "1" and run.seed == 1)
    results = sweep_results(finish(home, sweep, without=[lacking]))
    assert {difference.seeds for difference in results.differences} == {(0,)}
    assert results.notes[0].startswith("1 run of 6 not finished: 1 not started")


def test_runs_in_every_state_give_a_partial_answer(home: Path) -> None:
    sweep = make_sweep()
    phases = ("finished", "crashed", "running", "stopped", "finished")
    folders = [record(home, run, range(4), phase=phase) for run, phase in zip(sweep.runs, phases, strict=False)]
    folders[-1].store.write_bytes(b"not a database")
    (folders[-1].path / "summary.json").unlink(missing_ok=True)
    sweep.journal.write_text(f"{sweep.runs[0].run} node-1\n")
    results = sweep_results(sweep)
    states = {run.state for row in results.rows for run in row.runs}
    assert states == {"finished", "crashed", "lost", "stopped", "unreadable", "not started"}
    assert results.finished == 1 and results.differences == ()
    sweep.journal.write_text(f"{sweep.runs[-1].run} node-1\n")
    assert "1 given to a node" in sweep_results(sweep).notes[0]
    assert "5 runs of 6 not finished" in results.notes[0]
    assert "no recall" not in sweep_page(results) and "There are no differences yet" in sweep_page(results)


def test_a_sweep_without_any_run_is_no_error(home: Path) -> None:
    results = sweep_results(make_sweep())
    assert results.finished == 0 and {row.recall_at_cap for row in results.rows} == {None}
    assert any("no run of the baseline some trials=1 is finished yet" in note for note in results.notes)
    assert "no recall yet" in sweep_page(results)


def test_a_deleted_answer_file_leaves_the_table(home: Path) -> None:
    sweep = finish(home, make_sweep())
    (home / f"answer-{EXAMPLES}.npy").unlink()
    results = sweep_results(sweep)
    assert results.rows[0].recall_at_cap is not None and results.differences == ()
    assert any(note.startswith("no differences on round small") for note in results.notes)
    assert recall_over_time(results.rows) == []
    assert "some trials=16" in sweep_page(results)


def test_a_blind_round_has_counts_and_no_recall(home: Path) -> None:
    sweep = make_sweep(None)
    for run in sweep.runs:
        record(home, run, range(4), is_blind=True)
    results = sweep_results(sweep)
    assert {(row.is_blind, row.recall_at_cap, row.guesses) for row in results.rows} == {(True, None, EXAMPLES)}
    assert sweep_tables.settings_table(results.rows)[1][2] == "blind"
    assert any("is blind" in note for note in sweep_results(sweep, baseline="some trials=4").notes)


@pytest.mark.parametrize("name", ["some trials=4", "some  trials=4"])
def test_the_baseline_can_be_named_on_the_command_line(home: Path, name: str) -> None:
    sweep = make_sweep(None)
    assert sweep_results(sweep).notes[-1].startswith("no differences: the sweep has no baseline")
    assert sweep_results(sweep, baseline=name).baseline == "some trials=4"


def test_an_attack_with_one_setting_is_a_baseline(home: Path) -> None:
    sweep = make_sweep(attacks=("some", "other"), trials=(1,), baseline="other")
    assert sweep_results(sweep).baseline == "other trials=1"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("some", "matches several settings: choose from some trials=1, some trials=4, some trials=16."),
        ("some trials=2", "is not a setting of the sweep: choose from some trials=1"),
        ("", "is not a setting"),
    ],
)
def test_an_unknown_or_ambiguous_baseline_lists_the_settings(home: Path, name: str, fault: str) -> None:
    with pytest.raises(UsageError, match="baseline .*" + fault.replace(".", r"\.")):
        sweep_results(make_sweep(), baseline=name)


def test_rounds_are_compared_apart_and_corrected_together(home: Path) -> None:
    sweep = finish(home, make_sweep(rounds=("small.toml", "again.toml")))
    results = sweep_results(sweep)
    assert len(sweep_tables.places(results)) == 2
    assert len(results.differences) == 4
    assert all(difference.holm_p == pytest.approx(4 * difference.p) for difference in results.differences)


def test_the_curve_of_a_setting_ends_at_its_mean_recall(home: Path) -> None:
    results = sweep_results(finish(home, make_sweep()))
    for row, (setting, curve) in zip(results.rows, recall_over_time(results.rows), strict=True):
        assert setting == row.setting
        assert curve[-1].recall == pytest.approx(row.recall_at_cap)


def test_equal_records_give_equal_pages(home: Path) -> None:
    results = sweep_results(finish(home, make_sweep()))
    assert sweep_page(results) == sweep_page(results)
