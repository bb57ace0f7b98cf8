"""A run in every state, with any numbers in its record, drawn at any size and in any theme."""

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest
from textual.pilot import Pilot

from harness.runs.folder import RunFolder
from tests.functional.machine import homes
from tests.tui.piloting import text_of, until, words_on
from tests.tui.watching import shown, watched
from tests.unit.tui.recorded import EXAMPLES, recorded_run

STATES = {
    "queued": ("queued", "· queued"),
    "starting": ("starting", "· starting"),
    "running": ("running", "· running"),
    "finishing": ("finishing", "· finishing"),
    "finished": ("finished", "· finished"),
    "out of time": ("out_of_time", "· out of time"),
    "crashed": ("crashed", "· crashed"),
    "lost": (None, "· lost"),
    "blind": ("running", "· running"),
    "without a guess": ("running", "· running"),
}


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
@pytest.mark.parametrize("state", STATES)
def test_a_run_in_any_state_is_drawn_at_any_size_in_any_theme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, size: tuple[int, int], theme: str
) -> None:
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    phase, words = STATES[state]
    run = recorded_run(tmp_path, is_blind=state == "blind", pid=None if phase is None else os.getpid())
    if phase is not None:
        run.event("phase", phase=phase, reason="for a reason [/")
    if state != "without a guess":
        run.guess(run.batch("a"), [(example, example % 2 == 0, 1.0 - example) for example in range(EXAMPLES)])

    async def scenario(pilot: Pilot[None]) -> None:
        pilot.app.theme = theme
        await shown(pilot)
        assert f"{words} · abcd-some" in text_of(pilot, "#who")
        assert ("this round is blind" in text_of(pilot, "#metrics-text")) == (state == "blind")
        for key in "12345":
            await pilot.press(key)
            await pilot.pause()
            assert "some on small" in words_on(pilot.app)
        pilot.app.export_screenshot()

    watched(run.folder, scenario, size=size)


@pytest.mark.parametrize(
    "scores", [(1e308, -1e308), (float("inf"), 0.0), (1e300, 1e300), (5e-324, 0.0)], ids=["wide", "inf", "one", "near"]
)
def test_a_blind_rounds_scores_are_drawn_whatever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scores: tuple[float, float]
) -> None:
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    run = recorded_run(tmp_path, is_blind=True)
    run.guess(run.batch("a"), [(0, True, scores[0]), (1, True, scores[1])])

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "this round is blind" in text_of(pilot, "#metrics-text"))
        await pilot.pause(0.3)
        assert str(pilot.app.screen.query_one("#curve").border_title) == "examples | best score"
        pilot.app.export_screenshot()

    watched(run.folder, scenario, size=(160, 40))


def test_rows_that_no_clock_and_no_gauge_can_show_are_drawn_all_the_same(copy: RunFolder) -> None:
    with contextlib.closing(sqlite3.connect(copy.store)) as db, db:
        db.execute("UPDATE guess SET at = 1e300, score = -1e300")
        db.execute("UPDATE ledger SET spent = 9e999")
        db.execute("UPDATE point SET recall = 9e999, spent = -9e999")

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "draws on small" in text_of(pilot, "#who"))
        for key in "12345":
            await pilot.press(key)
            await pilot.pause(0.1)
        pilot.app.export_screenshot()

    watched(copy, scenario)


@pytest.mark.parametrize("theme", ["textual-light", "nord"])
def test_a_run_can_be_read_in_any_theme_and_without_colour(
    finished: RunFolder, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scenario(pilot: Pilot[None]) -> None:
        pilot.app.theme = theme
        await shown(pilot)
        await pilot.press("3")
        await pilot.pause()
        assert "✗" in words_on(pilot.app)

    watched(finished, scenario)
