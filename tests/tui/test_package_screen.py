"""The Package screen, driven by keys, on real runs, up to real zips."""

import hashlib
import json
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.tui.watching import shown, watched
from textual.pilot import Pilot
from textual.widgets import Button, DataTable, Input, OptionList, Static

from harness.runs.folder import RunFolder
from harness.runs.launch import stop_run
from harness.runs.summary import run_summary
from harness.submit.manifest import MANIFEST
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.package import PackageScreen
from tests.functional.machine import Machine, processes_that_name
from tests.tui.piloting import Stage, played, until, words_on
from tests.tui.test_app import opened

SIZES = [(80, 24), (200, 60)]
Scenario = Callable[[Pilot[None]], Awaitable[Any]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine) -> Iterator[Path]:
    """A working directory of the test's own; what is remembered there is forgotten."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder
    (machine.folder / "state" / "forms.json").unlink(missing_ok=True)


def write_files(folder: Path) -> None:
    (folder / "team.toml").write_text('[[members]]\nname = "Ada"\n')
    (folder / "description.md").write_text("# An attack\n\nIt draws.\n")


def packaging(folder: RunFolder, scenario: Scenario, *, size: tuple[int, int] = (80, 24)) -> Any:
    async def once_it_is_checked(pilot: Pilot[None]) -> Any:
        await until(pilot, lambda: "checklist · " in title(pilot))
        return await scenario(pilot)

    return played(PackageScreen(folder), once_it_is_checked, size=size)


def screen(pilot: Pilot[None]) -> PackageScreen:
    return next(one for one in pilot.app.screen_stack if isinstance(one, PackageScreen))


def title(pilot: Pilot[None]) -> str:
    return str(screen(pilot).query_one("#checklist").border_title)


def text(pilot: Pilot[None], selector: str) -> str:
    return str(screen(pilot).query_one(selector, Static).content)


def checklist(pilot: Pilot[None]) -> OptionList:
    return screen(pilot).query_one("#checklist", OptionList)


def row(pilot: Pilot[None], name: str) -> str:
    return " ".join(str(checklist(pilot).get_option(name).prompt).split())


def is_ready(pilot: Pilot[None]) -> bool:
    return not screen(pilot).query_one("#package", Button).disabled


async def go_to(pilot: Pilot[None], name: str) -> None:
    checklist(pilot).focus()
    checklist(pilot).highlighted = checklist(pilot).get_option_index(name)
    await pilot.pause()


async def typed(pilot: Pilot[None], number: int, words: str) -> None:
    screen(pilot).query(Input)[number].focus()
    await pilot.press("end", "ctrl+u", *words)
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
def test_the_checklist_stands_on_what_is_unmet_says_how_to_mend_it_and_turns_green_by_itself(
    finished: RunFolder, here: Path, size: tuple[int, int]
) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        words = words_on(pilot.app)
        assert f"Package · draws on small, recall at {run_summary(finished).error_cap} errors 0." in words
        assert f"{finished.id} · finished" in words
        assert row(pilot, "ended") == "✓ ended the run ended finished"
        # Also where the list is longer than its place: the first thing to mend is in sight.
        assert "✗ team         no team is named" in words and "→ write team.toml with [[members]]" in words
        assert checklist(pilot).highlighted_option is not None
        assert checklist(pilot).highlighted_option.id == row(pilot, "team").split()[1] == "team"
        assert text(pilot, "#message") == "open: team, description" and not is_ready(pilot)
        await go_to(pilot, "round")
        write_files(here)
        await until(pilot, lambda: is_ready(pilot))
        assert row(pilot, "team") == "✓ team the team is Ada"
        assert row(pilot, "description") == "✓ description the description has 5 words"
        assert checklist(pilot).highlighted_option.id == "round"
        command = f"harness package {finished.id} --team team.toml --description description.md"
        assert text(pilot, "#command Static") == command and text(pilot, "#message") == "ready."
        await pilot.press("ctrl+y")
        assert pilot.app.clipboard == command

    packaging(finished, scenario, size=size)


@pytest.mark.parametrize("size", SIZES)
def test_a_run_is_packaged_and_the_screen_tells_the_zip_and_remembers_the_files(
    finished: RunFolder, here: Path, size: tuple[int, int]
) -> None:
    write_files(here)
    (here / "team.toml").rename(here / "ours.toml")

    async def scenario(pilot: Pilot[None]) -> None:
        await typed(pilot, 0, "our")
        await until(pilot, lambda: row(pilot, "team").startswith("✗ team our: no such team file"))
        assert "✗ no such file" in words_on(pilot.app)
        await pilot.press("right")
        await until(pilot, lambda: is_ready(pilot))
        await typed(pilot, 2, "far")
        await until(pilot, lambda: is_ready(pilot))
        await pilot.press("ctrl+r")
        assert not is_ready(pilot) and text(pilot, "#message").startswith("0:0")
        await until(pilot, lambda: text(pilot, "#message").startswith("packaged in 0:"), seconds=60)
        zip_ = Path("far") / f"{finished.id}.zip"
        words = words_on(pilot.app)
        assert f"✓ {zip_}" in words and f"SHA-256 {hashlib.sha256(zip_.read_bytes()).hexdigest()}" in words
        with zipfile.ZipFile(zip_) as archive:
            manifest = json.loads(archive.read(MANIFEST))
            assert archive.read("team.toml") == (here / "ours.toml").read_bytes()
        assert manifest["marks"] == [] and manifest["run"]["id"] == finished.id
        assert f"{len(manifest['files'])} files, description of " in words and ", 0 marks" in words

    packaging(finished, scenario, size=size)

    async def again(pilot: Pilot[None]) -> None:
        fields = [field.value for field in screen(pilot).query(Input)]
        assert fields == ["ours.toml", "description.md", "far"]

    packaging(finished, again)


def test_a_zip_that_is_there_already_is_replaced_only_when_asked_for(finished: RunFolder, here: Path) -> None:
    write_files(here)
    zip_ = here / "submissions" / f"{finished.id}.zip"
    zip_.parent.mkdir()
    zip_.write_text("before")

    async def scenario(pilot: Pilot[None]) -> None:
        for key in ("n", "y"):
            await until(pilot, lambda: is_ready(pilot))
            await pilot.press("ctrl+s")
            await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmDialog))
            assert "is there already" in words_on(pilot.app)
            assert zip_.read_text() == "before"
            await pilot.press(key)
        await until(pilot, lambda: text(pilot, "#message").startswith("packaged in"), seconds=60)

    packaging(finished, scenario)
    assert zipfile.is_zipfile(zip_)


@pytest.mark.parametrize("size", SIZES)
def test_space_accepts_what_may_be_accepted_and_takes_it_back_and_the_manifest_says_so(
    machine: Machine, here: Path, size: tuple[int, int]
) -> None:
    folder = RunFolder(Path(machine.attack("draws", "--set", "pause=0", "--limit", "32")["directory"]))
    write_files(here)

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: text(pilot, "#message") == "open: partial")
        assert row(pilot, "partial").endswith("→ run it without --limit; or Space accepts it")
        await pilot.press("ctrl+r")
        assert text(pilot, "#message").startswith("partial: --limit left 32 of 64 examples out")
        await pilot.press("space")
        await until(pilot, lambda: is_ready(pilot))
        assert row(pilot, "partial").startswith("– partial") and "the manifest says so" in row(pilot, "partial")
        assert "12 of 13 met, 1 accepted" in title(pilot) and "--accept partial" in text(pilot, "#command Static")
        await pilot.press("a")
        await until(pilot, lambda: not is_ready(pilot))
        assert row(pilot, "partial").startswith("✗ partial") and "--accept" not in text(pilot, "#command Static")
        await go_to(pilot, "round")
        await pilot.press("space")
        await until(pilot, lambda: text(pilot, "#message") == "round is met: there is nothing to accept.")
        await go_to(pilot, "partial")
        await pilot.press("space", "ctrl+r")
        await until(pilot, lambda: text(pilot, "#message").startswith("packaged in"), seconds=60)
        assert ", 1 mark" in words_on(pilot.app) and "accepted: partial – --limit left 32" in words_on(pilot.app)

    packaging(folder, scenario, size=size)
    with zipfile.ZipFile(here / "submissions" / f"{folder.id}.zip") as archive:
        marks = json.loads(archive.read(MANIFEST))["marks"]
    assert [mark["check"] for mark in marks] == ["partial"]


def test_a_run_that_on_progress_is_shown_unmet_cannot_be_accepted_and_is_checked_again_when_it_ends(
    running: RunFolder, here: Path
) -> None:
    write_files(here)

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: row(pilot, "ended").startswith("✗ ended the run is running"))
        await go_to(pilot, "ended")
        await pilot.press("space")
        await until(pilot, lambda: text(pilot, "#message").startswith("ended cannot be accepted: the run is running;"))
        stop_run(running)
        await until(pilot, lambda: "the run stopped" in row(pilot, "ended"))
        await pilot.press("space")
        await until(pilot, lambda: row(pilot, "ended").startswith("– ended"))

    packaging(running, scenario)


def test_escape_gives_up_the_packaging_and_a_second_one_leaves(finished: RunFolder, here: Path) -> None:
    write_files(here)

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: is_ready(pilot))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: processes_that_name(finished.id))
        await pilot.press("escape")
        await until(pilot, lambda: text(pilot, "#message") == "given up.")
        assert not processes_that_name(finished.id) and is_ready(pilot)
        await pilot.press("escape")
        assert isinstance(pilot.app, Stage) and pilot.app.results == [None]

    packaging(finished, scenario)
    assert not (here / "submissions" / f"{finished.id}.zip").exists()


@pytest.mark.parametrize("size", SIZES)
def test_hostile_text_in_a_teams_file_a_note_and_a_refusal_stays_text(
    copy: RunFolder, here: Path, size: tuple[int, int]
) -> None:
    write_files(here)
    copy.note.write_text("[/ a note [bold red]\x1b[31m\u202e")
    (here / "team.toml").write_text('"[/ key\\u001b[31m[bold]" = 1\n[[members]]\nname = "[/"\n')
    # Room enough for the name, and not for that of the file that is to take its place.
    out = f"[/ {'[bold]' * 41}.zip"

    async def scenario(pilot: Pilot[None]) -> None:
        assert "[/ a note [bold red]�[31m�" in words_on(pilot.app)
        assert "✗ team team.toml: [/ key�[31m[bold]: no team file has such a field" in row(pilot, "team")
        (here / "team.toml").write_text('[[members]]\nname = "[/ \\u001b[31mAda"\n')
        await until(pilot, lambda: row(pilot, "team") == "✓ team the team is [/ �[31mAda")
        screen(pilot).query(Input)[2].value = out
        await until(pilot, lambda: is_ready(pilot) and out in text(pilot, "#command Static"))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: screen(pilot).query_one("#message").has_class("-error"), seconds=60)
        assert text(pilot, "#message") == f"{out}: cannot be written (File name too long)."
        assert is_ready(pilot) and not {"\x1b", "\u202e"} & set(words_on(pilot.app))
        pilot.app.export_screenshot()

    packaging(copy, scenario, size=size)


def test_a_run_that_is_deleted_meanwhile_is_a_sentence(copy: RunFolder, here: Path) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        copy.spec_file.unlink()
        await until(pilot, lambda: screen(pilot).query_one("#who").has_class("-error"))
        assert "spec.json" in text(pilot, "#who") and not is_ready(pilot)
        assert row(pilot, "ended") == "✓ ended the run ended finished"

    packaging(copy, scenario)


@pytest.mark.parametrize("size", [(20, 5), (40, 12), *SIZES])
def test_the_button_and_a_row_are_to_be_seen_at_any_size(finished: RunFolder, size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        for selector in ("#package", "#checklist"):
            region = screen(pilot).query_one(selector).region
            assert region.height >= 1 and region.bottom <= size[1]
        assert "✗ team" in words_on(pilot.app)

    packaging(finished, scenario, size=size)


@pytest.mark.parametrize("size", SIZES)
def test_it_opens_from_a_run_of_home_and_from_the_palette(finished: RunFolder, size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        runs = pilot.app.screen.query_one("#runs", DataTable)
        await until(pilot, lambda: runs.row_count)
        runs.focus()
        await until(pilot, lambda: "p Package" in words_on(pilot.app))
        assert "f1 Help" in words_on(pilot.app)
        await pilot.press("p")
        await until(pilot, lambda: isinstance(pilot.app.screen, PackageScreen))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, PackageScreen))
        await pilot.press("ctrl+p", *"package")
        await until(pilot, lambda: "Package this run for its organizers" in words_on(pilot.app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, PackageScreen))

    opened(scenario, size=size)


def test_it_opens_from_a_runs_own_screen(finished: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        assert "P Package" in words_on(pilot.app)
        await pilot.press("P")
        await until(pilot, lambda: isinstance(pilot.app.screen, PackageScreen))
        assert finished.id in words_on(pilot.app)

    watched(finished, scenario)
