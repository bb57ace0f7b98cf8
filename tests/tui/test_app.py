"""The application: the keys dialog, the list of actions, the round, log, clipboard and errors."""

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from harness.core.settings import settings_file
from harness.runs.folder import RunFolder
from harness.tui.app import HarnessApp, show
from harness.tui.log import log_file
from harness.tui.screens.dialogs import RoundDialog, ThemeDialog
from harness.tui.screens.keys import KeysScreen, entries_of
from harness.tui.screens.main import MainScreen
from harness.tui.widgets.bars import TABS, KeyFooter, TopBar
from tests.functional.machine import Machine
from tests.tools.tiers import long_values
from tests.tui.piloting import burst, on_page, open_app, press, screen_text, until
from tests.tui.stored import stored_run
from tests.tui.tables import rows_of, table_of


@pytest.fixture(scope="module", autouse=True)
def two_runs(machine: Machine, finished: RunFolder) -> None:
    """A run of the small round, and one of another round."""
    stored_run(machine.folder, "dddd-draws-other", range(8), age=-5.0, round_name="other")


# The keys and the list of actions.


async def test_the_keys_of_each_page_are_listed_in_groups(pilot: Pilot[None]) -> None:
    helps = {1: ("f1", "All runs of attacks"), 4: ("question_mark", "All tunings on this machine")}
    for number, (key, words) in helps.items():
        await on_page(pilot, number)
        await press(pilot, key, then=KeysScreen)
        await until(pilot, lambda words=words: words in screen_text(pilot.app))
        for group in ("This screen", "Pages", "Everywhere", "Movement"):
            assert f"group {group}" in table_of(pilot, "entries").keys
        await press(pilot, key, then=MainScreen)


async def test_the_list_of_actions_has_every_key_and_one_quit(pilot: Pilot[None]) -> None:
    await on_page(pilot, 1)
    entries = entries_of(pilot.app.screen)
    names = [entry.name for entry in entries]
    assert {"New run", "Compare", "Filter", "Sort", "Round", "Package", "Zoom"} <= set(names)
    # The list of runs has the focus.
    assert TABS.keys() - {"Runs"} <= set(names)
    assert {"Theme", "Palette", "Help"} <= set(names)
    assert names.count("Quit") == 1 and all(entry.key for entry in entries)
    await press(pilot, "ctrl+p", then=KeysScreen)
    shown = [cells[0] for cells in rows_of(table_of(pilot, "entries")).values()]
    assert shown.count("Quit") == 1


async def test_typed_words_choose_an_action_and_enter_runs_it(pilot: Pilot[None]) -> None:
    await press(pilot, "ctrl+p", then=KeysScreen)
    await press(pilot, *"next column", then=lambda: table_of(pilot, "entries").row_count == 2)
    await press(pilot, "enter", then=MainScreen)
    await until(pilot, lambda: "Recall@100 ▼" in screen_text(pilot.app))


async def test_letters_typed_with_the_key_of_the_list_are_its_search(pilot: Pilot[None]) -> None:
    burst(pilot, "ctrl+p", *"theme", "enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, ThemeDialog))
    await until(pilot, lambda: "textual-dark" in screen_text(pilot.app))


async def test_the_theme_under_the_cursor_is_shown_and_escape_returns_to_the_one_before(pilot: Pilot[None]) -> None:
    before = pilot.app.theme
    await press(pilot, "f4", then=ThemeDialog)
    table_of(pilot, "choices").move_to("textual-light")
    await until(pilot, lambda: pilot.app.theme == "textual-light")
    await press(pilot, "escape", then=lambda: pilot.app.theme == before)
    await press(pilot, "f4", then=ThemeDialog)
    table_of(pilot, "choices").move_to("nord")
    await press(pilot, "enter", then=lambda: pilot.app.theme == "nord")


async def test_a_chosen_key_of_the_dialog_is_run(pilot: Pilot[None]) -> None:
    await press(pilot, "question_mark", then=KeysScreen)
    table = table_of(pilot, "entries")
    number = next(key for key, cells in rows_of(table).items() if cells[0] == "Attacks")
    table.move_to(number)
    await press(pilot, "enter", then=lambda: pilot.app.screen.query("#attacks-page"))


@pytest.mark.parametrize("size", [(80, 24), *long_values([(40, 12), (20, 5)])])
async def test_the_footer_has_whole_entries_of_keys_that_work_here(size: tuple[int, int]) -> None:
    async with open_app(size=size) as pilot:
        for number in range(1, 7):
            await on_page(pilot, number)
            await pilot.pause()
            screen = pilot.app.screen
            shown = [active.binding for active in screen.active_bindings.values() if active.binding.show]
            firsts = {binding.action: binding for binding in reversed(shown)}
            expected = [
                f"{pilot.app.get_key_display(binding)} {binding.description}"
                for binding in shown
                if binding is firsts[binding.action]
            ]
            pinned = ["q Quit", "? Help"]
            *entries, quits, helps = filter(None, map(str.strip, _footer_line(pilot).split("  ")))
            assert [quits, helps] == pinned
            expected = [entry for entry in expected if entry not in pinned]
            assert entries == expected[: len(entries)]
            assert len("  ".join([*expected[: len(entries) + 1], *pinned])) > size[0] - 2 or entries == expected


async def test_a_click_on_an_entry_of_the_footer_presses_its_key(pilot: Pilot[None]) -> None:
    await on_page(pilot, 6)
    line = _footer_line(pilot)
    await pilot.click(KeyFooter, offset=(line.index("Help"), 0))
    await until(pilot, lambda: isinstance(pilot.app.screen, KeysScreen))


def _footer_line(pilot: Pilot[None]) -> str:
    footer = pilot.app.screen.query_one(KeyFooter)
    return screen_text(pilot.app).splitlines()[footer.region.y]


async def test_a_click_on_a_tab_shows_its_page(pilot: Pilot[None]) -> None:
    line = next(line for line in screen_text(pilot.app).splitlines() if "2 Attacks" in line)
    await pilot.click(TopBar, offset=(line.index("2 Attacks"), 1))
    await until(pilot, lambda: pilot.app.screen.query("#attacks-page"))


@pytest.mark.parametrize("number", range(1, len(TABS) + 1))
async def test_the_filter_of_every_page_is_typed_into_and_removed_by_escape(pilot: Pilot[None], number: int) -> None:
    await on_page(pilot, number)
    app = pilot.app
    assert isinstance(app, HarnessApp)
    page = app.main._page
    if number in (1, 2, 6):
        await until(pilot, lambda: page.table.row_count)
    rows, field = page.table.keys, page.query_one("#filter", Input)
    await pilot.press("slash")
    # Without rows there is nothing to filter.
    assert field.display is bool(rows)
    if not rows:
        return
    await pilot.press("q", "n")
    assert app.screen is app.main and field.value == "qn"
    await pilot.press("escape")
    await until(pilot, lambda: not field.display and page.table.keys == rows)


# The round.


async def test_the_lists_follow_the_round_of_their_terminal(small_round: str) -> None:
    async with open_app() as pilot:
        await until(pilot, lambda: {"aaaa-draws-small", "dddd-draws-other"} <= set(table_of(pilot, "runs").keys))
        await press(pilot, "b", then=RoundDialog)
        burst(pilot, *small_round, "enter")
        await until(pilot, lambda: table_of(pilot, "runs").keys == ["aaaa-draws-small"])
        await until(pilot, lambda: "round small" in screen_text(pilot.app))
    async with open_app() as pilot:
        await until(pilot, lambda: {"aaaa-draws-small", "dddd-draws-other"} <= set(table_of(pilot, "runs").keys))
        assert "all rounds" in screen_text(pilot.app)


async def test_the_next_start_has_the_theme_that_was_chosen() -> None:
    async with open_app() as pilot:
        await press(pilot, "f4", then=ThemeDialog)
        table = table_of(pilot, "choices")
        await until(pilot, lambda: table.key_under_cursor == pilot.app.theme)
        table.move_to("nord")
        await press(pilot, "enter", then=MainScreen)
    async with open_app() as pilot:
        assert pilot.app.theme == "nord"


async def test_typed_text_and_the_arrows_choose_from_one_list(pilot: Pilot[None]) -> None:
    await press(pilot, "b", then=RoundDialog)
    field, table = pilot.app.screen.query_one(Input), table_of(pilot, "choices")
    assert field.has_focus and table.key_under_cursor == ""
    await press(pilot, *"satml", then=lambda: table.row_count and all("satml" in key for key in table.keys))
    first = table.key_under_cursor
    await press(pilot, "down", then=lambda: table.key_under_cursor != first)
    chosen = table.key_under_cursor
    assert field.has_focus and field.value == "satml"
    await press(pilot, "enter", then=MainScreen)
    app = pilot.app
    assert isinstance(app, HarnessApp) and app._round_choice == chosen
    await press(pilot, "b", then=RoundDialog)
    assert table_of(pilot, "choices").key_under_cursor == chosen
    await press(pilot, *"all rounds", "enter", then=MainScreen)
    assert app._round_choice is None


async def test_a_second_click_on_a_round_chooses_it(pilot: Pilot[None]) -> None:
    await press(pilot, "b", then=RoundDialog)
    table = table_of(pilot, "choices")
    await until(pilot, lambda: table.row_count > 2 and table.size.height > 2)
    second = table.keys[1]
    await pilot.click(table, offset=(3, 2))
    await until(pilot, lambda: table.key_under_cursor == second)
    # No double click.
    pilot.app._click_chain_last_time = None
    place = (table.region.x + 3, table.region.y + 2)
    await pilot.click(table, offset=(3, 2))
    await until(pilot, lambda: isinstance(pilot.app.screen, MainScreen))
    assert isinstance(pilot.app, HarnessApp) and pilot.app._round_choice == second
    # The second half of a double click does not go to what was below the dialog.
    await pilot.click(offset=place)
    await pilot.pause()
    assert isinstance(pilot.app.screen, MainScreen)


async def test_the_round_of_the_settings_is_chosen_at_the_start(home: Path) -> None:
    settings_file().parent.mkdir(parents=True, exist_ok=True)
    settings_file().write_text('round = "demo"\n')
    try:
        async with open_app() as pilot:
            await until(pilot, lambda: "round demo" in screen_text(pilot.app))
    finally:
        settings_file().unlink()


async def test_a_round_that_cannot_be_loaded_keeps_the_dialog(pilot: Pilot[None]) -> None:
    await press(pilot, "b", then=RoundDialog)
    await pilot.press(*"[/no.toml", "enter")
    await until(pilot, lambda: "[/no.toml" in str(pilot.app.screen.query_one("#problem").render()))
    assert isinstance(pilot.app.screen, RoundDialog)
    await press(pilot, "escape", then=MainScreen)
    assert "all rounds" in screen_text(pilot.app)


# The log, the clipboard and errors.


async def test_the_log_has_the_start_and_errors_in_printable_text() -> None:
    async with open_app() as pilot:
        pilot.app.notify("[/ \x1b[31m went wrong", severity="error", markup=False)
        await pilot.pause()
    last = log_file().read_text().splitlines()[-2:]
    assert "INFO harness.tui.app: version" in last[0]
    assert "ERROR" in last[1] and "went wrong" in last[1] and last[1].isprintable()


async def test_a_notification_after_the_end_is_in_the_log() -> None:
    apps: list[HarnessApp] = []
    async with open_app() as pilot:
        assert isinstance(pilot.app, HarnessApp)
        apps.append(pilot.app)
    apps[0].notify("It did not stop.", severity="error")
    for handler in logging.getLogger("harness").handlers:
        handler.flush()
    assert "notification: It did not stop." in log_file().read_text()


async def test_an_unwritable_home_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "file" / "below"))
    async with open_app() as pilot:
        await until(pilot, lambda: "How much of its training data" in screen_text(pilot.app))


def test_an_internal_error_is_raised_and_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    class BrokenApp(HarnessApp):
        def on_ready(self) -> None:
            raise RuntimeError("[/ an error")

    app = BrokenApp()
    monkeypatch.setattr(app, "run", lambda: asyncio.run(app.run_async(headless=True)))
    with pytest.raises(RuntimeError, match="an error"):
        show(app)
    log = log_file().read_text()
    assert "CRITICAL" in log and "Traceback (most recent call last)" in log and "RuntimeError: [/ an error" in log


async def test_inside_tmux_text_is_copied_through_tmux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = tmp_path / "output"
    tmux = tmp_path / "bin" / "tmux"
    tmux.parent.mkdir()
    script = f"import sys\nopen({str(result)!r}, 'w').write(repr(sys.argv[1:]) + sys.stdin.read())\n"
    tmux.write_text(f"#!{sys.executable}\n{script}")
    tmux.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmux.parent), prepend=":")
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    async with open_app() as pilot:
        pilot.app.copy_to_clipboard("a run [/ \ud800")
    assert result.read_text() == "['load-buffer', '-w', '-']a run [/ ?"


def test_the_screen_does_not_import_torch_or_plotting() -> None:
    code = (
        "import sys; import harness.tui.app\n"
        "heavy = {'torch', 'transformers', 'matplotlib', 'pandas', 'harness.worker'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_the_keys_of_a_dialog_are_shown(pilot: Pilot[None]) -> None:
    await press(pilot, "b", then=RoundDialog)
    screen = await press(pilot, "f1", then=KeysScreen)
    assert "The lists show this round" in screen_text(pilot.app)
    await pilot.press("f1")
    await until(pilot, lambda: pilot.app.screen is not screen and isinstance(pilot.app.screen, RoundDialog))
