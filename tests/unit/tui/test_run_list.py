"""The list of runs: filter words, groups, order, marks, and bars on one scale."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.runs.columns import RunColumn
from harness.runs.facts import facts_about
from harness.runs.reader import EtaBasis
from harness.runs.status import Status
from harness.runs.summary import RunSummary
from harness.tui import run_list
from harness.tui.columns import Row, fit, lay_out
from harness.tui.run_list import (
    HEADING,
    STATUS_CELLS,
    ListState,
    best_other,
    interval_bar,
    list_rows,
    matches,
    scale_title,
)
from tests.unit.tui.summaries import summary_of

OLD = summary_of("old-1", created_at=1.0, recall_at_cap=0.25, elapsed_s=30.0, note="the first try")
NEW = summary_of("new-1", created_at=3.0, attack="greedy", recall_at_cap=0.75, status=Status.STOPPED)
OTHER = summary_of("other-1", created_at=2.0, attack="lookup", round="small", is_control=True, is_partial=True)
BLIND = summary_of("blind-1", created_at=4.0, round="secret", is_blind=True, recall_at_cap=None)
RUNS = (NEW, OTHER, OLD)


def text_of(row: Row, column: int | None = None, *, width: int = 20) -> str:
    cells = row.cells if column is None else row.cells[column : column + 1]
    return " ".join("".join(text for text, _ in (cell(width) if callable(cell) else cell)) for cell in cells)


def keys(runs: Sequence[RunSummary], state: ListState = ListState()) -> list[str]:  # noqa: B008  it is frozen
    return [row.key for row in list_rows(runs, {}, state).rows]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"new-1", "other-1", "old-1"}),
        ("BASE", {"old-1"}),
        ("status:stopped", {"new-1"}),
        ("round:small", {"other-1"}),
        ("attack:e", {"new-1", "old-1"}),
        ("note:first", {"old-1"}),
        ("id:new", {"new-1"}),
        ("demo greedy", {"new-1"}),
        ("greedy lookup", set()),
        ("status:greedy", set()),
        ("unknown:greedy", set()),
        ("[/", set()),
    ],
)
def test_each_word_of_the_filter_must_match(query: str, found: set[str]) -> None:
    assert {run.id for run in RUNS if matches(run, ListState(query=query))} == found


def test_a_closed_group_shows_the_run_that_works() -> None:
    working = replace(NEW, parent="nightly", status=Status.RUNNING, progress=0.32, eta_s=60.0)
    heading, *_ = list_rows((working, OLD), {}, ListState()).rows
    assert heading.key == f"{HEADING}nightly"
    assert ", 1 running: 32% ETA 1:00" in text_of(heading)


def test_runs_without_a_recall_are_last_when_sorted_by_it() -> None:
    assert keys((replace(BLIND, round=OLD.round), OLD), ListState(sort_key="recall")) == ["old-1", "blind-1"]


def test_the_heading_of_a_round_names_the_cap_of_its_recall() -> None:
    smaller = replace(OLD, id="small-1", round="small", error_cap=20, recall_at_cap=0.5)
    headings = [text_of(row) for row in list_rows((NEW, OLD, smaller), {}, ListState()).rows if row.spans]
    assert [heading.partition(", ")[2] for heading in headings] == ["best Recall@100 0.750", "best Recall@20 0.500"]


def test_a_marked_run_and_special_runs_are_marked() -> None:
    rows = {row.key: row for row in list_rows((*RUNS, BLIND), {}, ListState(marked=frozenset({"old-1"}))).rows}
    assert text_of(rows["old-1"], 0) == "● ✓ old" and text_of(rows["new-1"], 0) == "  ■ new"
    assert text_of(rows["other-1"], 1).endswith(" partial control") and text_of(rows["blind-1"], 1).endswith(" blind")
    assert text_of(rows["blind-1"], 3) == "blind"


def test_all_bars_have_one_scale() -> None:
    runs = [replace(OLD, recall_interval=(0.2, 0.3)), replace(NEW, recall_interval=(0.5, 1.0))]
    columns, rows, _ = list_rows(runs, {}, ListState(sort_key="recall"))
    title = columns[4].title
    assert callable(title) and title(20) == "0" + "─" * 18 + "1"
    high, low = (text_of(row, 4) for row in rows)
    assert (high.index("─"), high.rindex("─")) == (10, 19) and high.index("●") == 14
    assert (low.index("─"), low.rindex("─"), low.index("●")) == (4, 6, 5)


@pytest.mark.parametrize("width", [1, 2, 5, 40])
@pytest.mark.parametrize("values", [(0.0, 0.0, 0.0), (1.0, 0.5, 2.0), (-1.0, -1.0, -1.0), (0.3, 0.3, 0.3)])
def test_a_bar_has_the_width_of_its_column(values: tuple[float, float, float], width: int) -> None:
    bar = interval_bar(values[0], values[1:], scale=(0.0, 1.0), colour="good")
    spans = bar(width) if callable(bar) else ()
    assert sum(len(text) for text, _ in spans) == width


def test_the_title_of_a_bar_has_the_ends_of_the_scale() -> None:
    assert scale_title(0.0, 0.5)(10) == "0──────0.5"


def test_running_runs_show_their_progress_and_eta() -> None:
    running = replace(OLD, status=Status.RUNNING, progress=0.5, eta_s=65.0)
    (row,) = list_rows([running], {}, ListState()).rows
    assert text_of(row, 2) == "━━━─── 50% late: 1:05"
    longest = replace(running, progress=0.99, eta_s=39_900.0, eta_basis=EtaBasis.ESTIMATED)
    for budget_s in (1.0, 1e6):
        (row,) = list_rows([replace(longest, budget_s=budget_s)], {}, ListState()).rows
        assert len(text_of(row, 2)) <= STATUS_CELLS
    (row,) = list_rows([replace(running, progress=None)], {}, ListState()).rows
    assert text_of(row, 2) == "running"


@pytest.mark.parametrize("available", [73, 76, 130])
@pytest.mark.parametrize("sort_key", ["started", "recall"])
def test_status_and_eta_of_a_running_run_are_never_hidden(available: int, sort_key: str) -> None:
    """The widths are those of the list on terminals of 120, 80 and 200 columns."""
    works = {"status": Status.RUNNING, "progress": 0.32, "eta_basis": EtaBasis.ESTIMATED, "budget_s": 90_000.0}
    running = replace(OLD, eta_s=39_900.0, tags=("best", "old"), changed={"seed": 1, "trials": 100}, **works)
    seed = replace(running, id="seed-1", parent="baseline-147c", round="small", eta_s=136.0)
    waiting = replace(NEW, status=Status.QUEUED, queue_position=1, queue_length=2, wait_at_most_s=86_400.0)
    state = ListState(marked=frozenset({"old-1", "seed-1"}), sort_key=sort_key)
    columns, rows, _ = list_rows([running, seed, waiting, OTHER], {}, state)
    layout = lay_out(columns, rows, available, first=1, sorted_by=3 if sort_key == "recall" else None)
    assert layout.numbers[:4] == (0, 1, 2, 3)
    cells = {row.key: fit(row.cells[2], layout.widths[2]) for row in rows if not row.spans}
    shown = {key: "".join(text for text, _ in spans).strip() for key, spans in cells.items()}
    assert shown["old-1"] == "━━──── 32% ETA about 11:05:00" and shown["new-1"] == "queued 1/2 ≤ 24:00:00"


def test_a_queued_run_waits_for_the_one_at_work_and_those_before_it() -> None:
    first = replace(NEW, status=Status.QUEUED, queue_position=1, queue_length=3, wait_about_s=34.0)
    third = replace(first, queue_position=3)
    assert [run_list.status_cell(run)[0][0] for run in (first, third)] == [
        "queued 1/3 about 0:34",
        "queued 3/3 0:34 +2 runs",
    ]


def test_runs_without_a_guess_have_no_recall_anywhere() -> None:
    empty = replace(NEW, id="empty-1", attack="baseline", guesses=0, recall_at_cap=0.0, recall_interval=(0.0, 0.9))
    (row,) = list_rows([empty], {}, ListState()).rows
    assert (text_of(row, 3), text_of(row, 4).strip()) == ("–", "")
    title = list_rows([empty, OLD], {}, ListState()).columns[4].title
    assert callable(title) and title(10) == "0─────0.25"
    assert best_other(NEW, [NEW, empty]) is None
    assert [fact.text for fact in facts_about(empty, ("recall", "exact_at_1"))] == ["no score"]


def test_an_unreadable_run_is_a_row_across_all_columns() -> None:
    rows = list_rows(RUNS, {"bad-1": "no store [/ \x1b[31m"}, ListState()).rows
    assert rows[-1].spans and rows[-1].key == "bad-1"
    assert "bad-1  unreadable: no store [/ " in text_of(rows[-1]) and text_of(rows[-1]).isprintable()
    assert list_rows(RUNS, {"bad-1": "gone"}, ListState(query="greedy")).rows[-1].key == "new-1"


def test_the_number_of_matches_is_that_of_all_groups() -> None:
    closed = ListState(toggled=frozenset({f"{HEADING}demo"}))
    assert list_rows(RUNS, {}, closed).matches == 3
    assert list_rows(RUNS, {}, ListState(query="greedy")).matches == 1


def test_the_title_has_the_cap_unless_the_caps_differ() -> None:
    assert list_rows(RUNS, {}, ListState()).columns[3].title == "Recall@100"
    assert list_rows([OLD, replace(NEW, error_cap=10)], {}, ListState()).columns[3].title == "Recall"


def test_a_run_is_compared_with_the_best_baseline_or_else_the_best_run() -> None:
    better = replace(OLD, id="better-1", recall_at_cap=0.4)
    partial = replace(OLD, id="partial-1", recall_at_cap=0.9, is_partial=True)
    assert best_other(NEW, [NEW, OLD, better, partial, OTHER, BLIND]) == better
    assert best_other(OLD, [OLD, NEW, OTHER]) == NEW
    assert best_other(OTHER, RUNS) is None


def test_a_column_of_the_list_of_runs_needs_one_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    device = RunColumn("device", lambda run: run.device, lambda run: run.device or "")
    monkeypatch.setattr(run_list, "_SHOWN", [*run_list._SHOWN, device])
    columns, rows, _ = list_rows([OLD], {}, ListState())
    assert columns[-1].title == "device" and len(rows[0].cells) == len(columns)
    assert text_of(rows[0], len(columns) - 1) == "cpu"
