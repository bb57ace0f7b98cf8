"""One run on the screen, live: its figures, its keys, and that nothing on the screen ever touches it but stop."""

import asyncio
import json

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from harness.runs.folder import RunFolder, remove_run
from harness.runs.summary import run_summary
from harness.tui.app import HarnessApp
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.home import HomeScreen
from harness.tui.screens.run import RunScreen
from tests.functional.machine import Machine, guess_count, kill_supervisor, wait_until
from tests.tui.piloting import SIZES, said, text_of, until, words_on
from tests.tui.watching import shown, watched


@pytest.mark.parametrize("size", SIZES)
def test_a_finished_run_shows_its_header_figures_and_guesses_at_any_size(
    finished: RunFolder, size: tuple[int, int]
) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        assert text_of(pilot, "#who").startswith(f"draws on small · finished · {finished.id}")
        assert " of 1:00, " in text_of(pilot, "#how-far")
        for key in "12345":
            await pilot.press(key)
            await pilot.pause()
        await pilot.press("3")
        await pilot.pause()
        words = words_on(pilot.app)
        assert "draws on small" in words
        if size[0] >= 80:
            assert "✗" in words and "→" in words
            await pilot.press("4")
            await pilot.pause()
            assert "exact@1" in words_on(pilot.app)
        pilot.app.export_screenshot()

    watched(finished, scenario, size=size)


def test_the_keys_1_to_5_and_tab_switch_between_panels(finished: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        names = ["curve", "history", "guesses", "figures", "log"]
        for key, name in zip("12345", names, strict=True):
            await pilot.press(key)
            await pilot.pause()
            assert [panel.id for panel in pilot.app.screen.query(".panel") if panel.display] == [name]
        await pilot.press("tab")
        await pilot.pause()
        assert pilot.app.screen.query_one("#curve").display

    watched(finished, scenario)


def test_a_click_on_a_tab_shows_its_panel(finished: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        tabs = text_of(pilot, "#tabs")
        await pilot.click("#tabs", offset=(tabs.index("4 figures") + 2, 0))
        await until(pilot, lambda: pilot.app.screen.query_one("#figures").display)

    watched(finished, scenario)


def test_a_terminal_may_shrink_and_grow_under_the_screen(finished: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        for size in [(20, 5), (250, 70), (1, 1), (80, 24), (109, 3), (110, 24)]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert "draws on small" in words_on(pilot.app)

    watched(finished, scenario)


def test_a_pause_holds_the_view_and_the_run_on_progress(running: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        await pilot.press("p")
        await pilot.pause()
        held, count = text_of(pilot, "#metrics-text"), guess_count(running)
        await until(pilot, lambda: guess_count(running) > count + 30)
        await pilot.pause(0.7)
        assert text_of(pilot, "#metrics-text") == held
        await pilot.press("p")
        await until(pilot, lambda: text_of(pilot, "#metrics-text") != held, seconds=5)

    watched(running, scenario)


def test_stop_asks_once_and_no_leaves_the_run_alone(running: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        for answer in ("n", "escape"):
            await pilot.press("s")
            await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmDialog))
            await pilot.press(answer)
            await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        assert not run_summary(running).status.is_over

    watched(running, scenario)


def test_a_run_is_stopped_and_resumed_and_left_to_itself(running: RunFolder) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        await pilot.press("s")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: "· stopped" in text_of(pilot, "#who"))
        await until(pilot, lambda: "the run is stopped" in said(pilot))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: "· running" in text_of(pilot, "#who"))

    watched(running, scenario)
    assert run_summary(running).status == "running"


def test_the_end_of_a_run_is_told_once(running: RunFolder, machine: Machine) -> None:
    ends: list[str] = []

    class SeccompNotifier(HarnessApp):
        def on_home_screen_run_ended(self, event: HomeScreen.RunEnded) -> None:
            ends.append(str(event.summary.status))

    async def play() -> None:
        app = SeccompNotifier(watched=running)
        async with app.run_test() as pilot:
            await until(pilot, lambda: "· running" in str(app.screen.query_one("#who", Static).content))
            kill_supervisor(running)
            await until(pilot, lambda: ends)
            await pilot.pause(1.2)
            assert "· lost" in words_on(app)

    asyncio.run(play())
    assert ends == ["lost"]


def test_ending_the_application_leaves_the_run_running(running: RunFolder) -> None:
    async def play() -> None:
        app = HarnessApp(watched=running)
        async with app.run_test() as pilot:
            await until(pilot, lambda: "patient" in words_on(app))
            await pilot.press("q")
            await pilot.press("q")
            await until(pilot, lambda: not app.is_running or app._exit)

    asyncio.run(play())
    count = guess_count(running)
    wait_until(lambda: guess_count(running) > count)
    assert run_summary(running).status == "running"


def test_only_what_can_be_done_is_offered(finished: RunFolder, running: RunFolder) -> None:
    def offered(pilot: Pilot[None]) -> set[str]:
        return {"s", "r"} & set(pilot.app.screen.active_bindings)

    async def over(pilot: Pilot[None]) -> None:
        await shown(pilot)
        assert offered(pilot) == set()

    async def going_on(pilot: Pilot[None]) -> None:
        await shown(pilot)
        assert offered(pilot) == {"s"}

    watched(finished, over)
    watched(running, going_on)


def test_the_baselines_best_earlier_run_stands_dimmed_behind_the_curve(machine: Machine, finished: RunFolder) -> None:
    made = machine.replayed("earlier", range(30))
    spec = json.loads(made.spec_file.read_text())
    spec["attack"]["name"], spec["created_at"] = "baseline", finished.spec().created_at - 100
    made.spec_file.write_text(json.dumps(spec))

    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        title = f"recall | errors · dimmed: {made.id} 0.469"
        await until(pilot, lambda: str(pilot.app.screen.query_one("#curve").border_title) == title)

    watched(finished, scenario)
    remove_run(made)
