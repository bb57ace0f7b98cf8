"""The page of the runs: the list, the preview, filters, groups, the cursor and the first run."""

import os
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from harness.runs.folder import remove_run
from harness.tui.screens.dialogs import NameDialog
from harness.tui.screens.main import MainScreen
from harness.tui.screens.run import RunScreen
from tests.functional.machine import Machine
from tests.records import recorded_audit
from tests.tui.piloting import SIZES, burst, on_page, open_app, press, screen_text, text_of, title_of, until
from tests.tui.stored import CRASHED, DRAWS, AddRun, stored_run
from tests.tui.tables import drawn_cursor, listed, rows_of, runs, table_of

pytestmark = pytest.mark.usefixtures("two_runs")


@pytest.mark.parametrize("size", SIZES)
async def test_runs_are_listed_at_any_size(size: tuple[int, int]) -> None:
    async with open_app(size=size) as pilot:
        await listed(pilot, CRASHED, DRAWS)
        rows = rows_of(runs(pilot))
        assert rows[DRAWS][:4] == ["✓ aaaa", "draws", "finished", "0.125"] and rows[CRASHED][2] == "crashed"
        assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())
        if size[0] >= 80:
            assert "draws" in screen_text(pilot.app) and "crashed" in screen_text(pilot.app)


async def test_every_line_of_the_table_is_as_wide_as_the_table(pilot: Pilot[None]) -> None:
    await listed(pilot, CRASHED, DRAWS)
    for width in (120, 80, 60, 41):
        await pilot.resize_terminal(width, 30)
        await pilot.pause()
        table = runs(pilot)
        lines = [table.render_line(y) for y in range(table.size.height)]
        assert {line.cell_length for line in lines} == {table.size.width}


async def test_an_audit_neither_is_in_the_list_nor_changes_its_columns(machine: Machine) -> None:
    async def columns(pilot: Pilot[None]) -> list[str]:
        await until(pilot, lambda: runs(pilot).row_count)
        return [str(column.title) for column in runs(pilot)._columns if not callable(column.title)]

    before: list[str] = []
    async with open_app() as pilot:
        before.extend(await columns(pilot))
    audit = recorded_audit(pid=os.getpid())
    audit.event("phase", phase="finished")
    try:
        async with open_app() as pilot:
            assert await columns(pilot) == before and "Recall@100" in before
            assert runs(pilot).keys == [CRASHED, DRAWS]
            await on_page(pilot, 3)
            await until(pilot, lambda: table_of(pilot, "audits").keys == ["abcd-sequence-corpus"])
    finally:
        remove_run(audit.folder)


async def test_a_filter_keeps_matching_runs_and_escape_removes_it(pilot: Pilot[None]) -> None:
    await listed(pilot, CRASHED, DRAWS)
    burst(pilot, "/", *"CRASH")
    await listed(pilot, CRASHED)
    assert title_of(pilot, "list") == "Runs · 1 of 2"
    await pilot.press(*"[/q")
    await until(pilot, lambda: "Nothing matches. Escape shows all." in screen_text(pilot.app))
    assert pilot.app.screen.query_one("#filter", Input).value == "CRASH[/q"
    await pilot.press("enter", "escape")
    await listed(pilot, CRASHED, DRAWS)
    await until(pilot, lambda: runs(pilot).has_focus)


async def test_keys_after_enter_in_the_filter_are_keys_of_the_list(pilot: Pilot[None]) -> None:
    await listed(pilot, CRASHED, DRAWS)
    burst(pilot, "/", *"draws", "enter", "space")
    await until(pilot, lambda: title_of(pilot, "list") == "Runs · 1 of 2 · 1 marked")
    assert pilot.app.screen.query_one("#filter", Input).value == "draws"


async def test_o_sorts_by_the_next_column_and_marks_it_with_an_arrow() -> None:
    async with open_app(size=(200, 40)) as pilot:
        await listed(pilot, CRASHED, DRAWS)
        for title, first in (
            ("Recall@100 ▼", DRAWS),
            ("run ▲", DRAWS),
            ("attack ▲", DRAWS),
            ("status ▲", CRASHED),
            ("time ▼", CRASHED),
            ("note ▲", CRASHED),
            ("started ▼", CRASHED),
        ):
            await press(pilot, "o", then=lambda title=title: title in screen_text(pilot.app))
            assert runs(pilot).keys[0] == first


async def test_a_click_on_a_title_sorts_and_one_on_a_row_moves_the_cursor(pilot: Pilot[None]) -> None:
    await listed(pilot, CRASHED, DRAWS)
    table = runs(pilot)
    title = next(line for line in screen_text(pilot.app).splitlines() if "Recall@100" in line)
    await pilot.click("#runs", offset=(title.index("Recall@100") - table.region.x, 0))
    await until(pilot, lambda: runs(pilot).keys == [DRAWS, CRASHED])
    await pilot.click("#runs", offset=(5, 2))
    await until(pilot, lambda: runs(pilot).key_under_cursor == CRASHED)
    await pilot.click("#runs", offset=(5, 1), times=2)
    await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen) and pilot.app.screen.folder.id == DRAWS)


async def test_runs_of_several_rounds_are_in_groups_that_close(add_run: AddRun) -> None:
    other = add_run("cccc-draws-other", age=-10.0, round_name="other")
    async with open_app() as pilot:
        await listed(pilot, "group other", other.id, "group small", CRASHED, DRAWS)
        assert rows_of(runs(pilot))["group small"] == ["▾ small  2 runs, best Recall@100 0.125"]
        runs(pilot).move_to("group small")
        await pilot.press("enter")
        await listed(pilot, "group other", other.id, "group small")
        assert rows_of(runs(pilot))["group small"] == ["▸ small  2 runs, best Recall@100 0.125"]


async def test_the_preview_follows_the_cursor(pilot: Pilot[None]) -> None:
    await listed(pilot, CRASHED, DRAWS)
    for id_, words in ((DRAWS, "0.125"), (CRASHED, "0.000")):
        runs(pilot).move_to(id_)
        await until(pilot, lambda id_=id_: id_ in title_of(pilot, "preview"))
        assert words in text_of(pilot, "#facts") and "round" in text_of(pilot, "#facts")


async def test_home_and_end_go_to_the_first_and_the_last_row(machine: Machine) -> None:
    async with open_app(size=(60, 20)) as pilot:
        await listed(pilot, CRASHED, DRAWS)
        for first, last in (("home", "end"), ("g", "G"), ("k", "j"), ("up", "down"), ("pageup", "pagedown")):
            await press(pilot, last, then=lambda: runs(pilot).key_under_cursor == DRAWS)
            assert runs(pilot)._first_column == 1
            await press(pilot, first, then=lambda: runs(pilot).key_under_cursor == CRASHED)
            assert "bbbb" in drawn_cursor(pilot, runs(pilot))


async def test_left_and_right_scroll_the_columns_behind_a_frozen_name() -> None:
    async with open_app(size=(60, 20)) as pilot:
        await listed(pilot, CRASHED, DRAWS)
        assert "started" not in screen_text(pilot.app)
        await press(pilot, *["right"] * 8, then=lambda: "started" in screen_text(pilot.app))
        assert "✓ aaaa" in screen_text(pilot.app) and "‹" in screen_text(pilot.app)
        await pilot.press(*["left"] * 8)
        await until(pilot, lambda: "attack" in screen_text(pilot.app) and "‹" not in screen_text(pilot.app))


async def test_after_another_screen_the_cursor_is_visible_and_on_the_run_it_was_on(add_run: AddRun) -> None:
    many = [add_run(f"m{number:03}-draws-small", age=100_000.0 + number) for number in range(40)]
    async with open_app(size=(80, 24)) as pilot:
        await until(pilot, lambda: runs(pilot).row_count == 42)
        chosen = many[30].id
        runs(pilot).move_to(chosen)
        await press(pilot, "enter", then=RunScreen)
        # A new run above moves all rows meanwhile.
        add_run("n000-draws-small", age=-100.0)
        await until(pilot, lambda: runs(pilot).row_count == 43)
        await press(pilot, "escape", then=MainScreen)
        assert runs(pilot).key_under_cursor == chosen and "m030" in drawn_cursor(pilot, runs(pilot))
        await press(pilot, "i", then=NameDialog)
        assert chosen in screen_text(pilot.app)
        await pilot.press("escape")


async def test_enter_opens_a_run_and_escape_returns(pilot: Pilot[None]) -> None:
    await listed(pilot, CRASHED, DRAWS)
    await press(pilot, "enter", then=RunScreen)
    await until(pilot, lambda: "misbehaving on small" in screen_text(pilot.app))
    await press(pilot, "escape", then=MainScreen)


async def test_n_goes_to_the_attacks(pilot: Pilot[None]) -> None:
    await listed(pilot, CRASHED, DRAWS)
    await pilot.press("n")
    await until(pilot, lambda: pilot.app.screen.query("#attacks-page") and table_of(pilot, "attacks").has_focus)


@pytest.mark.parametrize("size", SIZES)
async def test_an_empty_home_shows_the_card_of_the_first_run(home: Path, size: tuple[int, int]) -> None:
    (home / "state").mkdir()
    async with open_app(size=size) as pilot:
        if size[0] >= 80:
            await until(pilot, lambda: "How much of its training data" in screen_text(pilot.app))
            assert "Recall@100" in screen_text(pilot.app)
        # Keys that need a run do nothing.
        await pilot.press("space", "c", "p", "s", "r", "x", "i", "o", "v", "slash", "escape")
        assert isinstance(pilot.app.screen, MainScreen)
        stored_run(home, DRAWS)
        await listed(pilot, DRAWS)
        await until(pilot, lambda: runs(pilot).has_focus and not pilot.app.screen.query_one("#first-run").region)


@pytest.mark.parametrize("theme", ["textual-light", "nord"])
async def test_it_is_readable_in_any_theme_without_colours(theme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_app() as pilot:
        pilot.app.theme = theme
        await until(pilot, lambda: "finished" in screen_text(pilot.app) and "✓ aaaa" in screen_text(pilot.app))
        assert "▌" in screen_text(pilot.app)


async def test_a_click_on_the_titles_of_a_list_without_a_match_does_nothing(pilot: Pilot[None]) -> None:
    await listed(pilot, CRASHED, DRAWS)
    await press(pilot, "slash", *"nomatch", "enter", then=lambda: "Nothing matches" in screen_text(pilot.app))
    for x in range(0, 60, 6):
        await pilot.click("#runs", offset=(x, 0))
    await press(pilot, "o", "right", "left", "escape", then=lambda: DRAWS in runs(pilot).keys)
