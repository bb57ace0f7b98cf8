"""Help, common options, exit codes and errors, which all commands share."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from harness.cli.app import PANELS, app, load_command, main
from harness.cli.typer_classes import EXIT_CODES, summary_of
from tests.records import recorded_run
from tests.unit.cli.command_line import CommandLine

DOCS = Path(__file__).parents[3] / "docs" / "reference"


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the path and the object of every command that is not a group."""
    for names in PANELS.values():
        for name in names:
            command = load_command(name)
            for below in getattr(command, "commands", {}).values():
                yield f"harness {name} {below.name}", below
            if not hasattr(command, "commands"):
                yield f"harness {name}", command


def test_the_help_of_a_command_begins_with_its_summary_in_the_help_of_all() -> None:
    for names in PANELS.values():
        for name, (_, summary) in names.items():
            command = load_command(name)
            assert (command.name, summary_of(command)) == (name, summary)


@pytest.mark.parametrize(
    ("path", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_has_a_short_summary_and_prints_json(path: str, command: Any) -> None:
    assert 0 < len(summary_of(command)) <= 60
    assert "--json" in [option for parameter in command.params for option in parameter.opts]


@pytest.mark.parametrize(
    "command",
    ["run baseline --set trials=0", "run baseline --limit 0", "audit leakage --top-k 0", "sweep file.toml"],
)
def test_a_number_below_its_minimum_has_the_same_words_everywhere(
    harness: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.toml").write_text('attacks = ["baseline"]\nlimit = 0\n')
    assert re.search(r"(trials|--limit|--top-k|limit): must be at least 1\b", harness(*command.split()).err)


def test_help_groups_the_commands_and_shows_each_summary_whole_at_80_columns(harness: CommandLine) -> None:
    shown = harness("--help").out
    headings = re.findall(r"^(\S.*):$", shown, re.MULTILINE)
    assert tuple(heading for heading in headings if heading in PANELS) == tuple(PANELS)
    for command in get_command(app).commands.values():  # type: ignore[attr-defined]
        assert re.search(rf"^  {command.name} +{re.escape(summary_of(command))}$", shown, re.MULTILINE)
    assert " ".join(EXIT_CODES.split()) in " ".join(shown.split())


def test_usage_lines_name_arguments_without_braces(harness: CommandLine) -> None:
    assert harness("compare", "--help").out.splitlines()[0] == "Usage: harness compare [OPTIONS] RUN..."
    assert harness("bundle", "code", "--help").out.startswith("Usage: harness bundle code [OPTIONS] ATTACK\n")


def test_the_exit_codes_of_the_help_are_documented() -> None:
    table = (DOCS / "command-line.md").read_text()
    assert set(re.findall(r"^\| (\d+) \|", table, re.MULTILINE)) == set(re.findall(r"\b\d+\b", EXIT_CODES))


@pytest.mark.parametrize("arguments", [("--home", "other", "list", "runs"), ("list", "runs", "--home", "other")])
def test_home_is_accepted_before_and_after_the_command(
    harness: CommandLine, home: Path, arguments: tuple[str, ...]
) -> None:
    recorded_run(home)
    assert harness("list", "runs", "--json").json["runs"]
    (home / "other").mkdir()
    assert harness(*arguments).err.startswith("no runs yet")


@pytest.mark.parametrize("arguments", [("--quiet", "list", "runs"), ("list", "runs", "--quiet")])
def test_quiet_hides_messages(harness: CommandLine, arguments: tuple[str, ...]) -> None:
    assert harness(*arguments).err == ""
    assert harness("list", "runs").err != ""


def test_quiet_shows_errors(harness: CommandLine) -> None:
    assert harness("--quiet", "show", "absent").err.startswith("harness: unknown name 'absent'")


@pytest.mark.parametrize("arguments", [("--debug", "show", "absent"), ("show", "absent", "--debug")])
def test_debug_raises_the_error(harness: CommandLine, arguments: tuple[str, ...]) -> None:
    from harness.core.errors import HarnessError

    with pytest.raises(HarnessError):
        harness(*arguments)


def test_an_internal_error_asks_for_a_report(harness: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.runs.summary.all_run_folders", lambda: 1 / 0)
    done = harness("list", "runs")
    assert done.code == 1
    assert done.err.startswith("harness: internal error. Please report it; --debug prints the traceback.")


def test_other_systems_than_linux_are_refused(harness: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    done = harness("list", "runs")
    assert (done.code, done.out) == (1, "")
    assert done.err == "harness: only Linux is supported, and this is darwin. Use a Linux machine or a container.\n"


@pytest.mark.parametrize("arguments", [("list", "attacks"), ("--help",), ("list", "rounds", "--json")])
def test_a_closed_stdout_is_not_an_error(home: Path, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_stdout_that_is_not_utf_8_gets_question_marks(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    monkeypatch.setattr(sys, "argv", ["harness", "audit", "book", "--help"])
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 0 and b"Usage: harness audit book" in written.getvalue()


@pytest.mark.parametrize(
    "command",
    ["tune absent", "tune greedy --vary absent=1..2", "tune sampling --vary trials=3..1", "data fetch absent"],
)
def test_a_wrong_name_or_value_is_a_usage_error(harness: CommandLine, command: str) -> None:
    done = harness(*command.split())
    assert (done.code, done.out) == (2, "")
    assert not harness("list", "runs", "--json").json["runs"]
