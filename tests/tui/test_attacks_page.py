"""The page of the attacks: the list, the description, the source, new attacks and the editor."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from harness.tui.screens.dialogs import ConfirmDialog, NameDialog
from harness.tui.screens.main import MainScreen
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.widgets.list_table import ListTable
from tests.functional.machine import PLUGINS
from tests.tui.piloting import (
    SIZES,
    burst,
    notifications,
    on_page,
    open_app,
    press,
    screen_text,
    text_of,
    title_of,
    until,
)
from tests.tui.stored import AddRun
from tests.tui.tables import drawn_cursor, rows_of, table_of


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """Two attacks; the error of the broken one contains markup."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    shutil.copy(PLUGINS / "draws.py", folder)
    (folder / "broken.py").write_text("def broken(:  # [/ \x1b[31m\n")
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a new directory, with an editor that leaves a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "no-such-editor")
    return tmp_path


def attacks(pilot: Pilot[None]) -> ListTable:
    return table_of(pilot, "attacks")


async def chosen(pilot: Pilot[None], name: str) -> str:
    """Go to the page and to an attack, and return its key."""
    await on_page(pilot, 2)
    return await found(pilot, name)


async def found(pilot: Pilot[None], name: str) -> str:
    def key() -> str | None:
        return next((key for key, cells in rows_of(attacks(pilot)).items() if cells[0] == name), None)

    found_key = str(await until(pilot, key))
    attacks(pilot).move_to(found_key)
    await pilot.pause()
    return found_key


@pytest.mark.parametrize("size", SIZES)
async def test_attacks_are_listed_at_any_size(plugins: Path, size: tuple[int, int]) -> None:
    async with open_app(size=size, attacks_folder=plugins) as pilot:
        await chosen(pilot, "draws")
        names = {cells[0] for cells in rows_of(attacks(pilot)).values()}
        assert {"broken", "draws", "baseline", "greedy", "lookup (control)"} <= names
        await until(pilot, lambda: "draws" in drawn_cursor(pilot, attacks(pilot)))
        assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())


async def test_a_broken_attack_is_a_row_with_its_error_and_has_no_form(plugins: Path) -> None:
    async with open_app(attacks_folder=plugins) as pilot:
        key = await chosen(pilot, "broken")
        summary = rows_of(attacks(pilot))[key][-1]
        assert summary.startswith("broken: ") and summary.isprintable()
        await until(pilot, lambda: "broken is broken" in text_of(pilot, "#about-text"))
        await press(pilot, "n", then=lambda: notifications(pilot))
        assert isinstance(pilot.app.screen, MainScreen)


async def test_the_chosen_attack_is_described_with_its_source(plugins: Path) -> None:
    async with open_app(attacks_folder=plugins) as pilot:
        await chosen(pilot, "draws")
        await until(pilot, lambda: "Draws per example." in text_of(pilot, "#about-text"))
        await until(pilot, lambda: "draws.py · " in title_of(pilot, "source"))
        assert "class Draws" in text_of(pilot, "#source-text")


async def test_results_of_its_runs_are_part_of_the_description(plugins: Path, add_run: AddRun) -> None:
    for name in ("aaaa", "bbbb"):
        add_run(f"{name}-draws-small", range(32), age=9.0)
    async with open_app(attacks_folder=plugins) as pilot:
        await chosen(pilot, "draws")
        await until(pilot, lambda: "  small: 0.500" in text_of(pilot, "#about-text"))


async def test_the_best_recall_is_that_of_the_chosen_round(plugins: Path, add_run: AddRun, small_round: str) -> None:
    add_run("aaaa-draws-small", range(32))
    async with open_app(attacks_folder=plugins, round_choice=small_round) as pilot:
        key = await chosen(pilot, "draws")
        assert title_of(pilot, "attack-list") == "Attacks · best on small"
        await until(pilot, lambda: rows_of(attacks(pilot))[key][1] == "0.500")


async def test_saved_and_corrected_attacks_appear(plugins: Path) -> None:
    async with open_app(attacks_folder=plugins) as pilot:
        await chosen(pilot, "broken")
        await until(pilot, lambda: "broken is broken" in text_of(pilot, "#about-text"))
        source = (PLUGINS / "patient.py").read_text()
        (plugins / "patient.py").write_text(source)
        await until(pilot, lambda: "patient" in [cells[0] for cells in rows_of(attacks(pilot)).values()])
        (plugins / "broken.py").write_text(source.replace("patient", "broken"))
        await until(pilot, lambda: "An attack that runs for minutes" in text_of(pilot, "#about-text"))


async def test_the_form_opens_with_the_file_of_the_chosen_round(plugins: Path, small_round: str) -> None:
    async with open_app(attacks_folder=plugins, round_choice=small_round) as pilot:
        await chosen(pilot, "draws")
        await press(pilot, "n", then=NewRunScreen)
        await until(pilot, lambda: f"--round {small_round}" in text_of(pilot, "#command Static"))


async def test_an_invalid_name_keeps_the_dialog_and_a_valid_attack_is_selected(plugins: Path, here: Path) -> None:
    async with open_app(attacks_folder=plugins) as pilot:
        await on_page(pilot, 2)
        await press(pilot, "a", then=NameDialog)
        assert "my_attack_1" in screen_text(pilot.app)
        for invalid in ("not a name", "draws"):
            burst(pilot, "end", "ctrl+u", *invalid, "enter")
            await until(pilot, lambda: pilot.app.screen.query_one("#problem").display)
            assert isinstance(pilot.app.screen, NameDialog)
        before = sorted(plugins.iterdir())
        burst(pilot, "end", "ctrl+u", *"zz_mine", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, MainScreen))
        await until(pilot, lambda: attacks(pilot).key_under_cursor == str((plugins / "zz_mine.py").resolve()))
        await until(pilot, lambda: "zz_mine" in drawn_cursor(pilot, attacks(pilot)))
        assert sorted(plugins.iterdir()) != before


async def test_escape_in_the_dialog_creates_nothing(plugins: Path) -> None:
    async with open_app(attacks_folder=plugins) as pilot:
        before = sorted(plugins.iterdir())
        await on_page(pilot, 2)
        await press(pilot, "a", then=NameDialog)
        await press(pilot, "escape", then=MainScreen)
        assert sorted(plugins.iterdir()) == before


async def test_a_built_in_attack_is_copied_before_it_is_edited(here: Path) -> None:
    copy = here / "attacks" / "greedy.py"
    async with open_app() as pilot:
        built_in = Path(await chosen(pilot, "greedy"))
        for answer in ("n", "y"):
            await press(pilot, "e", then=ConfirmDialog)
            assert "part of the package" in screen_text(pilot.app) and not copy.exists()
            await press(pilot, answer, then=MainScreen)
        await until(pilot, lambda: copy.exists())
        assert copy.read_bytes() == built_in.read_bytes()
        await until(pilot, lambda: attacks(pilot).key_under_cursor == str(copy.resolve()))


@pytest.mark.parametrize("editor", ["no-such-editor-[/", "vi '", " "])
async def test_an_editor_that_does_not_start_is_a_message(
    plugins: Path, editor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor)
    async with open_app(attacks_folder=plugins) as pilot:
        await chosen(pilot, "draws")
        await press(pilot, "e", then=lambda: notifications(pilot))
        assert isinstance(pilot.app.screen, MainScreen)


async def test_a_missing_attacks_directory_is_a_message(tmp_path: Path) -> None:
    async with open_app(attacks_folder=tmp_path / "nowhere") as pilot:
        await on_page(pilot, 2)
        await until(pilot, lambda: "nowhere" in text_of(pilot, "#attack-list .why-empty"))
        assert "Attacks: " in screen_text(pilot.app)


async def test_a_name_typed_into_the_filter_runs_no_action(plugins: Path) -> None:
    async with open_app(attacks_folder=plugins) as pilot:
        await on_page(pilot, 2)
        everything = attacks(pilot).keys
        burst(pilot, "slash", *"draws")
        await until(pilot, lambda: attacks(pilot).row_count < len(everything))
        assert str(plugins / "draws.py") in attacks(pilot).keys
        burst(pilot, *"naq")
        await until(pilot, lambda: "Nothing matches. Escape shows all." in screen_text(pilot.app))
        assert isinstance(pilot.app.screen, MainScreen)
        await press(pilot, "escape", then=lambda: attacks(pilot).keys == everything)
        assert attacks(pilot).has_focus


async def test_o_sorts_by_each_column_and_then_as_before(pilot: Pilot[None]) -> None:
    await on_page(pilot, 2)
    table = table_of(pilot, "attacks")
    await until(pilot, lambda: table.row_count > 1)
    before, orders = table.keys, []
    for _ in table._columns:
        await pilot.press("o")
        await pilot.pause()
        orders.append(table.keys)
        assert any(arrow in screen_text(pilot.app) for arrow in ("▲", "▼"))
    assert all(sorted(order) == sorted(before) for order in orders) and orders[-1] != before
    await press(pilot, "o", then=lambda: table.keys == before)
