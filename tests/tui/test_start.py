"""Starting runs from the form, with real plugins and one real run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.widget import AwaitMount, Widget
from textual.widgets import Input, Static

from harness.core.paths import runs_home
from harness.runs.folder import all_run_folders, run_folder
from harness.runs.launch import stop_run
from harness.runs.summary import run_summary
from harness.tui.pages.runs import FIRST_RUN, FirstRun
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.screens.run import RunScreen
from harness.tui.widgets.form_fields import FormFields
from tests.functional.machine import OVER, PLUGINS, ROOT, wait_until
from tests.tui.forms import PAIR, PLAIN, form, message_of, screen_of, stage, typed, written
from tests.tui.piloting import notifications, open_app, open_screen, press, screen_text, text_of, until
from tests.tui.stub_command import StubCommand

pytestmark = pytest.mark.usefixtures("place")


@pytest.fixture
def command(plugins: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> StubCommand:
    """A command in place of the real one, for an attack without parameters."""
    written(plugins, PLAIN)
    return StubCommand(place / "stub", monkeypatch)


async def test_a_run_is_started_and_its_values_are_saved(place: Path) -> None:
    async with open_screen(screen_of("draws", PLUGINS, str(place / "round.toml"))) as pilot:
        rows = await form(pilot)
        await typed(pilot, rows["pause"], "0")
        await typed(pilot, rows["--seed"], "9")
        await typed(pilot, rows["--limit"], "8")
        await pilot.press("ctrl+r")
        assert text_of(pilot, "#message").startswith("starting …")
        (run_id,) = await until(pilot, lambda: stage(pilot).results)
        assert isinstance(run_id, str)
    folder = run_folder(run_id)
    spec = folder.attack_spec()
    assert (spec.attack.name, spec.params["pause"], spec.seed, spec.examples) == ("draws", 0.0, 9, 8)
    wait_until(lambda: run_summary(folder).status in OVER, seconds=90)
    assert run_summary(folder).status == "finished"
    async with open_screen(screen_of("draws", PLUGINS, "demo")) as pilot:
        values = {key: row.text for key, row in (await form(pilot)).items()}
    assert (values["pause"], values["--seed"], values["trials"], values["--round"]) == ("0", "9", "3", "demo")


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_form_that_is_left_while_its_fields_are_mounted_closes_afterwards(
    is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount_all = FormFields.mount_all

    def leave(fields: FormFields, rows: Sequence[Widget], **options: Any) -> AwaitMount:
        screen = fields.screen
        assert isinstance(screen, NewRunScreen)
        if is_first:
            screen.action_cancel()
        mounted = mount_all(fields, rows, **options)
        if not is_first:
            screen.action_cancel()
        return mounted

    monkeypatch.setattr(FormFields, "mount_all", leave)
    async with open_screen(screen_of("draws", PLUGINS, "demo")) as pilot:
        await until(pilot, lambda: stage(pilot).results == [None])


async def test_a_missing_value_starts_nothing(plugins: Path) -> None:
    written(plugins, PAIR)
    async with open_screen(screen_of("some", plugins)) as pilot:
        rows = await form(pilot)
        assert await pilot.click("#submit")
        await until(pilot, lambda: text_of(pilot, "#message") == "1 field to correct.")
        assert rows["high"].query_one(Input).has_focus
        assert message_of(rows["high"]) == "✗ needed"
    assert all_run_folders() == []


async def test_without_torch_the_form_says_what_to_install(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hiding = place / "hiding"
    hiding.mkdir(exist_ok=True)
    (hiding / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(hiding))
    before = all_run_folders()
    async with open_screen(screen_of("greedy", ROOT / "attacks")) as pilot:
        await form(pilot)
        await press(pilot, "ctrl+r", then=lambda: "torch is not installed" in text_of(pilot, "#message"))
        assert "pip install -e '.[torch]'" in text_of(pilot, "#message")
    assert all_run_folders() == before


@pytest.mark.slow
async def test_an_error_of_the_command_keeps_the_form(plugins: Path, place: Path) -> None:
    written(plugins, PAIR)
    async with open_screen(screen_of("some", plugins, str(place / "round.toml"))) as pilot:
        rows = await form(pilot)
        await typed(pilot, rows["low"], "5")
        await typed(pilot, rows["high"], "3")
        await pilot.press("ctrl+r")
        shown = "--set: [/ high is below low �[31m."
        await until(pilot, lambda: text_of(pilot, "#message") == shown)
        assert rows["low"].text == "5"
        assert not stage(pilot).shown.query_one("#fields").disabled
    assert all_run_folders() == []


async def test_escape_cancels_a_start_and_keeps_the_form(plugins: Path, command: StubCommand) -> None:
    async with open_screen(screen_of("some", plugins)) as pilot:
        await form(pilot)
        await press(pilot, "ctrl+r", then=lambda: command.has("started"))
        await until(pilot, lambda: text_of(pilot, "#message").endswith("hashing"))
        await press(pilot, "escape", then=lambda: text_of(pilot, "#message") == "cancelled.")
        assert command.has("interrupted")
        assert stage(pilot).results == []
        await press(pilot, "escape", then=lambda: stage(pilot).results == [None])
    assert not command.has("finished")


async def test_a_run_that_started_before_it_was_cancelled_is_named(plugins: Path, command: StubCommand) -> None:
    command.complete_after_interrupt()
    async with open_screen(screen_of("some", plugins)) as pilot:
        await form(pilot)
        await press(pilot, "ctrl+r", then=lambda: command.has("started"))
        await press(pilot, "escape", then=lambda: command.has("interrupted"))
        # Until the command has answered, nobody knows, and no second start is possible.
        await pilot.press("ctrl+r", "escape")
        assert text_of(pilot, "#message") == "cancelling …" and stage(pilot).results == []
        command.release()
        await until(pilot, lambda: stage(pilot).results == ["abcd-stub"])
        assert "abcd-stub was started before it could be cancelled; s stops it." in notifications(pilot)


@pytest.mark.slow
async def test_cancelling_names_exactly_the_runs_that_exist(place: Path) -> None:
    """Whenever the real command is interrupted, the screen says what happened."""
    async with open_screen(screen_of("draws", PLUGINS, str(place / "round.toml"))) as pilot:
        await form(pilot)
        screen = stage(pilot).shown
        for moment in range(4):
            await pilot.press("ctrl+r")
            begun = len(list(runs_home().glob("*/"))) if moment % 2 else -1
            if moment % 2:
                # The directory of the run is the first trace of the start.
                await until(pilot, lambda begun=begun: len(list(runs_home().glob("*/"))) > begun)
            await pilot.press("escape")
            ended = await until(pilot, lambda: stage(pilot).results or "cancelled" in text_of(pilot, "#message"))
            if stage(pilot).results:
                assert [folder.id for folder in all_run_folders()] == stage(pilot).results
                break
            assert ended and all_run_folders() == [] and screen.is_current
    for folder in all_run_folders():
        stop_run(folder)


async def test_the_card_of_the_first_run_starts_one_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = StubCommand(place / "stub", monkeypatch)
    async with open_app() as pilot:
        await until(pilot, lambda: isinstance(pilot.app.focused, FirstRun))
        await press(pilot, "enter", then=lambda: command.has("started"))
        await pilot.press("enter", "enter")
        command.release()
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
    assert command.commands == [" ".join([*FIRST_RUN, "--json"])]


@pytest.mark.parametrize(("size", "is_shown"), [((120, 35), True), ((80, 24), False)])
async def test_the_first_screen_says_where_runs_are_kept(
    size: tuple[int, int], is_shown: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place))
    async with open_app(size=size) as pilot:
        await until(pilot, lambda: "SaTML 2023" in screen_text(pilot.app))
        assert ("Runs are kept in ~/state/runs. HARNESS_HOME" in screen_text(pilot.app)) is is_shown


async def test_the_boxes_of_the_first_run_press_their_key(place: Path) -> None:
    async with open_app() as pilot:
        await until(pilot, lambda: isinstance(pilot.app.focused, FirstRun))
        (box,) = [one for one in pilot.app.focused.query(Static) if one.name == "n"]  # type: ignore[union-attr]
        await pilot.click(box)
        await until(pilot, lambda: "Choose an attack for the new run" in screen_text(pilot.app))
        # Who comes for a new run goes back with Escape.
        await press(pilot, "escape", then=lambda: isinstance(pilot.app.focused, FirstRun))


async def test_a_start_continues_after_the_application(plugins: Path, command: StubCommand) -> None:
    async with open_screen(screen_of("some", plugins)) as pilot:
        await form(pilot)
        await press(pilot, "ctrl+r", then=lambda: command.has("started"))
        pilot.app.exit()
        assert stage(pilot).results == []
    command.release()
    wait_until(lambda: command.has("finished"), seconds=90)
    assert not command.has("interrupted")
