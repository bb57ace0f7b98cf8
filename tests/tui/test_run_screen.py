"""The screen of one run: figures, plots, panels and keys. Only `stop` affects the run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.widgets import Static

from harness.analysis.replay import best_other_curve
from harness.runs.folder import RunFolder
from harness.runs.summary import run_summary
from harness.tui.app import HarnessApp
from harness.tui.screens import run as run_screen
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.main import MainScreen
from harness.tui.screens.run import RunScreen
from harness.tui.widgets.plot_view import RunPlot
from tests.functional.machine import Machine, guess_count, wait_until
from tests.records import Recorded, recorded_run
from tests.tui.piloting import (
    SIZES,
    notifications,
    on_page,
    open_app,
    open_run,
    press,
    screen_text,
    text_of,
    title_of,
    until,
)
from tests.tui.stored import AddRun


@pytest.fixture
def real_run(machine: Machine) -> Iterator[RunFolder]:
    """A run with real processes, which is running until its test ends."""
    folder = machine.detached("patient")
    wait_until(lambda: guess_count(folder) > 0, seconds=90)
    yield folder
    if not run_summary(folder).status.is_over:
        machine.run("stop", folder.id)


@pytest.mark.parametrize("size", SIZES)
async def test_a_finished_run_is_shown_at_any_size(finished: RunFolder, size: tuple[int, int]) -> None:
    async with open_run(finished, size=size) as pilot:
        # In a narrow terminal the line leaves out what does not fit.
        name = "  aaaa-draws-small" if size[0] >= 80 else ""
        assert text_of(pilot, "#who").startswith(f"✓ finished  draws on small{name}")
        assert " of 1:00" in text_of(pilot, "#bars") and "exact@1" in text_of(pilot, "#details-text")
        for _ in range(3):
            await pilot.press("tab")
            await pilot.pause()
            assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())
        await press(pilot, "shift+tab", then=lambda: "✓ finished" in screen_text(pilot.app))
        if size[0] >= 80:
            await until(pilot, lambda: "draws on small" in screen_text(pilot.app))
            await until(pilot, lambda: "✗" in screen_text(pilot.app) and "example" in screen_text(pilot.app))


async def test_keys_switch_between_panels(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:

        def shown() -> list[str | None]:
            return [panel.id for panel in pilot.app.screen.query(".panel") if not panel.has_class("-hidden")]

        for key, name in (("tab", "details"), ("tab", "guesses"), ("tab", "plot"), ("shift+tab", "guesses")):
            await press(pilot, key, then=lambda name=name: shown() == [name])


async def test_a_click_on_a_tab_shows_its_panel(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        tabs = text_of(pilot, ".tabs")
        await pilot.click(".tabs", offset=(tabs.index("Figures") + 2, 0))
        await until(pilot, lambda: not pilot.app.screen.query_one("#details").has_class("-hidden"))


async def test_a_recall_with_its_interval_is_one_line(finished: RunFolder) -> None:
    async with open_run(finished, size=(120, 35)) as pilot:
        width = pilot.app.screen.query_one("#details-text").content_size.width
        assert width >= len("any guess correct  0.369 [0.338, 0.400]")


async def test_z_lets_a_panel_fill_the_screen(finished: RunFolder) -> None:
    async with open_run(finished, size=(140, 40)) as pilot:
        plot, guesses = (pilot.app.screen.query_one(f"#{name}") for name in ("plot", "guesses"))
        width = plot.size.width
        await press(pilot, "z", then=lambda: plot.size.width > width and not guesses.region.area)
        await press(pilot, "z", then=lambda: plot.size.width == width and guesses.region.area)


async def test_brackets_go_through_the_plots(home: Path) -> None:
    run = recorded_run(home)
    for number in range(1, 4):
        run.guess(run.batch(str(number)), [(number, True, 1.0)])
        with run.store.transaction():
            run.store.add_point(spent=number, guesses=number, rows=number, solved=number, wrong=0, recall=number / 16)
    async with open_run(run.folder) as pilot:
        await until(pilot, lambda: "1 of 2" in title_of(pilot, "plot"))
        assert title_of(pilot, "plot").startswith(RunPlot.ERRORS.value)
        await press(pilot, "]", then=lambda: title_of(pilot, "plot").startswith(RunPlot.TIME.value))
        await press(pilot, "]", then=lambda: title_of(pilot, "plot").startswith(RunPlot.ERRORS.value))
        await press(pilot, "[", then=lambda: title_of(pilot, "plot").startswith(RunPlot.TIME.value))


async def test_the_terminal_may_shrink_and_grow(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        for size in [(20, 5), (250, 70), (1, 1), (80, 24), (109, 3), (110, 24)]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await until(pilot, lambda: "draws on small" in screen_text(pilot.app))


async def test_deleting_a_run_at_work_says_that_it_will_be_stopped(running: Recorded) -> None:
    async with open_run(running.folder) as pilot:
        await press(pilot, "x", then=ConfirmDialog)
        assert f"{running.folder.id} is at work and will be stopped." in screen_text(pilot.app)
        await press(pilot, "n", then=RunScreen)
    assert running.folder.path.exists()


async def test_ctrl_c_says_how_to_quit_without_markup(running: Recorded) -> None:
    async with open_run(running.folder) as pilot:
        await press(pilot, "ctrl+c", then=lambda: "ctrl+q everywhere. Runs and audits go on." in notifications(pilot))


async def test_the_log_opens_with_l_and_by_itself_after_a_crash(running: Recorded) -> None:
    running.folder.log.write_text("loading\n[/ went wrong\n")
    async with open_run(running.folder) as pilot:
        drawer = pilot.app.screen.query_one("#log")
        assert not drawer.display
        await press(pilot, "l", then=lambda: drawer.display and "[/ went wrong" in screen_text(pilot.app))
        await press(pilot, "escape", then=lambda: not drawer.display)
        assert isinstance(pilot.app.screen, RunScreen)
        running.event("phase", phase="crashed")
        await until(pilot, lambda: drawer.display and drawer.has_class("-crashed"))
        # Once closed it stays closed.
        await press(pilot, "l", then=lambda: not drawer.display)
        snapshot = pilot.app.screen._snapshot
        await until(pilot, lambda: pilot.app.screen._snapshot is not snapshot)  # type: ignore[attr-defined]
        assert not drawer.display


async def test_stop_asks_for_confirmation(running: Recorded) -> None:
    async with open_run(running.folder) as pilot:
        for answer in ("n", "escape"):
            await press(pilot, "s", then=ConfirmDialog)
            await press(pilot, answer, then=RunScreen)
        assert not run_summary(running.folder).status.is_over


@pytest.mark.slow
async def test_a_run_is_stopped_and_resumed_and_survives_the_application(real_run: RunFolder) -> None:
    app = HarnessApp(watched=real_run)
    async with app.run_test() as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and "▶ running" in _header(app))
        await press(pilot, "s", then=lambda: isinstance(app.screen, ConfirmDialog))
        await press(pilot, "y", then=lambda: "■ stopped" in _header(app))
        await press(pilot, "r", then=lambda: isinstance(app.screen, ConfirmDialog))
        await press(pilot, "y", then=lambda: "▶ running" in _header(app))
        await press(pilot, "q", "q", then=lambda: not app.is_running or app._exit)
    count = guess_count(real_run)
    wait_until(lambda: guess_count(real_run) > count, seconds=90)
    assert run_summary(real_run).status == "running"


def _header(app: HarnessApp) -> str:
    return str(app.screen.query_one("#who", Static).content) if isinstance(app.screen, RunScreen) else ""


async def test_only_possible_actions_are_offered(finished: RunFolder, running: Recorded) -> None:
    for folder, keys in ((finished, set()), (running.folder, {"s"})):
        async with open_run(folder) as pilot:
            active = pilot.app.screen.active_bindings
            assert {key for key in ("s", "r") if key in active and active[key].enabled} == keys


async def test_a_partial_run_is_not_compared_with_a_whole_one(add_run: AddRun) -> None:
    partial = add_run("pppp-draws-small", range(8), limit=32)
    add_run("dddd-baseline-small", range(30), name="baseline")
    async with open_run(partial, size=(140, 40)) as pilot:
        await until(pilot, lambda: text_of(pilot, "#difference-figure .name") == "partial: not compared")
        assert best_other_curve("baseline", partial.attack_spec()) is None


async def test_the_best_other_baseline_run_is_the_reference(add_run: AddRun, finished: RunFolder) -> None:
    add_run("dddd-baseline-small", range(30), name="baseline")
    async with open_run(finished, size=(140, 40)) as pilot:
        await until(pilot, lambda: "best baseline dddd" in screen_text(pilot.app))
        assert text_of(pilot, "#difference-figure .name") == "to baseline 0.469"
        assert text_of(pilot, "#difference-figure .small") == "-0.219"


async def test_a_baseline_that_finishes_later_is_the_reference(
    add_run: AddRun, finished: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_screen, "_BASELINE_SECONDS", 0.2)
    async with open_run(finished, size=(140, 40)) as pilot:
        await until(pilot, lambda: text_of(pilot, "#difference-figure .name") == "no finished baseline")
        add_run("dddd-baseline-small", range(30), name="baseline")
        await until(pilot, lambda: text_of(pilot, "#difference-figure .name") == "to baseline 0.469")


async def test_the_next_steps_work_on_a_run_that_no_list_has_shown(finished: RunFolder, add_run: AddRun) -> None:
    add_run("dddd-baseline-small", range(30), name="baseline")
    async with open_app() as pilot:
        await on_page(pilot, 2)
        pilot.app.push_screen(RunScreen(finished))
        await until(pilot, lambda: "c Compare  d Again  p Package  n New run" in screen_text(pilot.app))
        await press(pilot, "c", then=CompareScreen)
        await press(pilot, "escape", "n", then=MainScreen)
        await until(pilot, lambda: title_of(pilot, "attack-list").startswith("Choose an attack for the new run"))
        pilot.app.push_screen(RunScreen(finished))
        await press(pilot, "3", then=lambda: pilot.app.screen.query("#audits-page"))
