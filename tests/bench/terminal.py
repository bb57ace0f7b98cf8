"""The TUI in a terminal: time to the first paint and to a list of 1,000 runs, and bytes written on a live run."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from statistics import median

from harness.runs.folder import RunFolder
from tests.bench.inputs import run_harness
from tests.bench.measuring import timed
from tests.tools.terminal import Terminal

_SIZES = ((80, 24), (120, 35), (200, 55))
_SECONDS_TO_OPEN = 30.0
_SETTLING_SECONDS, _MEASURED_SECONDS = 5.0, 20.0
RUNS = 1_000


SMALLEST = """
from textual.app import App
from textual.widgets import DataTable, Footer, Static
class Smallest(App):
    BINDINGS = [("question_mark", "help", "Help")]
    def compose(self):
        yield Static("Runs")
        yield DataTable()
        yield Footer()
Smallest().run()
"""
"""The program of an application with one table, whose first paint depends on the machine and on Textual alone."""


def seconds_to_show(*words: str, program: Sequence[str] = ("-m", "harness"), repeats: int = 5) -> float:
    """Return the median seconds from the command to the first frame that contains `words`."""

    def show() -> None:
        with _terminal(_SIZES[0], program) as terminal:
            terminal.wait_for(*words, seconds=_SECONDS_TO_OPEN)

    return median(timed(show).seconds for _ in range(repeats))


def copies_of(run: RunFolder) -> None:
    """Copy a finished run until there are RUNS, the newest of which is named `zzzz`, and read them once."""
    spec = json.loads(run.spec_file.read_text())
    for number in range(RUNS - 1):
        name = f"{number:04d}-copy" if number < RUNS - 2 else "zzzz-copy"
        copy = RunFolder(run.path.with_name(name))
        shutil.copytree(run.path, copy.path)
        changed = {"id": name, "created_at": spec["created_at"] + number}
        copy.spec_file.write_text(json.dumps(spec | changed))
    # The first reading stores a summary beside each run.
    run_harness(run.path.parents[2], "list", "runs")


def bytes_per_second(folder: RunFolder) -> Iterator[tuple[str, float]]:
    """Yield the mean bytes that `harness watch` writes in a second, for each size of the terminal, on a live run."""
    for columns, rows in _SIZES:
        with _terminal((columns, rows), ("-m", "harness", "watch", folder.id)) as terminal:
            terminal.read_for(_SETTLING_SECONDS)
            yield f"{columns}x{rows}", terminal.read_for(_MEASURED_SECONDS) / _MEASURED_SECONDS


def _terminal(size: tuple[int, int], program: Sequence[str]) -> Terminal:
    columns, rows = size
    # An installed package is compiled: with this variable, every start would compile the checkout.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["COLORTERM"] = "truecolor"
    return Terminal([sys.executable, *program], rows=rows, columns=columns, env=environment)
