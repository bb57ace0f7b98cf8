"""Reading a damaged record succeeds, or fails with an error that names the record."""

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.candidates import load_example
from harness.analysis.comparison import compare_runs
from harness.analysis.decoded_text import TokenText
from harness.analysis.replay import best_other_curve
from harness.core.errors import HarnessError
from harness.core.inputs import as_harness_error
from harness.runs.facts import read_record
from harness.runs.folder import RunFolder, run_folder
from harness.runs.reader import RunReader
from harness.runs.specs import AttackSpec
from harness.runs.store import RunStore
from harness.runs.summary import run_status, run_summary
from harness.tui.guess_search import search_guesses
from harness.tui.run_feed import RunFeed
from tests.records import finished_run

pytestmark = pytest.mark.usefixtures("home")


def search(folder: RunFolder) -> object:
    return search_guesses("x", RunFeed(folder), TokenText(None), on_progress=lambda share: True)


READERS: dict[str, Callable[[RunFolder], object]] = {
    "status": run_status,
    "summary": run_summary,
    "record": read_record,
    "feed": lambda folder: RunFeed(folder).poll(),
    "search": search,
    "example": lambda folder: load_example(folder, 3),
    "comparison": lambda folder: compare_runs([folder, RunFolder(folder.path.with_name("good-some"))]),
}
ROWS = {
    "spent time": "UPDATE ledger SET spent = 'a while'",
    "recall": "UPDATE point SET recall = 'high'",
    "guess count": "UPDATE point SET guesses = x'00'",
    "score": "UPDATE guess SET score = 'good'",
    "example": "UPDATE guess SET example = 'some'",
    "huge example": "UPDATE guess SET example = 1e30",
    "suffix": "UPDATE guess SET suffix = 7",
    "attempt": "UPDATE guess SET attempt = x''",
    "time of a done batch": "UPDATE done SET at = 'then'",
    "phase without a name": "UPDATE event SET detail = '{}' WHERE name = 'phase'",
    "final order without a generation": "INSERT INTO event (at, name, detail) VALUES (0, 'final_order', '{}')",
    "sandbox that is not text": """INSERT INTO event (at, name, detail) VALUES (0, 'worker', '{"sandbox": 5}')""",
    "limits that are missing": """INSERT INTO event (at, name, detail) VALUES (0, 'worker', '{"in_force": {}}')""",
    "event that is not an object": "UPDATE event SET detail = '[]'",
}


def change_rows(statement: str) -> Callable[[RunFolder], None]:
    def damage(folder: RunFolder) -> None:
        with contextlib.closing(sqlite3.connect(folder.store)) as db, db:
            db.execute(statement)

    return damage


def change_spec(**fields: object) -> Callable[[RunFolder], None]:
    def damage(folder: RunFolder) -> None:
        folder.spec_file.write_text(json.dumps(json.loads(folder.spec_file.read_text()) | fields))

    return damage


def write_scorecard(text: str) -> Callable[[RunFolder], None]:
    def damage(folder: RunFolder) -> None:
        folder.scorecard.write_text(text)

    return damage


def make_note_directory(folder: RunFolder) -> None:
    folder.note.mkdir()


DAMAGES = {
    **{name: change_rows(statement) for name, statement in ROWS.items()},
    "examples that are text": change_spec(examples="all"),
    "negative examples": change_spec(examples=-3),
    "spec without an attack": change_spec(attack=None),
    "scorecard with text": write_scorecard('{"recall_at_cap": "high"}'),
    "scorecard that is a list": write_scorecard("[1, 2]"),
    "note that is a directory": make_note_directory,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_can_be_read_or_is_named(home: Path, damage: str) -> None:
    finished_run(home, "good-some")
    folder = finished_run(home, "damaged-some")
    DAMAGES[damage](folder)
    errors = 0
    for name, read in READERS.items():
        try:
            read(folder)
        except HarnessError as error:
            errors += 1
            assert folder.id in str(error), f"{name}: {error}"
            assert str(error).count("cannot be read") <= 1, f"{name}: {error}"
    assert errors


@pytest.mark.parametrize("detail", [{"sentence": "\ud800"}, {"\udc80": 1}, {"sentence": "", "share": float("inf")}])
def test_every_detail_that_a_store_writes_is_read(home: Path, detail: dict[str, Any]) -> None:
    finished_run(home, "good-some")
    folder = finished_run(home, "warned-some")
    with contextlib.closing(RunStore(folder.store, folder.spec().stored_tables)) as store, store.transaction():
        store.add_event("worker_warning", **{"sentence": "", **detail})
        store.add_telemetry(detail)
    for read in READERS.values():
        read(folder)
    with RunReader(folder.store) as reader:
        assert reader.last_telemetry() == detail


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_not_a_reference(home: Path, damage: str) -> None:
    intact = finished_run(home, "good-some", created_at=1e9)
    damaged = finished_run(home, "damaged-some", created_at=2e9)
    later = finished_run(home, "late-some", created_at=3e9)
    DAMAGES[damage](damaged)
    try:
        reference = best_other_curve("some", later.attack_spec())
    except HarnessError as error:
        assert damaged.id in str(error)
    else:
        assert reference is not None and reference.id in (intact.id, damaged.id)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        *((kind("gone"), "gone") for kind in (OSError, sqlite3.DatabaseError, ValueError, TypeError, OverflowError)),
        (KeyError("phase"), "'phase' is missing"),
    ],
)
def test_a_read_error_names_the_innermost_record(fault: Exception, said: str) -> None:
    with pytest.raises(HarnessError) as raised, as_harness_error("outer"), as_harness_error(Path("/runs/abcd")):
        raise fault
    assert str(raised.value) == f"/runs/abcd: cannot be read ({said})."
    assert raised.value.__cause__ is fault


def test_a_bug_is_not_reported_as_damage() -> None:
    with pytest.raises(AttributeError), as_harness_error("record"):
        raise AttributeError("no such method")


def test_latest_is_not_the_run_before_a_damaged_one(home: Path) -> None:
    finished_run(home, "good-some", created_at=1e9)
    damaged = finished_run(home, "damaged-some", created_at=2e9)
    damaged.spec_file.write_text("{}")
    with pytest.raises(HarnessError, match=r"damaged-some/spec\.json: not the spec of a run"):
        run_folder("latest", AttackSpec)
