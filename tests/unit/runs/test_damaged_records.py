"""Whatever a record holds in the place of what was written there, reading it ends in a sentence that names it."""

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.analysis.candidates import example_in
from harness.analysis.comparison import compared
from harness.analysis.decoded_text import TokenText
from harness.analysis.reference_curve import best_earlier_curve
from harness.core.errors import HarnessError
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.summary import nondeterminism_reasons, run_status, run_summary
from harness.tui.guess_search import search_guesses
from harness.tui.run_feed import RunFeed
from tests.functional.machine import homes
from tests.unit.tui.recorded import EXAMPLES, recorded_run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def finished(home: Path, id_: str, *, created_at: float = 1e9) -> RunFolder:
    run = recorded_run(home, id_=id_, pid=os.getpid(), created_at=created_at)
    batch = run.batch("0")
    run.guess(batch, [(example, example % 2 == 0, -float(example)) for example in range(EXAMPLES)])
    with run.store.transaction():
        run.store.end_batch(*batch)
        run.store.add_ledger("end", 12.0)
        run.store.add_point(spent=3.0, guesses=EXAMPLES, rows=EXAMPLES, solved=8, wrong=8, recall=0.5)
        run.store.add_event("phase", phase="finished")
    run.store.close()
    return run.folder


def searched(folder: RunFolder) -> object:
    return search_guesses("x", RunFeed(folder), TokenText(None), on_progress=lambda share: True)


READERS: dict[str, Callable[[RunFolder], object]] = {
    "status": run_status,
    "summary": run_summary,
    "promises": nondeterminism_reasons,
    "feed": lambda folder: RunFeed(folder).poll(),
    "search": searched,
    "example": lambda folder: example_in(folder, 3),
    "comparison": lambda folder: compared([folder, RunFolder(folder.path.with_name("whol-some"))]),
}
ROWS = {
    "the time spent": "UPDATE ledger SET spent = 'a while'",
    "a recall": "UPDATE point SET recall = 'high'",
    "a number of guesses": "UPDATE point SET guesses = x'00'",
    "a score": "UPDATE guess SET score = 'good'",
    "an example": "UPDATE guess SET example = 'some'",
    "an example too large": "UPDATE guess SET example = 1e30",
    "a suffix": "UPDATE guess SET suffix = 7",
    "an attempt": "UPDATE guess SET attempt = x''",
    "a done batch's time": "UPDATE done SET at = 'then'",
    "a process without its creation": """UPDATE event SET detail = '{"pid": 1}' WHERE name = 'supervisor'""",
    "a process of no number": """UPDATE event SET detail = '{"pid": []}' WHERE name = 'supervisor'""",
    "a phase without a name": "UPDATE event SET detail = '{}' WHERE name = 'phase'",
    "a final order of no generation": "INSERT INTO event (at, name, detail) VALUES (0, 'final_order', '{}')",
    "an event that is no object": "UPDATE event SET detail = '[]'",
}


def with_rows_of(statement: str) -> Callable[[RunFolder], None]:
    def damage(folder: RunFolder) -> None:
        with contextlib.closing(sqlite3.connect(folder.store)) as db, db:
            db.execute(statement)

    return damage


def with_a_spec_of(**fields: object) -> Callable[[RunFolder], None]:
    def damage(folder: RunFolder) -> None:
        folder.spec_file.write_text(json.dumps(json.loads(folder.spec_file.read_text()) | fields))

    return damage


def with_a_scorecard_of(text: str) -> Callable[[RunFolder], None]:
    def damage(folder: RunFolder) -> None:
        folder.scorecard.write_text(text)

    return damage


def with_a_folder_for_its_note(folder: RunFolder) -> None:
    folder.note.mkdir()


DAMAGES = {
    **{name: with_rows_of(statement) for name, statement in ROWS.items()},
    "a spec whose examples are a word": with_a_spec_of(examples="all"),
    "a spec of less than no examples": with_a_spec_of(examples=-3),
    "a spec of no attack": with_a_spec_of(attack=None),
    "a scorecard of words": with_a_scorecard_of('{"recall_at_cap": "high"}'),
    "a scorecard that is a list": with_a_scorecard_of("[1, 2]"),
    "a note that is a folder": with_a_folder_for_its_note,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_read_or_refused_in_a_sentence_that_names_it(home: Path, damage: str) -> None:
    finished(home, "whol-some")
    folder = finished(home, "torn-some")
    DAMAGES[damage](folder)
    refused = 0
    for name, read in READERS.items():
        try:
            read(folder)
        except HarnessError as error:
            refused += 1
            assert folder.id in str(error), f"{name}: {error}"
            assert str(error).count("cannot be read") <= 1, f"{name}: {error}"
    assert refused


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_no_yardstick_and_hides_none(home: Path, damage: str) -> None:
    whole = finished(home, "whol-some", created_at=1e9)
    torn = finished(home, "torn-some", created_at=2e9)
    later = finished(home, "late-some", created_at=3e9)
    DAMAGES[damage](torn)
    try:
        reference = best_earlier_curve("some", later.spec())
    except HarnessError as error:
        assert torn.id in str(error)
    else:
        assert reference is not None and reference.id in (whole.id, torn.id)


@pytest.mark.parametrize(
    "fault",
    [OSError("gone"), sqlite3.DatabaseError("torn"), ValueError("odd"), TypeError("no"), OverflowError("large")],
)
def test_a_fault_of_reading_names_the_record_and_keeps_its_cause(fault: Exception) -> None:
    with pytest.raises(HarnessError) as raised, as_harness_error(Path("/runs/abcd")):
        raise fault
    assert str(raised.value) == f"/runs/abcd: cannot be read ({fault})."
    assert raised.value.__cause__ is fault


def test_a_key_that_is_missing_is_named() -> None:
    with (
        pytest.raises(HarnessError, match=r"^/runs/abcd: cannot be read \('phase' is missing\)\.$"),
        as_harness_error("/runs/abcd"),
    ):
        raise KeyError("phase")


def test_what_is_told_already_keeps_its_own_text() -> None:
    with (
        pytest.raises(HarnessError, match=r"^the round is blind\.$"),
        as_harness_error("outer"),
        as_harness_error("inner"),
    ):
        raise HarnessError("the round is blind.")


def test_a_defect_of_the_reader_is_not_taken_for_damage() -> None:
    with pytest.raises(AttributeError), as_harness_error("record"):
        raise AttributeError("no such method")
