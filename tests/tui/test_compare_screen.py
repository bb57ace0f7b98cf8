"""The comparison of runs on the screen: the numbers of the command, plots, and each example."""

import json
import shutil
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from harness.analysis.comparison import compare_runs
from harness.runs.folder import RunFolder, remove_run
from harness.tui.screens.compare import CompareScreen, PairTable, SettingsTable
from harness.tui.screens.example import ExampleScreen
from harness.tui.widgets.curve_plot import CurvePlot
from tests.functional.machine import Machine, leak_examples
from tests.tui.piloting import SIZES, play_screen, screen_text, text_of, until
from tests.tui.stored import stored_run


@pytest.fixture(scope="module")
def pair(machine: Machine, places: None) -> tuple[RunFolder, RunFolder]:
    """Two runs of a round of 64 examples; its training rows contain 16 of them."""
    runs = (
        stored_run(machine.folder, "abcd-better", range(40)),
        stored_run(machine.folder, "efgh-worse", range(20, 44), seed=1, age=-1.0),
    )
    leak_examples(machine.folder, 16)
    return runs


def comparing(
    folders: tuple[RunFolder, ...],
    scenario: Callable[[Pilot[None]], Awaitable[Any]],
    *,
    size: tuple[int, int] = (200, 50),
) -> Any:
    return play_screen(CompareScreen(folders), scenario, size=size)


async def shown(pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "runs of" in text_of(pilot, "#header"))


@pytest.mark.parametrize("size", SIZES)
def test_every_panel_is_drawn_at_any_size(pair: tuple[RunFolder, RunFolder], size: tuple[int, int]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        for key in "12345":
            await pilot.press(key)
            await pilot.pause()
            assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())

    comparing(pair, scenario, size=size)


def test_the_numbers_are_those_of_the_command(pair: tuple[RunFolder, RunFolder], machine: Machine) -> None:
    printed = machine.run("compare", *(folder.id for folder in pair)).stdout

    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        scores, words = text_of(pilot, "#scores-text"), text_of(pilot, "#pair-text")
        for line in words.splitlines():
            assert line in printed
        for run in compare_runs(pair).runs:
            row = next(line for line in scores.splitlines() if run.id in line)
            assert f"{run.whole.score.recall_at_cap:.3f}" in row and row.lstrip("●■ ").split() in [
                line.split() for line in printed.splitlines()
            ]
        assert "48 examples whose answers are unreachable from the training rows" in scores

    comparing(pair, scenario)


def test_curves_have_markers_without_colours(
    pair: tuple[RunFolder, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        plot = pilot.app.screen.query_one("#curves-plot", CurvePlot)

        def has_markers() -> bool:
            text = "\n".join(screen_text(pilot.app).splitlines()[plot.region.y : plot.region.bottom])
            return "●" in text and "■" in text

        await until(pilot, has_markers)

    comparing(pair, scenario)


def test_an_example_that_one_run_solves_opens_with_both_candidates(
    pair: tuple[RunFolder, RunFolder],
) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        table = pilot.app.screen.query_one(PairTable)
        ids = [int(str(table.get_row_at(row)[0])) for row in range(table.row_count)]
        assert ids == [*range(20), *range(40, 44)]
        assert [str(table.get_row_at(row)[2]) for row in (0, 15, 16, 20)] == ["yes"] * 2 + ["no"] * 2
        await pilot.press("4", "down", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ExampleScreen))
        await until(pilot, lambda: "candidate" in str(pilot.app.screen.query_one("#example-text", Static).content))
        text = str(pilot.app.screen.query_one("#example-text", Static).content)
        assert "1 ✓" in text and "1 ✗" in text and all(folder.id in text for folder in pair)
        assert "example 1 · 2 of 24" in str(pilot.app.screen.query_one("#which", Static).content)
        await pilot.press("p", "p")
        await until(pilot, lambda: "example 43 · 24 of 24" in str(pilot.app.screen.query_one("#which", Static).content))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))

    comparing(pair, scenario)


def test_u_switches_to_unreachable_examples_and_back(pair: tuple[RunFolder, RunFolder]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        assert "64 examples" in text_of(pilot, "#header")
        await pilot.press("u")
        await until(pilot, lambda: "48 unreachable examples" in text_of(pilot, "#header"))
        await pilot.press("u")
        await until(pilot, lambda: "64 examples\n" in text_of(pilot, "#header"))

    comparing(pair, scenario)


def test_differing_settings_are_listed(pair: tuple[RunFolder, RunFolder]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        table = pilot.app.screen.query_one(SettingsTable)
        rows = {str(row[0]): [str(cell) for cell in row[1:]] for row in map(table.get_row_at, range(table.row_count))}
        assert rows["seed"] == ["0", "1"]

    comparing(pair, scenario)


def test_three_runs_are_compared_without_examples(pair: tuple[RunFolder, RunFolder], machine: Machine) -> None:
    third = stored_run(machine.folder, "ijkl-third", range(10), age=-2.0)
    leak_examples(machine.folder, 16)

    async def scenario(pilot: Pilot[None]) -> None:
        await shown(pilot)
        assert text_of(pilot, "#header").startswith("3 runs of small")
        assert all(folder.id in text_of(pilot, "#scores-text") for folder in (*pair, third))
        assert "Only two runs" in text_of(pilot, "#pair-text")

    comparing((*pair, third), scenario)
    remove_run(third)


def test_runs_of_two_rounds_are_an_error(pair: tuple[RunFolder, RunFolder], machine: Machine) -> None:
    other = stored_run(machine.folder, "ijkl-other")
    leak_examples(machine.folder, 16)
    spec = json.loads(other.spec_file.read_text())
    spec["round"]["name"] = "other"
    other.spec_file.write_text(json.dumps(spec))

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "only runs of one round can be compared" in text_of(pilot, "#header"))
        await pilot.press("u", "1", "4", "enter", "escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, CompareScreen))

    comparing((pair[0], other), scenario)
    remove_run(other)


def test_a_damaged_run_is_a_message(pair: tuple[RunFolder, RunFolder]) -> None:
    gone = RunFolder(pair[0].path.with_name("zzzz-gone"))
    shutil.copytree(pair[0].path, gone.path)
    gone.store.write_bytes(b"[/ no store")

    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "cannot be read" in text_of(pilot, "#header"))
        assert text_of(pilot, "#header").isprintable()

    comparing((gone, pair[1]), scenario)
    shutil.rmtree(gone.path)
