"""The page of the runs: comparing, notes, deleting, damaged runs, and the end of a run."""

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from harness.runs.folder import RunFolder, remove_run
from harness.tui.app import HarnessApp
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.dialogs import ConfirmDialog, NameDialog
from harness.tui.screens.main import MainScreen
from harness.tui.screens.run import RunScreen
from tests.functional.machine import Machine
from tests.tui.piloting import burst, notifications, open_app, press, screen_text, title_of, until
from tests.tui.stored import CRASHED, DRAWS, AddRun, live_run
from tests.tui.tables import go_to, listed, rows_of, runs

pytestmark = pytest.mark.usefixtures("two_runs")


@pytest.fixture
def spoilt(machine: Machine) -> Iterator[RunFolder]:
    """A copy of the finished run, which a test may damage."""
    folder = RunFolder(machine.runs / "zzzz-spoilt")
    shutil.copytree(machine.runs / DRAWS, folder.path)
    yield folder
    shutil.rmtree(folder.path, ignore_errors=True)


async def test_marked_runs_are_compared_and_escape_unmarks_them(add_run: AddRun) -> None:
    second = add_run("cccc-draws-small", range(4), seed=1, age=100_000.0)
    async with open_app() as pilot:
        await go_to(pilot, DRAWS)
        burst(pilot, "space", "space")
        await until(pilot, lambda: title_of(pilot, "list") == "Runs")
        burst(pilot, "space", "down", "space")
        await until(pilot, lambda: title_of(pilot, "list") == "Runs · 2 marked")
        assert [rows_of(runs(pilot))[id_][0] for id_ in (DRAWS, second.id)] == ["● ✓ aaaa", "● ✓ cccc"]
        await press(pilot, "c", then=CompareScreen)
        await until(pilot, lambda: "2 runs of small" in screen_text(pilot.app))
        await press(pilot, "escape", then=MainScreen)
        # The comparison used the marks.
        await until(pilot, lambda: title_of(pilot, "list") == "Runs")
        burst(pilot, "space", "up", "space")
        await until(pilot, lambda: title_of(pilot, "list") == "Runs · 2 marked")
        await press(pilot, "escape", then=lambda: title_of(pilot, "list") == "Runs")


async def test_one_run_is_compared_with_the_best_other(add_run: AddRun) -> None:
    baseline = add_run("cccc-baseline-small", range(20), name="baseline", age=100_000.0)
    async with open_app() as pilot:
        await go_to(pilot, DRAWS)
        screen = await press(pilot, "c", then=CompareScreen)
        assert [folder.id for folder in screen._folders] == [DRAWS, baseline.id]


async def test_a_run_on_a_part_is_compared_with_the_best_on_the_whole_round(add_run: AddRun) -> None:
    part = add_run("pppp-draws-small", range(8), limit=32, age=100_000.0)
    baseline = add_run("cccc-baseline-small", range(20), name="baseline", age=100_000.0)
    async with open_app() as pilot:
        await go_to(pilot, part.id)
        screen = await press(pilot, "c", then=CompareScreen)
        assert {folder.id for folder in screen._folders} == {part.id, baseline.id}
        await until(pilot, lambda: "The --limits differ" in screen_text(pilot.app))


async def test_a_run_without_another_of_its_round_is_not_compared(add_run: AddRun) -> None:
    alone = add_run("cccc-draws-other", age=100_000.0, round_name="other")
    async with open_app() as pilot:
        await go_to(pilot, alone.id)
        await press(pilot, "c", then=lambda: "no other run of this round" in notifications(pilot))
        assert isinstance(pilot.app.screen, MainScreen)


async def test_a_note_is_saved_and_shown(machine: Machine) -> None:
    async with open_app() as pilot:
        await go_to(pilot, DRAWS)
        await press(pilot, "i", then=NameDialog)
        burst(pilot, *"tried [/b]", "enter")
        await until(pilot, lambda: rows_of(runs(pilot))[DRAWS][7] == "tried [/b]")
    RunFolder(machine.runs / DRAWS).note.unlink()


async def test_tags_are_saved_and_shown(machine: Machine, pilot: Pilot[None]) -> None:
    await go_to(pilot, DRAWS)
    for typed, shown in (("best old", "best old"), ("old", "old"), ("", "")):
        await press(pilot, "t", then=NameDialog)
        burst(pilot, "end", "ctrl+u", *typed, "enter")
        name = f"✓ aaaa {shown}".strip()
        await until(pilot, lambda name=name: rows_of(runs(pilot))[DRAWS][0].strip() == name)


async def test_marked_runs_are_deleted_together_and_restored(add_run: AddRun) -> None:
    two = [add_run(f"{name}-draws-small", age=-5.0) for name in ("xxxx", "yyyy")]
    async with open_app() as pilot:
        await until(pilot, lambda: {folder.id for folder in two} <= set(runs(pilot).keys))
        for folder in two:
            runs(pilot).move_to(folder.id)
            await pilot.press("space")
        for answer in ("n", "enter", "escape", "y"):
            await press(pilot, "x", then=ConfirmDialog)
            assert "2 marked runs" in screen_text(pilot.app) and all(
                folder.id in screen_text(pilot.app) for folder in two
            )
            assert all(folder.path.exists() for folder in two)
            assert pilot.app.screen.focused is pilot.app.screen.query_one("#no")
            await press(pilot, answer, then=MainScreen)
        await listed(pilot, CRASHED, DRAWS)
        assert not any(folder.path.exists() for folder in two) and title_of(pilot, "list") == "Runs"
        await until(pilot, lambda: "u restores them" in notifications(pilot))
        await press(pilot, "u", then=lambda: {folder.id for folder in two} <= set(runs(pilot).keys))


async def test_a_restoration_waits_for_the_deletion_before_it(add_run: AddRun) -> None:
    folder = add_run("xxxx-draws-small", age=-5.0)
    async with open_app() as pilot:
        await until(pilot, lambda: folder.id in runs(pilot).keys)
        runs(pilot).move_to(folder.id)
        await press(pilot, "x", then=ConfirmDialog)
        await press(pilot, "y", then=MainScreen)
        await pilot.press("u")
        await until(pilot, lambda: f"Restored {folder.id}" in notifications(pilot))
        assert folder.path.exists()


async def test_marks_do_not_delete_when_the_cursor_is_on_another_run(add_run: AddRun) -> None:
    marked, other = (add_run(f"{name}-draws-small", age=-5.0) for name in ("xxxx", "yyyy"))
    async with open_app() as pilot:
        await until(pilot, lambda: {marked.id, other.id} <= set(runs(pilot).keys))
        runs(pilot).move_to(marked.id)
        await pilot.press("space")
        runs(pilot).move_to(other.id)
        await press(pilot, "x", then=ConfirmDialog)
        assert f"Delete {other.id}" in screen_text(pilot.app)
        await press(pilot, "y", then=lambda: other.id not in runs(pilot).keys)
        assert marked.path.exists() and title_of(pilot, "list") == "Runs · 1 marked"


async def test_the_screen_of_a_run_closes_when_the_run_is_deleted(add_run: AddRun) -> None:
    folder = add_run("xxxx-draws-small", age=-5.0)
    async with open_app(watched=folder) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await press(pilot, "x", then=ConfirmDialog)
        await press(pilot, "y", then=MainScreen)
        assert not folder.path.exists()


async def test_tags_that_cannot_be_read_are_a_message(spoilt: RunFolder) -> None:
    shutil.rmtree(spoilt.tags, ignore_errors=True)
    spoilt.tags.write_text("")
    async with open_app() as pilot:
        await go_to(pilot, spoilt.id)
        await press(pilot, "t", then=lambda: "tags: cannot be read" in notifications(pilot))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda store: store.write_bytes(b"\x00[/ no store" * 1000), "unreadable: "),
        (lambda store: _execute(store, "UPDATE point SET recall = 'high'"), "0.7: must be"),
    ],
    ids=["no store", "wrong types"],
)
async def test_an_unreadable_run_is_a_row_with_the_reason(
    spoilt: RunFolder, damage: Callable[[Path], object], words: str
) -> None:
    spoilt.summary.unlink(missing_ok=True)
    damage(spoilt.store)
    async with open_app() as pilot:
        await listed(pilot, CRASHED, DRAWS, spoilt.id)
        (row,) = rows_of(runs(pilot))[spoilt.id]
        assert row.startswith(f"✗ {spoilt.id}") and words in row and row.isprintable()
        runs(pilot).move_to(spoilt.id)
        await until(pilot, lambda: "no run under the cursor" in screen_text(pilot.app))
        await pilot.press("space", "c")
        await until(pilot, lambda: "no other run" in notifications(pilot) or isinstance(pilot.app.screen, MainScreen))
        assert isinstance(pilot.app.screen, MainScreen)


def _execute(store: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(store)) as db, db:
        db.execute(statement)


@pytest.mark.slow
async def test_a_locked_run_delays_neither_the_others_nor_the_keys(machine: Machine) -> None:
    finished = RunFolder(machine.runs / DRAWS)
    # Otherwise its summary is cached.
    finished.summary.unlink(missing_ok=True)
    holder = sqlite3.connect(finished.store, isolation_level=None)
    # A reader at the end of the run may have left it in WAL mode, in which readers are not blocked.
    holder.execute("PRAGMA journal_mode=DELETE")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        async with open_app(size=(200, 40)) as pilot:
            await listed(pilot, CRASHED, DRAWS)
            assert "locked" in rows_of(runs(pilot))[DRAWS][0]
            for title in ("Recall@100 ▼", "run ▲"):
                await press(pilot, "o", then=lambda title=title: title in screen_text(pilot.app))
            holder.execute("ROLLBACK")
            await until(pilot, lambda: rows_of(runs(pilot))[DRAWS][0] == "✓ aaaa")
    finally:
        holder.close()


async def test_the_end_of_a_run_is_announced_once(machine: Machine, add_run: AddRun) -> None:
    run = live_run(machine.folder, "eeee-patient-small", name="patient")
    async with open_app() as pilot:
        app = pilot.app
        assert isinstance(app, HarnessApp)
        bells = []
        app.bell = lambda: bells.append(1)  # type: ignore[method-assign]
        await until(pilot, lambda: run.folder.id in app.running_ids)
        assert "▶ " in screen_text(app)
        run.event("phase", phase="crashed")
        await until(pilot, lambda: len(bells) == 1)
        overview = app.overview
        # A change of another run updates the overview.
        add_run("cccc-draws-small")
        await until(pilot, lambda: app.overview is not overview)
        assert bells == [1]
    run.store.close()
    remove_run(run.folder)
