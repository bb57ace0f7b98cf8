"""The page of the audits, and the screens that it opens."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from harness.core.errors import HarnessError
from harness.runs.folder import RunFolder
from harness.tui.pages import audits, runs
from harness.tui.screens.audit import AuditScreen
from harness.tui.screens.main import MainScreen
from harness.tui.screens.run import RunScreen
from tests.records import RecordedAudit, recorded_audit, recorded_run
from tests.tui.piloting import SIZES, on_page, open_app, press, screen_text, text_of, title_of, until
from tests.tui.tables import rows_of, table_of


@pytest.fixture(autouse=True)
def audit(home: Path) -> Iterator[RecordedAudit]:
    """A running audit in a new home; this process is its supervisor."""
    recorded = recorded_audit(pid=os.getpid())
    recorded.event("phase", phase="running")
    recorded.plan("complete", 16.0)
    recorded.figure(recorded.batch("complete/0/0", 8.0), "trigram", 0.25, of=8)
    yield recorded
    recorded.store.close()


@pytest.mark.parametrize("size", SIZES)
async def test_audits_are_listed_with_their_answer(audit: RecordedAudit, size: tuple[int, int]) -> None:
    conclusion = {"question": "Was it?", "answer": "No evidence", "evidence": "40 paragraphs", "caveat": ""}
    audit.findings({"conclusion": conclusion})
    async with open_app(size=size) as pilot:
        await on_page(pilot, 3)
        await until(pilot, lambda: table_of(pilot, "audits").keys == [audit.folder.id])
        assert rows_of(table_of(pilot, "audits"))[audit.folder.id][:3] == ["▶ abcd", "sequence", "corpus.txt"]
        await until(pilot, lambda: text_of(pilot, "#answer-text").startswith("Was it? No evidence"))
        assert title_of(pilot, "audit-figures") == audit.folder.id
        assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())


async def test_runs_and_audits_open_in_their_own_screens(audit: RecordedAudit, tmp_path: Path) -> None:
    run = recorded_run(tmp_path, id_="efgh-some", pid=os.getpid())
    async with open_app() as pilot:
        for number, name, id_, kind in (
            (1, "runs", run.folder.id, RunScreen),
            (3, "audits", audit.folder.id, AuditScreen),
        ):
            await on_page(pilot, number)
            await until(pilot, lambda name=name, id_=id_: table_of(pilot, name).key_under_cursor == id_)
            await press(pilot, "enter", then=lambda kind=kind: isinstance(pilot.app.screen, kind))
            await press(pilot, "q", then=MainScreen)


async def test_only_a_running_audit_can_be_stopped_and_none_is_packaged(audit: RecordedAudit) -> None:
    def keys(pilot: Pilot[None]) -> set[str]:
        active = pilot.app.screen.active_bindings
        return {key for key in "srpR" if key in active and active[key].enabled}

    async with open_app() as pilot:
        await on_page(pilot, 3)
        await until(pilot, lambda: table_of(pilot, "audits").row_count)
        assert keys(pilot) == {"s"}
        audit.event("phase", phase="stopped")
        await until(pilot, lambda: rows_of(table_of(pilot, "audits"))[audit.folder.id][3] == "stopped")
        assert keys(pilot) == {"r"}


async def test_a_home_without_audits_says_how_to_start_one(audit: RecordedAudit, pilot: Pilot[None]) -> None:
    await on_page(pilot, 3)
    await until(pilot, lambda: table_of(pilot, "audits").row_count)
    audit.folder.spec_file.unlink()
    await until(pilot, lambda: "No audits yet" in screen_text(pilot.app))


async def test_the_application_opens_with_a_watched_audit(audit: RecordedAudit) -> None:
    async with open_app(watched=RunFolder(audit.folder.path)) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, AuditScreen))


def unreadable(_: RunFolder) -> dict[str, object]:
    raise HarnessError("locked [/")


async def test_an_answer_that_could_not_be_read_is_asked_again(
    audit: RecordedAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit.findings({"conclusion": {"question": "Seen?", "answer": "Probably", "evidence": "e", "caveat": ""}})
    audit.event("phase", phase="finished", reason="")
    with monkeypatch.context() as patch:
        patch.setattr(runs, "_RETRY_SECONDS", 0.5)
        patch.setattr(audits, "read_findings", unreadable)
        async with open_app() as pilot:
            await on_page(pilot, 3)
            await until(pilot, lambda: text_of(pilot, "#answer-text") == "locked [/")
            patch.undo()
            await until(pilot, lambda: text_of(pilot, "#answer-text").startswith("Seen? Probably"))
