"""The rows, figures and warnings of an audit in run.db."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.audit import FIGURES
from harness.core.frames import Frame
from harness.core.rows import Kind, split_into_frames, table, validate_columns
from harness.runs.audit_reader import AuditReader
from harness.runs.store import RunStore
from harness.supervisor.audit_job import RowIntake
from harness.supervisor.intake import IntakeError

ANSWERS = table("answer", item=Kind.INTEGER, mean=Kind.REAL, each=Kind.REALS, select=Kind.TEXT)
TABLES = (ANSWERS, FIGURES)


def rows(*items: int, mean: float = 0.5) -> dict[str, Any]:
    return {
        "item": list(items),
        "mean": [mean] * len(items),
        "each": [[item, np.nan] for item in items],
        "select": [f"'); -- {item}\u202e" for item in items],
    }


def take(intake: RowIntake, table_: Any, columns: dict[str, Any], key: str) -> None:
    for arrays in split_into_frames(table_, validate_columns(table_, columns)):
        frame = Frame("rows", len(next(iter(arrays.values()))), arrays, {"table": table_.name, "key": key})
        intake.take(frame, 100)


def figure(value: float, name: str = "rate") -> dict[str, Any]:
    return {"name": [name], "value": [value], "low": [np.nan], "high": [1.0], "of": [7]}


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "run.db", {f"audit_{one.name}": one for one in TABLES})


def test_rows_are_stored_exactly(store: RunStore, tmp_path: Path) -> None:
    intake = RowIntake(store, TABLES, rows=0)
    with store.transaction():
        intake.take(Frame("begin", fields={"key": "ask/0/0", "weight": 2.0}), 10)
        take(intake, ANSWERS, rows(3, 4, mean=float("nan")), "ask/0/0")
    with AuditReader(tmp_path / "run.db") as reader:
        found = reader.audit_rows(ANSWERS).columns
        assert found["item"].tolist() == [3, 4]
        assert np.isnan(found["mean"]).all()
        assert np.array_equal(found["each"], [[3, np.nan], [4, np.nan]], equal_nan=True)
        assert found["select"] == ["'); -- 3\u202e", "'); -- 4\u202e"]
        assert len(reader.audit_rows(ANSWERS, only_done=True).seq) == 0
        assert reader.row_count("audit_answer") == intake.rows == 2


def test_rows_of_an_earlier_attempt_are_void(store: RunStore, tmp_path: Path) -> None:
    intake = RowIntake(store, TABLES, rows=0)
    with store.transaction():
        for item in (1, 2):
            intake.take(Frame("begin", fields={"key": "ask/0/0", "weight": 1.0}), 10)
            take(intake, ANSWERS, rows(item), "ask/0/0")
            take(intake, FIGURES, figure(item / 10), "ask/0/0")
            take(intake, FIGURES, figure(np.inf, "other"), "ask/0/0")
        intake.take(Frame("done", fields={"key": "ask/0/0"}), 10)
    with AuditReader(tmp_path / "run.db") as reader:
        assert reader.audit_rows(ANSWERS, only_done=True).columns["item"].tolist() == [2]
        assert [(one.name, one.value, one.low, one.high, one.of) for one in reader.newest_figures()] == [
            ("rate", 0.2, None, 1.0, 7),
            ("other", None, None, 1.0, 7),
        ]
        assert reader.newest_figures()[0].text == "rate 0.200, n = 7"


def test_undeclared_tables_and_events_are_refused(store: RunStore) -> None:
    intake = RowIntake(store, (FIGURES,), rows=0)
    with store.transaction():
        intake.take(Frame("begin", fields={"key": "ask/0/0", "weight": 1.0}), 10)
        with pytest.raises(IntakeError, match="an invalid frame"):
            take(intake, ANSWERS, rows(1), "ask/0/0")
        with pytest.raises(IntakeError, match="unknown table"):
            intake.take(Frame("guess", fields={"key": "ask/0/0"}), 10)
        with pytest.raises(IntakeError, match="unknown event"):
            intake.take(Frame("event", fields={"name": "read_train"}), 10)


def test_repeated_warnings_are_stored_once_and_too_many_are_refused(store: RunStore, tmp_path: Path) -> None:
    intake = RowIntake(store, TABLES, rows=0)
    warning = Frame("event", fields={"name": "warning", "sentence": "line 3 holds no text."})
    with store.transaction(), pytest.raises(IntakeError, match="warnings"):
        for _ in range(2_000):
            intake.take(warning, 60)
    with AuditReader(tmp_path / "run.db") as reader:
        assert reader.warnings() == ["line 3 holds no text."]


@pytest.mark.parametrize("names", [["x" * 201], [f"rate {number}" for number in range(1_001)]])
def test_figures_stay_readable_for_a_list_of_runs(store: RunStore, names: list[str]) -> None:
    intake = RowIntake(store, TABLES, rows=0)
    with store.transaction():
        intake.take(Frame("begin", fields={"key": "", "weight": 0.0}), 10)
        with pytest.raises(IntakeError, match="more than 1,000 figures, or a name of more than 200 characters"):
            for name in names:
                take(intake, FIGURES, figure(0.5, name), "")


def test_a_text_is_no_longer_than_what_a_worker_may_emit(store: RunStore) -> None:
    intake = RowIntake(store, TABLES, rows=0)
    arrays = next(split_into_frames(ANSWERS, validate_columns(ANSWERS, rows(1))))
    size = (1 << 20) + 1
    arrays |= {"select": np.full((1, size), ord("x"), np.uint8), "select.bytes": np.array([size])}
    with store.transaction():
        intake.take(Frame("begin", fields={"key": "", "weight": 0.0}), 10)
        with pytest.raises(IntakeError, match="a text is too long"):
            intake.take(Frame("rows", 1, arrays, {"table": ANSWERS.name, "key": ""}), 100)
