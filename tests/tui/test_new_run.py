"""The form that starts a run, driven by keys, on real plugins, up to real runs."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input, Select, Static, Switch

from harness.core.files import sha256_of
from harness.plugins.discovery import AttackFile, find_attacks
from harness.runs.folder import all_run_folders, run_folder
from harness.runs.summary import run_summary
from harness.tui.form_history import save_values
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.widgets.field_row import FieldRow
from tests.functional.machine import OVER, PLUGINS, ROOT, homes, processes_that_name, wait_until, write_round
from tests.tui.piloting import Stage, played, until, words_on

SIZES = [(80, 24), (200, 50)]
ATTACK = """
class A(Attack[P]):
    name = "some"
    uses_target = False
    def run(self, context): yield from ()
"""
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
PAIR = """
from pydantic import model_validator
from harness import Attack, Field, Params
class P(Params):
    low: int = 1
    high: int = Field(ge=1, description="Not below low.")
    @model_validator(mode="after")
    def _in_order(self):
        if self.high < self.low:
            raise ValueError("[/ high is below low \\x1b[31m")
        return self
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Homes and a round of the test's own; what runs there still is ended with it."""
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    write_round(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for process in processes_that_name(str(tmp_path)):
        process.kill()


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    folder = tmp_path / "plugins"
    folder.mkdir()
    return folder


def screen_of(attack: str, folder: Path, round_name: str = "demo") -> NewRunScreen:
    found = {file.name: file for file in find_attacks(folder)}
    return NewRunScreen(found[attack], attacks_folder=folder, round_name=round_name)


def written(folder: Path, source: str, attack: str = ATTACK) -> Path:
    path = folder / "some.py"
    path.write_text(source + attack)
    return path


def fields_of(screen: NewRunScreen) -> dict[str, FieldRow]:
    return {row.field.key: row for row in screen.query(FieldRow)}


async def form(pilot: Pilot[None]) -> dict[str, FieldRow]:
    """The rows, once there are any to type in."""
    screen = stage(pilot).shown
    await until(pilot, lambda: screen.has_class("-form"))
    return fields_of(screen)


def stage(pilot: Pilot[None]) -> Stage:
    assert isinstance(pilot.app, Stage)
    return pilot.app


def text_of(pilot: Pilot[None], selector: str) -> str:
    return str(stage(pilot).shown.query_one(selector, Static).content)


def beside(row: FieldRow) -> str:
    return str(row.query_one(".beside", Static).content)


async def typed(pilot: Pilot[None], row: FieldRow, text: str) -> None:
    row.focus_control()
    await pilot.press("end", "ctrl+u", *text)
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
def test_a_form_shows_its_command_line_and_its_start_button_whatever_is_in_focus(size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        screen = stage(pilot).shown
        for _ in rows:
            for selector in ("#start", "#command"):
                region = screen.query_one(selector).region
                assert region.height >= 1 and region.bottom <= size[1]
            focused = screen.focused
            assert focused is not None and screen.query_one("#fields").region.contains_region(focused.region)
            await pilot.press("tab")
        assert isinstance(screen.focused, Button)
        assert "harness run baseline --round demo" in words_on(pilot.app)

    played(screen_of("baseline", ROOT / "attacks"), scenario, size=size)


@pytest.mark.parametrize("size", SIZES)
def test_a_value_out_of_bounds_is_said_beside_its_field_as_it_is_typed(size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        assert beside(rows["trials"]) == "at least 1; default 100"
        await typed(pilot, rows["trials"], "0")
        assert beside(rows["trials"]) == "✗ at least 1"
        assert "✗ at least 1" in words_on(pilot.app)
        await pilot.press("backspace", "7")
        assert beside(rows["trials"]) == "at least 1; default 100"
        assert "--set trials=7" in text_of(pilot, "#command Static")

    played(screen_of("baseline", ROOT / "attacks"), scenario, size=size)


def test_a_round_says_what_it_is_and_what_is_wrong_with_it() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        await until(pilot, lambda: "budget 10:00" in str(rows["--round"].query_one(".help", Static).content))
        await typed(pilot, rows["--round"], "demmo")
        await until(pilot, lambda: beside(rows["--round"]) == "✗ unknown round 'demmo': did you mean demo?")

    played(screen_of("baseline", ROOT / "attacks"), scenario)


def test_enter_goes_from_field_to_field_and_the_choice_and_the_command_line_follow(place: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
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

    played(screen_of("baseline", ROOT / "attacks"), scenario)


@pytest.mark.parametrize("size", [*SIZES, (20, 5), (40, 12)])
def test_what_a_stranger_writes_into_a_schema_stays_text(plugins: Path, size: tuple[int, int]) -> None:
    written(plugins, HOSTILE)

    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        for row in rows.values():
            row.focus_control()
            await pilot.pause()
            words = words_on(pilot.app)
            assert not {"\x1b", "\x07", "\u202e", "\ud800"} & set(words)
        rows["pick"].focus_control()
        await pilot.press("enter", "down", "down", "enter")
        await pilot.pause()
        assert rows["pick"].text == "\x1b[2J"
        assert "pick=�[2J" in text_of(pilot, "#command Static")
        # A default that no key can type is still the default, until another text stands there.
        assert rows["esc"].text == "\x1b]0;t\x07[/b]\nline"
        assert "esc=" not in text_of(pilot, "#command Static")
        rows["esc"].focus_control()
        await pilot.press("end", "x")
        await pilot.pause()
        assert "esc=" in text_of(pilot, "#command Static")
        pilot.app.export_screenshot()

    played(screen_of("some", plugins), scenario, size=size)


def test_a_switch_says_its_position_in_words(plugins: Path) -> None:
    written(plugins, HOSTILE)

    async def scenario(pilot: Pilot[None]) -> None:
        row = (await form(pilot))["deep"]
        assert beside(row) == "false; default false"
        row.focus_control()
        await pilot.press("enter")
        await pilot.pause()
        assert row.query_one(Switch).value and beside(row) == "true; default false"
        assert "--set deep=true" in text_of(pilot, "#command Static")

    played(screen_of("some", plugins), scenario)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("source", "reason"),
    [("raise ValueError('[/ why\\x1b[31m')\n", "ValueError: [/ why�[31m)."), ("def broken(:\n", "invalid syntax")],
)
def test_an_attack_that_cannot_be_read_is_one_sentence_and_r_looks_again(
    plugins: Path, source: str, reason: str, size: tuple[int, int]
) -> None:
    path = written(plugins, source)
    # As it was found before the mistake was made.
    screen = NewRunScreen(
        AttackFile("some", path, "--attacks", sha256_of(path)), attacks_folder=plugins, round_name="demo"
    )

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: reason in text_of(pilot, "#state"))
        assert "\n" not in text_of(pilot, "#state")
        written(plugins, "from harness import Attack, Params as P\n")
        await pilot.press("r")
        assert "--seed" in await form(pilot)

    played(screen, scenario, size=size)


def test_a_slow_import_holds_nothing_up_and_escape_leaves_at_once(plugins: Path) -> None:
    written(plugins, SLOW)

    async def scenario(pilot: Pilot[None]) -> list[str | None]:
        loop = asyncio.get_running_loop()
        assert text_of(pilot, "#state") == "Reading the parameters of some …"
        for _ in range(10):
            before = loop.time()
            await asyncio.sleep(0.02)
            assert loop.time() - before < 0.3
        await pilot.press("escape")
        await until(pilot, lambda: stage(pilot).results, seconds=1)
        return stage(pilot).results

    assert played(screen_of("some", plugins), scenario) == [None]


@pytest.mark.parametrize("size", SIZES)
def test_a_run_is_started_from_the_form_and_its_values_are_remembered(place: Path, size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> str:
        rows = await form(pilot)
        await typed(pilot, rows["pause"], "0")
        await typed(pilot, rows["--seed"], "9")
        await typed(pilot, rows["--limit"], "8")
        await pilot.press("ctrl+r")
        assert text_of(pilot, "#message") == "starting …"
        (run_id,) = await until(pilot, lambda: stage(pilot).results)
        assert isinstance(run_id, str)
        return run_id

    run_id = played(screen_of("draws", PLUGINS, str(place / "round.toml")), scenario, size=size)
    folder = run_folder(run_id)
    spec = folder.spec()
    assert (spec.attack.name, spec.params["pause"], spec.seed, spec.examples) == ("draws", 0.0, 9, 8)
    wait_until(lambda: run_summary(folder).status in OVER)
    assert run_summary(folder).status == "finished"

    async def again(pilot: Pilot[None]) -> dict[str, str]:
        return {key: row.text for key, row in (await form(pilot)).items()}

    values = played(screen_of("draws", PLUGINS, "demo"), again)
    assert (values["pause"], values["--seed"], values["trials"], values["--round"]) == ("0", "9", "3", "demo")


def test_values_that_the_attack_no_longer_takes_are_not_remembered(plugins: Path) -> None:
    written(plugins, PAIR)
    save_values("some", {"high": "0", "low": "2", "gone": "1"})

    async def scenario(pilot: Pilot[None]) -> dict[str, str]:
        return {key: row.text for key, row in (await form(pilot)).items()}

    values = played(screen_of("some", plugins), scenario)
    assert (values["high"], values["low"]) == ("", "2")


def test_a_start_without_a_required_value_goes_to_its_field_and_starts_nothing(plugins: Path) -> None:
    written(plugins, PAIR)

    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        assert await pilot.click("#start")
        await until(pilot, lambda: text_of(pilot, "#message") == "one value will not do.")
        assert rows["high"].query_one(Input).has_focus
        assert beside(rows["high"]) == "✗ required"

    played(screen_of("some", plugins), scenario)
    assert all_run_folders() == []


def test_what_the_command_refuses_is_one_sentence_and_the_form_stays(plugins: Path, place: Path) -> None:
    written(plugins, PAIR)

    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        await typed(pilot, rows["low"], "5")
        await typed(pilot, rows["high"], "3")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: text_of(pilot, "#message") == "[/ high is below low �[31m.")
        assert rows["low"].text == "5"
        assert not stage(pilot).shown.query_one("#fields").disabled

    played(screen_of("some", plugins, str(place / "round.toml")), scenario)
    assert all_run_folders() == []


def test_escape_gives_up_a_start_that_is_under_way_and_keeps_the_form(plugins: Path, place: Path) -> None:
    written(plugins, SLOW)

    async def scenario(pilot: Pilot[None]) -> None:
        await form(pilot)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: processes_that_name(str(plugins)))
        await pilot.press("escape")
        assert text_of(pilot, "#message") == "given up before the run began."
        await until(pilot, lambda: not processes_that_name(str(plugins)))
        assert stage(pilot).results == []
        await pilot.press("escape")
        assert stage(pilot).results == [None]

    played(screen_of("some", plugins, str(place / "round.toml")), scenario)
    assert all_run_folders() == []


def test_a_start_on_progress_when_the_application_ends(plugins: Path, place: Path) -> None:
    written(plugins, SLOW)

    async def scenario(pilot: Pilot[None]) -> list[str | None]:
        await form(pilot)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: processes_that_name(str(plugins)))
        pilot.app.exit()
        return stage(pilot).results

    assert played(screen_of("some", plugins, str(place / "round.toml")), scenario) == []
    (folder,) = wait_until(all_run_folders)
    wait_until(lambda: run_summary(folder).status in OVER)
