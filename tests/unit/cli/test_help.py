"""The help of every command: its length, its order, its width, its defaults and its examples."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.exceptions import TyperException

from harness.cli import typer_classes
from harness.cli.app import PANELS, load_command
from harness.cli.typer_classes import DETAILS, examples_of
from tests.unit.cli.command_line import CommandLine
from tests.unit.cli.test_app import DOCS, commands

NAMES = [name for names in PANELS.values() for name in names]
GROUPS = ["harness", *(f"harness {name}" for name in NAMES if hasattr(load_command(name), "commands"))]
PATHS = [*GROUPS, *(path for path, _ in commands())]
MAX_LINES = {"-h": 40, "--help": 80}
"""The lines of the longest help at 80 columns."""


def command_lines(examples: str) -> list[str]:
    """Return the command lines of the examples of a help."""
    return [line for line in examples.replace("\\\n", " ").splitlines() if not line.startswith("#")]


def parse(command_line: str) -> str:
    """Parse a command line without running it, and return the path of its command. Raises typer's usage errors."""
    program, name, *rest = shlex.split(command_line)
    path, command = [program, name], load_command(name)
    while hasattr(command, "commands"):
        path, command, rest = [*path, rest[0]], command.commands[rest[0]], rest[1:]
    command.make_context(" ".join(path), rest)
    return " ".join(path)


@pytest.mark.parametrize("option", MAX_LINES)
@pytest.mark.parametrize("path", PATHS)
def test_a_help_fits_80_columns_and_has_few_lines(harness: CommandLine, path: str, option: str) -> None:
    lines = harness(*path.split()[1:], option).out.splitlines()
    assert len(lines) <= MAX_LINES[option]
    assert max(map(len, lines)) <= 80


def test_every_command_has_examples_and_no_example_is_of_an_unknown_command() -> None:
    file = Path(typer_classes.__file__).with_name("examples.toml")
    assert set(tomllib.loads(file.read_text(encoding="utf-8"))) == set(PATHS)


@pytest.mark.parametrize("path", PATHS)
def test_examples_are_parsed_and_their_page_exists(path: str) -> None:
    examples, page = examples_of(path)
    parsed = [parse(line) for line in command_lines(examples)]
    assert 1 <= len(parsed) <= 4 and examples.startswith("# ")
    assert parsed[0] == path or (path in GROUPS and parsed[0].startswith(path))
    assert (DOCS.parents[1] / page).is_file()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("harness run greedy --rond demo", "--rond"),
        ("harness run a b", "unexpected extra argument"),
        ("harness score --cap many x", "whole number"),
    ],
)
def test_a_wrong_example_is_found(line: str, fault: str) -> None:
    with pytest.raises(TyperException, match=fault):
        parse(line)


@pytest.mark.parametrize("option", MAX_LINES)
def test_a_help_ends_with_the_examples_and_where_to_read_more(harness: CommandLine, option: str) -> None:
    shown = harness("list", "attacks", option).out
    more = "Read more: docs/reference/attacks.md\n"
    assert more in shown and "\nExamples:\n  # List the built-in attacks and yours\n  harness list attacks" in shown
    assert shown.endswith(more if option == "--help" else f"{more}All options: harness list attacks --help\n")


def test_the_short_help_leaves_details_out(harness: CommandLine) -> None:
    short, complete = (set(re.findall(r"^(\S.*):$", harness("run", name).out, re.MULTILINE)) for name in MAX_LINES)
    assert short == {"Arguments", "Options", "Examples"}
    assert complete - short == {"Model", "Device", "Cluster"} <= DETAILS
    assert "Ctrl-C" in harness("run", "--help").out and "Ctrl-C" not in harness("run", "-h").out


@pytest.mark.parametrize("path", GROUPS)
def test_commands_come_before_options(harness: CommandLine, path: str) -> None:
    shown = harness(*path.split()[1:], "--help").out
    first = min(shown.index(f"\n{panel}:") for panel in [*PANELS, "Commands"] if f"\n{panel}:" in shown)
    assert first < shown.index("Common options") < shown.index("\nExamples:")


@pytest.mark.parametrize(("columns", "widest"), [("60", 60), ("160", 160)])
def test_a_help_is_as_wide_as_the_terminal(
    harness: CommandLine, monkeypatch: pytest.MonkeyPatch, columns: str, widest: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = harness("sweep", "--help").out.splitlines()
    assert widest * 0.9 < max(len(line) for line in lines if "harness" not in line) <= widest


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("audit sequence", "Tokens kept by top-k.  [default: off]"),
        ("audit sequence", "Sampling temperature; 0 is greedy.  [default: 0; max 10]"),
        ("audit leakage", "Minimum probability of a beam.  [default: 0.00001]"),
        ("audit book", "[default: top_k,greedy]"),
        ("new round", "Prefix length.  [default: 50; max 4096]"),
        ("score", "Stop scoring after this many wrong rows.  [default: the round's, else 100]"),
        ("bundle rank", "The round of the bundles.  [required]"),
    ],
)
def test_defaults_and_bounds_are_in_one_bracket(harness: CommandLine, command: str, text: str) -> None:
    shown = harness(*command.split(), "--help").out
    assert " ".join(text.split()) in " ".join(shown.split())
