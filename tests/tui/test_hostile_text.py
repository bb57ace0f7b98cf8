"""Text from models, attacks and files stays text on every screen."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot
from textual.widgets import RichLog
from tokenizers import Tokenizer

from harness.runs.folder import RunFolder
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.example import ExampleScreen
from harness.tui.widgets.guess_stream import GuessStream
from tests.functional.machine import EXAMPLES as ALL
from tests.functional.machine import ROOT, homes
from tests.tui.piloting import SIZES, play_screen, screen_text, text_of, until, watch
from tests.tui.stored import LENGTH, live_run
from tests.unit.tui.recorded import EXAMPLES, recorded_run

TOKENIZER = ROOT / "harness" / "engine" / "demo" / "weights" / "tokenizer.json"
MARKUP = "[/bold]"


@pytest.mark.parametrize("size", SIZES)
def test_hostile_guesses_and_log_lines_stay_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    run = live_run(tmp_path, "abcd-hostile")
    batch, tokens = run.batch("0"), np.arange(ALL * LENGTH, dtype=np.uint16).reshape(ALL, LENGTH)
    with run.store.transaction():
        run.store.add_rows(*batch, "guess", {"example": np.arange(ALL), "suffix": tokens, "score": np.full(ALL, 1e300)})
    run.folder.log.write_text("[/ [bold]x \x1b[31m\u202e log\n")
    shutil.copy(TOKENIZER, run.folder.tokenizer)

    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        stream = pilot.app.screen.query_one(GuessStream)
        await until(pilot, lambda: len(stream._lines) == ALL)
        for _ in range(8):
            await pilot.pause()
            words = screen_text(pilot.app)
            assert all(line.isprintable() for line in words.splitlines())
            stream.scroll_page_up(animate=False)
        await pilot.press("5")
        await until(pilot, lambda: any("[/" in line.text for line in pilot.app.screen.query_one(RichLog).lines))
        assert all(line.isprintable() for line in screen_text(pilot.app).splitlines())

    watch(run.folder, scenario, size=size)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunFolder, RunFolder]:
    """Two runs whose texts, ids, attacks and parameters look like markup; the first solves more examples."""
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tuple(_hostile_run(tmp_path, f"{name}-[bold]", solved) for name, solved in (("abcd", 9), ("efgh", 5)))


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
        run.store.add_rows(*batch, "guess", {"example": ids, "suffix": suffixes, "score": -ids.astype(float)})
        run.store.add_event("phase", phase="finished", reason=MARKUP)
    run.store.close()
    shutil.copy(TOKENIZER, run.folder.tokenizer)
    spec = json.loads(run.folder.spec_file.read_text())
    spec["attack"]["name"], spec["params"] = f"some{MARKUP}", {"word": f"{MARKUP}{id_}"}
    run.folder.spec_file.write_text(json.dumps(spec))
    return run.folder


def test_markup_in_guesses_stays_text(hostile: tuple[RunFolder, RunFolder]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        assert f"some{MARKUP} on small" in text_of(pilot, "#who") and hostile[0].id in screen_text(pilot.app)
        await pilot.press("3")
        await until(pilot, lambda: "→" in screen_text(pilot.app))
        lines = [line for line in screen_text(pilot.app).splitlines() if "→" in line]
        assert f"✓ {MARKUP:>16} → {MARKUP}" in lines[0] and f"✗ {MARKUP:>16} → {MARKUP[:-1]}[" in lines[-1]
        await pilot.press("slash", *MARKUP, "enter")
        await until(pilot, lambda: f"Guesses · {MARKUP} · 16 found" in screen_text(pilot.app))

    watch(hostile[0], scenario, size=(120, 30))


def test_markup_in_an_example_stays_text(hostile: tuple[RunFolder, RunFolder]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "candidate" in screen_text(pilot.app))
        lines = [line.strip() for line in screen_text(pilot.app).splitlines()]
        assert lines[lines.index("prefix") + 1] == lines[lines.index("answer") + 1] == MARKUP
        assert f"{hostile[0].id}: 1 candidate" in lines and f"{hostile[1].id}: 1 candidate" in lines
        (right,) = [line for line in lines if "1 ✓" in line]
        (wrong,) = [line for line in lines if "1 ✗" in line]
        assert right.endswith(f" {MARKUP}") and wrong.endswith(f" {MARKUP[:-1]}[")

    play_screen(ExampleScreen(hostile, range(EXAMPLES), 7), scenario, size=(80, 24))


def test_markup_in_a_comparison_stays_text(hostile: tuple[RunFolder, RunFolder]) -> None:
    async def scenario(pilot: Pilot[None]) -> None:
        await until(
            pilot, lambda: "2 runs of small" in screen_text(pilot.app) and "params.word" in screen_text(pilot.app)
        )
        words = screen_text(pilot.app)
        first, second = (folder.id for folder in hostile)
        assert f"● {first}" in words and f"■ {second}" in words
        assert f"{first} − {second}, on all examples" in words
        assert f"some{MARKUP}" in words
        (row,) = [line for line in words.splitlines() if "params.word" in line]
        assert f"{MARKUP}{first}" in row and f"{MARKUP}{second}" in row

    play_screen(CompareScreen(hostile), scenario, size=(200, 60))
