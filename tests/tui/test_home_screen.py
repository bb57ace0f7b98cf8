"""The home screen: lists of attacks and runs in any state."""

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from harness.runs.folder import RunFolder, remove_run
from harness.tui.app import HarnessApp
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.dialogs import NameDialog, RoundDialog
from harness.tui.screens.home import HomeScreen
from harness.tui.screens.run import RunScreen
from tests.functional.machine import PLUGINS, Machine
from tests.tui.piloting import SIZES, notifications, screen_text, until
from tests.tui.stored import stored_run


@pytest.fixture(scope="module", autouse=True)
def two_runs(machine: Machine, places: None) -> None:
    """A finished run and a crashed run."""
    stored_run(machine.folder, "aaaa-draws-small", [], examples=8, age=10.0)
    stored_run(machine.folder, "bbbb-misbehaving-small", [], name="misbehaving", phase="crashed")


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """Two attacks; the error of the broken one contains markup."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    shutil.copy(PLUGINS / "draws.py", folder)
    (folder / "broken.py").write_text("def broken(:  # [/ \x1b[31m\n")
    return folder


def home(
    plugins: Path | None, scenario: Callable[[Pilot[None]], Awaitable[Any]], *, size: tuple[int, int] = (120, 40)
) -> None:
    async def play() -> None:
        async with HarnessApp(attacks_folder=plugins).run_test(size=size) as pilot:
            await until(pilot, lambda: isinstance(pilot.app.screen, HomeScreen))
            await until(pilot, lambda: table(pilot, "runs").row_count)
            await scenario(pilot)

    asyncio.run(play())


def table(pilot: Pilot[None], name: str) -> DataTable[Any]:
    return pilot.app.screen_stack[1].query_one(f"#{name}", DataTable)


def rows(pilot: Pilot[None], name: str) -> list[list[str]]:
    shown = table(pilot, name)
    return [[str(cell) for cell in shown.get_row_at(row)] for row in range(shown.row_count)]


def words(pilot: Pilot[None]) -> str:
    return str(pilot.app.screen_stack[1].query_one("#words", Static).content)


async def attack_chosen(pilot: Pilot[None], name: str) -> None:
    place = [row[0] for row in rows(pilot, "attacks")].index(name)
    table(pilot, "attacks").move_cursor(row=place)
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
def test_attacks_and_runs_are_listed_at_any_size(plugins: Path, size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        assert {"broken", "draws"} <= {row[0] for row in rows(pilot, "attacks")}
        columns = [str(column.label).strip() for column in table(pilot, "runs").ordered_columns]
        assert ("attack" in columns) == (size[0] >= 110)
        listed = {(row[0].split("-")[1], row[1]) for row in rows(pilot, "runs")}
        assert listed == {("draws", "finished"), ("misbehaving", "crashed")}
        if size[0] >= 80:
            await until(pilot, lambda: "baseline" in screen_text(pilot.app) and "finished" in screen_text(pilot.app))

    home(plugins, scenario, size=size)


def test_a_broken_attack_is_a_row_with_its_error(plugins: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        (broken,) = [row for row in rows(pilot, "attacks") if row[0] == "broken"]
        assert broken[3].startswith("broken: ") and broken[3].isprintable()
        await attack_chosen(pilot, "broken")
        await until(pilot, lambda: "broken is broken" in words(pilot))
        table(pilot, "attacks").focus()
        await pilot.press("n")
        await until(pilot, lambda: pilot.app._notifications)
        assert isinstance(pilot.app.screen, HomeScreen)

    home(plugins, scenario, size=(200, 50))


def test_the_chosen_attack_is_described(plugins: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await attack_chosen(pilot, "draws")
        await until(pilot, lambda: "trials: " in words(pilot) and "Draws per example." in words(pilot))

    home(plugins, scenario, size=(200, 50))


def test_a_control_is_marked(plugins: Path) -> None:
    async def look(pilot: Pilot[None]) -> None:
        listed = {row[0].strip() for row in rows(pilot, "attacks")}
        assert "lookup (control)" in listed and "greedy" in listed

    home(plugins, look)


def test_saved_and_corrected_attacks_appear(plugins: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await attack_chosen(pilot, "broken")
        await until(pilot, lambda: "broken is broken" in words(pilot))
        source = (PLUGINS / "patient.py").read_text()
        (plugins / "patient.py").write_text(source)
        await until(pilot, lambda: "patient" in [row[0] for row in rows(pilot, "attacks")])
        (plugins / "broken.py").write_text(source.replace("patient", "broken"))
        await until(pilot, lambda: "An attack that runs for minutes" in words(pilot))

    home(plugins, scenario)


def test_a_filter_keeps_matching_runs_and_escape_removes_it(plugins: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"CRASH")
        await until(pilot, lambda: [row[2] for row in rows(pilot, "runs")] == ["misbehaving"])
        await pilot.press(*"[/q")
        await until(pilot, lambda: rows(pilot, "runs") == [])
        assert pilot.app.screen.query_one("#filter", Input).value == "CRASH[/q"
        await pilot.press("enter", "escape")
        await until(pilot, lambda: len(rows(pilot, "runs")) == 2)

    home(plugins, scenario)


def test_o_sorts_by_the_next_column(plugins: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        newest_first = ["misbehaving", "draws"]
        assert [row[2] for row in rows(pilot, "runs")] == newest_first
        orders = {}
        for _ in range(6):
            before = str(table(pilot, "runs").border_title)
            await pilot.press("o")
            await until(pilot, lambda before=before: str(table(pilot, "runs").border_title) != before)
            sorting = str(table(pilot, "runs").border_title).partition("by ")[2]
            orders[sorting] = [row[2] for row in rows(pilot, "runs")]
        assert list(orders) == ["recall", "attack", "round", "status", "elapsed", "started"]
        assert orders["attack"] == ["draws", "misbehaving"]
        assert orders["status"] == orders["started"] == orders["round"] == newest_first

    home(plugins, scenario)


def test_a_click_on_a_column_header_sorts(plugins: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        shown = table(pilot, "runs")
        attack = sum(column.get_render_width(shown) for column in shown.ordered_columns[:2]) + 2
        await pilot.click("#runs", offset=(attack + 1, 1))
        await until(pilot, lambda: "by attack" in str(shown.border_title))

    home(plugins, scenario)


def test_the_columns_follow_the_width(plugins: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        assert len(table(pilot, "runs").ordered_columns) == 7
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: len(table(pilot, "runs").ordered_columns) == 5)
        assert table(pilot, "runs").row_count == 2

    home(plugins, scenario)


def test_marked_runs_are_compared(plugins: Path, machine: Machine) -> None:
    second = stored_run(machine.folder, "cccc-draws-small", [], examples=8, seed=1)

    async def scenario(pilot: Pilot[None]) -> None:
        table(pilot, "runs").focus()
        await pilot.press("c")
        await until(pilot, lambda: "Mark at least two readable runs" in notifications(pilot))
        places = [place for place, row in enumerate(rows(pilot, "runs")) if row[2] == "draws"]
        for place in places:
            table(pilot, "runs").move_cursor(row=place)
            await pilot.press("space")
        assert "2 marked" in str(table(pilot, "runs").border_title)
        assert [row[0][0] for row in rows(pilot, "runs") if row[2] == "draws"] == ["●", "●"]
        await pilot.press("c")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
        await until(pilot, lambda: "2 runs of small" in screen_text(pilot.app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, HomeScreen))
        await pilot.press("escape")
        await until(pilot, lambda: "marked" not in str(table(pilot, "runs").border_title))

    home(plugins, scenario, size=(200, 50))
    remove_run(second)


def test_an_unreadable_run_is_not_compared(plugins: Path, machine: Machine) -> None:
    finished = next(folder for folder in machine.folders() if folder.attack_spec().attack.name == "draws")
    spoilt = RunFolder(finished.path.with_name("zzzz-spoilt"))
    shutil.copytree(finished.path, spoilt.path)
    spoilt.store.write_bytes(b"no store" * 1000)

    async def scenario(pilot: Pilot[None]) -> None:
        table(pilot, "runs").focus()
        names = [row[0].strip("● ") for row in rows(pilot, "runs")]
        for id_ in (spoilt.id, finished.id):
            table(pilot, "runs").move_cursor(row=names.index(id_))
            await pilot.press("space")
        assert "2 marked" in str(table(pilot, "runs").border_title)
        for here in (spoilt.id, finished.id):
            table(pilot, "runs").move_cursor(row=names.index(here))
            pilot.app.clear_notifications()
            await pilot.press("c")
            await until(pilot, lambda: "at least two readable runs" in notifications(pilot))
            assert isinstance(pilot.app.screen, HomeScreen)

    try:
        home(plugins, scenario)
    finally:
        remove_run(spoilt)


def test_the_best_recall_is_that_of_the_chosen_round(plugins: Path, machine: Machine) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        best = {row[0]: row[1] for row in rows(pilot, "attacks")}
        assert best["draws"] == "–"
        whole = stored_run(machine.folder, "dddd-draws-small", range(32))
        await pilot.press("b")
        await until(pilot, lambda: isinstance(pilot.app.screen, RoundDialog))
        pilot.app.screen.query_one(Input).focus()
        await pilot.press(*"[/no.toml", "enter")
        await until(
            pilot, lambda: "no such round file" in screen_text(pilot.app) or "unknown" in screen_text(pilot.app)
        )
        pilot.app.screen.query_one(Input).value = str(machine.folder / "round.toml")
        await pilot.press("enter")
        await until(pilot, lambda: "best Recall@100 on small" in str(table(pilot, "attacks").border_title))
        await until(pilot, lambda: {row[0]: row[1] for row in rows(pilot, "attacks")}["draws"] == "0.500")
        remove_run(whole)

    home(plugins, scenario)


def test_the_name_of_a_new_attack_is_asked_for(plugins: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        before = sorted(plugins.iterdir())
        await pilot.press("a")
        await until(pilot, lambda: isinstance(pilot.app.screen, NameDialog))
        assert pilot.app.screen.query_one(Input).value == "my_attack_1"
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, HomeScreen))
        assert sorted(plugins.iterdir()) == before

    home(plugins, scenario)


def test_i_shows_the_description_in_a_narrow_terminal(plugins: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await attack_chosen(pilot, "draws")
        await pilot.press("i")
        await until(pilot, lambda: "Draws per example." in screen_text(pilot.app))
        assert not table(pilot, "attacks").display
        await pilot.press("escape")
        await until(pilot, lambda: table(pilot, "attacks").display)

    home(plugins, scenario, size=(80, 24))


def test_enter_opens_a_run_and_escape_returns(plugins: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        table(pilot, "runs").focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        await until(pilot, lambda: "misbehaving on small" in screen_text(pilot.app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, HomeScreen))

    home(plugins, scenario)


def test_an_unreadable_run_is_a_row_with_the_reason(plugins: Path, machine: Machine) -> None:
    finished = next(folder for folder in machine.folders() if folder.attack_spec().attack.name == "draws")
    spoilt = RunFolder(finished.path.with_name("zzzz-spoilt"))
    shutil.copytree(finished.path, spoilt.path)
    spoilt.store.write_bytes(b"\x00[/ no store" * 1000)

    async def scenario(pilot: Pilot[None]) -> None:
        assert "1 cannot be read" in str(table(pilot, "runs").border_title)
        (unreadable,) = [row for row in rows(pilot, "runs") if row[1] == "unreadable"]
        assert unreadable[0].strip() == spoilt.id and str(spoilt.store) in unreadable[2]
        assert len(rows(pilot, "runs")) == 3
        remove_run(spoilt)
        await until(pilot, lambda: "cannot be read" not in str(table(pilot, "runs").border_title))

    home(plugins, scenario)


def test_a_run_with_wrong_column_types_is_unreadable(plugins: Path, machine: Machine) -> None:
    finished = next(folder for folder in machine.folders() if folder.attack_spec().attack.name == "draws")
    damaged = RunFolder(finished.path.with_name("zzzz-damaged"))
    shutil.copytree(finished.path, damaged.path)
    with contextlib.closing(sqlite3.connect(damaged.store)) as db, db:
        db.execute("UPDATE point SET recall = 'high'")

    async def scenario(pilot: Pilot[None]) -> None:
        (unreadable,) = [row for row in rows(pilot, "runs") if row[1] == "unreadable"]
        assert unreadable[0].strip() == damaged.id and "high" in unreadable[2]
        assert len(rows(pilot, "runs")) == 3

    try:
        home(plugins, scenario)
    finally:
        remove_run(damaged)


@pytest.mark.slow
def test_a_locked_run_delays_neither_the_others_nor_the_keys(plugins: Path, machine: Machine) -> None:
    finished = next(folder for folder in machine.folders() if folder.attack_spec().attack.name == "draws")
    # Otherwise its summary is cached.
    finished.summary.unlink(missing_ok=True)
    holder = sqlite3.connect(finished.store, isolation_level=None)
    # A reader at the end of the run may have left it in WAL mode, in which readers are not blocked.
    holder.execute("PRAGMA journal_mode=DELETE")
    holder.execute("BEGIN EXCLUSIVE")

    async def scenario(pilot: Pilot[None]) -> None:
        (locked,) = [row for row in rows(pilot, "runs") if row[1] == "unreadable"]
        assert locked[0].strip() == finished.id and "locked" in locked[2]
        assert [row[2] for row in rows(pilot, "runs") if row[1] != "unreadable"] == ["misbehaving"]
        for sorting in ("recall", "attack", "round"):
            await pilot.press("o")
            await until(pilot, lambda now=sorting: f"by {now}" in str(table(pilot, "runs").border_title))
        holder.execute("ROLLBACK")
        await until(pilot, lambda: [row[1] for row in rows(pilot, "runs")].count("finished") == 1)
        assert "cannot be read" not in str(table(pilot, "runs").border_title)

    try:
        home(plugins, scenario)
    finally:
        holder.close()


def test_a_missing_attacks_directory_is_a_message(tmp_path: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "nowhere" in words(pilot))

    home(tmp_path / "nowhere", scenario, size=(200, 50))


@pytest.mark.parametrize("editor", ["no-such-editor-[/", "vi '", " "])
def test_an_editor_that_does_not_start_is_a_message(
    plugins: Path, editor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor)

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: words(pilot))
        await pilot.press("e")
        await until(pilot, lambda: pilot.app._notifications)
        assert isinstance(pilot.app.screen, HomeScreen)

    home(plugins, scenario)


@pytest.mark.parametrize("theme", ["textual-light", "nord"])
def test_home_is_readable_in_any_theme_without_colours(
    plugins: Path, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scenario(pilot: Pilot[None]) -> None:
        pilot.app.theme = theme
        await until(pilot, lambda: "finished" in screen_text(pilot.app))

    home(plugins, scenario)
