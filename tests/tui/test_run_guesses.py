"""The table of guesses: following the newest, verdicts, searching, and opening an example."""

from textual.pilot import Pilot
from textual.widgets import Input

from harness.runs.folder import RunFolder
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.run import RunScreen
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.log_drawer import LogDrawer
from tests.records import Recorded
from tests.tui.piloting import burst, open_run, press, screen_text, text_of, title_of, until
from tests.tui.stored import add_guesses
from tests.tui.tables import drawn_cursor, rows_of, table_of


def guesses(pilot: Pilot[None]) -> ListTable:
    return table_of(pilot, "guess-rows")


def examples(pilot: Pilot[None]) -> set[str]:
    return {cells[0] for cells in rows_of(guesses(pilot)).values()}


async def test_the_cursor_on_the_newest_guess_follows_and_elsewhere_it_stays(running: Recorded) -> None:
    add_guesses(running, 60)
    async with open_run(running.folder) as pilot:
        await pilot.press("shift+tab")
        table = guesses(pilot)
        await until(pilot, lambda: table.row_count == 60 and table.key_under_cursor == "60")
        add_guesses(running, 30)
        await until(pilot, lambda: table.key_under_cursor == "90")
        await press(pilot, "up", "up", "up", then=lambda: table.key_under_cursor == "87")
        add_guesses(running, 30)
        await until(pilot, lambda: table.row_count == 120)
        assert table.key_under_cursor == "87" and "▌" in drawn_cursor(pilot, table)
        await press(pilot, "G", then=lambda: table.key_under_cursor == "120")
        add_guesses(running, 10)
        await until(pilot, lambda: table.key_under_cursor == "130")


async def test_the_trial_has_a_column_once_a_guess_reports_one(running: Recorded) -> None:
    add_guesses(running, 4)

    def titles(pilot: Pilot[None]) -> list[str]:
        return [str(column.title) for column in guesses(pilot)._columns]

    async with open_run(running.folder) as pilot:
        await press(pilot, "shift+tab", then=lambda: guesses(pilot).row_count == 4)
        assert titles(pilot) == ["example", "score", "diff", "prefix", "suffix"]
        running.guess(running.batch("guess/7/0"), [(0, False, 0.5)], [7])
        await until(pilot, lambda: guesses(pilot).row_count == 5)
        assert titles(pilot)[1:4] == ["score", "trial", "diff"]
        assert [cells[2].strip() for cells in rows_of(guesses(pilot)).values()] == ["–"] * 4 + ["7"]


async def test_m_shows_the_guesses_of_one_verdict(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        await press(pilot, "shift+tab", then=lambda: guesses(pilot).row_count == 64)
        for words, count in (("right", 16), ("near miss", 48), ("wrong", 48)):
            await press(pilot, "m", then=lambda words=words: f"[{words}]" in title_of(pilot, "guesses"))
            await until(pilot, lambda count=count: guesses(pilot).row_count == count)
            mark = "✓" if words == "right" else "✗"
            assert all(cells[2].startswith(mark) for cells in rows_of(guesses(pilot)).values())
        await press(pilot, "m", then=lambda: guesses(pilot).row_count == 64)


async def test_a_search_finds_guesses_and_escape_closes_it(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        burst(pilot, "/", *"17", "enter")
        await until(pilot, lambda: "1 found for 17" in title_of(pilot, "guesses"))
        assert examples(pilot) == {"17"}
        burst(pilot, "/", "end", "ctrl+u", *"[/ no such words", "enter")
        await until(pilot, lambda: "0 found for [/ no such words" in title_of(pilot, "guesses"))
        # A new snapshot does not replace the results.
        screen = pilot.app.screen
        assert isinstance(screen, RunScreen)
        snapshot = screen._snapshot
        await until(pilot, lambda: screen._snapshot is not snapshot)
        assert guesses(pilot).row_count == 0
        await press(pilot, "escape", then=lambda: len(examples(pilot)) > 1)
        title = title_of(pilot, "guesses")
        assert title == "Guesses · 64 · 16 right · [all] right near miss wrong"
        # Three cells are those of the border.
        await pilot.click("#guesses", offset=(3 + title.index("near miss"), 0))
        await until(pilot, lambda: "[near miss]" in title_of(pilot, "guesses"))
        await pilot.click("#guesses", offset=(3 + title.index("all"), 0))
        await until(pilot, lambda: "[all]" in title_of(pilot, "guesses"))
        await press(pilot, "escape", then=lambda: not isinstance(pilot.app.screen, RunScreen))


async def test_m_filters_the_results_of_a_search(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        await pilot.press("shift+tab")
        burst(pilot, "/", *"1", "enter")
        await until(pilot, lambda: "found for 1," in title_of(pilot, "guesses"))
        found = rows_of(guesses(pilot))
        for words, mark in (("right", "✓"), ("near miss", "✗"), ("wrong", "✗")):
            await press(pilot, "m", then=lambda words=words: f"[{words}]" in title_of(pilot, "guesses"))
            shown = {key: cells for key, cells in found.items() if cells[2].startswith(mark)}
            assert list(rows_of(guesses(pilot))) == list(shown) and guesses(pilot).has_focus


async def test_letters_typed_into_the_search_are_not_keys_of_the_screen(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        burst(pilot, "/", *"stop log q")
        await until(pilot, lambda: pilot.app.screen.query_one("#search", Input).value == "stop log q")
        assert isinstance(pilot.app.screen, RunScreen) and not pilot.app.screen.query_one(LogDrawer).display


async def test_enter_opens_the_example_of_the_guess_under_the_cursor(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        await press(pilot, "shift+tab", "up", "up", then=lambda: guesses(pilot).key_under_cursor == "62")
        example = int(rows_of(guesses(pilot))["62"][0])
        await press(pilot, "enter", then=ExampleScreen)
        assert text_of(pilot, "#which") == f"Example {example} · {example + 1} of 64"
        await until(pilot, lambda: "guess" in screen_text(pilot.app) and "✗" in screen_text(pilot.app))
        await press(pilot, "n", then=lambda: text_of(pilot, "#which").startswith(f"Example {(example + 1) % 64} "))
        await press(pilot, "escape", then=RunScreen)


async def test_a_double_click_opens_the_example(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        await pilot.press("shift+tab")
        table = guesses(pilot)
        await until(pilot, lambda: table.row_count == 64 and table.scroll_offset.y)
        top = table.keys[table.scroll_offset.y]
        await pilot.click(table, offset=(5, 1))
        await until(pilot, lambda: table.key_under_cursor == top)
        await pilot.click(table, offset=(5, 1), times=2)
        await until(pilot, lambda: isinstance(pilot.app.screen, ExampleScreen))
