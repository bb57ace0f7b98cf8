"""Text from models, attacks and files stays text on every screen."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from textual.widgets import Static
from tokenizers import Tokenizer

from harness.core.guesses import Guesses
from harness.runs.folder import RunFolder
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.example import ExampleScreen
from tests.functional.machine import EXAMPLES as ALL
from tests.functional.machine import ROOT
from tests.records import EXAMPLES, change_spec, recorded_run
from tests.tui.piloting import SIZES, open_app, open_run, open_screen, screen_text, text_of, title_of, until
from tests.tui.stored import LENGTH, live_run
from tests.tui.tables import rows_of, table_of

TOKENIZER = ROOT / "harness" / "demo" / "weights" / "tokenizer.json"
MARKUP = "[/bold]"


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_guesses_and_log_lines_stay_text(home: Path, size: tuple[int, int]) -> None:
    run = live_run(home, "abcd-hostile")
    batch, tokens = run.batch("0"), np.arange(ALL * LENGTH, dtype=np.uint16).reshape(ALL, LENGTH)
    with run.store.transaction():
        run.store.add_rows(*batch, "guess", Guesses(np.arange(ALL), tokens, np.full(ALL, 1e300)).columns())
    run.folder.log.write_text("[/ [bold]x \x1b[31m\u202e log\n")
    shutil.copy(TOKENIZER, run.folder.tokenizer)
    async with open_run(run.folder, size=size) as pilot:
        await pilot.press("shift+tab")
        table = table_of(pilot, "guess-rows")
        await until(pilot, lambda: table.row_count == ALL)
        for _ in range(8):
            words = screen_text(pilot.app)
            assert all(line.isprintable() for line in words.splitlines())
            await pilot.press("pageup")
            await pilot.pause()
        await pilot.press("l")
        await until(pilot, lambda: "[/ [bold]x" in str(pilot.app.screen.query_one("#log-lines Static", Static).content))
        assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())


@pytest.fixture
def hostile(home: Path) -> tuple[RunFolder, RunFolder]:
    """Two runs whose texts, ids, attacks and parameters look like markup; the first solves more examples."""
    return tuple(_hostile_run(home, f"{name}-[bold]", solved) for name, solved in (("abcd", 9), ("efgh", 5)))


def _hostile_run(folder: Path, id_: str, solved: int) -> RunFolder:
    tokens = Tokenizer.from_file(str(TOKENIZER)).encode(MARKUP).ids
    run = recorded_run(folder, id_=id_, length=len(tokens), pid=os.getpid())
    run.answers[:] = tokens
    for part in ("prefix", "answer"):
        np.save(folder / f"{part}-{EXAMPLES}.npy", run.answers)
    ids = np.arange(EXAMPLES)
    suffixes = run.answers.copy()
    suffixes[solved:, -1] = tokens[0]
    batch = run.batch("0")
    with run.store.transaction():
        run.store.add_rows(*batch, "guess", Guesses(ids, suffixes, -ids).columns())
        run.store.add_event("phase", phase="finished", reason=MARKUP)
    run.store.close()
    shutil.copy(TOKENIZER, run.folder.tokenizer)
    change_spec(run.folder, attack={"name": f"some{MARKUP}"}, params={"word": f"{MARKUP}{id_}"})
    return run.folder


async def test_markup_in_guesses_stays_text(hostile: tuple[RunFolder, RunFolder]) -> None:
    async with open_run(hostile[0], size=(120, 30)) as pilot:
        assert f"some{MARKUP} on small" in text_of(pilot, "#who") and hostile[0].id in screen_text(pilot.app)
        await pilot.press("shift+tab")
        rows = await until(pilot, lambda: rows_of(table_of(pilot, "guess-rows")))
        cells = list(rows.values())
        assert cells[0][2:] == ["✓", MARKUP, MARKUP] and cells[-1][2:] == ["✗ 1", MARKUP, f"{MARKUP[:-1]}["]
        await pilot.press("slash", *MARKUP, "enter")
        await until(pilot, lambda: f"16 found for {MARKUP}, Escape" in title_of(pilot, "guesses"))
        await until(pilot, lambda: MARKUP in screen_text(pilot.app))


async def test_markup_in_an_example_stays_text(hostile: tuple[RunFolder, RunFolder]) -> None:
    async with open_screen(ExampleScreen(hostile, range(EXAMPLES), 7), size=(80, 24)) as pilot:
        await until(pilot, lambda: "candidate" in screen_text(pilot.app))
        assert text_of(pilot, "#example-text").splitlines() == [f"prefix  {MARKUP}", f"answer  {MARKUP}"]
        rows = rows_of(table_of(pilot, "candidates"))
        assert [rows[f"run {folder.id}"] for folder in hostile] == [[f"{folder.id}: 1 candidate"] for folder in hostile]
        right, wrong = (rows[f"{folder.id} 1"] for folder in hostile)
        assert right[1] == "✓" and right[-1] == MARKUP
        assert wrong[1] == "✗ 1" and wrong[-1] == f"{MARKUP[:-1]}["
        assert all(folder.id in text_of(pilot, "#right-guess") or folder is hostile[1] for folder in hostile)


async def test_markup_in_a_comparison_stays_text(hostile: tuple[RunFolder, RunFolder]) -> None:
    async with open_screen(CompareScreen(hostile), size=(200, 60)) as pilot:
        await until(pilot, lambda: "2 runs of small" in screen_text(pilot.app) and "word" in screen_text(pilot.app))
        scores, settings = (rows_of(table_of(pilot, f"{name}-table")) for name in ("score", "setting"))
        assert [scores[folder.id][1] for folder in hostile] == [f"some{MARKUP}"] * 2
        assert settings["params.word"] == ["word", *(f"{MARKUP}{folder.id}" for folder in hostile)]
        assert f"some{MARKUP}" in screen_text(pilot.app)
        assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())


async def test_markup_in_the_lists_stays_text(hostile: tuple[RunFolder, RunFolder]) -> None:
    hostile[0].note.write_text(f"{MARKUP} note \x1b[31m")
    async with open_app(size=(200, 50)) as pilot:
        await until(pilot, lambda: table_of(pilot, "runs").row_count == 2)
        cells = rows_of(table_of(pilot, "runs"))[hostile[0].id]
        assert cells[1] == f"some{MARKUP}" and cells[7].startswith(f"{MARKUP} note ")
        table_of(pilot, "runs").move_to(hostile[0].id)
        await until(pilot, lambda: f"· some{MARKUP}" in title_of(pilot, "preview"))
        assert MARKUP in text_of(pilot, "#facts")
        assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())
