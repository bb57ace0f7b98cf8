"""The application in a real terminal: keys, a killed terminal, an editor, and resizes."""

import shlex
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator

import pytest

from harness.runs.folder import RunFolder
from harness.runs.summary import run_summary
from tests.conftest import require_tool
from tests.functional.bundler import OWN_ENVIRONMENT
from tests.functional.machine import Machine, guess_count, pauses, wait_until
from tests.functional.trained import ATTACKED, TRAINING, write_trained_model
from tests.tools.tiers import long_values

pytestmark = pytest.mark.slow

SECONDS = 240.0
STORMS, STORM = 5, ((80, 24), (200, 55), (40, 12), (160, 50), (60, 15), (100, 30), (120, 35))


class Terminal:
    """A terminal in its own tmux server. size: columns and rows."""

    def __init__(self, machine: Machine, *command: str, size: tuple[int, int]) -> None:
        self._socket = str(machine.folder / "tmux")
        kept = ("HARNESS", "PYTHON", "EDITOR")
        environment = [f"{name}={value}" for name, value in machine.env().items() if name.startswith(kept)]
        # Readline sets COLUMNS and LINES in this process if a test has loaded it.
        line = shlex.join(
            ["env", "-u", "COLUMNS", "-u", "LINES", *environment, sys.executable, "-m", "harness", *command]
        )
        columns, rows = map(str, size)
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, "-c", str(machine.folder), line)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout

    def press(self, *keys: str) -> None:
        """Send keys by their tmux names."""
        for key in keys:
            self._tmux("send-keys", key)
            time.sleep(0.15)

    @property
    def text(self) -> str:
        """The text on the screen."""
        return self._tmux("capture-pane", "-p")

    @property
    def cells(self) -> str:
        """The text on the screen with its colours and attributes."""
        return self._tmux("capture-pane", "-p", "-e")

    def until(self, *wanted: str) -> str:
        """Wait until the screen contains all of `wanted`, and return its text."""
        for pause in pauses(SECONDS):
            text = self.text
            if all(part in text for part in wanted):
                return text
            time.sleep(pause)
        raise AssertionError(f"{wanted} did not appear:\n{self.text}")

    def settled(self) -> str:
        """Wait until the screen has not changed for a second, and return its cells."""
        before = ""
        while (cells := self.cells) != before:
            before = cells
            time.sleep(1.0)
        return cells

    def resize(self, columns: int, rows: int) -> None:
        """Resize the terminal."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def kill(self) -> None:
        """Close the terminal."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def terminal(machine: Machine) -> Iterator[Callable[..., Terminal]]:
    require_tool("tmux")
    opened: list[Terminal] = []

    def open_(*command: str, size: tuple[int, int] = (80, 24)) -> Terminal:
        opened.append(Terminal(machine, *command, size=size))
        return opened[-1]

    yield open_
    for one in opened:
        one.kill()


def only_run(machine: Machine) -> RunFolder:
    (folder,) = wait_until(machine.folders)
    return folder


@pytest.mark.timeout(900)
def test_from_an_empty_home_to_a_packaged_submission_by_keys_alone(
    machine: Machine, terminal: Callable[..., Terminal]
) -> None:
    folder = machine.folder
    (folder / "team.toml").write_text('[[members]]\nname = "Ada"\n')
    (folder / "description.md").write_text("# An attack\n\nIt samples.\n")
    first = terminal(size=(120, 35))
    first.until("How much of its training data")
    first.press("Enter")
    first.until("baseline on demo", "running")
    run = only_run(machine)
    wait_until(lambda: guess_count(run) > 0, seconds=SECONDS)
    # Closing the terminal leaves the run running.
    first.kill()
    count = guess_count(run)
    wait_until(lambda: guess_count(run) > count or run_summary(run).status == "finished")

    again = terminal(size=(120, 35))
    again.until(run.id.partition("-")[0], "Runs")
    again.press("Enter")
    again.until("✓ finished", "baseline on demo", "Recall vs. errors")
    again.press("q", "n")
    again.until("2 Attacks", "greedy")
    _find(again, "baseline")
    again.press("n")
    again.until("trials", "harness run baseline")
    # In one burst, as over a slow line: the number of trials.
    again.press("Enter", "C-u", "1", "C-r")
    (second,) = wait_until(lambda: [folder for folder in machine.folders() if folder.id != run.id])
    assert second.attack_spec().params["trials"] == 1
    again.until("✓ finished", second.id)
    again.press("q", "1")
    again.until(second.id.partition("-")[0], run.id.partition("-")[0])
    again.press("c")
    again.until("2 runs of demo", "McNemar", "trials", "solved by")
    again.press("q", "p")
    again.until("Checklist", "ready.")
    again.press("C-r")
    # The cursor is on the new run.
    again.until("packaged in", f"{second.id}.zip")
    assert zipfile.is_zipfile(folder / "submissions" / f"{second.id}.zip")
    again.press("Escape")
    # An Escape with a key right behind it is another key.
    wait_until(lambda: "Checklist" not in again.text)
    again.press("q")
    wait_until(lambda: subprocess.run(["tmux", "-S", again._socket, "ls"], capture_output=True).returncode != 0)


@pytest.mark.long
@pytest.mark.parametrize("model_type", ["llama", "gpt_neox"])
@pytest.mark.timeout(900)
def test_other_architectures_from_the_screen_to_a_verified_bundle(
    machine: Machine, terminal: Callable[..., Terminal], model_type: str
) -> None:
    folder = machine.folder
    write_trained_model(model_type, folder / "models" / model_type)
    lines = [f'target = "./models/{model_type}"', f"answer_rows = [0, {ATTACKED}]", f"train_rows = [0, {TRAINING}]"]
    (folder / "few.toml").write_text("\n".join(['base = "demo"', 'name = "few"', *lines]))
    (folder / "team.toml").write_text('[[members]]\nname = "Ada"\n')
    (folder / "description.md").write_text("# An attack\n\nIt searches.\n")
    opened = terminal(size=(120, 35))
    opened.until("2 Attacks")
    _find(opened, "two_step")
    opened.press("n")
    opened.until("width", "harness run two_step")
    # The cursor is on the round.
    opened.press("C-u", *"./few.toml")
    opened.until("harness run two_step --round ./few.toml")
    opened.press("C-r")
    run = only_run(machine)
    opened.until("✓ finished", "two_step on few", run.id)
    summary = run_summary(run)
    assert summary.recall_at_cap is not None and summary.recall_at_cap > 0.1
    opened.press("p")
    opened.until("Checklist", "ready.")
    opened.press("C-r")
    opened.until("packaged in", f"{run.id}.zip")
    bundle = str(folder / "submissions" / f"{run.id}.zip")
    verdict = machine.json(
        "bundle", "verify", bundle, "--round", "few.toml", *OWN_ENVIRONMENT, "--out", str(folder / "again")
    )
    assert verdict["outcome"] == "reproduced" and verdict["sentence"].endswith("byte for byte")


def _find(terminal: Terminal, attack: str) -> None:
    """Open the page of attacks and filter it until the cursor is on the row of `attack`."""
    terminal.press("2", "/", *attack, "Enter")
    wait_until(lambda: _name_at_cursor(terminal) == attack)


def _name_at_cursor(terminal: Terminal) -> str:
    """Return the first word of the row under the cursor; empty if no row is marked.

    The rest of a row also changes when the table gets its data, without a move of the cursor.
    """
    rows = (line.partition("▌")[2].split() for line in terminal.text.splitlines() if "▌" in line)
    return next((row[0] for row in rows if row), "")


@pytest.mark.parametrize("keys", [("q",), *long_values([("C-q",)])])
def test_quitting_restores_the_terminal(
    machine: Machine, terminal: Callable[..., Terminal], keys: tuple[str, ...]
) -> None:
    opened = terminal()
    opened.until("Runs", "Help")
    opened.press(*keys)
    wait_until(lambda: subprocess.run(["tmux", "-S", opened._socket, "ls"], capture_output=True).returncode != 0)


def test_the_screen_returns_after_an_editor(
    machine: Machine,
) -> None:
    require_tool("tmux")
    editor = machine.folder / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "editing %s\\n" "$1"\nread line\nprintf "# %s\\n" "$line" >> "$1"\n')
    editor.chmod(0o755)
    opened = Terminal(Machine(machine.folder, {"EDITOR": str(editor)}), size=(100, 30))
    try:
        opened.until("Runs", "Help")
        opened.press("2")
        opened.until("baseline", "greedy")
        opened.press("a")
        opened.until("the new attack in attacks", "my_attack_1")
        opened.press("Enter")
        opened.until("editing")
        opened.press(*"edited", "Enter")
        opened.until("my_attack_1", "baseline")
        attack = machine.folder / "attacks" / "my_attack_1.py"
        assert attack.read_text().endswith("# edited\n")
    finally:
        opened.kill()


@pytest.mark.parametrize("size", [(80, 24), *long_values([(20, 5), (250, 70)])])
def test_the_screen_works_at_any_size(
    machine: Machine, terminal: Callable[..., Terminal], size: tuple[int, int]
) -> None:
    run = machine.attack("draws", "--set", "pause=0")
    opened = terminal("watch", run["id"], size=size)
    opened.until("finished  draws")
    for columns, rows in ((20, 5), (200, 50), (60, 12), size):
        opened.resize(columns, rows)
        time.sleep(0.3)
    opened.until("finished  draws")
    opened.press("q", "q")
    assert (machine.folder / "state" / "screen.log").read_text().count("CRITICAL") == 0


def test_a_storm_of_resizes_ends_in_the_cells_of_a_fresh_paint(
    machine: Machine, terminal: Callable[..., Terminal]
) -> None:
    for name in ("first", "second"):
        machine.replayed(name, range(16))
    opened = terminal(size=(120, 35))
    opened.until("any guess correct", "1 of 2")
    painted = opened.settled()
    for _ in range(STORMS):
        for columns, rows in STORM:
            opened.resize(columns, rows)
            time.sleep(1 / len(STORM))
    wait_until(lambda: opened.cells == painted, seconds=SECONDS)
