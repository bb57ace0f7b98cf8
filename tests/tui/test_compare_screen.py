"""The comparison of runs on the screen: the numbers of the command, curves, settings, sources and each example."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event
from typing import Any

import pytest
from textual.pilot import Pilot

from harness.analysis.comparison import compare_runs
from harness.core.examples import load_answers
from harness.core.files import file_sha256
from harness.core.text import format_p_value
from harness.runs.folder import RunFolder, remove_run
from harness.tui.compare_state import SOURCE
from harness.tui.screens import compare, example
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.example import ExampleScreen
from harness.tui.widgets.plot_view import PlotView
from tests.functional.machine import Machine, leak_examples
from tests.records import change_spec
from tests.tui.piloting import (
    SIZES,
    focus_panel,
    open_app,
    open_screen,
    press,
    screen_text,
    text_of,
    title_of,
    until,
)
from tests.tui.stored import LENGTH, live_run, stored_run
from tests.tui.tables import rows_of, table_of


@pytest.fixture(scope="module")
def pair(machine: Machine, places: None) -> tuple[RunFolder, RunFolder]:
    """Two runs of a round of 64 examples; its training rows contain 16 of them."""
    runs = (
        stored_run(machine.folder, "abcd-better", range(40)),
        stored_run(machine.folder, "efgh-worse", range(20, 44), seed=1, age=-1.0),
    )
    leak_examples(machine.folder, 16)
    return runs


@asynccontextmanager
async def open_comparison(
    folders: tuple[RunFolder, ...], *, size: tuple[int, int] = (200, 50)
) -> AsyncIterator[Pilot[None]]:
    """Show the comparison of runs, and wait until it is computed."""
    async with open_screen(CompareScreen(folders), size=size) as pilot:
        await until(pilot, lambda: "runs of" in text_of(pilot, "#header"))
        yield pilot


@pytest.mark.parametrize("size", SIZES)
async def test_every_panel_is_drawn_at_any_size(pair: tuple[RunFolder, RunFolder], size: tuple[int, int]) -> None:
    async with open_comparison(pair, size=size) as pilot:
        for key in "12345":
            await pilot.press(key)
            await pilot.pause()
            assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())


async def test_the_numbers_are_those_of_the_command(pair: tuple[RunFolder, RunFolder], machine: Machine) -> None:
    printed = machine.json("compare", *(folder.id for folder in pair))
    async with open_comparison(pair) as pilot:
        scores, cells = rows_of(table_of(pilot, "score-table")), rows_of(table_of(pilot, "difference-table"))
        for run in compare_runs(pair).runs:
            assert f"{run.whole.score.recall_at_cap:.3f}" == scores[run.id][2]
        assert cells["● − ■"][1].startswith("+0.250 [")
        assert cells["solved by"][0].split()[2:] == ["both", "20", "only", "●", "20", "■", "4"]
        assert any(f" {format_p_value(value)} " in cells["McNemar"][0] for value in _numbers(printed))


def _numbers(value: Any) -> list[float]:
    """Return all numbers inside a JSON value."""
    if isinstance(value, dict | list):
        return [number for one in (value.values() if isinstance(value, dict) else value) for number in _numbers(one)]
    return [float(value)] if isinstance(value, int | float) else []


async def test_curves_have_markers_without_colours(
    pair: tuple[RunFolder, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_comparison(pair) as pilot:
        plot = pilot.app.screen.query_one("#curves-plot", PlotView)

        def has_markers() -> bool:
            lines = screen_text(pilot.app).splitlines()[plot.region.y : plot.region.bottom]
            text = "\n".join(line[plot.region.x : plot.region.right] for line in lines)
            return text.count("●") > 2 and text.count("■") > 2

        await until(pilot, has_markers)
        await press(pilot, "]", then=lambda: title_of(pilot, "curves").startswith("Recall vs. time, "))
        assert " leads from " in title_of(pilot, "curves")
        await until(pilot, has_markers)


async def test_an_example_that_one_run_solves_opens_with_both_candidates(pair: tuple[RunFolder, RunFolder]) -> None:
    async with open_comparison(pair) as pilot:
        table = table_of(pilot, "example-table")
        ids = [int(key) for key in table.keys]
        # Those that the first run does not solve come first.
        assert ids == [*range(40, 44), *range(20)]
        await until(pilot, lambda: table.has_focus)
        notes = [rows_of(table)[str(id_)][3] for id_ in (0, 15, 16, 43)]
        assert [note.startswith("not in training rows ") for note in notes] == [False, False, True, True]
        answers = load_answers(pair[0].attack_spec().round)
        assert answers is not None and notes[0].split() == [str(token) for token in answers[0]]
        table.move_to("1")
        await press(pilot, "enter", then=ExampleScreen)
        await until(pilot, lambda: table_of(pilot, "candidates").row_count == 5)
        rows = rows_of(table_of(pilot, "candidates"))
        assert [rows[f"{folder.id} 1"][1] for folder in pair] == ["✓", "✗ 1"]
        assert [rows[f"run {folder.id}"] for folder in pair] == [[f"{folder.id}: 1 candidate"] for folder in pair]
        assert text_of(pilot, "#which") == "Example 1 · 6 of 24"
        await press(pilot, "N", "N", then=lambda: text_of(pilot, "#which") == "Example 43 · 4 of 24")
        await press(pilot, "escape", then=CompareScreen)


async def test_u_switches_to_not_in_train_examples_and_back(pair: tuple[RunFolder, RunFolder]) -> None:
    async with open_comparison(pair) as pilot:
        assert "64 examples" in text_of(pilot, "#header")
        await press(pilot, "u", then=lambda: "48 examples not in the training rows" in text_of(pilot, "#header"))
        await press(pilot, "u", then=lambda: "64 examples" in text_of(pilot, "#header"))


async def test_a_round_without_not_in_train_examples_offers_no_switch(
    pair: tuple[RunFolder, RunFolder], machine: Machine
) -> None:
    leak_examples(machine.folder, 64)
    async with open_comparison(pair) as pilot:
        await until(pilot, lambda: "u" not in pilot.app.screen.active_bindings)
    leak_examples(machine.folder, 16)


async def test_differing_settings_are_listed_and_sources_open_as_a_difference(
    pair: tuple[RunFolder, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    edited: list[str] = []
    # A terminal without a screen has no editor.
    monkeypatch.setattr(compare, "open_in_editor", lambda app, path: edited.append(path.read_text()))
    for folder, line in zip(pair, ("first [/b]", "second \x1b[31m"), strict=True):
        folder.code.mkdir(exist_ok=True)
        source = folder.code / "some.py"
        source.write_text(f"same\n{line}\n")
        change_spec(folder, attack={"sha256": file_sha256(source)})
    async with open_comparison(pair) as pilot:
        table = table_of(pilot, "setting-table")
        assert rows_of(table)["seed"] == ["seed", "0", "1"]
        focus_panel(pilot, "settings")
        table.move_to("seed")
        await until(pilot, lambda: "enter" not in pilot.app.screen.active_bindings)
        table.move_to(SOURCE)
        await until(pilot, lambda: "enter" in pilot.app.screen.active_bindings)
        await press(pilot, "enter", then=lambda: edited)
        (diff,) = edited
        assert "-first [/b]" in diff.splitlines() and "\n same\n" in diff
        assert any(line.startswith("+second ") for line in diff.splitlines()) and "\x1b" not in diff


async def test_a_running_run_is_marked_and_left_out_of_the_tests_until_it_ends(
    pair: tuple[RunFolder, RunFolder], machine: Machine
) -> None:
    run = live_run(machine.folder, "ijkl-live")
    leak_examples(machine.folder, 16)
    run.guess(run.batch("0"), [(0, True, 1.0), (1, False, 0.5)])
    async with open_comparison((pair[0], run.folder)) as pilot:
        await until(
            pilot, lambda: "1 not at its end or without guesses: left out of the tests" in text_of(pilot, "#header")
        )
        assert "▶ running" in rows_of(table_of(pilot, "score-table"))[run.folder.id][0]
        assert rows_of(table_of(pilot, "difference-table"))["● − ■"][1] == "no test"
        assert text_of(pilot, "#header").startswith("So far, ● abcd solves 2 and ■ ijkl 1 of the 2 examples")
        run.event("phase", phase="finished")
        await until(pilot, lambda: "not at its end" not in text_of(pilot, "#header"))
        assert "McNemar" in rows_of(table_of(pilot, "difference-table"))
    run.store.close()
    remove_run(run.folder)


async def test_runs_of_two_rounds_are_an_error(pair: tuple[RunFolder, RunFolder], machine: Machine) -> None:
    other = stored_run(machine.folder, "ijkl-other", round_name="other")
    leak_examples(machine.folder, 16)
    async with open_comparison((pair[0], other)) as pilot:
        await until(pilot, lambda: "Compare runs of one round" in text_of(pilot, "#header"))
        header = pilot.app.screen.query_one("#header")
        assert header.styles.border_top[0] == "round" and header.size.height > 40
        await pilot.press("u", "tab", "enter", "]", "escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, CompareScreen))
    remove_run(other)


async def test_a_damaged_run_is_a_message(pair: tuple[RunFolder, RunFolder]) -> None:
    gone = RunFolder(pair[0].path.with_name("zzzz-gone"))
    shutil.copytree(pair[0].path, gone.path)
    gone.store.write_bytes(b"[/ no store")
    async with open_screen(CompareScreen((gone, pair[1])), size=(200, 50)) as pilot:
        await until(pilot, lambda: "cannot be read" in text_of(pilot, "#header"))
        assert text_of(pilot, "#header").isprintable()
    shutil.rmtree(gone.path)


async def test_h_shows_the_probability_of_each_token(
    pair: tuple[RunFolder, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_scored = Event()

    def score(command: list[str], **_: object) -> dict[str, object]:
        is_scored.wait(60)
        return {"probabilities": {"answer": [0.25] * LENGTH, "candidates": [[0.5] * LENGTH]}}

    monkeypatch.setattr(example, "run_command", score)
    async with open_screen(ExampleScreen(pair[:1], [1], 1), size=(120, 35)) as pilot:
        await until(pilot, lambda: table_of(pilot, "candidates").row_count)
        await press(pilot, "h", then=lambda: "scoring the tokens with the target, 0:0" in text_of(pilot, "#which"))
        is_scored.set()
        await until(pilot, lambda: "Probability of each token" in screen_text(pilot.app))
        assert text_of(pilot, "#which") == "Example 1 · 1 of 1" and "≥ 0.1" in text_of(pilot, "#example-text")
        await press(pilot, "h", then=lambda: "Probability of each token" not in screen_text(pilot.app))


async def test_an_example_names_the_other_attacks_that_solve_it(
    pair: tuple[RunFolder, RunFolder], machine: Machine
) -> None:
    others = [
        stored_run(machine.folder, f"{name}-other", solved, name=name)
        for name, solved in (("baseline", range(10)), ("greedy", range(5, 10)))
    ]
    # A stopped run did not attack every example.
    stopped = live_run(machine.folder, "qrst-other", name="window")
    stopped.guess(stopped.batch("0"), [(0, True, 1.0)])
    with stopped.store.transaction():
        stopped.store.add_point(spent=1.0, guesses=1, rows=1, solved=1, wrong=0, recall=1 / 64)
    stopped.event("phase", phase="stopped")
    stopped.store.close()
    others.append(stopped.folder)
    leak_examples(machine.folder, 16)
    async with open_app() as pilot:
        pilot.app.push_screen(ExampleScreen(pair[:1], range(64), 3))
        await until(
            pilot,
            lambda: (
                text_of(pilot, "#others")
                == "answer in 1 training row of the round · other attacks: baseline ✓, greedy ✗"
            ),
        )
        await pilot.press("N", "N", "N")
        await until(pilot, lambda: text_of(pilot, "#others").endswith("baseline ✓, greedy ✗, window ✓"))
        await press(pilot, "N", then=lambda: text_of(pilot, "#others") == "other attacks: baseline ✗, greedy ✗")
    for folder in others:
        remove_run(folder)
