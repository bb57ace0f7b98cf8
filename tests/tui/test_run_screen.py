"""The screen of one run: figures, plots, panels and keys. Only `stop` affects the run."""

from collections.abc import Iterator

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from harness.analysis.replay import best_other_curve
from harness.runs.folder import RunFolder, remove_run
from harness.runs.summary import run_summary
from harness.tui.app import HarnessApp
from harness.tui.plot import Plot
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.run import RunScreen
from harness.tui.widgets.plot_view import PlotView, RunPlot
from tests.functional.machine import Machine, guess_count, wait_until
from tests.records import Recorded
from tests.tools.tiers import long_values
from tests.tui.piloting import SIZES, notifications, open_run, screen_text, text_of, title_of, until
from tests.tui.stored import add_guesses, stored_run


@pytest.fixture
def real_run(machine: Machine) -> Iterator[RunFolder]:
    """A run with real processes, which is running until its test ends."""
    folder = machine.detached("patient")
    wait_until(lambda: guess_count(folder) > 0, seconds=90)
    yield folder
    if not run_summary(folder).status.is_over:
        machine.run("stop", folder.id)


def plot_lines(pilot: Pilot[None]) -> list[str]:
    """Return the lines of the plot, as they are on the screen."""
    region = pilot.app.screen.query_one("#plot-view", PlotView).region
    lines = screen_text(pilot.app).splitlines()[region.y : region.bottom]
    return [line[region.x : region.right] for line in lines]


def y_labels(pilot: Pilot[None]) -> list[str]:
    """Return the labels of the y axis, from the top."""
    return [line.partition("┤")[0].strip() for line in plot_lines(pilot) if "┤" in line]


@pytest.mark.parametrize("size", SIZES)
async def test_a_finished_run_is_shown_at_any_size(finished: RunFolder, size: tuple[int, int]) -> None:
    async with open_run(finished, size=size) as pilot:
        assert text_of(pilot, "#who").startswith("✓ finished  draws on small  aaaa-draws-small")
        assert " of 1:00" in text_of(pilot, "#bars") and "exact@1" in text_of(pilot, "#details-text")
        for key in "1234":
            await pilot.press(key)
            await pilot.pause()
            assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())
        await pilot.press("3")
        await until(pilot, lambda: "✓ finished" in screen_text(pilot.app))
        if size[0] >= 80:
            await until(pilot, lambda: "draws on small" in screen_text(pilot.app))
            await until(pilot, lambda: "✗" in screen_text(pilot.app) and "example" in screen_text(pilot.app))


async def test_keys_switch_between_panels(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:

        def shown() -> list[str | None]:
            return [panel.id for panel in pilot.app.screen.query(".panel") if not panel.has_class("-hidden")]

        for key, name in zip("123", ["plot", "details", "guesses"], strict=True):
            await pilot.press(key)
            await until(pilot, lambda name=name: shown() == [name])
        for key, name in (("tab", "plot"), ("shift+tab", "guesses")):
            await pilot.press(key)
            await until(pilot, lambda name=name: shown() == [name])


async def test_a_click_on_a_tab_shows_its_panel(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        tabs = text_of(pilot, ".tabs")
        await pilot.click(".tabs", offset=(tabs.index("2 Figures") + 2, 0))
        await until(pilot, lambda: not pilot.app.screen.query_one("#details").has_class("-hidden"))


async def test_a_recall_with_its_interval_is_one_line(finished: RunFolder) -> None:
    async with open_run(finished, size=(120, 35)) as pilot:
        width = pilot.app.screen.query_one("#details-text").content_size.width
        assert width >= len("any guess correct  0.369 [0.338, 0.400]")


async def test_z_lets_a_panel_fill_the_screen(finished: RunFolder) -> None:
    async with open_run(finished, size=(140, 40)) as pilot:
        await pilot.press("1")
        plot, guesses = (pilot.app.screen.query_one(f"#{name}") for name in ("plot", "guesses"))
        width = plot.size.width
        await pilot.press("z")
        await until(pilot, lambda: plot.size.width > width and not guesses.region.area)
        await pilot.press("z")
        await until(pilot, lambda: plot.size.width == width and guesses.region.area)


@pytest.mark.parametrize("size", [(120, 35), *long_values([(80, 24), (200, 55)])])
async def test_every_plot_has_two_labels_on_each_axis(finished: RunFolder, size: tuple[int, int]) -> None:
    async with open_run(finished, size=size) as pilot:
        await pilot.press("1")
        for kind in list(RunPlot)[:5]:
            await until(pilot, lambda kind=kind: title_of(pilot, "plot").startswith(kind.value))
            if kind not in (RunPlot.TIME, RunPlot.TRIALS):
                await until(pilot, lambda: len(set(y_labels(pilot))) >= 2)
                assert plot_lines(pilot)[-2].count("┴") >= 2
            await pilot.press("]")


async def test_the_cap_line_erases_no_part_of_the_curve(finished: RunFolder) -> None:
    async with open_run(finished, size=(120, 35)) as pilot:
        await pilot.press("1")
        await until(pilot, lambda: any("cap 100" in line for line in plot_lines(pilot)))
        view = pilot.app.screen.query_one("#plot-view", PlotView)
        plot = view._content
        assert isinstance(plot, Plot)
        # From the first guess on, each column has a dot of the curve.
        curve = plot.lines[-1]
        assert curve.label == "this run" and len(curve.x) > 1


async def test_brackets_go_through_the_plots(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        seen = []
        for _ in RunPlot:
            seen.append(title_of(pilot, "plot").partition(" · ")[0])
            before = title_of(pilot, "plot")
            await pilot.press("]")
            await until(pilot, lambda before=before: title_of(pilot, "plot") != before)
        assert seen == [kind.value for kind in RunPlot]
        await pilot.press("[", "[")
        await until(pilot, lambda: title_of(pilot, "plot").startswith(RunPlot.PACE.value))


async def test_the_terminal_may_shrink_and_grow(finished: RunFolder) -> None:
    async with open_run(finished) as pilot:
        for size in [(20, 5), (250, 70), (1, 1), (80, 24), (109, 3), (110, 24)]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await until(pilot, lambda: "draws on small" in screen_text(pilot.app))


async def test_freezing_affects_only_the_view(running: Recorded) -> None:
    async with open_run(running.folder) as pilot:
        await pilot.press("f")
        await until(pilot, lambda: "view frozen" in text_of(pilot, "#who"))
        before = text_of(pilot, "#details-text")
        add_guesses(running, 30)
        screen = pilot.app.screen
        assert isinstance(screen, RunScreen)
        await until(pilot, lambda: screen._snapshot is not None and screen._snapshot.summary.guesses >= 30)
        assert text_of(pilot, "#details-text") == before
        await pilot.press("f")
        await until(pilot, lambda: text_of(pilot, "#details-text") != before)
        assert "frozen" not in text_of(pilot, "#who")


async def test_the_log_opens_with_l_and_by_itself_after_a_crash(running: Recorded) -> None:
    running.folder.log.write_text("loading\n[/ went wrong\n")
    async with open_run(running.folder) as pilot:
        drawer = pilot.app.screen.query_one("#log")
        assert not drawer.display
        await pilot.press("l")
        await until(pilot, lambda: drawer.display and "[/ went wrong" in screen_text(pilot.app))
        await pilot.press("escape")
        await until(pilot, lambda: not drawer.display)
        assert isinstance(pilot.app.screen, RunScreen)
        running.event("phase", phase="crashed")
        await until(pilot, lambda: drawer.display and drawer.has_class("-crashed"))
        # Once closed it stays closed.
        await pilot.press("l")
        await until(pilot, lambda: not drawer.display)
        snapshot = pilot.app.screen._snapshot
        await until(pilot, lambda: pilot.app.screen._snapshot is not snapshot)  # type: ignore[attr-defined]
        assert not drawer.display


async def test_stop_asks_for_confirmation(running: Recorded) -> None:
    async with open_run(running.folder) as pilot:
        for answer in ("n", "escape"):
            await pilot.press("s")
            await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmDialog))
            await pilot.press(answer)
            await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))
        assert not run_summary(running.folder).status.is_over


@pytest.mark.slow
async def test_a_run_is_stopped_and_resumed_and_survives_the_application(real_run: RunFolder) -> None:
    app = HarnessApp(watched=real_run)
    async with app.run_test() as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and "▶ running" in _header(app))
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: f"{real_run.id} is stopped." in notifications(pilot))
        await until(pilot, lambda: "■ stopped" in _header(app))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y")
        await until(pilot, lambda: "▶ running" in _header(app))
        await pilot.press("q", "q")
        await until(pilot, lambda: not app.is_running or app._exit)
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


async def test_a_partial_run_is_not_compared_with_a_whole_one(machine: Machine) -> None:
    partial = stored_run(machine.folder, "pppp-draws-small", range(8), limit=32)
    whole = stored_run(machine.folder, "dddd-baseline-small", range(30), name="baseline")
    async with open_run(partial, size=(140, 40)) as pilot:
        await until(pilot, lambda: text_of(pilot, "#difference-figure .name") == "partial: not compared")
        assert best_other_curve("baseline", partial.attack_spec()) is None
    remove_run(whole)
    remove_run(partial)


async def test_the_best_other_baseline_run_is_the_reference(machine: Machine, finished: RunFolder) -> None:
    best = stored_run(machine.folder, "dddd-baseline-small", range(30), name="baseline")
    async with open_run(finished, size=(140, 40)) as pilot:
        await until(pilot, lambda: "best baseline dddd" in screen_text(pilot.app))
        assert text_of(pilot, "#difference-figure .name") == "to baseline 0.469"
        assert text_of(pilot, "#difference-figure .small") == "-0.219"
    remove_run(best)
