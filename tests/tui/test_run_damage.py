"""Damaged and deleted runs: the screen shows a message and keeps working."""

import contextlib
import sqlite3

from harness.runs.folder import RunFolder, remove_run
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.run import RunScreen
from tests.records import change_spec
from tests.tui.piloting import notifications, open_run, open_screen, press, screen_text, text_of, until


async def test_a_deleted_run_is_a_message(copy: RunFolder) -> None:
    async with open_run(copy) as pilot:
        remove_run(copy)
        await until(pilot, lambda: "It was deleted" in text_of(pilot, "#why"))
        for key in "123]l":
            await pilot.press(key)
        await press(pilot, "s", then=ConfirmDialog)
        await press(pilot, "y", then=lambda: "cannot be read" in notifications(pilot) or "lost" in notifications(pilot))
        # The first closes the log.
        await press(pilot, "escape", "escape", then=lambda: not isinstance(pilot.app.screen, RunScreen))


async def test_an_unreadable_run_is_read_again(copy: RunFolder) -> None:
    spec = copy.spec_file.read_bytes()
    copy.spec_file.write_bytes(b"{")
    async with open_screen(RunScreen(copy)) as pilot:
        await until(pilot, lambda: "not the spec of a run" in text_of(pilot, "#why"))
        copy.spec_file.write_bytes(spec)
        await until(pilot, lambda: "guesses" in text_of(pilot, "#details-text"))


async def test_a_damaged_tokenizer_is_a_message_and_ids_are_shown(copy: RunFolder) -> None:
    copy.tokenizer.write_text("[/ no tokenizer")
    async with open_run(copy) as pilot:
        await pilot.press("shift+tab")
        await until(pilot, lambda: "not a tokenizer" in notifications(pilot) and "✗" in screen_text(pilot.app))


async def test_a_damaged_run_does_not_affect_the_screen_of_another(finished: RunFolder, copy: RunFolder) -> None:
    change_spec(copy, attack={"name": "baseline"}, created_at=copy.attack_spec().created_at - 100, id=copy.id)
    with contextlib.closing(sqlite3.connect(copy.store)) as db, db:
        db.execute("UPDATE ledger SET spent = 'a while'")
    async with open_run(finished) as pilot:
        await until(pilot, lambda: not any(worker.group == "reference" for worker in pilot.app.workers))
        await pilot.press("tab", "shift+tab")
        assert "draws on small" in screen_text(pilot.app)
