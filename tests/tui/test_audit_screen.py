"""The screen of an audit: figures, plot, hostile text and keys."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from harness.runs.folder import RunFolder
from harness.tui.screens.audit import AuditScreen
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.widgets.heat_map_view import HeatMapView
from harness.tui.widgets.panels import Panel
from tests.records import RecordedAudit, recorded_audit
from tests.tui.piloting import SIZES, focus_panel, open_screen, press, screen_text, text_of, title_of, until
from tests.tui.tables import table_of

HOSTILE = "[/bold][red]x\x1b[2J\u202e\n\u200b"


@pytest.fixture
def audit(home: Path) -> RecordedAudit:
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


@asynccontextmanager
async def open_audit(folder: RunFolder, *, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[None]]:
    """Show the screen of an audit, and wait for its first snapshot."""
    async with open_screen(AuditScreen(folder), size=size) as pilot:
        await until(pilot, lambda: "written" in text_of(pilot, "#progress-text"))
        yield pilot


@pytest.mark.parametrize("size", SIZES)
async def test_an_audit_is_shown_at_any_size_and_text_stays_text(audit: RecordedAudit, size: tuple[int, int]) -> None:
    async with open_audit(audit.folder, size=size) as pilot:
        # In a narrow terminal the line leaves out what does not fit.
        name = "  abcd-sequence-corpus" if size[0] >= 80 else ""
        assert text_of(pilot, "#who").startswith(f"▶ running  audit sequence on corpus.txt{name}")
        assert " 50%" in text_of(pilot, "#bars")
        for key in ("tab", "tab", "tab", "tab", "l"):
            await pilot.press(key)
            await pilot.pause()
            words = screen_text(pilot.app)
            assert "running  audit" in words
            assert all(line.isprintable() for line in words.splitlines())
        if size[0] >= 80:
            await until(pilot, lambda: "log [/bold][red]x" in screen_text(pilot.app))
            for panel, shown_words in (("figures", "[0.125, 0.500]"), ("progress", "1 warning")):
                focus_panel(pilot, panel)
                await until(pilot, lambda shown_words=shown_words: shown_words in screen_text(pilot.app))


async def test_the_terminal_may_shrink_and_grow(audit: RecordedAudit) -> None:
    async with open_audit(audit.folder) as pilot:
        for size in [(20, 5), (250, 70), (1, 1), (80, 24), (109, 3), (110, 40)]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert "audit sequence" in screen_text(pilot.app)


async def test_new_figures_appear(audit: RecordedAudit) -> None:
    async with open_audit(audit.folder) as pilot:
        focus_panel(pilot, "figures")
        table = table_of(pilot, "figure-table")
        batch = audit.batch("complete/0/8", 8.0)
        audit.figure(batch, "third", 0.5)
        await until(pilot, lambda: table.row_count == 3)
        audit.figure(batch, "fourth", 0.5)
        audit.spent(33.0)
        await until(pilot, lambda: table.row_count == 4 and "0:33" in text_of(pilot, "#bars"))


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (120, 35), (200, 55)])
async def test_a_heat_map_gets_a_panel_of_its_own(audit: RecordedAudit, size: tuple[int, int]) -> None:
    row = [None, 0.0, 0.002, 0.02, 0.2, 0.7] * 60
    chart = {"title": f"Map {HOSTILE}", "rows": ["book", HOSTILE], "columns": [""] * 360, "values": [row, row]}
    audit.findings({"heat_maps": [{**chart, "bounds": [0.001, 0.01, 0.1, 0.5]}]})
    async with open_audit(audit.folder, size=size) as pilot:
        await until(pilot, lambda: bool(pilot.app.screen.query("#heat-map")))
        focus_panel(pilot, "map")
        await until(pilot, lambda: title_of(pilot, "map").startswith("Map [/bold]"))
        await until(pilot, lambda: "█" in screen_text(pilot.app) and "book" in screen_text(pilot.app))
        words = screen_text(pilot.app)
        assert all(line.isprintable() for line in words.splitlines())
        # The other panels follow it.
        if size[0] < 100:
            focus_panel(pilot, "figures")
            await until(pilot, lambda: "trigram" in screen_text(pilot.app))


async def test_keys_and_clicks_on_the_map_choose_the_passage_that_is_shown_first(audit: RecordedAudit) -> None:
    chart = {"title": "Map", "rows": [HOSTILE, "book"], "columns": [""] * 360, "values": [[0.2] * 360] * 2}
    found = [
        {"title": name, "marked": "extractable", "texts": [], "place": place}
        for name, place in (("late", ["book", 0.9]), ("early", ["book", 0.1]), ("other", [HOSTILE, 0.5]))
    ]
    audit.findings({"heat_maps": [{**chart, "bounds": [0.001, 0.01, 0.1, 0.5]}], "passages": found})
    async with open_audit(audit.folder, size=(120, 35)) as pilot:
        await until(pilot, lambda: bool(pilot.app.screen.query("#heat-map")))
        view = pilot.app.screen.query_one("#heat-map", HeatMapView)

        def first() -> str:
            return text_of(pilot, "#passages-text").split()[0]

        await until(pilot, lambda: len(view._labels) == 2)
        assert first() == "late"
        focus_panel(pilot, "map")
        for key, name in (
            ("right", "other"),
            ("right", "early"),
            ("right", "late"),
            ("right", "other"),
            ("left", "late"),
        ):
            await press(pilot, key, then=lambda name=name: first() == name)
        assert "◆" in screen_text(pilot.app)
        lines = (view.content_size.height - 1) // 2
        await pilot.click(view, offset=(view.size.width // 4, lines + 1))
        await until(pilot, lambda: first() == "early")


async def test_the_whole_answer_and_the_tables_with_texts_are_shown(audit: RecordedAudit) -> None:
    """The answer "No evidence" ends with a line about single texts, after the smallest result that would change it."""
    evidence = f"{'with 40 judged paragraphs and 12 of the control ' * 12}. 4 of 40 are continued: THE NAMES"
    conclusion = {"question": "Was it?", "answer": "No evidence", "evidence": evidence, "caveat": "Not absence."}
    columns = {"ESP": [0.25, 0.125], "record": [4, 7], "suffix": ["the first", HOSTILE]}
    tables = [{"title": "Sequences, likeliest first", "columns": columns}]
    audit.findings({"conclusion": conclusion, "text_tables": tables})
    async with open_audit(audit.folder, size=(120, 35)) as pilot:
        await until(pilot, lambda: "likeliest first" in text_of(pilot, "#passages-text"))
        words = screen_text(pilot.app)
        assert "THE NAMES" in words and "Sequences, likeliest first" in words
        passages = text_of(pilot, "#passages-text")
        assert [part in passages for part in ("ESP  0.250", "record  7", "suffix  the first", "[/bold][red]x")] == [
            True
        ] * 4
        assert all(line.isprintable() for line in words.splitlines())


async def test_only_a_running_audit_can_be_stopped(audit: RecordedAudit) -> None:
    async with open_audit(audit.folder) as pilot:
        await pilot.press("r")
        await pilot.pause()
        assert isinstance(pilot.app.screen, AuditScreen)
        await press(pilot, "s", then=ConfirmDialog)
        await press(pilot, "n", then=AuditScreen)
        audit.event("phase", phase="finished")
        await until(pilot, lambda: "✓ finished" in text_of(pilot, "#who"))
        await pilot.press("s", "r", "p", "R")
        await pilot.pause()
        assert isinstance(pilot.app.screen, AuditScreen)
        focus_panel(pilot, "figures")
        await until(pilot, lambda: "0.25" in screen_text(pilot.app))


async def test_the_progress_of_a_finished_audit_leaves_its_room_to_the_passages() -> None:
    audit = recorded_audit(pid=os.getpid())
    name = "passed, first 10 words, control"
    audit.figure(audit.batch("complete/0/0", 8.0), name, 0.5, low=0.25, high=0.75, of=8)
    audit.event("phase", phase="finished")
    async with open_audit(audit.folder, size=(120, 35)) as pilot:
        passages, progress = (pilot.app.screen.query_one(f"#{name}", Panel) for name in ("passages", "progress"))
        await until(pilot, lambda: progress.has_class("-absent"))
        await until(pilot, lambda: not progress.display and passages.region.width == 120)
        # Both ends of a name are shown, because names differ at their end, and its interval.
        await until(pilot, lambda: re.search(r"passed, .*control +0\.500 +\[0\.250, 0\.750\]", screen_text(pilot.app)))


async def test_an_unreadable_audit_is_a_message(audit: RecordedAudit) -> None:
    audit.folder.spec_file.write_text("{}")
    async with open_screen(AuditScreen(audit.folder)) as pilot:
        await until(pilot, lambda: "not the spec of a run" in text_of(pilot, "#why"))
