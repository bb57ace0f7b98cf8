"""The tables of a comparison: runs that are not over are left out of the tests."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.comparison import compare_runs
from harness.analysis.comparison_tables import contrasts, recall_over_budget, scores_and_pace
from harness.tui.columns import Row, fit, lay_out
from harness.tui.compare_state import (
    SOURCE,
    Compared,
    answer_texts,
    compared_on,
    difference_table,
    example_table,
    forest_table,
    header_of,
    setting_table,
    verdict_of,
)
from tests.records import EXAMPLES, Recorded, change_spec, recorded_run


def run_of(
    home: Path,
    id_: str,
    solved: Sequence[int],
    *,
    attacked: int = EXAMPLES,
    phase: str = "finished",
    limit: int | None = None,
    **changes: Any,
) -> Recorded:
    """Return a run that has attacked the first examples."""
    run = recorded_run(home, id_=id_, pid=os.getpid(), limit=limit)
    order = [*solved, *(example for example in range(limit or attacked) if example not in solved)]
    run.guess(run.batch("a"), [(example, example in solved, -rank) for rank, example in enumerate(order)])
    run.event("phase", phase=phase)
    change_spec(run.folder, **changes)
    return run


def compared(*runs: Recorded) -> Compared:
    return compared_on(compare_runs([run.folder for run in runs], takes_other_limits=True), not_in_train=False)


def text_of(row: Row) -> list[str]:
    return ["".join(text for text, _ in (cell(24) if callable(cell) else cell)).strip() for cell in row.cells]


@pytest.fixture
def runs(home: Path) -> list[Recorded]:
    """Three runs that solve 12, 6 and 6 examples; the last one is running."""
    return [
        run_of(home, "best-1", range(12)),
        run_of(home, "half-1", range(6), seed=1),
        run_of(home, "live-1", range(3, 9), phase="running"),
    ]


def test_the_forest_has_one_row_per_run_on_one_scale(runs: list[Recorded]) -> None:
    columns, rows = forest_table(compared(*runs), is_dark=True)
    assert columns[2].title == "Recall@100"
    assert [row.key for row in rows] == [run.folder.id for run in runs]
    assert [text_of(row)[2] for row in rows] == ["0.750", "0.375", "0.375"]
    bars = [text_of(row)[3] for row in rows]
    assert all("●" in bar and "─" in bar for bar in bars)
    assert text_of(rows[0])[0] == "● best" and text_of(rows[2])[0].startswith("▲ live ▶ running")


def test_a_run_that_is_not_over_is_left_out_of_the_tests(runs: list[Recorded]) -> None:
    found = compared(*runs)
    assert set(found.pairs) == {(0, 1)}
    columns, rows = difference_table(found, is_dark=True)
    assert columns[1].title == "difference by example"
    cells = {cells[0]: cells[1] for cells in map(text_of, rows[:3])}
    assert cells.pop("● best − ■ half").startswith("+0.375 [+0.")
    assert cells == {"● best − ▲ live": "no test", "■ half − ▲ live": "no test"}


def test_six_runs_have_whole_names_and_differences_with_intervals_in_half_of_120_columns(home: Path) -> None:
    names = ["greedy", "two_step", "contrastive", "sampling_with_reference", "window", "baseline"]
    six = [run_of(home, f"ab{number}d-1", range(number), attack={"name": name}) for number, name in enumerate(names)]
    found = compared(*six)
    tables = difference_table(found, is_dark=True), forest_table(found, is_dark=True)
    for columns, rows in tables:
        layout = lay_out(columns, rows, 56, first=1)
        assert layout.numbers[:3] == (0, 1, 2)
        shown = [
            "".join(text for text, _ in fit(row.cells[number], width))
            for row in rows
            if not row.spans
            for number, width in zip(layout.numbers, layout.widths, strict=True)
        ]
        assert not any("…" in text for text in shown)
    *pairs, solved, bar = map(text_of, tables[0][1])
    assert len(pairs) == 15 and all(re.search(r"[+-]0\.\d{3} \[", cells[1]) for cells in pairs)
    # The run with number n solves the examples below n.
    assert " ".join(solved[0].split()[2:]) == "all 0 several 4 only ● 0 ■ 0 ▲ 0 ◆ 0 ▼ 0 ★ 1"
    assert [bar[0].count(glyph) for glyph in "█▒░"] == [0, 19, 4]
    columns, _ = example_table(found, ["answer"])
    assert [column.title for column in columns] == ["example", *"●■▲◆▼★", "answer"]


def test_only_what_a_run_has_attacked_can_be_missed(home: Path) -> None:
    best, half = run_of(home, "best-1", range(12)), run_of(home, "half-1", range(6))
    live = run_of(home, "live-1", [0, 13], attacked=4, phase="running")
    marks = {row.key: text_of(row)[1:3] for row in example_table(compared(best, live), [])[1]}
    # It has attacked the examples 0 to 3 and 13.
    assert marks == {"13": ["✗", "✓"], "1": ["✓", "✗"], "2": ["✓", "✗"], "3": ["✓", "✗"]}
    rows = {row.key: text_of(row)[0] for row in difference_table(compared(best, live), is_dark=True)[1]}
    assert rows["solved by"].split()[2:] == ["both", "1", "only", "●", "3", "■", "1"]
    assert rows["attacked"] == "of the 5 examples that all have attacked"
    # Of 6 examples that two of the three solve, the third has attacked 3, and solves none of them.
    rows = {
        row.key: text_of(row)[0] for row in difference_table(compared(best, half, live), is_dark=True)[1] if row.spans
    }
    assert " ".join(rows["solved by"].split()[2:]) == "all 1 several 3 only ● 0 ■ 0 ▲ 1"
    marks = {row.key: text_of(row)[1:4] for row in example_table(compared(best, half, live), [])[1]}
    assert marks["7"] == ["✓", "✗", "–"] and "4" not in marks


def test_the_verdict_on_runs_at_work_is_about_what_they_have_attacked_so_far(home: Path) -> None:
    best, half = run_of(home, "best-1", range(12)), run_of(home, "half-1", range(6), seed=1)
    live = run_of(home, "live-1", [0, 13], attacked=4, phase="running")
    assert verdict_of(compared(live, best)) == (
        "So far, ■ best solves 4 and ● live 2 of the 5 examples that all runs have attacked."
    )
    assert verdict_of(compared(best, half, live)).startswith("So far, best some beats half some by 0.375 [")
    new = recorded_run(home, id_="new-1", pid=os.getpid())
    new.event("phase", phase="running")
    assert verdict_of(compared(best, new)) == "So far, the runs have attacked no example in common."
    # What a stopped run has not attacked is no miss of its attack.
    for phase in ("running", "stopped", "crashed"):
        live.event("phase", phase=phase)
        assert verdict_of(compared(live, best)).startswith("So far, ■ best solves 4 and ● live 2 of the 5 examples")
        assert not compared(live, best).pairs
    whole = run_of(home, "whole-1", [0, 13], phase="stopped")
    assert verdict_of(compared(whole, best)).startswith("So far, best some beats whole some by 0.6")


def test_runs_with_different_limits_are_compared_on_the_examples_of_the_smallest(home: Path) -> None:
    whole, part = run_of(home, "whole-1", [0, 1, 2, 12]), run_of(home, "part-1", [0], limit=8)
    found = compared(whole, part)
    verdict, title, limits = header_of(found)
    assert title.endswith("8 examples · Recall@50") and " took " not in verdict
    assert limits == (
        "The --limits differ, so only the examples of the smallest one are compared. Use one --limit to compare all."
    )
    assert [text_of(row)[2] for row in forest_table(found, is_dark=True)[1]] == ["0.375", "0.125"]
    assert [row.key for row in example_table(found, [])[1]] == ["1", "2"]
    assert len(header_of(compared(whole, run_of(home, "next-1", [0], seed=1)))) == 2


def test_a_comparison_begins_with_its_verdict(runs: list[Recorded], home: Path) -> None:
    best, half, live = runs
    assert verdict_of(compared(live, best, half)).startswith("So far, best some beats half some by 0.375 [")
    assert verdict_of(compared(half, best)) == verdict_of(compared(best, half))
    assert verdict_of(compared(best, half)).endswith(" best took as long.")
    near = run_of(home, "near-1", range(11), seed=2)
    assert "(not corrected for 3 pairs). best took" in verdict_of(compared(near, best, half))
    assert verdict_of(compared(near, best)).startswith("best some and near some cannot be told apart: 0.062 [0.000, ")


def test_what_was_set_for_the_attack_comes_before_other_settings(home: Path) -> None:
    pair = [run_of(home, f"{name}-1", [0], seed=name == "b", params={"width": name}) for name in "ab"]
    assert next(row.key for row in setting_table(compared(*pair))[1]) == "params.width"


def test_examples_that_split_the_runs_most_evenly_are_first(runs: list[Recorded]) -> None:
    columns, rows = example_table(compared(*runs), answer_texts(runs[0].folder))
    assert [column.title for column in columns[1:]] == ["● best", "■ half", "▲ live", "answer"]
    assert text_of(rows[0])[4].split() == [str(token) for token in runs[0].answers[int(rows[0].key)]]
    assert [row.key for row in rows] == [str(example) for example in range(12) if not 3 <= example < 6]
    assert text_of(rows[0])[1:4] == ["✓", "✓", "✗"] and text_of(rows[-1])[1:4] == ["✓", "✗", "✗"]


def test_runs_that_solve_the_same_have_no_examples(home: Path) -> None:
    same = [run_of(home, id_, range(5)) for id_ in ("one-1", "two-1")]
    assert example_table(compared(*same), [])[1] == []


def test_settings_are_listed_and_hashes_only_say_that_they_differ(home: Path) -> None:
    first = run_of(home, "one-1", range(5), params={"trials": 1, "long": "x" * 200, "p": 0.1 + 0.2})
    second = run_of(home, "two-1", range(5), params={"trials": 2, "long": "y" * 200})
    for run, digest in ((first, "a" * 64), (second, "b" * 64)):
        change_spec(run.folder, attack={"sha256": digest})
    columns, rows = setting_table(compared(first, second))
    found = {row.key: text_of(row) for row in rows}
    assert found["params.trials"] == ["trials", "1", "2"]
    assert found["params.p"] == ["p", "0.3", "–"]
    assert all(len(cell) <= 28 for cell in found["params.long"])
    assert found[SOURCE] == ["source ⏎", "version 1", "version 2"]
    assert not any("aaaa" in cell for row in found.values() for cell in row)
    assert [column.title for column in columns] == ["setting", "● one", "■ two"]


def test_a_run_without_a_guess_has_no_numbers(home: Path) -> None:
    empty = recorded_run(home, id_="none-1", pid=os.getpid())
    empty.event("phase", phase="crashed")
    found = compared(run_of(home, "best-1", range(12)), empty)
    assert not found.pairs
    _, rows = forest_table(found, is_dark=True)
    assert text_of(rows[1])[0].endswith("crashed")
    assert [text_of(row)[2] for row in rows] == ["0.750", "–"] and text_of(rows[1])[3] == ""
    tables = [scores_and_pace(found.comparison), recall_over_budget(found.comparison)]
    assert all("–" in row[-1] or "–" in row[3] for _, _, row in tables) and contrasts(found.comparison) == []
