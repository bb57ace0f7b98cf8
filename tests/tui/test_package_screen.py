"""The Package screen, driven by keys, with a real run and real zips."""

import hashlib
import json
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Button, Input, OptionList

from harness.runs.folder import RunFolder
from harness.runs.summary import run_summary
from harness.submit.manifest import MANIFEST
from harness.submit.team import BEGINNINGS, DESCRIPTION, TEAM
from harness.tui.screens import package
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.package import PackageScreen
from tests.functional.machine import Machine
from tests.records import Recorded
from tests.tools.tiers import long_values
from tests.tui.piloting import ScreenApp, open_app, open_run, open_screen, press, screen_text, text_of, until
from tests.tui.stub_command import StubCommand
from tests.tui.tables import table_of

SIZES = [(80, 24), *long_values([(200, 60)])]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine) -> Iterator[Path]:
    """Set a new working directory for each test, and delete the saved values afterwards."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder
    (machine.folder / "state" / "forms.json").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def finished(machine: Machine) -> RunFolder:
    """A finished run of a worker process, which meets all checks except for team and description."""
    return RunFolder(Path(machine.attack("draws", "--set", "pause=0")["directory"]))


def write_files(folder: Path) -> None:
    (folder / "team.toml").write_text('[[members]]\nname = "Ada"\n')
    (folder / "description.md").write_text("# An attack\n\nIt draws.\n")


@asynccontextmanager
async def open_package(folder: RunFolder, *, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[None]]:
    """Show the Package screen, and wait for its first check."""
    async with open_screen(PackageScreen(folder), size=size) as pilot:
        await until(pilot, lambda: "Checklist · " in title(pilot))
        yield pilot


def screen(pilot: Pilot[None]) -> PackageScreen:
    return next(one for one in pilot.app.screen_stack if isinstance(one, PackageScreen))


def title(pilot: Pilot[None]) -> str:
    return str(screen(pilot).query_one("#checklist").border_title)


def checklist(pilot: Pilot[None]) -> OptionList:
    return screen(pilot).query_one("#checklist", OptionList)


def row(pilot: Pilot[None], name: str) -> str:
    return " ".join(str(checklist(pilot).get_option(name).prompt).split())


def is_ready(pilot: Pilot[None]) -> bool:
    return not screen(pilot).query_one("#submit", Button).disabled


async def go_to(pilot: Pilot[None], name: str) -> None:
    checklist(pilot).focus()
    checklist(pilot).highlighted = checklist(pilot).get_option_index(name)
    await pilot.pause()


async def typed(pilot: Pilot[None], number: int, words: str) -> None:
    screen(pilot).query(Input)[number].focus()
    await pilot.press("end", "ctrl+u", *words)
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
async def test_the_checklist_follows_the_files(finished: RunFolder, here: Path, size: tuple[int, int]) -> None:
    async with open_package(finished, size=size) as pilot:
        words = screen_text(pilot.app)
        assert f"Package · draws on small, Recall@{run_summary(finished).error_cap} 0." in words
        assert f"{finished.id} · finished" in words
        assert row(pilot, "ended") == "✓ ended the run is finished"
        # The first unmet check is visible even in a short terminal.
        assert "✗ team         no team file" in words and "→ write team.toml with [[members]]" in words
        assert checklist(pilot).highlighted_option is not None
        assert checklist(pilot).highlighted_option.id == row(pilot, "team").split()[1] == "team"
        assert text_of(pilot, "#message") == "unmet: team, description" and not is_ready(pilot)
        await go_to(pilot, "description")
        await press(pilot, "space", then=lambda: "cannot be accepted" in text_of(pilot, "#message"))
        await go_to(pilot, "round")
        write_files(here)
        await until(pilot, lambda: is_ready(pilot))
        assert row(pilot, "team") == "✓ team the team is Ada"
        assert row(pilot, "description").startswith("· description the description has 4 words outside tables")
        assert checklist(pilot).highlighted_option.id == "round"
        command = f"harness bundle create {finished.id}"
        assert text_of(pilot, "#command Static") == command and text_of(pilot, "#message") == "ready."
        await pilot.press("ctrl+y")
        assert pilot.app.clipboard == command


@pytest.mark.slow
async def test_e_opens_the_file_of_a_check(finished: RunFolder, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(app: App[None], path: Path) -> None:
        assert path.read_text() == BEGINNINGS[path.name]
        if path.name == TEAM:
            path.write_text(path.read_text().replace('name = ""', 'name = "Ada"'))

    monkeypatch.setattr(package, "open_in_editor", edit)
    async with open_package(finished) as pilot:
        await go_to(pilot, "ended")
        assert "e" not in pilot.app.screen.active_bindings
        await go_to(pilot, "team")
        await press(pilot, "e", then=lambda: row(pilot, "team").startswith("✓"))
        await go_to(pilot, "description")
        # An unedited description has no words.
        await press(pilot, "e", then=lambda: row(pilot, "description").startswith("·"))
    assert sorted(path.name for path in here.iterdir()) == [DESCRIPTION, TEAM]


async def test_a_run_is_packaged_and_the_files_are_saved(finished: RunFolder, here: Path) -> None:
    write_files(here)
    (here / "team.toml").rename(here / "ours.toml")
    async with open_package(finished) as pilot:
        await typed(pilot, 0, "our")
        await until(pilot, lambda: row(pilot, "team").startswith("✗ team no such file: our"))
        assert "✗ no such file" in screen_text(pilot.app)
        await press(pilot, "right", then=lambda: is_ready(pilot))
        await typed(pilot, 2, "far")
        await until(pilot, lambda: is_ready(pilot))
        await pilot.press("ctrl+r")
        assert not is_ready(pilot)
        await until(pilot, lambda: text_of(pilot, "#message").startswith("packaged in "))
        zip_ = Path("far") / f"{finished.id}.zip"
        words = screen_text(pilot.app)
        assert f"✓ {zip_}" in words and f"SHA-256 {hashlib.sha256(zip_.read_bytes()).hexdigest()}" in words
        with zipfile.ZipFile(zip_) as archive:
            manifest = json.loads(archive.read(MANIFEST))
            assert archive.read("team.toml") == (here / "ours.toml").read_bytes()
        assert manifest["marks"] == [] and manifest["run"]["id"] == finished.id
        assert f"{len(manifest['files'])} files, description of " in words and ", 0 marks" in words
    async with open_package(finished) as pilot:
        fields = [field.value for field in screen(pilot).query(Input)]
        assert fields == ["ours.toml", "description.md", "far"]


@pytest.mark.slow
async def test_an_existing_zip_is_replaced_only_after_confirmation(finished: RunFolder, here: Path) -> None:
    write_files(here)
    zip_ = here / "submissions" / f"{finished.id}.zip"
    zip_.parent.mkdir()
    zip_.write_text("before")
    async with open_package(finished) as pilot:
        for key in ("n", "y"):
            await until(pilot, lambda: is_ready(pilot))
            await press(pilot, "ctrl+s", then=ConfirmDialog)
            assert "already exists" in screen_text(pilot.app)
            assert zip_.read_text() == "before"
            await pilot.press(key)
        await until(pilot, lambda: text_of(pilot, "#message").startswith("packaged in"))
    assert zipfile.is_zipfile(zip_)


@pytest.mark.slow
async def test_an_accepted_check_is_recorded_in_the_manifest(machine: Machine, here: Path) -> None:
    folder = RunFolder(Path(machine.attack("draws", "--set", "pause=0", "--limit", "32")["directory"]))
    write_files(here)
    async with open_package(folder) as pilot:
        await until(pilot, lambda: text_of(pilot, "#message") == "unmet: partial")
        assert row(pilot, "partial").endswith("→ run the attack without --limit; or accept it with Space")
        await pilot.press("ctrl+r")
        assert text_of(pilot, "#message").startswith("partial: --limit left out 32 of 64 examples")
        await press(pilot, "space", then=lambda: is_ready(pilot))
        assert row(pilot, "partial").startswith("– partial") and "the manifest records it" in row(pilot, "partial")
        assert "11 of 12 met, 1 accepted" in title(pilot) and "--accept partial" in text_of(pilot, "#command Static")
        await press(pilot, "a", then=lambda: not is_ready(pilot))
        assert row(pilot, "partial").startswith("✗ partial") and "--accept" not in text_of(pilot, "#command Static")
        await go_to(pilot, "round")
        # A check that is met has nothing to accept.
        await until(pilot, lambda: "Accept" not in screen_text(pilot.app).splitlines()[-1])
        await go_to(pilot, "partial")
        await press(pilot, "space", "ctrl+r", then=lambda: text_of(pilot, "#message").startswith("packaged in"))
        assert ", 1 mark" in screen_text(pilot.app) and "accepted: partial – --limit left out 32" in screen_text(
            pilot.app
        )
    with zipfile.ZipFile(here / "submissions" / f"{folder.id}.zip") as archive:
        marks = json.loads(archive.read(MANIFEST))["marks"]
    assert [mark["check"] for mark in marks] == ["partial"]


@pytest.mark.slow
async def test_a_running_run_is_checked_again_when_it_ends(running: Recorded, here: Path) -> None:
    write_files(here)
    async with open_package(running.folder) as pilot:
        await until(pilot, lambda: row(pilot, "ended").startswith("✗ ended the run is running"))
        await go_to(pilot, "ended")
        await pilot.press("space")
        await until(
            pilot, lambda: text_of(pilot, "#message").startswith("ended cannot be accepted: the run is running;")
        )
        running.event("phase", phase="stopped")
        await until(pilot, lambda: "the run stopped" in row(pilot, "ended"))
        await press(pilot, "space", then=lambda: row(pilot, "ended").startswith("– ended"))


async def test_escape_cancels_the_packaging_and_then_closes_the_screen(
    finished: RunFolder, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(here)
    command = StubCommand(here / "stub", monkeypatch)
    async with open_package(finished) as pilot:
        await until(pilot, lambda: is_ready(pilot))
        await press(pilot, "ctrl+r", then=lambda: command.has("started"))
        assert not is_ready(pilot)
        await press(pilot, "escape", then=lambda: text_of(pilot, "#message") == "cancelled.")
        assert command.has("interrupted") and not command.has("finished")
        await until(pilot, lambda: is_ready(pilot))
        await pilot.press("escape")
        assert isinstance(pilot.app, ScreenApp)
        results = pilot.app.results
        await until(pilot, lambda: results == [None])


@pytest.mark.slow
async def test_hostile_text_in_files_and_errors_stays_text(copy: RunFolder, here: Path) -> None:
    write_files(here)
    copy.note.write_text("[/ a note [bold red]\x1b[31m\u202e")
    (here / "team.toml").write_text('"[/ key\\u001b[31m[bold]" = 1\n[[members]]\nname = "[/"\n')
    # The name is just within the limit of the file system, but that of its temporary file is not.
    out = f"[/ {'[bold]' * 41}.zip"
    async with open_package(copy) as pilot:
        assert "[/ a note [bold red]�[31m�" in screen_text(pilot.app)
        assert "✗ team team.toml: [/ key�[31m[bold]: unknown field" in row(pilot, "team")
        (here / "team.toml").write_text('[[members]]\nname = "[/ \\u001b[31mAda"\n')
        await until(pilot, lambda: row(pilot, "team") == "✓ team the team is [/ �[31mAda")
        screen(pilot).query(Input)[2].value = out
        await until(pilot, lambda: is_ready(pilot) and out in text_of(pilot, "#command Static"))
        await press(pilot, "ctrl+r", then=lambda: screen(pilot).query_one("#message").has_class("-error"))
        assert text_of(pilot, "#message") == f"{out}: cannot be written (File name too long)."
        assert is_ready(pilot) and not {"\x1b", "\u202e"} & set(screen_text(pilot.app))


async def test_a_deleted_run_is_a_message(copy: RunFolder, here: Path) -> None:
    async with open_package(copy) as pilot:
        copy.spec_file.unlink()
        await until(pilot, lambda: screen(pilot).query_one("#state").has_class("-error"))
        assert "spec.json" in text_of(pilot, "#state") and not is_ready(pilot)
        assert row(pilot, "ended") == "✓ ended the run is finished"


@pytest.mark.parametrize("size", [*long_values([(20, 5), (40, 12)]), *SIZES])
async def test_the_button_and_a_row_are_visible_at_any_size(finished: RunFolder, size: tuple[int, int]) -> None:
    async with open_package(finished, size=size) as pilot:
        for selector in ("#submit", "#checklist"):
            region = screen(pilot).query_one(selector).region
            assert region.height >= 1 and region.bottom <= size[1]
        await until(pilot, lambda: "✗ team" in screen_text(pilot.app))


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_the_list_of_runs_and_the_palette_open_it(finished: RunFolder, size: tuple[int, int]) -> None:
    async with open_app(size=size) as pilot:
        runs = table_of(pilot, "runs")
        await until(pilot, lambda: runs.row_count)
        runs.move_to(finished.id)
        await press(pilot, "p", then=PackageScreen)
        await press(pilot, "escape", then=lambda: not isinstance(pilot.app.screen, PackageScreen))
        await pilot.press("ctrl+p", *"package")
        await until(pilot, lambda: "Package the run for its organizers" in screen_text(pilot.app))
        await press(pilot, "enter", then=PackageScreen)


async def test_the_run_screen_opens_it(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        assert "p Package" in screen_text(pilot.app)
        await press(pilot, "p", then=PackageScreen)
        await until(pilot, lambda: finished.id in screen_text(pilot.app))
