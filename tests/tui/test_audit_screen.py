"""The screen of an audit: figures, plot, hostile text and keys."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import RichLog

from harness.runs.folder import RunFolder
from harness.tui.app import HarnessApp
from harness.tui.screens.audit import AuditScreen, FigureTable
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.run import RunScreen
from tests.functional.machine import homes
from tests.tui.piloting import SIZES, play_screen, screen_text, text_of, until
from tests.unit.tui.recorded import recorded_run
from tests.unit.tui.recorded_audit import RecordedAudit, recorded_audit

HOSTILE = "[/bold][red]x\x1b[2J\u202e\n\u200b"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set new homes for each test."""
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def audit() -> RecordedAudit:
    """A running audit; this process is its supervisor."""
    recorded = recorded_audit(pid=os.getpid())
    recorded.event("phase", phase="running")
    recorded.plan("complete", 16.0)
    batch = recorded.batch("complete/0/0", 8.0)
    recorded.spent(3.0)
    for value in (0.5, 0.25):
        recorded.figure(batch, "trigram", value, low=value / 2, high=value * 2, of=8)
        recorded.figure(batch, HOSTILE, -value)
    recorded.replies(batch, ["plain", HOSTILE])
    recorded.event("worker_warning", sentence=f"A file was left out {HOSTILE}.")
    recorded.folder.log.write_text(f"log {HOSTILE}\n")
    recorded.end(batch)
    return recorded


def watched(
    folder: RunFolder, scenario: Callable[[Pilot[None]], Awaitable[Any]], *, size: tuple[int, int] = (80, 24)
) -> Any:
    return play_screen(AuditScreen(folder), scenario, size=size)


async def shown(pilot: Pilot[None]) -> None:
    """Wait for the first snapshot."""
    await until(pilot, lambda: "written" in text_of(pilot, "#progress-text"))


@pytest.mark.parametrize("size", SIZES)
def test_an_audit_is_shown_at_any_size_and_text_stays_text(audit: RecordedAudit, size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        assert text_of(pilot, "#who").startswith("audit sequence on corpus.txt · running · abcd-sequence-corpus")
        assert "50% done" in text_of(pilot, "#how-far")
        for key in "12345":
            await pilot.press(key)
            await pilot.pause()
            words = screen_text(pilot.app)
            assert "audit sequence" in words
            assert all(line.isprintable() for line in words.splitlines())
        if size[0] >= 80:
            assert "log [/bold][red]x" in words
            await pilot.press("1")
            await pilot.pause()
            assert "[0.125, 0.5]" in screen_text(pilot.app)
            await pilot.press("4")
            await pilot.pause()
            assert "reply plain" in screen_text(pilot.app)
            await pilot.press("3")
            await pilot.pause()
            assert "1 warning" in screen_text(pilot.app)

    watched(audit.folder, scenario, size=size)


def test_the_terminal_may_shrink_and_grow(audit: RecordedAudit) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        for size in [(20, 5), (250, 70), (1, 1), (80, 24), (109, 3), (110, 40)]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert "audit sequence" in screen_text(pilot.app)

    watched(audit.folder, scenario)


def test_keys_choose_the_plotted_figure(audit: RecordedAudit) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        plot = pilot.app.screen.query_one("#plot")
        await until(pilot, lambda: plot.border_title == "trigram vs. time")
        await pilot.press("2", "n")
        await until(pilot, lambda: str(plot.border_title).startswith("[/bold]") or "bold" in str(plot.border_title))
        await pilot.press("N")
        await until(pilot, lambda: plot.border_title == "trigram vs. time")
        await pilot.press("1", "down")
        await until(pilot, lambda: "bold" in str(plot.border_title))
        # A new figure does not change the choice.
        audit.figure(audit.batch("complete/0/8", 8.0), "another", 0.5)
        table = pilot.app.screen.query_one(FigureTable)
        await until(pilot, lambda: table.row_count == 3)
        assert table.key_under_cursor == HOSTILE

    watched(audit.folder, scenario, size=(160, 40))


def test_new_rows_appear_unless_the_view_is_paused(audit: RecordedAudit) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        await pilot.press("4")
        rows = pilot.app.screen.query_one("#row-lines", RichLog)
        await until(pilot, lambda: len(rows.lines) == 2)
        batch = audit.batch("complete/0/8", 8.0)
        audit.replies(batch, ["third"])
        await until(pilot, lambda: len(rows.lines) == 3)
        await pilot.press("p")
        await pilot.pause()
        audit.replies(batch, ["fourth"])
        audit.spent(33.0)
        await until(pilot, lambda: "0:33 of 1:00" in text_of(pilot, "#how-far"))
        assert len(rows.lines) == 3 and "paused" in str(pilot.app.screen.query_one("#figures").border_title)
        await pilot.press("p")
        await until(pilot, lambda: len(rows.lines) == 4)

    watched(audit.folder, scenario)


def test_only_a_running_audit_can_be_stopped(audit: RecordedAudit) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        await pilot.press("r")
        await pilot.pause()
        assert isinstance(pilot.app.screen, AuditScreen)
        await pilot.press("s")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmDialog))
        await pilot.press("n")
        await until(pilot, lambda: isinstance(pilot.app.screen, AuditScreen))
        audit.event("phase", phase="finished")
        await until(pilot, lambda: "· finished ·" in text_of(pilot, "#who"))
        await pilot.press("s", "r")
        await pilot.pause()
        assert isinstance(pilot.app.screen, AuditScreen)
        assert "0.25" in screen_text(pilot.app)

    watched(audit.folder, scenario)


def test_an_unreadable_audit_is_a_message(audit: RecordedAudit) -> None:
    audit.folder.spec_file.write_text("{}")

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "not the spec of a run" in text_of(pilot, "#how-far"))

    watched(audit.folder, scenario)


def test_home_opens_runs_and_audits_in_their_own_screens(audit: RecordedAudit, tmp_path: Path) -> None:
    recorded_run(tmp_path, id_="efgh-some", pid=os.getpid())

    async def play() -> None:
        app = HarnessApp()
        async with app.run_test(size=(160, 40)) as pilot:
            await until(pilot, lambda: "efgh-some" in screen_text(app) and "audit sequence" in screen_text(app))
            assert "trigram 0.25" in screen_text(app)
            opened = set()
            for _ in range(2):
                app.screen.query_one("#runs").focus()
                await pilot.press("down" if opened else "home", "enter")
                await until(pilot, lambda: isinstance(app.screen, AuditScreen | RunScreen))
                opened.add(type(app.screen))
                await pilot.press("q")
                await until(pilot, lambda: not isinstance(app.screen, AuditScreen | RunScreen))
            assert opened == {AuditScreen, RunScreen}

    asyncio.run(play())


def test_the_application_opens_with_a_watched_audit(audit: RecordedAudit) -> None:
    async def play() -> None:
        app = HarnessApp(watched=audit.folder)
        async with app.run_test() as pilot:
            await until(pilot, lambda: isinstance(app.screen, AuditScreen))

    asyncio.run(play())
