"""The form of a new run, driven by keys, with real plugins and one real run."""

import asyncio
from pathlib import Path
from threading import Event

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input, Select, Switch

from harness.core.files import file_sha256
from harness.plugins.discovery import AttackFile
from harness.tui.app import HarnessApp
from harness.tui.screens import form as form_screen
from harness.tui.screens.new_run import NewRunScreen
from tests.functional.machine import ROOT
from tests.tools.tiers import long_values
from tests.tui.forms import PLAIN, fields_of, form, message_of, screen_of, stage, typed, written
from tests.tui.piloting import ScreenApp, burst, on_page, open_app, open_screen, press, screen_text, text_of, until
from tests.tui.tables import table_of

SIZES = [(80, 24), *long_values([(200, 50)])]
HOSTILE = '''"""[/ a [bold red]summary\\x1b[31m\\u202e"""
from typing import Literal
from harness import Attack, Field, Params
class P(Params):
    esc: str = Field("\\x1b]0;t\\x07[/b]\\nline", description="[/ closes nothing \\x1b[31m red \\u202e [bold]")
    pick: Literal["[/", "[red]x", "\\x1b[2J"] = Field("[/", description="x" * 3000)
    deep: bool = Field(False, description="[/")
    an_endless_name_that_no_column_has_room_for_whatever_its_width: int = Field(1, description="\\ud800[")
'''
SLOW = "import time\ntime.sleep(1.5)\nfrom harness import Attack, Params as P\n"

pytestmark = pytest.mark.usefixtures("place")


@pytest.mark.parametrize("size", SIZES)
async def test_command_line_and_button_stay_visible(size: tuple[int, int]) -> None:
    async with open_screen(screen_of("baseline", ROOT / "attacks"), size=size) as pilot:
        rows = await form(pilot)
        screen = stage(pilot).shown
        focused_fields = 0
        while not isinstance(screen.focused, Button):
            for selector in ("#submit", "#command"):
                region = screen.query_one(selector).region
                assert region.height >= 1 and region.bottom <= size[1]
            focused = screen.focused
            assert focused is not None and screen.query_one("#fields").region.contains_region(focused.region)
            focused_fields += 1
            await pilot.press("tab")
        # Those of the device are folded: one stop for all of them.
        assert len(rows) - focused_fields >= 4
        assert "harness run baseline --round demo" in screen_text(pilot.app)


@pytest.mark.parametrize("size", SIZES)
async def test_an_invalid_value_is_reported_while_it_is_typed(size: tuple[int, int]) -> None:
    async with open_screen(screen_of("baseline", ROOT / "attacks"), size=size) as pilot:
        rows = await form(pilot)
        assert message_of(rows["trials"]) == ""
        await typed(pilot, rows["trials"], "0")
        assert message_of(rows["trials"]) == "✗ must be at least 1"
        await until(pilot, lambda: "✗ must be at least 1" in screen_text(pilot.app))
        await pilot.press("backspace", "7")
        assert message_of(rows["trials"]) == ""
        await until(pilot, lambda: "At least 1; default 100." in text_of(pilot, "#help"))
        assert "--set trials=7" in text_of(pilot, "#command Static")


async def test_typing_replaces_the_value_of_a_field_that_the_keyboard_reached() -> None:
    async with open_screen(screen_of("baseline", ROOT / "attacks")) as pilot:
        rows = await form(pilot)
        await until(pilot, lambda: rows["--round"].query_one(Input).has_focus)
        await pilot.press("tab", "2")
        assert rows["trials"].text == "2" and rows["--round"].text == "demo"
        await pilot.press("end", "5", "shift+tab", "tab", "7")
        assert rows["trials"].text == "7"


@pytest.mark.parametrize("size", SIZES)
async def test_a_value_that_is_longer_than_its_field_is_visible(size: tuple[int, int]) -> None:
    async with open_screen(screen_of("baseline", ROOT / "attacks"), size=size) as pilot:
        rows = await form(pilot)
        await typed(pilot, rows["--target"], "a/long/" + 9 * "directory/" + "end")
        await until(pilot, lambda: "directory/end" in screen_text(pilot.app))
        await pilot.press("home")
        await until(pilot, lambda: "a/long/directory" in screen_text(pilot.app))


async def test_keys_in_one_burst_land_in_the_fields_that_they_are_typed_for() -> None:
    async with open_screen(screen_of("baseline", ROOT / "attacks")) as pilot:
        rows = await form(pilot)
        following = list(rows)[list(rows).index("trials") + 1]
        burst(pilot, "enter", "end", "ctrl+u", *"10", "tab", "end", "ctrl+u", *"600")
        await until(pilot, lambda: rows[following].text == "600")
        assert rows["trials"].text == "10" and rows["--round"].text == "demo"


async def test_a_round_is_described_and_gives_the_default_budget() -> None:
    async with open_screen(screen_of("baseline", ROOT / "attacks")) as pilot:
        rows = await form(pilot)
        await until(pilot, lambda: "budget 10:00" in text_of(pilot, "#help"))
        budget, target = (rows[key].query_one(Input) for key in ("--budget", "--target"))
        assert (budget.placeholder, target.placeholder) == ("10:00 (the round's)", "demo (the round's)")
        await typed(pilot, rows["--round"], "demmo")
        await until(pilot, lambda: message_of(rows["--round"]) == "✗ unknown round 'demmo': did you mean demo?")
        assert budget.placeholder == "the round's"


async def test_the_values_to_choose_from_follow_the_round() -> None:
    async with open_screen(screen_of("baseline", ROOT / "attacks")) as pilot:
        rows = await form(pilot)
        assert "preset of demo" in text_of(pilot, "#state")
        await typed(pilot, rows["--round"], "satml-dev")
        await until(pilot, lambda: "ctrl+t: the attack's defaults" in text_of(pilot, "#state"))
        await typed(pilot, rows["--round"], "demo")
        await until(pilot, lambda: "ctrl+t: the attack's defaults" in text_of(pilot, "#state"))
        await press(pilot, "ctrl+t", "ctrl+t", then=lambda: "Values: preset of demo" in text_of(pilot, "#state"))
        assert fields_of(stage(pilot).shown)["trials"].text == "4"


async def test_enter_goes_to_the_next_field_and_the_command_line_follows(place: Path) -> None:
    async with open_screen(screen_of("baseline", ROOT / "attacks")) as pilot:
        rows = await form(pilot)
        await pilot.press("enter", "end", "ctrl+u", "5", "enter", "enter", "enter", "down", "enter")
        await pilot.pause()
        assert rows["loss_slice"].query_one(Select).value == "corrected"
        command = (
            f"harness run baseline --round demo --set trials=5 --set loss_slice=corrected --attacks {ROOT}/attacks"
        )
        assert text_of(pilot, "#command Static") == command
        await pilot.press("ctrl+y")
        assert pilot.app.clipboard == command


@pytest.mark.parametrize("size", [*SIZES, *long_values([(20, 5), (40, 12)])])
async def test_hostile_text_in_a_schema_stays_text(plugins: Path, size: tuple[int, int]) -> None:
    written(plugins, HOSTILE)
    async with open_screen(screen_of("some", plugins), size=size) as pilot:
        rows = await form(pilot)
        for row in rows.values():
            row.focus_control()
            await pilot.pause()
            words = screen_text(pilot.app)
            assert not {"\x1b", "\x07", "\u202e", "\ud800"} & set(words)
        rows["pick"].focus_control()
        await pilot.press("enter", "down", "down", "enter")
        await pilot.pause()
        assert rows["pick"].text == "\x1b[2J"
        assert "pick=�[2J" in text_of(pilot, "#command Static")
        # A default that cannot be typed is kept until the user edits it.
        assert rows["esc"].text == "\x1b]0;t\x07[/b]\nline"
        assert "esc=" not in text_of(pilot, "#command Static")
        rows["esc"].focus_control()
        await pilot.press("end", "x")
        await pilot.pause()
        assert "esc=" in text_of(pilot, "#command Static")


async def test_a_switch_shows_its_value_as_text(plugins: Path) -> None:
    written(plugins, HOSTILE)
    async with open_screen(screen_of("some", plugins)) as pilot:
        row = (await form(pilot))["deep"]
        assert message_of(row) == "false"
        row.focus_control()
        await pilot.press("enter")
        await pilot.pause()
        assert row.query_one(Switch).value and message_of(row) == "true"
        assert "--set deep=true" in text_of(pilot, "#command Static")


@pytest.mark.parametrize(
    ("source", "reason"),
    [("raise ValueError('[/ why\\x1b[31m')\n", "ValueError: [/ why�[31m)."), ("def broken(:\n", "invalid syntax")],
)
async def test_a_broken_attack_is_an_error_and_r_retries(plugins: Path, source: str, reason: str) -> None:
    path = written(plugins, source)
    # The entry of the attack from before the error.
    screen = NewRunScreen(
        AttackFile(name="some", path=path, origin="--attacks", sha256=file_sha256(path)),
        attacks_folder=plugins,
        round_name="demo",
    )
    async with open_screen(screen) as pilot:
        await until(pilot, lambda: reason in text_of(pilot, "#state"))
        assert "\n" not in text_of(pilot, "#state")
        written(plugins, PLAIN)
        await pilot.press("r")
        assert "--seed" in await form(pilot)


async def test_escape_closes_the_form_while_the_schema_is_read(plugins: Path) -> None:
    written(plugins, SLOW)
    async with open_screen(screen_of("some", plugins)) as pilot:
        assert text_of(pilot, "#state") == "Reading the parameters …"
        await pilot.press("escape")
        assert await until(pilot, lambda: stage(pilot).results) == [None]


async def test_what_is_typed_before_there_are_fields_waits_for_them(plugins: Path) -> None:
    written(plugins, SLOW)
    async with open_screen(screen_of("some", plugins)) as pilot:
        burst(pilot, *"small", "enter", *"77")
        rows = await form(pilot)
        await until(pilot, lambda: rows["--round"].text == "small" and [row.text for row in rows.values()].count("77"))


async def test_escape_drops_what_was_typed_before_there_are_fields(
    plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled = list[str]()
    monkeypatch.setattr(ScreenApp, "on_key", lambda _, event: handled.append(event.key), raising=False)
    written(plugins, SLOW)
    async with open_screen(screen_of("some", plugins)) as pilot:
        burst(pilot, *"small", "escape")
        assert await until(pilot, lambda: stage(pilot).results) == [None]
        await asyncio.sleep(0.3)
        assert handled == ["escape"]


async def click_on(pilot: Pilot[None], words: str) -> None:
    lines = screen_text(pilot.app).splitlines()
    y = next(y for y, line in enumerate(lines) if words in line)
    await pilot.click(offset=(lines[y].index(words) + 1, y))


async def test_a_click_on_a_tab_leaves_the_form(plugins: Path) -> None:
    async with open_app(attacks_folder=plugins) as pilot:
        app = pilot.app
        assert isinstance(app, HarnessApp)
        app.push_screen(screen_of("baseline", ROOT / "attacks"))
        await until(pilot, lambda: app.screen.has_class("-form"))
        await click_on(pilot, " 3 Audits ")
        await until(pilot, lambda: app.screen is app.main and app.main._tab == "Audits")


async def test_a_click_on_a_tab_does_not_leave_a_form_whose_command_runs(
    plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = Event()
    monkeypatch.setattr(form_screen, "run_command", lambda *_, **__: is_over.wait(60) and None)
    async with open_app(attacks_folder=plugins) as pilot:
        pilot.app.push_screen(screen := screen_of("baseline", ROOT / "attacks"))
        await until(pilot, lambda: screen.has_class("-form"))
        await press(pilot, "ctrl+r", then=lambda: screen.is_running_command)
        await click_on(pilot, " 3 Audits ")
        is_over.set()
        await until(pilot, lambda: text_of(pilot, "#message") == "cancelled.")
        assert pilot.app.screen is screen
        await click_on(pilot, " 3 Audits ")
        await until(pilot, lambda: pilot.app.screen is not screen)


@pytest.mark.parametrize("keys", [("escape", "escape"), ("small", "1"), ("small", "ctrl+q")])
async def test_leaving_a_form_that_has_no_fields_yet_leaves_nothing_else(plugins: Path, keys: tuple[str, str]) -> None:
    # What is imported once is remembered by its source.
    written(plugins, f"# {keys}\n" + SLOW.replace("1.5", "8"))
    async with open_app(attacks_folder=plugins) as pilot:
        app = pilot.app
        assert isinstance(app, HarnessApp)
        await on_page(pilot, 2)
        attacks = table_of(pilot, "attacks")
        await until(pilot, lambda: str(plugins / "some.py") in attacks.keys)
        attacks.move_to(str(plugins / "some.py"))
        form_screen = await press(pilot, "n", then=NewRunScreen)
        first, last = keys
        burst(pilot, *([first] if first == "escape" else first), *([] if last == "1" else [last]))
        if last == "1":
            await click_on(pilot, " 1 Runs ")
        await until(pilot, lambda: app._exit if last == "ctrl+q" else app.screen is app.main)
        assert form_screen.awaits_fields
        if last != "ctrl+q":
            await asyncio.sleep(0.5)
            assert app.screen_stack[1:] == [app.main] and not app._keys
