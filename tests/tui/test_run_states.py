"""The screen of a run in every state, with extreme numbers, at any size and in any theme."""

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from harness.runs.folder import RunFolder
from harness.tui.screens.run import RunScreen
from tests.records import EXAMPLES, recorded_run
from tests.tools.tiers import first_is_fast
from tests.tui.piloting import open_run, open_screen, press, screen_text, text_of, until

STATES = {
    "queued": ("queued", "◌ queued"),
    "starting": ("starting", "◐ starting"),
    "running": ("running", "▶ running"),
    "finishing": ("finishing", "◑ finishing"),
    "finished": ("finished", "✓ finished"),
    "out of time": ("out_of_time", "⧗ out of time"),
    "crashed": ("crashed", "✗ crashed"),
    "lost": (None, "? lost"),
    "blind": ("running", "▶ running"),
    "without a guess": ("running", "▶ running"),
}


@pytest.mark.parametrize("state", first_is_fast(STATES, fast=3))
async def test_a_run_is_drawn_in_any_state(home: Path, state: str) -> None:
    phase, words = STATES[state]
    run = recorded_run(home, is_blind=state == "blind", pid=None if phase is None else os.getpid())
    if phase is not None:
        run.event("phase", phase=phase, reason="for a reason [/")
    if state != "without a guess":
        run.guess(run.batch("a"), [(example, example % 2 == 0, 1.0 - example) for example in range(EXAMPLES)])
    async with open_run(run.folder) as pilot:
        assert text_of(pilot, "#who").startswith(f"{words}  some on small")
        # The panel of the figures is hidden, and its text is broken for another width.
        words_of_figures = " ".join(text_of(pilot, "#details-text").split())
        assert ("the round is blind" in words_of_figures) == (state == "blind")
        for theme in ("textual-light", "textual-dark") if state == "running" else ("textual-dark",):
            pilot.app.theme = theme
            for key in "123]]]":
                await pilot.press(key)
            await until(pilot, lambda: "some on small" in screen_text(pilot.app))
        # All panels at once, for the states whose plots differ.
        if state in ("blind", "without a guess", "running"):
            await pilot.resize_terminal(200, 50)
            await until(pilot, lambda: "Guesses" in screen_text(pilot.app) and "Figures" in screen_text(pilot.app))


@pytest.mark.parametrize("state", first_is_fast(["queued", "starting", "crashed", "stopped"]))
@pytest.mark.parametrize("name", ["some", "baseline"])
async def test_a_run_without_a_guess_shows_no_numbers(home: Path, state: str, name: str) -> None:
    run = recorded_run(home, name=name, pid=os.getpid())
    baseline = recorded_run(home, id_="efgh-baseline", name="baseline", seed=1)
    baseline.guess(baseline.batch("a"), [(example, example < 8, 1.0 - example) for example in range(EXAMPLES)])
    with baseline.store.transaction():
        baseline.store.add_point(spent=1.0, guesses=16, rows=16, solved=8, wrong=8, recall=0.5)
    baseline.event("phase", phase="finished")
    run.event("phase", phase=state)
    async with open_run(run.folder, size=(120, 40)) as pilot:
        await until(pilot, lambda: "baseline 0.500" in text_of(pilot, "#difference-figure .name"))
        for figure in ("recall", "difference"):
            assert text_of(pilot, f"#{figure}-figure .small") == "–"
            assert pilot.app.screen.query_one(f"#{figure}-figure").has_class("-none")
        assert "0.0" not in text_of(pilot, "#details-text") and "± 0" not in screen_text(pilot.app)
        assert "No guesses" in screen_text(pilot.app)


@pytest.mark.parametrize(
    "scores",
    first_is_fast([((1e308, -1e308),), ((float("inf"), 0.0),), ((1e300, 1e300),), ((5e-324, 0.0),)]),
    ids=["wide", "inf", "one", "near"],
)
async def test_any_scores_of_a_blind_round_are_drawn(home: Path, scores: tuple[float, float]) -> None:
    run = recorded_run(home, is_blind=True)
    run.guess(run.batch("a"), [(0, True, scores[0]), (1, True, scores[1])])
    async with open_run(run.folder, size=(160, 40)) as pilot:
        assert "round is blind" in text_of(pilot, "#details-text")
        assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())


async def test_extreme_times_and_scores_are_drawn(copy: RunFolder) -> None:
    with contextlib.closing(sqlite3.connect(copy.store)) as db, db:
        db.execute("UPDATE guess SET at = 1e300, score = -1e300")
        db.execute("UPDATE ledger SET spent = 9e999")
        db.execute("UPDATE point SET recall = 9e999, spent = -9e999")
    async with open_screen(RunScreen(copy)) as pilot:
        await until(pilot, lambda: "draws on small" in text_of(pilot, "#who"))
        for key in "123]]]":
            await pilot.press(key)
            await pilot.pause()
        await until(pilot, lambda: "draws on small" in screen_text(pilot.app))


@pytest.mark.parametrize("theme", ["textual-light", "nord"])
async def test_a_run_is_readable_in_any_theme_without_colours(
    finished: RunFolder, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_run(finished) as pilot:
        pilot.app.theme = theme
        await press(pilot, "shift+tab", then=lambda: "✗" in screen_text(pilot.app))
