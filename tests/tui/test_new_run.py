"""The form of a new run, driven by keys, with real plugins and one real run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input, Select, Static, Switch

from harness.core.files import file_sha256
from harness.plugins.discovery import AttackFile, find_attacks
from harness.runs.folder import all_run_folders, run_folder
from harness.runs.summary import run_summary
from harness.tui.form_history import save_values
from harness.tui.run_list import HEADING
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.widgets.field_row import FieldRow
from tests.functional.machine import OVER, PLUGINS, ROOT, kill_processes_that_name, wait_until, write_round
from tests.tiers import slow_values
from tests.tui.piloting import ScreenApp, burst, play_screen, screen_text, until
from tests.tui.stub_command import StubCommand

SIZES = [(80, 24), *slow_values([(200, 50)])]
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
PLAIN = "from harness import Attack, Params as P\n"
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
    """Set new home directories with a small round for each test. Processes are killed at the end."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    write_round(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    kill_processes_that_name(str(tmp_path))


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
    """Wait for the form, and return its rows by key."""
    screen = stage(pilot).shown
    await until(pilot, lambda: screen.has_class("-form"))
    return fields_of(screen)


def stage(pilot: Pilot[None]) -> ScreenApp:
    assert isinstance(pilot.app, ScreenApp)
    return pilot.app


def text_of(pilot: Pilot[None], selector: str) -> str:
    return str(stage(pilot).shown.query_one(selector, Static).content)


def message_of(row: FieldRow) -> str:
    return str(row.query_one(".beside", Static).content)


async def typed(pilot: Pilot[None], row: FieldRow, text: str) -> None:
    row.focus_control()
    await pilot.press("end", "ctrl+u", *text)
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
def test_command_line_and_button_stay_visible(size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        screen = stage(pilot).shown
        for _ in rows:
            for selector in ("#submit", "#command"):
                region = screen.query_one(selector).region
                assert region.height >= 1 and region.bottom <= size[1]
            focused = screen.focused
            assert focused is not None and screen.query_one("#fields").region.contains_region(focused.region)
            await pilot.press("tab")
        assert isinstance(screen.focused, Button)
        assert "harness run baseline --round demo" in screen_text(pilot.app)

    play_screen(screen_of("baseline", ROOT / "attacks"), scenario, size=size)


@pytest.mark.parametrize("size", SIZES)
def test_an_invalid_value_is_reported_while_it_is_typed(size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        assert message_of(rows["trials"]) == "at least 1; default 100"
        await typed(pilot, rows["trials"], "0")
        assert message_of(rows["trials"]) == "✗ at least 1"
        await until(pilot, lambda: "✗ at least 1" in screen_text(pilot.app))
        await pilot.press("backspace", "7")
        assert message_of(rows["trials"]) == "at least 1; default 100"
        assert "--set trials=7" in text_of(pilot, "#command Static")

    play_screen(screen_of("baseline", ROOT / "attacks"), scenario, size=size)


def test_keys_in_one_burst_land_in_the_fields_that_they_are_typed_for() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        following = list(rows)[list(rows).index("trials") + 1]
        burst(pilot, "enter", "end", "ctrl+u", *"10", "tab", "end", "ctrl+u", *"600")
        await until(pilot, lambda: rows[following].text == "600")
        assert rows["trials"].text == "10" and rows["--round"].text == "demo"

    play_screen(screen_of("baseline", ROOT / "attacks"), scenario)


def test_a_round_is_described_and_gives_the_default_budget() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        await until(pilot, lambda: "budget 10:00" in str(rows["--round"].query_one(".help", Static).content))
        budget, target = (rows[key].query_one(Input) for key in ("--budget", "--target"))
        assert (budget.placeholder, target.placeholder) == ("10:00 (from the round)", "demo (from the round)")
        await typed(pilot, rows["--round"], "demmo")
        await until(pilot, lambda: message_of(rows["--round"]) == "✗ unknown round 'demmo': did you mean demo?")
        assert budget.placeholder == "from the round"

    play_screen(screen_of("baseline", ROOT / "attacks"), scenario)


def test_the_values_to_choose_from_follow_the_round() -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        assert "preset of demo" in text_of(pilot, "#state")
        await typed(pilot, rows["--round"], "satml-dev")
        await until(pilot, lambda: "ctrl+t: the attack's defaults" in text_of(pilot, "#state"))
        await typed(pilot, rows["--round"], "demo")
        await until(pilot, lambda: "ctrl+t: the attack's defaults" in text_of(pilot, "#state"))
        await pilot.press("ctrl+t", "ctrl+t")
        await until(pilot, lambda: "Values: preset of demo" in text_of(pilot, "#state"))
        assert fields_of(stage(pilot).shown)["trials"].text == "4"

    play_screen(screen_of("baseline", ROOT / "attacks"), scenario)


def test_enter_goes_to_the_next_field_and_the_command_line_follows(place: Path) -> None:
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

    play_screen(screen_of("baseline", ROOT / "attacks"), scenario)


@pytest.mark.parametrize("size", [*SIZES, *slow_values([(20, 5), (40, 12)])])
def test_hostile_text_in_a_schema_stays_text(plugins: Path, size: tuple[int, int]) -> None:
    written(plugins, HOSTILE)

    async def scenario(pilot: Pilot[None]) -> None:
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

    play_screen(screen_of("some", plugins), scenario, size=size)


def test_a_switch_shows_its_value_as_text(plugins: Path) -> None:
    written(plugins, HOSTILE)

    async def scenario(pilot: Pilot[None]) -> None:
        row = (await form(pilot))["deep"]
        assert message_of(row) == "false; default false"
        row.focus_control()
        await pilot.press("enter")
        await pilot.pause()
        assert row.query_one(Switch).value and message_of(row) == "true; default false"
        assert "--set deep=true" in text_of(pilot, "#command Static")

    play_screen(screen_of("some", plugins), scenario)


@pytest.mark.parametrize(
    ("source", "reason"),
    [("raise ValueError('[/ why\\x1b[31m')\n", "ValueError: [/ why�[31m)."), ("def broken(:\n", "invalid syntax")],
)
def test_a_broken_attack_is_an_error_and_r_retries(plugins: Path, source: str, reason: str) -> None:
    path = written(plugins, source)
    # The entry of the attack from before the error.
    screen = NewRunScreen(
        AttackFile(name="some", path=path, origin="--attacks", sha256=file_sha256(path)),
        attacks_folder=plugins,
        round_name="demo",
    )

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: reason in text_of(pilot, "#state"))
        assert "\n" not in text_of(pilot, "#state")
        written(plugins, PLAIN)
        await pilot.press("r")
        assert "--seed" in await form(pilot)

    play_screen(screen, scenario)


def test_escape_closes_the_form_while_the_schema_is_read(plugins: Path) -> None:
    written(plugins, SLOW)

    async def scenario(pilot: Pilot[None]) -> list[str | None]:
        assert text_of(pilot, "#state") == "Reading the parameters …"
        await pilot.press("escape")
        await until(pilot, lambda: stage(pilot).results)
        return stage(pilot).results

    assert play_screen(screen_of("some", plugins), scenario) == [None]


def test_a_run_is_started_and_its_values_are_saved(place: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> str:
        rows = await form(pilot)
        await typed(pilot, rows["pause"], "0")
        await typed(pilot, rows["--seed"], "9")
        await typed(pilot, rows["--limit"], "8")
        await pilot.press("ctrl+r")
        assert text_of(pilot, "#message").startswith("starting …")
        (run_id,) = await until(pilot, lambda: stage(pilot).results)
        assert isinstance(run_id, str)
        return run_id

    run_id = play_screen(screen_of("draws", PLUGINS, str(place / "round.toml")), scenario)
    folder = run_folder(run_id)
    spec = folder.attack_spec()
    assert (spec.attack.name, spec.params["pause"], spec.seed, spec.examples) == ("draws", 0.0, 9, 8)
    wait_until(lambda: run_summary(folder).status in OVER, seconds=90)
    assert run_summary(folder).status == "finished"

    async def again(pilot: Pilot[None]) -> dict[str, str]:
        return {key: row.text for key, row in (await form(pilot)).items()}

    values = play_screen(screen_of("draws", PLUGINS, "demo"), again)
    assert (values["pause"], values["--seed"], values["trials"], values["--round"]) == ("0", "9", "3", "demo")


def test_invalid_saved_values_are_not_used(plugins: Path) -> None:
    written(plugins, PAIR)
    save_values("some", {"high": "0", "low": "2", "gone": "1"})

    async def scenario(pilot: Pilot[None]) -> dict[str, str]:
        return {key: row.text for key, row in (await form(pilot)).items()}

    values = play_screen(screen_of("some", plugins), scenario)
    assert (values["high"], values["low"]) == ("", "2")


def test_a_missing_value_starts_nothing(plugins: Path) -> None:
    written(plugins, PAIR)

    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        assert await pilot.click("#submit")
        await until(pilot, lambda: text_of(pilot, "#message") == "1 invalid value.")
        assert rows["high"].query_one(Input).has_focus
        assert message_of(rows["high"]) == "✗ required"

    play_screen(screen_of("some", plugins), scenario)
    assert all_run_folders() == []


def test_several_values_show_and_start_a_command_each(
    plugins: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(plugins, PLAIN)
    command = StubCommand(place / "stub", monkeypatch)
    command.release()

    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        await typed(pilot, rows["--seed"], "1,2,3,4")
        await until(pilot, lambda: text_of(pilot, "#message") == "starts 4 runs")
        shown = text_of(pilot, "#command Static").splitlines()
        assert ["--seed 1" in shown[0], "--seed 2" in shown[1], shown[2]] == [True, True, "… and 2 more"]
        await pilot.press("ctrl+y")
        copied = pilot.app.clipboard.splitlines()
        assert [line.split("--seed ")[1][0] for line in copied] == ["1", "2", "3", "4"]
        (group,) = {line.split("--group ")[1].split()[0] for line in copied}
        await pilot.press("ctrl+r")
        await until(pilot, lambda: stage(pilot).results)
        # The page of runs puts its cursor there.
        assert stage(pilot).results == [f"{HEADING}{group}"]

    play_screen(screen_of("some", plugins), scenario)


def test_an_error_of_the_command_keeps_the_form(plugins: Path, place: Path) -> None:
    written(plugins, PAIR)

    async def scenario(pilot: Pilot[None]) -> None:
        rows = await form(pilot)
        await typed(pilot, rows["low"], "5")
        await typed(pilot, rows["high"], "3")
        await pilot.press("ctrl+r")
        shown = "Invalid value for --set: [/ high is below low �[31m."
        await until(pilot, lambda: text_of(pilot, "#message") == shown)
        assert rows["low"].text == "5"
        assert not stage(pilot).shown.query_one("#fields").disabled

    play_screen(screen_of("some", plugins, str(place / "round.toml")), scenario)
    assert all_run_folders() == []


def test_escape_cancels_a_start_and_keeps_the_form(plugins: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(plugins, PLAIN)
    command = StubCommand(place / "stub", monkeypatch)

    async def scenario(pilot: Pilot[None]) -> None:
        await form(pilot)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: command.has("started"))
        await until(pilot, lambda: text_of(pilot, "#message") == "starting … hashing")
        await pilot.press("escape")
        await until(pilot, lambda: text_of(pilot, "#message") == "cancelled before the run started.")
        await until(pilot, lambda: command.has("interrupted"))
        assert stage(pilot).results == []
        await pilot.press("escape")
        await until(pilot, lambda: stage(pilot).results == [None])

    play_screen(screen_of("some", plugins), scenario)
    assert not command.has("finished")


def test_a_start_continues_after_the_application(plugins: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(plugins, PLAIN)
    command = StubCommand(place / "stub", monkeypatch)

    async def scenario(pilot: Pilot[None]) -> list[str | None]:
        await form(pilot)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: command.has("started"))
        pilot.app.exit()
        return stage(pilot).results

    assert play_screen(screen_of("some", plugins), scenario) == []
    command.release()
    wait_until(lambda: command.has("finished"), seconds=90)
    assert not command.has("interrupted")
