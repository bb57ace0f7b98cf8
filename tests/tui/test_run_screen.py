"""The screen of one run: panels and keys. Only `stop` affects the run."""

import asyncio
from collections.abc import Iterator

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from harness.runs.folder import RunFolder, remove_run
from harness.runs.summary import run_summary
from harness.tui.app import HarnessApp
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.home import HomeScreen
from harness.tui.screens.run import RunScreen
from tests.functional.machine import Machine, guess_count, wait_until
from tests.tui.piloting import SIZES, notifications, screen_text, text_of, until, watch
from tests.tui.stored import add_guesses, stored_run
from tests.unit.tui.recorded import Recorded


@pytest.fixture
def real_run(machine: Machine) -> Iterator[RunFolder]:
    """A run with real processes, which is running until its test ends."""
    folder = machine.detached("patient")
    wait_until(lambda: guess_count(folder) > 0, seconds=90)
    yield folder
    if not run_summary(folder).status.is_over:
        machine.run("stop", folder.id)


@pytest.mark.parametrize("size", SIZES)
def test_a_finished_run_is_shown_at_any_size(finished: RunFolder, size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        assert text_of(pilot, "#who").startswith(f"draws on small · finished · {finished.id}")
        assert " of 1:00, " in text_of(pilot, "#how-far")
        await pilot.press("1", "2", "4", "5", "3")
        await until(pilot, lambda: "draws on small" in screen_text(pilot.app))
        if size[0] >= 80:
            await until(pilot, lambda: "✗" in screen_text(pilot.app) and "→" in screen_text(pilot.app))
            await pilot.press("4")
            await until(pilot, lambda: "exact@1" in screen_text(pilot.app) and "Recall@100" in screen_text(pilot.app))

    watch(finished, scenario, size=size)


def test_keys_switch_between_panels(finished: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        for key, name in zip("12345", ["curve", "history", "guesses", "metrics", "log"], strict=True):
            await pilot.press(key)
            await pilot.pause()
            assert [panel.id for panel in pilot.app.screen.query(".panel") if panel.display] == [name]
        await pilot.press("tab")
        await pilot.pause()
        assert pilot.app.screen.query_one("#curve").display

    watch(finished, scenario)


def test_a_click_on_a_tab_shows_its_panel(finished: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        tabs = text_of(pilot, "#tabs")
        await pilot.click("#tabs", offset=(tabs.index("4 metrics") + 2, 0))
        await until(pilot, lambda: pilot.app.screen.query_one("#metrics").display)

    watch(finished, scenario)


def test_the_terminal_may_shrink_and_grow(finished: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        for size in [(20, 5), (250, 70), (1, 1), (80, 24), (109, 3), (110, 24)]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await until(pilot, lambda: "draws on small" in screen_text(pilot.app))

    watch(finished, scenario)


def test_a_pause_affects_only_the_view(running: Recorded) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("p")
        await until(pilot, lambda: "paused" in str(pilot.app.screen.query_one("#metrics").border_title))
        before = text_of(pilot, "#metrics-text")
        add_guesses(running, 30)
        with running.store.transaction():
            running.store.add_ledger("tick", 33.0)
        # The header is updated with each snapshot, paused or not.
        await until(pilot, lambda: "0:33 of 1:00" in text_of(pilot, "#how-far"))
        assert text_of(pilot, "#metrics-text") == before
        await pilot.press("p")
        await until(pilot, lambda: text_of(pilot, "#metrics-text") != before)

    watch(running.folder, scenario)


def test_stop_asks_for_confirmation(running: Recorded) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        for answer in ("n", "escape"):
            await pilot.press("s")
            await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmDialog))
            await pilot.press(answer)
            await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        assert not run_summary(running.folder).status.is_over

    watch(running.folder, scenario)


def test_a_run_is_stopped_and_resumed_and_survives_the_application(real_run: RunFolder) -> None:
    async def play() -> None:
        app = HarnessApp(watched=real_run)
        async with app.run_test() as pilot:
            await until(pilot, lambda: isinstance(app.screen, RunScreen) and "· running" in _header(app))
            await pilot.press("s")
            await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
            await pilot.press("y")
            await until(pilot, lambda: "The run is stopped." in notifications(pilot))
            await until(pilot, lambda: "· stopped" in _header(app))
            await pilot.press("r")
            await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
            await pilot.press("y")
            await until(pilot, lambda: "· running" in _header(app))
            await pilot.press("q", "q")
            await until(pilot, lambda: not app.is_running or app._exit)

    asyncio.run(play())
    count = guess_count(real_run)
    wait_until(lambda: guess_count(real_run) > count, seconds=90)
    assert run_summary(real_run).status == "running"


def _header(app: HarnessApp) -> str:
    return str(app.screen.query_one("#who", Static).content) if isinstance(app.screen, RunScreen) else ""


@pytest.mark.slow
def test_the_end_of_a_run_is_reported_once(running: Recorded) -> None:
    ends: list[str] = []

    class RecordingApp(HarnessApp):
        def on_home_screen_run_ended(self, event: HomeScreen.RunEnded) -> None:
            ends.append(str(event.summary.status))

    async def play() -> None:
        app = RecordingApp(watched=running.folder)
        async with app.run_test() as pilot:
            await until(pilot, lambda: "· running" in _header(app))
            home = app.screen_stack[1]
            assert isinstance(home, HomeScreen)
            await until(pilot, lambda: running.folder.id in home._running_ids)
            running.event("phase", phase="crashed")
            await until(pilot, lambda: ends and "· crashed" in _header(app))
            overview = home._overview
            # A change of another run updates the overview.
            other = stored_run(running.folder.path.parents[2], "cccc-draws-small")
            await until(pilot, lambda: home._overview is not overview)
            remove_run(other)

    asyncio.run(play())
    assert ends == ["crashed"]


def test_only_possible_actions_are_offered(finished: RunFolder, running: Recorded) -> None:
    async def offered(pilot: Pilot[None]) -> set[str]:
        return {"s", "r"} & set(pilot.app.screen.active_bindings)

    assert watch(finished, offered) == set()
    assert watch(running.folder, offered) == {"s"}


def test_the_best_earlier_baseline_run_is_drawn_dim(machine: Machine, finished: RunFolder) -> None:
    earlier = stored_run(machine.folder, "dddd-baseline-small", range(30), name="baseline", age=100.0)

    async def scenario(pilot: Pilot[None]) -> None:
        title = f"Recall vs. errors · dim: {earlier.id} 0.469"
        await until(pilot, lambda: str(pilot.app.screen.query_one("#curve").border_title) == title)

    watch(finished, scenario)
    remove_run(earlier)
