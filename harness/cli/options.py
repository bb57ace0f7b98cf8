"""Arguments and options that several commands share, each declared once."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.completion import attack_names, name_argument, round_names, run_names
from harness.cli.output import sanitize
from harness.core.errors import HarnessError, UsageError, missing_path
from harness.core.times import parse_duration

RUN_HELP = "A run's id, its first letters, or `latest`."
_ATTACK_HELP = "Attack to run; `harness list attacks` lists them."
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=run_names)]
Runs = Annotated[list[str], name_argument("RUN", RUN_HELP, run_names)]
AttackName = Annotated[str, name_argument("ATTACK", _ATTACK_HELP, attack_names)]
OptionalAttackName = Annotated[
    str | None, name_argument("ATTACK", f"{_ATTACK_HELP} Optional with --like.", attack_names)
]
RoundArgument = Annotated[str, name_argument("ROUND", "Name of a built-in round, or a TOML file.", round_names)]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every draw.", show_default=True)]
Attacks = Annotated[Path | None, typer.Option("--attacks", metavar="DIR", help="Directory of attacks, searched first.")]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return as soon as the run can be watched.")]
Plain = Annotated[bool, typer.Option("--plain", help="Print a status line instead of opening the TUI.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Redact = Annotated[bool, typer.Option("--redact", help="Replace text with its length and hash.")]


def round_option(help: str) -> Any:
    """Return the option `--round` with its own help text."""
    return typer.Option("--round", "-r", metavar="ROUND", help=help, autocompletion=round_names, show_default=False)


def checked_group(name: str | None) -> str | None:
    """Return the value of `--group`. Raises a usage error if it is no valid name, or that of a tuning or a sweep."""
    from harness.cli.records import noun_of_parent
    from harness.runs.tags import check_tag

    if name is not None:
        with usage_errors("--group"):
            check_tag(name, "name of a group")
            if (noun := noun_of_parent(name)) != "group":
                raise HarnessError(f"{name} is a {noun}. Use another name.")
    return name


@contextlib.contextmanager
def usage_errors(option: str) -> Iterator[None]:
    """Turn a HarnessError about the value of `option` into a usage error (exit code 2)."""
    try:
        yield
    except HarnessError as error:
        raise typer.BadParameter(sanitize(str(error)), param_hint=option) from None


@contextlib.contextmanager
def recorded_values(record: str) -> Iterator[None]:
    """Turn a UsageError into another HarnessError: the value is in `record`, so the usage is not wrong."""
    try:
        yield
    except UsageError as error:
        raise HarnessError(f"{record}: {error}") from None


def check_output_file(path: Path, *, force: bool = True) -> None:
    """Raise HarnessError if `path` is a directory, is in none that exists, or exists itself and `force` is false."""
    if path.is_dir():
        raise HarnessError(f"{path} is a directory. Name a file.")
    if path.exists() and not force:
        raise HarnessError(f"{path} exists. --force replaces it.")
    if not path.absolute().parent.is_dir():
        raise missing_path(path.parent, "directory")


def write_output(path: Path, content: bytes | str) -> None:
    """Write a file that the user named. Raises HarnessError if that fails."""
    from harness.core.files import file_errors, write_export

    with file_errors(path, "written"):
        write_export(path, content)


def make_directory(path: Path) -> None:
    """Make a directory and its parents. Raises HarnessError if that fails."""
    from harness.core.files import file_errors

    with file_errors(path, "created"):
        path.mkdir(parents=True, exist_ok=True)


def budget_seconds(text: str) -> float:
    """Return the seconds of a `--budget`. Raises a usage error if it is not a duration."""
    with usage_errors("--budget"):
        return parse_duration(text)
